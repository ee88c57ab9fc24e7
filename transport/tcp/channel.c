/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two ends of a tcp channel. A writer's message is a frame. Its payload is in the frame's
 * private slot or, for a zero-copy send, in the user's memory. The reader has as many slots as the
 * writer may have messages in flight. It returns them in credit frames: when half of them are owed,
 * with the next progress; when three quarters are, at once; otherwise with the next data sent to
 * that peer. If the writer runs out of slots earlier, the next progress returns them.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "tcp.h"

#define TCP_PAGE    4096
#define TCP_STAGGER 192 /* so that slots do not all start in the same cache sets */

/* The writer's offer and the reader's answer. */
struct tcp_open {
    uint64_t slot_bytes;
    uint32_t index;
    uint32_t slots;
};

static struct tcp_channel *channel_of(struct rcmi_channel *base) {
    return (struct tcp_channel *)base; /* base is its first member */
}

/* ---- Life ---------------------------------------------------------------------------------- */

static size_t memory_len(const struct tcp_channel *channel) {
    return channel->stride * channel->base.slots;
}

static rcm_status channel_init(struct tcp_channel *channel, struct tcp_link *link) {
    const struct rcmi_channel *base = &channel->base;
    channel->stream = &link->streams[(base->epoch ^ base->id) % TCP_STREAMS];
    channel->credit.owner = channel;
    channel->stride = (base->slot_bytes + TCP_PAGE - 1) / TCP_PAGE * TCP_PAGE + TCP_STAGGER;
    channel->memory = rcmi_pages_map(memory_len(channel));
    return channel->memory
               ? RCM_OK
               : rcmi_fail_context("%u slots of %zu bytes", base->slots, base->slot_bytes);
}

static rcm_status channel_list(struct tcp_channel *channel) {
    struct tcp_stream *stream = channel->stream;
    tcp_lock_take(&stream->rx.lock);
    rcm_status status = channel->listed ? RCM_OK : tcp_end_add(stream, channel);
    tcp_lock_drop(&stream->rx.lock);
    return status;
}

rcm_status tcp_writer_init(struct rcmi_channel *base, void *const *links, int nreaders) {
    struct tcp_channel *channel = channel_of(base);
    if (nreaders != 1)
        return rcmi_fail(RCM_ERR_INTERNAL, 0, "a tcp channel has one reader, not %d", nreaders);
    rcm_status status = channel_init(channel, links[0]);
    if (status != RCM_OK)
        return status;
    channel->frames = calloc(base->slots, sizeof *channel->frames);
    if (!channel->frames)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %u frames", base->slots);
    for (uint32_t i = 0; i < base->slots; i++)
        channel->frames[i].owner = channel;
    return RCM_OK;
}

static void open_put(const struct tcp_channel *channel, struct rcmi_blob *ret_blob) {
    struct tcp_open open = {channel->base.slot_bytes, channel->index, channel->base.slots};
    memcpy(ret_blob->bytes, &open, sizeof open);
    ret_blob->len = sizeof open;
    ret_blob->nfds = 0;
}

/* Checks and stores the peer's half of the opening. */
static rcm_status open_take(struct tcp_channel *channel, const struct rcmi_blob *blob) {
    int peer = channel->stream->link->peer;
    struct tcp_open open;
    if (blob->len != sizeof open)
        return rcmi_fail_peer(RCM_ERR_PROTOCOL, peer,
                              "rank %d opened a tcp channel with %zu bytes instead of %zu", peer,
                              blob->len, sizeof open);
    memcpy(&open, blob->bytes, sizeof open);
    if (open.slot_bytes != channel->base.slot_bytes || open.slots != channel->base.slots)
        return rcmi_fail_peer(RCM_ERR_MISMATCH, peer,
                              "rank %d has %u slots of %llu bytes in a channel, this rank %u "
                              "slots of %zu bytes",
                              peer, open.slots, (unsigned long long)open.slot_bytes,
                              channel->base.slots, channel->base.slot_bytes);
    channel->far_index = open.index;
    return RCM_OK;
}

rcm_status tcp_writer_offer(struct rcmi_channel *base, int r, struct rcmi_blob *ret_offer) {
    (void)r;
    struct tcp_channel *channel = channel_of(base);
    rcm_status status = channel_list(channel);
    if (status == RCM_OK)
        open_put(channel, ret_offer);
    return status;
}

rcm_status tcp_writer_attach(struct rcmi_channel *base, int r, struct rcmi_blob *answer) {
    (void)r;
    struct tcp_channel *channel = channel_of(base);
    rcm_status status = open_take(channel, answer);
    if (status == RCM_OK)
        channel->window = base->slots;
    return status;
}

rcm_status tcp_reader_init(struct rcmi_channel *base, void *link) {
    struct tcp_channel *channel = channel_of(base);
    rcm_status status = channel_init(channel, link);
    if (status != RCM_OK)
        return status;
    channel->messages = calloc(base->slots, sizeof *channel->messages);
    if (!channel->messages)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %u messages", base->slots);
    return RCM_OK;
}

rcm_status tcp_reader_accept(struct rcmi_channel *base, struct rcmi_blob *offer,
                             struct rcmi_blob *ret_answer) {
    struct tcp_channel *channel = channel_of(base);
    rcm_status status = open_take(channel, offer);
    if (status != RCM_OK)
        return status;
    channel->credit.header.kind = TCP_HEADER_CREDIT;
    channel->credit.header.index = channel->far_index;
    status = channel_list(channel);
    if (status == RCM_OK)
        open_put(channel, ret_answer);
    return status;
}

void tcp_writer_close(struct rcmi_channel *base) {
    struct tcp_channel *channel = channel_of(base);
    if (channel->frames && !tcp_forked(channel->stream->domain))
        tcp_tx_stage(channel->stream, channel);
}

void tcp_channel_fini(struct rcmi_channel *base) {
    struct tcp_channel *channel = channel_of(base);
    struct tcp_stream *stream = channel->stream;
    if (stream && !tcp_forked(stream->domain)) {
        tcp_lock_take(&stream->rx.lock);
        if (channel->listed)
            tcp_end_remove(stream, channel);
        tcp_lock_drop(&stream->rx.lock);
        tcp_tx_forget(stream, channel);
    }
    free(channel->messages);
    free(channel->frames);
    if (channel->memory)
        munmap(channel->memory, memory_len(channel));
    channel->messages = NULL;
    channel->frames = NULL;
    channel->memory = NULL;
    channel->stream = NULL;
}

/* ---- Writer -------------------------------------------------------------------------------- */

/* May another message be sent, and is its frame free? */
static bool writer_has_room(struct tcp_channel *channel) {
    uint64_t next = atomic_load_explicit(&channel->committed, memory_order_relaxed);
    uint64_t back = atomic_load_explicit(&channel->returned, memory_order_acquire);
    const struct tcp_frame *frame = &channel->frames[next % channel->base.slots];
    return next - back < channel->window &&
           !atomic_load_explicit(&frame->busy, memory_order_acquire);
}

static uint8_t *writer_stage(const struct tcp_channel *channel, uint64_t number) {
    return channel->memory + number % channel->base.slots * channel->stride;
}

/* Makes the next message's frame and sends as much as the socket accepts now. */
static void writer_publish(struct tcp_channel *channel, const void *payload, size_t len,
                           uint64_t meta, bool zero_copy) {
    struct tcp_stream *stream = channel->stream;
    uint64_t next = atomic_load_explicit(&channel->committed, memory_order_relaxed);
    struct tcp_frame *frame = &channel->frames[next % channel->base.slots];
    frame->header = (struct tcp_header){TCP_HEADER_DATA, channel->far_index, len, meta};
    frame->payload = payload;
    frame->zero_copy = zero_copy;
    atomic_store_explicit(&frame->busy, true, memory_order_relaxed);
    atomic_store_explicit(&channel->committed, next + 1, memory_order_release);
    tcp_tx_queue(stream, frame);
    if (!atomic_load(&stream->blocked))
        tcp_tx_kick(stream);
}

rcm_status tcp_reserve(struct rcmi_channel *base, size_t len, struct rcmi_reserved *ret_reserved) {
    struct tcp_channel *channel = channel_of(base);
    (void)len;
    if (!writer_has_room(channel))
        return RCM_AGAIN;
    uint64_t next = atomic_load_explicit(&channel->committed, memory_order_relaxed);
    *ret_reserved =
        (struct rcmi_reserved){.bytes = writer_stage(channel, next), .stores = RCMI_TEMPORAL};
    return RCM_OK;
}

void tcp_commit(struct rcmi_channel *base, size_t len, uint64_t meta) {
    struct tcp_channel *channel = channel_of(base);
    uint64_t next = atomic_load_explicit(&channel->committed, memory_order_relaxed);
    assert(len <= base->slot_bytes);
    writer_publish(channel, writer_stage(channel, next), len, meta, false);
}

rcm_status tcp_send_zero_copy(struct rcmi_channel *base, const struct rcmi_mem *mem, uint64_t meta,
                              bool may_get) {
    struct tcp_channel *channel = channel_of(base);
    (void)may_get;
    if (mem->len > base->slot_bytes)
        return RCM_ERR_UNSUPPORTED; /* no sentence: the caller sends pieces */
    if (!writer_has_room(channel))
        return RCM_AGAIN;
    atomic_fetch_add_explicit(&channel->zero_copy, 1, memory_order_relaxed);
    writer_publish(channel, mem->bytes, mem->len, meta, true);
    return RCM_OK;
}

/* Sent frames are not tracked individually: true once all zero-copy frames have been sent. */
bool tcp_completed(struct rcmi_channel *base, uint64_t number) {
    (void)number;
    return atomic_load_explicit(&channel_of(base)->zero_copy, memory_order_acquire) == 0;
}

/* ---- Reader -------------------------------------------------------------------------------- */

rcm_status tcp_peek(struct rcmi_channel *base, struct rcmi_slot *ret_slot) {
    struct tcp_channel *channel = channel_of(base);
    uint64_t oldest = atomic_load_explicit(&channel->released, memory_order_relaxed);
    if (atomic_load_explicit(&channel->arrived, memory_order_acquire) == oldest)
        return RCM_AGAIN;
    const struct tcp_message *message = &channel->messages[oldest % base->slots];
    channel->peeked = oldest + 1;
    *ret_slot =
        (struct rcmi_slot){.bytes = message->bytes, .len = message->len, .meta = message->meta};
    return RCM_OK;
}

bool tcp_credit_is_due(struct tcp_channel *channel) {
    return atomic_load(&channel->owed) * 2 >= channel->base.slots;
}

bool tcp_writer_is_stuck(struct tcp_channel *channel) {
    /* In this order: a release in between makes the writer seem stuck, which is harmless. */
    uint64_t returned = atomic_load_explicit(&channel->released, memory_order_acquire) -
                        atomic_load(&channel->owed);
    return atomic_load_explicit(&channel->arrived, memory_order_acquire) - returned >=
           channel->base.slots;
}

/* True if most slots are owed: the credit must be sent at once. */
static bool credit_is_overdue(struct tcp_channel *channel) {
    return atomic_load(&channel->owed) * 4 >= channel->base.slots * 3;
}

/* Returns `owed` slots to the writer, now or with the next data. Usually data follow soon, and a
 * system call costs more than the rest of a message of a few KiB. Therefore credits that are due
 * wait for the next progress: one follows if this side has nothing to send but waits for something.
 */
static void reader_credit(struct tcp_channel *channel) {
    struct tcp_stream *stream = channel->stream;
    bool now = credit_is_overdue(channel);
    bool waits = atomic_exchange(&channel->credit.busy, true);
    /* A thread that was finishing the previous frame has sent them already. */
    if (!waits && atomic_load(&channel->owed) == 0) {
        atomic_store(&channel->credit.busy, false);
        return;
    }
    if (!now && !waits)
        tcp_tx_defer(stream, &channel->credit);
    if (now && !waits)
        tcp_tx_queue(stream, &channel->credit);
    if (now && waits)
        tcp_tx_promote(stream);
    if (now && !atomic_load(&stream->blocked))
        tcp_tx_kick(stream);
}

void tcp_release(struct rcmi_channel *base) {
    struct tcp_channel *channel = channel_of(base);
    uint64_t released = atomic_load_explicit(&channel->released, memory_order_relaxed) + 1;
    assert(channel->peeked == released);
    atomic_store_explicit(&channel->released, released, memory_order_release);
    atomic_fetch_add(&channel->owed, 1);
    reader_credit(channel);
}

/* A message that arrived in posted memory and was not peeked is copied to its slot. */
static void reader_rescue(struct tcp_channel *channel) {
    uint64_t number = channel->posted_for;
    if (!channel->posted || number < channel->peeked ||
        atomic_load_explicit(&channel->arrived, memory_order_acquire) <= number)
        return;
    struct tcp_message *message = &channel->messages[number % channel->base.slots];
    if (message->bytes != channel->posted)
        return;
    uint8_t *slot = channel->memory + number % channel->base.slots * channel->stride;
    memcpy(slot, message->bytes, message->len);
    message->bytes = slot;
}

bool tcp_post_receive(struct rcmi_channel *base, const struct rcmi_posted *posted) {
    struct tcp_channel *channel = channel_of(base);
    int hint = TCP_HINT_GIVEN;
    if (posted && posted->ahead > 0)
        return false;
    if (!atomic_compare_exchange_strong(&channel->hint, &hint, TCP_HINT_NONE) &&
        hint == TCP_HINT_TAKEN) {
        tcp_lock_take(&channel->stream->rx.lock);
        tcp_rx_displace(channel);
        atomic_store(&channel->hint, TCP_HINT_NONE);
        tcp_lock_drop(&channel->stream->rx.lock);
    }
    reader_rescue(channel);
    channel->posted = NULL;
    if (!posted)
        return false;
    /* Applies only to the message that the next peek returns. If that one starts to arrive before
     * rx sees the hint, the hint is void and must not apply to the next message. */
    channel->posted = posted->mem.bytes;
    channel->posted_cap = posted->mem.len;
    channel->posted_for = channel->peeked;
    channel->posted_like = posted->meta;
    channel->posted_mask = posted->mask;
    atomic_store_explicit(&channel->hint, TCP_HINT_GIVEN, memory_order_release);
    return true;
}
