/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counted work: what an algorithm does, in numbers that no machine changes. An algorithm says which
 * messages its ranks send each other and what they copy and add (rcmi_tally_*); what is counted of
 * that, struct rcmi_cost, is what a price is made of (price.h). The verifier counts the same in the
 * plans of all ranks and holds the algorithm to it (verify_cost.c).
 *
 *      count()  -->  tally: of each rank, of each host  -->  cost: the busiest, the mean, the chain
 *                                                              |
 *                        plans of all ranks  -- verifier --  equal?
 *
 * Bytes are counted in vectors: 1 is the larger of a rank's two buffers. What a machine takes for
 * all this is not here.
 */
#ifndef RCMI_COST_H
#define RCMI_COST_H

#include "plan.h"

/* Of one rank. Both ends of a message count: the one that sends it and each that receives it. */
struct rcmi_load {
    double messages[RCMI_REACHES];
    double moved[RCMI_REACHES]; /* vectors sent, received, and (within) copied or packed */
    double sums;                /* vectors added to another one */
};

struct rcmi_cost {
    double hops[RCMI_REACHES]; /* messages of the longest chain; the sum is exact */
    double chain;              /* vectors that the messages of a chain carry one after the other */
    struct rcmi_load busiest;  /* of each number the most that a rank has */
    struct rcmi_load mean;
    double card; /* vectors that leave or enter the host with most, one way */
};

/* ---- What an algorithm says of itself -------------------------------------------------------- */

struct rcmi_tally {
    const struct rcmi_shape *shape;
    const struct rcmi_algorithm *row;
    int root;
    struct rcmi_load *own; /* of each rank */
    struct rcmi_tally_host {
        int ranks, first, last;
        double leaves, enters;  /* vectors */
        double messages, moved; /* multicast on it: each of its ranks has them */
    } * hosts;
    double chain, between;
    bool failed; /* for want of memory: what is here is not all */
};

/* `messages` from one rank to another, which carry `vectors` in all. */
void rcmi_tally_send(struct rcmi_tally *tally, int from, int to, double messages, double vectors);
/* n blocks or chunks of so much of a vector each, in spans (plan.h): between hosts each end copies
 * them, where a single one is sent from and received to where it is. */
void rcmi_tally_spans(struct rcmi_tally *tally, int from, int to, uint32_t n, double block);
/* One end of them between hosts: so often as many go from a rank to some of other hosts, or come
 * from there. */
void rcmi_tally_leave(struct rcmi_tally *tally, int from, double times, uint32_t n, double block);
void rcmi_tally_enter(struct rcmi_tally *tally, int to, double times, uint32_t n, double block);
/* From one rank to all others of its host. */
void rcmi_tally_multicast(struct rcmi_tally *tally, int from, double messages, double vectors);
/* The same from every rank to every other one. */
void rcmi_tally_everyone(struct rcmi_tally *tally, double messages, double vectors);
/* From every rank to the next one on the ring (rcmi_ring_place_of). */
void rcmi_tally_ring(struct rcmi_tally *tally, double messages, double vectors);
/* What a rank, or each, does on its own. In place the copies of IN to OUT are counted too. */
void rcmi_tally_local(struct rcmi_tally *tally, int rank, double copied, double sums);
void rcmi_tally_local_all(struct rcmi_tally *tally, double copied, double sums);
/* The longest chain of messages carries so many vectors one after the other. Needed where that is
 * more than half of what the busiest rank sends, receives and copies. */
void rcmi_tally_chain(struct rcmi_tally *tally, double vectors);
/* So many messages of that chain go from host to host. Unless it is said, their share is that of
 * all messages. */
void rcmi_tally_between(struct rcmi_tally *tally, double hops);

/* ---- What comes of it ------------------------------------------------------------------------ */

/* Counts an algorithm's work: O(ranks) memory and, but for a factor log(ranks), time.
 * RCM_ERR_NOMEM.
 */
rcm_status rcmi_cost_count(const struct rcmi_algorithm *algorithm, const struct rcmi_shape *shape,
                           int root, struct rcmi_cost *ret_cost);

/* A tally of nothing, and what it comes to. For the verifier, which fills one from plans. */
rcm_status rcmi_tally_init(struct rcmi_tally *tally, const struct rcmi_shape *shape);
void rcmi_tally_total(struct rcmi_tally *tally, uint32_t hops, struct rcmi_cost *ret_cost);
void rcmi_tally_free(struct rcmi_tally *tally);

#endif
