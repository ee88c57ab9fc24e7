/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of the mix that move blocks, of one length or of different lengths, or bytes whose
 * lengths the library exchanges. */
#include <stdlib.h>
#include <string.h>
#include "workload.h"

/* ---- Blocks --------------------------------------------------------------------------------- */

/* A collective that moves blocks of int64, or reduces to a root or to the next rank. */
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

/* The number of ranks, from 0 on, that contribute to this rank's sum. */
static int blocks_contributors(const struct workload *w, const struct blocks *b) {
    return b->collective == RCM_SCAN ? w->rank + 1 : b->collective == RCM_EXSCAN ? w->rank : w->n;
}

static int64_t blocks_value(const struct workload *w, const struct blocks *b, uint64_t i,
                            size_t at) {
    const size_t own = (size_t)w->rank * b->count;
    int64_t sum = 0;
    switch (b->collective) {
    case RCM_SCATTER:
        return workload_value(b->root, i, own + at);
    case RCM_GATHER:
    case RCM_ALL_GATHER:
        return workload_value((int)(at / b->count), i, at % b->count);
    case RCM_ALL_TO_ALL:
        return workload_value((int)(at / b->count), i, own + at % b->count);
    default:
        for (int r = 0; r < blocks_contributors(w, b); r++)
            sum += workload_value(r, i, b->collective == RCM_REDUCE_SCATTER ? own + at : at);
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

rcm_status workload_blocks(struct workload *w, uint64_t i, enum rcm_collective collective,
                           size_t count) {
    const struct blocks b = {collective, count / (size_t)w->n + 1, (int)(i % (uint64_t)w->n)};
    int64_t *send = (int64_t *)(void *)w->send, *recv = (int64_t *)(void *)w->recv;
    for (size_t at = 0; at < blocks_in(w, &b); at++)
        send[at] = workload_value(w->rank, i, at);
    const size_t out = blocks_out(w, &b);
    memset(recv, 0xee, out * sizeof(*recv));
    const rcm_status status = blocks_call(w, &b);
    for (size_t at = 0; status == RCM_OK && at < out; at = workload_next(at, out))
        if (recv[at] != blocks_value(w, &b, i, at))
            workload_wrong(w, "blocks", i, at);
    return status;
}

/* ---- Blocks of unequal length --------------------------------------------------------------- */

enum { UNEVEN_RANKS = 64 };

struct uneven {
    enum rcm_collective collective;
    size_t most; /* most elements of a block */
    int root;
    size_t in[UNEVEN_RANKS], out[UNEVEN_RANKS]; /* counts */
};

/* Elements from one rank to another; from == to: that rank's own block. */
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

/* The number of blocks that the rank sends or receives: one per rank, one, or none. */
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
            *send++ = workload_value(w->rank, i, at + (size_t)to);
    }
    memset(recv, 0xee, (size_t)w->n * u->most * sizeof(*recv));
}

static int64_t uneven_value(const struct workload *w, uint64_t i, const struct uneven *u, int from,
                            size_t at) {
    int64_t sum = 0;
    switch (u->collective) {
    case RCM_SCATTER_V:
        return workload_value(u->root, i, at + (size_t)w->rank);
    case RCM_REDUCE_SCATTER_V:
        for (int r = 0; r < w->n; r++)
            sum += workload_value(r, i, at + (size_t)w->rank);
        return sum;
    case RCM_ALL_TO_ALL_V:
        return workload_value(from, i, at + (size_t)w->rank);
    default:
        return workload_value(from, i, at + (size_t)from);
    }
}

static void uneven_check(struct workload *w, uint64_t i, const struct uneven *u) {
    const int64_t *recv = (const int64_t *)(const void *)w->recv;
    const int blocks = uneven_blocks(w, u, true);
    for (int k = 0; k < blocks; k++) {
        const int from = blocks == w->n ? k : w->rank;
        const size_t count = u->out[from];
        for (size_t at = 0; at < count; at = workload_next(at, count))
            if (recv[at] != uneven_value(w, i, u, from, at))
                workload_wrong(w, "uneven blocks", i, at);
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

rcm_status workload_uneven(struct workload *w, uint64_t i, enum rcm_collective collective,
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

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* Lengths first, then the bytes: by one of four collectives. */
struct bytes {
    enum rcm_collective collective;
    int root;
    struct uneven lengths;
};

static rcm_status bytes_call(struct workload *w, const struct bytes *b, uint64_t i,
                             struct rcm_bytes **ret_got) {
    const void *parts[UNEVEN_RANKS];
    size_t lengths[UNEVEN_RANKS];
    const size_t own = uneven_count(&b->lengths, i, w->rank, w->rank);
    for (int r = 0; r < w->n; r++) {
        parts[r] = w->send;
        lengths[r] = uneven_count(&b->lengths, i, b->root, r);
    }
    switch (b->collective) {
    case RCM_BROADCAST:
        return rcm_broadcast_bytes(w->comm, w->send, own, b->root, ret_got, &w->call, NULL);
    case RCM_SCATTER:
        return rcm_scatter_bytes(w->comm, parts, lengths, b->root, ret_got, &w->call, NULL);
    case RCM_GATHER:
        return rcm_gather_bytes(w->comm, w->send, own, b->root, ret_got, &w->call, NULL);
    default:
        return rcm_all_gather_bytes(w->comm, w->send, own, ret_got, &w->call, NULL);
    }
}

/* The number of blocks that the rank receives. */
static int bytes_blocks(const struct workload *w, const struct bytes *b) {
    const bool root = w->rank == b->root;
    switch (b->collective) {
    case RCM_BROADCAST:
        return !root;
    case RCM_SCATTER:
        return 1;
    case RCM_GATHER:
        return root ? w->n : 0;
    default:
        return w->n;
    }
}

static void bytes_check(struct workload *w, const struct bytes *b, uint64_t i,
                        const struct rcm_bytes *got) {
    const int blocks = bytes_blocks(w, b);
    for (int k = 0; k < blocks; k++) {
        const int from = blocks == w->n && w->n > 1 ? k : b->root;
        const int to = b->collective == RCM_SCATTER ? w->rank : from;
        const size_t count = got->offsets[k + 1] - got->offsets[k];
        if (count != uneven_count(&b->lengths, i, from, to))
            workload_wrong(w, "length of bytes", i, (size_t)k);
        for (size_t at = 0; at < count; at = workload_next(at, count))
            if (got->data[got->offsets[k] + at] != (unsigned char)workload_value(from, i, at))
                workload_wrong(w, "bytes", i, at);
    }
}

rcm_status workload_bytes(struct workload *w, uint64_t i, size_t bytes) {
    static const enum rcm_collective all[] = {RCM_ALL_GATHER, RCM_BROADCAST, RCM_SCATTER,
                                              RCM_GATHER};
    const struct bytes b = {.collective = all[i / 2 % 4],
                            .root = (int)(i % (uint64_t)w->n),
                            .lengths = {.most = bytes / (size_t)w->n}};
    struct rcm_bytes *got = NULL;
    if (w->n > UNEVEN_RANKS)
        return RCM_OK;
    for (size_t at = 0; at < b.lengths.most; at++)
        w->send[at] = (unsigned char)workload_value(w->rank, i, at);
    const rcm_status status = bytes_call(w, &b, i, &got);
    if (status == RCM_OK && bytes_blocks(w, &b) > 0)
        bytes_check(w, &b, i, got);
    free(got);
    return status;
}
