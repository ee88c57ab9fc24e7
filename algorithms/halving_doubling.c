/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce by recursive halving and doubling (Rabenseifner; Thakur, Rabenseifner and Gropp 2005).
 * In each round a rank and its partner, whose number differs in one bit, split the chunks that both
 * have summed so far. Each sends the half that it gives up, and adds what it receives to the half
 * that it keeps. After log p rounds each has the whole sum of one chunk of p. Then the rounds are
 * reversed, and each doubles what a rank has of the result.
 *
 *      p = 4, chunks a b c d      keeps        and then      gets back
 *      rank 0                     a b of 01    a of 0123     b from 2    c d from 1
 *      rank 1                     c d of 01    c of 0123     d from 3    a b from 0
 *      rank 2                     a b of 23    b of 0123     a from 0    c d from 3
 *      rank 3                     c d of 23    d of 0123     c from 1    a b from 2
 *
 * The nearest ranks exchange most: halves of the vector go to the neighbour. If hosts hold
 * consecutive ranks, only the last and smallest chunks travel between hosts. If p is no power of
 * two, the first ranks fold in pairs as in recursive_doubling.c: the even rank sends its vector to
 * its odd neighbour, and gets the result back.
 *
 * Every chunk is summed by one rank, so all ranks get the same bits.
 *
 * Cost: 2 log p messages in a row, 2 more if p is no power of two (more if a half has more than
 * RCMI_SPAN_MAX chunks). Each rank sends 2(p-1)/p of the vector, as little as on a ring; a rank
 * that folds also sends the whole vector once. Good for vectors of middle size, and for large ones
 * if p is a power of two.
 */
#include "algorithm.h"

struct core {
    struct rcmi_builder *b;
    struct rcmi_folding fold;
    uint32_t n;    /* ranks of the core, and chunks */
    uint32_t self; /* this rank in the core */
};

static int core_rank(const struct core *c, uint32_t core) {
    return (int)rcmi_fold_rank_of(c->fold, core);
}

/* Sends chunks [send, send + n) to a rank of the core and receives chunks [recv, recv + n) from it.
 * adds: the received chunks are added to this rank's, else they are stored. */
static void exchange(const struct core *c, uint32_t peer, uint32_t send, uint32_t recv, uint32_t n,
                     bool from_in, bool adds) {
    const uint32_t to = rcmi_to(c->b, 0, core_rank(c, peer), 0);
    const struct rcmi_operand from = rcmi_from(c->b, 0, core_rank(c, peer), 0);
    for (uint32_t at = 0; at < n; at += RCMI_SPAN_MAX) {
        const uint32_t s = send + at, r = recv + at, length = rcmi_span_length(n, at);
        const struct rcmi_operand srcs[] = {from, from_in ? rcmi_in(r) : rcmi_out(r)};
        rcmi_send(c->b, 0, s, from_in ? rcmi_in(s) : rcmi_out(s), to);
        rcmi_span_of(c->b, 0, length);
        if (adds)
            rcmi_reduce(c->b, 0, r, srcs, 2, rcmi_out(r), RCMI_NO_CHANNEL);
        else
            rcmi_recv(c->b, 0, r, from, rcmi_out(r));
        rcmi_span_of(c->b, 0, length);
    }
}

/* The first chunk that a rank holds after the rounds of the bits below `bit`. */
static uint32_t first_chunk(const struct core *c, uint32_t bit) {
    uint32_t first = 0, half = c->n / 2;
    for (uint32_t b = 1; b < bit; b <<= 1, half /= 2)
        first += c->self & b ? half : 0;
    return first;
}

static void core_steps(const struct core *c, bool folded) {
    for (uint32_t bit = 1, half = c->n / 2; bit < c->n; bit <<= 1, half /= 2) {
        const uint32_t lower = first_chunk(c, bit), upper = lower + half;
        const bool up = c->self & bit;
        exchange(c, c->self ^ bit, up ? lower : upper, up ? upper : lower, half,
                 bit == 1 && !folded, true);
    }
    for (uint32_t bit = c->n / 2, half = 1; bit > 0; bit >>= 1, half *= 2) {
        const uint32_t lower = first_chunk(c, bit), upper = lower + half;
        const bool up = c->self & bit;
        exchange(c, c->self ^ bit, up ? upper : lower, up ? lower : upper, half, false, false);
    }
}

/* Sends the whole vector to the other rank of a pair, or receives it from there. */
static void whole_send(const struct core *c, struct rcmi_operand (*buffer)(uint32_t), int to) {
    for (uint32_t at = 0; at < c->n; at += RCMI_SPAN_MAX) {
        rcmi_send(c->b, 0, at, buffer(at), rcmi_to(c->b, 0, to, 0));
        rcmi_span_of(c->b, 0, rcmi_span_length(c->n, at));
    }
}

static void whole_receive(const struct core *c, int from, bool adds) {
    for (uint32_t at = 0; at < c->n; at += RCMI_SPAN_MAX) {
        const struct rcmi_operand srcs[] = {rcmi_from(c->b, 0, from, 0), rcmi_in(at)};
        if (adds)
            rcmi_reduce(c->b, 0, at, srcs, 2, rcmi_out(at), RCMI_NO_CHANNEL);
        else
            rcmi_recv(c->b, 0, at, srcs[0], rcmi_out(at));
        rcmi_span_of(c->b, 0, rcmi_span_length(c->n, at));
    }
}

static void halving_doubling_steps(const struct core *c, int rank) {
    const bool folded = (uint32_t)rank < 2 * c->fold.pairs;
    if (folded && rank % 2 == 0) {
        whole_send(c, rcmi_in, rank + 1);
        whole_receive(c, rank + 1, false);
        return;
    }
    if (folded)
        whole_receive(c, rank - 1, true);
    core_steps(c, folded);
    if (folded)
        whole_send(c, rcmi_out, rank - 1);
}

static rcm_status halving_doubling_emit(const struct rcmi_algorithm *row,
                                        const struct rcmi_shape *shape, int rank, int root,
                                        struct rcmi_plan **ret_plan) {
    const struct rcmi_folding fold = rcmi_fold((uint32_t)shape->nranks);
    struct core c = {.fold = fold, .n = fold.core, .self = rcmi_fold_core_of(fold, (uint32_t)rank)};
    rcm_status status =
        rcmi_plan_begin(row->name, row->collective, shape, rank, root, fold.core, 1, &c.b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_spans(c.b, rcmi_span_length(fold.pairs > 0 || c.n < 2 ? c.n : c.n / 2, 0));
    if (shape->nranks == 1)
        rcmi_copy_chunk(c.b, 0, 0, rcmi_in(0), rcmi_out(0));
    else
        halving_doubling_steps(&c, rank);
    return rcmi_plan_finish(c.b, ret_plan);
}

static uint32_t rounds_of(struct rcmi_folding fold) {
    uint32_t rounds = fold.pairs > 0 ? 2 : 0;
    for (uint32_t half = fold.core / 2; half > 0; half /= 2)
        rounds += 2 * rcmi_spans(half);
    return rounds;
}

static struct rcmi_formula halving_doubling_formula(const struct rcmi_algorithm *row,
                                                    const struct rcmi_shape *shape, int rank,
                                                    int root) {
    const struct rcmi_folding fold = rcmi_fold((uint32_t)shape->nranks);
    const bool folded = (uint32_t)rank < 2 * fold.pairs;
    uint64_t sent = 2 * (fold.core - 1);
    (void)row;
    (void)root;
    if (folded)
        sent = rank % 2 == 0 ? fold.core : sent + fold.core;
    return (struct rcmi_formula){.rounds = rounds_of(fold), .chunks_sent = sent};
}

/* Counts the messages within pairs. A chain of messages contains one message in each direction. */
static void fold_count(struct rcmi_tally *t, struct rcmi_folding fold) {
    const double chunk = 1.0 / fold.core;
    for (int even = 0; even < 2 * (int)fold.pairs; even += 2) {
        rcmi_tally_spans(t, even, even + 1, fold.core, chunk);
        rcmi_tally_spans(t, even + 1, even, fold.core, chunk);
        rcmi_tally_local(t, even + 1, 0, 1);
    }
}

static void halving_doubling_count(struct rcmi_tally *t) {
    const struct rcmi_folding fold = rcmi_fold((uint32_t)t->shape->nranks);
    const double chunk = 1.0 / fold.core, part = (fold.core - 1) * chunk;
    for (uint32_t core = 0; core < fold.core; core++) {
        const int rank = (int)rcmi_fold_rank_of(fold, core);
        for (uint32_t bit = 1, half = fold.core / 2; bit < fold.core; bit <<= 1, half /= 2)
            for (int direction = 0; direction < 2; direction++)
                rcmi_tally_spans(t, rank, (int)rcmi_fold_rank_of(fold, core ^ bit), half, chunk);
        rcmi_tally_local(t, rank, 0, part);
    }
    fold_count(t, fold);
    const double folded = fold.pairs > 0 ? 2 * rcmi_span_length(fold.core, 0) * chunk : 0;
    rcmi_tally_chain(t, 2 * part + folded);
}

const struct rcmi_algorithm rcmi_halving_doubling = {
    .name = "halving_doubling",
    .description = "halves what each rank sums in every round, then doubles what it has; for "
                   "vectors of middle size, any ranks and hosts",
    .collective = RCM_ALL_REDUCE,
    .supports = rcmi_supports_all,
    .spans = true,
    .emit = halving_doubling_emit,
    .formula = halving_doubling_formula,
    .count = halving_doubling_count,
};
