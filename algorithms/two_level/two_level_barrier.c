/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barrier between hosts by one leader each (two_level.h): ranks signal their leader, leaders signal
 * those at distance 1, 2, 4... on the ring of hosts (dissemination.c), and each signals its host.
 *
 *      host 0     host 1     host 2
 *      1 -> 0     3 -> 2     5 -> 4       then 0 -> 2 -> 4 -> 0, then 0 -> 4 -> 2 -> 0,
 *      1 <- 0     3 <- 2     5 <- 4       then back
 *
 * Cost: ceil(log2 h) messages between h hosts in a row, and one within a host at both ends; each
 * host sends ceil(log2 h).
 */
#include "two_level.h"

static void leaders_meet(struct rcmi_builder *b, const struct rcmi_two_level *level) {
    for (int64_t distance = 1; distance < level->nhosts; distance *= 2) {
        const int to = rcmi_host_before(level, level->nhosts - (int)distance);
        const int from = rcmi_host_before(level, (int)distance);
        rcmi_signal(b, 0, rcmi_to(b, 0, rcmi_host_rank(level, to, 0), 0));
        rcmi_wait(b, 0, rcmi_from(b, 0, rcmi_host_rank(level, from, 0), 0));
    }
}

static void barrier_steps(struct rcmi_builder *b, const struct rcmi_two_level *level, int rank,
                          int root) {
    const int leader = rcmi_leader_here(level, 0);
    (void)root;
    if (rank != leader) {
        rcmi_signal(b, 0, rcmi_to(b, 0, leader, 0));
        rcmi_wait(b, 0, rcmi_from_host(b, 0, leader, 0));
        return;
    }
    for (int number = 1; number < level->size; number++)
        rcmi_wait(b, 0, rcmi_from(b, 0, rcmi_host_rank(level, level->host, number), 0));
    leaders_meet(b, level);
    if (level->size > 1)
        rcmi_signal(b, 0, rcmi_to_host(b, 0, 0));
}

static rcm_status barrier_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                               int rank, int root, struct rcmi_plan **ret_plan) {
    static const struct rcmi_two_level_form form = {.steps = barrier_steps};
    return rcmi_two_level_emit(row, shape, rank, root, &form, ret_plan);
}

/* The longest chain starts and ends within hosts of several ranks, if the distances lead from one
 * such host to another; else it is shorter by one. */
static uint32_t barrier_rounds(const struct rcmi_two_level *level) {
    const uint32_t between = rcmi_log2_ceil((uint32_t)level->nhosts);
    const int far = (1 << between) - 1;
    for (int host = 0; host < level->nhosts; host++)
        if (rcmi_host_is_shared(level, host) &&
            rcmi_host_is_shared(level, (host + far) % level->nhosts))
            return between + 2;
    return between + 1;
}

static struct rcmi_formula barrier_formula(const struct rcmi_algorithm *row,
                                           const struct rcmi_shape *shape, int rank, int root) {
    struct rcmi_two_level level;
    (void)root;
    if (rcmi_two_level_make(shape, rank, row->parameter, &level) != RCM_OK)
        return (struct rcmi_formula){0};
    const struct rcmi_formula formula = {.rounds = barrier_rounds(&level)};
    rcmi_two_level_free(&level);
    return formula;
}

static void barrier_tally(struct rcmi_tally *t, const struct rcmi_two_level *level) {
    for (int host = 0; host < level->nhosts; host++) {
        const int leader = rcmi_host_rank(level, host, 0);
        rcmi_tally_given(t, level, leader, 1, 0, RCMI_NO_NUMBER);
        if (rcmi_host_is_shared(level, host))
            rcmi_tally_multicast(t, leader, 1, 0);
        for (int64_t distance = 1; distance < level->nhosts; distance *= 2)
            rcmi_tally_send(t, leader,
                            rcmi_host_rank(level, (int)((host + distance) % level->nhosts), 0), 1,
                            0);
    }
    rcmi_tally_between(t, rcmi_log2_ceil((uint32_t)level->nhosts));
}

static void barrier_count(struct rcmi_tally *t) {
    rcmi_two_level_count(t, barrier_tally);
}

const struct rcmi_algorithm rcmi_two_level_barrier = {
    .name = "two_level",
    .description = "ranks signal a leader of their host, leaders each other; several ranks on some "
                   "of several hosts",
    .collective = RCM_BARRIER,
    .parameter = 1,
    .supports = rcmi_supports_two_level,
    .emit = barrier_emit,
    .formula = barrier_formula,
    .count = barrier_count,
};
