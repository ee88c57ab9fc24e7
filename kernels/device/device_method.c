/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an operation is done. Each method has two stages, between which the device works:
 *
 *      copy      host -> slot -> device     device -> slot -> host     device -> device
 *      launch    a kernel reads and writes memory of the device, pinned memory, and the slot
 *      host      device -> slot, all sources; the CPU reduces there; slot -> device
 *
 * Host memory that is not pinned goes through the work's slot, because the driver's own copy of it
 * blocks. `host` is for operators without a GPU kernel: user-defined functions.
 */
#include "device_internal.h"

/* ---- Operands -------------------------------------------------------------------------------- */

const char *device_operand(const struct device_work *work, uint32_t i) {
    const struct rcmi_operation *o = work->operation;
    const void *begin = i < o->nsrcs ? o->srcs[i] : o->results[i - o->nsrcs];
    return (const char *)begin + work->at;
}

static char *area(const struct device_work *work, uint32_t i) {
    return work->slot + (size_t)work->areas[i] * work->piece;
}

static rcmi_cuda_address address(const void *memory) {
    return (rcmi_cuda_address)(uintptr_t)memory;
}

static rcmi_cuda_code fetch(struct rcmi_device *d, struct device_work *w, void *to,
                            const void *from) {
    w->enqueued = true;
    return d->cuda->cuMemcpyDtoHAsync(to, address(from), w->piece, w->stream);
}

static rcmi_cuda_code deliver(struct rcmi_device *d, struct device_work *w, void *to,
                              const void *from) {
    w->enqueued = true;
    return d->cuda->cuMemcpyHtoDAsync(address(to), from, w->piece, w->stream);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static rcmi_cuda_code copy_one(struct rcmi_device *d, struct device_work *w, uint32_t result) {
    const bool from_device = w->types[0] == MEMORY_DEVICE;
    const void *from = w->types[0] == MEMORY_HOST ? area(w, 0) : device_operand(w, 0);
    char *to = (char *)device_operand(w, result);
    if (w->types[result] == MEMORY_DEVICE && from_device) {
        w->enqueued = true;
        return d->cuda->cuMemcpyDtoDAsync(address(to), address(from), w->piece, w->stream);
    }
    if (w->types[result] == MEMORY_DEVICE)
        return deliver(d, w, to, from);
    return from_device ? fetch(d, w, w->types[result] == MEMORY_HOST ? area(w, result) : to, from)
                       : RCMI_CUDA_SUCCESS;
}

static rcmi_cuda_code copy_begin(struct rcmi_device *d, struct device_work *w) {
    const struct rcmi_operation *o = w->operation;
    rcmi_cuda_code code = RCMI_CUDA_SUCCESS;
    if (w->types[0] == MEMORY_HOST)
        rcmi_copy(area(w, 0), device_operand(w, 0), w->piece);
    for (uint32_t i = 0; i < o->nresults && code == RCMI_CUDA_SUCCESS; i++)
        code = copy_one(d, w, o->nsrcs + i);
    return code;
}

static rcmi_cuda_code copy_end(struct rcmi_device *d, struct device_work *w) {
    const struct rcmi_operation *o = w->operation;
    const bool from_device = w->types[0] == MEMORY_DEVICE;
    (void)d;
    for (uint32_t i = o->nsrcs; i < o->nsrcs + o->nresults; i++) {
        if (w->types[i] == MEMORY_HOST)
            rcmi_copy((char *)device_operand(w, i), from_device ? area(w, i) : device_operand(w, 0),
                      w->piece);
        else if (w->types[i] == MEMORY_PINNED && !from_device)
            rcmi_copy((char *)device_operand(w, i), device_operand(w, 0), w->piece);
    }
    return RCMI_CUDA_SUCCESS;
}

/* ---- Reductions on the device ---------------------------------------------------------------- */

static const void *seen(const struct device_work *w, uint32_t i) {
    return w->types[i] == MEMORY_HOST ? area(w, i) : device_operand(w, i);
}

static rcmi_cuda_code launch_begin(struct rcmi_device *d, struct device_work *w) {
    struct rcmi_operation o = *w->operation;
    o.bytes = w->piece;
    for (uint32_t i = 0; i < o.nsrcs; i++) {
        if (w->types[i] == MEMORY_HOST)
            rcmi_copy(area(w, i), device_operand(w, i), w->piece);
        o.srcs[i] = seen(w, i);
    }
    for (uint32_t i = 0; i < o.nresults; i++)
        o.results[i] = (void *)seen(w, o.nsrcs + i);
    w->enqueued = true;
    return device_kernels_launch(d->cuda, &d->kernels, &o, (unsigned)d->facts.multiprocessors,
                                 w->stream);
}

static rcmi_cuda_code launch_end(struct rcmi_device *d, struct device_work *w) {
    const struct rcmi_operation *o = w->operation;
    (void)d;
    for (uint32_t i = o->nsrcs; i < o->nsrcs + o->nresults; i++)
        if (w->types[i] == MEMORY_HOST)
            rcmi_copy((char *)device_operand(w, i), area(w, i), w->piece);
    return RCMI_CUDA_SUCCESS;
}

/* ---- Reductions on the host ------------------------------------------------------------------ */

static rcmi_cuda_code host_fetch(struct rcmi_device *d, struct device_work *w) {
    rcmi_cuda_code code = RCMI_CUDA_SUCCESS;
    for (uint32_t i = 0; i < w->operation->nsrcs && code == RCMI_CUDA_SUCCESS; i++) {
        if (w->types[i] == MEMORY_DEVICE)
            code = fetch(d, w, area(w, i), device_operand(w, i));
        else
            rcmi_copy(area(w, i), device_operand(w, i), w->piece);
    }
    return code;
}

static rcmi_cuda_code host_reduce(struct rcmi_device *d, struct device_work *w) {
    const struct rcmi_operation *o = w->operation;
    const void *srcs[RCMI_REDUCE_MAX];
    rcmi_cuda_code code = RCMI_CUDA_SUCCESS;
    for (uint32_t i = 0; i < o->nsrcs; i++)
        srcs[i] = area(w, i);
    rcmi_reduction_find(o->dtype, o->op)
        ->reduce(area(w, 0), srcs, (int)o->nsrcs, w->piece / rcm_dtype_size(o->dtype), &o->context);
    for (uint32_t i = o->nsrcs; i < o->nsrcs + o->nresults && code == RCMI_CUDA_SUCCESS; i++) {
        if (w->types[i] == MEMORY_DEVICE)
            code = deliver(d, w, (char *)device_operand(w, i), area(w, 0));
        else
            rcmi_copy((char *)device_operand(w, i), area(w, 0), w->piece);
    }
    return code;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static const struct device_method method_copy = {{copy_begin, copy_end}};
static const struct device_method method_launch = {{launch_begin, launch_end}};
static const struct device_method method_host = {{host_fetch, host_reduce}};

static const struct device_method *method_of(const struct rcmi_operation *o) {
    if (!o->reduces)
        return &method_copy;
    return rcmi_cuda_function_of(o->dtype, o->op) >= 0 ? &method_launch : &method_host;
}

void device_method_choose(struct device_work *w) {
    const struct rcmi_operation *o = w->operation;
    w->method = method_of(o);
    w->nareas = 0;
    for (uint32_t i = 0; i < o->nsrcs + o->nresults; i++) {
        const bool needed = w->method == &method_host ? i < o->nsrcs : w->types[i] == MEMORY_HOST;
        w->areas[i] = needed ? w->nareas++ : -1;
    }
}
