/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of control streams, and lists of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "link.h"

struct rcmi_frame *rcmi_frame_new(enum rcmi_frame_type type, size_t len) {
    return rcmi_frame_new_to(type, len, NULL, 0);
}

struct rcmi_frame *rcmi_frame_new_to(enum rcmi_frame_type type, size_t len, const int *to,
                                     int nto) {
    const struct rcmi_frame_header header = {.len = (uint32_t)len, .type = (uint16_t)type};
    const size_t list_at = (sizeof header + len + sizeof *to - 1) / sizeof *to * sizeof *to;
    const size_t list_bytes = to ? (size_t)nto * sizeof *to : 0;
    struct rcmi_frame *frame = calloc(1, sizeof *frame + list_at + list_bytes);
    if (!frame) {
        (void)rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a control frame of %zu bytes", len);
        return NULL;
    }
    frame->len = sizeof header + len;
    memcpy(frame->bytes, &header, sizeof header);
    if (to) {
        frame->to = memcpy(frame->bytes + list_at, to, list_bytes);
        frame->nto = nto;
    }
    return frame;
}

void *rcmi_frame_body(struct rcmi_frame *frame) {
    return frame->bytes + sizeof(struct rcmi_frame_header);
}

void rcmi_frame_set_plane(struct rcmi_frame *frame, enum rcmi_mem_kind kind) {
    frame->bytes[offsetof(struct rcmi_frame_header, plane)] = (uint8_t)kind;
}

void rcmi_frame_sentence(const uint8_t *text, size_t len, char *ret_sentence) {
    for (size_t i = 0; i < len; i++)
        ret_sentence[i] = text[i] < ' ' || text[i] > '~' ? '?' : (char)text[i];
    ret_sentence[len] = '\0';
}

void rcmi_frames_push(struct rcmi_frames *frames, struct rcmi_frame *frame) {
    frame->next = NULL;
    if (frames->tail)
        frames->tail->next = frame;
    else
        frames->head = frame;
    frames->tail = frame;
}

struct rcmi_frame *rcmi_frames_pop(struct rcmi_frames *frames) {
    struct rcmi_frame *frame = frames->head;
    if (!frame)
        return NULL;
    frames->head = frame->next;
    if (!frames->head)
        frames->tail = NULL;
    return frame;
}

void rcmi_frames_clear(struct rcmi_frames *frames) {
    for (struct rcmi_frame *frame; (frame = rcmi_frames_pop(frames));)
        free(frame);
}

void rcmi_blob_close(struct rcmi_blob *blob) {
    for (int i = 0; i < blob->nfds; i++)
        rcmi_fd_close(&blob->fds[i]);
    blob->nfds = 0;
}
