/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: their states, from the first use to the end. Connections are made in net/ (dial.c,
 * connection.c); setup.c brings the link up; control.c and channel/ use it; heartbeat.c ends silent
 * ones.
 *
 * Both sides may dial at the same time, and a firewall may pass the connections of one side only.
 * The higher rank drops its own connection when the lower rank's arrives. The lower rank accepts
 * the higher rank's connection as long as its own has not sent HELLO. Until then the higher rank
 * cannot have accepted that one. Afterwards it answers BUSY, and accepts the other's if its own
 * fails. Each side decides alone and on one thread, so exactly one connection survives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "link.h"
#include "log.h"

/* ---- Finding and making ---------------------------------------------------------------------- */

static void link_timer(void *arg);

static struct rcmi_link *link_get(struct rcmi_node *node, int peer) {
    struct rcmi_link *link = rcmi_node_link(node, peer);
    if (link)
        return link;
    link = rcmi_zalloc(sizeof *link);
    if (!link)
        return NULL;
    link->node = node;
    link->peer = peer;
    link->control.fd = -1;
    rcmi_planes_init(link);
    link->timer = (struct rcmi_timer){.fire = link_timer, .arg = link};
    /* Pairs with the load in rcmi_node_link. */
    atomic_store_explicit(&node->links[peer], link, memory_order_release);
    return link;
}

/* ---- Set-up that continues ------------------------------------------------------------------- */

bool rcmi_links_take_changed(struct rcmi_node *node) {
    bool any = false;
    for (;;) {
        pthread_mutex_lock(&node->lock);
        struct rcmi_link *link = node->changed_links;
        if (link) {
            node->changed_links = link->changed_next;
            link->changed = false;
        }
        pthread_mutex_unlock(&node->lock);
        if (!link)
            return any;
        any = true;
        rcmi_planes_check(link);
    }
}

/* ---- Dialling -------------------------------------------------------------------------------- */

void rcmi_link_conn_failed(struct rcmi_link *link, const struct rcmi_hello *hello, bool initiator,
                           bool ended) {
    bool control = hello->kind == RCMI_HELLO_CONTROL;
    if (control && initiator && ended && rcmi_link_state(link) == RCMI_LINK_WAITING) {
        /* The peer's own dial ended without an explanation: dial again. */
        link->trying = rcmi_deadline_in(link->node->peer_timeout_ms);
        link->redial_until = 0;
        rcmi_link_set(link, RCMI_LINK_DIALING);
    }
    if (control && initiator && rcmi_link_state(link) == RCMI_LINK_DIALING) {
        if (!rcmi_conn_take_held(link))
            rcmi_dial_failed(link, ended);
        return;
    }
    if (!control && initiator && ended && link->retries++ < RCMI_DATA_RETRIES &&
        rcmi_conn_dial(link, RCMI_HELLO_DATA, hello->index, 4 * link->node->peer_timeout_ms,
                       true) == RCM_OK)
        return;
    rcmi_setup_fail(link);
}

/* Retries while DIALING; in other states the time limit has expired. */
static void link_timer(void *arg) {
    struct rcmi_link *link = arg;
    if (rcmi_link_state(link) == RCMI_LINK_DIALING) {
        rcmi_dial_continue(link);
        return;
    }
    if (link->failing.status != RCM_OK) {
        *rcmi_last_error() = link->failing;
        rcmi_link_lose(link);
        return;
    }
    (void)rcmi_fail(RCM_ERR_TIMEOUT, 0, "the link was not established in time");
    rcmi_link_lose(link);
}

/* ---- Which side dials ------------------------------------------------------------------------ */

struct rcmi_link *rcmi_link_need(struct rcmi_node *node, int peer) {
    struct rcmi_link *link = link_get(node, peer);
    if (!link || rcmi_link_state(link) != RCMI_LINK_NONE)
        return link;
    if (peer == node->config.rank) {
        rcmi_host_plane(link)->offered = rcmi_host_plane(link)->accepted = true;
        if (rcmi_setup_claim(link, &node->domains[node->ndomains - 1], true) == RCM_OK)
            rcmi_setup_up(link);
        else
            rcmi_link_lose(link);
        return link;
    }
    rcmi_link_set(link, RCMI_LINK_DIALING);
    rcmi_dial_start(link);
    return link;
}

void rcmi_link_busy(struct rcmi_link *link) {
    if (rcmi_link_state(link) != RCMI_LINK_DIALING)
        return;
    rcmi_link_set(link, RCMI_LINK_WAITING);
    rcmi_loop_timer(link->node->loop, &link->timer, link->patience);
}

static void reply_set(struct rcmi_reply *reply, enum rcmi_reply_status status, const char *text) {
    reply->status = (uint16_t)status;
    snprintf(reply->text, sizeof reply->text, "%.150s", text);
}

static void judge_control(struct rcmi_link *link, struct rcmi_domain *domain,
                          struct rcmi_reply *reply) {
    struct rcmi_node *node = link->node;
    /* The peer has undone the declined link already and dials anew. */
    if (rcmi_host_plane(link)->state == RCMI_PLANE_DECLINED)
        rcmi_setup_next(link);
    switch (rcmi_link_state(link)) {
    case RCMI_LINK_DIALING:
        if (link->peer > node->config.rank && rcmi_conn_has_greeted(link)) {
            reply_set(reply, RCMI_REPLY_BUSY, "this rank is dialling the other one");
            return;
        }
        rcmi_conn_drop(node, link);
        break;
    case RCMI_LINK_WAITING:
        rcmi_conn_drop(node, link);
        break;
    case RCMI_LINK_NONE:
        break;
    case RCMI_LINK_LOST:
        reply_set(reply, RCMI_REPLY_REFUSED, rcmi_link_reason(link));
        return;
    default:
        reply_set(reply, RCMI_REPLY_REFUSED, "the two ranks are or were linked already");
        return;
    }
    if (rcmi_setup_claim(link, domain, false) == RCM_OK) {
        reply_set(reply, RCMI_REPLY_OK, "");
        return;
    }
    reply_set(reply, RCMI_REPLY_REFUSED, rcm_last_error());
    rcmi_link_lose(link);
}

static void judge_data(const struct rcmi_link *link, const struct rcmi_domain *domain, int index,
                       struct rcmi_reply *reply) {
    const struct rcmi_plane *plane = &link->planes[RCMI_MEM_HOST];
    bool expected = rcmi_link_state(link) == RCMI_LINK_SETUP && !link->initiator &&
                    plane->accepted && plane->domain == domain &&
                    index < domain->transport->data_sockets && !(plane->attached >> index & 1);
    reply_set(reply, expected ? RCMI_REPLY_OK : RCMI_REPLY_REFUSED,
              expected ? "" : "this data connection is not expected");
}

static struct rcmi_domain *judge_domain(struct rcmi_node *node, const char *name, bool same_host) {
    for (int i = 0; i < node->ndomains - 1; i++) /* the last loops back */
        if (strcmp(node->domains[i].transport->name, name) == 0 &&
            node->domains[i].transport->kind == RCMI_MEM_HOST &&
            node->domains[i].transport->same_host == same_host)
            return &node->domains[i];
    return NULL;
}

bool rcmi_link_is_peer(const struct rcmi_node *node, const struct rcmi_hello *hello) {
    const struct rcmi_node_config *config = &node->config;
    return hello->job == config->job && hello->to == (uint32_t)config->rank &&
           hello->nranks == (uint32_t)config->nranks && hello->from < hello->nranks &&
           hello->from != hello->to;
}

void rcmi_link_judge(struct rcmi_node *node, const struct rcmi_hello *hello, bool same_host,
                     struct rcmi_reply *reply, struct rcmi_link **ret_link) {
    const struct rcmi_node_config *config = &node->config;
    struct rcmi_domain *domain = judge_domain(node, hello->transport, same_host);
    struct rcmi_link *link = NULL;
    if (hello->job != config->job)
        reply_set(reply, RCMI_REPLY_REFUSED, "this process belongs to another job");
    else if (!rcmi_link_is_peer(node, hello))
        reply_set(reply, RCMI_REPLY_REFUSED,
                  "this process has another rank, or belongs to another world");
    else if (!domain)
        reply_set(reply, RCMI_REPLY_REFUSED, "the transport is not enabled here");
    else if (!(link = link_get(node, (int)hello->from)))
        reply_set(reply, RCMI_REPLY_REFUSED, "out of memory");
    else if (link->passed_over >> (domain - node->domains) & 1)
        reply_set(reply, RCMI_REPLY_REFUSED, "the transport was declined");
    else if (hello->kind == RCMI_HELLO_CONTROL)
        judge_control(link, domain, reply);
    else if (hello->kind == RCMI_HELLO_DATA)
        judge_data(link, domain, hello->index, reply);
    else
        reply_set(reply, RCMI_REPLY_REFUSED, "unknown kind of connection");
    if (reply->status == RCMI_REPLY_OK)
        *ret_link = link;
    else
        rcmi_log(RCMI_LOG_DEBUG, "refused a connection of rank %u: %s", hello->from, reply->text);
}

/* ---- End ------------------------------------------------------------------------------------- */

/* Until it is removed here, a backend's own threads may queue the link (rcmi_node_link_changed). */
static void link_forget(struct rcmi_link *link) {
    struct rcmi_node *node = link->node;
    pthread_mutex_lock(&node->lock);
    atomic_store_explicit(&node->links[link->peer], NULL, memory_order_relaxed);
    struct rcmi_link **at = &node->changed_links;
    while (*at && *at != link)
        at = &(*at)->changed_next;
    if (*at)
        *at = link->changed_next;
    pthread_mutex_unlock(&node->lock);
}

void rcmi_link_free(struct rcmi_link *link) {
    struct rcmi_node *node = link->node;
    rcmi_conn_drop(node, link);
    rcmi_loop_timer_stop(node->loop, &link->timer);
    rcmi_control_stop(link);
    node->link_above->forget(link);
    rcmi_planes_free(link);
    link_forget(link);
    free(link->in);
    free(link->targets);
    free(link);
}
