/* SPDX-License-Identifier: BSD-3-Clause */
/* States of channel ends: opening, ready, failed; and finding an end at its link. */
#include "channel.h"

void rcmi_end_ready(struct rcmi_channel_end *end) {
    if (atomic_load_explicit(&end->channel->state, memory_order_relaxed) != RCM_AGAIN)
        return;
    atomic_store_explicit(&end->was_ready, true, memory_order_relaxed);
    /* Pairs with the acquire loads in the data operations, rcmi_channel_state and _not_ready. */
    atomic_store_explicit(&end->channel->state, RCM_OK, memory_order_release);
    if (!end->closing)
        rcmi_node_ring(end->channel->node);
}

/* Several threads may report a failure; the first reason is kept. */
static bool end_take_reason(struct rcmi_channel_end *end, const struct rcmi_error *why) {
    struct rcmi_channel *channel = end->channel;
    pthread_mutex_lock(&channel->node->lock);
    const int state = atomic_load_explicit(&channel->state, memory_order_relaxed);
    const bool first = state == RCM_AGAIN || state == RCM_OK;
    if (first) {
        end->why = *why;
        if (why->status >= 0)
            end->why.status = RCM_ERR_INTERNAL;
        /* Read after an acquire of the state that follows. */
        atomic_store_explicit(&channel->lost_peer, why->origin, memory_order_relaxed);
        /* Pairs with the acquire loads that rcmi_end_ready names. */
        atomic_store_explicit(&channel->state, (int)end->why.status, memory_order_release);
    }
    pthread_mutex_unlock(&channel->node->lock);
    return first;
}

void rcmi_end_fail(struct rcmi_channel_end *end, const struct rcmi_error *why) {
    if (end_take_reason(end, why) && !end->closing)
        rcmi_node_ring(end->channel->node);
}

void rcmi_channel_fail(struct rcmi_channel *channel) {
    if (end_take_reason(rcmi_end_of(channel), rcmi_last_error()))
        rcmi_node_ring(channel->node);
}

rcm_status rcmi_channel_state(const struct rcmi_channel *channel) {
    /* Pairs with the stores in rcmi_end_ready and end_take_reason. */
    int state = atomic_load_explicit(&channel->state, memory_order_acquire);
    if (state != RCM_AGAIN && state != RCM_OK)
        *rcmi_last_error() = rcmi_end_of(channel)->why;
    return (rcm_status)state;
}

bool rcmi_channel_peer_left(const struct rcmi_channel *channel) {
    const struct rcmi_channel_end *end = rcmi_end_of(channel);
    /* Acquire as in rcmi_channel_state. */
    if (atomic_load_explicit(&channel->state, memory_order_acquire) != RCM_ERR_PEER)
        return false;
    const int peer = atomic_load_explicit(&channel->lost_peer, memory_order_relaxed);
    for (int i = 0; i < end->nreaders; i++) {
        const struct rcmi_link *link = rcmi_node_link(channel->node, end->readers[i].rank);
        if (end->readers[i].rank == peer)
            return link && rcmi_link_state(link) == RCMI_LINK_ENDED;
    }
    return false;
}

bool rcmi_channel_was_ready(const struct rcmi_channel *channel) {
    return atomic_load_explicit(&rcmi_end_of(channel)->was_ready, memory_order_relaxed);
}

enum rcmi_rest rcmi_channel_rest(const struct rcmi_channel *channel) {
    const struct rcmi_channel_end *end = rcmi_end_of(channel);
    const uint64_t last = atomic_load_explicit(&end->last, memory_order_acquire);
    if (atomic_load_explicit(&channel->state, memory_order_acquire) != RCM_OK)
        return RCMI_REST_UNKNOWN;
    if (channel->released >= last)
        return RCMI_REST_NONE;
    if (rcmi_node_gone(channel->node, channel->writer))
        return RCMI_REST_UNKNOWN;
    if (last == RCMI_STILL_OPEN)
        return RCMI_REST_OPEN;
    return channel->peeked > channel->released ? RCMI_REST_UNKNOWN : RCMI_REST_COMING;
}

rcm_status rcmi_channel_not_ready(const struct rcmi_channel *channel) {
    rcm_status state = rcmi_channel_state(channel);
    /* It became ready after the caller checked; the operation was not done anyway. */
    return state == RCM_OK ? RCM_AGAIN : state;
}

/* Channels shared by a pair of ranks do not grow with the number of ranks, so a list suffices. */
struct rcmi_channel_end *rcmi_end_named(const struct rcmi_link *link, uint64_t epoch, uint32_t id,
                                        bool is_writer) {
    for (const struct rcmi_reader *reader = link->readers; reader; reader = reader->next) {
        const struct rcmi_channel *c = reader->end->channel;
        if (c->epoch == epoch && c->id == id && c->is_writer == is_writer && !reader->end->closing)
            return reader->end;
    }
    return NULL;
}

struct rcmi_channel_end *rcmi_end_read(const struct rcmi_link *link, uint32_t serial) {
    for (struct rcmi_reader *reader = link->readers; reader; reader = reader->next)
        if (reader->end->serial == serial && reader->end->offered &&
            !reader->end->channel->is_writer)
            return reader->end;
    return NULL;
}

struct rcmi_reader *rcmi_reader_of(const struct rcmi_link *link, uint32_t serial) {
    for (struct rcmi_reader *reader = link->readers; reader; reader = reader->next) {
        const struct rcmi_channel_end *end = reader->end;
        if (end->serial == serial && end->offered && end->channel->is_writer)
            return reader;
    }
    return NULL;
}
