/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A growing byte buffer read from the front and written at the back: what a connection has
 * received but not understood yet, or wants to send but could not yet. Grows only with what is
 * really put in, never with a length that a peer announced.
 */
#ifndef RCMI_BUFFER_H
#define RCMI_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"

struct rcmi_buffer {
    unsigned char *data;
    size_t head, tail, cap; /* content is data[head..tail) */
};

static inline size_t rcmi_buffer_len(const struct rcmi_buffer *buffer) {
    return buffer->tail - buffer->head;
}

/* The first byte of the content; NULL if there is none. */
static inline unsigned char *rcmi_buffer_front(const struct rcmi_buffer *buffer) {
    return buffer->head < buffer->tail ? buffer->data + buffer->head : NULL;
}

void rcmi_buffer_fini(struct rcmi_buffer *buffer);

/* Room for len more bytes behind the content, at *ret_space; rcmi_buffer_filled says how many
 * were written there. */
rcm_status rcmi_buffer_reserve(struct rcmi_buffer *buffer, size_t len, void **ret_space);
void rcmi_buffer_filled(struct rcmi_buffer *buffer, size_t len);

rcm_status rcmi_buffer_put(struct rcmi_buffer *buffer, const void *data, size_t len);

/* Drops len bytes from the front; gives large memory back when nothing is left. */
void rcmi_buffer_drop(struct rcmi_buffer *buffer, size_t len);

#endif
