/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/agreement/: what the ranks of a communicator agree on while any of them may die. Two
 * protocols of consensus, each for one question:
 *
 *   survivors.c  which ranks are left, for rcm_comm_shrink. Run once in a while, by a blocking call
 *                on all of them; the result is a set that must be the same on every survivor for
 *                ever, so a leader hears all ranks that live, and a result survives its leader.
 *                (survivors.h has the protocol; survivors_*.c its sides.)
 *   cause.c      why a communicator failed, where ranks have found different causes (a timeout, a
 *                mismatch). Begun at any moment by any rank; it must end within half a second by a
 *                majority, or without one if there is none: a vote on one value.
 *
 * And one that is none, for it does without an answer where a rank dies:
 *
 *   creation.c   which epoch a new communicator has, of ranks that all live and know each other:
 *                the lowest of them gives it. (creation.h has the protocol.)
 *
 *      communicators (api/work/comm.c, api/comm/group.c)
 *           |  members; functions that tell and fail
 *      [ agreement ]
 *           |  messages on control streams (agreement_wire.h)
 *      node (transport/)
 *
 * Not here: finding a cause (diagnosis/), and what is done with an answer.
 */
#ifndef RCMI_AGREEMENT_H
#define RCMI_AGREEMENT_H

#include "agreement_wire.h"
#include "clock.h"
#include "members.h"

/* ---- survivors.c */
struct rcmi_agreements;

/* One per node. revoke: the communicator of this epoch is of no use, for the reason in the thread's
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
/* A call on this rank that asks who is left. */
struct rcmi_agree_call {
    const struct rcmi_members *members;
    uint32_t *number; /* of the last agreement of these members that this rank took part in; 0 */
    rcmi_deadline deadline;
    const _Atomic bool *canceled; /* the call is to end; rcmi_agree_wake after it; NULL */
    const uint8_t *excluded;      /* a set of world ranks, this one not among them; NULL: none */
    void *arg;
    bool (*left)(void *arg, int rank); /* has a rank of members left them, or its process ended? A
                                        * rank that took part in an agreement does not leave. */
};
/* Bytes of a set of world ranks: bits, from the lowest of the first byte. */
#define RCMI_RANKS_BYTES(nranks) (((size_t)(nranks) + 7) / 8)
/* Collective among the members that live, have not left and are not excluded. ret_members: room for
 * all; ranks of them. ret_epoch: of the communicator to be made. RCM_ERR_CANCELED: that of the
 * origin was canceled.
 */
rcm_status rcmi_agree(struct rcmi_agreements *agreements, const struct rcmi_agree_call *call,
                      int *ret_members, int *ret_nmembers, uint64_t *ret_epoch);
/* Loop thread: a message of peer, a world rank. */
void rcmi_agree_hear(struct rcmi_agreements *agreements, int peer, const struct rcmi_agree *said);
/* Some link has ended, or a call was canceled. Any thread. */
void rcmi_agree_wake(struct rcmi_agreements *agreements);

/* ---- creation.c */
struct rcmi_creations;

/* One per node. revoke: the communicator of this epoch is of no use, for the reason in the thread's
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
/* A call on this rank that makes a communicator. */
struct rcmi_creation_call {
    const struct rcmi_members *parent;
    const int *ranks; /* of parent, each once, this one too; a communicator's ranks 0..n-1 */
    int n;
    enum rcmi_creation_kind kind;
    uint64_t tag;
    rcmi_deadline deadline;
    int64_t warn_after_ns;        /* 0: never */
    const _Atomic bool *canceled; /* the call is to end; rcmi_creations_wake after it; NULL */
    void *arg;
    bool (*failed)(void *arg);         /* has parent failed? */
    bool (*left)(void *arg, int rank); /* has a rank left parent, or its process ended? */
};
/* Collective among the ranks: until all have called it with the same ranks, kind and tag. Several
 * threads may, with different ones. RCM_ERR_ABORTED: parent has failed. RCM_ERR_CANCELED: the call
 * that the origin had begun was canceled. */
rcm_status rcmi_creation_join(struct rcmi_creations *creations,
                              const struct rcmi_creation_call *call, uint64_t *ret_epoch);
/* "rcm_comm_subset" */
const char *rcmi_creation_function(enum rcmi_creation_kind kind);
/* "ranks 0-2,5, tag 7", without a tag that is 0 */
void rcmi_creation_describe(const int *ranks, int n, uint64_t tag, char *text, size_t cap);
/* All calls look at what is not theirs: a cancel, the parent. Any thread. */
void rcmi_creations_wake(struct rcmi_creations *creations);
/* The communicator of that epoch is over on this rank: nothing is made of it any more. */
void rcmi_creations_forget(struct rcmi_creations *creations, uint64_t parent);
/* Loop thread: a message of peer, a world rank; and that its link has ended. */
void rcmi_creation_hear(struct rcmi_creations *creations, int peer,
                        const struct rcmi_creation *said);
void rcmi_creation_lost(struct rcmi_creations *creations, int peer);

/* ---- cause.c; weight: enum rcmi_proposal_weight */
struct rcmi_proposals;

/* One per communicator. */
struct rcmi_proposals_config {
    const struct rcmi_members *members; /* stay as they are */
    void *arg;
    /* Has the communicator failed? */
    bool (*failed)(void *arg);
    /* If so, sends rank the record of it; else false. */
    bool (*tell)(void *arg, int rank);
    /* rank was asked what it waits for, and did not answer. */
    bool (*silent)(void *arg, int rank);
    /* This is why it fails; missing: see struct rcmi_failure. Loop thread. */
    void (*agreed)(void *arg, const struct rcm_error *error, const struct rcmi_rank_set *missing);
};
rcm_status rcmi_proposals_create(const struct rcmi_proposals_config *config,
                                 struct rcmi_proposals **ret_proposals);
void rcmi_proposals_free(struct rcmi_proposals *proposals);
/* The error, a timeout or a mismatch, is proposed to be why the communicator fails; missing may be
 * NULL. Any thread. */
void rcmi_proposals_add(struct rcmi_proposals *proposals, const struct rcm_error *error,
                        const struct rcmi_rank_set *missing, int weight);
/* Whether something was proposed: the communicator is about to fail. Any thread. */
bool rcmi_proposals_are_open(const struct rcmi_proposals *proposals);
/* Driver, again and again while something is proposed: chooses for itself where the loop thread,
 * which is to vote, is stuck. */
void rcmi_proposals_await(struct rcmi_proposals *proposals);
/* Loop thread: a message of another rank, which is no record; the next step, returns when to come
 * again. */
void rcmi_proposals_hear(struct rcmi_proposals *proposals, int rank,
                         const struct rcmi_failure *said, const struct rcm_error *error);
rcmi_deadline rcmi_proposals_progress(struct rcmi_proposals *proposals);

#endif
