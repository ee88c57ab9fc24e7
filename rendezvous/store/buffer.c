/* SPDX-License-Identifier: BSD-3-Clause */
/* The growing byte buffer of a connection. */
#include "buffer.h"
#include <stdlib.h>
#include <string.h>
#include "error.h"

#define FIRST_CAP 1024
#define KEEP_CAP  (4 * 1024) /* an empty buffer keeps at most this many bytes */

void rcmi_buffer_fini(struct rcmi_buffer *buffer) {
    free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

static void buffer_slide(struct rcmi_buffer *buffer) {
    size_t len = rcmi_buffer_len(buffer);
    if (buffer->head > 0 && len > 0)
        memmove(buffer->data, buffer->data + buffer->head, len);
    buffer->head = 0;
    buffer->tail = len;
}

rcm_status rcmi_buffer_reserve(struct rcmi_buffer *buffer, size_t len, void **ret_space) {
    size_t need = rcmi_buffer_len(buffer) + len;
    /* Slide only if at least half of the buffer is free in front: so each byte moves O(1) times. */
    if (buffer->tail + len > buffer->cap && need <= buffer->cap && buffer->head >= buffer->cap / 2)
        buffer_slide(buffer);
    if (buffer->tail + len > buffer->cap) {
        size_t cap = buffer->cap ? buffer->cap : FIRST_CAP;
        while (cap < need)
            cap *= 2;
        if (cap == buffer->cap)
            cap *= 2;
        buffer_slide(buffer);
        unsigned char *grown = realloc(buffer->data, cap);
        if (!grown)
            return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a buffer of %zu bytes", cap);
        buffer->data = grown;
        buffer->cap = cap;
    }
    *ret_space = buffer->data + buffer->tail;
    return RCM_OK;
}

void rcmi_buffer_filled(struct rcmi_buffer *buffer, size_t len) {
    buffer->tail += len;
}

rcm_status rcmi_buffer_put(struct rcmi_buffer *buffer, const void *data, size_t len) {
    void *space;
    if (len == 0)
        return RCM_OK;
    rcm_status status = rcmi_buffer_reserve(buffer, len, &space);
    if (status != RCM_OK)
        return status;
    memcpy(space, data, len);
    rcmi_buffer_filled(buffer, len);
    return RCM_OK;
}

void rcmi_buffer_drop(struct rcmi_buffer *buffer, size_t len) {
    buffer->head += len;
    if (buffer->head < buffer->tail)
        return;
    buffer->head = buffer->tail = 0;
    if (buffer->cap > KEEP_CAP)
        rcmi_buffer_fini(buffer);
}
