/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posted receives, and unexpected messages: those that came before their receive.
 *
 *   a message looks among receives of (its peer, its tag), (its peer, any), (any, its tag) and
 *             (any, any), and takes the one that was posted first
 *   a receive looks among messages of what it says: each is there under all four
 *
 * so neither takes longer the more there are of the other. Not here: endpoints, and what completes
 * (p2p.h). Only p2p/ includes this.
 */
#ifndef RCMI_MATCHING_H
#define RCMI_MATCHING_H

#include "endpoint.h"
#include "keyed.h"

/* How much a receive leaves open. */
enum { RCMI_MATCH_ANY_SOURCE = 1, RCMI_MATCH_ANY_TAG = 2, RCMI_MATCH_KINDS = 4 };

struct rcmi_unexpected {
    struct rcmi_keyed_item items[RCMI_MATCH_KINDS]; /* the first of one that a probe took */
    struct rcmi_arrival arrival;                    /* its bytes are here: */
    char bytes[];
};

/* One that is all 0, but for rcmi_matching_init, is empty. */
struct rcmi_matching {
    struct rcmi_transfers posted; /* receives, in order */
    struct rcmi_keyed receives;   /* the same */
    size_t of[RCMI_MATCH_KINDS];  /* how many */
    uint64_t order;               /* of the last one */
    struct rcmi_keyed messages;   /* unexpected ones */
    struct rcmi_keyed taken;      /* by probes, by address */
};

void rcmi_matching_init(struct rcmi_matching *matching);
/* Frees the messages. No receive is posted. */
void rcmi_matching_fini(struct rcmi_matching *matching);

void rcmi_matching_post(struct rcmi_matching *matching, struct rcmi_transfer *receive);
/* Takes back a receive that is posted. */
void rcmi_matching_unpost(struct rcmi_matching *matching, struct rcmi_transfer *receive);
/* Takes the receive that a message of this peer and tag belongs to; NULL: it is unexpected. */
struct rcmi_transfer *rcmi_matching_take_receive(struct rcmi_matching *matching, int peer,
                                                 uint64_t tag);

/* Copies a message. */
rcm_status rcmi_matching_keep(struct rcmi_matching *matching, const struct rcmi_arrival *arrival);
/* The first that a receive of this peer, or RCM_ANY_SOURCE, and tag, or RCM_ANY_TAG, is for; NULL:
 * none came. _take: it is the caller's, to be freed; _set_aside: for the receive that names it. */
struct rcmi_unexpected *rcmi_matching_find(const struct rcmi_matching *matching, int peer,
                                           uint64_t tag);
void rcmi_matching_take(struct rcmi_matching *matching, struct rcmi_unexpected *message);
void rcmi_matching_set_aside(struct rcmi_matching *matching, struct rcmi_unexpected *message);
/* Takes one that was set aside; NULL: it is none. */
struct rcmi_unexpected *rcmi_matching_take_aside(struct rcmi_matching *matching,
                                                 const void *message);

#endif
