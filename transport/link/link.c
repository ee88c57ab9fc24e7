/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: their states, from the first need to the end. How a connection comes about is in dial.c
 * and connection.c, what both sides say until the link is up in setup.c, what runs over it in
 * control.c and channel.c, how silence ends them in heartbeat.c.
 *
 * Both sides may dial at the same time, and a firewall may let through the connections of one side
 * only. The higher rank drops its own connection when the lower one's arrives. The lower rank takes
 * the other's as long as its own has not said HELLO, for until then the higher rank cannot have
 * accepted that one. Afterwards it answers BUSY, and takes the other's if its own comes to nothing.
 * Each side decides alone and on one thread, so exactly one connection survives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "internal.h"
#include "log.h"

enum { REST_MAX = 10000 };

/* ---- Finding and making ---------------------------------------------------------------------- */

enum rcmi_link_state rcmi_link_state(const struct rcmi_link *link) {
    /* Pairs with the store in link_set. */
    return (enum rcmi_link_state)atomic_load_explicit(&link->state, memory_order_acquire);
}

void rcmi_link_set(struct rcmi_link *link, enum rcmi_link_state state) {
    /* Pairs with the load in rcmi_link_state. */
    atomic_store_explicit(&link->state, (int)state, memory_order_release);
}

struct rcmi_link *rcmi_node_link(const struct rcmi_node *node, int peer) {
    /* Pairs with the store in link_get. */
    return atomic_load_explicit(&node->links[peer], memory_order_acquire);
}

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

/* ---- The end --------------------------------------------------------------------------------- */

/* "rank 3 (pid 123 on host h): text" */
static void link_set_why(struct rcmi_link *link, const struct rcmi_error *cause) {
    const struct rcmi_node_config *config = &link->node->config;
    const void *blob = NULL;
    const char *hostname = "?";
    size_t len = 0;
    int pid = 0;
    link->why = *cause;
    link->why.origin = link->peer;
    link->why.of_world = true;
    if (cause->status == RCM_ERR_TIMEOUT)
        link->why.status = RCM_ERR_PEER;
    if (link->peer != config->rank &&
        config->lookup(config->arg, link->peer, &blob, &len) == RCM_OK &&
        rcmi_address_process(blob, len, &pid, &hostname) == RCM_OK)
        snprintf(link->why.text, sizeof link->why.text, "rank %d (pid %d on %.64s): %.400s",
                 link->peer, pid, hostname, cause->text);
    else
        snprintf(link->why.text, sizeof link->why.text, "rank %d: %.480s", link->peer, cause->text);
}

/* Why it was lost, without "rank 3 (pid 123 on h): ". */
static const char *link_reason(const struct rcmi_link *link) {
    const char *text = strstr(link->why.text, ": ");
    return text ? text + 2 : link->why.text;
}

/* Ends the link in state ENDED or LOST, for the reason in link->why. */
static void link_end(struct rcmi_link *link, enum rcmi_link_state state) {
    struct rcmi_node *node = link->node;
    if (state == RCMI_LINK_LOST)
        rcmi_conn_refuse(link, link_reason(link));
    rcmi_conn_drop(node, link);
    rcmi_loop_timer_stop(node->loop, &link->timer);
    rcmi_control_stop(link);
    rcmi_link_set(link, state);
    rcmi_channels_link_down(link);
    rcmi_planes_down(link);
    if (state == RCMI_LINK_LOST) {
        link->lost_next = node->lost;
        node->lost = link;
        rcmi_loop_wake(node->loop);
    }
    rcmi_node_ring(node);
    rcmi_node_check_settled(node);
}

static bool link_is_over(const struct rcmi_link *link) {
    enum rcmi_link_state state = rcmi_link_state(link);
    return state == RCMI_LINK_ENDED || state == RCMI_LINK_LOST;
}

/* What the peer had sent before its farewell, and lies in sockets or queues: it is less than all
 * slots. */
static void link_take_rest(const struct rcmi_link *link) {
    bool any = true;
    (void)rcmi_planes_flushed(link);
    for (int i = 0; i < REST_MAX && any; i++)
        any = rcmi_planes_progress(link);
}

void rcmi_link_lose(struct rcmi_link *link) {
    struct rcmi_error cause = *rcmi_last_error();
    if (link_is_over(link))
        return;
    if (!link->node->broken && !rcmi_loop_is_whole(link->node->loop))
        return; /* for another reason, and all with it: rcmi_node_break is to come */
    if (link->bye_received) {
        cause = (struct rcmi_error){.status = RCM_ERR_PEER, .text = "it has left"};
        link_take_rest(link);
    }
    link_set_why(link, &cause);
    rcmi_log(RCMI_LOG_DEBUG, "link ended: %s", link->why.text);
    link_end(link, link->bye_received ? RCMI_LINK_ENDED : RCMI_LINK_LOST);
}

void rcmi_link_eof(struct rcmi_link *link) {
    if (rcmi_host_plane(link)->state ==
        RCMI_PLANE_DECLINED) { /* it has undone the link, too, or has died */
        rcmi_setup_next(link);
        return;
    }
    (void)rcmi_fail_peer(RCM_ERR_PEER, link->peer, "its connection ended without a farewell");
    rcmi_link_lose(link);
}

void rcmi_link_give_up(struct rcmi_link *link) {
    enum rcmi_link_state state = rcmi_link_state(link);
    const struct rcmi_error cause = {.status = RCM_ERR_PEER, .text = "this rank is leaving"};
    if (state != RCMI_LINK_DIALING && state != RCMI_LINK_WAITING)
        return;
    link_set_why(link, &cause);
    link_end(link, RCMI_LINK_ENDED);
}

bool rcmi_links_tell_lost(struct rcmi_node *node) {
    bool any = node->lost != NULL;
    while (node->lost && !node->closed) {
        struct rcmi_link *link = node->lost;
        node->lost = link->lost_next;
        if (node->config.peer_lost)
            node->config.peer_lost(node->config.arg, link->peer, &link->why);
    }
    if (any)
        rcmi_node_check_settled(node);
    return any;
}

/* ---- Set-up that goes on --------------------------------------------------------------------- */

void rcmi_node_link_changed(struct rcmi_node *node, int peer) {
    pthread_mutex_lock(&node->lock);
    struct rcmi_link *link = rcmi_node_link(node, peer);
    if (link && !link->changed) {
        link->changed = true;
        link->changed_next = node->changed_links;
        node->changed_links = link;
    }
    pthread_mutex_unlock(&node->lock);
    rcmi_loop_wake(node->loop);
}

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

void rcmi_node_hang_up(struct rcmi_node *node, int peer) {
    const struct rcmi_link *link = rcmi_node_link(node, peer);
    if (link && link->control.fd >= 0)
        (void)shutdown(link->control.fd, SHUT_RDWR);
}

/* ---- Dialling -------------------------------------------------------------------------------- */

void rcmi_link_conn_failed(struct rcmi_link *link, const struct rcmi_hello *hello, bool initiator,
                           bool ended) {
    bool control = hello->kind == RCMI_HELLO_CONTROL;
    if (control && initiator && ended && rcmi_link_state(link) == RCMI_LINK_WAITING) {
        /* Its own dial came to an end that it did not explain: dial again. */
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

/* Retry while DIALING; else the end of patience. */
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
    (void)rcmi_fail(RCM_ERR_TIMEOUT, 0, "the link was not made in time");
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
    if (rcmi_host_plane(link)->state ==
        RCMI_PLANE_DECLINED) /* it has undone that link, and dials anew */
        rcmi_setup_next(link);
    switch (rcmi_link_state(link)) {
    case RCMI_LINK_DIALING:
        if (link->peer > node->config.rank && rcmi_conn_has_greeted(link)) {
            reply_set(reply, RCMI_REPLY_BUSY, "this rank is calling itself");
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
        reply_set(reply, RCMI_REPLY_REFUSED, link_reason(link));
        return;
    default:
        reply_set(reply, RCMI_REPLY_REFUSED, "the two ranks are linked already, or were");
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
    bool wanted = rcmi_link_state(link) == RCMI_LINK_SETUP && !link->initiator && plane->accepted &&
                  plane->domain == domain && index < domain->transport->data_sockets &&
                  !(plane->attached >> index & 1);
    reply_set(reply, wanted ? RCMI_REPLY_OK : RCMI_REPLY_REFUSED,
              wanted ? "" : "this data connection is not expected");
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
        reply_set(reply, RCMI_REPLY_REFUSED, "this process is another rank, or of another world");
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

/* ---- Farewell -------------------------------------------------------------------------------- */

void rcmi_link_say_bye(struct rcmi_link *link) {
    if (link->bye_sent || rcmi_link_state(link) != RCMI_LINK_UP ||
        link->peer == link->node->config.rank)
        return;
    link->bye_sent = true;
    rcmi_control_send(link, rcmi_frame_new(RCMI_FRAME_BYE, 0));
}

/* What lies in a socket is lost if its end is closed before the other side has acknowledged it, as
 * after a cut of the network, and something has come that was not read. So a farewell is answered,
 * and its sender stays until then. */
void rcmi_link_bye_acked(struct rcmi_link *link) {
    link->bye_acked = true;
    rcmi_node_check_settled(link->node);
}

void rcmi_link_bye(struct rcmi_link *link) {
    link->bye_received = true;
    rcmi_control_send(link, rcmi_frame_new(RCMI_FRAME_BYE_ACK, 0));
    link->node->unanswered = true;
    rcmi_node_check_settled(link->node);
    rcmi_loop_wake(link->node->loop);
}

bool rcmi_link_answer_bye(struct rcmi_link *link) {
    const struct rcmi_node_config *config = &link->node->config;
    if (!link->bye_received || link->bye_sent || rcmi_link_state(link) != RCMI_LINK_UP)
        return true;
    if (!config->peer_done || !config->peer_done(config->arg, link->peer))
        return false;
    rcmi_link_say_bye(link);
    return true;
}

bool rcmi_link_settled(const struct rcmi_link *link) {
    switch (rcmi_link_state(link)) {
    case RCMI_LINK_UP:
        return link->peer == link->node->config.rank ||
               (link->bye_sent && !link->out.head &&
                ((link->bye_acked && (link->bye_received || link->node->hurries)) ||
                 link->excused));
    case RCMI_LINK_DIALING:
    case RCMI_LINK_WAITING:
    case RCMI_LINK_SETUP:
        return link->excused;
    default:
        return true;
    }
}

/* A row's own threads may say that it changed until then. */
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
    rcmi_opening_forget(link);
    rcmi_planes_free(link);
    link_forget(link);
    free(link->in);
    free(link->targets);
    free(link);
}
