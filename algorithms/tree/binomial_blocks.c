/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scatter and gather along a binomial tree, counted from the root (picture in binomial.c). The
 * blocks of a subtree belong to consecutive ranks and travel together: the root sends half of all
 * blocks in one message, and each receiving rank forwards half of its blocks. A gather reverses the
 * arrows.
 *
 *      p = 8, root 0      0 -- 4 5 6 7 --> 4 -- 6 7 --> 6 -- 7 --> 7
 *                         |                +--- 5 ----> 5
 *                         +--- 2 3 ------> 2 -- 3 ----> 3
 *                         +--- 1 --------> 1
 *
 * Ranks that forward blocks keep them in scratch, their own first. More than RCMI_SPAN_MAX blocks
 * are several messages.
 *
 * Cost: floor(log2 p) messages in a row, ceil(log2 p) sent or received by the root. The root sends
 * p - 1 blocks; a block is sent up to (log2 p) / 2 times by other ranks. Good for small blocks on
 * many ranks.
 */
#include "algorithm.h"

struct tree {
    struct rcmi_builder *b;
    uint32_t p, root, v; /* this rank, counted from the root */
};

static uint32_t rank_at(const struct tree *t, uint32_t v) {
    return (v + t->root) % t->p;
}

/* The number of ranks in the subtree of v: its lowest set bit, limited by p. */
static uint32_t subtree(const struct tree *t, uint32_t v) {
    const uint32_t all = v == 0 ? t->p : v & (0 - v);
    return all < t->p - v ? all : t->p - v;
}

static bool hands_on(const struct tree *t) {
    return t->v != 0 && subtree(t, t->v) > 1;
}

/* The position of the block of v in this rank's buffer of several blocks. */
static struct rcmi_operand block_of(const struct tree *t, uint32_t v, bool out) {
    if (t->v != 0)
        return rcmi_scratch(v - t->v);
    return out ? rcmi_out(rank_at(t, v)) : rcmi_in(rank_at(t, v));
}

static void send_subtree(const struct tree *t, uint32_t v, uint32_t to, bool own) {
    const uint32_t n = subtree(t, v);
    for (uint32_t at = 0; at < n; at += RCMI_SPAN_MAX) {
        rcmi_send(t->b, 0, rank_at(t, v + at), own ? rcmi_in(0) : block_of(t, v + at, false),
                  rcmi_to(t->b, 0, (int)rank_at(t, to), 0));
        rcmi_span_of(t->b, 0, rcmi_span_length(n, at));
    }
}

static void receive_subtree(const struct tree *t, uint32_t v, uint32_t from, bool own) {
    const uint32_t n = subtree(t, v);
    for (uint32_t at = 0; at < n; at += RCMI_SPAN_MAX) {
        rcmi_recv(t->b, 0, rank_at(t, v + at), rcmi_from(t->b, 0, (int)rank_at(t, from), 0),
                  own ? rcmi_out(0) : block_of(t, v + at, true));
        rcmi_span_of(t->b, 0, rcmi_span_length(n, at));
    }
}

/* The largest subtree first: its path is the longest. */
static void scatter_steps(const struct tree *t) {
    const uint32_t self = rank_at(t, t->v);
    if (t->v != 0)
        receive_subtree(t, t->v, rcmi_binomial_parent(t->v), !hands_on(t));
    for (uint32_t bit = rcmi_binomial_first_bit(t->v, t->p); bit != 0; bit >>= 1)
        if (t->v + bit < t->p)
            send_subtree(t, t->v + bit, t->v + bit, false);
    if (t->v == 0 || hands_on(t))
        rcmi_copy_chunk(t->b, 0, self, block_of(t, t->v, false), rcmi_out(0));
}

/* The smallest subtree first: it is complete first. */
static void gather_steps(const struct tree *t) {
    const uint32_t self = rank_at(t, t->v);
    const uint32_t nchildren = rcmi_binomial_children(t->v, t->p);
    if (t->v == 0 || hands_on(t))
        rcmi_copy_chunk(t->b, 0, self, rcmi_in(0), block_of(t, t->v, true));
    for (uint32_t i = 0; i < nchildren; i++) {
        const uint32_t child = t->v + (UINT32_C(1) << i);
        receive_subtree(t, child, child, false);
    }
    if (t->v != 0)
        send_subtree(t, t->v, rcmi_binomial_parent(t->v), !hands_on(t));
}

static rcm_status binomial_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                int rank, int root, struct rcmi_plan **ret_plan) {
    struct tree t = {.p = (uint32_t)shape->nranks, .root = (uint32_t)root};
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &t.b);
    if (status != RCM_OK)
        return status;
    t.v = ((uint32_t)rank + t.p - t.root) % t.p;
    rcmi_plan_spans(t.b, rcmi_span_length(t.p, 0));
    if (row->collective == RCM_SCATTER)
        scatter_steps(&t);
    else
        gather_steps(&t);
    return rcmi_plan_finish(t.b, ret_plan);
}

static struct rcmi_formula binomial_formula(const struct rcmi_algorithm *row,
                                            const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    const struct tree t = {.p = p};
    const uint32_t v = ((uint32_t)rank + p - (uint32_t)root) % p, blocks = subtree(&t, v);
    const bool scatter = row->collective == RCM_SCATTER;
    return (struct rcmi_formula){.rounds = rcmi_log2_floor(p),
                                 .chunks_sent = scatter  ? blocks - 1
                                                : v == 0 ? 0
                                                         : blocks};
}

/* Along the path between the root and a rank: blocks of the longest messages, and messages between
 * hosts. */
struct path {
    uint32_t blocks, between;
};

static struct path path_to(const struct tree *t, const int *host_of, uint32_t v) {
    struct path path = {0};
    for (; v != 0; v = rcmi_binomial_parent(v)) {
        path.blocks += rcmi_span_length(subtree(t, v), 0);
        path.between += host_of[rank_at(t, v)] != host_of[rank_at(t, rcmi_binomial_parent(v))];
    }
    return path;
}

static void binomial_count(struct rcmi_tally *tally) {
    const struct tree t = {.p = (uint32_t)tally->shape->nranks, .root = (uint32_t)tally->root};
    const double block = 1.0 / t.p;
    const bool down = tally->row->collective == RCM_SCATTER;
    struct path most = {0};
    for (uint32_t v = 1; v < t.p; v++) {
        const int self = (int)rank_at(&t, v), parent = (int)rank_at(&t, rcmi_binomial_parent(v));
        const struct path path = path_to(&t, tally->shape->host_of, v);
        const uint32_t n = subtree(&t, v);
        rcmi_tally_spans(tally, down ? parent : self, down ? self : parent, n, block);
        rcmi_tally_local(tally, self, n > 1 ? block : 0, 0); /* its own block, from or to scratch */
        most.blocks = path.blocks > most.blocks ? path.blocks : most.blocks;
        most.between = path.between > most.between ? path.between : most.between;
    }
    rcmi_tally_local(tally, tally->root, block, 0);
    rcmi_tally_chain(tally, most.blocks * block);
    rcmi_tally_between(tally, most.between);
}

const struct rcmi_algorithm rcmi_binomial_scatter = {
    .name = "binomial",
    .description = "hands half of the blocks on in every round; for small blocks and many ranks, "
                   "any hosts",
    .collective = RCM_SCATTER,
    .supports = rcmi_supports_all,
    .emit = binomial_emit,
    .formula = binomial_formula,
    .count = binomial_count,
};

const struct rcmi_algorithm rcmi_binomial_gather = {
    .name = "binomial",
    .description = "collects blocks up a binomial tree; for small blocks and many ranks, any hosts",
    .collective = RCM_GATHER,
    .supports = rcmi_supports_all,
    .emit = binomial_emit,
    .formula = binomial_formula,
    .count = binomial_count,
};
