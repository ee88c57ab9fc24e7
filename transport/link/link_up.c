/* SPDX-License-Identifier: BSD-3-Clause */
/* Both sides are ready: brings the plane up, and the link with the host plane. See setup.c. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "link.h"
#include "log.h"

static void log_up(struct rcmi_link *link) {
    const char *name = rcmi_plane_name(rcmi_host_plane(link));
    if (link->detour[0] && !link->same_host)
        rcmi_log(RCMI_LOG_WARN, "linked to rank %d by %s: its Unix socket does not work: %s",
                 link->peer, name, link->detour);
    else
        rcmi_log(RCMI_LOG_DEBUG, "linked to rank %d by %s", link->peer, name);
}

void rcmi_setup_up(struct rcmi_link *link) {
    struct rcmi_node *node = link->node;
    rcmi_loop_timer_stop(node->loop, &link->timer);
    link->was_up = true;
    rcmi_host_plane(link)->state = RCMI_PLANE_UP;
    atomic_store_explicit(&link->by, rcmi_plane_name(rcmi_host_plane(link)), memory_order_release);
    rcmi_link_set(link, RCMI_LINK_UP);
    free(link->targets);
    link->targets = NULL;
    log_up(link);
    if (node->config.linked)
        node->config.linked(node->config.arg, link->peer);
    rcmi_plane_link_up(link);
    rcmi_setup_check(&link->planes[RCMI_MEM_DEVICE]);
    node->link_above->link_up(link);
    rcmi_outbox_repeat(link);
    if (node->leaving)
        rcmi_link_send_bye(link);
    rcmi_control_flush(link);
    rcmi_node_ring(node);
    rcmi_node_check_settled(node);
}

/* Returns "a+b" for the names of two backends; static storage. */
static const char *names_join(const char *a, const char *b) {
    enum { PAIRS = RCMI_TRANSPORTS_MAX * RCMI_TRANSPORTS_MAX };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char pairs[PAIRS][40]; /* each is written once, under the lock */
    char pair[sizeof pairs[0]];
    int i = 0;
    snprintf(pair, sizeof pair, "%s+%s", a, b);
    pthread_mutex_lock(&lock);
    while (i < PAIRS - 1 && pairs[i][0] && strcmp(pairs[i], pair) != 0)
        i++;
    if (!pairs[i][0])
        memcpy(pairs[i], pair, sizeof pair);
    pthread_mutex_unlock(&lock);
    return pairs[i];
}

static void setup_plane_up(struct rcmi_plane *plane) {
    if (rcmi_plane_is_host(plane)) {
        rcmi_setup_up(plane->link);
        return;
    }
    plane->state = RCMI_PLANE_UP;
    atomic_store_explicit(
        &plane->link->by,
        names_join(rcmi_plane_name(rcmi_host_plane(plane->link)), rcmi_plane_name(plane)),
        memory_order_release);
    rcmi_log(RCMI_LOG_DEBUG, "%s to rank %d by %s", rcmi_plane_noun(plane), plane->link->peer,
             rcmi_plane_name(plane));
    rcmi_plane_decided(plane);
}

static bool setup_is_complete(const struct rcmi_plane *plane) {
    const uint64_t all = ((uint64_t)1 << plane->domain->transport->data_sockets) - 1;
    return plane->offered && plane->accepted && plane->attached == all;
}

void rcmi_setup_check(struct rcmi_plane *plane) {
    struct rcmi_link *link = plane->link;
    if (plane->state != RCMI_PLANE_SETUP || link->failing.status != RCM_OK ||
        !setup_is_complete(plane))
        return;
    if (!plane->ready) {
        const rcm_status status = plane->domain->transport->link_ready(plane->data);
        if (status != RCM_OK && status != RCM_AGAIN)
            rcmi_setup_failed(plane, status);
        if (status != RCM_OK)
            return;
        plane->ready = true;
        rcmi_setup_send(plane, RCMI_FRAME_READY, "");
    }
    if (plane->peer_ready && plane->state == RCMI_PLANE_SETUP)
        setup_plane_up(plane);
}

rcm_status rcmi_setup_on_ready(struct rcmi_plane *plane) {
    if (plane->state == RCMI_PLANE_DECLINED)
        return RCM_OK;
    if (!plane->accepted || plane->peer_ready)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it is ready %s",
                         plane->peer_ready ? "twice" : "before its offer");
    plane->peer_ready = true;
    rcmi_setup_check(plane);
    return RCM_OK;
}

static void setup_dial_data(struct rcmi_link *link) {
    const int64_t limit = 4 * link->node->peer_timeout_ms;
    for (int i = 0; i < rcmi_host_plane(link)->domain->transport->data_sockets; i++) {
        const rcm_status status = rcmi_conn_dial(link, RCMI_HELLO_DATA, i, limit, true);
        if (status == RCM_AGAIN)
            (void)rcmi_fail(RCM_ERR_RESOURCE, 0, "its accept queue is full");
        if (status != RCM_OK) {
            rcmi_link_lose(link);
            return;
        }
    }
}

/* A plane that starts with the peer's offer may be ready at once. */
static bool plane_look_and_check(struct rcmi_plane *plane) {
    const bool any = rcmi_plane_look(plane);
    if (any)
        rcmi_setup_check(plane);
    return any;
}

rcm_status rcmi_setup_on_offer(struct rcmi_plane *plane, struct rcmi_blob *blob) {
    struct rcmi_link *link = plane->link;
    if (plane->state == RCMI_PLANE_DECLINED)
        return RCM_OK;
    if (plane->accepted || plane->held)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it sent a second offer");
    if (plane->state == RCMI_PLANE_NONE) {
        rcmi_plane_hold(plane, blob);
        (void)plane_look_and_check(plane);
        return RCM_OK;
    }
    if (rcmi_plane_is_host(plane) && link->initiator && !plane->offered)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it sent an offer before it received one");
    if (!rcmi_setup_accept(plane, blob))
        return RCM_OK;
    if (rcmi_plane_is_host(plane) && link->initiator)
        setup_dial_data(link);
    else if (rcmi_plane_is_host(plane))
        rcmi_setup_offer(plane);
    rcmi_setup_check(plane);
    return RCM_OK;
}

void rcmi_planes_check(struct rcmi_link *link) {
    for (int i = 0; i < RCMI_MEM_KINDS; i++)
        rcmi_setup_check(&link->planes[i]);
}

void rcmi_plane_need(struct rcmi_link *link) {
    link->planes[RCMI_MEM_DEVICE].needed = true;
    (void)plane_look_and_check(&link->planes[RCMI_MEM_DEVICE]);
}

bool rcmi_planes_take_device(struct rcmi_node *node) {
    bool any = false;
    if (node->device_seen || !rcmi_node_device(node))
        return false;
    node->device_seen = true;
    for (int i = 0; i < node->config.nranks; i++) {
        struct rcmi_link *link = rcmi_node_link(node, i);
        any = (link && plane_look_and_check(&link->planes[RCMI_MEM_DEVICE])) || any;
    }
    return any;
}
