/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posted receives, and unexpected messages, which arrived before their receive.
 *
 *   A message searches the receives of (its peer, its tag), (its peer, any), (any, its tag) and
 *   (any, any), and takes the one that was posted first.
 *   A receive searches the messages under its own peer and tag: each message is stored under all
 *   four keys.
 *
 * So the time of one does not grow with the number of the others. Not here: endpoints, and
 * completion (p2p.h). Only p2p/ includes this.
 */
#ifndef RCMI_MATCHING_H
#define RCMI_MATCHING_H

#include "endpoint.h"
#include "keyed.h"

/* The wildcards of a receive. */
enum { RCMI_MATCH_ANY_SOURCE = 1, RCMI_MATCH_ANY_TAG = 2, RCMI_MATCH_KINDS = 4 };

struct rcmi_unexpected {
    struct rcmi_keyed_item items[RCMI_MATCH_KINDS]; /* only the first is used after a probe took
                                                       it */
    struct rcmi_arrival arrival;                    /* its bytes are in `bytes` */
    char bytes[];
};

/* All 0, after rcmi_matching_init: empty. */
struct rcmi_matching {
    struct rcmi_transfers posted; /* receives, in order */
    struct rcmi_keyed receives;   /* the same by peer and tag */
    size_t of[RCMI_MATCH_KINDS];  /* numbers by kind */
    uint64_t order;               /* of the last one */
    struct rcmi_keyed messages;   /* unexpected ones */
    struct rcmi_keyed taken;      /* taken by probes, by address */
};

void rcmi_matching_init(struct rcmi_matching *matching);
/* Frees the messages. No receive may be posted. */
void rcmi_matching_fini(struct rcmi_matching *matching);

void rcmi_matching_post(struct rcmi_matching *matching, struct rcmi_transfer *receive);
/* Removes a posted receive. */
void rcmi_matching_unpost(struct rcmi_matching *matching, struct rcmi_transfer *receive);
/* Takes the receive that matches a message of this peer and tag; NULL: it is unexpected. */
struct rcmi_transfer *rcmi_matching_take_receive(struct rcmi_matching *matching, int peer,
                                                 uint64_t tag);

/* Stores a copy of a message. */
rcm_status rcmi_matching_keep(struct rcmi_matching *matching, const struct rcmi_arrival *arrival);
/* Finds the first message for a receive of this peer, or RCM_ANY_SOURCE, and tag, or RCM_ANY_TAG;
 * NULL: none arrived. _take: removes it; the caller frees it. _set_aside: keeps it for the receive
 * that names it. */
struct rcmi_unexpected *rcmi_matching_find(const struct rcmi_matching *matching, int peer,
                                           uint64_t tag);
void rcmi_matching_take(struct rcmi_matching *matching, struct rcmi_unexpected *message);
void rcmi_matching_set_aside(struct rcmi_matching *matching, struct rcmi_unexpected *message);
/* Takes a message that was set aside; NULL: there is no such one. */
struct rcmi_unexpected *rcmi_matching_take_aside(struct rcmi_matching *matching,
                                                 const void *message);

#endif
