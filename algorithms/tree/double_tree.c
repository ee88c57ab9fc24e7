/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast, reduce and all-reduce on two binary trees at once (Sanders, Speck and Träff 2009).
 *
 * Each tree carries one half of the vector, slice by slice. A rank with children in one tree is a
 * leaf of the other, so every rank sends about one vector. In a single tree, inner ranks would send
 * two and leaves none. The root has one child in each tree.
 *
 *      p = 6     first half          second half
 *
 *                     0                   0
 *                     |                   |
 *                     4                   3
 *                   /   \               /   \
 *                  2     5             1     4
 *                 / \                 / \
 *                1   3               5   2
 *
 * Ranks are counted from the root, host by host in ring order. In the first tree, numbers are in
 * order from left to right. The second tree is the first with every number shifted by one, the last
 * wrapping to the first: odd numbers, which are leaves, become even ones.
 *
 * Cost: 1 + floor(log2(p-1)) messages in a row, twice that for all-reduce; each rank sends the
 * vector once, or twice. Good for large vectors and many hosts, where a chain would be long.
 */
#include "algorithm.h"

#include <stdlib.h>

enum { TREES = 2, CHILDREN = 2 };

/* ---- The trees ------------------------------------------------------------------------------- */

struct node {
    uint32_t parent; /* the root's is itself */
    uint32_t children[CHILDREN];
    uint32_t nchildren;
};

/* Adds the right child: v + more, or while that is not in 0..p-1, with `more` halved. */
static void node_add_right(struct node *node, uint32_t v, uint32_t more, uint32_t p) {
    while (more > 0 && v + more >= p)
        more /= 2;
    if (more > 0)
        node->children[node->nchildren++] = v + more;
}

/* The in-order tree: the lowest set bit is the height. */
static struct node node_in_order(uint32_t v, uint32_t p) {
    struct node node = {.parent = v};
    if (v == 0) {
        node_add_right(&node, 0, 1u << rcmi_log2_floor(p), p);
        return node;
    }
    const uint32_t bit = v & -v, above = (v ^ bit) | bit << 1;
    node.parent = above < p ? above : v ^ bit;
    if (bit > 1)
        node.children[node.nchildren++] = v - bit / 2;
    node_add_right(&node, v, bit / 2, p);
    return node;
}

/* Maps 1..p-1: the vertex of the first tree whose position v has in the second tree, and back. */
static uint32_t shifted(uint32_t v, uint32_t p) {
    return v == 0 ? 0 : v % (p - 1) + 1;
}

static uint32_t shifted_back(uint32_t v, uint32_t p) {
    return v == 0 ? 0 : (v + p - 3) % (p - 1) + 1;
}

static struct node node_of(int tree, uint32_t v, uint32_t p) {
    if (tree == 0)
        return node_in_order(v, p);
    struct node node = node_in_order(shifted(v, p), p);
    node.parent = shifted_back(node.parent, p);
    for (uint32_t i = 0; i < node.nchildren; i++)
        node.children[i] = shifted_back(node.children[i], p);
    return node;
}

/* Messages in a row from the root to the deepest leaf. */
static uint32_t depth(uint32_t p) {
    return p == 1 ? 0 : 1 + rcmi_log2_floor(p - 1);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

struct trees {
    struct rcmi_builder *b;
    uint32_t p, v; /* ranks; this one's number from the root */
    uint32_t root_index;
    int *rank_at; /* by ring index */
};

static int trees_rank(const struct trees *t, uint32_t v) {
    return t->rank_at[(v + t->root_index) % t->p];
}

/* The number of a channel between two ranks, which may be neighbours in both trees. */
enum { UP, DOWN };
static int number(int tree, int direction) {
    return 2 * tree + direction;
}

static struct rcmi_operand from(const struct trees *t, int lane, uint32_t v, int tree,
                                int direction) {
    return rcmi_from(t->b, lane, trees_rank(t, v), number(tree, direction));
}

static uint32_t to(const struct trees *t, int lane, uint32_t v, int tree, int direction) {
    return rcmi_to(t->b, lane, trees_rank(t, v), number(tree, direction));
}

/* Sends the half of a tree, from where this rank has it, to its children. */
static void send_down(const struct trees *t, int lane, int tree, struct rcmi_operand have,
                      const struct node *node, uint32_t first) {
    for (uint32_t i = first; i < node->nchildren; i++)
        rcmi_send(t->b, lane, (uint32_t)tree, have, to(t, lane, node->children[i], tree, DOWN));
}

/* For ranks other than the root. */
static void pass_down(const struct trees *t, int lane, int tree) {
    const struct node node = node_of(tree, t->v, t->p);
    const struct rcmi_operand source = from(t, lane, node.parent, tree, DOWN);
    const struct rcmi_operand out = rcmi_out((uint32_t)tree);
    if (node.nchildren == 0) {
        rcmi_recv(t->b, lane, (uint32_t)tree, source, out);
        return;
    }
    rcmi_recv_copy_send(t->b, lane, (uint32_t)tree, source, out,
                        to(t, lane, node.children[0], tree, DOWN));
    send_down(t, lane, tree, out, &node, 1);
}

/* Adds up this rank's half and those below: to its parent, or at the root to dst and out. */
static void sum_up(const struct trees *t, int lane, int tree, struct rcmi_operand dst,
                   uint32_t out) {
    const struct node node = node_of(tree, t->v, t->p);
    const uint32_t target = t->v == 0 ? out : to(t, lane, node.parent, tree, UP);
    struct rcmi_operand srcs[1 + CHILDREN] = {rcmi_in((uint32_t)tree)};
    int n = 1;
    for (uint32_t i = 0; i < node.nchildren; i++)
        srcs[n++] = from(t, lane, node.children[i], tree, UP);
    if (n == 1)
        rcmi_send(t->b, lane, (uint32_t)tree, srcs[0], target);
    else
        rcmi_reduce(t->b, lane, (uint32_t)tree, srcs, n, dst, target);
}

static void broadcast_steps(const struct trees *t, int tree) {
    const struct node node = node_of(tree, t->v, t->p);
    if (t->v != 0) {
        pass_down(t, tree, tree);
        return;
    }
    send_down(t, tree, tree, rcmi_in((uint32_t)tree), &node, 0);
    rcmi_copy_chunk(t->b, tree, (uint32_t)tree, rcmi_in((uint32_t)tree), rcmi_out((uint32_t)tree));
}

static void reduce_steps(const struct trees *t, int tree) {
    sum_up(t, tree, tree, t->v == 0 ? rcmi_out((uint32_t)tree) : rcmi_nowhere(), RCMI_NO_CHANNEL);
}

static void all_reduce_steps(const struct trees *t, int tree) {
    const struct node node = node_of(tree, t->v, t->p);
    if (t->v == 0) {
        sum_up(t, tree, tree, rcmi_out((uint32_t)tree), to(t, tree, node.children[0], tree, DOWN));
        return;
    }
    sum_up(t, tree, tree, rcmi_nowhere(), RCMI_NO_CHANNEL);
    pass_down(t, TREES + tree, tree);
}

static bool goes_up(const struct rcmi_algorithm *row) {
    return row->collective != RCM_BROADCAST;
}

static bool goes_down(const struct rcmi_algorithm *row) {
    return row->collective != RCM_REDUCE;
}

static void tree_steps(const struct trees *t, const struct rcmi_algorithm *row, int tree) {
    if (t->p == 1)
        rcmi_copy_chunk(t->b, tree, (uint32_t)tree, rcmi_in((uint32_t)tree),
                        rcmi_out((uint32_t)tree));
    else if (!goes_up(row))
        broadcast_steps(t, tree);
    else if (!goes_down(row))
        reduce_steps(t, tree);
    else
        all_reduce_steps(t, tree);
}

static rcm_status trees_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                             int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks;
    struct trees t = {.p = p, .root_index = rcmi_ring_position_of(shape, root).index};
    rcm_status status = rcmi_ring_order(shape, &t.rank_at);
    if (status != RCM_OK)
        return status;
    t.v = (rcmi_ring_position_of(shape, rank).index + p - t.root_index) % p;
    status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, TREES, 1, &t.b);
    for (int tree = 0; tree < TREES && status == RCM_OK; tree++)
        tree_steps(&t, row, tree);
    free(t.rank_at);
    return status == RCM_OK ? rcmi_plan_finish(t.b, ret_plan) : status;
}

/* ---- Formula and count ----------------------------------------------------------------------- */

static struct rcmi_formula trees_formula(const struct rcmi_algorithm *row,
                                         const struct rcmi_shape *shape, int rank, int root) {
    const uint32_t p = (uint32_t)shape->nranks;
    const uint32_t root_index = rcmi_ring_position_of(shape, root).index;
    const uint32_t v = (rcmi_ring_position_of(shape, rank).index + p - root_index) % p;
    const uint32_t directions = (uint32_t)goes_up(row) + (uint32_t)goes_down(row);
    struct rcmi_formula formula = {.rounds = directions * depth(p)};
    for (int tree = 0; tree < TREES && p > 1; tree++) {
        formula.chunks_sent += goes_up(row) && v != 0;
        formula.chunks_sent += goes_down(row) ? node_of(tree, v, p).nchildren : 0;
    }
    return formula;
}

/* Counts the edges of both trees from v to its parent: half a vector along each; received sums are
 * added. */
static void edges_count(struct rcmi_tally *tally, const struct trees *t, uint32_t v) {
    const bool up = goes_up(tally->row), down = goes_down(tally->row);
    const int self = trees_rank(t, v);
    for (int tree = 0; tree < TREES; tree++) {
        const int parent = trees_rank(t, node_of(tree, v, t->p).parent);
        rcmi_tally_send(tally, self, parent, up, up * 0.5);
        rcmi_tally_send(tally, parent, self, down, down * 0.5);
        rcmi_tally_local(tally, parent, 0, up * 0.5);
    }
}

/* Counts nothing if there is no memory for the ring order: then no plan can be made either. */
static void trees_count(struct rcmi_tally *tally) {
    const bool up = goes_up(tally->row), down = goes_down(tally->row);
    struct trees t = {.p = (uint32_t)tally->shape->nranks,
                      .root_index = rcmi_ring_position_of(tally->shape, tally->root).index};
    if (rcmi_ring_order(tally->shape, &t.rank_at) != RCM_OK)
        return;
    for (uint32_t v = 1; v < t.p; v++)
        edges_count(tally, &t, v);
    free(t.rank_at);
    rcmi_tally_local(tally, tally->root, !up, 0);
    rcmi_tally_chain(tally, (up + down) * depth(t.p) * 0.5);
}

#define DESCRIPTION                                                                                \
    "passes slices along two binary trees, a half by each; for large vectors on many hosts"

const struct rcmi_algorithm rcmi_double_tree_broadcast = {
    .name = "double_tree",
    .description = DESCRIPTION,
    .collective = RCM_BROADCAST,
    .supports = rcmi_supports_all,
    .emit = trees_emit,
    .formula = trees_formula,
    .count = trees_count,
};

const struct rcmi_algorithm rcmi_double_tree_reduce = {
    .name = "double_tree",
    .description = DESCRIPTION,
    .collective = RCM_REDUCE,
    .supports = rcmi_supports_all,
    .emit = trees_emit,
    .formula = trees_formula,
    .count = trees_count,
};

const struct rcmi_algorithm rcmi_double_tree_all_reduce = {
    .name = "double_tree",
    .description = DESCRIPTION,
    .collective = RCM_ALL_REDUCE,
    .supports = rcmi_supports_all,
    .emit = trees_emit,
    .formula = trees_formula,
    .count = trees_count,
};
