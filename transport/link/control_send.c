/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending side of control streams, and their end. Until the link is up, only set-up frames
 * (setup.c) and heartbeats are sent; other frames wait in link->out. */
#include <stdlib.h>
#include <sys/epoll.h>
#include "link.h"

static rcm_status frame_write(const struct rcmi_link *link, struct rcmi_frame *frame) {
    size_t moved = 0;
    if (frame->nfds > 0 && frame->done == 0) {
        /* Sent whole or not at all. */
        frame->bytes[offsetof(struct rcmi_frame_header, nfds)] = (uint8_t)frame->nfds;
        rcm_status status =
            rcmi_send_fds(link->control.fd, frame->bytes, frame->len, frame->fds, frame->nfds);
        if (status == RCM_OK)
            frame->done = frame->len;
        return status;
    }
    rcm_status status = rcmi_fd_send(link->control.fd, frame->bytes + frame->done,
                                     frame->len - frame->done, &moved);
    if (status == RCM_OK)
        frame->done += moved;
    return status;
}

rcm_status rcmi_control_watch(struct rcmi_link *link, uint32_t events) {
    if (events == link->events)
        return RCM_OK;
    link->events = events;
    return rcmi_loop_change(link->node->loop, &link->control, events);
}

static bool may_carry_all(const struct rcmi_link *link) {
    return rcmi_link_state(link) == RCMI_LINK_UP;
}

/* The queue whose head may be sent next. */
static struct rcmi_frames *control_next(struct rcmi_link *link) {
    if (link->first.head)
        return &link->first;
    return link->out.head && may_carry_all(link) ? &link->out : NULL;
}

uint32_t rcmi_control_events(struct rcmi_link *link) {
    return EPOLLIN | (control_next(link) ? EPOLLOUT : 0u);
}

void rcmi_control_flush(struct rcmi_link *link) {
    rcm_status status = RCM_OK;
    struct rcmi_frames *frames;
    if (link->control.fd < 0)
        return;
    while (status == RCM_OK && (frames = control_next(link))) {
        struct rcmi_frame *frame = frames->head;
        status = frame_write(link, frame);
        if (status == RCM_OK && frame->done == frame->len) {
            link->out_bytes -= frame->len;
            free(rcmi_frames_pop(frames));
        }
    }
    if (status == RCM_OK || status == RCM_AGAIN)
        status = rcmi_control_watch(link, rcmi_control_events(link));
    if (status != RCM_OK)
        /* Deferred, because this may be inside a callback, and the peer's farewell may be unread.
         */
        rcmi_node_link_failed(link->node, link->peer);
    else if (!link->out.head)
        rcmi_node_check_settled(link->node);
}

void rcmi_control_send(struct rcmi_link *link, struct rcmi_frame *frame) {
    enum rcmi_link_state state = rcmi_link_state(link);
    if (!frame) {
        rcmi_node_link_failed(link->node, link->peer);
    } else if (state == RCMI_LINK_LOST || state == RCMI_LINK_ENDED) {
        free(frame);
    } else if (link->peer == link->node->config.rank) {
        rcmi_frames_push(&link->node->loopback, frame);
        rcmi_loop_wake(link->node->loop);
    } else if (link->out_bytes + frame->len > RCMI_QUEUE_MAX) {
        (void)rcmi_fail_peer(RCM_ERR_RESOURCE, link->peer,
                             "it does not read its control messages (%zu bytes are queued)",
                             link->out_bytes);
        rcmi_node_link_failed(link->node, link->peer);
        free(frame);
    } else {
        bool was_empty = !link->out.head;
        link->out_bytes += frame->len;
        rcmi_frames_push(&link->out, frame);
        if (was_empty)
            rcmi_control_flush(link);
    }
}

void rcmi_control_send_first(struct rcmi_link *link, struct rcmi_frame *frame) {
    link->out_bytes += frame->len;
    rcmi_frames_push(&link->first, frame);
    rcmi_control_flush(link);
}

static void frames_drop(struct rcmi_link *link, struct rcmi_frames *frames) {
    for (struct rcmi_frame *frame; (frame = rcmi_frames_pop(frames)); free(frame))
        link->out_bytes -= frame->len;
}

void rcmi_control_close(struct rcmi_link *link) {
    rcmi_loop_unwatch(link->node->loop, &link->control);
    rcmi_fd_close(&link->control.fd);
    frames_drop(link, &link->first);
    for (int i = 0; i < link->in_nfds; i++)
        rcmi_fd_close(&link->in_fds[i]);
    link->in_nfds = 0;
    link->in_len = 0;
}

void rcmi_control_stop(struct rcmi_link *link) {
    rcmi_control_close(link);
    frames_drop(link, &link->out);
}
