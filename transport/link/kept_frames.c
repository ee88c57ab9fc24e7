/* SPDX-License-Identifier: BSD-3-Clause */
/* Broadcast messages to all linked peers; kept and repeated on links that come up later. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "link.h"

void rcmi_kept_send(struct rcmi_link *link, const struct rcmi_frame *frame) {
    struct rcmi_frame *copy = malloc(sizeof *copy + frame->len);
    if (copy)
        memcpy(copy, frame, sizeof *copy + frame->len);
    if (copy)
        copy->to = NULL;
    else
        (void)rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a control message");
    rcmi_control_send(link, copy);
}

static bool is_for(const struct rcmi_frame *frame, int peer) {
    for (int i = 0; frame->to && i < frame->nto; i++)
        if (frame->to[i] == peer)
            return true;
    return !frame->to;
}

void rcmi_outbox_repeat(struct rcmi_link *link) {
    for (const struct rcmi_frame *frame = link->node->kept.head; frame; frame = frame->next)
        if (is_for(frame, link->peer))
            rcmi_kept_send(link, frame);
}

void rcmi_kept_add(struct rcmi_node *node, struct rcmi_frame *frame) {
    if (node->nkept == RCMI_KEPT_MAX)
        free(rcmi_frames_pop(&node->kept));
    else
        node->nkept++;
    rcmi_frames_push(&node->kept, frame);
}
