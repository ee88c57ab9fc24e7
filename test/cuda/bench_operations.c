/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations that stream_bench.c runs on device buffers and on host buffers. */
#include "stream_bench.h"

static rcm_status all_reduce(const struct bench *b, void *in, void *out,
                             const struct rcm_call *call) {
    return rcm_all_reduce(b->comm, in, out, b->count, b->dtype, RCM_SUM, call, NULL);
}

static rcm_status all_reduce_in_place(const struct bench *b, void *in, void *out,
                                      const struct rcm_call *call) {
    (void)out;
    return rcm_all_reduce(b->comm, in, in, b->count, b->dtype, RCM_MAX, call, NULL);
}

static rcm_status broadcast(const struct bench *b, void *in, void *out,
                            const struct rcm_call *call) {
    (void)out;
    return rcm_broadcast(b->comm, in, b->count, b->dtype, rcm_size(b->comm) - 1, call, NULL);
}

static rcm_status reduce(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_reduce(b->comm, in, out, b->count, b->dtype, RCM_SUM, 0, call, NULL);
}

static rcm_status reduce_scatter(const struct bench *b, void *in, void *out,
                                 const struct rcm_call *call) {
    return rcm_reduce_scatter(b->comm, in, out, b->count, b->dtype, RCM_SUM, call, NULL);
}

static rcm_status all_gather(const struct bench *b, void *in, void *out,
                             const struct rcm_call *call) {
    return rcm_all_gather(b->comm, in, out, b->count, b->dtype, call, NULL);
}

static rcm_status gather(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_gather(b->comm, in, out, b->count, b->dtype, 0, call, NULL);
}

static rcm_status scatter(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_scatter(b->comm, in, out, b->count, b->dtype, 0, call, NULL);
}

static rcm_status all_to_all(const struct bench *b, void *in, void *out,
                             const struct rcm_call *call) {
    return rcm_all_to_all(b->comm, in, out, b->count, b->dtype, call, NULL);
}

static rcm_status scan(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_scan(b->comm, in, out, b->count, b->dtype, RCM_SUM, call, NULL);
}

static rcm_status exscan(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_exscan(b->comm, in, out, b->count, b->dtype, RCM_SUM, call, NULL);
}

/* Blocks of unequal length, none empty: a rank with an empty block does not wait for its stream. */
static rcm_status all_gather_v(const struct bench *b, void *in, void *out,
                               const struct rcm_call *call) {
    size_t counts[BENCH_RANKS_MAX];
    const size_t part = b->count / BENCH_RANKS_MAX + 1;
    for (int r = 0; r < rcm_size(b->comm); r++)
        counts[r] = part * (size_t)(r + 1);
    return rcm_all_gather_v(b->comm, in, counts[rcm_rank(b->comm)], out, counts, NULL, b->dtype,
                            call, NULL);
}

static rcm_status gather_v(const struct bench *b, void *in, void *out,
                           const struct rcm_call *call) {
    size_t counts[BENCH_RANKS_MAX];
    const size_t part = b->count / BENCH_RANKS_MAX + 1;
    for (int r = 0; r < rcm_size(b->comm); r++)
        counts[r] = part * (size_t)(r + 1);
    return rcm_gather_v(b->comm, in, counts[rcm_rank(b->comm)], out, counts, NULL, b->dtype, 0,
                        call, NULL);
}

static rcm_status scatter_v(const struct bench *b, void *in, void *out,
                            const struct rcm_call *call) {
    size_t counts[BENCH_RANKS_MAX];
    const size_t part = b->count / BENCH_RANKS_MAX + 1;
    for (int r = 0; r < rcm_size(b->comm); r++)
        counts[r] = part * (size_t)(r + 1);
    return rcm_scatter_v(b->comm, in, counts, NULL, out, counts[rcm_rank(b->comm)], b->dtype, 0,
                         call, NULL);
}

/* Lengths of blocks, some of them 0. */
static size_t pair_count(const struct bench *b, int from, int to) {
    const size_t part = b->count / BENCH_RANKS_MAX + 1;
    return from == to ? part : part * (size_t)((from + 2 * to) % 3);
}

static rcm_status all_to_all_v(const struct bench *b, void *in, void *out,
                               const struct rcm_call *call) {
    size_t sent[BENCH_RANKS_MAX], received[BENCH_RANKS_MAX];
    for (int r = 0; r < rcm_size(b->comm); r++) {
        sent[r] = pair_count(b, rcm_rank(b->comm), r);
        received[r] = pair_count(b, r, rcm_rank(b->comm));
    }
    return rcm_all_to_all_v(b->comm, in, sent, NULL, out, received, NULL, b->dtype, call, NULL);
}

static rcm_status sendrecv(const struct bench *b, void *in, void *out,
                           const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    return rcm_sendrecv(b->comm, in, b->count, (rank + 1) % p, 7, out, b->count, (rank + p - 1) % p,
                        7, b->dtype, call, NULL);
}

static rcm_status batch(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    const struct rcm_transfer transfers[] = {{.kind = RCM_TRANSFER_SEND,
                                              .peer = (rank + 1) % p,
                                              .buffer = in,
                                              .count = b->count,
                                              .dtype = b->dtype,
                                              .tag = 1},
                                             {.kind = RCM_TRANSFER_RECV,
                                              .peer = (rank + p - 1) % p,
                                              .buffer = out,
                                              .count = b->count,
                                              .dtype = b->dtype,
                                              .tag = 1}};
    return rcm_batch(b->comm, transfers, 2, call, NULL);
}

/* Waits for all works and frees them. Returns the first failure, or RCM_OK. */
static rcm_status works_end(rcm_work *const *works, int n) {
    rcm_status status = RCM_OK;
    for (int i = 0; i < n; i++) {
        const rcm_status end = works[i] ? rcm_work_wait(works[i], -1) : RCM_OK;
        status = status == RCM_OK ? end : status;
        rcm_work_free(works[i]);
    }
    return status;
}

/* Messages of two lengths with several tags. Receives use any source and another order. One send is
 * synchronous. */
static rcm_status tags(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    enum { PARTS = 4 };
    const int p = rcm_size(b->comm), to = (rcm_rank(b->comm) + 1) % p;
    const size_t quarter = b->count / PARTS + 1, element = rcm_dtype_size(b->dtype);
    rcm_work *works[2 * PARTS] = {NULL};
    rcm_status status = RCM_OK;
    for (int i = 0; i < PARTS && status == RCM_OK; i++) {
        const char *from = (const char *)in + (size_t)i * quarter * element;
        const size_t n = i % 2 ? quarter / 8 + 1 : quarter;
        status = (i == 2 ? rcm_ssend : rcm_send)(b->comm, from, n, b->dtype, to, (uint64_t)i, call,
                                                 &works[i]);
    }
    for (int i = PARTS - 1; i >= 0 && status == RCM_OK; i--)
        status = rcm_recv(b->comm, (char *)out + (size_t)i * quarter * element, quarter, b->dtype,
                          RCM_ANY_SOURCE, (uint64_t)i, call, &works[PARTS + i]);
    const rcm_status end = works_end(works, 2 * PARTS);
    return status == RCM_OK ? end : status;
}

/* The receive buffer holds about half of the message. */
static rcm_status truncated(const struct bench *b, void *in, void *out,
                            const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    rcm_work *sent = NULL;
    rcm_status status =
        rcm_send(b->comm, in, b->count + 1, b->dtype, (rank + 1) % p, 5, call, &sent);
    if (status == RCM_OK)
        status =
            rcm_recv(b->comm, out, b->count / 2 + 1, b->dtype, (rank + p - 1) % p, 5, call, NULL);
    const rcm_status end = works_end(&sent, 1);
    if (status == RCM_OK) /* the truncation was not reported */
        return RCM_ERR_INTERNAL;
    return status == RCM_ERR_TRUNCATED ? end : status;
}

/* A message found by a probe before its receive, and a canceled receive. */
static rcm_status probed(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    struct rcm_message message = RCM_MESSAGE_INIT;
    rcm_matched *matched = NULL;
    rcm_work *works[2] = {NULL};
    rcm_status status =
        rcm_send(b->comm, in, b->count, b->dtype, (rank + 1) % p, 6, call, &works[0]);
    if (status == RCM_OK)
        status = rcm_recv(b->comm, out, b->count, b->dtype, (rank + 1) % p, 77, call, &works[1]);
    if (status == RCM_OK)
        status = rcm_work_cancel(works[1]);
    if (status == RCM_OK)
        status = rcm_mprobe(b->comm, RCM_ANY_SOURCE, 6, NULL, &message, &matched);
    if (status == RCM_OK)
        status = rcm_mrecv(b->comm, matched, out, b->count, b->dtype, call, NULL);
    const rcm_status ends[] = {works_end(&works[0], 1), works_end(&works[1], 1)};
    if (status != RCM_OK || ends[0] != RCM_OK)
        return status != RCM_OK ? status : ends[0];
    return ends[1] == RCM_ERR_CANCELED ? RCM_OK : RCM_ERR_INTERNAL;
}

/* To host memory of the next rank, and back. */
static rcm_status relay(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    const int next = (rank + 1) % p, before = (rank + p - 1) % p;
    const size_t n = b->count;
    rcm_work *there = NULL, *back = NULL;
    void *host = malloc(n * rcm_dtype_size(b->dtype));
    if (!host)
        abort();
    rcm_status status = rcm_send(b->comm, in, n, b->dtype, next, 3, call, &there);
    if (status == RCM_OK)
        status = rcm_recv(b->comm, host, n, b->dtype, before, 3, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_send(b->comm, host, n, b->dtype, before, 4, NULL, &back);
    if (status == RCM_OK)
        status = rcm_recv(b->comm, out, n, b->dtype, next, 4, call, NULL);
    const rcm_status ends[] = {works_end(&there, 1), works_end(&back, 1)};
    free(host);
    return status != RCM_OK ? status : ends[0] != RCM_OK ? ends[0] : ends[1];
}

const struct bench_operation bench_operations[] = {
    {"all_reduce", all_reduce, true},
    {"all_reduce in place", all_reduce_in_place, true},
    {"broadcast", broadcast, false},
    {"reduce", reduce, true},
    {"reduce_scatter", reduce_scatter, true},
    {"all_gather", all_gather, false},
    {"gather", gather, false},
    {"scatter", scatter, false},
    {"all_to_all", all_to_all, false},
    {"scan", scan, true},
    {"exscan", exscan, true},
    {"all_gather_v", all_gather_v, false},
    {"gather_v", gather_v, false},
    {"scatter_v", scatter_v, false},
    {"all_to_all_v", all_to_all_v, false},
    {"sendrecv", sendrecv, false},
    {"batch", batch, false},
    {"tags", tags, false},
    {"truncated", truncated, false},
    {"probed", probed, false},
    {"relay", relay, false},
};
const size_t bench_operations_count = sizeof bench_operations / sizeof bench_operations[0];
