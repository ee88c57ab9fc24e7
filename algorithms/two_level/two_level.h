/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers of the two-level algorithms: the ranks of each host by number, and the leaders.
 *
 *      host 0      host 1
 *      0 1 2 3     0 1 2         the ranks of a host, by number
 *      L L         L L           leaders: the same number on every host, at most as many as the
 *                                smallest host has ranks
 *
 * Leaders of equal number form a *line*. Only leaders send between hosts, and each line sends its
 * own part of the data. Several processes of each host thus use its network card, and no byte
 * crosses more often than necessary. A rank's own leader is the one whose number is the rank's
 * number modulo the leaders. Within a host, summands go to a leader through pair channels, and data
 * for all ranks go through the leader's multicast, which ranks of a host always have.
 */
#ifndef RCMI_TWO_LEVEL_H
#define RCMI_TWO_LEVEL_H

#include "algorithm.h"

struct rcmi_two_level {
    int nhosts, leaders;
    int host, number; /* this rank's host, and its number there */
    int size;         /* ranks of its host */
    int largest;      /* ranks of the largest host */
    int *rank_at;     /* host by host, in rank order */
    int *first;       /* index in rank_at of each host, and past the last */
};

/* Are there several hosts, and one with several ranks? */
bool rcmi_supports_two_level(const struct rcmi_shape *shape);
/* At most `most` leaders. _free frees the contents. */
rcm_status rcmi_two_level_make(const struct rcmi_shape *shape, int rank, uint32_t most,
                               struct rcmi_two_level *ret_level);
void rcmi_two_level_free(struct rcmi_two_level *level);

/* The number of ranks of a host; the rank with that number there. */
static inline int rcmi_host_size(const struct rcmi_two_level *level, int host) {
    return level->first[host + 1] - level->first[host];
}
static inline int rcmi_host_rank(const struct rcmi_two_level *level, int host, int number) {
    return level->rank_at[level->first[host] + number];
}
/* The host `back` positions before this rank's, on the ring of hosts. */
int rcmi_host_before(const struct rcmi_two_level *level, int back);
/* The number of ranks whose leader has that number: on a host; on a host of that size; on all
 * hosts. */
int rcmi_host_followers(const struct rcmi_two_level *level, int host, int leader);
int rcmi_size_followers(const struct rcmi_two_level *level, int size, int leader);
uint32_t rcmi_line_ranks(const struct rcmi_two_level *level, int line);

static inline bool rcmi_leads(const struct rcmi_two_level *level) {
    return level->number < level->leaders;
}
/* The rank with that number on this rank's host. */
static inline int rcmi_leader_here(const struct rcmi_two_level *level, int number) {
    return rcmi_host_rank(level, level->host, number);
}

/* The sum of a chunk over the ranks of this host. IN has this rank's part; the others send theirs
 * on channel 0. Starts with `from` if that is a channel; leaves out the rank with number `but`. */
#define RCMI_NO_NUMBER (-1)
struct rcmi_summands rcmi_sum_host(struct rcmi_builder *b, int lane,
                                   const struct rcmi_two_level *level, uint32_t chunk,
                                   struct rcmi_operand from, int but);

/* How plans are made. The table entry's parameter is the maximum number of leaders. */
struct rcmi_two_level_form {
    bool by_leaders, by_hosts; /* a block has a chunk per leader, per host, or per pair */
    void (*steps)(struct rcmi_builder *b, const struct rcmi_two_level *level, int rank, int root);
};
rcm_status rcmi_two_level_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                               int rank, int root, const struct rcmi_two_level_form *form,
                               struct rcmi_plan **ret_plan);

/* Counts the work of an algorithm: `tally` adds it. From `level` it may use only values that are
 * equal on all ranks. */
void rcmi_two_level_count(struct rcmi_tally *t,
                          void (*tally)(struct rcmi_tally *t, const struct rcmi_two_level *level));
/* Counts what the ranks of a host send a leader there: each except the leader and rank `but` sends
 * `messages` messages of `vectors` vectors. */
void rcmi_tally_given(struct rcmi_tally *t, const struct rcmi_two_level *level, int leader,
                      double messages, double vectors, int but);

/* ---- Longest chains of messages (two_level_chain.c) ------------------------------------------ */

/* The number of hosts of each size, from 0 to the largest; the caller frees it. NULL: no memory. */
uint32_t *rcmi_hosts_of_sizes(const struct rcmi_two_level *level);

/* For blocks that travel round the ring of hosts in turns; in each turn one block of each host that
 * still has one (two_level_blocks.c). 0: no memory. */
enum rcmi_hosts_end {
    RCMI_HOSTS_PUBLISH, /* a block starts at the leader; its last host's leader publishes it */
    RCMI_HOSTS_HAND     /* it starts with what that host's ranks send; from the second turn on it
                           is handed over at the end */
};
uint32_t rcmi_ring_rounds(const struct rcmi_two_level *level, enum rcmi_hosts_end end);

/* For blocks that ranks give to leaders, leaders exchange, and leaders hand out
 * (two_level_all_to_all.c); with `between` only the exchange. 0: no memory. */
uint32_t rcmi_exchange_rounds(const struct rcmi_two_level *level, bool between);

/* Does the host have several ranks, so that data move between them? */
bool rcmi_host_is_shared(const struct rcmi_two_level *level, int host);

#endif
