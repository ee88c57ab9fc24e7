/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The longest chain of messages of two-level algorithms for hosts of different sizes. The formulas
 * use it; the verifier finds the same value in the plans of all ranks. Line 0 has the most blocks
 * of every host, so it determines the result.
 */
#include "two_level.h"

#include <stdlib.h>

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

uint32_t *rcmi_hosts_of_sizes(const struct rcmi_two_level *level) {
    uint32_t *hosts_of = calloc((size_t)level->largest + 1, sizeof(*hosts_of));
    for (int host = 0; hosts_of && host < level->nhosts; host++)
        hosts_of[rcmi_host_size(level, host)]++;
    return hosts_of;
}

/* ---- Around the ring of hosts, in turns ------------------------------------------------------ */

/*
 * In a turn, the block of a host travels h - 1 times to the next host, and ends before the host
 * where it started. The longest chain follows one block in each turn. It continues where the turn
 * before ended: with the block that starts there, if that host has one in this turn. Else it
 * continues with the block from the nearest host before that has one; that block has already
 * travelled the distance between the two.
 *
 *      6 hosts, ... of which 0, 2 and 3 have a block in this turn; a chain that ended at 5
 *
 *      block of 3   3 -> 4 -> 5 -> 0 -> 1 -> 2      the chain has the last three of its messages
 */
struct follower {
    int host;       /* start of the block that the chain follows */
    uint32_t depth; /* its messages at the end of the turn */
};

/* From n followers, copies those whose hosts have a block in this turn, with depth 0. */
static int followers_left(const struct rcmi_two_level *level, const struct follower *list, int n,
                          int turn, struct follower *ret_left) {
    int left = 0;
    for (int i = 0; i < n; i++)
        if (rcmi_host_size(level, list[i].host) > turn * level->leaders)
            ret_left[left++] = (struct follower){.host = list[i].host};
    return left;
}

/* Continues each of n chains with one of `left` blocks. Both lists are ordered by host. */
static void chains_go_on(int hosts, const struct follower *list, int n, struct follower *blocks,
                         int left) {
    int at = -1; /* the last block that starts at or before the chain's host */
    for (int i = 0; i < n; i++) {
        const int ended_at = list[i].host - 1;
        while (at + 1 < left && blocks[at + 1].host <= ended_at)
            at++;
        struct follower *block = &blocks[at >= 0 ? at : left - 1];
        const int waits = ended_at - block->host + (at >= 0 ? 0 : hosts);
        block->depth = larger(block->depth, list[i].depth + (uint32_t)(hosts - 1 - waits));
    }
}

/* In the first turn all hosts have a block. */
static void chains_begin(const struct rcmi_two_level *level, enum rcmi_hosts_end end,
                         struct follower *list) {
    for (int host = 0; host < level->nhosts; host++) {
        const bool given =
            end == RCMI_HOSTS_HAND && rcmi_host_is_shared(level, (host + 1) % level->nhosts);
        list[host] = (struct follower){.host = host, .depth = (uint32_t)level->nhosts - 1 + given};
    }
}

static uint32_t chains_longest(const struct rcmi_two_level *level, enum rcmi_hosts_end end,
                               const struct follower *list, int n, int turns) {
    uint32_t longest = 0;
    for (int i = 0; i < n; i++) {
        const int last = (list[i].host + level->nhosts - 1) % level->nhosts;
        const bool more = end == RCMI_HOSTS_PUBLISH ? rcmi_host_is_shared(level, last) : turns > 1;
        longest = larger(longest, list[i].depth + more);
    }
    return longest;
}

uint32_t rcmi_ring_rounds(const struct rcmi_two_level *level, enum rcmi_hosts_end end) {
    struct follower *room = calloc(2 * (size_t)level->nhosts, sizeof(*room));
    if (!room)
        return 0;
    struct follower *list = room, *next = room + level->nhosts;
    int n = level->nhosts, turns = 1;
    chains_begin(level, end, list);
    for (; turns * level->leaders < level->largest; turns++) {
        const int left = followers_left(level, list, n, turns, next);
        chains_go_on(level->nhosts, list, n, next, left);
        struct follower *done = list;
        list = next;
        next = done;
        n = left;
    }
    const uint32_t longest = chains_longest(level, end, list, n, turns);
    free(room);
    return longest;
}

/* ---- Given, exchanged and handed out --------------------------------------------------------- */

/* Hosts of the same size are alike, so values are kept by size. */
struct size {
    int size;
    uint32_t hosts;
    uint32_t depth, after; /* messages in a row up to their leaders of line 0 */
};

struct sizes {
    const struct rcmi_two_level *level;
    int n;
    struct size *of; /* existing sizes, ascending */
};

static bool sizes_make(struct sizes *sizes, const struct rcmi_two_level *level) {
    uint32_t *hosts_of = rcmi_hosts_of_sizes(level);
    *sizes =
        (struct sizes){.level = level, .of = calloc((size_t)level->largest, sizeof(*sizes->of))};
    const bool made = hosts_of && sizes->of;
    for (int size = 1; made && size <= level->largest; size++)
        if (hosts_of[size] > 0)
            sizes->of[sizes->n++] = (struct size){.size = size, .hosts = hosts_of[size]};
    free(hosts_of);
    return made;
}

/* After the giving phase: two leaders give each other messages alternately. */
static void depth_given(struct sizes *sizes) {
    const struct rcmi_two_level *level = sizes->level;
    const uint32_t most = rcmi_spans(rcmi_line_ranks(level, 0));
    const uint32_t next = level->leaders > 1 ? rcmi_spans(rcmi_line_ranks(level, 1)) : 0;
    for (int i = 0; i < sizes->n; i++)
        if (sizes->of[i].size > 1)
            sizes->of[i].depth = most < next + 1 ? most : next + 1;
}

/* For hosts of a size, after the messages with blocks from `at` on. */
static uint32_t depth_received(const struct sizes *sizes, const struct size *here, uint32_t at) {
    const uint32_t per = (uint32_t)rcmi_size_followers(sizes->level, here->size, 0);
    uint32_t depth = here->depth;
    for (int i = 0; i < sizes->n; i++) {
        const struct size *from = &sizes->of[i];
        if (from->hosts > (from == here) && (uint32_t)from->size * per > at)
            depth = larger(depth, from->depth + 1);
    }
    return depth;
}

static void depth_exchanged(struct sizes *sizes) {
    const int largest = sizes->level->largest;
    const uint32_t most = (uint32_t)(largest * rcmi_size_followers(sizes->level, largest, 0));
    for (uint32_t at = 0; at < most; at += RCMI_SPAN_MAX) {
        for (int i = 0; i < sizes->n; i++)
            sizes->of[i].after = depth_received(sizes, &sizes->of[i], at);
        for (int i = 0; i < sizes->n; i++)
            sizes->of[i].depth = sizes->of[i].after;
    }
}

uint32_t rcmi_exchange_rounds(const struct rcmi_two_level *level, bool between) {
    struct sizes sizes;
    uint32_t longest = 0;
    const bool made = sizes_make(&sizes, level);
    if (made && !between)
        depth_given(&sizes);
    if (made)
        depth_exchanged(&sizes);
    for (int i = 0; i < sizes.n; i++) {
        const bool hands = !between && sizes.of[i].size > level->leaders;
        longest = larger(longest, sizes.of[i].depth + hands);
    }
    free(sizes.of);
    return longest;
}
