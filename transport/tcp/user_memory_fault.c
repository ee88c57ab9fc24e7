/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * User memory of a message that cannot be read or written. The kernel reports it (EFAULT) while
 * data are being moved. It is an error of this process, not of the peer or the link. The channel
 * fails; other channels of the stream continue:
 *   - A message being received goes to its slot instead.
 *   - A message that has not started to be sent is dropped. If it has started, the peer waits for
 *     the rest and would take any following bytes for it. So the stream is held until the peer has
 *     closed its end of the channel, which it does when it is informed of the failure; then the
 *     peer drops the rest.
 */
/*
 * User memory of a message that cannot be read or written. The kernel reports it (EFAULT) while
 * data are being moved. It is an error of this process, not of the peer or the link. The channel
 * fails; other channels of the stream continue:
 *   - A message being received goes to its slot instead.
 *   - A message that has not started to be sent is dropped. If it has started, the peer waits for
 * the rest and would take any following bytes for it. So the stream is held until the peer has
 * closed its end of the channel, which it does when it is informed of the failure; then the peer
 * drops the rest.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "tcp.h"

/* ---- Sending ------------------------------------------------------------------------------- */

void tcp_fault_withdraw(struct tcp_stream *stream, struct tcp_channel *channel) {
    const struct tcp_frame *first = stream->first;
    /* Frames are sent in order, so only the first can have started. */
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
    const struct tcp_frame *frame = stream->first; /* only the holder of tx_lock removes it */
    struct tcp_channel *channel = frame->owner;
    if (!stream->single) { /* several frames were sent: find the faulty one */
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

/* Lets the kernel copy, which returns an error instead of a signal. */
bool tcp_fault_copy(void *to, const void *from, size_t len) {
    const struct iovec mine = {to, len}, users = {(void *)(uintptr_t)from, len};
    const ssize_t copied = len ? process_vm_readv(getpid(), &mine, 1, &users, 1, 0) : 0;
    if (copied < 0 && errno != EFAULT) /* the system call is forbidden */
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
