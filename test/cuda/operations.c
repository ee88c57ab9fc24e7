/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations that bench.c does on device buffers and on the host's. */
#include "bench.h"

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

/* Blocks of unequal lengths, each of something: a rank that has nothing waits for no stream. */
static rcm_status all_gather_v(const struct bench *b, void *in, void *out,
                               const struct rcm_call *call) {
    size_t counts[BENCH_RANKS_MAX];
    const size_t part = b->count / BENCH_RANKS_MAX + 1;
    for (int r = 0; r < rcm_size(b->comm); r++)
        counts[r] = part * (size_t)(r + 1);
    return rcm_all_gather_v(b->comm, in, counts[rcm_rank(b->comm)], out, counts, NULL, b->dtype,
                            call, NULL);
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
    {"sendrecv", sendrecv, false},
    {"batch", batch, false},
};
const size_t bench_operations_count = sizeof bench_operations / sizeof bench_operations[0];
