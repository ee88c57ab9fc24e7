/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posted receives: the reader of a channel tells its writer of registered memory for a message, by
 * the message's number, and the writer puts the message there if it has not written it to a slot by
 * then. Which of the two it was is said by the notice behind it.
 *
 *   writer                                               reader
 *   posts[number] <------------ POSTED {address, key} ---- posts[number]
 *         '------ RDMA write, PUT ----------------------> the memory
 *
 * Withdrawing: the writer is told, and answers behind all that it has written. Until then it may
 * still write there, and what comes moves to its slot; nothing more is posted. The answer is waited
 * for where the memory ends (memory_regions.c), never here: the loop withdraws, too.
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
    end->untold++;
}

static bool offer(struct verbs_end *end, uint64_t number, const struct rcmi_mem *mem,
                  const struct ibv_mr *mr) {
    struct verbs_link *link = end->link;
    bool taken = true;
    verbs_lock_take(&link->lock);
    if (post_of(end, number)->live || end->withdraw != VERBS_WITHDRAW_NONE)
        taken = false;
    else if (number >= atomic_load_explicit(&end->arrived, memory_order_relaxed) && link->qp &&
             !end->ended) { /* else it came before */
        post_put(end, number, mem, mr);
        verbs_post_later(link, end);
    }
    verbs_lock_drop(&link->lock);
    verbs_go_on(link->domain);
    return taken;
}

bool verbs_put_offer(struct rcmi_channel *base, const struct rcmi_posted *posted) {
    struct verbs_end *end = verbs_end_of(base);
    if (!end) /* of a channel that could not be made */
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

/* What the writer was not told of is void; true if it was told of others. */
static bool posts_drop(struct verbs_end *end) {
    bool told = false;
    for (uint32_t i = 0; i < end->slots; i++) {
        struct verbs_post *post = &end->posts[i];
        post->live = post->live && post->told;
        told = told || post->live;
    }
    end->untold = 0;
    return told;
}

/* Messages that came there, and were not looked at, move to their slots. */
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
    end->untold = 0;
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
    if (post->live && !post->told)
        end->untold--;
    post->live = false;
}

struct verbs_post *verbs_put_untold(const struct verbs_end *end) {
    for (uint32_t i = 0; end->untold > 0 && i < end->slots; i++)
        if (end->posts[i].live && !end->posts[i].told)
            return &end->posts[i];
    return NULL;
}

/* ---- Writer ---------------------------------------------------------------------------------- */

rcm_status verbs_put_take(struct verbs_end *end, const struct verbs_posted *posted) {
    const uint64_t returned = atomic_load_explicit(&end->returned, memory_order_relaxed);
    if (posted->number < end->posted)
        return RCM_OK; /* the message was faster */
    if (posted->number - returned >= end->slots)
        return verbs_link_refuse(end->link, "memory for message number", posted->number);
    *post_of(end, posted->number) = (struct verbs_post){.is = *posted, .live = true, .told = true};
    return RCM_OK;
}
