/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events of a device: what breaks all links of a port or one of them, each with a
 * sentence, and what is only told. Events of other queue pairs than those of links, and of the
 * path, mean nothing here: what fails by them says so by its completions.
 */
#include <errno.h>
#include "log.h"
#include "verbs.h"

enum effect { EFFECT_NONE, EFFECT_WARN, EFFECT_TELL, EFFECT_LINK, EFFECT_LINKS };

struct event_row {
    enum ibv_event_type type;
    enum effect effect;
    const char *sentence;
};

/* Of the first ones the port is the subject. */
static const struct event_row rows[] = {
    {IBV_EVENT_PORT_ERR, EFFECT_WARN,
     "is down; what is sent by it is tried again until RINGCOMM_PEER_TIMEOUT"},
    {IBV_EVENT_PORT_ACTIVE, EFFECT_TELL, "is up"},
    {IBV_EVENT_LID_CHANGE, EFFECT_WARN,
     "has another LID; links that are there may end, since peers know the old one"},
    {IBV_EVENT_GID_CHANGE, EFFECT_TELL, "has other addresses"},
    {IBV_EVENT_PKEY_CHANGE, EFFECT_WARN, "is in other partitions; links that are there may end"},
    {IBV_EVENT_SM_CHANGE, EFFECT_TELL, "has another subnet manager"},
    {IBV_EVENT_DEVICE_FATAL, EFFECT_LINKS,
     "the device is broken, and its driver resets it (the kernel's log says why)"},
    {IBV_EVENT_CQ_ERR, EFFECT_LINKS, "its completion queue is broken (more came than fits)"},
    {IBV_EVENT_QP_FATAL, EFFECT_LINK, "the device gave up its queue pair"},
    {IBV_EVENT_QP_REQ_ERR, EFFECT_LINK, "the other side sent what its queue pair does not take"},
    {IBV_EVENT_QP_ACCESS_ERR, EFFECT_LINK, "the other side wrote where it may not"},
};

static const struct event_row *row_of(enum ibv_event_type type) {
    static const struct event_row none = {.effect = EFFECT_NONE};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].type == type)
            return &rows[i];
    return &none;
}

/* qp: only if it is the link's; NULL: in any case. */
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

/* Events of ports name theirs, of which a device may have others. */
static bool is_mine(const struct verbs_port *port, const struct ibv_async_event *event) {
    return event->element.port_num == port->number;
}

static void event_take(struct verbs_port *port, const struct ibv_async_event *event) {
    const struct event_row *row = row_of(event->event_type);
    switch (row->effect) {
    case EFFECT_NONE:
        break;
    case EFFECT_WARN:
    case EFFECT_TELL:
        if (is_mine(port, event))
            rcmi_log(row->effect == EFFECT_WARN ? RCMI_LOG_WARN : RCMI_LOG_INFO, "%s %s",
                     port->name, row->sentence);
        break;
    case EFFECT_LINK:
        qp_fail(port, event->element.qp, row->sentence);
        break;
    case EFFECT_LINKS:
        verbs_port_fail(port, row->sentence);
    }
}

/* They cannot be read, now or later: the device is gone, and its descriptor stays ready. */
static void events_end(struct verbs_port *port) {
    rcmi_loop_unwatch(rcmi_node_loop(port->domain->node), &port->events);
    verbs_port_fail(port, "what the device says of itself cannot be read: it may be gone");
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
