/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of a GPU's operations: copies, kernels compared with the CPU, and order of streams. See
 * check_cuda.h. */
#include "check_cuda.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../common.h"
#include "device_kernels.h"
#include "operation.h"

enum { LARGE = 32 << 20, ELEMENTS = 777, SOURCES = 5, ROUNDS = 5, BEHIND = 4 << 20 };

/* An open device, and the driver with the primary context current, as in a program. */
struct rig {
    struct check_out *out;
    const char *of;
    struct rcmi_device *device;
    struct rcmi_operations owner;
    const struct rcmi_cuda *cuda;
    int ordinal;
    const struct rcmi_mem_row *row;
};

static void wake_none(void *arg) {
    (void)arg;
}

static bool rig_open(struct check_out *out, const struct rcmi_device_facts *facts,
                     struct rig *rig) {
    struct rcmi_cuda_context *context;
    char number[16];
    *rig = (struct rig){.out = out, .of = check_cuda_name(facts), .ordinal = facts->ordinal};
    snprintf(number, sizeof(number), "%d", facts->ordinal);
    if (rcmi_device_open(number, 0, &rig->device) != RCM_OK ||
        rcmi_cuda_open(&rig->cuda) != RCM_OK) {
        check_mend(out, rig->of, "%s", rcm_last_error());
        return false;
    }
    rig->row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
    rig->owner = (struct rcmi_operations){.device = &rig->device, .wake = wake_none};
    return rig->cuda->cuDevicePrimaryCtxRetain(&context, rig->ordinal) == RCMI_CUDA_SUCCESS &&
           rig->cuda->cuCtxPushCurrent(context) == RCMI_CUDA_SUCCESS;
}

static void rig_close(struct rig *rig) {
    struct rcmi_cuda_context *context;
    (void)rig->cuda->cuCtxPopCurrent(&context);
    (void)rig->cuda->cuDevicePrimaryCtxRelease(rig->ordinal);
    rcmi_device_close(rig->device);
}

static bool fine(const struct rig *rig, rcm_status status) {
    if (status != RCM_OK)
        check_mend(rig->out, rig->of, "%s", rcm_last_error());
    return status == RCM_OK;
}

static bool driver_fine(const struct rig *rig, rcmi_cuda_code code, const char *call) {
    return code == RCMI_CUDA_SUCCESS || fine(rig, rcmi_cuda_fail(code, call));
}

static struct rcmi_operation operation(struct rig *rig, size_t bytes) {
    return (struct rcmi_operation){.bytes = bytes,
                                   .dtype = RCM_UINT8,
                                   .op = RCM_SUM,
                                   .context.divisor = 1,
                                   .kind = RCMI_MEM_DEVICE,
                                   .all = &rig->owner};
}

/* Has no deadline: the time limit of the test applies. */
static rcm_status run(struct rcmi_operation *o) {
    rcm_status status = rcmi_operation_begin(o);
    if (status != RCM_OK)
        return status;
    while ((status = rcmi_operation_look(o)) == RCM_AGAIN)
        sched_yield();
    return status;
}

static rcm_status copy(struct rig *rig, void *to, const void *from, size_t bytes) {
    struct rcmi_operation o = operation(rig, bytes);
    o.results[0] = to;
    o.srcs[0] = from;
    o.nresults = o.nsrcs = 1;
    return run(&o);
}

static void fill(unsigned char *bytes, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
}

/* ---- Copies -------------------------------------------------------------------------------- */

static bool copies_right(struct rig *rig, char *there, unsigned char *host, unsigned char *back) {
    static const size_t sizes[] = {1, 4095, (1 << 20) + 3, (5 << 20) + 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t n = sizes[i];
        fill(host, n, (uint32_t)n);
        memset(back, 0, n);
        if (!fine(rig, copy(rig, there + 1, host, n)) ||
            !fine(rig, copy(rig, there + LARGE / 2 + 7, there + 1, n)) ||
            !fine(rig, copy(rig, back, there + LARGE / 2 + 7, n)))
            return false;
        if (memcmp(host, back, n) != 0) {
            check_mend(rig->out, rig->of, "%zu bytes copied to the device and back differ", n);
            return false;
        }
    }
    return true;
}

/* The best of 5 copies; GB/s counts each copied byte once. */
static void copy_measure(struct rig *rig, const char *name, void *to, const void *from) {
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        const int64_t began = tool_now_ns();
        if (!fine(rig, copy(rig, to, from, LARGE)))
            return;
        const int64_t took = tool_now_ns() - began;
        best = took < best ? took : best;
    }
    check_fact(rig->out, rig->of, name, "%.1f GB/s", (double)LARGE / (double)best);
}

static void latency_measure(struct rig *rig, const char *name, void *to, const void *from) {
    const int64_t began = tool_now_ns();
    for (int i = 0; i < 100; i++)
        if (!fine(rig, copy(rig, to, from, 4)))
            return;
    check_fact(rig->out, rig->of, name, "%.1f us", (double)(tool_now_ns() - began) / 1e5);
}

static void copies_measure(struct rig *rig, char *there, char *pinned, unsigned char *host) {
    copy_measure(rig, "pinned to device", there, pinned);
    copy_measure(rig, "device to pinned", pinned, there);
    copy_measure(rig, "host to device", there, host);
    copy_measure(rig, "device to host", host, there);
    copy_measure(rig, "device to device", there + LARGE, there);
    latency_measure(rig, "4 bytes to device", there, host);
    latency_measure(rig, "4 bytes to host", host, there);
}

static void device_copies(struct check_out *out, const struct rcmi_device_facts *facts) {
    struct rig rig;
    void *there = NULL, *pinned = NULL;
    if (!rig_open(out, facts, &rig))
        return;
    unsigned char *host = calloc(2, LARGE);
    if (host && fine(&rig, rig.row->alloc(rig.device, 2 * (size_t)LARGE, &there)) &&
        driver_fine(&rig, rig.cuda->cuMemHostAlloc(&pinned, LARGE, RCMI_CUDA_HOST_PORTABLE),
                    "cuMemHostAlloc") &&
        copies_right(&rig, there, host, host + LARGE))
        copies_measure(&rig, there, pinned, host);
    if (pinned)
        (void)rig.cuda->cuMemFreeHost(pinned);
    rig.row->free(rig.device, there);
    free(host);
    rig_close(&rig);
}

void check_cuda_copies(struct check_out *out) {
    check_cuda_each(out, device_copies);
}

/* ---- Kernels ------------------------------------------------------------------------------- */

/* Sources at equal distances in host and device memory; the last part of the device memory is the
 * result. */
struct sources {
    unsigned char *host, *back;
    char *there;
    size_t stride;
};

static bool kernel_right(struct rig *rig, const struct sources *sources, rcm_dtype dtype, rcm_op op,
                         uint32_t nsrcs, size_t shift) {
    const size_t width = rcm_dtype_size(dtype), bytes = ELEMENTS * width;
    struct rcmi_operation o = operation(rig, bytes);
    const void *srcs[SOURCES];
    o.dtype = dtype;
    o.op = op;
    o.reduces = true;
    o.nsrcs = nsrcs;
    o.nresults = 1;
    o.results[0] = sources->there + SOURCES * sources->stride + shift * width;
    for (uint32_t i = 0; i < nsrcs; i++) {
        srcs[i] = sources->host + i * sources->stride + shift * width;
        o.srcs[i] = sources->there + i * sources->stride + shift * width;
    }
    rcmi_reduction_find(dtype, op)->reduce(sources->back, srcs, (int)nsrcs, ELEMENTS, &o.context);
    unsigned char *got = sources->back + sources->stride;
    if (!fine(rig, run(&o)) || !fine(rig, copy(rig, got, o.results[0], bytes)))
        return false;
    if (memcmp(got, sources->back, bytes) == 0)
        return true;
    check_mend(rig->out, rig->of, "%s of %s, %u sources: results of device and CPU differ",
               rcm_op_name(op), rcm_dtype_name(dtype), nsrcs);
    return false;
}

static void kernels_compare(struct rig *rig, const struct sources *sources) {
    int on_device = 0, on_host = 0;
    for (int dtype = 1; rcm_dtype_size((rcm_dtype)dtype) > 0; dtype++) {
        for (int op = 1; op < RCMI_OP_PREMUL_SUM; op++) {
            if (!rcmi_reduction_find((rcm_dtype)dtype, op))
                continue;
            if (!kernel_right(rig, sources, (rcm_dtype)dtype, op, 2, 0) ||
                !kernel_right(rig, sources, (rcm_dtype)dtype, op, SOURCES, 1))
                return;
            if (rcmi_cuda_function_of((rcm_dtype)dtype, op) >= 0)
                on_device++;
            else
                on_host++;
        }
    }
    check_fact(rig->out, rig->of, "pairs on the device", "%d", on_device);
    check_fact(rig->out, rig->of, "pairs on the host", "%d", on_host);
}

static void device_kernels(struct check_out *out, const struct rcmi_device_facts *facts) {
    struct rig rig;
    struct sources sources = {.stride = (ELEMENTS + 8) * 16};
    void *there = NULL;
    if (!rig_open(out, facts, &rig))
        return;
    const size_t all = (SOURCES + 1) * sources.stride;
    sources.host = malloc(all);
    sources.back = malloc(all);
    if (sources.host && sources.back && fine(&rig, rig.row->alloc(rig.device, all, &there))) {
        sources.there = there;
        fill(sources.host, all, 1);
        if (fine(&rig, copy(&rig, there, sources.host, all)))
            kernels_compare(&rig, &sources);
    }
    rig.row->free(rig.device, there);
    free(sources.host);
    free(sources.back);
    rig_close(&rig);
}

void check_cuda_kernels(struct check_out *out) {
    check_cuda_each(out, device_kernels);
}

/* ---- Order --------------------------------------------------------------------------------- */

/* Checks that an operation waits for slow work that was enqueued on the stream before it. */
static bool order_right(struct rig *rig, struct rcmi_cuda_stream *stream, const char *name,
                        char *there, unsigned char *host) {
    for (int round = 1; round <= ROUNDS; round++) {
        struct rcmi_operation fence = operation(rig, 0), o = operation(rig, BEHIND);
        for (int i = 0; i <= 4; i++)
            if (!driver_fine(rig,
                             rig->cuda->cuMemsetD8Async((rcmi_cuda_address)(uintptr_t)there,
                                                        (unsigned char)(i < 4 ? 0xff : round),
                                                        BEHIND, stream),
                             "cuMemsetD8Async"))
                return false;
        if (!fine(rig, rcmi_operation_follow(&fence, stream)))
            return false;
        o.results[0] = host;
        o.srcs[0] = there;
        o.nresults = o.nsrcs = 1;
        o.after = &fence;
        if (!fine(rig, run(&o)))
            return false;
        if (host[0] != round || memcmp(host, host + 1, BEHIND - 1) != 0) {
            check_mend(rig->out, rig->of, "an operation did not wait for earlier work on %s stream",
                       name);
            return false;
        }
    }
    return true;
}

static void device_order(struct check_out *out, const struct rcmi_device_facts *facts) {
    struct rig rig;
    void *there = NULL;
    struct rcmi_cuda_stream *blocking = NULL, *other = NULL;
    if (!rig_open(out, facts, &rig))
        return;
    unsigned char *host = malloc(BEHIND);
    if (host && fine(&rig, rig.row->alloc(rig.device, BEHIND, &there)) &&
        driver_fine(&rig, rig.cuda->cuStreamCreate(&blocking, 0), "cuStreamCreate") &&
        driver_fine(&rig, rig.cuda->cuStreamCreate(&other, RCMI_CUDA_STREAM_NON_BLOCKING),
                    "cuStreamCreate") &&
        order_right(&rig, NULL, "the default", there, host) &&
        order_right(&rig, blocking, "a blocking", there, host) &&
        order_right(&rig, other, "a non-blocking", there, host))
        check_fact(out, rig.of, "streams awaited", "%d times each", ROUNDS);
    if (blocking)
        (void)rig.cuda->cuStreamDestroy(blocking);
    if (other)
        (void)rig.cuda->cuStreamDestroy(other);
    rig.row->free(rig.device, there);
    free(host);
    rig_close(&rig);
}

void check_cuda_order(struct check_out *out) {
    check_cuda_each(out, device_order);
}
