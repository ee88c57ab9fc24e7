/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of ringcomm-bench: joins the job, measures each collective at each size, leaves. Rank 0
 * also writes the report. Runs as a process or as a thread.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "../common.h"
#include "../plot.h"
#include "../report.h"

static const struct report_column bench_columns[] = {
    {"collective", -16}, {"transport", 9},  {"algorithm", 18}, {"memory", 6},   {"ranks", 5},
    {"bytes", 11},       {"dtype", 7},      {"op", 4},         {"in_place", 8}, {"iters", 6},
    {"min_us", 10},      {"median_us", 10}, {"p99_us", 10},    {"span_us", 10}, {"algbw_GBps", 10},
    {"busbw_GBps", 10},  {"errors", 6},
};
#define BENCH_NCOLUMNS (sizeof(bench_columns) / sizeof(bench_columns[0]))

/* The output of rank 0. */
struct bench_output {
    struct report *report; /* NULL on other ranks */
    struct plot_point *points;
    size_t npoints, max_points;
    int64_t errors;
};

/* ---- notes --------------------------------------------------------------------------------- */

void bench_note_machine(struct report *report, const struct bench_options *options) {
    struct utsname uts;
    char cpus[256], model[128];
    int ncpus = tool_cpus(cpus, sizeof(cpus));
    tool_cpu_model(model, sizeof(model));
    report_note(report, "ringcomm-bench", "%s", rcm_version());
    if (uname(&uts) == 0) {
        report_note(report, "host", "%s", uts.nodename);
        report_note(report, "kernel", "%s %s %s", uts.sysname, uts.release, uts.machine);
    }
    report_note(report, "cores", "%d (%s)", ncpus, model);
    report_note(report, "command", "%s", options->command);
}

static void output_note(struct bench_output *output, const struct bench_rank *rank) {
    const struct bench_options *options = rank->options;
    const char *environment = getenv("RINGCOMM_TRANSPORT");
    bench_note_machine(output->report, options);
    report_note(output->report, "ranks", "%d, %d of them on this host%s", rank->nranks,
                rcm_local_size(rank->comm), options->threads ? ", threads of one process" : "");
    report_note(output->report, "transport", "%s", environment ? environment : "auto");
    if (options->cuda)
        report_note(output->report, "device", "of rank 0: %s", bench_shadow_label(rank));
    if (options->flip)
        report_note(output->report, "self-test",
                    "RINGCOMM_BENCH_FLIP is set: one bit of one result per size is flipped");
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Whether text, a list of names joined by "+", contains the name. */
static bool names_have(const char *text, const char *name, size_t len) {
    for (const char *at = text; *at; at += *at == '+') {
        const size_t here = strcspn(at, "+");
        if (here == len && memcmp(at, name, len) == 0)
            return true;
        at += here;
    }
    return false;
}

/* names: of the planes of one peer, joined by "+". */
static void names_add(char *text, size_t cap, const char *names) {
    while (*names) {
        const size_t len = strcspn(names, "+"), used = strlen(text);
        if (!names_have(text, names, len))
            snprintf(text + used, cap - used, "%s%.*s", used ? "+" : "", (int)len, names);
        names += len + (names[len] == '+');
    }
}

/* The names of all transports that serve this rank's peers, each once, joined by "+". */
static void transport_describe(const struct bench_rank *rank, char *ret_text, size_t len) {
    snprintf(ret_text, len, "%s", rank->nranks == 1 ? "self" : "");
    for (int peer = 0; peer < rank->nranks; peer++) {
        const char *name = peer == rank->rank ? NULL : rcm_comm_transport(rank->comm, peer);
        if (name)
            names_add(ret_text, len, name);
    }
}

static const char *algorithm_describe(const struct bench_rank *rank,
                                      const struct bench_point *point) {
    if (point->what == BENCH_SENDRECV)
        return "-";
    if (rank->options->algorithm)
        return rank->options->algorithm;
    const char *name = rcm_comm_algorithm(rank->comm, point->info.collective, point->bytes);
    return name ? name : "?";
}

/* The load of each rank's link as a share of algbw, as in nccl-tests (doc/PERFORMANCE.md). */
static double busbw_factor(const struct bench_point *point) {
    const double n = point->nranks;
    return point->info.busbw_one + point->info.busbw_per_rank / n;
}

static void output_remember(struct bench_output *output, const struct bench_point *point,
                            const char *transport, const char *algorithm, double median_us,
                            double busbw) {
    if (output->npoints == output->max_points)
        return;
    struct plot_point *p = &output->points[output->npoints++];
    /* The algorithm may change with the size, so the name contains only an algorithm set by the
     * user. */
    snprintf(p->series, sizeof(p->series), "%s, %s%s%s", bench_what_name(point->what), transport,
             algorithm ? ", " : "", algorithm ? algorithm : "");
    p->bytes = (double)point->bytes;
    p->median_us = median_us;
    p->busbw = busbw;
}

static void output_row(struct bench_output *output, const struct bench_rank *rank,
                       const struct bench_point *point, const struct bench_result *result) {
    const bool has_dtype = point->what != BENCH_BARRIER;
    const bool has_op = point->info.reduces;
    const double algbw = result->median_us > 0 ? (double)point->bytes / result->median_us / 1e3 : 0;
    const double busbw = algbw * busbw_factor(point);
    char transport[64];
    transport_describe(rank, transport, sizeof(transport));

    const struct report_cell cells[BENCH_NCOLUMNS] = {
        report_text(bench_what_name(point->what)),
        report_text(transport),
        report_text(algorithm_describe(rank, point)),
        report_text(rank->options->cuda ? "cuda" : "host"),
        report_int(point->nranks),
        report_int((int64_t)point->bytes),
        report_text(has_dtype ? rcm_dtype_name(point->dtype) : "-"),
        report_text(has_op ? bench_op_name(point->op) : "-"),
        report_int(point->in_place),
        report_int(result->iters),
        report_real(result->min_us, 3),
        report_real(result->median_us, 3),
        report_real(result->p99_us, 3),
        report_real(result->span_us, 3),
        report_real(algbw, 6),
        report_real(busbw, 6),
        result->errors < 0 ? report_missing() : report_int(result->errors),
    };
    report_row(output->report, cells);
    output_remember(output, point, transport, rank->options->algorithm, result->median_us, busbw);
    if (result->errors > 0)
        output->errors += result->errors;
}

/* A progress line on a terminal; the next one overwrites it. */
static void output_progress(const struct bench_output *output, const struct bench_point *point) {
    if (!output->report || !isatty(STDERR_FILENO))
        return;
    if (point)
        fprintf(stderr, "\r\033[Kmeasuring %s, %zu bytes ...", bench_what_name(point->what),
                point->bytes);
    else
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

/* ---- the sweep ----------------------------------------------------------------------------- */

static size_t bytes_round_up(int64_t bytes, size_t width) {
    return ((size_t)bytes + width - 1) / width * width;
}

/* The size after `bytes`, or 0 when there is none. */
static size_t bytes_next(const struct bench_options *options, size_t bytes, size_t width) {
    size_t next = bytes_round_up((int64_t)bytes * options->factor, width);
    if (next <= bytes)
        next = bytes + width;
    return next > (size_t)options->max_bytes ? 0 : next;
}

static size_t bytes_first(const struct bench_options *options, size_t width) {
    return bytes_round_up(options->nsizes ? options->sizes[0] : options->min_bytes, width);
}

/* The i-th size, which follows `bytes`; 0 when there is none. */
static size_t bytes_at(const struct bench_options *options, int i, size_t bytes, size_t width) {
    if (options->nsizes)
        return i < options->nsizes ? bytes_round_up(options->sizes[i], width) : 0;
    return bytes_next(options, bytes, width);
}

static rcm_status bench_point_run(struct bench_rank *rank, struct bench_output *output,
                                  const struct bench_point *point) {
    struct bench_result result = {0};
    output_progress(output, point);
    rcm_status status = bench_measure(rank, point, &result);
    output_progress(output, NULL);
    if (status == RCM_OK && output->report)
        output_row(output, rank, point, &result);
    return status;
}

static rcm_status bench_sweep(struct bench_rank *rank, struct bench_output *output,
                              enum bench_what what) {
    const struct bench_options *options = rank->options;
    const struct rcm_collective_info info = bench_what_info(what);
    const size_t element = rcm_dtype_size(options->dtype);
    const size_t width = element * bench_blocks(&info, rank->nranks);
    struct bench_point point = {
        .what = what,
        .info = info,
        .dtype = options->dtype,
        .op = options->op,
        .root = options->root,
        .nranks = rank->nranks,
        .in_place = what == BENCH_BROADCAST || (what < BENCH_SENDRECV && what != BENCH_BARRIER &&
                                                !info.apart && options->in_place),
    };
    if (what == BENCH_BARRIER)
        return bench_point_run(rank, output, &point);

    size_t bytes = bytes_first(options, width);
    int done = 0;
    do {
        point.bytes = bytes;
        point.count = bytes / width;
        rcm_status status = bench_point_run(rank, output, &point);
        if (status != RCM_OK)
            return status;
        bytes = bytes_at(options, ++done, bytes, width);
    } while (bytes != 0);
    return RCM_OK;
}

static rcm_status bench_all(struct bench_rank *rank, struct bench_output *output) {
    const enum bench_what what = rank->options->what;
    if (what != BENCH_NWHAT)
        return bench_sweep(rank, output, what);
    for (int i = 0; i < BENCH_NWHAT; i++) {
        const struct rcm_collective_info info = bench_what_info((enum bench_what)i);
        if ((i == BENCH_SENDRECV && rank->nranks < 2) || !bench_op_fits(&info, rank->options->op))
            continue;
        rcm_status status = bench_sweep(rank, output, (enum bench_what)i);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

/* ---- from init to destroy ------------------------------------------------------------------ */

/* Checks that need the number of ranks. Rank 0 prints errors. */
static bool bench_check_size(const struct bench_rank *rank) {
    const struct bench_options *options = rank->options;
    const bool has_root = options->root < rank->nranks;
    const bool has_peer = options->what != BENCH_SENDRECV || rank->nranks > 1;
    if (!has_root && rank->rank == 0)
        tool_error("--root %d: the ranks are 0 to %d", options->root, rank->nranks - 1);
    if (!has_peer && rank->rank == 0)
        tool_error("sendrecv needs at least 2 ranks, there is 1");
    const bool needs_clock = options->together || options->asleep;
    const bool has_clock = !needs_clock || rcm_local_size(rank->comm) == rank->nranks;
    if (!has_clock && rank->rank == 0)
        tool_error("%s: the %d ranks are on several machines and have no common clock",
                   options->together ? "--together" : "--asleep", rank->nranks);
    return has_root && has_peer && has_clock;
}

static bool output_open(struct bench_output *output, const struct bench_rank *rank) {
    const struct bench_options *options = rank->options;
    output->max_points = BENCH_NWHAT * 1024;
    output->points = options->plot ? calloc(output->max_points, sizeof(*output->points)) : NULL;
    if (!output->points)
        output->max_points = 0;
    if (!report_open(bench_columns, BENCH_NCOLUMNS, options->csv, options->json, &output->report))
        return false;
    output_note(output, rank);
    return true;
}

static bool output_close(struct bench_output *output, const struct bench_options *options,
                         bool ok) {
    const bool was_open = output->report != NULL;
    ok = report_close(output->report) && ok;
    if (was_open && ok && options->plot)
        ok = plot_write(options->plot, options->command, output->points, output->npoints);
    free(output->points);
    if (output->errors > 0)
        tool_error("%lld wrong elements", (long long)output->errors);
    return ok && output->errors == 0;
}

static rcm_status rank_join(struct bench_rank *rank, int number, rcm_store *store) {
    const struct bench_options *options = rank->options;
    struct rcm_init_options init = RCM_INIT_OPTIONS_INIT;
    init.timeout_ms = options->timeout_ms;
    init.device = options->device;
    if (store) {
        init.rank = number;
        init.world_size = options->nranks;
        init.store = store;
    }
    rcm_status status = rcm_init(&init, &rank->comm);
    if (status != RCM_OK) {
        tool_error("%s (%s)%s", rcm_last_error(), rcm_status_name(status),
                   status == RCM_ERR_CONFIG && !options->nranks
                       ? "; --ranks N starts the ranks here, without a launcher"
                       : "");
        return status;
    }
    rank->rank = rcm_rank(rank->comm);
    rank->nranks = rcm_size(rank->comm);
    status = bench_op_open(options->op, options->dtype, rank->rank, &rank->op);
    if (status != RCM_OK)
        tool_error("%s", rcm_last_error());
    return status;
}

/* Aborts after a failure, so that the other ranks do not wait for this one. */
static bool rank_leave(struct bench_rank *rank, bool ok) {
    if (!ok && rcm_abort(rank->comm, "ringcomm-bench gave up on another rank") != RCM_OK)
        tool_error("rank %d: abort: %s", rank->rank, rcm_last_error());
    rcm_status status = rcm_destroy(rank->comm);
    if (ok && status != RCM_OK)
        tool_error("rank %d: destroy: %s", rank->rank, rcm_last_error());
    return ok && status == RCM_OK;
}

int bench_rank_main(const struct bench_options *options, int number, rcm_store *store) {
    struct bench_rank rank = {.options = options};
    struct bench_output output = {0};
    rank.deadline_ns = tool_now_ns() + options->timeout_ms * 1000000;
    if (rank_join(&rank, number, store) != RCM_OK)
        return TOOL_FAILED;
    if (!bench_check_size(&rank)) {
        rank_leave(&rank, true);
        return TOOL_USAGE;
    }

    const size_t max_bytes =
        bytes_round_up(options->max_bytes, rcm_dtype_size(options->dtype) * (size_t)rank.nranks);
    bool ok = bench_alloc(&rank, max_bytes) == RCM_OK;
    if (ok && options->neutral)
        ok = (rank.neutral = bench_neutral_open(options->neutral)) != NULL;
    if (ok && rank.rank == 0)
        ok = output_open(&output, &rank);
    ok = ok && bench_all(&rank, &output) == RCM_OK;
    ok = ok && (!options->counters || bench_counters(&rank) == RCM_OK);
    ok = rank_leave(&rank, ok);
    bench_op_close(rank.op);
    bench_neutral_close(rank.neutral);
    bench_free(&rank);
    ok = output_close(&output, options, ok);
    return ok ? TOOL_OK : TOOL_FAILED;
}
