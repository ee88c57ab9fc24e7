/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two-level algorithms share: the ranks of each host by number, and which of them lead
 * there.
 *
 *      host 0      host 1
 *      0 1 2 3     0 1 2         the ranks of a host, by number
 *      L L         L L           leaders: as many on every host, at most as many as the smallest
 *                                host has ranks
 *
 * Leaders of equal number are a *line*. They alone send between hosts, each line a part of the data
 * of its own, so that several processes of each host use its network card, and no byte crosses more
 * often than it must. A rank's own leader is the one whose number is the rank's modulo the leaders.
 * Inside a host, what is to be summed goes to a leader by channels of pairs, and what all ranks get
 * by the leader's multicast, which ranks of a host always have.
 */
#ifndef RCMI_TWO_LEVEL_H
#define RCMI_TWO_LEVEL_H

#include "algorithm.h"

struct rcmi_two_level {
    int nhosts, leaders;
    int host, number; /* of this rank: its host, and which one it is there */
    int size;         /* ranks of its host */
    int largest;      /* ranks of any host */
    int *rank_at;     /* host by host, in the order of ranks */
    int *first;       /* of each host, and past the last: in rank_at */
};

/* Several hosts, and several ranks on one of them. */
bool rcmi_supports_two_level(const struct rcmi_shape *shape);
/* At most `most` leaders. _free: what it has. */
rcm_status rcmi_two_level_make(const struct rcmi_shape *shape, int rank, uint32_t most,
                               struct rcmi_two_level *ret_level);
void rcmi_two_level_free(struct rcmi_two_level *level);

/* Ranks of a host; the rank of that number there. */
static inline int rcmi_host_size(const struct rcmi_two_level *level, int host) {
    return level->first[host + 1] - level->first[host];
}
static inline int rcmi_host_rank(const struct rcmi_two_level *level, int host, int number) {
    return level->rank_at[level->first[host] + number];
}
/* The host `back` places before this rank's, on the ring of hosts. */
int rcmi_host_before(const struct rcmi_two_level *level, int back);
/* Those of a host whose leader has that number; of a host of that size; of all hosts. */
int rcmi_host_followers(const struct rcmi_two_level *level, int host, int leader);
int rcmi_size_followers(const struct rcmi_two_level *level, int size, int leader);
uint32_t rcmi_line_ranks(const struct rcmi_two_level *level, int line);

static inline bool rcmi_leads(const struct rcmi_two_level *level) {
    return level->number < level->leaders;
}
/* The rank that leads with that number on this rank's host; on another one. */
static inline int rcmi_leader_here(const struct rcmi_two_level *level, int number) {
    return rcmi_host_rank(level, level->host, number);
}

/* The sum of what ranks of this host have of a chunk, of which IN has all; those but this one send
 * it on channel 0. Begins with `from` if that is a channel; without the rank of number `but`. */
#define RCMI_NO_NUMBER (-1)
struct rcmi_summands rcmi_sum_host(struct rcmi_builder *b, int lane,
                                   const struct rcmi_two_level *level, uint32_t chunk,
                                   struct rcmi_operand from, int but);

/* How a row's plans are made. Its parameter is the most leaders. */
struct rcmi_two_level_form {
    bool by_leaders, by_hosts; /* a block has a chunk for each, or for each of both */
    void (*steps)(struct rcmi_builder *b, const struct rcmi_two_level *level, int rank, int root);
};
rcm_status rcmi_two_level_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                               int rank, int root, const struct rcmi_two_level_form *form,
                               struct rcmi_plan **ret_plan);

/* A row's work, told by `tell` to its tally; of level only what holds for all ranks counts. */
void rcmi_two_level_count(struct rcmi_tally *t,
                          void (*tell)(struct rcmi_tally *t, const struct rcmi_two_level *level));
/* What the ranks of a host give a leader there: each but the leader, and but rank `but`, messages
 * of so many vectors each. */
void rcmi_tally_given(struct rcmi_tally *t, const struct rcmi_two_level *level, int leader,
                      double messages, double vectors, int but);

/* ---- Longest chains of messages (two_level_chain.c) ------------------------------------------ */

/* How many hosts have each size, from 0 to the largest; the caller frees it. NULL: no memory. */
uint32_t *rcmi_hosts_of_sizes(const struct rcmi_two_level *level);

/* Of blocks that go round the ring of hosts in turns, one of each host in a turn as long as it has
 * any (two_level_blocks.c). 0: no memory. */
enum rcmi_hosts_end {
    RCMI_HOSTS_TOLD, /* a block begins with the leader; its last host is told it */
    RCMI_HOSTS_HAND  /* it begins with what that host gives; from the second turn on it is handed
                           over at the end */
};
uint32_t rcmi_ring_rounds(const struct rcmi_two_level *level, enum rcmi_hosts_end end);

/* Of blocks that are given to leaders, exchanged by them and handed out (two_level_all_to_all.c);
 * or of that between hosts. 0: no memory. */
uint32_t rcmi_exchange_rounds(const struct rcmi_two_level *level, bool between);

/* Has it several ranks, so that data go from one to another? */
bool rcmi_host_is_shared(const struct rcmi_two_level *level, int host);

#endif
