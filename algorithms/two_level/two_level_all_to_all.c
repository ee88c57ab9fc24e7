/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all between hosts by lines of leaders (two_level.h). A line carries the blocks for the
 * ranks that its leaders lead. Each rank gives each leader of its host those of its blocks that the
 * leader's line carries. A leader sends each other host, in one message, its host's blocks for the
 * ranks of the line there. It hands received blocks to the ranks that it leads. Blocks that stay on
 * a host take the same path.
 *
 *      2 hosts of 3 ranks, 1 leader; 03 is the block of rank 0 for rank 3
 *
 *      give       1 -> 0   10 11 12 13 14 15       4 -> 3   40 41 42 43 44 45
 *                 2 -> 0   20 21 22 23 24 25       5 -> 3   50 51 52 53 54 55
 *      exchange   0 -> 3   03 04 05 13 14 15 23 24 25            3 -> 0   30 31 32 40 ...
 *      hand       0 -> 1   01 11 21 31 41 51       3 -> 4   04 14 24 34 44 54
 *                 0 -> 2   02 12 22 32 42 52       3 -> 5   05 15 25 35 45 55
 *
 * Blocks in transit are in scratch of leaders: those for other hosts by giver, those for this host
 * by receiving rank. Nothing of OUT is written before all of IN was given, so the algorithm works
 * in place. In each phase a rank sends one message to every peer, then receives one from every
 * peer, and so on (several messages for more than RCMI_SPAN_MAX blocks).
 *
 * Cost: 3 messages in a row, one of them between hosts. With l leaders each host sends each other
 * host l messages, and every block for another host once, the minimum. Good for small blocks on
 * many ranks.
 */
#include "two_level.h"
#include <stdlib.h>

static uint32_t ranks_of(const struct rcmi_two_level *level) {
    return (uint32_t)level->first[level->nhosts];
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static uint32_t followers(const struct rcmi_two_level *level, int host, int line) {
    return (uint32_t)rcmi_host_followers(level, host, line);
}

static int host_after(const struct rcmi_two_level *level, int step) {
    return (level->host + step) % level->nhosts;
}

/* ---- Positions of blocks in a leader's scratch ----------------------------------------------- */

/* A line, seen by a leader of this rank's host. */
struct line {
    const struct rcmi_two_level *level;
    int number;
    uint32_t here, others; /* ranks of this host, and of others */
};

static struct line line_of(const struct rcmi_two_level *level, int number) {
    const uint32_t here = followers(level, level->host, number);
    return (struct line){.level = level,
                         .number = number,
                         .here = here,
                         .others = rcmi_line_ranks(level, number) - here};
}

/* Position of the block that the rank with `number` gave for the i-th rank of other hosts, counted
 * from the next host on. */
static uint32_t outgoing(const struct line *line, int number, uint32_t i) {
    return (uint32_t)number * line->others + i;
}

/* Position of the block of rank `source` for the i-th rank of this host. */
static uint32_t incoming(const struct line *line, int source, uint32_t i) {
    return (uint32_t)line->level->size * line->others + i * ranks_of(line->level) +
           (uint32_t)source;
}

/* ---- The blocks of a message ----------------------------------------------------------------- */

struct span {
    struct rcmi_listed list[RCMI_SPAN_MAX];
    uint32_t n;
};

static void span_add(struct span *span, const struct rcmi_two_level *level, int source, int target,
                     uint32_t scratch) {
    span->list[span->n++] = (struct rcmi_listed){
        .chunk = (uint32_t)source * ranks_of(level) + (uint32_t)target, .scratch = scratch};
}

static uint32_t span_source(const struct span *span, const struct rcmi_two_level *level) {
    return span->list[0].chunk / ranks_of(level);
}

static uint32_t span_target(const struct span *span, const struct rcmi_two_level *level) {
    return span->list[0].chunk % ranks_of(level);
}

/* A position in the ranks of a line, host by host from the next host on; this rank's own host is
 * the last. */
struct walk {
    int step; /* from 1; above the number of hosts: at the end */
    uint32_t follower, i;
};

static bool walk_ended(const struct walk *walk, const struct rcmi_two_level *level) {
    return walk->step > level->nhosts;
}

static void walk_on(struct walk *walk, const struct line *line) {
    walk->i++;
    walk->follower++;
    if (walk->follower < followers(line->level, host_after(line->level, walk->step), line->number))
        return;
    walk->follower = 0;
    walk->step++;
}

/* The blocks that the rank with `number` gives a line, from *walk on. */
static void span_given(struct span *span, const struct line *line, int number, struct walk *walk) {
    const struct rcmi_two_level *level = line->level;
    const int source = rcmi_leader_here(level, number);
    span->n = 0;
    for (; span->n < RCMI_SPAN_MAX && !walk_ended(walk, level); walk_on(walk, line)) {
        const int at = line->number + (int)walk->follower * level->leaders;
        const bool stays = walk->step == level->nhosts;
        span_add(span, level, source, rcmi_host_rank(level, host_after(level, walk->step), at),
                 stays ? incoming(line, source, walk->follower) : outgoing(line, number, walk->i));
    }
}

/* The blocks that host `from` sends host `to` for a line, from block `at` on. When sending,
 * `before` ranks of the line are on hosts between the two. */
static void span_between(struct span *span, const struct line *line, int from, int to, uint32_t at,
                         uint32_t before) {
    const struct rcmi_two_level *level = line->level;
    const uint32_t per = followers(level, to, line->number);
    const uint32_t all = per * (uint32_t)rcmi_host_size(level, from);
    span->n = 0;
    for (; span->n < RCMI_SPAN_MAX && at < all; at++) {
        const int number = (int)(at / per), source = rcmi_host_rank(level, from, number);
        const int target =
            rcmi_host_rank(level, to, line->number + (int)(at % per) * level->leaders);
        span_add(span, level, source, target,
                 from == level->host ? outgoing(line, number, before + at % per)
                                     : incoming(line, source, at % per));
    }
}

/* The blocks that the i-th rank of a line on this host receives, from source rank `at` on. */
static void span_handed(struct span *span, const struct line *line, uint32_t i, uint32_t at) {
    const struct rcmi_two_level *level = line->level;
    const int target = rcmi_leader_here(level, line->number + (int)i * level->leaders);
    span->n = 0;
    for (; span->n < RCMI_SPAN_MAX && at < ranks_of(level); at++)
        span_add(span, level, (int)at, target, incoming(line, (int)at, i));
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void send_span(struct rcmi_builder *b, const struct span *span, struct rcmi_operand src,
                      int to) {
    rcmi_send(b, 0, span->list[0].chunk, src, rcmi_to(b, 0, to, 0));
    rcmi_span_list(b, 0, span->list, span->n);
}

static void receive_span(struct rcmi_builder *b, const struct span *span, int from,
                         struct rcmi_operand dst) {
    rcmi_recv(b, 0, span->list[0].chunk, rcmi_from(b, 0, from, 0), dst);
    rcmi_span_list(b, 0, span->list, span->n);
}

static void copy_span(struct rcmi_builder *b, const struct span *span, struct rcmi_operand src,
                      struct rcmi_operand dst) {
    rcmi_copy_chunk(b, 0, span->list[0].chunk, src, dst);
    rcmi_span_list(b, 0, span->list, span->n);
}

static void copy_given(struct rcmi_builder *b, const struct line *own) {
    const struct rcmi_two_level *level = own->level;
    struct span span;
    for (struct walk walk = {.step = 1}; !walk_ended(&walk, level);) {
        span_given(&span, own, level->number, &walk);
        copy_span(b, &span, rcmi_in(span_target(&span, level)), rcmi_scratch(0));
    }
}

/* Sends one message to each other leader that has not got all; returns whether more remain. */
static bool give_round(struct rcmi_builder *b, const struct rcmi_two_level *level,
                       struct walk *walks) {
    struct span span;
    bool any = false;
    for (int i = 1; i <= level->leaders; i++) {
        const int leader = (level->number + i) % level->leaders;
        const struct line line = line_of(level, leader);
        if (leader == level->number || walk_ended(&walks[leader], level))
            continue;
        span_given(&span, &line, level->number, &walks[leader]);
        send_span(b, &span, rcmi_in(span_target(&span, level)), rcmi_leader_here(level, leader));
        any = any || !walk_ended(&walks[leader], level);
    }
    return any;
}

/* Receives one message from each other rank of the host. */
static bool collect_round(struct rcmi_builder *b, const struct line *own, struct walk *walk) {
    const struct rcmi_two_level *level = own->level;
    struct walk next = *walk;
    struct span span;
    for (int number = 0; number < level->size; number++) {
        struct walk at = *walk;
        if (number == level->number)
            continue;
        span_given(&span, own, number, &at);
        receive_span(b, &span, rcmi_leader_here(level, number), rcmi_scratch(0));
        next = at;
    }
    *walk = next;
    return !walk_ended(walk, level);
}

#define LEADERS_MAX 8

static void give(struct rcmi_builder *b, const struct rcmi_two_level *level,
                 const struct line *own) {
    struct walk walks[LEADERS_MAX], collected = {.step = 1};
    bool gives = true, collects = rcmi_leads(level) && level->size > 1;
    for (int i = 0; i < LEADERS_MAX; i++)
        walks[i] = (struct walk){.step = 1};
    while (gives || collects) {
        gives = gives && give_round(b, level, walks);
        collects = collects && collect_round(b, own, &collected);
    }
}

/* Sends one message to each other host and receives one from each, with blocks from `at` on;
 * returns whether more remain. */
static bool exchange_round(struct rcmi_builder *b, const struct line *own, uint32_t at) {
    const struct rcmi_two_level *level = own->level;
    const bool direct = own->here == 1;
    struct span span;
    uint32_t before = 0;
    bool any = false;
    for (int step = 1; step < level->nhosts; step++) {
        const int to = host_after(level, step);
        span_between(&span, own, level->host, to, at, before);
        before += followers(level, to, own->number);
        any = any || span.n > 0;
        if (span.n > 0)
            send_span(b, &span, rcmi_scratch(0), rcmi_host_rank(level, to, own->number));
    }
    for (int back = 1; back < level->nhosts; back++) {
        const int from = rcmi_host_before(level, back);
        span_between(&span, own, from, level->host, at, 0);
        any = any || span.n > 0;
        if (span.n > 0)
            receive_span(b, &span, rcmi_host_rank(level, from, own->number),
                         direct ? rcmi_out(span_source(&span, level)) : rcmi_scratch(0));
    }
    return any;
}

static void hand_out(struct rcmi_builder *b, const struct line *own) {
    const struct rcmi_two_level *level = own->level;
    struct span span;
    for (uint32_t at = 0; at < ranks_of(level); at += RCMI_SPAN_MAX) {
        for (uint32_t i = 1; i < own->here; i++) {
            span_handed(&span, own, i, at);
            send_span(b, &span, rcmi_scratch(0), (int)span_target(&span, level));
        }
    }
}

static void take_handed(struct rcmi_builder *b, const struct line *own) {
    const struct rcmi_two_level *level = own->level;
    struct span span;
    for (uint32_t at = 0; at < ranks_of(level); at += RCMI_SPAN_MAX) {
        span_handed(&span, own, (uint32_t)(level->number / level->leaders), at);
        receive_span(b, &span, rcmi_leader_here(level, own->number),
                     rcmi_out(span_source(&span, level)));
    }
}

/* Copies the blocks for the leader itself: all, or only those of its own host if the others were
 * received straight into OUT. */
static void copy_handed(struct rcmi_builder *b, const struct line *own) {
    const struct rcmi_two_level *level = own->level;
    const uint32_t n = own->here > 1 ? ranks_of(level) : (uint32_t)level->size;
    struct span span = {.n = 0};
    for (uint32_t i = 0; i < n; i++) {
        const int source = own->here > 1 ? (int)i : rcmi_leader_here(level, (int)i);
        span_add(&span, level, source, rcmi_leader_here(level, level->number),
                 incoming(own, source, 0));
        if (span.n < RCMI_SPAN_MAX && i + 1 < n)
            continue;
        copy_span(b, &span, rcmi_scratch(0), rcmi_out(span_source(&span, level)));
        span.n = 0;
    }
}

static void lead(struct rcmi_builder *b, const struct line *own) {
    for (uint32_t at = 0; exchange_round(b, own, at); at += RCMI_SPAN_MAX)
        continue;
    hand_out(b, own);
    copy_handed(b, own);
}

/* Upper bound of the blocks in the longest message of any rank. */
static uint32_t longest_message(const struct rcmi_two_level *level) {
    const bool hands = level->largest > level->leaders;
    const uint32_t turns = (uint32_t)((level->largest + level->leaders - 1) / level->leaders);
    return larger(hands ? ranks_of(level) : rcmi_line_ranks(level, 0),
                  turns * (uint32_t)level->largest);
}

static void all_to_all_steps(struct rcmi_builder *b, const struct rcmi_two_level *level, int rank,
                             int root) {
    const struct line own = line_of(level, level->number % level->leaders);
    (void)rank;
    (void)root;
    rcmi_plan_spans(b, rcmi_span_length(longest_message(level), 0));
    rcmi_plan_late_in_place(b);
    if (rcmi_leads(level))
        copy_given(b, &own);
    give(b, level, &own);
    if (rcmi_leads(level))
        lead(b, &own);
    else
        take_handed(b, &own);
}

static rcm_status all_to_all_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                  int rank, int root, struct rcmi_plan **ret_plan) {
    static const struct rcmi_two_level_form form = {.steps = all_to_all_steps};
    return rcmi_two_level_emit(row, shape, rank, root, &form, ret_plan);
}

/* ---- Formula and count ----------------------------------------------------------------------- */

/* All blocks except those of a leader's own line are given. A leader forwards those for other
 * hosts, and hands out those for its ranks. */
static struct rcmi_formula all_to_all_formula(const struct rcmi_algorithm *row,
                                              const struct rcmi_shape *shape, int rank, int root) {
    struct rcmi_two_level level;
    (void)root;
    if (rcmi_two_level_make(shape, rank, row->parameter, &level) != RCM_OK)
        return (struct rcmi_formula){0};
    const uint64_t p = ranks_of(&level);
    const struct line own = line_of(&level, level.number % level.leaders);
    struct rcmi_formula formula = {.rounds = rcmi_exchange_rounds(&level, false), .chunks_sent = p};
    if (rcmi_leads(&level))
        formula.chunks_sent = p - own.here - own.others +
                              (uint64_t)own.others * (uint64_t)level.size + (own.here - 1) * p;
    rcmi_two_level_free(&level);
    return formula;
}

static void tally_host(struct rcmi_tally *t, const struct rcmi_two_level *level, int host, int line,
                       uint32_t all) {
    const double block = 1.0 / t->shape->nranks;
    const int leader = rcmi_host_rank(level, host, line), size = rcmi_host_size(level, host);
    const uint32_t here = followers(level, host, line), p = ranks_of(level);
    for (int number = 0; number < size; number++) {
        const int rank = rcmi_host_rank(level, host, number);
        if (number != line)
            rcmi_tally_spans(t, rank, leader, all, block);
        if (number != line && number % level->leaders == line)
            rcmi_tally_spans(t, leader, rank, p, block);
    }
    rcmi_tally_local(t, leader, (all + (here > 1 ? p : (uint32_t)size)) * block, 0);
}

/* Counts the messages with other hosts, by host size. */
static void tally_between(struct rcmi_tally *t, const struct rcmi_two_level *level,
                          const uint32_t *hosts_of, int host, int line) {
    const double block = 1.0 / t->shape->nranks;
    const int leader = rcmi_host_rank(level, host, line), self = rcmi_host_size(level, host);
    const uint32_t here = followers(level, host, line);
    for (int size = level->leaders; size <= level->largest; size++) {
        const uint32_t n = hosts_of[size] - (size == self);
        const uint32_t there = (uint32_t)rcmi_size_followers(level, size, line);
        if (n == 0)
            continue;
        rcmi_tally_leave(t, leader, n, (uint32_t)self * there, block);
        rcmi_tally_enter(t, leader, n, (uint32_t)size * here, block);
    }
}

static void all_to_all_tally(struct rcmi_tally *t, const struct rcmi_two_level *level) {
    uint32_t *hosts_of = rcmi_hosts_of_sizes(level);
    t->failed = !hosts_of;
    for (int line = 0; !t->failed && line < level->leaders; line++) {
        const uint32_t all = rcmi_line_ranks(level, line);
        for (int host = 0; host < level->nhosts; host++) {
            tally_host(t, level, host, line, all);
            tally_between(t, level, hosts_of, host, line);
        }
    }
    rcmi_tally_between(t, rcmi_exchange_rounds(level, true));
    free(hosts_of);
}

static void all_to_all_count(struct rcmi_tally *t) {
    rcmi_two_level_count(t, all_to_all_tally);
}

#define TWO_LEVEL(number, text, leaders)                                                           \
    {                                                                                              \
        .name = text, .collective = RCM_ALL_TO_ALL, .parameter = number,                           \
        .description = "sends all blocks from one host to another together, by " leaders           \
                       "; several ranks on some of several hosts",                                 \
        .supports = rcmi_supports_two_level, .emit = all_to_all_emit,                              \
        .formula = all_to_all_formula, .count = all_to_all_count,                                  \
    }

const struct rcmi_algorithm rcmi_two_level_all_to_all =
    TWO_LEVEL(LEADERS_MAX, "two_level", "several leaders each");
const struct rcmi_algorithm rcmi_two_level_all_to_all_1 =
    TWO_LEVEL(1, "two_level_1", "one leader each");
