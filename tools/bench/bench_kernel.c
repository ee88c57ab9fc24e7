/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-bench kernel: the element-wise kernels alone, on one core, without ranks. Uses internal
 * functions of the library.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../common.h"
#include "kernels.h"
#include "../report.h"

#define KERNEL_MAX_SRCS    8
#define KERNEL_SAMPLE_NS   20000    /* shortest sample; calls are repeated to reach it */
#define KERNEL_TARGET_NS   10000000 /* for all samples of a row */
#define KERNEL_MAX_SAMPLES 1000
#define KERNEL_ALIGN       4096

static const struct report_column kernel_columns[] = {
    {"name", -16}, {"variant", 8}, {"dtype", 7}, {"op", 4},
    {"nsrcs", 5},  {"bytes", 11},  {"us", 12},   {"GBps", 9},
};

struct kernel_bench {
    const struct bench_options *options;
    struct report *report;
    void *dst;
    void *srcs[KERNEL_MAX_SRCS];
    rcm_op op; /* of the options, or created for it */
    int64_t deadline_ns;
};

/* The work of one row of the report. */
struct kernel_row {
    const char *name;
    rcmi_reduce_fn reduce; /* with context, or */
    const struct rcmi_reduce_context *context;
    void (*copy)(void *dst, const void *src, size_t bytes);
    int nsrcs;
    size_t bytes, count;
};

static void row_call(const struct kernel_bench *bench, const struct kernel_row *row,
                     int64_t repeats) {
    const void *srcs[KERNEL_MAX_SRCS];
    for (int i = 0; i < row->nsrcs; i++)
        srcs[i] = bench->srcs[i];
    for (int64_t i = 0; i < repeats; i++) {
        if (row->reduce)
            row->reduce(bench->dst, srcs, row->nsrcs, row->count, row->context);
        else
            row->copy(bench->dst, srcs[0], row->bytes);
    }
}

static int double_compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median time of one call, in us. */
static double row_time(const struct kernel_bench *bench, const struct kernel_row *row) {
    row_call(bench, row, 1);
    int64_t start = tool_now_ns();
    row_call(bench, row, 1);
    const int64_t once = tool_now_ns() - start + 1;

    const int64_t repeats = once < KERNEL_SAMPLE_NS ? KERNEL_SAMPLE_NS / once + 1 : 1;
    int64_t wanted = bench->options->iters;
    if (!wanted)
        wanted = KERNEL_TARGET_NS / (once * repeats) + 5;
    const size_t nsamples = wanted < KERNEL_MAX_SAMPLES ? (size_t)wanted : KERNEL_MAX_SAMPLES;

    double samples[KERNEL_MAX_SAMPLES];
    for (size_t i = 0; i < nsamples; i++) {
        start = tool_now_ns();
        row_call(bench, row, repeats);
        samples[i] = (double)(tool_now_ns() - start) / (double)repeats / 1e3;
    }
    qsort(samples, nsamples, sizeof(samples[0]), double_compare);
    return samples[nsamples / 2];
}

static void row_run(struct kernel_bench *bench, const struct kernel_row *row) {
    const struct bench_options *options = bench->options;
    const double us = row_time(bench, row);
    const double moved = (double)row->bytes * (row->nsrcs + 1); /* read and written */
    const struct report_cell cells[] = {
        report_text(row->name),
        report_text(rcmi_kernels_name()),
        report_text(row->reduce ? rcm_dtype_name(options->dtype) : "-"),
        report_text(row->reduce ? bench_op_name(options->op) : "-"),
        report_int(row->nsrcs),
        report_int((int64_t)row->bytes),
        report_real(us, 4),
        report_real(us > 0 ? moved / us / 1e3 : 0, 3),
    };
    report_row(bench->report, cells);
}

static bool kernel_sweep(struct kernel_bench *bench, struct kernel_row row) {
    const struct bench_options *options = bench->options;
    const size_t width = rcm_dtype_size(options->dtype);
    for (int64_t bytes = options->min_bytes; bytes <= options->max_bytes;
         bytes = bytes > 0 ? bytes * options->factor : (int64_t)width) {
        row.count = ((size_t)bytes + width - 1) / width;
        row.bytes = row.count * width;
        row_run(bench, &row);
        if (tool_now_ns() > bench->deadline_ns) {
            tool_error("the --timeout has passed after %s of %zu bytes", row.name, row.bytes);
            return false;
        }
    }
    return true;
}

static void copy_streaming(void *dst, const void *src, size_t bytes) {
    rcmi_copy_by(RCMI_NON_TEMPORAL, dst, src, bytes);
}

/* A copy with vector stores, like a reduction's: shows the gain of the string instruction
 * (base/os/cpu.h). */
static void copy_vectors(void *dst, const void *src, size_t bytes) {
    rcmi_copy_by(RCMI_VECTORS, dst, src, bytes);
}

/* The kernels of a step that completes a result, or to which this rank contributes. */
static struct rcmi_sum kernel_sum(rcm_dtype dtype, rcm_op op) {
    struct rcmi_kernels kernels;
    if (rcmi_op_scales(op))
        return rcmi_kernels_scaled(dtype, op, 0);
    rcmi_kernels_of(dtype, op, KERNEL_MAX_SRCS, &kernels);
    return kernels.sums[1];
}

static bool kernel_run_all(struct kernel_bench *bench) {
    const struct bench_options *options = bench->options;
    const struct rcmi_sum sum = kernel_sum(options->dtype, bench->op);
    const struct kernel_row rows[] = {
        {.name = "copy", .copy = rcmi_copy},
        {.name = "copy_vectors", .copy = copy_vectors},
        {.name = "copy_streaming", .copy = copy_streaming},
        {.name = "reduce", .reduce = sum.by.reduce, .context = &sum.context},
        {.name = "reduce_streaming", .reduce = sum.by.reduce_streaming, .context = &sum.context},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kernel_row row = rows[i];
        const int most = row.copy ? 1 : KERNEL_MAX_SRCS;
        for (row.nsrcs = row.copy ? 1 : 2; row.nsrcs <= most; row.nsrcs++)
            if (!kernel_sweep(bench, row))
                return false;
    }
    return true;
}

static void *kernel_alloc(const struct bench_options *options) {
    size_t len = ((size_t)options->max_bytes + options->offset + 2 * KERNEL_ALIGN) / KERNEL_ALIGN;
    char *mem = aligned_alloc(KERNEL_ALIGN, len * KERNEL_ALIGN);
    return mem;
}

static bool kernel_alloc_all(struct kernel_bench *bench) {
    const struct bench_options *options = bench->options;
    const size_t width = rcm_dtype_size(options->dtype);
    struct bench_point point = {
        .what = BENCH_ALL_REDUCE,
        .dtype = options->dtype,
        .op = options->op,
        .count = ((size_t)options->max_bytes + width - 1) / width,
        .nranks = KERNEL_MAX_SRCS,
    };
    point.bytes = point.count * width;
    bench->dst = kernel_alloc(options);
    bool ok = bench->dst != NULL;
    for (int i = 0; ok && i < KERNEL_MAX_SRCS; i++) {
        bench->srcs[i] = kernel_alloc(options);
        ok = bench->srcs[i] != NULL;
    }
    if (!ok) {
        tool_error("no memory for %d buffers of %zu bytes", KERNEL_MAX_SRCS + 1, point.bytes);
        return false;
    }
    bench->dst = (char *)bench->dst + options->offset;
    memset(bench->dst, 0, point.bytes);
    for (int i = 0; i < KERNEL_MAX_SRCS; i++) {
        bench->srcs[i] = (char *)bench->srcs[i] + options->offset;
        bench_fill(&point, i, 0, bench->srcs[i]);
    }
    return true;
}

static void kernel_free_all(struct kernel_bench *bench, bool shifted) {
    const size_t offset = shifted ? bench->options->offset : 0;
    if (bench->dst)
        free((char *)bench->dst - offset);
    for (int i = 0; i < KERNEL_MAX_SRCS; i++)
        if (bench->srcs[i])
            free((char *)bench->srcs[i] - offset);
}

int bench_kernel_main(const struct bench_options *options) {
    struct kernel_bench bench = {
        .options = options,
        .deadline_ns = tool_now_ns() + options->timeout_ms * 1000000,
    };
    bool ok = kernel_alloc_all(&bench);
    const bool allocated = ok;
    ok = ok && bench_op_open(options->op, options->dtype, 0, &bench.op) == RCM_OK;
    ok = ok && report_open(kernel_columns, sizeof(kernel_columns) / sizeof(kernel_columns[0]),
                           options->csv, options->json, &bench.report);
    if (ok) {
        bench_note_machine(bench.report, options);
        ok = kernel_run_all(&bench);
        ok = report_close(bench.report) && ok;
    }
    kernel_free_all(&bench, allocated);
    return ok ? TOOL_OK : TOOL_FAILED;
}
