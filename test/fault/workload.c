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

/* ---- Blocks of unequal length --------------------------------------------------------------- */

enum { UNEVEN_RANKS = 64 };

struct uneven {
    enum rcm_collective collective;
    size_t most; /* elements of a block */
    int root;
    size_t in[UNEVEN_RANKS], out[UNEVEN_RANKS]; /* counts */
};

/* What goes from a rank to another one; from == to: the block of that rank. */
static size_t uneven_count(const struct uneven *u, uint64_t i, int from, int to) {
    return (i * 31 + (uint64_t)from * 7919 + (uint64_t)to * 104729) % (u->most + 1);
}

static void uneven_counts(const struct workload *w, uint64_t i, struct uneven *u) {
    const bool pairs = u->collective == RCM_ALL_TO_ALL_V;
    for (int r = 0; r < w->n; r++) {
        u->in[r] = uneven_count(u, i, pairs ? w->rank : r, r);
        u->out[r] = uneven_count(u, i, r, pairs ? w->rank : r);
    }
}

/* Does the rank send, or receive, a block for each rank, one, or nothing? */
static int uneven_blocks(const struct workload *w, const struct uneven *u, bool out) {
    const bool root = w->rank == u->root;
    switch (u->collective) {
    case RCM_SCATTER_V:
        return out ? 1 : root ? w->n : 0;
    case RCM_GATHER_V:
        return !out ? 1 : root ? w->n : 0;
    case RCM_ALL_GATHER_V:
        return out ? w->n : 1;
    case RCM_REDUCE_SCATTER_V:
        return out ? 1 : w->n;
    default:
        return w->n;
    }
}

static void uneven_fill(struct workload *w, uint64_t i, const struct uneven *u) {
    int64_t *send = (int64_t *)(void *)w->send, *recv = (int64_t *)(void *)w->recv;
    const int blocks = uneven_blocks(w, u, false);
    for (int k = 0; k < blocks; k++) {
        const int to = blocks == w->n ? k : w->rank;
        for (size_t at = 0; at < u->in[to]; at++)
            *send++ = value(w->rank, i, at + (size_t)to);
    }
    memset(recv, 0xee, (size_t)w->n * u->most * sizeof(*recv));
}

static int64_t uneven_value(const struct workload *w, uint64_t i, const struct uneven *u, int from,
                            size_t at) {
    int64_t sum = 0;
    switch (u->collective) {
    case RCM_SCATTER_V:
        return value(u->root, i, at + (size_t)w->rank);
    case RCM_REDUCE_SCATTER_V:
        for (int r = 0; r < w->n; r++)
            sum += value(r, i, at + (size_t)w->rank);
        return sum;
    case RCM_ALL_TO_ALL_V:
        return value(from, i, at + (size_t)w->rank);
    default:
        return value(from, i, at + (size_t)from);
    }
}

static void uneven_check(struct workload *w, uint64_t i, const struct uneven *u) {
    const int64_t *recv = (const int64_t *)(const void *)w->recv;
    const int blocks = uneven_blocks(w, u, true);
    for (int k = 0; k < blocks; k++) {
        const int from = blocks == w->n ? k : w->rank;
        const size_t count = u->out[from];
        for (size_t at = 0; at < count; at = next_at(at, count))
            if (recv[at] != uneven_value(w, i, u, from, at))
                wrong(w, "uneven blocks", i, at);
        recv += count;
    }
}

static rcm_status uneven_call(struct workload *w, const struct uneven *u) {
    const size_t own = u->in[w->rank];
    switch (u->collective) {
    case RCM_SCATTER_V:
        return rcm_scatter_v(w->comm, w->send, u->in, NULL, w->recv, own, RCM_INT64, u->root,
                             &w->call, NULL);
    case RCM_GATHER_V:
        return rcm_gather_v(w->comm, w->send, own, w->recv, u->out, NULL, RCM_INT64, u->root,
                            &w->call, NULL);
    case RCM_ALL_GATHER_V:
        return rcm_all_gather_v(w->comm, w->send, own, w->recv, u->out, NULL, RCM_INT64, &w->call,
                                NULL);
    case RCM_REDUCE_SCATTER_V:
        return rcm_reduce_scatter_v(w->comm, w->send, u->in, NULL, w->recv, own, RCM_INT64, RCM_SUM,
                                    &w->call, NULL);
    default:
        return rcm_all_to_all_v(w->comm, w->send, u->in, NULL, w->recv, u->out, NULL, RCM_INT64,
                                &w->call, NULL);
    }
}

static rcm_status step_uneven(struct workload *w, uint64_t i, enum rcm_collective collective,
                              size_t count) {
    struct uneven u = {.collective = collective,
                       .most = count / (size_t)w->n + 1,
                       .root = (int)(i % (uint64_t)w->n)};
    if (w->n > UNEVEN_RANKS)
        return RCM_OK;
    uneven_counts(w, i, &u);
    uneven_fill(w, i, &u);
    const rcm_status status = uneven_call(w, &u);
    if (status == RCM_OK)
        uneven_check(w, i, &u);
    return status;
}

/* Lengths first, then the bytes. */
static rcm_status step_bytes(struct workload *w, uint64_t i, size_t bytes) {
    struct rcm_bytes *got = NULL;
    const struct uneven u = {.most = bytes / (size_t)w->n};
    const size_t own = uneven_count(&u, i, w->rank, w->rank);
    for (size_t at = 0; at < own; at++)
        w->send[at] = (unsigned char)value(w->rank, i, at);
    const rcm_status status = rcm_all_gather_bytes(w->comm, w->send, own, &got, &w->call, NULL);
    for (int r = 0; r < w->n && status == RCM_OK; r++) {
        const size_t count = got->offsets[r + 1] - got->offsets[r];
        if (count != uneven_count(&u, i, r, r))
            wrong(w, "length of bytes", i, (size_t)r);
        for (size_t at = 0; at < count; at = next_at(at, count))
            if (got->data[got->offsets[r] + at] != (unsigned char)value(r, i, at))
                wrong(w, "bytes", i, at);
    }
    free(got);
    return status;
}

/* Three parts as one work. */
static rcm_status step_coalesced(struct workload *w, uint64_t i, size_t count) {
    struct piece pieces[3];
    struct rcm_part parts[3];
    for (size_t k = 0; k < 3; k++) {
        pieces[k] = (struct piece){k * (count / 3), count / 3};
        fill_floats(w, i + k, pieces[k]);
        parts[k] = (struct rcm_part){(float *)(void *)w->send + pieces[k].first,
                                     (float *)(void *)w->recv + pieces[k].first, pieces[k].count,
                                     RCM_FLOAT32};
    }
    const rcm_status status =
        rcm_coalesced(w->comm, RCM_ALL_REDUCE, parts, 3, RCM_SUM, 0, &w->call, NULL);
    for (size_t k = 0; k < 3 && status == RCM_OK; k++)
        check_floats(w, i + k, pieces[k]);
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
    const uint64_t what = random_next(&state) % 32;
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
    case 24:
    case 25:
    case 26:
    case 27:
    case 28:
        return step_uneven(w, i, (enum rcm_collective)(RCM_SCATTER_V + (int)what - 24),
                           size % 3 ? size : size % 300 + 1);
    case 29:
        return step_bytes(w, i, size);
    case 30:
        return step_coalesced(w, i, size);
    default:
        return step_all_reduce(w, i, size % 200 + 1);
    }
}
