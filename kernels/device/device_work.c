/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One operation on a device from start to end: the types of its memory, the method
 * (device_method.c), and the number of pieces.
 */
#include <stdio.h>
#include "device_internal.h"
#include "error.h"

/* ---- Memory types ---------------------------------------------------------------------------- */

struct pointer {
    struct rcmi_cuda_context *context;
    unsigned type, managed;
    int ordinal;
};

static rcmi_cuda_code pointer_query(const struct rcmi_cuda *cuda, const void *memory,
                                    struct pointer *ret) {
    enum rcmi_cuda_pointer_attribute names[] = {
        RCMI_CUDA_POINTER_CONTEXT, RCMI_CUDA_POINTER_MEMORY_TYPE, RCMI_CUDA_POINTER_IS_MANAGED,
        RCMI_CUDA_POINTER_DEVICE_ORDINAL};
    *ret = (struct pointer){.ordinal = -1};
    void *values[] = {&ret->context, &ret->type, &ret->managed, &ret->ordinal};
    return cuda->cuPointerGetAttributes(4, names, values, (rcmi_cuda_address)(uintptr_t)memory);
}

/* Memory without a context, such as memory pools, is accessible from any context. */
static rcmi_cuda_code type_of(struct rcmi_device *d, const void *memory,
                              enum device_memory_type *ret_type) {
    struct pointer pointer;
    bool imported;
    const rcmi_cuda_code gone = device_import_look(d, memory, &imported);
    *ret_type = MEMORY_DEVICE;
    if (imported)
        return gone;
    const rcmi_cuda_code code = pointer_query(d->cuda, memory, &pointer);
    const bool known = code == RCMI_CUDA_SUCCESS && !pointer.managed;
    *ret_type = MEMORY_HOST;
    if (known && pointer.type == RCMI_CUDA_MEMORY_HOST)
        *ret_type = MEMORY_PINNED;
    if (!known || pointer.type != RCMI_CUDA_MEMORY_DEVICE)
        return code == RCMI_CUDA_INVALID_VALUE ? RCMI_CUDA_SUCCESS : code;
    *ret_type = MEMORY_DEVICE;
    if (pointer.ordinal != d->facts.ordinal)
        return DEVICE_CODE_OTHER;
    return pointer.context && pointer.context != d->context ? DEVICE_CODE_CONTEXT
                                                            : RCMI_CUDA_SUCCESS;
}

static rcmi_cuda_code work_find_types(struct rcmi_device *d, struct device_work *w) {
    const struct rcmi_operation *o = w->operation;
    rcmi_cuda_code code = RCMI_CUDA_SUCCESS;
    for (uint32_t i = 0; i < o->nsrcs + o->nresults && code == RCMI_CUDA_SUCCESS; i++)
        code = type_of(d, device_operand(w, i), &w->types[i]);
    return code;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Sets the piece to what the slot holds: whole elements and cache lines. */
static void work_set_piece(struct device_work *w) {
    const size_t left = w->operation->bytes - w->at;
    const size_t room = w->nareas ? DEVICE_SLOT / (size_t)w->nareas / 256 * 256 : left;
    w->piece = left < room ? left : room;
    w->stage = 0;
}

static void work_end(struct device_work *w, rcmi_cuda_code code) {
    struct rcmi_operation *o = w->operation;
    w->operation = NULL;
    rcmi_operation_end(o, device_status(code), code);
}

/* Waits for enqueued work before the operation ends. */
static void work_fail(struct rcmi_device *d, struct device_work *w, rcmi_cuda_code code) {
    if (w->enqueued)
        (void)d->cuda->cuStreamSynchronize(w->stream);
    w->enqueued = false;
    work_end(w, code);
}

/* Runs stages until the device has work or the operation is done. */
static void work_go_on(struct rcmi_device *d, struct device_work *w) {
    rcmi_cuda_code code = RCMI_CUDA_SUCCESS;
    while (w->operation && !w->enqueued && code == RCMI_CUDA_SUCCESS) {
        if (w->stage == 2) {
            w->at += w->piece;
            work_set_piece(w);
        }
        if (w->piece == 0) {
            work_end(w, RCMI_CUDA_SUCCESS);
            return;
        }
        code = w->method->stages[w->stage++](d, w);
        if (code == RCMI_CUDA_SUCCESS && w->enqueued)
            code = d->cuda->cuEventRecord(w->event, w->stream);
    }
    if (code != RCMI_CUDA_SUCCESS)
        work_fail(d, w, code);
}

void device_work_begin(struct rcmi_device *d, struct device_work *w,
                       struct rcmi_operation *operation) {
    w->operation = operation;
    w->at = 0;
    w->enqueued = false;
    const rcmi_cuda_code code = work_find_types(d, w);
    if (code != RCMI_CUDA_SUCCESS) {
        work_end(w, code);
        return;
    }
    device_method_choose(w);
    work_set_piece(w);
    work_go_on(d, w);
}

bool device_work_look(struct rcmi_device *d, struct device_work *w) {
    if (!w->operation)
        return false;
    const rcmi_cuda_code code = d->cuda->cuEventQuery(w->event);
    if (code == RCMI_CUDA_NOT_READY)
        return false;
    if (code != RCMI_CUDA_SUCCESS) {
        work_fail(d, w, code);
        return true;
    }
    w->enqueued = false;
    work_go_on(d, w);
    return true;
}

rcmi_cuda_code device_work_make(struct rcmi_device *d, struct device_work *w,
                                struct rcmi_cuda_stream *stream) {
    void *slot;
    w->stream = stream;
    rcmi_cuda_code code = d->cuda->cuEventCreate(&w->event, RCMI_CUDA_EVENT_DISABLE_TIMING);
    if (code == RCMI_CUDA_SUCCESS)
        code = d->cuda->cuMemHostAlloc(&slot, DEVICE_SLOT,
                                       RCMI_CUDA_HOST_PORTABLE | RCMI_CUDA_HOST_MAPPED);
    if (code == RCMI_CUDA_SUCCESS)
        w->slot = slot;
    return code;
}

void device_work_free(struct rcmi_device *d, struct device_work *w) {
    if (w->event)
        (void)d->cuda->cuEventDestroy(w->event);
    if (w->slot)
        (void)d->cuda->cuMemFreeHost(w->slot);
}

/* ---- Codes ----------------------------------------------------------------------------------- */

void device_explain(int code, char *text, size_t cap) {
    static const char *const own[] = {
        [-DEVICE_CODE_CONTEXT] =
            "it belongs to a context that is not the device's primary one. Use memory of the "
            "CUDA runtime, or of the primary context",
        [-DEVICE_CODE_OTHER] = "it belongs to another device than the communicator's",
        [-DEVICE_CODE_REVOKED] = "it belongs to a process that has ended",
        [-DEVICE_CODE_DROPPED] =
            "the device was closed, or its call failed, before the operation began",
    };
    if (code < 0)
        snprintf(text, cap, "%s", own[-code]);
    else
        rcmi_cuda_explain(code, text, cap);
}

rcm_status device_status(int code) {
    if (code == RCMI_CUDA_SUCCESS)
        return RCM_OK;
    if (code == DEVICE_CODE_DROPPED)
        return RCM_ERR_CANCELED;
    if (code == DEVICE_CODE_REVOKED)
        return RCM_ERR_PEER;
    return code < 0 ? RCM_ERR_INVALID : rcmi_cuda_status(code);
}
