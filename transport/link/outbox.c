/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on control streams. Any thread puts them into the node's outbox; the loop thread moves
 * them to their links, in order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "link.h"

static rcm_status check_len(size_t len) {
    if (len == 0 || len > RCMI_MESSAGE_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0, "a control message of %zu bytes, not 1 to %d", len,
                         RCMI_MESSAGE_MAX);
    return RCM_OK;
}

/* Takes ownership of the frame. */
static rcm_status outbox_put(struct rcmi_node *node, struct rcmi_frame *frame, const void *bytes,
                             size_t len) {
    if (!frame)
        return RCM_ERR_NOMEM;
    memcpy(rcmi_frame_body(frame), bytes, len);
    pthread_mutex_lock(&node->lock);
    rcmi_frames_push(&node->outbox, frame);
    pthread_mutex_unlock(&node->lock);
    rcmi_loop_wake(node->loop);
    return RCM_OK;
}

rcm_status rcmi_node_send(struct rcmi_node *node, int peer, const void *bytes, size_t len) {
    rcm_status status = check_len(len);
    if (status != RCM_OK)
        return status;
    if (peer < 0 || peer >= node->config.nranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "there is no rank %d, only 0 to %d", peer,
                         node->config.nranks - 1);
    const struct rcmi_link *link = rcmi_node_link(node, peer);
    enum rcmi_link_state state = link ? rcmi_link_state(link) : RCMI_LINK_NONE;
    if (state == RCMI_LINK_LOST || state == RCMI_LINK_ENDED) {
        *rcmi_last_error() = link->why;
        return link->why.status;
    }
    struct rcmi_frame *frame = rcmi_frame_new(RCMI_FRAME_MESSAGE, len);
    if (frame)
        frame->peer = peer;
    return outbox_put(node, frame, bytes, len);
}

void rcmi_node_send_linked(struct rcmi_node *node, const int *ranks, int nranks, const void *bytes,
                           size_t len) {
    if (check_len(len) != RCM_OK)
        return;
    struct rcmi_frame *frame = rcmi_frame_new_to(RCMI_FRAME_MESSAGE, len, ranks, nranks);
    if (frame)
        frame->peer = -1;
    (void)outbox_put(node, frame, bytes, len);
}

static void send_to_linked(struct rcmi_node *node, const struct rcmi_frame *frame) {
    const int n = frame->to ? frame->nto : node->config.nranks;
    for (int i = 0; i < n; i++) {
        const int peer = frame->to ? frame->to[i] : i;
        struct rcmi_link *link = rcmi_node_link(node, peer);
        if (link && rcmi_link_state(link) == RCMI_LINK_UP && peer != node->config.rank)
            rcmi_kept_send(link, frame);
    }
}

bool rcmi_outbox_flush(struct rcmi_node *node) {
    pthread_mutex_lock(&node->lock);
    struct rcmi_frames frames = node->outbox;
    node->outbox = (struct rcmi_frames){NULL, NULL};
    pthread_mutex_unlock(&node->lock);
    bool any = frames.head != NULL;
    for (struct rcmi_frame *frame; (frame = rcmi_frames_pop(&frames));) {
        struct rcmi_link *link = frame->peer >= 0 ? rcmi_link_need(node, frame->peer) : NULL;
        if (link) {
            rcmi_control_send(link, frame);
        } else if (frame->peer < 0) {
            send_to_linked(node, frame);
            rcmi_kept_add(node, frame);
        } else {
            free(frame);
        }
    }
    return any;
}
