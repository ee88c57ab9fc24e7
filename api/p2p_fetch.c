/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large messages from point to point within a machine: the receiver copies them out of the sender's
 * memory, where it may, instead of asking for them in slots. That is one copy instead of two, but
 * the kernel's, which takes hold of each page first. Which is faster depends on the machine, on
 * where its cores are, and on the size: so the receiver measures both, from the announcement on, a
 * few messages in a row, of which the best one counts. (The first finds the caches as the other way
 * has left them, and any may be interrupted.)
 *
 * A piece for each pass, so that everything else goes on meanwhile; and the sender, if it has a
 * core of its own, copies pieces as well: who waits for the send, or the library's thread.
 *
 * Not here: how memory of others is read and written (the transport's fetch).
 */
#include "p2p_internal.h"

#define NOWHERE 1 /* where a message of no bytes lies, which is taken at once */

static struct rcmi_rows *fetch_rows(struct pair *pair, size_t bytes) {
    return &pair->fetches[rcmi_rows_size(bytes)];
}

static size_t fetch_bytes(const struct rcmi_transfer *t) {
    return t->total < t->capacity ? t->total : t->capacity;
}

bool rcmi_pair_begin_fetch(const struct rcmi_p2p *p2p, struct pair *pair, struct rcmi_transfer *t,
                           uint64_t from) {
    t->from = t->total == 0 ? NOWHERE : 0;
    if (t->total == 0)
        pair->fetching++;
    if (t->total == 0 || !shares_slots(pair->rx))
        return t->total == 0;
    t->asked_ns = 0;
    if (from == 0 || p2p->fetch == RCMI_FETCH_NEVER || pair->unfetchable ||
        fetch_bytes(t) < FETCH_MIN)
        return false;
    rcmi_rows_see(fetch_rows(pair, t->total));
    const int way = rcmi_rows_way(fetch_rows(pair, t->total));
    t->asked_ns = rcmi_now_ns();
    if (way != RCMI_FETCH_ALWAYS && p2p->fetch != RCMI_FETCH_ALWAYS)
        return false;
    t->from = from;
    pair->fetching++;
    return true;
}

/* Where slots are faster even when asked for, they are still more so unasked: said as long as no
 * message of about so many bytes has to be measured. */
static void pair_wish(struct pair *pair, size_t bytes) {
    const struct rcmi_rows *rows = fetch_rows(pair, bytes);
    if (pair->unfetchable)
        return;
    const uint64_t bit = rcmi_pair_wish_bit(bytes);
    const bool unasked = rows->faster.way == RCMI_FETCH_NEVER && rcmi_rows_may_pass(rows);
    const uint64_t wish = unasked ? pair->wish | bit : pair->wish & ~bit;
    if (wish != pair->wish && bytes <= EAGER_CROWDED && rcmi_channel_wish(pair->rx, wish))
        pair->wish = wish;
}

void rcmi_pair_fetch_learn(struct pair *pair, const struct rcmi_transfer *t) {
    if (!t->asked_ns)
        return;
    rcmi_rows_learn(fetch_rows(pair, t->total), t->from ? RCMI_FETCH_ALWAYS : RCMI_FETCH_NEVER,
                    (float)(rcmi_now_ns() - t->asked_ns) * 1024.0f / (float)t->total);
    pair_wish(pair, t->total);
}

void rcmi_pair_came_unasked(struct pair *pair, size_t bytes) {
    struct rcmi_rows *rows = fetch_rows(pair, bytes);
    if (rows->faster.way == RCMI_FETCH_NEVER && rcmi_rows_may_pass(rows))
        rcmi_rows_pass(rows);
    pair_wish(pair, bytes);
}

/* It cannot be fetched after all: it comes in slots, from the beginning. */
static rcm_status fetch_give_up(struct pair *pair, int peer, struct rcmi_transfer *t) {
    pair->unfetchable = true;
    if (rcmi_channel_wish(pair->rx, UINT64_MAX)) /* the next ones unasked, if they are short */
        pair->wish = UINT64_MAX;
    t->from = 0;
    t->done = 0;
    t->asked_ns = 0;
    pair->fetching--;
    return rcmi_pair_owe_ready(pair, peer, t->id);
}

/* All bytes are there. The receive ends once its sender has been told, since after that perhaps
 * nobody drives any more. */
static rcm_status fetch_end(struct pair *pair, struct rcm_work **at, bool *moved) {
    struct rcm_work *work = *at;
    const rcm_status status = rcmi_pair_put(pair, meta_of(KIND_TAKEN, work->transfer.id), NULL, 0);
    if (status != RCM_OK)
        return status == RCM_AGAIN ? RCM_OK : status;
    work->transfer.done = work->transfer.total;
    pair->fetching--;
    list_remove(&pair->receiving, at);
    rcmi_receive_end(work);
    *moved = true;
    return RCM_OK;
}

/* Has the sender a core of its own to copy pieces with? */
static bool sender_helps(const struct rcmi_p2p *p2p) {
    return !oversubscribed(p2p);
}

/* A piece of the first one that is fetched. */
rcm_status rcmi_pair_fetch(const struct rcmi_p2p *p2p, int peer, bool *moved) {
    struct pair *pair = &p2p->pairs[peer];
    struct rcm_work **at = &pair->receiving.head;
    while (*at && !(*at)->transfer.from)
        at = &(*at)->next;
    if (!*at)
        return RCM_OK;
    struct rcmi_transfer *t = &(*at)->transfer;
    if (t->done == fetch_bytes(t))
        return fetch_end(pair, at, moved);
    const rcm_status status =
        rcmi_channel_fetch(pair->rx, t->buffer, t->from, fetch_bytes(t), sender_helps(p2p), moved);
    if (status == RCM_AGAIN)
        return RCM_OK;
    if (status == RCM_ERR_UNSUPPORTED)
        return fetch_give_up(pair, peer, t);
    if (status != RCM_OK)
        return status;
    t->done = fetch_bytes(t);
    rcmi_pair_fetch_learn(pair, t);
    t->asked_ns = 0;
    return fetch_end(pair, at, moved);
}
