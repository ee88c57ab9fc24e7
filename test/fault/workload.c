/* SPDX-License-Identifier: BSD-3-Clause */
/* The mix of operations. What is done in iteration i follows from the seed alone; every result of
 * an operation that says RCM_OK is checked. */
#include "harness.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Small enough that sums over all ranks are exact in every type. */
static int value(int rank, uint64_t i, size_t at) {
    return (int)(((uint64_t)rank * 31 + i * 7 + at * 13) % 23);
}

static void wrong(struct workload *w, const char *what, uint64_t i, size_t at) {
    if (!w->problem[0])
        snprintf(w->problem, 256, "wrong data: %s, iteration %llu, element %zu", what,
                 (unsigned long long)i, at);
}

/* Elements that are looked at: the first ones, the last one, and some between. */
static size_t next_at(size_t at, size_t count) {
    size_t next = at < 64 ? at + 1 : at + 61;
    return next >= count && at + 1 < count ? count - 1 : next;
}

/* ---- Collectives ---------------------------------------------------------------------------- */

struct piece {
    size_t first, count; /* floats in send and recv */
};

static void fill_floats(struct workload *w, uint64_t i, struct piece p) {
    float *send = (float *)(void *)w->send + p.first, *recv = (float *)(void *)w->recv + p.first;
    for (size_t at = 0; at < p.count; at++) {
        send[at] = (float)value(w->rank, i, at);
        recv[at] = -1;
    }
}

static void check_floats(struct workload *w, uint64_t i, struct piece p) {
    const float *recv = (const float *)(const void *)w->recv + p.first;
    for (size_t at = 0; at < p.count; at = next_at(at, p.count)) {
        int sum = 0;
        for (int r = 0; r < w->n; r++)
            sum += value(r, i, at);
        if (recv[at] != (float)sum)
            wrong(w, "all_reduce", i, at);
    }
}

static rcm_status reduce_floats(struct workload *w, uint64_t i, struct piece p, rcm_work **work) {
    fill_floats(w, i, p);
    return rcm_all_reduce(w->comm, (float *)(void *)w->send + p.first,
                          (float *)(void *)w->recv + p.first, p.count, RCM_FLOAT32, RCM_SUM,
                          &w->call, work);
}

static rcm_status step_all_reduce(struct workload *w, uint64_t i, size_t count) {
    const struct piece p = {0, count};
    rcm_status status = reduce_floats(w, i, p, NULL);
    if (status == RCM_OK)
        check_floats(w, i, p);
    return status;
}

static rcm_status step_broadcast(struct workload *w, uint64_t i, size_t bytes) {
    const int root = (int)(i % (uint64_t)w->n);
    for (size_t at = 0; at < bytes; at++)
        w->recv[at] = w->rank == root ? (unsigned char)value(root, i, at) : 0xee;
    rcm_status status = rcm_broadcast(w->comm, w->recv, bytes, RCM_UINT8, root, &w->call, NULL);
    for (size_t at = 0; status == RCM_OK && at < bytes; at = next_at(at, bytes))
        if (w->recv[at] != (unsigned char)value(root, i, at))
            wrong(w, "broadcast", i, at);
    return status;
}

/* ---- Blocks --------------------------------------------------------------------------------- */

/* A collective that moves blocks of int64, or reduces to a root or the ranks after each. */
struct blocks {
    enum rcm_collective collective;
    size_t count;
    int root;
};

static size_t blocks_in(const struct workload *w, const struct blocks *b) {
    const bool many = b->collective == RCM_SCATTER || b->collective == RCM_REDUCE_SCATTER ||
                      b->collective == RCM_ALL_TO_ALL;
    return many ? (size_t)w->n * b->count : b->count;
}

static size_t blocks_out(const struct workload *w, const struct blocks *b) {
    const bool many = b->collective == RCM_GATHER || b->collective == RCM_ALL_GATHER ||
                      b->collective == RCM_ALL_TO_ALL;
    if ((b->collective == RCM_REDUCE || b->collective == RCM_GATHER) && w->rank != b->root)
        return 0;
    if (b->collective == RCM_EXSCAN && w->rank == 0)
        return 0;
    return many ? (size_t)w->n * b->count : b->count;
}

/* Ranks 0..n-1 contribute to a sum of this rank: n. */
static int blocks_contributors(const struct workload *w, const struct blocks *b) {
    return b->collective == RCM_SCAN ? w->rank + 1 : b->collective == RCM_EXSCAN ? w->rank : w->n;
}

static int64_t blocks_value(const struct workload *w, const struct blocks *b, uint64_t i,
                            size_t at) {
    const size_t own = (size_t)w->rank * b->count;
    int64_t sum = 0;
    switch (b->collective) {
    case RCM_SCATTER:
        return value(b->root, i, own + at);
    case RCM_GATHER:
    case RCM_ALL_GATHER:
        return value((int)(at / b->count), i, at % b->count);
    case RCM_ALL_TO_ALL:
        return value((int)(at / b->count), i, own + at % b->count);
    default:
        for (int r = 0; r < blocks_contributors(w, b); r++)
            sum += value(r, i, b->collective == RCM_REDUCE_SCATTER ? own + at : at);
        return sum;
    }
}

static rcm_status blocks_call(struct workload *w, const struct blocks *b) {
    const void *in = w->send;
    void *out = w->recv;
    switch (b->collective) {
    case RCM_REDUCE:
        return rcm_reduce(w->comm, in, out, b->count, RCM_INT64, RCM_SUM, b->root, &w->call, NULL);
    case RCM_SCATTER:
        return rcm_scatter(w->comm, in, out, b->count, RCM_INT64, b->root, &w->call, NULL);
    case RCM_GATHER:
        return rcm_gather(w->comm, in, out, b->count, RCM_INT64, b->root, &w->call, NULL);
    case RCM_ALL_GATHER:
        return rcm_all_gather(w->comm, in, out, b->count, RCM_INT64, &w->call, NULL);
    case RCM_REDUCE_SCATTER:
        return rcm_reduce_scatter(w->comm, in, out, b->count, RCM_INT64, RCM_SUM, &w->call, NULL);
    case RCM_SCAN:
        return rcm_scan(w->comm, in, out, b->count, RCM_INT64, RCM_SUM, &w->call, NULL);
    case RCM_EXSCAN:
        return rcm_exscan(w->comm, in, out, b->count, RCM_INT64, RCM_SUM, &w->call, NULL);
    default:
        return rcm_all_to_all(w->comm, in, out, b->count, RCM_INT64, &w->call, NULL);
    }
}

static rcm_status step_blocks(struct workload *w, uint64_t i, enum rcm_collective collective,
                              size_t count) {
    const struct blocks b = {collective, count / (size_t)w->n + 1, (int)(i % (uint64_t)w->n)};
    int64_t *send = (int64_t *)(void *)w->send, *recv = (int64_t *)(void *)w->recv;
    for (size_t at = 0; at < blocks_in(w, &b); at++)
        send[at] = value(w->rank, i, at);
    const size_t out = blocks_out(w, &b);
    memset(recv, 0xee, out * sizeof(*recv));
    const rcm_status status = blocks_call(w, &b);
    for (size_t at = 0; status == RCM_OK && at < out; at = next_at(at, out))
        if (recv[at] != blocks_value(w, &b, i, at))
            wrong(w, "blocks", i, at);
    return status;
}

/* ---- Point to point ------------------------------------------------------------------------- */

static void fill_bytes(struct workload *w, uint64_t i, size_t bytes) {
    for (size_t at = 0; at < bytes; at++)
        w->send[at] = (unsigned char)value(w->rank, i, at);
    memset(w->recv, 0xee, bytes);
}

static void check_bytes(struct workload *w, uint64_t i, size_t bytes, int from) {
    for (size_t at = 0; at < bytes; at = next_at(at, bytes))
        if (w->recv[at] != (unsigned char)value(from, i, at))
            wrong(w, "message", i, at);
}

/* Waits for it in any case; the first error stays. */
static rcm_status finish(rcm_work *work, rcm_status status) {
    if (!work)
        return status;
    rcm_status result = rcm_work_wait(work, -1);
    rcm_work_free(work);
    return status == RCM_OK ? result : status;
}

/* To the right, from the left. */
static rcm_status step_ring(struct workload *w, uint64_t i, size_t bytes) {
    const int right = (w->rank + 1) % w->n, left = (w->rank + w->n - 1) % w->n;
    rcm_work *send = NULL, *recv = NULL;
    fill_bytes(w, i, bytes);
    rcm_status status = rcm_recv(w->comm, w->recv, bytes, RCM_UINT8, left, i, &w->call, &recv);
    if (status == RCM_OK)
        status = rcm_send(w->comm, w->send, bytes, RCM_UINT8, right, i, &w->call, &send);
    status = finish(send, status);
    status = finish(recv, status);
    if (status == RCM_OK)
        check_bytes(w, i, bytes, left);
    return status;
}

/* Ranks 2k and 2k + 1, there and back, blocking. */
static rcm_status step_pairs(struct workload *w, uint64_t i, size_t bytes) {
    const int other = w->rank ^ 1;
    rcm_status status = RCM_OK;
    if (other >= w->n)
        return RCM_OK;
    fill_bytes(w, i, bytes);
    for (int turn = 0; status == RCM_OK && turn < 2; turn++)
        status = (w->rank & 1) == turn
                     ? rcm_send(w->comm, w->send, bytes, RCM_UINT8, other, i, &w->call, NULL)
                     : rcm_recv(w->comm, w->recv, bytes, RCM_UINT8, other, i, &w->call, NULL);
    if (status == RCM_OK)
        check_bytes(w, i, bytes, other);
    return status;
}

/* ---- Asynchronous --------------------------------------------------------------------------- */

enum { WORKS = 4 };

static rcm_status step_async(struct workload *w, uint64_t i, size_t count) {
    rcm_work *works[WORKS] = {NULL};
    struct piece pieces[WORKS];
    rcm_status status = RCM_OK;
    for (int k = 0; k < WORKS; k++) {
        pieces[k] = (struct piece){(size_t)k * count, k % 2 ? count : count / 16 + 1};
        if (status == RCM_OK)
            status = reduce_floats(w, i + (uint64_t)k, pieces[k], &works[k]);
    }
    if (i % 2)
        usleep(500); /* the library's own thread goes on */
    for (int k = WORKS - 1; k >= 0; k--)
        status = finish(works[k], status);
    for (int k = 0; status == RCM_OK && k < WORKS; k++)
        check_floats(w, i + (uint64_t)k, pieces[k]);
    return status;
}

/* ---- The mix -------------------------------------------------------------------------------- */

/* All ranks learn whether any of them wants to stop. */
static rcm_status step_agree(struct workload *w, bool stop, bool *ret_stop) {
    int64_t mine = stop, any = 0;
    rcm_status status = rcm_all_reduce(w->comm, &mine, &any, 1, RCM_INT64, RCM_MAX, &w->call, NULL);
    if (status == RCM_OK)
        *ret_stop = any != 0;
    return status;
}

rcm_status workload_step(struct workload *w, uint64_t i, bool stop, bool *ret_stop) {
    uint64_t state = w->seed + i * UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t what = random_next(&state) % 24;
    const size_t size = (size_t)(random_next(&state) % 60000) + 1;
    if (what % 5 == (uint64_t)w->rank % 5)
        usleep((useconds_t)(random_next(&state) % 1500)); /* is not there yet */
    if (i % 4 == 3)
        return step_agree(w, stop, ret_stop);
    switch (what) {
    case 0:
    case 1:
        return step_all_reduce(w, i, 4 * size);
    case 2:
    case 3:
        return step_broadcast(w, i, size);
    case 4:
        return step_broadcast(w, i, size % 100 + 1);
    case 5:
        return rcm_barrier(w->comm, &w->call, NULL);
    case 6:
        return rcm_monitored_barrier(w->comm, 0, &w->call, NULL);
    case 7:
        return step_ring(w, i, size % 3000 + 1);
    case 8:
        return step_ring(w, i, 4 * size);
    case 9:
        return step_pairs(w, i, size % 3000 + 1);
    case 10:
        return step_pairs(w, i, 4 * size);
    case 11:
    case 12:
        return step_async(w, i, size);
    case 16:
    case 17:
    case 18:
    case 19:
    case 20:
    case 21:
    case 22:
    case 23:
        return step_blocks(w, i, (enum rcm_collective)(RCM_REDUCE + (int)what - 16),
                           size % 3 ? size : size % 300 + 1);
    default:
        return step_all_reduce(w, i, size % 200 + 1);
    }
}
