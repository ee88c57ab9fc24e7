/* SPDX-License-Identifier: BSD-3-Clause */
/* The farewell of a node: sends it on all links, waits for the peers' farewells, excuses peers. For
 * one link see link_farewell.c. */
#include <time.h>
#include "link.h"
#include "thread.h"

static void node_send_bye(void *arg) {
    struct rcmi_node *node = arg;
    rcmi_outbox_flush(node);
    node->leaving = true;
    for (int i = 0; i < node->config.nranks; i++) {
        struct rcmi_link *link = rcmi_node_link(node, i);
        if (link)
            rcmi_link_give_up(link);
        if (link)
            rcmi_link_send_bye(link);
    }
    rcmi_node_check_settled(node);
}

struct excuse {
    struct rcmi_node *node;
    int peer;
};

static void node_excuse(void *arg) {
    const struct excuse *excuse = arg;
    struct rcmi_link *link = rcmi_node_link(excuse->node, excuse->peer);
    if (link)
        link->excused = true;
}

void rcmi_node_excuse(struct rcmi_node *node, int peer) {
    struct excuse excuse = {.node = node, .peer = peer};
    if (peer >= 0 && peer < node->config.nranks && rcmi_node_link(node, peer))
        rcmi_loop_call(node->loop, node_excuse, &excuse);
}

struct unsettled {
    const struct rcmi_node *node;
    int peer, count;
};

static void node_find_unsettled(void *arg) {
    struct unsettled *find = arg;
    for (int i = find->node->config.nranks - 1; i >= 0; i--) {
        const struct rcmi_link *link = rcmi_node_link(find->node, i);
        if (link && !rcmi_link_settled(link)) {
            find->peer = i;
            find->count++;
        }
    }
}

static bool farewell_is_over(const struct rcmi_node *node, const _Atomic int *failed) {
    return node->settled || (failed && atomic_load_explicit(failed, memory_order_acquire) != 0);
}

void rcmi_node_farewell_look(struct rcmi_node *node) {
    pthread_mutex_lock(&node->lock);
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
}

static void node_hurry(void *arg) {
    struct rcmi_node *node = arg;
    node->hurries = true;
    node_send_bye(node);
}

struct flush {
    const struct rcmi_node *node;
    bool done;
};

/* Loop thread. Polls every link even after the first unflushed one, so that all flush at the same
 * time. */
static void node_look_flushed(void *arg) {
    struct flush *flush = arg;
    flush->done = true;
    for (int i = 0; i < flush->node->config.nranks; i++) {
        const struct rcmi_link *link = rcmi_node_link(flush->node, i);
        if (link && rcmi_link_state(link) == RCMI_LINK_UP && !rcmi_planes_flushed(link))
            flush->done = false;
    }
}

/* Moves committed data until all links report it as flushed (link_flushed). */
static void node_flush(struct rcmi_node *node, rcmi_deadline deadline) {
    const struct timespec pause = {.tv_nsec = 50000};
    struct flush flush = {.node = node};
    while (rcmi_node_progress(node) && !rcmi_deadline_passed(deadline))
        ;
    for (;;) {
        rcmi_loop_call(node->loop, node_look_flushed, &flush);
        if (flush.done || rcmi_deadline_passed(deadline))
            return;
        (void)nanosleep(&pause, NULL);
    }
}

void rcmi_node_leave(struct rcmi_node *node, rcmi_deadline deadline) {
    node_flush(node, deadline);
    rcmi_loop_call(node->loop, node_hurry, node);
    pthread_mutex_lock(&node->lock);
    while (!node->settled && rcmi_condition_wait(&node->changed, &node->lock, deadline))
        ;
    pthread_mutex_unlock(&node->lock);
    node_flush(node, deadline);
}

rcm_status rcmi_node_farewell(struct rcmi_node *node, rcmi_deadline deadline,
                              const _Atomic int *failed) {
    rcmi_loop_call(node->loop, node_send_bye, node);
    pthread_mutex_lock(&node->lock);
    while (!farewell_is_over(node, failed) &&
           rcmi_condition_wait(&node->changed, &node->lock, deadline))
        ;
    bool over = farewell_is_over(node, failed);
    pthread_mutex_unlock(&node->lock);
    if (over)
        return RCM_OK;
    struct unsettled find = {.node = node, .peer = -1};
    rcmi_loop_call(node->loop, node_find_unsettled, &find);
    return rcmi_fail_peer(RCM_ERR_TIMEOUT, find.peer,
                          "rank %d and %d others did not send their farewell in time", find.peer,
                          find.count - 1);
}
