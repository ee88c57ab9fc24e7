/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A growing byte buffer, read from the front and written at the back. It contains the bytes that a
 * connection has received but not parsed, or queued but not sent. It grows only with actual bytes,
 * never with a length that a peer announced.
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

/* The first byte of the content; NULL if the buffer is empty. */
static inline unsigned char *rcmi_buffer_front(const struct rcmi_buffer *buffer) {
    return buffer->head < buffer->tail ? buffer->data + buffer->head : NULL;
}

void rcmi_buffer_fini(struct rcmi_buffer *buffer);

/* Makes space for len more bytes after the content, at *ret_space. The caller writes there and
 * passes the number of bytes to rcmi_buffer_filled. */
rcm_status rcmi_buffer_reserve(struct rcmi_buffer *buffer, size_t len, void **ret_space);
void rcmi_buffer_filled(struct rcmi_buffer *buffer, size_t len);

rcm_status rcmi_buffer_put(struct rcmi_buffer *buffer, const void *data, size_t len);

/* Drops len bytes from the front. Frees the memory if the buffer is empty and large. */
void rcmi_buffer_drop(struct rcmi_buffer *buffer, size_t len);

#endif
