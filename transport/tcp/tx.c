/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: the frames of all channels of a stream wait in one FIFO list. The holder of tx_lock
 * passes as many as possible to the kernel in one call. Memory is allocated only for channels that
 * are closed while their frames still wait.
 *
 * No frame is forgotten. A thread that queued one and finds tx_lock held may leave, because the
 * holder checks `queued` again after releasing the lock. If the socket is full, progress, the armed
 * loop or finally the grace timer continues.
 *
 * A system call costs more than a small message. Therefore credits that the writer does not need
 * yet are *deferred*: they wait in a second list for a data frame.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "tcp.h"

/* Called when the frame is no longer in the list. */
static void frame_finish(struct tcp_stream *stream, struct tcp_frame *frame) {
    struct tcp_channel *owner = frame->owner;
    if (!owner) {
        free(frame);
        return;
    }
    if (frame == &owner->credit) {
        atomic_store(&frame->busy, false);
        /* Slots released while the frame was being sent found it busy. */
        if (!atomic_load(&owner->owed) || atomic_exchange(&frame->busy, true))
            return;
        if (tcp_credit_is_due(owner))
            tcp_tx_queue(stream, frame);
        else
            tcp_tx_defer(stream, frame);
        return;
    }
    bool zero_copy = frame->zero_copy;
    atomic_store_explicit(&frame->busy, false, memory_order_release);
    if (zero_copy && atomic_fetch_sub_explicit(&owner->zero_copy, 1, memory_order_release) == 1)
        rcmi_node_ring(stream->domain->node);
}

void tcp_frames_append(struct tcp_stream *stream, struct tcp_frame *frame) {
    frame->next = NULL;
    if (stream->last)
        stream->last->next = frame;
    else
        stream->first = frame;
    stream->last = frame;
    if (!stream->held)
        atomic_fetch_add(&stream->queued, 1);
}

struct tcp_frame *tcp_frames_all(struct tcp_stream *stream) {
    struct tcp_frame *frame = stream->first;
    stream->first = stream->last = NULL;
    atomic_store(&stream->queued, 0);
    return frame;
}

/* Under queue_lock: removes the first frame. */
static struct tcp_frame *list_shift(struct tcp_stream *stream) {
    struct tcp_frame *frame = stream->first;
    stream->first = frame->next;
    if (!stream->first)
        stream->last = NULL;
    atomic_fetch_sub(&stream->queued, 1);
    return frame;
}

/* Under queue_lock: moves deferred frames to the list; all, or those that are due. */
static void list_promote(struct tcp_stream *stream, bool everything) {
    struct tcp_frame **at = &stream->deferred;
    while (*at) {
        struct tcp_frame *frame = *at;
        if (everything || tcp_credit_is_due(frame->owner) || tcp_writer_is_stuck(frame->owner)) {
            *at = frame->next;
            tcp_frames_append(stream, frame);
        } else {
            at = &frame->next;
        }
    }
    atomic_store_explicit(&stream->defers, stream->deferred != NULL, memory_order_relaxed);
}

static void tx_promote(struct tcp_stream *stream, bool everything) {
    tcp_lock_take(&stream->queue_lock);
    if (!atomic_load(&stream->broken))
        list_promote(stream, everything);
    tcp_lock_drop(&stream->queue_lock);
}

void tcp_tx_promote(struct tcp_stream *stream) {
    tx_promote(stream, true);
}

void tcp_tx_defer(struct tcp_stream *stream, struct tcp_frame *frame) {
    frame->done = 0;
    tcp_lock_take(&stream->queue_lock);
    if (!atomic_load(&stream->broken)) {
        frame->next = stream->deferred;
        stream->deferred = frame;
        atomic_store_explicit(&stream->defers, true, memory_order_relaxed);
    }
    tcp_lock_drop(&stream->queue_lock);
}

void tcp_tx_queue(struct tcp_stream *stream, struct tcp_frame *frame) {
    frame->done = 0;
    tcp_lock_take(&stream->queue_lock);
    bool down = atomic_load(&stream->broken);
    if (!down)
        tcp_frames_append(stream, frame);
    if (!down && stream->deferred)
        list_promote(stream, true);
    tcp_lock_drop(&stream->queue_lock);
    if (!down)
        return;
    if (frame->owner && frame == &frame->owner->credit)
        return; /* stays busy, so it is never queued again */
    frame_finish(stream, frame);
}

static int frame_vector(const struct tcp_frame *frame, struct iovec *iov, size_t *total) {
    size_t header = sizeof frame->header;
    int n = 0;
    if (frame->done < header)
        iov[n++] =
            (struct iovec){(char *)(uintptr_t)&frame->header + frame->done, header - frame->done};
    size_t payload_done = frame->done > header ? frame->done - header : 0;
    if (frame->header.len > payload_done)
        iov[n++] = (struct iovec){(char *)(uintptr_t)frame->payload + payload_done,
                                  frame->header.len - payload_done};
    for (int i = 0; i < n; i++)
        *total += iov[i].iov_len;
    return n;
}

static int tx_gather(struct tcp_stream *stream, struct iovec *iov, size_t *ret_total) {
    int niov = 0;
    *ret_total = 0;
    tcp_lock_take(&stream->queue_lock);
    struct tcp_frame *frame = stream->first;
    const int most = stream->single ? 1 : TCP_GATHER;
    for (int i = 0; frame && i < most; i++, frame = frame->next) {
        if (frame->owner && frame == &frame->owner->credit && frame->done == 0)
            frame->header.meta += atomic_exchange(&frame->owner->owed, 0);
        niov += frame_vector(frame, iov + niov, ret_total);
    }
    tcp_lock_drop(&stream->queue_lock);
    return niov;
}

/* The kernel accepted n bytes. */
static void tx_retire(struct tcp_stream *stream, size_t n) {
    while (n) {
        struct tcp_frame *frame = stream->first; /* only the holder of tx_lock removes frames */
        size_t left = sizeof frame->header + frame->header.len - frame->done;
        if (n < left) {
            frame->done += n;
            return;
        }
        n -= left;
        tcp_lock_take(&stream->queue_lock);
        list_shift(stream);
        tcp_lock_drop(&stream->queue_lock);
        frame->header.meta = 0;
        frame_finish(stream, frame);
    }
}

/* Passes the gathered bytes to the kernel. */
static ssize_t tx_write(int fd, const struct iovec *iov, int niov, size_t total) {
    const struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                               .msg_iovlen = (size_t)niov};
    uint8_t together[TCP_SMALL];
    size_t have = 0;
    if (total > sizeof together)
        return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    for (int i = 0; i < niov; i++) {
        memcpy(together + have, iov[i].iov_base, iov[i].iov_len);
        have += iov[i].iov_len;
    }
    return send(fd, together, have, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* One system call. False: the socket is full or unusable. */
static bool tx_send(struct tcp_stream *stream) {
    struct iovec iov[2 * TCP_GATHER];
    size_t total;
    int niov = tx_gather(stream, iov, &total);
    if (niov == 0)
        return false;
    ssize_t sent;
    do {
        sent = tx_write(stream->fd, iov, niov, total);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno == EFAULT && tcp_fault_send(stream))
        return true;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) {
        (void)tcp_stream_error(stream, "sending to");
        tcp_stream_fail(stream);
        return false;
    }
    if (sent > 0) {
        stream->single = false;
        atomic_store_explicit(&stream->answered, true, memory_order_relaxed);
        tx_retire(stream, (size_t)sent);
    }
    bool full = sent < 0 || (size_t)sent < total;
    atomic_store(&stream->blocked, full);
    return !full;
}

/* The socket is full: ensures that a thread continues later. */
static void tx_blocked(struct tcp_stream *stream) {
    if (atomic_load(&stream->domain->armed))
        tcp_stream_want_out(stream, true);
    tcp_grace(stream->domain);
}

bool tcp_tx_kick(struct tcp_stream *stream) {
    bool moved = false, full = false;
    while (!full && atomic_load(&stream->queued) != 0 && tcp_lock_try(&stream->tx_lock)) {
        if (stream->fd >= 0 && !atomic_load(&stream->broken)) {
            while (atomic_load(&stream->queued) != 0 && tx_send(stream))
                moved = true;
            full = atomic_load(&stream->blocked);
        }
        bool useless = stream->fd < 0 || atomic_load(&stream->broken);
        tcp_lock_drop(&stream->tx_lock);
        if (useless) {
            tcp_tx_drop(stream);
            return true;
        }
    }
    if (full)
        tx_blocked(stream);
    else if (atomic_load_explicit(&stream->wants_out, memory_order_relaxed))
        tcp_stream_want_out(stream, false);
    return moved;
}

bool tcp_tx_move(struct tcp_stream *stream) {
    /* Relaxed: the reader's thread sees its own value, and so does the loop, armed by sleepers. */
    if (atomic_load_explicit(&stream->defers, memory_order_relaxed))
        tx_promote(stream, false);
    return atomic_load(&stream->queued) != 0 && tcp_tx_kick(stream);
}

/* ---- Closing ------------------------------------------------------------------------------- */

/* Copies the payload to the frame's own slot; zeros if it cannot be read. False: not readable. */
static bool frame_stage(struct tcp_frame *frame) {
    struct tcp_channel *channel = frame->owner;
    uint8_t *stage = channel->memory + (frame - channel->frames) * channel->stride;
    const bool readable = tcp_fault_copy(stage, frame->payload, frame->header.len);
    if (!readable)
        memset(stage, 0, frame->header.len);
    frame->payload = stage;
    frame->zero_copy = false;
    atomic_fetch_sub_explicit(&channel->zero_copy, 1, memory_order_release);
    return readable;
}

void tcp_tx_stage(struct tcp_stream *stream, struct tcp_channel *channel) {
    bool readable = true;
    tcp_lock_take(&stream->tx_lock);
    tcp_lock_take(&stream->queue_lock);
    for (struct tcp_frame *frame = stream->first; frame; frame = frame->next)
        if (frame->owner == channel && frame->zero_copy)
            readable = frame_stage(frame) && readable;
    if (!readable)
        tcp_fault_withdraw(stream, channel);
    tcp_lock_drop(&stream->queue_lock);
    tcp_lock_drop(&stream->tx_lock);
    /* Other threads may have found the lock held and left. */
    tcp_tx_kick(stream);
}

/* A copy of a waiting frame that does not need its channel; NULL: no memory. */
static struct tcp_frame *frame_orphan(const struct tcp_frame *frame) {
    struct tcp_frame *copy = malloc(sizeof *copy + frame->header.len);
    if (!copy)
        return NULL;
    copy->next = NULL;
    copy->owner = NULL;
    copy->payload = (const uint8_t *)(copy + 1);
    copy->done = frame->done;
    copy->header = frame->header;
    copy->zero_copy = false;
    atomic_init(&copy->busy, true);
    if (frame->header.len)
        memcpy(copy + 1, frame->payload, frame->header.len);
    return copy;
}

/* Under both locks: returns what replaces the frame in the list; NULL: nothing. *ret_lost: the peer
 * could not interpret the stream any more. */
static struct tcp_frame *frame_replace(struct tcp_frame *frame, struct tcp_channel *channel,
                                       bool *ret_lost) {
    if (frame->owner != channel)
        return frame;
    if (frame == &channel->credit && frame->done == 0)
        return NULL;
    struct tcp_frame *copy = frame_orphan(frame);
    *ret_lost = *ret_lost || !copy;
    return copy;
}

/* Under queue_lock. */
static void deferred_forget(struct tcp_stream *stream, const struct tcp_channel *channel) {
    struct tcp_frame **at = &stream->deferred;
    while (*at && *at != &channel->credit)
        at = &(*at)->next;
    if (*at)
        *at = (*at)->next;
}

void tcp_tx_forget(struct tcp_stream *stream, struct tcp_channel *channel) {
    bool lost = false;
    tcp_lock_take(&stream->tx_lock);
    tcp_lock_take(&stream->queue_lock);
    deferred_forget(stream, channel);
    stream->held = stream->held && stream->first->owner != channel;
    struct tcp_frame *frame = tcp_frames_all(stream);
    while (frame) {
        struct tcp_frame *next = frame->next;
        struct tcp_frame *stays = frame_replace(frame, channel, &lost);
        if (stays)
            tcp_frames_append(stream, stays);
        frame = next;
    }
    tcp_lock_drop(&stream->queue_lock);
    if (lost) {
        (void)rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to keep unsent data for rank %d",
                        stream->link->peer);
        tcp_stream_fail(stream);
    }
    tcp_lock_drop(&stream->tx_lock);
    /* Other threads may have found the list empty meanwhile and left. */
    tcp_tx_kick(stream);
}

void tcp_tx_drop(struct tcp_stream *stream) {
    tcp_lock_take(&stream->tx_lock);
    tcp_lock_take(&stream->queue_lock);
    struct tcp_frame *frame = tcp_frames_all(stream);
    stream->deferred = NULL;
    stream->held = false;
    tcp_lock_drop(&stream->queue_lock);
    while (frame) {
        struct tcp_frame *next = frame->next;
        if (!frame->owner || frame != &frame->owner->credit)
            frame_finish(stream, frame);
        frame = next;
    }
    tcp_lock_drop(&stream->tx_lock);
}
