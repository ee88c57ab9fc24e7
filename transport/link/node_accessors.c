/* SPDX-License-Identifier: BSD-3-Clause */
/* State and settings of a node and its links, for any thread; includes accessors for backends
 * (backend.h). */
#include <errno.h>
#include "link.h"

bool rcmi_node_closes(const struct rcmi_node *node) {
    return node->closed;
}

bool rcmi_node_progress(struct rcmi_node *node) {
    bool any = false;
    for (int i = 0; i < node->ndomains; i++)
        any = node->domains[i].transport->progress(node->domains[i].data) || any;
    return any;
}

void rcmi_node_arm(struct rcmi_node *node) {
    for (int i = 0; i < node->ndomains; i++)
        node->domains[i].transport->arm(node->domains[i].data);
}

struct rcmi_doorbell *rcmi_node_doorbell(struct rcmi_node *node) {
    return node->doorbell;
}

void rcmi_node_ring(struct rcmi_node *node) {
    const bool broken = rcmi_node_is_broken(node);
    rcmi_doorbell_ring_all(node->doorbell, broken ? -1 : rcmi_loop_eventfd(node->loop),
                           broken ? -1 : node->poller_fd);
}

struct rcmi_loop *rcmi_node_loop(struct rcmi_node *node) {
    return node->loop;
}

int rcmi_node_rank(const struct rcmi_node *node) {
    return node->config.rank;
}

int rcmi_node_nranks(const struct rcmi_node *node) {
    return node->config.nranks;
}

int rcmi_node_local_rank(const struct rcmi_node *node) {
    return node->config.local_rank < 0 ? node->config.rank : node->config.local_rank;
}

const char *rcmi_node_near(const struct rcmi_node *node) {
    return node->config.near;
}

void rcmi_node_use_device(struct rcmi_node *node, struct rcmi_device *device) {
    atomic_store_explicit(&node->device, device, memory_order_release);
    rcmi_loop_wake(node->loop);
}

struct rcmi_device *rcmi_node_device(const struct rcmi_node *node) {
    return atomic_load_explicit(&node->device, memory_order_acquire);
}

uint64_t rcmi_node_job(const struct rcmi_node *node) {
    return node->config.job;
}

void *rcmi_node_domain(const struct rcmi_node *node, const struct rcmi_transport *backend) {
    for (int i = 0; i < node->ndomains; i++)
        if (node->domains[i].transport == backend)
            return node->domains[i].data;
    return NULL;
}

const struct rcmi_transport *rcmi_node_backend(const struct rcmi_node *node, const void *domain) {
    for (int i = 0; i < node->ndomains; i++)
        if (node->domains[i].data == domain)
            return node->domains[i].transport;
    return NULL;
}

const char *rcmi_node_transport(struct rcmi_node *node, int peer) {
    const struct rcmi_link *link =
        peer >= 0 && peer < node->config.nranks ? rcmi_node_link(node, peer) : NULL;
    if (!link || rcmi_link_state(link) != RCMI_LINK_UP)
        return "";
    return atomic_load_explicit(&link->by, memory_order_acquire);
}

bool rcmi_node_gone(const struct rcmi_node *node, int peer) {
    const struct rcmi_link *link =
        peer >= 0 && peer < node->config.nranks ? rcmi_node_link(node, peer) : NULL;
    const enum rcmi_link_state state = link ? rcmi_link_state(link) : RCMI_LINK_NONE;
    return state == RCMI_LINK_LOST || state == RCMI_LINK_ENDED;
}

bool rcmi_node_lost(const struct rcmi_node *node, int peer, struct rcmi_error *ret_why) {
    const struct rcmi_link *link =
        peer >= 0 && peer < node->config.nranks ? rcmi_node_link(node, peer) : NULL;
    if (!link || rcmi_link_state(link) != RCMI_LINK_LOST)
        return false;
    *ret_why = link->why; /* written before the state; never changes afterwards */
    return true;
}

bool rcmi_node_was_linked(const struct rcmi_node *node, int peer) {
    const struct rcmi_link *link =
        peer >= 0 && peer < node->config.nranks ? rcmi_node_link(node, peer) : NULL;
    const enum rcmi_link_state state = link ? rcmi_link_state(link) : RCMI_LINK_NONE;
    return state == RCMI_LINK_UP ||
           ((state == RCMI_LINK_LOST || state == RCMI_LINK_ENDED) && link->was_up);
}

void rcmi_node_set_head(struct rcmi_node *node, struct rcmi_doorbell *doorbell, void *status_page) {
    node->doorbell = doorbell;
    node->status_page = status_page;
}

void *rcmi_node_status_page(struct rcmi_node *node) {
    return node->status_page;
}

void rcmi_node_set_peer_page(struct rcmi_node *node, int peer, const void *page) {
    /* Pairs with the load in rcmi_node_peer_status_page. */
    atomic_store_explicit(&rcmi_node_link(node, peer)->status_page, page, memory_order_release);
}

void rcmi_node_set_peer_wake(struct rcmi_node *node, int peer, const struct rcmi_wake *wake) {
    rcmi_node_link(node, peer)->wake = *wake;
}

bool rcmi_node_peer_wake(const struct rcmi_node *node, int peer, struct rcmi_wake *ret_wake) {
    *ret_wake = rcmi_node_link(node, peer)->wake;
    return ret_wake->doorbell != NULL;
}

const void *rcmi_node_peer_status_page(struct rcmi_node *node, int peer) {
    const struct rcmi_link *link =
        peer >= 0 && peer < node->config.nranks ? rcmi_node_link(node, peer) : NULL;
    /* Pairs with the store in rcmi_node_set_peer_page. */
    return link ? atomic_load_explicit(&link->status_page, memory_order_acquire) : NULL;
}

bool rcmi_node_is_broken(const struct rcmi_node *node) {
    return rcmi_loop_is_broken(node->loop);
}

void rcmi_link_set(struct rcmi_link *link, enum rcmi_link_state state) {
    /* Pairs with the load in rcmi_link_state. */
    atomic_store_explicit(&link->state, (int)state, memory_order_release);
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

void rcmi_node_check_settled(struct rcmi_node *node) {
    bool settled = node->leaving && !node->lost; /* lost peers are reported first */
    for (int i = 0; settled && i < node->config.nranks; i++) {
        const struct rcmi_link *link = rcmi_node_link(node, i);
        settled = !link || rcmi_link_settled(link);
    }
    if (!settled)
        return;
    pthread_mutex_lock(&node->lock);
    node->settled = true;
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
}
