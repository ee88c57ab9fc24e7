/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A toy all_reduce, which newcomer_test.py adds to a copy of the library: the sum goes up the line
 * of ranks, each adding its own part, and comes back down. It is no part of the library.
 */
#include "algorithm.h"

static void toy_inner(struct rcmi_builder *b, int rank) {
    const struct rcmi_operand srcs[] = {rcmi_from(b, 0, rank - 1, 0), rcmi_in(0)};
    rcmi_reduce(b, 0, 0, srcs, 2, rcmi_nowhere(), rcmi_to(b, 0, rank + 1, 0));
    rcmi_recv_copy_send(b, 0, 0, rcmi_from(b, 0, rank + 1, 0), rcmi_out(0),
                        rcmi_to(b, 0, rank - 1, 0));
}

static void toy_last(struct rcmi_builder *b, int rank) {
    const struct rcmi_operand srcs[] = {rcmi_from(b, 0, rank - 1, 0), rcmi_in(0)};
    rcmi_reduce(b, 0, 0, srcs, 2, rcmi_out(0), rcmi_to(b, 0, rank - 1, 0));
}

static rcm_status toy_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                           int rank, int root, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (shape->nranks == 1) {
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    } else if (rank == 0) {
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1, 0));
        rcmi_recv(b, 0, 0, rcmi_from(b, 0, 1, 0), rcmi_out(0));
    } else if (rank == shape->nranks - 1) {
        toy_last(b, rank);
    } else {
        toy_inner(b, rank);
    }
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula toy_formula(const struct rcmi_algorithm *row,
                                       const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    const bool inner = rank > 0 && rank < shape->nranks - 1;
    (void)row;
    (void)root;
    return (struct rcmi_formula){.rounds = 2 * (p - 1), .chunks_sent = inner ? 2 : p > 1};
}

/* More messages in a row than all others have: it is never chosen. */
static void toy_count(struct rcmi_tally *t) {
    for (int r = 1; r < t->shape->nranks; r++) {
        rcmi_tally_send(t, r - 1, r, 1, 1);
        rcmi_tally_send(t, r, r - 1, 1, 1);
        rcmi_tally_local(t, r, 0, 1);
    }
    rcmi_tally_chain(t, 2.0 * (t->shape->nranks - 1));
}

const struct rcmi_algorithm rcmi_toy = {
    .name = "toy",
    .description = "sums up the line of ranks and passes the sum back; for this test",
    .collective = RCM_ALL_REDUCE,
    .ordered = true,
    .supports = rcmi_supports_all,
    .emit = toy_emit,
    .formula = toy_formula,
    .count = toy_count,
};
