/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scan and exscan in one round: each rank sends its vector to all ranks after it, and sums the
 * vectors of the ranks before it, in rank order, 16 at a time.
 *
 *      rank 0        rank 1        rank 2        rank 3
 *      a --> 1 2 3   b --> 2 3     c --> 3
 *      a             a+b           a+b+c         a+b+c+d        scan
 *                    a             a+b           a+b+c          exscan
 *
 * A rank sends before it sums, because in place the result overwrites its vector. For the same
 * reason no step may count as early there.
 *
 * Cost: 1 message in a row; the first rank sends p - 1 vectors, the last one sums as many. Good for
 * small vectors on few ranks.
 */
#include "algorithm.h"

/* Above this, the p(p-1)/2 channels cost more memory than the speed is worth, as in two_shot.c. */
#define RANKS_MAX 32

static bool direct_scan_supports(const struct rcmi_shape *shape) {
    return shape->nranks <= RANKS_MAX;
}

static void sum_steps(struct rcmi_builder *b, int rank, int n) {
    if (n > 1)
        rcmi_reduce_in_rank_order(b, 0, 0, n, rank, false, rcmi_out(0), RCMI_NO_CHANNEL);
    else if (n == 1 && rank == 0)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    else if (n == 1)
        rcmi_recv(b, 0, 0, rcmi_from(b, 0, 0, 0), rcmi_out(0));
}

static rcm_status direct_scan_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                   int rank, int root, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_stripes(b, shape->nranks <= 4 ? 2 : 1); /* up to p - 1 channels */
    rcmi_plan_late_in_place(b);
    for (int to = rank + 1; to < shape->nranks; to++)
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, to, 0));
    sum_steps(b, rank, row->collective == RCM_SCAN ? rank + 1 : rank);
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula direct_scan_formula(const struct rcmi_algorithm *row,
                                               const struct rcmi_shape *shape, int rank, int root) {
    (void)row;
    (void)root;
    return (struct rcmi_formula){.rounds = shape->nranks > 1,
                                 .chunks_sent = (uint64_t)(shape->nranks - 1 - rank)};
}

static void direct_scan_sends(struct rcmi_tally *t) {
    for (int to = 1; to < t->shape->nranks; to++)
        for (int from = 0; from < to; from++)
            rcmi_tally_send(t, from, to, 1, 1);
    rcmi_tally_chain(t, 1);
}

static void scan_count(struct rcmi_tally *t) {
    direct_scan_sends(t);
    for (int r = 0; r < t->shape->nranks; r++)
        rcmi_tally_local(t, r, r == 0, r);
}

static void exscan_count(struct rcmi_tally *t) {
    direct_scan_sends(t);
    for (int r = 2; r < t->shape->nranks; r++)
        rcmi_tally_local(t, r, 0, r - 1);
}

#define DESCRIPTION                                                                                \
    "sends each vector to all ranks after its own, which sum them; for small vectors, up to 32 "   \
    "ranks, any hosts"

const struct rcmi_algorithm rcmi_direct_scan = {
    .name = "direct",
    .description = DESCRIPTION,
    .collective = RCM_SCAN,
    .supports = direct_scan_supports,
    .emit = direct_scan_emit,
    .formula = direct_scan_formula,
    .count = scan_count,
};

const struct rcmi_algorithm rcmi_direct_exscan = {
    .name = "direct",
    .description = DESCRIPTION,
    .collective = RCM_EXSCAN,
    .supports = direct_scan_supports,
    .emit = direct_scan_emit,
    .formula = direct_scan_formula,
    .count = exscan_count,
};
