/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posted receives: the reader of a channel announces registered memory for a message, by the
 * message's number. The writer puts the message there, unless it has written it to a slot already.
 * The notice after the message has the kind PUT or DATA accordingly.
 *
 *   writer                                               reader
 *   posts[number] <------------ POSTED {address, key} ---- posts[number]
 *         '------ RDMA write, PUT ----------------------> the memory
 *
 * Withdrawal: the reader sends a notice, and the writer answers after all its writes. Until then it
 * may still write to the memory, and arriving messages are copied to their slots; nothing more is
 * posted. Unregistering waits for the answer (memory_regions.c). This file never waits for it,
 * because the loop thread withdraws, too.
 */
#include "verbs.h"

static struct verbs_post *post_of(const struct verbs_end *end, uint64_t number) {
    return &end->posts[number % end->slots];
}

/* ---- Reader ---------------------------------------------------------------------------------- */

static void post_put(struct verbs_end *end, uint64_t number, const struct rcmi_mem *mem,
                     const struct ibv_mr *mr) {
    struct verbs_post *post = post_of(end, number);
    *post = (struct verbs_post){
        .live = true,
        .is = {
            .number = number, .address = (uintptr_t)mem->bytes, .len = mem->len, .rkey = mr->rkey}};
    end->unannounced++;
}

static bool offer(struct verbs_end *end, uint64_t number, const struct rcmi_mem *mem,
                  const struct ibv_mr *mr) {
    struct verbs_link *link = end->link;
    bool taken = true;
    verbs_lock_take(&link->lock);
    if (post_of(end, number)->live || end->withdraw != VERBS_WITHDRAW_NONE)
        taken = false;
    else if (number >= atomic_load_explicit(&end->arrived, memory_order_relaxed) && link->qp &&
             !end->ended) { /* else the message has arrived already */
        post_put(end, number, mem, mr);
        verbs_post_later(link, end);
    }
    verbs_lock_drop(&link->lock);
    verbs_go_on(link->domain);
    return taken;
}

bool verbs_put_offer(struct rcmi_channel *base, const struct rcmi_posted *posted) {
    struct verbs_end *end = verbs_end_of(base);
    if (!end) /* writer_init or reader_init failed */
        return false;
    if (!posted) {
        verbs_put_withdraw(end);
        return false;
    }
    if (posted->mask || posted->ahead >= end->slots || posted->mem.len <= RCMI_TINY)
        return false;
    const struct ibv_mr *mr = verbs_memory_of(base, end->link, &posted->mem);
    const uint64_t released = atomic_load_explicit(&end->released, memory_order_relaxed);
    return mr && offer(end, released + posted->ahead, &posted->mem, mr);
}

/* Drops posts that were not announced; true if others were announced. */
static bool posts_drop(struct verbs_end *end) {
    bool announced = false;
    for (uint32_t i = 0; i < end->slots; i++) {
        struct verbs_post *post = &end->posts[i];
        post->live = post->live && post->announced;
        announced = announced || post->live;
    }
    end->unannounced = 0;
    return announced;
}

/* Copies messages that arrived in posted memory and were not peeked yet to their slots. */
static void posts_rescue(struct verbs_end *end) {
    const uint64_t arrived = atomic_load_explicit(&end->arrived, memory_order_relaxed);
    for (uint64_t n = end->peeked; n < arrived; n++)
        if (end->messages[n % end->slots].bytes)
            verbs_message_keep(end, n);
}

void verbs_put_withdraw(struct verbs_end *end) {
    struct verbs_link *link = end->link;
    verbs_lock_take(&link->lock);
    if (posts_drop(end) && end->withdraw == VERBS_WITHDRAW_NONE) {
        end->withdraw = VERBS_WITHDRAW_WANTED;
        verbs_post_later(link, end);
    }
    posts_rescue(end);
    verbs_lock_drop(&link->lock);
    verbs_go_on(link->domain);
}

/* ---- Both ------------------------------------------------------------------------------------ */

void verbs_put_forget(struct verbs_end *end) {
    for (uint32_t i = 0; i < end->slots; i++)
        end->posts[i].live = false;
    end->unannounced = 0;
    end->withdraw = VERBS_WITHDRAW_NONE;
}

struct verbs_post *verbs_put_post(const struct verbs_end *end, uint64_t number, size_t len) {
    struct verbs_post *post = post_of(end, number);
    const bool fits =
        post->live && post->is.number == number && len <= post->is.len && len > RCMI_TINY;
    return fits ? post : NULL;
}

void verbs_put_pass(struct verbs_end *end, uint64_t number) {
    struct verbs_post *post = post_of(end, number);
    if (post->live && !post->announced)
        end->unannounced--;
    post->live = false;
}

struct verbs_post *verbs_put_unannounced(const struct verbs_end *end) {
    for (uint32_t i = 0; end->unannounced > 0 && i < end->slots; i++)
        if (end->posts[i].live && !end->posts[i].announced)
            return &end->posts[i];
    return NULL;
}

/* ---- Writer ---------------------------------------------------------------------------------- */

rcm_status verbs_put_take(struct verbs_end *end, const struct verbs_posted *posted) {
    const uint64_t returned = atomic_load_explicit(&end->returned, memory_order_relaxed);
    if (posted->number < end->posted)
        return RCM_OK; /* the message was sent before */
    if (posted->number - returned >= end->slots)
        return verbs_link_refuse(end->link, "memory for message number", posted->number);
    *post_of(end, posted->number) =
        (struct verbs_post){.is = *posted, .live = true, .announced = true};
    return RCM_OK;
}
