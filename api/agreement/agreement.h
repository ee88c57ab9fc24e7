/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/agreement/: agreement among the ranks of a communicator while any of them may die. Two
 * consensus protocols, each for one question:
 *
 *   survivors.c  which ranks are left, for rcm_comm_shrink. Runs rarely, as a blocking call on all
 *                of them. The result is a set that must be the same on every survivor for ever. So
 *                a leader waits for all live ranks, and a result outlives its leader. (Protocol:
 *                survivors.h; its sides: survivors_*.c.)
 *   cause.c      why a communicator failed, if ranks found different causes (a timeout, a
 *                mismatch). Any rank can begin it at any moment. It must end within 0.5 s, with a
 *                majority or, if none answers, without: a vote on one value.
 *
 * One further protocol is no consensus, because it may fail when a rank dies:
 *
 *   creation.c   the epoch of a new communicator, whose ranks are all alive and have each other's
 *                numbers: the lowest rank assigns it. (Protocol: creation.h.)
 *
 *      communicators (api/work/comm.c, api/comm/group.c)
 *           |  members; functions that send a record and fail a communicator
 *      [ agreement ]
 *           |  messages on control streams (agreement_wire.h)
 *      node (transport/)
 *
 * Not here: finding a cause (diagnosis/), and the use of the results.
 */
#ifndef RCMI_AGREEMENT_H
#define RCMI_AGREEMENT_H

#include "agreement_wire.h"
#include "clock.h"
#include "members.h"

/* ---- survivors.c */
struct rcmi_agreements;

/* One per node. revoke: the communicator of this epoch is unusable, for the reason in the thread's
 * error; origin: its rank that caused it. Loop thread. */
struct rcmi_agreements_config {
    struct rcmi_node *node;
    int rank, nranks; /* of the world */
    void *arg;
    void (*revoke)(void *arg, uint64_t epoch, int origin);
};
rcm_status rcmi_agreements_create(const struct rcmi_agreements_config *config,
                                  struct rcmi_agreements **ret_agreements);
void rcmi_agreements_free(struct rcmi_agreements *agreements);
/* One call on this rank. */
struct rcmi_agree_call {
    const struct rcmi_members *members;
    uint32_t *number; /* of the last agreement of these members in which this rank took part; 0 */
    rcmi_deadline deadline;
    const _Atomic bool *canceled; /* set, then rcmi_agree_wake: the call ends; NULL */
    const uint8_t *excluded;      /* a set of world ranks without this one; NULL: empty */
    void *arg;
    bool (*left)(void *arg, int rank); /* whether a rank of members has left them, or its process
                                        * has ended. A rank that took part in an agreement does not
                                        * leave. */
};
/* Bytes of a set of world ranks: a bit set, lowest bit of the first byte first. */
#define RCMI_RANKS_BYTES(nranks) (((size_t)(nranks) + 7) / 8)
/* Agrees on the survivors. Collective among the members that live, have not left and are not
 * excluded. ret_members: space for all; ranks of members. ret_epoch: of the new communicator.
 * RCM_ERR_CANCELED: the call of the origin was canceled. */
rcm_status rcmi_agree(struct rcmi_agreements *agreements, const struct rcmi_agree_call *call,
                      int *ret_members, int *ret_nmembers, uint64_t *ret_epoch);
/* A message of peer, a world rank. Loop thread. */
void rcmi_agree_receive(struct rcmi_agreements *agreements, int peer,
                        const struct rcmi_agree *message);
/* A link has ended, or a call was canceled. Any thread. */
void rcmi_agree_wake(struct rcmi_agreements *agreements);

/* ---- creation.c */
struct rcmi_creations;

/* One per node. revoke: the communicator of this epoch is unusable, for the reason in the thread's
 * error. Loop thread. */
struct rcmi_creations_config {
    struct rcmi_node *node;
    int rank, nranks; /* of the world */
    void *arg;
    void (*revoke)(void *arg, uint64_t epoch);
};
rcm_status rcmi_creations_create(const struct rcmi_creations_config *config,
                                 struct rcmi_creations **ret_creations);
void rcmi_creations_free(struct rcmi_creations *creations);
/* One call on this rank. */
struct rcmi_creation_call {
    const struct rcmi_members *parent;
    const int *ranks; /* of parent, each once, with this one; new rank i is ranks[i] */
    int n;
    enum rcmi_creation_kind kind;
    uint64_t tag;
    rcmi_deadline deadline;
    int64_t warn_after_ns;        /* 0: never */
    const _Atomic bool *canceled; /* set, then rcmi_creations_wake: the call ends; NULL */
    void *arg;
    bool (*failed)(void *arg);         /* whether parent has failed */
    bool (*left)(void *arg, int rank); /* whether a rank left parent, or its process ended */
};
/* Collective among the ranks: waits until all have called it with the same ranks, kind and tag.
 * Several threads may call it with different ones. RCM_ERR_ABORTED: parent has failed.
 * RCM_ERR_CANCELED: the call of the origin was canceled. */
rcm_status rcmi_creation_join(struct rcmi_creations *creations,
                              const struct rcmi_creation_call *call, uint64_t *ret_epoch);
/* The public function's name, such as "rcm_comm_subset". */
const char *rcmi_creation_function(enum rcmi_creation_kind kind);
/* Writes "ranks 0-2,5, tag 7"; a tag of 0 is omitted. */
void rcmi_creation_describe(const int *ranks, int n, uint64_t tag, char *text, size_t cap);
/* All calls check their conditions: a cancel, the parent. Any thread. */
void rcmi_creations_wake(struct rcmi_creations *creations);
/* The communicator of that epoch has ended on this rank: no other is made from it any more. */
void rcmi_creations_forget(struct rcmi_creations *creations, uint64_t parent);
/* A message of peer, a world rank; the end of its link. Loop thread. */
void rcmi_creation_receive(struct rcmi_creations *creations, int peer,
                           const struct rcmi_creation *message);
void rcmi_creation_lost(struct rcmi_creations *creations, int peer);

/* ---- cause.c; weight: enum rcmi_proposal_weight */
struct rcmi_proposals;

/* One per communicator. */
struct rcmi_proposals_config {
    const struct rcmi_members *members; /* must not change */
    void *arg;
    /* Whether the communicator has failed. */
    bool (*failed)(void *arg);
    /* Sends the record of the failure to rank; false if the communicator has not failed. */
    bool (*send_record)(void *arg, int rank);
    /* Whether rank did not answer an inquiry. */
    bool (*silent)(void *arg, int rank);
    /* The chosen cause of the failure. missing: see struct rcmi_failure. Loop thread. */
    void (*agreed)(void *arg, const struct rcm_error *error, const struct rcmi_rank_set *missing);
};
rcm_status rcmi_proposals_create(const struct rcmi_proposals_config *config,
                                 struct rcmi_proposals **ret_proposals);
void rcmi_proposals_free(struct rcmi_proposals *proposals);
/* Proposes an error, a timeout or a mismatch, as the cause of the failure. missing may be NULL. Any
 * thread. */
void rcmi_proposals_add(struct rcmi_proposals *proposals, const struct rcm_error *error,
                        const struct rcmi_rank_set *missing, int weight);
/* Whether there is a proposal: the communicator is about to fail. Any thread. */
bool rcmi_proposals_are_open(const struct rcmi_proposals *proposals);
/* Called repeatedly by the driver while there is a proposal. If the loop thread, which should vote,
 * is stuck, the driver's thread chooses alone. */
void rcmi_proposals_await(struct rcmi_proposals *proposals);
/* Loop thread. receive: a message of another rank, except a record. progress: the next step;
 * returns the time of the next call. */
void rcmi_proposals_receive(struct rcmi_proposals *proposals, int rank,
                            const struct rcmi_failure *message, const struct rcm_error *error);
rcmi_deadline rcmi_proposals_progress(struct rcmi_proposals *proposals);

#endif
