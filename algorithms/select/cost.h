/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counted work: what an algorithm does, in machine-independent numbers. An algorithm reports which
 * messages its ranks send and what they copy and add (rcmi_tally_*). The totals, struct rcmi_cost,
 * are the input of a price (price.h). The verifier counts the same in the plans of all ranks and
 * compares (verify_cost.c).
 *
 *      count()  -->  tally: of each rank, of each host  -->  cost: the busiest, the mean, the chain
 *                                                              |
 *                        plans of all ranks  -- verifier --  equal?
 *
 * Bytes are counted in vectors: 1 is the larger of a rank's two buffers. Not here: the time that a
 * machine takes.
 */
#ifndef RCMI_COST_H
#define RCMI_COST_H

#include "plan.h"

/* The load of one rank. A message counts for its sender and for each receiver. */
struct rcmi_load {
    double messages[RCMI_REACHES];
    double moved[RCMI_REACHES]; /* vectors sent, received, and (within) copied or packed */
    double sums;                /* vectors added */
};

struct rcmi_cost {
    double hops[RCMI_REACHES]; /* messages of the longest chain; the sum is exact */
    double chain;              /* vectors in the messages of a chain, in sequence */
    struct rcmi_load busiest;  /* the maximum of each number over all ranks */
    struct rcmi_load mean;
    double card; /* vectors in one direction at the host with most traffic */
};

/* ---- Reported by an algorithm ---------------------------------------------------------------- */

struct rcmi_tally {
    const struct rcmi_shape *shape;
    const struct rcmi_algorithm *row;
    int root;
    struct rcmi_load *own; /* of each rank */
    struct rcmi_tally_host {
        int ranks, first, last;
        double leaves, enters;  /* vectors */
        double messages, moved; /* multicast within it; counted for each of its ranks */
    } * hosts;
    double chain, between;
    bool failed; /* out of memory: the counts are incomplete */
};

/* `messages` from one rank to another, with `vectors` in total. */
void rcmi_tally_send(struct rcmi_tally *tally, int from, int to, double messages, double vectors);
/* n blocks or chunks of `block` vectors each, in spans (plan.h). Between hosts each end copies a
 * span; a single block is sent and received in place. */
void rcmi_tally_spans(struct rcmi_tally *tally, int from, int to, uint32_t n, double block);
/* One end of spans between hosts: n blocks, `times` times, from a rank to ranks of other hosts, or
 * to it from there. */
void rcmi_tally_leave(struct rcmi_tally *tally, int from, double times, uint32_t n, double block);
void rcmi_tally_enter(struct rcmi_tally *tally, int to, double times, uint32_t n, double block);
/* From one rank to all others of its host. */
void rcmi_tally_multicast(struct rcmi_tally *tally, int from, double messages, double vectors);
/* The same from every rank to every other rank. */
void rcmi_tally_everyone(struct rcmi_tally *tally, double messages, double vectors);
/* From every rank to the next on the ring (rcmi_ring_position_of). */
void rcmi_tally_ring(struct rcmi_tally *tally, double messages, double vectors);
/* Local work of one rank, or of each rank. In-place copies of IN to OUT count too. */
void rcmi_tally_local(struct rcmi_tally *tally, int rank, double copied, double sums);
void rcmi_tally_local_all(struct rcmi_tally *tally, double copied, double sums);
/* The longest chain of messages carries `vectors` in sequence. Required if that is more than half
 * of what the busiest rank sends, receives and copies. */
void rcmi_tally_chain(struct rcmi_tally *tally, double vectors);
/* Messages of that chain between hosts. Default: their share of all messages. */
void rcmi_tally_between(struct rcmi_tally *tally, double hops);

/* ---- Totals ---------------------------------------------------------------------------------- */

/* Counts an algorithm's work: O(ranks) memory and O(ranks log(ranks)) time. RCM_ERR_NOMEM. */
rcm_status rcmi_cost_count(const struct rcmi_algorithm *algorithm, const struct rcmi_shape *shape,
                           int root, struct rcmi_cost *ret_cost);

/* An empty tally, and its totals. For the verifier, which fills one from plans. */
rcm_status rcmi_tally_init(struct rcmi_tally *tally, const struct rcmi_shape *shape);
void rcmi_tally_total(struct rcmi_tally *tally, uint32_t hops, struct rcmi_cost *ret_cost);
void rcmi_tally_free(struct rcmi_tally *tally);

#endif
