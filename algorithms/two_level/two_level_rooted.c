/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast and reduce between hosts by lines of leaders (two_level.h). Each line sends its part of
 * the vector along a binomial tree of hosts (binomial.c), rooted at the root's host.
 *
 *      broadcast   the root publishes to its host; leaders pass their parts down, and publish them
 *                  to their hosts
 *      reduce      ranks give each leader its part; leaders sum those and what comes from below,
 *                  and pass the sum up; on the root's host they hand it to the root, which adds its
 *                  own part
 *
 *      broadcast, 4 hosts of 2 ranks, 2 leaders, parts a and b, from rank 1
 *
 *      host 0       host 1       host 2       host 3
 *      0 <-ab- 1    2     3      4     5      6     7
 *      0 ----a----> 2            4 ----a----> 6
 *      0 -----------a----------> 4
 *              1 ----b--> 3            5 --b------> 7
 *              1 ------------b-------> 5                then 2 publishes a, 3 publishes b, ...
 *
 * Cost: at most floor(log2 h) messages between h hosts in a row, and one within a host at both
 * ends; the vector travels h - 1 times between hosts, the minimum.
 */
#include "two_level.h"

/* Tree vertices are hosts, counted from the root's host. */
static uint32_t tree_vertex(const struct rcmi_two_level *level, int host, int root_host) {
    return (uint32_t)((host - root_host + level->nhosts) % level->nhosts);
}

static int tree_rank(const struct rcmi_two_level *level, uint32_t vertex, int root_host) {
    return rcmi_host_rank(level, (int)(vertex + (uint32_t)root_host) % level->nhosts,
                          level->number);
}

struct tree {
    int root, root_host;
    uint32_t vertex, hosts;
    bool at_root; /* its host is the root's */
};

static int host_of_rank(const struct rcmi_two_level *level, int rank) {
    for (int host = 0;; host++)
        for (int n = 0; n < rcmi_host_size(level, host); n++)
            if (rcmi_host_rank(level, host, n) == rank)
                return host;
}

static struct tree tree_of(const struct rcmi_two_level *level, int root) {
    const int root_host = host_of_rank(level, root);
    return (struct tree){.root = root,
                         .root_host = root_host,
                         .vertex = tree_vertex(level, level->host, root_host),
                         .hosts = (uint32_t)level->nhosts,
                         .at_root = level->host == root_host};
}

/* Does some leader of the root's host have to send to, or receive from, the root? */
static bool tree_has_detour(const struct rcmi_two_level *level, const struct tree *tree) {
    return level->leaders > 1 || rcmi_host_rank(level, tree->root_host, 0) != tree->root;
}

static uint32_t ones(uint32_t x) {
    uint32_t n = 0;
    for (; x != 0; x &= x - 1)
        n++;
    return n;
}

/* Messages in a row between the tree's root and the inside of the furthest host. */
static uint32_t tree_depth(const struct rcmi_two_level *level, const struct tree *tree) {
    uint32_t depth = 0;
    for (uint32_t vertex = 1; vertex < tree->hosts; vertex++) {
        const int host = (int)(vertex + (uint32_t)tree->root_host) % level->nhosts;
        const uint32_t here = ones(vertex) + rcmi_host_is_shared(level, host);
        depth = here > depth ? here : depth;
    }
    return depth;
}

/* Counts the longest chain, whose messages are each a part, and the messages between hosts in
 * it. */
static void tree_tally_chain(struct rcmi_tally *t, const struct rcmi_two_level *level,
                             const struct tree *tree) {
    const double rounds = tree_depth(level, tree) + tree_has_detour(level, tree);
    rcmi_tally_chain(t, rounds / level->leaders);
    rcmi_tally_between(t, rcmi_log2_floor(tree->hosts));
}

/* Counts a leader's message along the edge above a vertex of the tree: down or up. */
static void tree_tally_edge(struct rcmi_tally *t, const struct rcmi_two_level *level,
                            const struct tree *tree, uint32_t vertex, int number, bool down) {
    const int above = (int)(rcmi_binomial_parent(vertex) + (uint32_t)tree->root_host);
    const int here = (int)(vertex + (uint32_t)tree->root_host);
    const int parent = rcmi_host_rank(level, above % level->nhosts, number);
    const int child = rcmi_host_rank(level, here % level->nhosts, number);
    rcmi_tally_send(t, down ? parent : child, down ? child : parent, 1, 1.0 / level->leaders);
}

/* ---- Broadcast ------------------------------------------------------------------------------- */

enum { LANE_PASS, LANE_READ };

/* Sends the part, received from `from` or present in it, to the hosts below, and publishes it to
 * this host if `publishes`. */
static void pass_part(struct rcmi_builder *b, const struct rcmi_two_level *level,
                      const struct tree *tree, struct rcmi_operand from, bool publishes) {
    const uint32_t part = (uint32_t)level->number;
    const bool has = from.where != RCMI_CHANNEL;
    struct rcmi_operand have = has ? from : rcmi_out(part);
    bool received = has;
    for (uint32_t bit = rcmi_binomial_first_bit(tree->vertex, tree->hosts); bit != 0; bit >>= 1) {
        if (tree->vertex + bit >= tree->hosts)
            continue;
        const uint32_t to =
            rcmi_to(b, LANE_PASS, tree_rank(level, tree->vertex + bit, tree->root_host), 0);
        if (received)
            rcmi_send(b, LANE_PASS, part, have, to);
        else
            rcmi_recv_copy_send(b, LANE_PASS, part, from, rcmi_out(part), to);
        received = true;
    }
    if (!received && publishes)
        rcmi_recv_copy_send(b, LANE_PASS, part, from, rcmi_out(part),
                            rcmi_to_host(b, LANE_PASS, 0));
    else if (!received)
        rcmi_recv(b, LANE_PASS, part, from, rcmi_out(part));
    else if (publishes)
        rcmi_send(b, LANE_PASS, part, have, rcmi_to_host(b, LANE_PASS, 0));
}

static void broadcast_root(struct rcmi_builder *b, const struct rcmi_two_level *level,
                           const struct tree *tree) {
    for (uint32_t part = 0; part < (uint32_t)level->leaders; part++) {
        if (level->size > 1)
            rcmi_send(b, LANE_READ, part, rcmi_in(part), rcmi_to_host(b, LANE_READ, 0));
        rcmi_copy_chunk(b, LANE_READ, part, rcmi_in(part), rcmi_out(part));
    }
    if (rcmi_leads(level))
        pass_part(b, level, tree, rcmi_in((uint32_t)level->number), false);
}

/* The root's multicast has all parts in order; this rank forwards the one of its line. */
static void broadcast_near_root(struct rcmi_builder *b, const struct rcmi_two_level *level,
                                const struct tree *tree) {
    const struct rcmi_operand from = rcmi_from_host(b, LANE_PASS, tree->root, 0);
    for (int part = 0; part < level->leaders; part++) {
        if (part == level->number)
            pass_part(b, level, tree, from, false);
        else
            rcmi_recv(b, LANE_PASS, (uint32_t)part, from, rcmi_out((uint32_t)part));
    }
}

static void broadcast_far(struct rcmi_builder *b, const struct rcmi_two_level *level,
                          const struct tree *tree) {
    if (rcmi_leads(level)) {
        const uint32_t parent = rcmi_binomial_parent(tree->vertex);
        pass_part(b, level, tree,
                  rcmi_from(b, LANE_PASS, tree_rank(level, parent, tree->root_host), 0),
                  level->size > 1);
    }
    for (int leader = 0; leader < level->leaders; leader++)
        if (leader != level->number)
            rcmi_recv(b, LANE_READ, (uint32_t)leader,
                      rcmi_from_host(b, LANE_READ, rcmi_leader_here(level, leader), 0),
                      rcmi_out((uint32_t)leader));
}

static void broadcast_steps(struct rcmi_builder *b, const struct rcmi_two_level *level, int rank,
                            int root) {
    const struct tree tree = tree_of(level, root);
    if (rank == root)
        broadcast_root(b, level, &tree);
    else if (tree.at_root)
        broadcast_near_root(b, level, &tree);
    else
        broadcast_far(b, level, &tree);
}

static rcm_status broadcast_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                 int rank, int root, struct rcmi_plan **ret_plan) {
    static const struct rcmi_two_level_form form = {.by_leaders = true, .steps = broadcast_steps};
    return rcmi_two_level_emit(row, shape, rank, root, &form, ret_plan);
}

static uint64_t broadcast_sent(const struct rcmi_two_level *level, const struct tree *tree,
                               bool is_root) {
    const uint64_t passed =
        rcmi_leads(level) ? rcmi_binomial_children(tree->vertex, tree->hosts) : 0;
    const uint64_t published = level->size == 1 ? 0
                               : is_root        ? (uint64_t)level->leaders
                               : tree->at_root  ? 0
                                                : rcmi_leads(level);
    return passed + published;
}

static struct rcmi_formula broadcast_formula(const struct rcmi_algorithm *row,
                                             const struct rcmi_shape *shape, int rank, int root) {
    struct rcmi_two_level level;
    if (rcmi_two_level_make(shape, rank, row->parameter, &level) != RCM_OK)
        return (struct rcmi_formula){0};
    const struct tree tree = tree_of(&level, root);
    const struct rcmi_formula formula = {
        .rounds = tree_depth(&level, &tree) + tree_has_detour(&level, &tree),
        .chunks_sent = broadcast_sent(&level, &tree, rank == root)};
    rcmi_two_level_free(&level);
    return formula;
}

static void broadcast_tally(struct rcmi_tally *t, const struct rcmi_two_level *level) {
    const struct tree tree = tree_of(level, t->root);
    if (rcmi_host_is_shared(level, tree.root_host))
        rcmi_tally_multicast(t, t->root, level->leaders, 1);
    rcmi_tally_local(t, t->root, 1, 0);
    for (uint32_t vertex = 1; vertex < tree.hosts; vertex++) {
        const int host = (int)(vertex + (uint32_t)tree.root_host) % level->nhosts;
        for (int number = 0; number < level->leaders; number++) {
            tree_tally_edge(t, level, &tree, vertex, number, true);
            if (rcmi_host_is_shared(level, host))
                rcmi_tally_multicast(t, rcmi_host_rank(level, host, number), 1,
                                     1.0 / level->leaders);
        }
    }
    tree_tally_chain(t, level, &tree);
}

static void broadcast_count(struct rcmi_tally *t) {
    rcmi_two_level_count(t, broadcast_tally);
}

const struct rcmi_algorithm rcmi_two_level_broadcast = {
    .name = "two_level",
    .description = "passes parts of the vector down trees of hosts, by several leaders each; "
                   "several ranks on some of several hosts",
    .collective = RCM_BROADCAST,
    .parameter = 8,
    .supports = rcmi_supports_two_level,
    .emit = broadcast_emit,
    .formula = broadcast_formula,
    .count = broadcast_count,
};

/* ---- Reduce ---------------------------------------------------------------------------------- */

enum { LANE_GIVE, LANE_SUM, LANE_TAKE };
#define HANDED 1 /* channel number of sums handed to the root; contributions: 0 */

static void give_parts(struct rcmi_builder *b, const struct rcmi_two_level *level) {
    for (int i = 1; i <= level->leaders; i++) {
        const int leader = (level->number + i) % level->leaders;
        if (leader != level->number)
            rcmi_send(b, LANE_GIVE, (uint32_t)leader, rcmi_in((uint32_t)leader),
                      rcmi_to(b, LANE_GIVE, rcmi_leader_here(level, leader), 0));
    }
}

/* The channel for the leader's sum; not for the root. */
static uint32_t sum_goes(struct rcmi_builder *b, const struct rcmi_two_level *level,
                         const struct tree *tree) {
    const uint32_t parent = rcmi_binomial_parent(tree->vertex);
    return tree->at_root ? rcmi_to(b, LANE_SUM, tree->root, HANDED)
                         : rcmi_to(b, LANE_SUM, tree_rank(level, parent, tree->root_host), 0);
}

/* The number of the root on this host, where it adds its part itself. */
static int root_number(const struct rcmi_two_level *level, const struct tree *tree) {
    for (int number = 0; number < level->size; number++)
        if (rcmi_leader_here(level, number) == tree->root)
            return number;
    return RCMI_NO_NUMBER;
}

static void sum_part(struct rcmi_builder *b, const struct rcmi_two_level *level,
                     const struct tree *tree, bool is_root) {
    const uint32_t part = (uint32_t)level->number;
    struct rcmi_summands sum =
        rcmi_sum_host(b, LANE_SUM, level, part, rcmi_nowhere(), root_number(level, tree));
    for (uint32_t bit = rcmi_binomial_first_bit(tree->vertex, tree->hosts); bit != 0; bit >>= 1)
        if (tree->vertex + bit < tree->hosts)
            rcmi_summands_add(
                &sum,
                rcmi_from(b, LANE_SUM, tree_rank(level, tree->vertex + bit, tree->root_host), 0));
    rcmi_summands_reduce(&sum, is_root ? rcmi_out(part) : rcmi_nowhere(),
                         is_root ? RCMI_NO_CHANNEL : sum_goes(b, level, tree));
}

/* The root adds its own part to the sums that the other leaders of its host hand over. */
static void take_parts(struct rcmi_builder *b, const struct rcmi_two_level *level) {
    for (int leader = 0; leader < level->leaders; leader++) {
        const uint32_t part = (uint32_t)leader;
        if (leader == level->number)
            continue;
        const struct rcmi_operand srcs[] = {
            rcmi_in(part), rcmi_from(b, LANE_TAKE, rcmi_leader_here(level, leader), HANDED)};
        rcmi_reduce(b, LANE_TAKE, part, srcs, 2, rcmi_out(part), RCMI_NO_CHANNEL);
    }
}

static void reduce_steps(struct rcmi_builder *b, const struct rcmi_two_level *level, int rank,
                         int root) {
    const struct tree tree = tree_of(level, root);
    if (rank != root)
        give_parts(b, level);
    if (rcmi_leads(level))
        sum_part(b, level, &tree, rank == root);
    if (rank == root)
        take_parts(b, level);
}

static rcm_status reduce_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                              int rank, int root, struct rcmi_plan **ret_plan) {
    static const struct rcmi_two_level_form form = {.by_leaders = true, .steps = reduce_steps};
    return rcmi_two_level_emit(row, shape, rank, root, &form, ret_plan);
}

static struct rcmi_formula reduce_formula(const struct rcmi_algorithm *row,
                                          const struct rcmi_shape *shape, int rank, int root) {
    struct rcmi_two_level level;
    if (rcmi_two_level_make(shape, rank, row->parameter, &level) != RCM_OK)
        return (struct rcmi_formula){0};
    const struct tree tree = tree_of(&level, root);
    const struct rcmi_formula formula = {.rounds = tree_depth(&level, &tree) +
                                                   tree_has_detour(&level, &tree),
                                         .chunks_sent = rank == root ? 0 : (uint64_t)level.leaders};
    rcmi_two_level_free(&level);
    return formula;
}

/* Counts what a leader receives and adds; the root also adds its part to the sums of other
 * leaders. */
static void reduce_lead(struct rcmi_tally *t, const struct rcmi_two_level *level,
                        const struct tree *tree, uint32_t vertex, int number) {
    const double part = 1.0 / level->leaders;
    const int host = (int)(vertex + (uint32_t)tree->root_host) % level->nhosts;
    const int leader = rcmi_host_rank(level, host, number);
    const bool hands = vertex == 0 && leader != t->root;
    const double adds = rcmi_host_size(level, host) - 1 +
                        (double)rcmi_binomial_children(vertex, tree->hosts) - hands;
    rcmi_tally_given(t, level, leader, 1, part, t->root);
    rcmi_tally_local(t, leader, 0, adds * part);
    if (hands) {
        rcmi_tally_send(t, leader, t->root, 1, part);
        rcmi_tally_local(t, t->root, 0, part);
    }
    if (vertex > 0)
        tree_tally_edge(t, level, tree, vertex, number, false);
}

static void reduce_tally(struct rcmi_tally *t, const struct rcmi_two_level *level) {
    const struct tree tree = tree_of(level, t->root);
    for (uint32_t vertex = 0; vertex < tree.hosts; vertex++)
        for (int number = 0; number < level->leaders; number++)
            reduce_lead(t, level, &tree, vertex, number);
    tree_tally_chain(t, level, &tree);
}

static void reduce_count(struct rcmi_tally *t) {
    rcmi_two_level_count(t, reduce_tally);
}

const struct rcmi_algorithm rcmi_two_level_reduce = {
    .name = "two_level",
    .description =
        "sums parts of the vector inside hosts and up trees of hosts, by several leaders "
        "each; several ranks on some of several hosts",
    .collective = RCM_REDUCE,
    .parameter = 8,
    .supports = rcmi_supports_two_level,
    .emit = reduce_emit,
    .formula = reduce_formula,
    .count = reduce_count,
};
