/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: one state machine per stream, run by the holder of rx.lock. A read-ahead buffer takes
 * headers and small payloads, many per system call. The rest of a large payload is read directly
 * into its destination. Every field of a header is untrusted and checked before use.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "tcp.h"

static rcm_status rx_refuse(struct tcp_stream *stream, const char *what, uint64_t value) {
    return rcmi_fail_peer(RCM_ERR_PROTOCOL, stream->link->peer,
                          "rank %d sent a tcp frame with %s %" PRIu64 ", which is not valid",
                          stream->link->peer, what, value);
}

/* ---- The table of ends: index -> channel --------------------------------------------------- */

static uint32_t end_index(uint32_t slot, uint16_t generation) {
    return (uint32_t)generation << 16 | slot;
}

static rcm_status ends_grow(struct tcp_stream *stream) {
    struct tcp_rx *rx = &stream->rx;
    if (rx->nends >= TCP_ENDS_MAX)
        return rcmi_fail(RCM_ERR_RESOURCE, 0, "a tcp link carries at most %u channel ends",
                         TCP_ENDS_MAX);
    uint32_t nends = rx->nends ? rx->nends * 2 : 16;
    struct tcp_end *ends = realloc(rx->ends, nends * sizeof *ends);
    if (!ends)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %u channel ends", nends);
    memset(ends + rx->nends, 0, (nends - rx->nends) * sizeof *ends);
    rx->ends = ends;
    rx->nends = nends;
    return RCM_OK;
}

rcm_status tcp_end_add(struct tcp_stream *stream, struct tcp_channel *channel) {
    struct tcp_rx *rx = &stream->rx;
    uint32_t slot = 0;
    while (slot < rx->nends && rx->ends[slot].channel)
        slot++;
    if (slot == rx->nends) {
        rcm_status status = ends_grow(stream);
        if (status != RCM_OK)
            return status;
    }
    rx->ends[slot].channel = channel;
    channel->index = end_index(slot, rx->ends[slot].generation);
    channel->listed = true;
    return RCM_OK;
}

void tcp_end_remove(struct tcp_stream *stream, struct tcp_channel *channel) {
    struct tcp_rx *rx = &stream->rx;
    struct tcp_end *end = &rx->ends[channel->index & 0xffff];
    end->channel = NULL;
    end->generation++;
    channel->listed = false;
    if (rx->to == channel)
        rx->to = NULL;
}

/* *ret_channel NULL: the end was closed, and the frame is late. */
static rcm_status end_find(struct tcp_stream *stream, struct tcp_channel **ret_channel) {
    const struct tcp_rx *rx = &stream->rx;
    if ((rx->header.index & 0xffff) >= rx->nends)
        return rx_refuse(stream, "channel index", rx->header.index);
    const struct tcp_end *end = &rx->ends[rx->header.index & 0xffff];
    *ret_channel = end_index(rx->header.index & 0xffff, end->generation) == rx->header.index
                       ? end->channel
                       : NULL;
    return RCM_OK;
}

/* ---- Messages ------------------------------------------------------------------------------ */

static uint8_t *message_slot(const struct tcp_channel *channel, uint64_t number) {
    return channel->memory + number % channel->base.slots * channel->stride;
}

/* Takes the reader's posted receive. */
static bool hint_take(struct tcp_channel *channel) {
    int given = TCP_HINT_GIVEN;
    return atomic_load_explicit(&channel->hint, memory_order_relaxed) == TCP_HINT_GIVEN &&
           atomic_compare_exchange_strong(&channel->hint, &given, TCP_HINT_TAKEN);
}

/* Does the posted memory fit the message whose header arrived? */
static bool posted_suits(const struct tcp_channel *channel, const struct tcp_header *header) {
    return channel->posted_cap >= header->len &&
           (header->meta & channel->posted_mask) == channel->posted_like;
}

/* Sets the destination of message `number`: the posted memory if it was posted for exactly this
 * message and fits it, else the slot. */
static void message_choose(struct tcp_rx *rx, uint64_t number) {
    struct tcp_channel *channel = rx->to;
    rx->dest = message_slot(channel, number);
    if (!hint_take(channel))
        return;
    rx->in_posted = channel->posted_for == number && posted_suits(channel, &rx->header);
    if (rx->in_posted)
        rx->dest = channel->posted;
    else /* posted for this message, or for an earlier one that had started to arrive */
        atomic_store(&channel->hint, TCP_HINT_NONE);
}

static rcm_status message_begin(struct tcp_stream *stream) {
    struct tcp_rx *rx = &stream->rx;
    rcm_status status = end_find(stream, &rx->to);
    if (status != RCM_OK)
        return status;
    rx->left = rx->header.len;
    rx->in_posted = false;
    rx->in_payload = true;
    rx->large = false;
    if (!rx->to)
        return RCM_OK;
    struct tcp_channel *channel = rx->to;
    rx->large = rx->header.len >= TCP_LARGE || rx->header.len == channel->base.slot_bytes;
    if (channel->base.is_writer)
        return rx_refuse(stream, "the channel index of a writer,", rx->header.index);
    if (rx->header.len > channel->base.slot_bytes)
        return rx_refuse(stream, "length", rx->header.len);
    uint64_t number = atomic_load_explicit(&channel->arrived, memory_order_relaxed);
    if (number - atomic_load_explicit(&channel->released, memory_order_acquire) >=
        channel->base.slots)
        return rx_refuse(stream, "more messages than its credit of", channel->base.slots);
    message_choose(rx, number);
    return RCM_OK;
}

static void message_end(struct tcp_rx *rx) {
    struct tcp_channel *channel = rx->to;
    rx->in_payload = false;
    rx->to = NULL;
    if (!channel)
        return;
    uint64_t number = atomic_load_explicit(&channel->arrived, memory_order_relaxed);
    struct tcp_message *message = &channel->messages[number % channel->base.slots];
    message->bytes = rx->in_posted ? channel->posted : message_slot(channel, number);
    message->len = rx->header.len;
    message->meta = rx->header.meta;
    if (rx->in_posted)
        atomic_store(&channel->hint, TCP_HINT_NONE);
    rx->large_came = rx->large_came || rx->large;
    atomic_store_explicit(&channel->arrived, number + 1, memory_order_release);
    rx->rang = true;
}

void tcp_rx_displace(struct tcp_channel *channel) {
    struct tcp_rx *rx = &channel->stream->rx;
    if (rx->to != channel || !rx->in_posted)
        return;
    uint64_t number = atomic_load_explicit(&channel->arrived, memory_order_relaxed);
    uint8_t *slot = message_slot(channel, number);
    size_t have = (size_t)(rx->dest - channel->posted);
    memcpy(slot, channel->posted, have);
    rx->dest = slot + have;
    rx->in_posted = false;
    atomic_store(&channel->hint, TCP_HINT_NONE);
}

static rcm_status credit_take(struct tcp_stream *stream) {
    struct tcp_rx *rx = &stream->rx;
    struct tcp_channel *channel = NULL;
    rcm_status status = end_find(stream, &channel);
    if (status != RCM_OK)
        return status;
    if (rx->header.len != 0)
        return rx_refuse(stream, "credits and length", rx->header.len);
    if (!channel)
        return RCM_OK;
    if (!channel->base.is_writer)
        return rx_refuse(stream, "credits for the reader's channel index", rx->header.index);
    uint64_t returned = atomic_load_explicit(&channel->returned, memory_order_relaxed);
    uint64_t committed = atomic_load_explicit(&channel->committed, memory_order_acquire);
    if (rx->header.meta == 0 || rx->header.meta > committed - returned)
        return rx_refuse(stream, "a credit of", rx->header.meta);
    atomic_store_explicit(&channel->returned, returned + rx->header.meta, memory_order_release);
    rx->rang = true;
    return RCM_OK;
}

/* Padding that belongs to no channel; only its length is used. */
static rcm_status pad_begin(struct tcp_stream *stream) {
    struct tcp_rx *rx = &stream->rx;
    if (rx->header.len > TCP_PAD)
        return rx_refuse(stream, "a pad of length", rx->header.len);
    rx->to = NULL;
    rx->left = rx->header.len;
    rx->in_posted = rx->large = false;
    rx->in_payload = true;
    return RCM_OK;
}

/* ---- Bytes --------------------------------------------------------------------------------- */

static rcm_status rx_header(struct tcp_stream *stream) {
    struct tcp_rx *rx = &stream->rx;
    memcpy(&rx->header, rx->ahead + rx->head, sizeof rx->header);
    rx->head += sizeof rx->header;
    if (rx->header.kind == TCP_HEADER_DATA)
        return message_begin(stream);
    if (rx->header.kind == TCP_HEADER_CREDIT)
        return credit_take(stream);
    if (rx->header.kind == TCP_HEADER_PAD)
        return pad_begin(stream);
    return rx_refuse(stream, "kind", rx->header.kind);
}

/* Copies as much of the payload as the read-ahead buffer contains. */
static void rx_payload(struct tcp_rx *rx) {
    size_t n = rx->tail - rx->head;
    if (n > rx->left)
        n = rx->left;
    if (n && rx->to) {
        memcpy(rx->dest, rx->ahead + rx->head, n);
        rx->dest += n;
    }
    rx->head += n;
    rx->left -= n;
}

/* Consumes the read-ahead buffer up to an incomplete header. */
static rcm_status rx_parse(struct tcp_stream *stream) {
    struct tcp_rx *rx = &stream->rx;
    for (;;) {
        if (rx->in_payload) {
            rx_payload(rx);
            if (rx->left)
                break;
            message_end(rx);
        }
        if (rx->tail - rx->head < sizeof rx->header)
            break;
        rcm_status status = rx_header(stream);
        if (status != RCM_OK)
            return status;
    }
    if (rx->head == rx->tail) {
        rx->head = rx->tail = 0;
    } else if (rx->head) {
        memmove(rx->ahead, rx->ahead + rx->head, rx->tail - rx->head);
        rx->tail -= rx->head;
        rx->head = 0;
    }
    return RCM_OK;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* The destinations of one read: posted memory or slot for the payload, `ahead` for what follows.
 * After a large message nothing is read ahead, so that its reader can post a receive for the next
 * one. */
static int rx_vector(const struct tcp_rx *rx, struct iovec *iov) {
    int n = 0;
    const bool direct = rx->in_payload && rx->to;
    if (direct)
        iov[n++] = (struct iovec){rx->dest, rx->left};
    if (!direct || !rx->large)
        iov[n++] = (struct iovec){rx->ahead + rx->tail, TCP_READ_AHEAD - rx->tail};
    return n;
}

/* RCM_AGAIN: no data. */
static rcm_status rx_check(struct tcp_stream *stream, ssize_t got) {
    const int peer = stream->link->peer;
    if (got > 0)
        return RCM_OK;
    if (got == 0)
        return rcmi_fail_peer(RCM_ERR_PEER, peer, "rank %d closed its data connection", peer);
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return RCM_AGAIN;
    if (errno == EFAULT && stream->rx.to && stream->rx.in_posted) {
        tcp_fault_receive(stream);
        return RCM_AGAIN;
    }
    return tcp_stream_error(stream, "receiving from");
}

/* One read. *ret_more: the socket may contain more. */
static rcm_status rx_read(struct tcp_stream *stream, bool *ret_more) {
    struct tcp_rx *rx = &stream->rx;
    struct iovec iov[TCP_RX_VECTOR];
    const int niov = rx_vector(rx, iov);
    size_t requested = 0;
    for (int i = 0; i < niov; i++)
        requested += iov[i].iov_len;
    const bool peeks = tcp_peek_wanted(stream);
    const ssize_t got = peeks ? tcp_peek_take(stream) : tcp_peek_skip(stream, iov, niov);
    const rcm_status status = rx_check(stream, got);
    if (status != RCM_OK)
        return status;
    *ret_more = peeks ? rx->seen == TCP_PEEK : (size_t)got == requested;
    const size_t direct = rx->in_payload && rx->to ? rx->left : 0;
    const size_t straight = (size_t)got < direct ? (size_t)got : direct;
    if (straight) {
        rx->dest += straight;
        rx->left -= straight;
    }
    rx->tail += (size_t)got - straight;
    return RCM_OK;
}

/* The kernel delays acknowledgements, and with them window updates, by up to 40 ms, to send them
 * with data. A peer that needs an acknowledgement before it may send would wait that long, and we
 * for the peer. So this function forces one when there is nothing to do but wait. */
void tcp_rx_acknowledge(struct tcp_stream *stream) {
    const int now = 1;
    if (!stream->rx.owes || stream->fd < 0)
        return;
    stream->rx.owes = false;
    (void)setsockopt(stream->fd, IPPROTO_TCP, TCP_QUICKACK, &now, sizeof now);
}

/* Returns after each large message, so that its reader can post a receive for the next one. */
bool tcp_rx_poll(struct tcp_stream *stream) {
    bool moved = false, more = true;
    stream->rx.large_came = false;
    for (int round = 0; more && !stream->rx.large_came && round < TCP_RX_ROUNDS; round++) {
        rcm_status status = rx_read(stream, &more);
        if (status == RCM_AGAIN)
            break;
        if (status == RCM_OK)
            status = rx_parse(stream);
        if (status != RCM_OK) {
            tcp_stream_fail(stream);
            return true;
        }
        moved = true;
    }
    stream->rx.owes = stream->rx.owes || moved;
    stream->rx.dry = moved ? 0 : stream->rx.dry + 1;
    if (stream->rx.dry == TCP_DRY && (stream->rx.in_payload || stream->rx.large))
        tcp_rx_acknowledge(stream);
    return moved;
}
