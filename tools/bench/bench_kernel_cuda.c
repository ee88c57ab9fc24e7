/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-bench kernel --memory cuda: the kernels alone on one device, compared with the driver's
 * copy of device memory. GB/s counts bytes read and written. Time is the device's time between two
 * events around several launches.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>
#include "../common.h"
#include "device.h"
#include "device_kernels.h"
#include "../launched.h"
#include "../report.h"
#include "settings.h"

enum { MAX_SRCS = 8, SAMPLES = 5, LAUNCHES = 10, ROUND = 2 << 20 };

static const struct report_column columns[] = {
    {"name", -16}, {"device", -44}, {"dtype", 7}, {"op", 4},
    {"nsrcs", 5},  {"bytes", 11},   {"us", 12},   {"GBps", 9},
};

struct bench_cuda {
    const struct bench_options *options;
    struct report *report;
    rcm_op op;
    const struct rcmi_cuda *cuda;
    struct rcmi_device_facts facts;
    struct device_kernels kernels;
    struct rcmi_cuda_stream *stream;
    struct rcmi_cuda_event *begin, *end;
    rcmi_cuda_address memory; /* the result, then the sources, at equal distances */
    size_t distance;
};

static rcm_status failed(rcmi_cuda_code code, const char *call) {
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, call);
}

/* ---- Setting up ---------------------------------------------------------------------------- */

static rcm_status context_begin(struct bench_cuda *bench) {
    const char *device = bench->options->device;
    struct rcmi_cuda_context *context;
    int ordinal = 0;
    rcm_status status = rcmi_cuda_open(&bench->cuda);
    if (status == RCM_OK)
        status = rcmi_device_find(device ? device : rcmi_setting("RINGCOMM_DEVICE"),
                                  launched_local_rank(), &ordinal);
    if (status == RCM_OK)
        status = rcmi_device_query(ordinal, &bench->facts);
    if (status == RCM_OK)
        status = failed(bench->cuda->cuDevicePrimaryCtxRetain(&context, ordinal),
                        "cuDevicePrimaryCtxRetain");
    if (status == RCM_OK)
        status = failed(bench->cuda->cuCtxPushCurrent(context), "cuCtxPushCurrent");
    if (status == RCM_OK)
        status = device_kernels_load(bench->cuda, bench->facts.driver, &bench->kernels);
    return status;
}

/* Fills the memory, so that the measurement touches no page for the first time. */
static rcm_status memory_begin(struct bench_cuda *bench) {
    const struct bench_options *options = bench->options;
    const struct rcmi_cuda *cuda = bench->cuda;
    bench->distance = ((size_t)options->max_bytes + options->offset + ROUND) / ROUND * ROUND;
    const size_t all = (MAX_SRCS + 1) * bench->distance;
    rcm_status status = failed(cuda->cuStreamCreate(&bench->stream, RCMI_CUDA_STREAM_NON_BLOCKING),
                               "cuStreamCreate");
    if (status == RCM_OK)
        status = failed(cuda->cuEventCreate(&bench->begin, 0), "cuEventCreate");
    if (status == RCM_OK)
        status = failed(cuda->cuEventCreate(&bench->end, 0), "cuEventCreate");
    if (status == RCM_OK)
        status = failed(cuda->cuMemAlloc(&bench->memory, all), "cuMemAlloc");
    if (status == RCM_OK)
        status =
            failed(cuda->cuMemsetD8Async(bench->memory, 1, all, bench->stream), "cuMemsetD8Async");
    return status;
}

static void all_end(struct bench_cuda *bench) {
    const struct rcmi_cuda *cuda = bench->cuda;
    if (bench->memory)
        (void)cuda->cuMemFree(bench->memory);
    if (bench->begin)
        (void)cuda->cuEventDestroy(bench->begin);
    if (bench->end)
        (void)cuda->cuEventDestroy(bench->end);
    if (bench->stream)
        (void)cuda->cuStreamDestroy(bench->stream);
    if (bench->kernels.module)
        device_kernels_unload(cuda, &bench->kernels);
}

/* ---- Measuring ----------------------------------------------------------------------------- */

static rcmi_cuda_address buffer(const struct bench_cuda *bench, int i) {
    return bench->memory + (size_t)i * bench->distance + bench->options->offset;
}

/* nsrcs 0: the driver's copy. */
static rcmi_cuda_code launch(const struct bench_cuda *bench, int nsrcs, size_t bytes) {
    struct rcmi_operation o = {.bytes = bytes,
                               .dtype = bench->options->dtype,
                               .op = bench->op,
                               .reduces = true,
                               .context.divisor = 1,
                               .nsrcs = (uint32_t)nsrcs,
                               .nresults = 1};
    if (nsrcs == 0)
        return bench->cuda->cuMemcpyDtoDAsync(buffer(bench, 0), buffer(bench, 1), bytes,
                                              bench->stream);
    o.results[0] = (void *)(uintptr_t)buffer(bench, 0);
    for (int i = 0; i < nsrcs; i++)
        o.srcs[i] = (void *)(uintptr_t)buffer(bench, 1 + i);
    return device_kernels_launch(bench->cuda, &bench->kernels, &o,
                                 (unsigned)bench->facts.multiprocessors, bench->stream);
}

static rcm_status sample(const struct bench_cuda *bench, int nsrcs, size_t bytes, float *ret_ms) {
    const struct rcmi_cuda *cuda = bench->cuda;
    rcmi_cuda_code code = cuda->cuEventRecord(bench->begin, bench->stream);
    for (int i = 0; i < LAUNCHES && code == RCMI_CUDA_SUCCESS; i++)
        code = launch(bench, nsrcs, bytes);
    if (code == RCMI_CUDA_SUCCESS)
        code = cuda->cuEventRecord(bench->end, bench->stream);
    if (code == RCMI_CUDA_SUCCESS)
        code = cuda->cuStreamSynchronize(bench->stream);
    if (code == RCMI_CUDA_SUCCESS)
        code = cuda->cuEventElapsedTime(ret_ms, bench->begin, bench->end);
    return failed(code, nsrcs ? "a launch" : "cuMemcpyDtoDAsync");
}

static void row_show(const struct bench_cuda *bench, int nsrcs, size_t bytes, double us) {
    const struct bench_options *options = bench->options;
    const double moved = (double)bytes * (nsrcs ? nsrcs + 1 : 2);
    const struct report_cell cells[] = {
        report_text(nsrcs ? "reduce" : "copy"),
        report_text(bench->facts.uuid),
        report_text(nsrcs ? rcm_dtype_name(options->dtype) : "-"),
        report_text(nsrcs ? bench_op_name(options->op) : "-"),
        report_int(nsrcs ? nsrcs : 1),
        report_int((int64_t)bytes),
        report_real(us, 4),
        report_real(us > 0 ? moved / us / 1e3 : 0, 3),
    };
    report_row(bench->report, cells);
}

/* Reports the best sample: the first one may include loading the kernel. */
static rcm_status row_run(const struct bench_cuda *bench, int nsrcs, size_t bytes) {
    float best = 0;
    for (int i = 0; i < SAMPLES; i++) {
        float ms = 0;
        const rcm_status status = sample(bench, nsrcs, bytes, &ms);
        if (status != RCM_OK)
            return status;
        best = i == 0 || ms < best ? ms : best;
    }
    row_show(bench, nsrcs, bytes, (double)best * 1e3 / LAUNCHES);
    return RCM_OK;
}

static rcm_status run_all(const struct bench_cuda *bench) {
    const struct bench_options *options = bench->options;
    const int64_t width = (int64_t)rcm_dtype_size(options->dtype);
    for (int nsrcs = 0; nsrcs <= MAX_SRCS; nsrcs = nsrcs ? 2 * nsrcs : 2) {
        for (int64_t bytes = options->min_bytes / width * width; bytes <= options->max_bytes;
             bytes = bytes > 0 ? bytes * options->factor : width) {
            const rcm_status status = bytes > 0 ? row_run(bench, nsrcs, (size_t)bytes) : RCM_OK;
            if (status != RCM_OK)
                return status;
        }
    }
    return RCM_OK;
}

static rcm_status op_check(const struct bench_cuda *bench) {
    if (rcmi_cuda_function_of(bench->options->dtype, bench->op) >= 0)
        return RCM_OK;
    tool_error("there is no kernel for %s of %s", bench_op_name(bench->options->op),
               rcm_dtype_name(bench->options->dtype));
    return RCM_ERR_UNSUPPORTED;
}

int bench_kernel_cuda_main(const struct bench_options *options) {
    struct bench_cuda bench = {.options = options};
    if (bench_op_open(options->op, options->dtype, 0, &bench.op) != RCM_OK ||
        op_check(&bench) != RCM_OK)
        return TOOL_FAILED;
    rcm_status status = context_begin(&bench);
    if (status == RCM_OK)
        status = memory_begin(&bench);
    bool ok = status == RCM_OK && report_open(columns, sizeof(columns) / sizeof(columns[0]),
                                              options->csv, options->json, &bench.report);
    if (ok) {
        bench_note_machine(bench.report, options);
        status = run_all(&bench);
        ok = report_close(bench.report);
    }
    if (status != RCM_OK)
        tool_error("%s", rcm_last_error());
    if (bench.cuda)
        all_end(&bench);
    return ok && status == RCM_OK ? TOOL_OK : TOOL_FAILED;
}
