/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scan and exscan along the chain of ranks: each rank adds its own vector to what it receives from
 * the previous rank, and forwards the sum, slice by slice.
 *
 *                rank 0       rank 1         rank 2           rank 3
 *      sent          a -->      a+b -->      a+b+c -->
 *      scan          a          a+b          a+b+c            a+b+c+d
 *      exscan                   a            a+b              a+b+c
 *
 *      time ->   rank 0   s0 s1 s2 s3
 *                rank 1      s0 s1 s2 s3              every link carries a different slice
 *                rank 2         s0 s1 s2 s3
 *
 * Unlike on a ring, the order is by rank, not by host: a rank comes after the ranks in its result.
 * In place, an exscan's result lies where the rank's own vector is until that was added. So what is
 * received waits in scratch, and the sum is sent first, because the next rank waits for it.
 *
 * Cost: p-1 messages in a row; each rank but the last sends the vector once. A vector of k slices
 * takes the time of p-2+k slices. Good for large vectors on any hosts.
 */
#include "algorithm.h"

static bool is_last(const struct rcmi_shape *shape, int rank) {
    return rank == shape->nranks - 1;
}

static rcm_status scan_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                            int rank, int root, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    const uint32_t next = is_last(shape, rank) ? RCMI_NO_CHANNEL : rcmi_to(b, 0, rank + 1, 0);
    if (rank > 0) {
        const struct rcmi_operand srcs[] = {rcmi_from(b, 0, rank - 1, 0), rcmi_in(0)};
        rcmi_reduce(b, 0, 0, srcs, 2, rcmi_out(0), next);
    } else {
        if (next != RCMI_NO_CHANNEL)
            rcmi_send(b, 0, 0, rcmi_in(0), next);
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static void exscan_pass_on(struct rcmi_builder *b, int rank) {
    const struct rcmi_operand srcs[] = {rcmi_scratch(0), rcmi_in(0)};
    rcmi_recv(b, 0, 0, rcmi_from(b, 0, rank - 1, 0), rcmi_scratch(0));
    rcmi_reduce(b, 0, 0, srcs, 2, rcmi_nowhere(), rcmi_to(b, 0, rank + 1, 0));
    rcmi_copy_chunk(b, 0, 0, rcmi_scratch(0), rcmi_out(0));
}

static rcm_status exscan_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                              int rank, int root, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (rank > 0 && !is_last(shape, rank))
        exscan_pass_on(b, rank);
    else if (rank > 0)
        rcmi_recv(b, 0, 0, rcmi_from(b, 0, rank - 1, 0), rcmi_out(0));
    else if (shape->nranks > 1)
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1, 0));
    return rcmi_plan_finish(b, ret_plan);
}

static struct rcmi_formula chain_scan_formula(const struct rcmi_algorithm *row,
                                              const struct rcmi_shape *shape, int rank, int root) {
    (void)row;
    (void)root;
    return (struct rcmi_formula){.rounds = (uint32_t)shape->nranks - 1,
                                 .chunks_sent = !is_last(shape, rank)};
}

static void chain_sends(struct rcmi_tally *t) {
    for (int r = 1; r < t->shape->nranks; r++)
        rcmi_tally_send(t, r - 1, r, 1, 1);
    rcmi_tally_chain(t, t->shape->nranks - 1);
}

static void scan_count(struct rcmi_tally *t) {
    chain_sends(t);
    rcmi_tally_local_all(t, 0, 1);
    rcmi_tally_local(t, 0, 1, -1); /* rank 0 copies instead of adding */
}

static void exscan_count(struct rcmi_tally *t) {
    chain_sends(t);
    for (int r = 1; !is_last(t->shape, r); r++)
        rcmi_tally_local(t, r, 1, 1);
}

#define DESCRIPTION "passes partial sums from rank to rank; for large vectors, any ranks and hosts"

const struct rcmi_algorithm rcmi_chain_scan = {
    .name = "chain",
    .description = DESCRIPTION,
    .collective = RCM_SCAN,
    .supports = rcmi_supports_all,
    .emit = scan_emit,
    .formula = chain_scan_formula,
    .count = scan_count,
};

const struct rcmi_algorithm rcmi_chain_exscan = {
    .name = "chain",
    .description = DESCRIPTION,
    .collective = RCM_EXSCAN,
    .supports = rcmi_supports_all,
    .emit = exscan_emit,
    .formula = chain_scan_formula,
    .count = exscan_count,
};
