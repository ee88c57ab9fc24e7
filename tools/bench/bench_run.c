/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures one point. An iteration is: refill (untimed, when checked or fresh), barrier, wait for
 * the common start time (--together), read the clock, operation, read the clock, compare (untimed).
 * With --asleep the ranks sleep until a common start time instead of the barrier. Rank 0 collects
 * the times of all ranks after the last iteration, outside of the measurements. This file prints no
 * results.
 */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../common.h"

#define RUN_MIN_ITERS     5
#define RUN_MAX_ITERS     1000
#define RUN_TARGET_NS     200000000 /* measured time of a point without -n */
#define RUN_MIN_CHECKS    3
#define RUN_CHECK_BUDGET  40000000 /* element values computed per rank to check one point */
#define RUN_TAG_DATA      1
#define RUN_TAG_TIMES     2
#define RUN_PAGE          4096
#define RUN_MOMENT_NS     32768   /* --together: between possible start times */
#define RUN_TOGETHER_NS   1000    /* --together: largest start skew of an iteration that counts */
#define RUN_PERIOD_NS     1000000 /* --asleep: the period is a multiple of this, */
#define RUN_PERIOD_TIMES  4       /* and at least this many iterations of the warm-up */
#define RUN_OVERRUN_SHARE 10      /* a larger share than 1/10 of discarded iterations is reported */
#define RUN_SLACK_NS      20000000 /* --asleep: until the first start, for all ranks to get it */

/* ---- buffers ------------------------------------------------------------------------------- */

rcm_status bench_alloc(struct bench_rank *rank, size_t max_bytes) {
    const struct bench_options *options = rank->options;
    size_t len = (max_bytes + options->offset + RUN_PAGE) / RUN_PAGE * RUN_PAGE;
    size_t iters = options->iters ? (size_t)options->iters : RUN_MAX_ITERS;
    rank->send_mem = bench_buffer_get(rank, len);
    rank->recv_mem = bench_buffer_get(rank, len);
    rank->times = calloc(2 * iters + 1, sizeof(int64_t));
    rank->peer_times = calloc(2 * iters + 1, sizeof(int64_t));
    rank->max_iters = iters;
    rank->counts = calloc((size_t)rank->nranks, sizeof(*rank->counts));
    if (!rank->send_mem || !rank->recv_mem || !rank->times || !rank->peer_times || !rank->counts) {
        tool_error("rank %d: no memory for two buffers of %zu bytes", rank->rank, max_bytes);
        bench_free(rank);
        return RCM_ERR_NOMEM;
    }
    if (!bench_shadow_open(rank, rank->send_mem, len)) {
        bench_free(rank);
        return RCM_ERR_UNSUPPORTED;
    }
    rank->send = (char *)rank->send_mem + options->offset;
    rank->recv = (char *)rank->recv_mem + options->offset;
    return RCM_OK;
}

void bench_free(struct bench_rank *rank) {
    bench_shadow_close(rank);
    bench_buffer_put(rank, rank->send_mem);
    bench_buffer_put(rank, rank->recv_mem);
    free(rank->times);
    free(rank->peer_times);
    free(rank->counts);
    rank->counts = NULL;
    rank->send_mem = rank->recv_mem = NULL;
    rank->times = rank->peer_times = NULL;
}

/* Bytes before the rank's own block in a buffer with one block per rank. */
static size_t run_own_block(const struct bench_rank *rank, const struct bench_point *point) {
    return bench_block_first(point, rank->rank, rank->rank) * rcm_dtype_size(point->dtype);
}

/* The operation's input and output. */
static void *run_input(const struct bench_rank *rank, const struct bench_point *point) {
    const bool smaller = point->info.send_blocks == 1 && point->info.recv_blocks != 1;
    if (!point->in_place)
        return rank->send;
    return (char *)rank->recv + (smaller ? run_own_block(rank, point) : 0);
}

static void *run_output(const struct bench_rank *rank, const struct bench_point *point) {
    const bool smaller = point->info.recv_blocks == 1 && point->info.send_blocks != 1;
    return (char *)rank->recv + (point->in_place && smaller ? run_own_block(rank, point) : 0);
}

/* Writes the input, like a program that computes between operations. */
static void run_freshen(struct bench_rank *rank, const struct bench_point *point,
                        uint64_t iteration) {
    void *input = run_input(rank, point);
    if (!bench_has_input(point, rank->rank))
        return;
    bench_fill(point, rank->rank, iteration, bench_shadow(rank, input));
    bench_upload(rank, input, bench_in_count(point, rank->rank) * rcm_dtype_size(point->dtype));
}

/* Writes new data, so that data of an earlier iteration cannot pass as a result. */
static void run_refill(struct bench_rank *rank, const struct bench_point *point,
                       uint64_t iteration) {
    bench_poison(point, bench_shadow(rank, rank->recv));
    bench_upload(rank, rank->recv, point->bytes);
    run_freshen(rank, point, iteration);
}

/* The number of wrong elements on this rank. */
static size_t run_compare(struct bench_rank *rank, const struct bench_point *point,
                          uint64_t iteration) {
    if (!bench_has_result(point, rank->rank))
        return 0;
    const int last = point->what == BENCH_SENDRECV ? 1
                     : point->info.recv_at_root    ? point->root
                                                   : rank->nranks - 1;
    void *output = run_output(rank, point);
    unsigned char *result = bench_shadow(rank, output);
    const size_t bytes = bench_out_count(point, rank->rank) * rcm_dtype_size(point->dtype);
    bench_download(rank, output, bytes);
    const bool first = iteration == 0 || rank->options->check_last;
    if (rank->options->flip && first && rank->rank == last && bytes > 0)
        result[bytes / 2] ^= 0x10;
    return bench_count_wrong(point, rank->rank, iteration, result);
}

/* ---- one operation ------------------------------------------------------------------------- */

/* Each operation's timeout is the time left of the whole run. */
static struct rcm_call run_call(const struct bench_rank *rank, const char *algorithm) {
    int64_t left_ms = (rank->deadline_ns - tool_now_ns()) / 1000000;
    struct rcm_call call = RCM_CALL_INIT;
    call.timeout_ms = left_ms > 0 ? left_ms : 1;
    call.algorithm = algorithm;
    return call;
}

/* A round trip between ranks 0 and 1. */
static rcm_status run_ping_pong(struct bench_rank *rank, const struct bench_point *point,
                                const struct rcm_call *call) {
    const int peer = 1 - rank->rank;
    for (int turn = 0; turn < 2; turn++) {
        rcm_status status;
        if (turn == rank->rank)
            status = rcm_send(rank->comm, rank->send, point->count, point->dtype, peer,
                              RUN_TAG_DATA, call, NULL);
        else
            status = rcm_recv(rank->comm, rank->recv, point->count, point->dtype, peer,
                              RUN_TAG_DATA, call, NULL);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

static rcm_status run_operation(struct bench_rank *rank, const struct bench_point *point,
                                const struct rcm_call *call) {
    const void *in = run_input(rank, point);
    void *out = run_output(rank, point);
    const size_t own = rank->counts[rank->rank];
    switch (point->what) {
    case BENCH_ALL_REDUCE:
        return rcm_all_reduce(rank->comm, in, out, point->count, point->dtype, rank->op, call,
                              NULL);
    case BENCH_REDUCE:
        return rcm_reduce(rank->comm, in, out, point->count, point->dtype, rank->op, point->root,
                          call, NULL);
    case BENCH_SCATTER:
        return rcm_scatter(rank->comm, in, out, point->count, point->dtype, point->root, call,
                           NULL);
    case BENCH_GATHER:
        return rcm_gather(rank->comm, in, out, point->count, point->dtype, point->root, call, NULL);
    case BENCH_ALL_GATHER:
        return rcm_all_gather(rank->comm, in, out, point->count, point->dtype, call, NULL);
    case BENCH_REDUCE_SCATTER:
        return rcm_reduce_scatter(rank->comm, in, out, point->count, point->dtype, rank->op, call,
                                  NULL);
    case BENCH_ALL_TO_ALL:
        return rcm_all_to_all(rank->comm, in, out, point->count, point->dtype, call, NULL);
    case BENCH_SCAN:
        return rcm_scan(rank->comm, in, out, point->count, point->dtype, rank->op, call, NULL);
    case BENCH_EXSCAN:
        return rcm_exscan(rank->comm, in, out, point->count, point->dtype, rank->op, call, NULL);
    case BENCH_SCATTER_V:
        return rcm_scatter_v(rank->comm, in, rank->counts, NULL, out, own, point->dtype,
                             point->root, call, NULL);
    case BENCH_GATHER_V:
        return rcm_gather_v(rank->comm, in, own, out, rank->counts, NULL, point->dtype, point->root,
                            call, NULL);
    case BENCH_ALL_GATHER_V:
        return rcm_all_gather_v(rank->comm, in, own, out, rank->counts, NULL, point->dtype, call,
                                NULL);
    case BENCH_REDUCE_SCATTER_V:
        return rcm_reduce_scatter_v(rank->comm, in, rank->counts, NULL, out, own, point->dtype,
                                    rank->op, call, NULL);
    case BENCH_ALL_TO_ALL_V:
        return rcm_all_to_all_v(rank->comm, in, rank->counts, NULL, out, rank->counts, NULL,
                                point->dtype, call, NULL);
    case BENCH_BROADCAST:
        return rcm_broadcast(rank->comm, rank->recv, point->count, point->dtype, point->root, call,
                             NULL);
    case BENCH_BARRIER:
        return rcm_barrier(rank->comm, call, NULL);
    case BENCH_SENDRECV:
        return rank->rank < 2 ? run_ping_pong(rank, point, call) : RCM_OK;
    case BENCH_NWHAT:
    case BENCH_KERNEL:
        break;
    }
    return RCM_ERR_INVALID;
}

static rcm_status run_failed(const struct bench_rank *rank, const struct bench_point *point,
                             const char *what, rcm_status status) {
    tool_error("rank %d: %s of %zu bytes, %s: %s (%s)", rank->rank, bench_what_name(point->what),
               point->bytes, what, rcm_last_error(), rcm_status_name(status));
    return status;
}

/* Waits for the next multiple of RUN_MOMENT_NS of the machine's clock. Reason: ranks leave a
 * barrier one after the other, so without this the measured time would depend on the barrier. A
 * rank may just miss the start time of the others; merged_keep_together discards such iterations.
 */
static void run_await_moment(void) {
    const int64_t moment = (tool_now_ns() / RUN_MOMENT_NS + 1) * RUN_MOMENT_NS;
    while (tool_now_ns() < moment)
        ;
}

static void run_sleep_until(int64_t moment_ns) {
    const struct timespec moment = {.tv_sec = moment_ns / 1000000000,
                                    .tv_nsec = moment_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR)
        ;
}

/* Of --neutral. */
static rcm_status run_await_others(struct bench_rank *rank) {
    if (bench_neutral_wait(rank->neutral, rank->nranks, rank->deadline_ns))
        return RCM_OK;
    tool_error("rank %d: not all ranks came to the barrier of --neutral in time", rank->rank);
    return RCM_ERR_TIMEOUT;
}

/* Runs the library's barrier, which also completes the last iteration. Then with --together waits
 * for the start time, with --neutral runs the bench's own barrier. */
static rcm_status run_after_barrier(struct bench_rank *rank) {
    const struct rcm_call call = run_call(rank, NULL);
    rcm_status status = rcm_barrier(rank->comm, &call, NULL);
    if (status == RCM_OK && rank->neutral)
        return run_await_others(rank);
    if (!rank->options->together)
        return status;
    /* A second barrier: a rank that waited long in the first one, for another rank's new input, may
     * have slept and be late. */
    if (status == RCM_OK)
        status = rcm_barrier(rank->comm, &call, NULL);
    if (status == RCM_OK)
        run_await_moment();
    return status;
}

/* Sleeps until slot_ns, or runs a barrier if slot_ns is 0; then runs the operation. *ret_in and
 * *ret_out: this rank's clock before and after the operation. */
static rcm_status run_once(struct bench_rank *rank, const struct bench_point *point,
                           int64_t slot_ns, int64_t *ret_in, int64_t *ret_out) {
    if (tool_now_ns() >= rank->deadline_ns) {
        tool_error("rank %d: %s of %zu bytes: the --timeout of %.3g s has passed", rank->rank,
                   bench_what_name(point->what), point->bytes,
                   (double)rank->options->timeout_ms / 1e3);
        return RCM_ERR_TIMEOUT;
    }
    const struct rcm_call call = run_call(rank, rank->options->algorithm);
    rcm_status status = RCM_OK;
    if (slot_ns)
        run_sleep_until(slot_ns);
    else
        status = run_after_barrier(rank);
    if (status != RCM_OK)
        return run_failed(rank, point, "the barrier before it", status);

    const int64_t in = tool_now_ns();
    for (int64_t i = 0; i < rank->options->calls && status == RCM_OK; i++)
        status = run_operation(rank, point, &call);
    const int64_t out = tool_now_ns();
    if (status != RCM_OK)
        return run_failed(rank, point, "the operation", status);
    *ret_in = in;
    *ret_out = out;
    return RCM_OK;
}

/* ---- how many iterations ------------------------------------------------------------------- */

static int64_t run_warmup_count(const struct bench_rank *rank, const struct bench_point *point) {
    if (rank->options->warmup >= 0)
        return rank->options->warmup;
    if (point->bytes <= 64 << 10)
        return 20;
    return point->bytes <= 4 << 20 ? 4 : 2;
}

/* Runs unmeasured iterations. *ret_ns: the mean time from one start to the next, over the second
 * half: the first iterations make connections. The time includes the wait for slower ranks in the
 * next barrier. */
static rcm_status run_warmup(struct bench_rank *rank, const struct bench_point *point,
                             int64_t count, int64_t *ret_ns) {
    const int64_t half = count / 2;
    int64_t start = tool_now_ns();
    for (int64_t i = 0; i < count; i++) {
        int64_t in, out;
        if (i == half)
            start = tool_now_ns();
        if (rank->options->fresh)
            run_freshen(rank, point, (uint64_t)i);
        rcm_status status = run_once(rank, point, 0, &in, &out);
        if (status != RCM_OK)
            return status;
    }
    *ret_ns = (tool_now_ns() - start) / (count - half > 0 ? count - half : 1);
    return RCM_OK;
}

/* Broadcasts rank 0's number of iterations. */
static rcm_status run_agree_iters(struct bench_rank *rank, const struct bench_point *point,
                                  int64_t estimate_ns, int64_t *ret_iters) {
    if (rank->options->iters) {
        *ret_iters = rank->options->iters;
        return RCM_OK;
    }
    int64_t iters = RUN_TARGET_NS / (estimate_ns > 0 ? estimate_ns : 1);
    iters = iters < RUN_MIN_ITERS ? RUN_MIN_ITERS : iters > RUN_MAX_ITERS ? RUN_MAX_ITERS : iters;
    const struct rcm_call call = run_call(rank, NULL);
    rcm_status status = rcm_broadcast(rank->comm, &iters, 1, RCM_INT64, 0, &call, NULL);
    if (status != RCM_OK)
        return run_failed(rank, point, "agreeing on the number of iterations", status);
    if (iters < 1 || (size_t)iters > rank->max_iters) {
        tool_error("rank %d: rank 0 sent an invalid number of iterations: %lld", rank->rank,
                   (long long)iters);
        return RCM_ERR_PROTOCOL;
    }
    *ret_iters = iters;
    return RCM_OK;
}

/* The period of --asleep. RUN_PERIOD_TIMES is ample, because the estimate is from the warm-up, and
 * iterations after sleep take longer. */
static int64_t run_period(int64_t estimate_ns) {
    const int64_t periods = RUN_PERIOD_TIMES * estimate_ns / RUN_PERIOD_NS + 1;
    return periods * RUN_PERIOD_NS;
}

/* Broadcasts rank 0's start time and period. */
static rcm_status run_agree_slots(struct bench_rank *rank, const struct bench_point *point,
                                  int64_t period_ns) {
    int64_t slots[] = {tool_now_ns() + RUN_SLACK_NS, period_ns};
    const struct rcm_call call = run_call(rank, NULL);
    rcm_status status = rcm_broadcast(rank->comm, slots, 2, RCM_INT64, 0, &call, NULL);
    if (status != RCM_OK)
        return run_failed(rank, point, "agreeing on when iterations begin", status);
    rank->slot_ns = slots[0];
    rank->period_ns = slots[1];
    return RCM_OK;
}

/* The number of iterations from one check to the next: 1 with -n. Else RUN_CHECK_BUDGET limits the
 * checks, with a minimum of RUN_MIN_CHECKS. */
static int64_t run_check_stride(const struct bench_rank *rank, const struct bench_point *point,
                                int64_t iters) {
    if (rank->options->iters)
        return 1;
    const int64_t per_result = point->info.reduces ? point->nranks + 1 : 2;
    int64_t values =
        (int64_t)(point->count * bench_blocks(&point->info, point->nranks)) * (1 + per_result) + 1;
    int64_t checks = RUN_CHECK_BUDGET / values;
    checks = checks < RUN_MIN_CHECKS ? RUN_MIN_CHECKS : checks;
    return checks >= iters ? 1 : iters / checks;
}

static rcm_status run_iterations(struct bench_rank *rank, const struct bench_point *point,
                                 int64_t iters, int64_t *ret_errors) {
    const int64_t stride = run_check_stride(rank, point, iters);
    int64_t errors = 0;
    for (int64_t i = 0; i < iters; i++) {
        const bool checked = rank->options->check && i % stride == 0;
        if (checked)
            run_refill(rank, point, (uint64_t)i);
        else if (rank->options->fresh)
            run_freshen(rank, point, (uint64_t)i);
        const int64_t slot_ns = rank->options->asleep ? rank->slot_ns + i * rank->period_ns : 0;
        rcm_status status =
            run_once(rank, point, slot_ns, &rank->times[2 * i], &rank->times[2 * i + 1]);
        if (status != RCM_OK)
            return status;
        if (checked)
            errors += (int64_t)run_compare(rank, point, (uint64_t)i);
    }
    /* Without --fresh the inputs are still those of bench_measure. */
    if (rank->options->check_last)
        errors +=
            (int64_t)run_compare(rank, point, rank->options->fresh ? (uint64_t)(iters - 1) : 0);
    *ret_errors = errors;
    return RCM_OK;
}

/* ---- collecting the times ------------------------------------------------------------------ */

/* Per iteration, over all ranks that took part. */
struct run_merged {
    int64_t *slowest, *first_in, *last_in, *last_out;
};

static bool merged_alloc(struct run_merged *merged, size_t iters) {
    int64_t *mem = malloc((4 * iters + 1) * sizeof(int64_t));
    merged->slowest = mem;
    merged->first_in = mem + iters;
    merged->last_in = mem + 2 * iters;
    merged->last_out = mem + 3 * iters;
    return mem != NULL;
}

static void merged_add(struct run_merged *merged, const int64_t *times, size_t iters, bool first) {
    for (size_t i = 0; i < iters; i++) {
        const int64_t in = times[2 * i], out = times[2 * i + 1];
        if (first || out - in > merged->slowest[i])
            merged->slowest[i] = out - in;
        if (first || in < merged->first_in[i])
            merged->first_in[i] = in;
        if (first || in > merged->last_in[i])
            merged->last_in[i] = in;
        if (first || out > merged->last_out[i])
            merged->last_out[i] = out;
    }
}

/* Moves iteration i to index `kept`. */
static void merged_keep(struct run_merged *merged, size_t kept, size_t i) {
    merged->slowest[kept] = merged->slowest[i];
    merged->first_in[kept] = merged->first_in[i];
    merged->last_out[kept] = merged->last_out[i];
}

/* Discards iterations with a start skew above RUN_TOGETHER_NS; returns the number left. */
static size_t merged_keep_together(struct run_merged *merged, size_t iters) {
    size_t kept = 0;
    for (size_t i = 0; i < iters; i++)
        if (merged->last_in[i] - merged->first_in[i] <= RUN_TOGETHER_NS)
            merged_keep(merged, kept++, i);
    return kept;
}

/* Discards iterations to which a rank came from the previous one without sleep. Returns the number
 * left; the first one is always kept. */
static size_t merged_keep_asleep(struct run_merged *merged, size_t iters, int64_t slot_ns,
                                 int64_t period_ns) {
    size_t kept = 0;
    int64_t done_ns = 0; /* end of the previous iteration */
    for (size_t i = 0; i < iters; i++) {
        const bool slept = done_ns < slot_ns + (int64_t)i * period_ns;
        done_ns = merged->last_out[i];
        if (slept)
            merged_keep(merged, kept++, i);
    }
    return kept;
}

/* At rank 0: receives the times and errors of all ranks, one rank after the other. */
static rcm_status run_collect(struct bench_rank *rank, const struct bench_point *point,
                              size_t iters, struct run_merged *merged, int64_t *errors) {
    const size_t len = 2 * iters + 1;
    merged_add(merged, rank->times, iters, true);
    for (int peer = 1; peer < rank->nranks; peer++) {
        const struct rcm_call call = run_call(rank, NULL);
        rcm_status status = rcm_recv(rank->comm, rank->peer_times, len, RCM_INT64, peer,
                                     RUN_TAG_TIMES, &call, NULL);
        if (status != RCM_OK)
            return run_failed(rank, point, "collecting the times", status);
        /* A ping-pong has only the time of rank 0; its span with --asleep also includes rank 1. */
        if (point->what != BENCH_SENDRECV || (rank->options->asleep && peer == 1))
            merged_add(merged, rank->peer_times, iters, false);
        *errors += rank->peer_times[len - 1];
    }
    return RCM_OK;
}

static rcm_status run_deliver(struct bench_rank *rank, const struct bench_point *point,
                              size_t iters, int64_t errors) {
    const struct rcm_call call = run_call(rank, NULL);
    rank->times[2 * iters] = errors;
    rcm_status status =
        rcm_send(rank->comm, rank->times, 2 * iters + 1, RCM_INT64, 0, RUN_TAG_TIMES, &call, NULL);
    return status == RCM_OK ? RCM_OK : run_failed(rank, point, "sending the times", status);
}

/* ---- figures ------------------------------------------------------------------------------- */

static int int64_compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The smallest value such that at least this share of the sorted values is not above it. */
static double sorted_quantile(const int64_t *sorted, size_t n, double share) {
    size_t i = (size_t)ceil(share * (double)n);
    return (double)sorted[i > 0 ? i - 1 : 0];
}

static void run_summarise(const struct bench_rank *rank, const struct bench_point *point,
                          size_t iters, struct run_merged *merged, struct bench_result *result) {
    const double turns = point->what == BENCH_SENDRECV ? 2 : 1;     /* half a round trip */
    const double unit = 1e3 * turns * (double)rank->options->calls; /* ns to us */
    for (size_t i = 0; i < iters; i++) {
        merged->last_out[i] -= merged->first_in[i]; /* now the spans */
        if (rank->options->asleep)
            merged->slowest[i] = merged->last_out[i];
    }
    qsort(merged->slowest, iters, sizeof(int64_t), int64_compare);
    qsort(merged->last_out, iters, sizeof(int64_t), int64_compare);
    result->min_us = (double)merged->slowest[0] / unit;
    result->median_us = sorted_quantile(merged->slowest, iters, 0.5) / unit;
    result->p99_us = sorted_quantile(merged->slowest, iters, 0.99) / unit;
    const bool one_clock = rcm_local_size(rank->comm) == rank->nranks;
    result->span_us = one_clock ? sorted_quantile(merged->last_out, iters, 0.5) / unit : NAN;
    result->iters = (int64_t)iters;
}

/* Discards iterations that do not count; *iters becomes the number left. */
static rcm_status run_select(const struct bench_rank *rank, const struct bench_point *point,
                             struct run_merged *merged, size_t *iters) {
    const size_t all = *iters;
    const char *name = bench_what_name(point->what);
    if (rank->options->together) {
        *iters = merged_keep_together(merged, all);
        if (*iters == 0)
            tool_error("--together: no iteration of %zu of %s, %zu bytes, had a start skew below "
                       "%d ns; give each rank its own CPU",
                       all, name, point->bytes, RUN_TOGETHER_NS);
    }
    if (rank->options->asleep) {
        *iters = merged_keep_asleep(merged, all, rank->slot_ns, rank->period_ns);
        if (all - *iters > all / RUN_OVERRUN_SHARE)
            tool_error("--asleep: %zu of %zu iterations of %s, %zu bytes, were discarded: the "
                       "previous one was not done %lld ms after its start",
                       all - *iters, all, name, point->bytes,
                       (long long)(rank->period_ns / 1000000));
    }
    return *iters > 0 ? RCM_OK : RCM_ERR_UNSUPPORTED;
}

static rcm_status run_gather(struct bench_rank *rank, const struct bench_point *point, size_t iters,
                             int64_t errors, struct bench_result *ret_result) {
    if (rank->rank != 0)
        return run_deliver(rank, point, iters, errors);

    struct run_merged merged;
    if (!merged_alloc(&merged, iters)) {
        tool_error("rank 0: no memory for the times of %zu iterations", iters);
        return RCM_ERR_NOMEM;
    }
    rcm_status status = run_collect(rank, point, iters, &merged, &errors);
    if (status == RCM_OK)
        status = run_select(rank, point, &merged, &iters);
    if (status == RCM_OK) {
        run_summarise(rank, point, iters, &merged, ret_result);
        ret_result->errors = rank->options->check || rank->options->check_last ? errors : -1;
    }
    free(merged.slowest);
    return status;
}

rcm_status bench_measure(struct bench_rank *rank, const struct bench_point *point,
                         struct bench_result *ret_result) {
    int64_t warmup = run_warmup_count(rank, point);
    if (warmup == 0 && !rank->options->iters)
        warmup = 1; /* the estimate needs one */
    int64_t estimate_ns = 0, iters = 0, errors = 0;

    for (int i = 0; i < rank->nranks; i++)
        rank->counts[i] = bench_block_count(point, rank->rank, i);
    run_refill(rank, point, 0);
    rcm_status status = run_warmup(rank, point, warmup, &estimate_ns);
    if (rank->options->asleep)
        estimate_ns = run_period(estimate_ns);
    if (status == RCM_OK)
        status = run_agree_iters(rank, point, estimate_ns, &iters);
    if (status == RCM_OK && rank->options->asleep)
        status = run_agree_slots(rank, point, estimate_ns);
    if (status == RCM_OK)
        status = run_iterations(rank, point, iters, &errors);
    if (status == RCM_OK)
        status = run_gather(rank, point, (size_t)iters, errors, ret_result);
    return status;
}
