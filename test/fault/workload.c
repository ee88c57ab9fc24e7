/* SPDX-License-Identifier: BSD-3-Clause */
/* The mix of operations. The result of every operation that returns RCM_OK is checked. Blocks and
 * bytes: workload_blocks.c. */
#include "workload.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void workload_wrong(struct workload *w, const char *what, uint64_t i, size_t at) {
    if (!w->problem[0])
        snprintf(w->problem, 256, "wrong data: %s, iteration %llu, element %zu", what,
                 (unsigned long long)i, at);
}

/* ---- Collectives ---------------------------------------------------------------------------- */

struct piece {
    size_t first, count; /* floats in send and recv */
};

static void fill_floats(struct workload *w, uint64_t i, struct piece p) {
    float *send = (float *)(void *)w->send + p.first, *recv = (float *)(void *)w->recv + p.first;
    for (size_t at = 0; at < p.count; at++) {
        send[at] = (float)workload_value(w->rank, i, at);
        recv[at] = -1;
    }
}

static void check_floats(struct workload *w, uint64_t i, struct piece p) {
    const float *recv = (const float *)(const void *)w->recv + p.first;
    for (size_t at = 0; at < p.count; at = workload_next(at, p.count)) {
        int sum = 0;
        for (int r = 0; r < w->n; r++)
            sum += workload_value(r, i, at);
        if (recv[at] != (float)sum)
            workload_wrong(w, "all_reduce", i, at);
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
        w->recv[at] = w->rank == root ? (unsigned char)workload_value(root, i, at) : 0xee;
    rcm_status status = rcm_broadcast(w->comm, w->recv, bytes, RCM_UINT8, root, &w->call, NULL);
    for (size_t at = 0; status == RCM_OK && at < bytes; at = workload_next(at, bytes))
        if (w->recv[at] != (unsigned char)workload_value(root, i, at))
            workload_wrong(w, "broadcast", i, at);
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
        w->send[at] = (unsigned char)workload_value(w->rank, i, at);
    memset(w->recv, 0xee, bytes);
}

static void check_bytes(struct workload *w, uint64_t i, size_t bytes, int from) {
    for (size_t at = 0; at < bytes; at = workload_next(at, bytes))
        if (w->recv[at] != (unsigned char)workload_value(from, i, at))
            workload_wrong(w, "message", i, at);
}

/* Waits for the work in any case; the first error counts. */
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
        usleep(500); /* the library's own thread continues */
    for (int k = WORKS - 1; k >= 0; k--)
        status = finish(works[k], status);
    for (int k = 0; status == RCM_OK && k < WORKS; k++)
        check_floats(w, i + (uint64_t)k, pieces[k]);
    return status;
}

enum { FIRST_BLOCKS = 16, FIRST_UNEVEN = 24 }; /* kinds */

/* ---- The mix -------------------------------------------------------------------------------- */

/* All ranks agree on whether one of them must stop. */
static rcm_status step_agree(struct workload *w, bool stop, bool *ret_stop) {
    int64_t mine = stop, any = 0;
    rcm_status status = rcm_all_reduce(w->comm, &mine, &any, 1, RCM_INT64, RCM_MAX, &w->call, NULL);
    if (status == RCM_OK)
        *ret_stop = any != 0;
    return status;
}

rcm_status workload_do(struct workload *w, uint64_t kind, uint64_t i, size_t size) {
    switch (kind) {
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
        return workload_blocks(w, i, (enum rcm_collective)(RCM_REDUCE + (int)kind - FIRST_BLOCKS),
                               size % 3 ? size : size % 300 + 1);
    case 24:
    case 25:
    case 26:
    case 27:
    case 28:
        return workload_uneven(w, i,
                               (enum rcm_collective)(RCM_SCATTER_V + (int)kind - FIRST_UNEVEN),
                               size % 3 ? size : size % 300 + 1);
    case 29:
        return workload_bytes(w, i, size);
    case 30:
        return step_coalesced(w, i, size);
    default:
        return step_all_reduce(w, i, size % 200 + 1);
    }
}

rcm_status workload_step(struct workload *w, uint64_t i, bool stop, bool *ret_stop) {
    uint64_t state = w->seed + i * UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t kind = random_next(&state) % WORKLOAD_KINDS;
    const size_t size = (size_t)(random_next(&state) % 60000) + 1;
    if (kind % 5 == (uint64_t)w->rank % 5)
        usleep((useconds_t)(random_next(&state) % 1500)); /* this rank comes late */
    if (i % 4 == 3)
        return step_agree(w, stop, ret_stop);
    return workload_do(w, kind, i, size);
}

/* ---- Each of it ----------------------------------------------------------------------------- */

static int every_once(struct workload *w, uint64_t kind, uint64_t i) {
    static const size_t sizes[] = {60000, 170, 9001};
    const rcm_status status = workload_do(w, kind, i, sizes[i % 3]);
    if (status == RCM_OK && !w->problem[0])
        return 0;
    fprintf(stderr, "rank %d, kind %d of operations (%s): %s\n", w->rank, (int)kind,
            w->call.algorithm ? w->call.algorithm : "by cost",
            status == RCM_OK ? w->problem : rcm_last_error());
    w->problem[0] = '\0';
    return 1;
}

/* With each algorithm, if its blocks have one length. */
static int every_way(struct workload *w, uint64_t kind) {
    struct rcm_algorithm_info info;
    int errors = 0;
    for (uint64_t i = 0; i < 6 && errors == 0; i++)
        errors += every_once(w, kind, i);
    if (kind < FIRST_BLOCKS || kind >= FIRST_UNEVEN)
        return errors;
    const enum rcm_collective collective =
        (enum rcm_collective)(RCM_REDUCE + (int)(kind - FIRST_BLOCKS));
    for (size_t a = 0; errors == 0 && rcm_algorithm_at(collective, a, &info) == RCM_OK; a++) {
        if (rcm_comm_prepare(w->comm, collective, 64, 0, info.name) != RCM_OK)
            continue;
        w->call.algorithm = info.name;
        for (uint64_t i = 0; i < 3; i++)
            errors += every_once(w, kind, i);
        w->call.algorithm = NULL;
    }
    return errors;
}

int workload_every(rcm_comm *comm) {
    char problem[256] = "";
    struct workload w = {.comm = comm,
                         .call = RCM_CALL_INIT,
                         .rank = rcm_rank(comm),
                         .n = rcm_size(comm),
                         .send = malloc(WORKLOAD_BYTES),
                         .recv = malloc(WORKLOAD_BYTES),
                         .problem = problem};
    int errors = 0;
    if (!w.send || !w.recv)
        abort();
    for (uint64_t kind = 0; kind < WORKLOAD_KINDS && errors == 0; kind++)
        errors += every_way(&w, kind);
    free(w.send);
    free(w.recv);
    return errors;
}
