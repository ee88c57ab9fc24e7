/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce between hosts by lines of leaders (two_level.h). The vector is cut into a part for
 * each line, and that into one for each host. A leader sums the parts of its line over its host,
 * together with what the previous leader sent. The sums travel round the ring of hosts once to be
 * completed, and once more to be distributed (ring.c). Each leader publishes them to its host.
 *
 *      3 hosts of 2 ranks, 2 leaders; part a0 is of line 0 and host 0
 *
 *      host 0              host 1              host 2
 *      r0 L0  a0 + r1's -> r2 L0  + r3's    -> r4 L0  + r5's  ->  r0: the sum of a0
 *      r1 L1  b0 + r0's -> r3 L1  + r2's    -> r5 L1  + r4's  ->  r1: the sum of b0
 *
 * Each part is summed along one path, so all ranks get the same bits. Giving, summing and reading
 * are separate lanes, as in two_shot.c; the in-place argument there holds here too.
 *
 * Cost: 2(h-1) messages between h hosts in a row, and one within a host at both ends; each host
 * sends 2(h-1)/h of the vector, the minimum.
 */
#include "two_level.h"

enum { LANE_GIVE, LANE_LEAD, LANE_READ };

static uint32_t part_of(const struct rcmi_two_level *level, int leader, int host) {
    return (uint32_t)(leader * level->nhosts + host);
}

/* Gives the parts of the host `back` positions before to the leaders that sum them. */
static void give_parts(struct rcmi_builder *b, const struct rcmi_two_level *level) {
    for (int back = 0; back < level->nhosts; back++) {
        for (int i = 1; i <= level->leaders; i++) {
            const int leader = (level->number + i) % level->leaders;
            const uint32_t part = part_of(level, leader, rcmi_host_before(level, back));
            if (leader == level->number)
                continue;
            rcmi_send(b, LANE_GIVE, part, rcmi_in(part),
                      rcmi_to(b, LANE_GIVE, rcmi_leader_here(level, leader), 0));
            rcmi_stable_in_place(b, LANE_GIVE);
        }
    }
}

/* In the order in which leaders publish them. */
static void read_sums(struct rcmi_builder *b, const struct rcmi_two_level *level) {
    for (int back = -1; back < level->nhosts - 1; back++) {
        for (int leader = 0; leader < level->leaders; leader++) {
            const int host = rcmi_host_before(level, back + level->nhosts);
            const uint32_t part = part_of(level, leader, host);
            if (leader != level->number)
                rcmi_recv(b, LANE_READ, part,
                          rcmi_from_host(b, LANE_READ, rcmi_leader_here(level, leader), 0),
                          rcmi_out(part));
        }
    }
}

/* Publishes a complete sum in OUT to the other ranks of this host, if any. */
static void publish_host(struct rcmi_builder *b, const struct rcmi_two_level *level,
                         uint32_t part) {
    if (level->size > 1)
        rcmi_send(b, LANE_LEAD, part, rcmi_out(part), rcmi_to_host(b, LANE_LEAD, 0));
}

static void lead_reduce(struct rcmi_builder *b, const struct rcmi_two_level *level,
                        struct rcmi_operand from, uint32_t to) {
    for (int back = 0; back < level->nhosts; back++) {
        const uint32_t part = part_of(level, level->number, rcmi_host_before(level, back));
        const bool last = back == level->nhosts - 1;
        const struct rcmi_summands sum = rcmi_sum_host(
            b, LANE_LEAD, level, part, back > 0 ? from : rcmi_nowhere(), RCMI_NO_NUMBER);
        rcmi_summands_reduce(&sum, last ? rcmi_out(part) : rcmi_nowhere(), to);
        if (last)
            publish_host(b, level, part);
    }
}

static void lead_gather(struct rcmi_builder *b, const struct rcmi_two_level *level,
                        struct rcmi_operand from, uint32_t to) {
    for (int back = 0; back < level->nhosts - 1; back++) {
        const uint32_t part = part_of(level, level->number, rcmi_host_before(level, back));
        const bool last = back == level->nhosts - 2;
        if (!last) {
            rcmi_recv_copy_send(b, LANE_LEAD, part, from, rcmi_out(part), to);
            publish_host(b, level, part);
        } else if (level->size > 1) {
            rcmi_recv_copy_send(b, LANE_LEAD, part, from, rcmi_out(part),
                                rcmi_to_host(b, LANE_LEAD, 0));
        } else {
            rcmi_recv(b, LANE_LEAD, part, from, rcmi_out(part));
        }
    }
}

static void all_reduce_steps(struct rcmi_builder *b, const struct rcmi_two_level *level, int rank,
                             int root) {
    (void)rank;
    (void)root;
    give_parts(b, level);
    if (rcmi_leads(level)) {
        const int prev = rcmi_host_rank(level, rcmi_host_before(level, 1), level->number);
        const int next =
            rcmi_host_rank(level, rcmi_host_before(level, level->nhosts - 1), level->number);
        const struct rcmi_operand from = rcmi_from(b, LANE_LEAD, prev, 0);
        const uint32_t to = rcmi_to(b, LANE_LEAD, next, 0);
        lead_reduce(b, level, from, to);
        lead_gather(b, level, from, to);
    }
    read_sums(b, level);
}

static rcm_status all_reduce_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                  int rank, int root, struct rcmi_plan **ret_plan) {
    static const struct rcmi_two_level_form form = {
        .by_leaders = true, .by_hosts = true, .steps = all_reduce_steps};
    return rcmi_two_level_emit(row, shape, rank, root, &form, ret_plan);
}

/* The longest chain starts and ends within a host, two positions apart on the ring; else it is
 * shorter by one. */
static uint32_t all_reduce_rounds(const struct rcmi_two_level *level) {
    const uint32_t between = 2 * ((uint32_t)level->nhosts - 1);
    for (int host = 0; host < level->nhosts; host++)
        if (rcmi_host_is_shared(level, host) &&
            rcmi_host_is_shared(level, (host + 2) % level->nhosts))
            return between + 2;
    return between + 1;
}

static struct rcmi_formula all_reduce_formula(const struct rcmi_algorithm *row,
                                              const struct rcmi_shape *shape, int rank, int root) {
    struct rcmi_two_level level;
    (void)root;
    if (rcmi_two_level_make(shape, rank, row->parameter, &level) != RCM_OK)
        return (struct rcmi_formula){0};
    const uint32_t hosts = (uint32_t)level.nhosts, leads = rcmi_leads(&level);
    const uint32_t given = ((uint32_t)level.leaders - leads) * hosts;
    const uint32_t led = 2 * (hosts - 1) + (level.size > 1 ? hosts : 0);
    const struct rcmi_formula formula = {.rounds = all_reduce_rounds(&level),
                                         .chunks_sent = given + leads * led};
    rcmi_two_level_free(&level);
    return formula;
}

static void all_reduce_lead(struct rcmi_tally *t, const struct rcmi_two_level *level, int host,
                            int number) {
    const double hosts = level->nhosts, part = 1 / (hosts * level->leaders);
    const double size = rcmi_host_size(level, host);
    const int leader = rcmi_host_rank(level, host, number);
    const int next = rcmi_host_rank(level, (host + 1) % level->nhosts, number);
    rcmi_tally_given(t, level, leader, hosts, hosts * part, RCMI_NO_NUMBER);
    rcmi_tally_send(t, leader, next, 2 * (hosts - 1), 2 * (hosts - 1) * part);
    if (rcmi_host_is_shared(level, host))
        rcmi_tally_multicast(t, leader, hosts, hosts * part);
    rcmi_tally_local(t, leader, 0, (hosts * size - 1) * part);
}

static void all_reduce_tally(struct rcmi_tally *t, const struct rcmi_two_level *level) {
    for (int host = 0; host < level->nhosts; host++)
        for (int number = 0; number < level->leaders; number++)
            all_reduce_lead(t, level, host, number);
    rcmi_tally_between(t, 2.0 * (level->nhosts - 1));
}

static void all_reduce_count(struct rcmi_tally *t) {
    rcmi_two_level_count(t, all_reduce_tally);
}

const struct rcmi_algorithm rcmi_two_level_all_reduce = {
    .name = "two_level",
    .description = "sums inside hosts and around a ring of hosts, by several leaders each; for "
                   "large vectors, several ranks on some of several hosts",
    .collective = RCM_ALL_REDUCE,
    .parameter = 8,
    .supports = rcmi_supports_two_level,
    .emit = all_reduce_emit,
    .formula = all_reduce_formula,
    .count = all_reduce_count,
};
