/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather and reduce-scatter between hosts by lines of leaders (two_level.h). Each line handles
 * the blocks of the ranks that its leaders lead.
 *
 *      all_gather       every rank publishes its block to its host; leaders pass the blocks of
 *                       their ranks around the ring of hosts, and publish received ones
 *                       to their host
 *      reduce_scatter   the reverse: a block starts behind its rank's host; on each host a leader
 *                       adds what the ranks there have of it, and forwards it; the last leader
 *                       hands it to the block's rank, which adds its own part
 *
 *      all_gather, 3 hosts of 2 ranks, 2 leaders
 *
 *      line 0   0 -> host 1   2 -> host 2   4 -> host 0      then 4, 0, 2 to the next host:
 *      line 1   1 -> host 1   3 -> host 2   5 -> host 0      every host gets each block once
 *
 * A leader of several blocks passes them on in turns, one block of each host in a turn, so at most
 * two are in flight between two hosts. Each block is summed along one path, hence in one order on
 * every run.
 *
 * Cost: h - 1 messages between h hosts in a row for each turn, and one within a host at both ends.
 * Each block travels h - 1 times between hosts, the minimum.
 */
#include "two_level.h"

static int line_rank(const struct rcmi_two_level *level, int back) {
    return rcmi_host_rank(level, rcmi_host_before(level, back), level->number);
}

/* The number, on its host, of the rank whose block has this turn in a line; such a rank may not
 * exist. */
static int turn_number(const struct rcmi_two_level *level, int turn, int line) {
    return turn * level->leaders + line;
}

static int turns(const struct rcmi_two_level *level) {
    return (level->largest + level->leaders - 1) / level->leaders;
}

/* Each message is a block. At most two of them, at the ends, stay within a host; rounds - 1 is
 * counted as between hosts. */
static void chain_tally(struct rcmi_tally *t, uint32_t rounds) {
    rcmi_tally_chain(t, (double)rounds / t->shape->nranks);
    rcmi_tally_between(t, rounds - 1.0);
}

/* ---- All-gather ------------------------------------------------------------------------------ */

enum { LANE_PASS, LANE_READ };

/* Sends the block to the next host, if it goes on, and to this host. */
static void pass_block(struct rcmi_builder *b, const struct rcmi_two_level *level, int back,
                       uint32_t block) {
    const struct rcmi_operand from = rcmi_from(b, LANE_PASS, line_rank(level, 1), 0);
    const bool goes_on = back<level->nhosts - 1, shared = level->size> 1;
    if (goes_on)
        rcmi_recv_copy_send(b, LANE_PASS, block, from, rcmi_out(block),
                            rcmi_to(b, LANE_PASS, line_rank(level, level->nhosts - 1), 0));
    else if (shared)
        rcmi_recv_copy_send(b, LANE_PASS, block, from, rcmi_out(block),
                            rcmi_to_host(b, LANE_PASS, 0));
    else
        rcmi_recv(b, LANE_PASS, block, from, rcmi_out(block));
    if (goes_on && shared)
        rcmi_send(b, LANE_PASS, block, rcmi_out(block), rcmi_to_host(b, LANE_PASS, 0));
}

/* Sends this host's block of this turn on its path. */
static void pass_first(struct rcmi_builder *b, const struct rcmi_two_level *level, int turn) {
    const uint32_t to = rcmi_to(b, LANE_PASS, line_rank(level, level->nhosts - 1), 0);
    const int from = rcmi_leader_here(level, turn_number(level, turn, level->number));
    if (turn == 0)
        rcmi_send(b, LANE_PASS, (uint32_t)from, rcmi_in(0), to);
    else
        rcmi_recv_copy_send(b, LANE_PASS, (uint32_t)from, rcmi_from_host(b, LANE_PASS, from, 0),
                            rcmi_out((uint32_t)from), to);
}

static void pass_blocks(struct rcmi_builder *b, const struct rcmi_two_level *level, int turn) {
    const int number = turn_number(level, turn, level->number);
    for (int back = 0; back < level->nhosts; back++) {
        const int host = rcmi_host_before(level, back);
        if (number >= rcmi_host_size(level, host))
            continue;
        if (back == 0)
            pass_first(b, level, turn);
        else
            pass_block(b, level, back, (uint32_t)rcmi_host_rank(level, host, number));
    }
}

/* Reads a block that the leader of another line publishes; a block of this host from its own
 * rank. */
static void read_block(struct rcmi_builder *b, const struct rcmi_two_level *level, int turn,
                       int line, int back) {
    const int host = rcmi_host_before(level, back), number = turn_number(level, turn, line);
    if (line == level->number || number >= rcmi_host_size(level, host) ||
        (back == 0 && number == level->number))
        return;
    const uint32_t block = (uint32_t)rcmi_host_rank(level, host, number);
    const int publisher = back == 0 ? (int)block : rcmi_leader_here(level, line);
    rcmi_recv(b, LANE_READ, block, rcmi_from_host(b, LANE_READ, publisher, 0), rcmi_out(block));
}

static void read_blocks(struct rcmi_builder *b, const struct rcmi_two_level *level, int turn) {
    for (int back = 0; back < level->nhosts; back++)
        for (int line = 0; line < level->leaders; line++)
            read_block(b, level, turn, line, back);
}

static void all_gather_steps(struct rcmi_builder *b, const struct rcmi_two_level *level, int rank,
                             int root) {
    (void)root;
    if (level->size > 1)
        rcmi_send(b, LANE_PASS, (uint32_t)rank, rcmi_in(0), rcmi_to_host(b, LANE_PASS, 0));
    rcmi_copy_chunk(b, LANE_PASS, (uint32_t)rank, rcmi_in(0), rcmi_out((uint32_t)rank));
    for (int turn = 0; turn < turns(level); turn++) {
        if (rcmi_leads(level))
            pass_blocks(b, level, turn);
        read_blocks(b, level, turn);
    }
}

static rcm_status all_gather_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                  int rank, int root, struct rcmi_plan **ret_plan) {
    static const struct rcmi_two_level_form form = {.steps = all_gather_steps};
    return rcmi_two_level_emit(row, shape, rank, root, &form, ret_plan);
}

/* What a leader sends: it passes on all blocks except those of the next host, which end here; and
 * it publishes those of other hosts. */
static uint64_t all_gather_led(const struct rcmi_two_level *level) {
    const int after = rcmi_host_before(level, level->nhosts - 1);
    uint64_t published = 0, passed = 0;
    for (int host = 0; host < level->nhosts; host++) {
        const uint64_t blocks = (uint64_t)rcmi_host_followers(level, host, level->number);
        published += host != level->host ? blocks : 0;
        passed += host != after ? blocks : 0;
    }
    return passed + (level->size > 1 ? published : 0);
}

static struct rcmi_formula all_gather_formula(const struct rcmi_algorithm *row,
                                              const struct rcmi_shape *shape, int rank, int root) {
    struct rcmi_two_level level;
    (void)root;
    if (rcmi_two_level_make(shape, rank, row->parameter, &level) != RCM_OK)
        return (struct rcmi_formula){0};
    const struct rcmi_formula formula = {
        .rounds = rcmi_ring_rounds(&level, RCMI_HOSTS_PUBLISH),
        .chunks_sent = (level.size > 1) + (rcmi_leads(&level) ? all_gather_led(&level) : 0)};
    rcmi_two_level_free(&level);
    return formula;
}

/* For a line that has `all` blocks. */
static void all_gather_lead(struct rcmi_tally *t, const struct rcmi_two_level *level, int host,
                            int line, int all) {
    const double block = 1.0 / t->shape->nranks;
    const int after = (host + 1) % level->nhosts;
    const int passed = all - rcmi_host_followers(level, after, line);
    const int published = all - rcmi_host_followers(level, host, line);
    const int leader = rcmi_host_rank(level, host, line);
    rcmi_tally_send(t, leader, rcmi_host_rank(level, after, line), passed, passed * block);
    if (rcmi_host_is_shared(level, host))
        rcmi_tally_multicast(t, leader, published, published * block);
}

static void all_gather_tally(struct rcmi_tally *t, const struct rcmi_two_level *level) {
    const double block = 1.0 / t->shape->nranks;
    for (int line = 0; line < level->leaders; line++) {
        const int all = (int)rcmi_line_ranks(level, line);
        for (int host = 0; host < level->nhosts; host++)
            all_gather_lead(t, level, host, line, all);
    }
    for (int host = 0; host < level->nhosts; host++)
        if (rcmi_host_is_shared(level, host)) /* each rank publishes its own */
            rcmi_tally_multicast(t, rcmi_host_rank(level, host, 0), rcmi_host_size(level, host),
                                 rcmi_host_size(level, host) * block);
    rcmi_tally_local_all(t, block, 0);
    chain_tally(t, rcmi_ring_rounds(level, RCMI_HOSTS_PUBLISH));
}

static void all_gather_count(struct rcmi_tally *t) {
    rcmi_two_level_count(t, all_gather_tally);
}

const struct rcmi_algorithm rcmi_two_level_all_gather = {
    .name = "two_level",
    .description = "passes blocks around a ring of hosts, by several leaders each; several ranks "
                   "on some of several hosts",
    .collective = RCM_ALL_GATHER,
    .parameter = 8,
    .supports = rcmi_supports_two_level,
    .emit = all_gather_emit,
    .formula = all_gather_formula,
    .count = all_gather_count,
};

/* ---- Reduce-scatter -------------------------------------------------------------------------- */

enum { LANE_GIVE, LANE_SUM, LANE_TAKE };
#define HANDED 1 /* channel number of sums that leaders hand over; contributions: 0 */

static void give_block(struct rcmi_builder *b, const struct rcmi_two_level *level, int turn,
                       int line, int back) {
    const int host = rcmi_host_before(level, back), number = turn_number(level, turn, line);
    if (line == level->number || number >= rcmi_host_size(level, host) ||
        (back == level->nhosts && number == level->number))
        return;
    const uint32_t block = (uint32_t)rcmi_host_rank(level, host, number);
    rcmi_send(b, LANE_GIVE, block, rcmi_in(block),
              rcmi_to(b, LANE_GIVE, rcmi_leader_here(level, line), 0));
}

static void give_blocks(struct rcmi_builder *b, const struct rcmi_two_level *level, int turn) {
    for (int back = 1; back <= level->nhosts; back++)
        for (int line = 0; line < level->leaders; line++)
            give_block(b, level, turn, line, back);
}

/* The channel for the sum of a block: to the next host, or to its rank. */
static uint32_t sum_goes(struct rcmi_builder *b, const struct rcmi_two_level *level, int owner,
                         bool ends) {
    return ends ? rcmi_to(b, LANE_SUM, owner, HANDED)
                : rcmi_to(b, LANE_SUM, line_rank(level, level->nhosts - 1), 0);
}

static void sum_block(struct rcmi_builder *b, const struct rcmi_two_level *level, int turn,
                      int back) {
    const int host = rcmi_host_before(level, back);
    const int number = turn_number(level, turn, level->number);
    if (number >= rcmi_host_size(level, host))
        return;
    const int owner = rcmi_host_rank(level, host, number);
    const bool ends = back == level->nhosts, own = ends && turn == 0;
    const struct rcmi_operand from =
        back > 1 ? rcmi_from(b, LANE_SUM, line_rank(level, 1), 0) : rcmi_nowhere();
    const struct rcmi_summands sum = rcmi_sum_host(b, LANE_SUM, level, (uint32_t)owner, from,
                                                   ends && !own ? number : RCMI_NO_NUMBER);
    rcmi_summands_reduce(&sum, own ? rcmi_out(0) : rcmi_nowhere(),
                         own ? RCMI_NO_CHANNEL : sum_goes(b, level, owner, ends));
}

static void take_block(struct rcmi_builder *b, const struct rcmi_two_level *level, int rank) {
    const int leader = rcmi_leader_here(level, level->number % level->leaders);
    const struct rcmi_operand srcs[] = {rcmi_from(b, LANE_TAKE, leader, HANDED),
                                        rcmi_in((uint32_t)rank)};
    rcmi_reduce(b, LANE_TAKE, (uint32_t)rank, srcs, 2, rcmi_out(0), RCMI_NO_CHANNEL);
}

static void reduce_scatter_steps(struct rcmi_builder *b, const struct rcmi_two_level *level,
                                 int rank, int root) {
    (void)root;
    for (int turn = 0; turn < turns(level); turn++) {
        give_blocks(b, level, turn);
        for (int back = 1; rcmi_leads(level) && back <= level->nhosts; back++)
            sum_block(b, level, turn, back);
    }
    if (!rcmi_leads(level))
        take_block(b, level, rank);
}

static rcm_status reduce_scatter_emit(const struct rcmi_algorithm *row,
                                      const struct rcmi_shape *shape, int rank, int root,
                                      struct rcmi_plan **ret_plan) {
    static const struct rcmi_two_level_form form = {.steps = reduce_scatter_steps};
    return rcmi_two_level_emit(row, shape, rank, root, &form, ret_plan);
}

/* Each block except its own leaves a rank once: unsummed or summed. */
static struct rcmi_formula reduce_scatter_formula(const struct rcmi_algorithm *row,
                                                  const struct rcmi_shape *shape, int rank,
                                                  int root) {
    struct rcmi_two_level level;
    (void)root;
    if (rcmi_two_level_make(shape, rank, row->parameter, &level) != RCM_OK)
        return (struct rcmi_formula){0};
    const struct rcmi_formula formula = {.rounds = rcmi_ring_rounds(&level, RCMI_HOSTS_HAND),
                                         .chunks_sent = (uint64_t)shape->nranks - 1};
    rcmi_two_level_free(&level);
    return formula;
}

/* Counts what a rank gives a leader of its host: its part of all blocks of that line except its
 * own. */
static void scatter_give(struct rcmi_tally *t, const struct rcmi_two_level *level, int host,
                         int line, int all) {
    const int leader = rcmi_host_rank(level, host, line);
    for (int n = 0; n < rcmi_host_size(level, host); n++) {
        const int given = all - (n % level->leaders == line);
        if (n != line)
            rcmi_tally_send(t, rcmi_host_rank(level, host, n), leader, given,
                            (double)given / t->shape->nranks);
    }
}

/* A leader adds each rank's part to what it received. Exceptions: at the start nothing was
 * received, and a block's own rank adds its part itself. */
static void scatter_lead(struct rcmi_tally *t, const struct rcmi_two_level *level, int host,
                         int line, int all) {
    const double block = 1.0 / t->shape->nranks;
    const int own = rcmi_host_followers(level, host, line);
    const int before = (host + level->nhosts - 1) % level->nhosts;
    const int begun = rcmi_host_followers(level, before, line);
    const int leader = rcmi_host_rank(level, host, line);
    rcmi_tally_send(t, leader, rcmi_host_rank(level, (host + 1) % level->nhosts, line), all - own,
                    (all - own) * block);
    rcmi_tally_local(t, leader, 0, (all * rcmi_host_size(level, host) - begun - (own - 1)) * block);
    for (int turn = 1; turn < own; turn++) {
        const int owner = rcmi_host_rank(level, host, turn_number(level, turn, line));
        rcmi_tally_send(t, leader, owner, 1, block);
        rcmi_tally_local(t, owner, 0, block);
    }
}

static void reduce_scatter_tally(struct rcmi_tally *t, const struct rcmi_two_level *level) {
    for (int line = 0; line < level->leaders; line++) {
        const int all = (int)rcmi_line_ranks(level, line);
        for (int host = 0; host < level->nhosts; host++) {
            scatter_give(t, level, host, line, all);
            scatter_lead(t, level, host, line, all);
        }
    }
    chain_tally(t, rcmi_ring_rounds(level, RCMI_HOSTS_HAND));
}

static void reduce_scatter_count(struct rcmi_tally *t) {
    rcmi_two_level_count(t, reduce_scatter_tally);
}

const struct rcmi_algorithm rcmi_two_level_reduce_scatter = {
    .name = "two_level",
    .description = "sums blocks inside hosts and around a ring of hosts, by several leaders each; "
                   "several ranks on some of several hosts",
    .collective = RCM_REDUCE_SCATTER,
    .parameter = 8,
    .supports = rcmi_supports_two_level,
    .emit = reduce_scatter_emit,
    .formula = reduce_scatter_formula,
    .count = reduce_scatter_count,
};
