/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events of a device: some break all links of a port, some one link, each with a
 * sentence; others are only logged. Events of the path, and of queue pairs that belong to no link,
 * are ignored: completions report the failures that they cause.
 */
#include <errno.h>
#include "log.h"
#include "verbs.h"

enum effect { EFFECT_NONE, EFFECT_WARN, EFFECT_INFO, EFFECT_LINK, EFFECT_LINKS };

struct event_effect {
    enum ibv_event_type type;
    enum effect effect;
    const char *sentence;
};

/* Sentences of EFFECT_WARN and EFFECT_INFO have the port as their subject. */
static const struct event_effect effects[] = {
    {IBV_EVENT_PORT_ERR, EFFECT_WARN, "is down; sends are retried until RINGCOMM_PEER_TIMEOUT"},
    {IBV_EVENT_PORT_ACTIVE, EFFECT_INFO, "is up"},
    {IBV_EVENT_LID_CHANGE, EFFECT_WARN,
     "has another LID; existing links may end, because peers use the old one"},
    {IBV_EVENT_GID_CHANGE, EFFECT_INFO, "has other addresses"},
    {IBV_EVENT_PKEY_CHANGE, EFFECT_WARN, "is in other partitions; existing links may end"},
    {IBV_EVENT_SM_CHANGE, EFFECT_INFO, "has another subnet manager"},
    {IBV_EVENT_DEVICE_FATAL, EFFECT_LINKS,
     "the device is broken, and its driver resets it (see the kernel's log)"},
    {IBV_EVENT_CQ_ERR, EFFECT_LINKS, "its completion queue is broken (overflow)"},
    {IBV_EVENT_QP_FATAL, EFFECT_LINK, "the device gave up its queue pair"},
    {IBV_EVENT_QP_REQ_ERR, EFFECT_LINK, "the other side sent what its queue pair does not take"},
    {IBV_EVENT_QP_ACCESS_ERR, EFFECT_LINK, "the other side wrote where it may not"},
};

static const struct event_effect *effect_of(enum ibv_event_type type) {
    static const struct event_effect none = {.effect = EFFECT_NONE};
    for (size_t i = 0; i < sizeof effects / sizeof effects[0]; i++)
        if (effects[i].type == type)
            return &effects[i];
    return &none;
}

/* qp: only if it is the link's queue pair; NULL: unconditionally. */
static void link_fail(struct verbs_port *port, int peer, const struct ibv_qp *qp,
                      const char *sentence) {
    struct verbs_link *link = port->links[peer];
    if (!link)
        return;
    verbs_lock_take(&link->lock);
    if (!qp || link->qp == qp) {
        (void)rcmi_fail_peer(RCM_ERR_SYSTEM, peer, "RDMA with rank %d by %s failed: %s", peer,
                             port->name, sentence);
        verbs_link_break(link);
    }
    verbs_lock_drop(&link->lock);
}

void verbs_port_fail(struct verbs_port *port, const char *sentence) {
    for (int peer = 0; peer < port->domain->nranks; peer++)
        link_fail(port, peer, NULL, sentence);
}

/* A queue pair's context is the peer's rank. */
static void qp_fail(struct verbs_port *port, const struct ibv_qp *qp, const char *sentence) {
    const intptr_t peer = (intptr_t)qp->qp_context;
    if (peer >= 0 && peer < port->domain->nranks)
        link_fail(port, (int)peer, qp, sentence);
}

/* An event of a port contains the port's number; the device may have other ports. */
static bool is_mine(const struct verbs_port *port, const struct ibv_async_event *event) {
    return event->element.port_num == port->number;
}

static void event_take(struct verbs_port *port, const struct ibv_async_event *event) {
    const struct event_effect *effect = effect_of(event->event_type);
    switch (effect->effect) {
    case EFFECT_NONE:
        break;
    case EFFECT_WARN:
    case EFFECT_INFO:
        if (is_mine(port, event))
            rcmi_log(effect->effect == EFFECT_WARN ? RCMI_LOG_WARN : RCMI_LOG_INFO, "%s %s",
                     port->name, effect->sentence);
        break;
    case EFFECT_LINK:
        qp_fail(port, event->element.qp, effect->sentence);
        break;
    case EFFECT_LINKS:
        verbs_port_fail(port, effect->sentence);
    }
}

/* Events cannot be read any more: the device is gone, and its descriptor stays readable. */
static void events_end(struct verbs_port *port) {
    rcmi_loop_unwatch(rcmi_node_loop(port->domain->node), &port->events);
    verbs_port_fail(port, "the device's asynchronous events cannot be read: it may be gone");
}

void verbs_port_events(void *arg, uint32_t events) {
    struct verbs_port *port = arg;
    struct ibv_async_event event;
    (void)events;
    while (errno = EAGAIN, port->domain->table->get_async_event(port->context, &event) == 0) {
        event_take(port, &event);
        port->domain->table->ack_async_event(&event);
    }
    if (errno != EAGAIN && errno != EINTR)
        events_end(port);
}
