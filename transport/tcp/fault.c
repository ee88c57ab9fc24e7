/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the user gave for a message and that cannot be read, or written. The kernel says so
 * (EFAULT) in the middle of things; it is this process's fault, and neither the peer's nor the
 * link's. The channel fails. What other channels have on the stream goes on:
 *   - What comes in goes to the message's slot instead.
 *   - A message that has not begun to go out does not. Of one that has, the peer waits for the
 *     rest, and would take whatever came for the message. So the stream is held there until the
 *     peer has closed its end of the channel, as it does on hearing of the failure, and drops what
 *     comes.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "tcp.h"

/* ---- Sending ------------------------------------------------------------------------------- */

void tcp_fault_withdraw(struct tcp_stream *stream, struct tcp_channel *channel) {
    const struct tcp_frame *first = stream->first;
    /* In sending order only the first can have begun. */
    stream->held = stream->held || (first && first->owner == channel && first->done > 0);
    struct tcp_frame *frame = tcp_frames_all(stream);
    while (frame) {
        struct tcp_frame *next = frame->next;
        if (frame->owner != channel || frame->done > 0)
            tcp_frames_append(stream, frame);
        frame = next;
    }
}

bool tcp_fault_send(struct tcp_stream *stream) {
    const struct tcp_frame *frame = stream->first; /* only the holder of tx_lock takes it out */
    struct tcp_channel *channel = frame->owner;
    if (!stream->single) { /* one of many, perhaps another one */
        stream->single = true;
        return true;
    }
    stream->single = false;
    if (!channel || !frame->zero_copy)
        return false;
    (void)rcmi_fail(
        RCM_ERR_INVALID, EFAULT,
        "the caller's buffer is not all memory that can be read (%zu bytes at %p, to be "
        "sent to rank %d)",
        (size_t)frame->header.len, (const void *)frame->payload, stream->link->peer);
    atomic_fetch_add_explicit(&channel->zero_copy, 1, memory_order_relaxed);
    tcp_lock_take(&stream->queue_lock);
    tcp_fault_withdraw(stream, channel);
    tcp_lock_drop(&stream->queue_lock);
    rcmi_channel_fail(&channel->base);
    return true;
}

/* The kernel copies, and may refuse. */
bool tcp_fault_copy(void *to, const void *from, size_t len) {
    const struct iovec mine = {to, len}, users = {(void *)(uintptr_t)from, len};
    const ssize_t copied = len ? process_vm_readv(getpid(), &mine, 1, &users, 1, 0) : 0;
    if (copied < 0 && errno != EFAULT) /* not where it is forbidden */
        memcpy(to, from, len);
    return copied < 0 ? errno != EFAULT : (size_t)copied == len;
}

/* ---- Receiving ----------------------------------------------------------------------------- */

void tcp_fault_receive(struct tcp_stream *stream) {
    struct tcp_channel *channel = stream->rx.to;
    (void)rcmi_fail(
        RCM_ERR_INVALID, EFAULT,
        "the caller's buffer is not all memory that can be written (%zu bytes at %p, for "
        "what comes from rank %d)",
        channel->posted_cap, (void *)channel->posted, stream->link->peer);
    rcmi_channel_fail(&channel->base);
    tcp_rx_displace(channel);
}
