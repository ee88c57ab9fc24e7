/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two ends of a verbs channel. The writer's and the reader's slots are registered memory of the
 * same shape; message n goes from slot n to slot n, modulo the number of slots. The reader returns
 * slots as credits: at once when half of them are owed, otherwise with the next progress. A message
 * may also be in registered memory instead of its slot (memory_regions.c, posted_receives.c).
 */
#include <assert.h>
#include <string.h>
#include "verbs.h"

/* The writer's offer and the reader's answer. */
struct verbs_open {
    uint64_t slot_bytes;
    uint64_t remote; /* the reader's slots */
    uint32_t rkey;
    uint32_t number, slots;
    uint32_t reserved;
};

static struct verbs_channel *channel_of(struct rcmi_channel *base) {
    return (struct verbs_channel *)base; /* base is its first member */
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void open_put(const struct verbs_end *end, struct rcmi_blob *ret_blob) {
    struct verbs_open open = {
        .slot_bytes = end->slot_bytes, .number = end->number, .slots = end->slots};
    if (!end->is_writer) {
        open.remote = (uintptr_t)end->region.memory;
        open.rkey = end->region.mr->rkey;
    }
    memcpy(ret_blob->bytes, &open, sizeof open);
    ret_blob->len = sizeof open;
    ret_blob->nfds = 0;
}

static rcm_status open_take(struct verbs_end *end, const struct rcmi_blob *blob) {
    struct verbs_open open;
    if (blob->len != sizeof open)
        return verbs_link_refuse(end->link, "bytes to open a channel", blob->len);
    memcpy(&open, blob->bytes, sizeof open);
    if (open.slot_bytes != end->slot_bytes || open.slots != end->slots)
        return verbs_link_refuse(end->link, "another size of slots", open.slot_bytes);
    if (open.number == 0)
        return verbs_link_refuse(end->link, "a channel's number", open.number);
    end->remote = open.remote;
    end->rkey = open.rkey;
    end->far = open.number;
    return RCM_OK;
}

rcm_status verbs_writer_init(struct rcmi_channel *base, void *const *links, int nreaders) {
    if (nreaders != 1)
        return rcmi_fail(RCM_ERR_INTERNAL, 0, "a verbs channel has one reader, not %d", nreaders);
    return verbs_end_make(links[0], base, &channel_of(base)->end);
}

rcm_status verbs_writer_offer(struct rcmi_channel *base, int r, struct rcmi_blob *ret_offer) {
    (void)r;
    open_put(channel_of(base)->end, ret_offer);
    return RCM_OK;
}

rcm_status verbs_writer_attach(struct rcmi_channel *base, int r, struct rcmi_blob *answer) {
    (void)r;
    return open_take(channel_of(base)->end, answer);
}

rcm_status verbs_reader_init(struct rcmi_channel *base, void *link) {
    return verbs_end_make(link, base, &channel_of(base)->end);
}

rcm_status verbs_reader_accept(struct rcmi_channel *base, struct rcmi_blob *offer,
                               struct rcmi_blob *ret_answer) {
    struct verbs_end *end = channel_of(base)->end;
    const rcm_status status = open_take(end, offer);
    if (status == RCM_OK)
        open_put(end, ret_answer);
    return status;
}

void verbs_message_keep(struct verbs_end *end, uint64_t n) {
    struct verbs_message *message = &end->messages[n % end->slots];
    memcpy(end->region.memory + n % end->slots * end->stride, message->bytes, message->len);
    message->bytes = NULL;
}

/* Messages that were not posted to the device yet are copied to their slots. */
void verbs_writer_close(struct rcmi_channel *base) {
    struct verbs_end *end = channel_of(base)->end;
    if (!end || verbs_forked(end->link->domain))
        return;
    verbs_lock_take(&end->link->lock);
    const uint64_t committed = atomic_load_explicit(&end->committed, memory_order_relaxed);
    for (uint64_t n = end->posted; n < committed; n++)
        if (end->messages[n % end->slots].bytes)
            verbs_message_keep(end, n);
    verbs_lock_drop(&end->link->lock);
}

void verbs_channel_fini(struct rcmi_channel *base) {
    struct verbs_channel *channel = channel_of(base);
    if (channel->end && !verbs_forked(channel->end->link->domain)) {
        if (!channel->end->is_writer)
            verbs_put_withdraw(channel->end);
        verbs_end_close(channel->end);
    }
    channel->end = NULL;
}

/* ---- Writer ---------------------------------------------------------------------------------- */

/* Is there a slot for message number n? */
static bool end_has_slot(struct verbs_end *end, uint64_t n) {
    return n - atomic_load_explicit(&end->returned, memory_order_acquire) < end->slots;
}

rcm_status verbs_reserve(struct rcmi_channel *base, size_t len,
                         struct rcmi_reserved *ret_reserved) {
    struct verbs_end *end = channel_of(base)->end;
    const uint64_t committed = atomic_load_explicit(&end->committed, memory_order_relaxed);
    (void)len;
    if (!end_has_slot(end, committed))
        return RCM_AGAIN;
    *ret_reserved =
        (struct rcmi_reserved){.bytes = end->region.memory + committed % end->slots * end->stride,
                               .stores = RCMI_TEMPORAL};
    return RCM_OK;
}

static void end_commit(struct verbs_end *end, const struct verbs_message *message) {
    const uint64_t committed = atomic_load_explicit(&end->committed, memory_order_relaxed);
    assert(message->len <= end->slot_bytes);
    end->messages[committed % end->slots] = *message;
    verbs_lock_take(&end->link->lock);
    atomic_store_explicit(&end->committed, committed + 1, memory_order_release);
    verbs_post_later(end->link, end);
    verbs_lock_drop(&end->link->lock);
    verbs_go_on(end->link->domain);
}

void verbs_commit(struct rcmi_channel *base, size_t len, uint64_t meta) {
    const struct verbs_message message = {.len = (uint32_t)len, .meta = meta};
    end_commit(channel_of(base)->end, &message);
}

rcm_status verbs_send_zero_copy(struct rcmi_channel *base, const struct rcmi_mem *mem,
                                uint64_t meta, bool may_get) {
    struct verbs_end *end = channel_of(base)->end;
    (void)may_get;
    const struct ibv_mr *mr =
        mem->len <= end->slot_bytes ? verbs_memory_of(base, end->link, mem) : NULL;
    if (!mr)
        return RCM_ERR_UNSUPPORTED;
    if (!end_has_slot(end, atomic_load_explicit(&end->committed, memory_order_relaxed)))
        return RCM_AGAIN;
    const struct verbs_message message = {
        .len = (uint32_t)mem->len, .meta = meta, .bytes = mem->bytes, .lkey = mr->lkey};
    end_commit(end, &message);
    return RCM_OK;
}

/* Requests a completion if the message is not done: few sends have one of their own. */
static bool end_is_done(struct verbs_end *end, uint64_t number) {
    struct verbs_link *link = end->link;
    if (verbs_link_still(link))
        return true;
    if (end->posted < number)
        return false;
    if (verbs_entry_done(link, end->messages[(number - 1) % end->slots].entry))
        return true;
    link->awaited = true;
    verbs_post_probe(link);
    return false;
}

/* A message whose slot was returned has been sent, too. */
bool verbs_completed(struct rcmi_channel *base, uint64_t number) {
    struct verbs_end *end = channel_of(base)->end;
    if (atomic_load_explicit(&end->returned, memory_order_acquire) >= number)
        return true;
    verbs_lock_take(&end->link->lock);
    const bool done = end_is_done(end, number);
    verbs_lock_drop(&end->link->lock);
    return done;
}

/* ---- Reader ---------------------------------------------------------------------------------- */

rcm_status verbs_peek(struct rcmi_channel *base, struct rcmi_slot *ret_slot) {
    struct verbs_end *end = channel_of(base)->end;
    const uint64_t released = atomic_load_explicit(&end->released, memory_order_relaxed);
    if (atomic_load_explicit(&end->arrived, memory_order_acquire) == released)
        return RCM_AGAIN;
    const uint32_t slot = (uint32_t)(released % end->slots);
    const struct verbs_message *message = &end->messages[slot];
    end->peeked = released + 1;
    *ret_slot = (struct rcmi_slot){
        .bytes = message->bytes ? message->bytes : end->region.memory + slot * end->stride,
        .len = message->len,
        .meta = message->meta};
    return RCM_OK;
}

void verbs_release(struct rcmi_channel *base) {
    struct verbs_end *end = channel_of(base)->end;
    const uint64_t released = atomic_load_explicit(&end->released, memory_order_relaxed);
    atomic_store_explicit(&end->released, released + 1, memory_order_release);
    /* Release pairs with the exchange in post_credit, possibly on another thread: the slot was read
     * before the writer learns that it is free. */
    const uint32_t owed = atomic_fetch_add_explicit(&end->owed, 1, memory_order_release) + 1;
    const bool now = owed >= (end->slots + 1) / 2;
    if (!now && owed > 1)
        return; /* already listed */
    verbs_lock_take(&end->link->lock);
    if (now)
        verbs_post_later(end->link, end);
    else
        verbs_owe(end->link, end);
    verbs_lock_drop(&end->link->lock);
    verbs_go_on(end->link->domain);
}
