/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the agreement on survivors: the ranks of a communicator agree on which of them are left
 * while any of them may die, over the control streams only. A decision is a set of ranks, or an
 * error that is the same on all. A caller that gets no decision fails with an error of its own.
 *
 * Source: agreement led by the lowest live rank, on top of a crash detector. It is the simplest
 * member of the family of the early-returning agreement of ULFM (Herault et al., "Practical
 * Scalable Consensus for Pseudo-Synchronous Distributed Systems", SC15). That agreement runs along
 * a tree. This one is a star, because a shrunk communicator pays for its new links anyway.
 *
 *   caller                        coordinator: the lowest rank whose link has not ended
 *             <-- CALL            to those that have not joined, so that a link is made
 *   JOIN(gone) -->                ranks that the caller has lost, and its remaining time
 *             <-- DECISION(set)   when all that are not gone have joined; to all, also to
 *                                 those that it leaves out
 *   JOIN(gone) -->                to the next rank, if the coordinator is gone
 *
 * The members are ranks that have joined, none of which has lost another member. (A rank has lost a
 * peer when its link to the peer has ended without a farewell.) The coordinator first leaves out
 * each rank that the majority has lost. Then it goes through the other ranks in ascending order,
 * and leaves out each one that has lost, or is lost by, a member so far. A rank that a joined rank
 * has lost is most likely dead, even if it has joined, and the coordinator will detect this too. It
 * waits SUSPECT_NS for that, and no longer. If a rank is still missing at the first deadline of
 * those that joined, the decision is an error that names it. If the coordinator does not answer,
 * each caller fails GRACE_NS after its deadline with an error that names the coordinator, and sends
 * LEAVE: it does not wait any more.
 *
 * Exclusion. A call may exclude ranks, whatever they do. The call treats them as lost, but they get
 * the CALL of all members, and the decision. Each JOIN and CALL contains the excluded ranks of its
 * sender. If a rank that the coordinator does not exclude has a different list, the decision is an
 * error with both lists (RCM_ERR_MISMATCH). A caller ignores decisions of ranks that it excludes. A
 * coordinator decides only with a JOIN, with the same list, of each rank that it does not exclude.
 * So two decisions of one agreement can only come from groups that exclude each other.
 *
 * Cancel. A canceled caller sends CANCEL to its coordinator, and to every later one that calls it.
 * The coordinator's decision is then an error that names the caller. The caller waits ANSWER_NS for
 * the decision. A canceled call counts: the n-th calls of all ranks belong to one agreement.
 *
 * Why every survivor gets the same answer when coordinators die in the middle:
 *   - A rank joins c only when its links to all ranks below c have ended. The end of a link is
 *     final and comes after everything that arrived. So from then on no lower rank can send it a
 *     decision. A rank accepts decisions only from its coordinator. A coordinator accepts them from
 *     any rank.
 *   - A rank that has a decision answers every JOIN and CALL with it, from the loop thread, as long
 *     as the engine lives, whatever became of the call and of the communicators.
 *   - Let p have got a decision from a coordinator that died, and let c be a later coordinator. c
 *     decides only after every rank whose link has not ended has answered, so after p has. Case 1:
 *     p had the decision by then. p sends it, and c passes it on. Case 2: p had joined c. Then p
 *     gets no decision of a lower rank any more, by the first rule. By induction there is one
 *     decision among survivors. It may include a rank that died meanwhile: then the new
 *     communicator fails and is shrunk.
 *   - A rank that died may have had another decision. Its epoch was different, so its messages are
 *     dropped.
 *
 * A rank that has left the communicator (rcm_leave) counts like one whose link has ended. It took
 * part in no earlier agreement, because an agreement first fails the communicator, which then
 * cannot be left. It takes part in no later one. It has no decision, and does not count as a rank
 * of another side of a partition (below).
 *
 * Partition. A link can end although both processes live. A rank that can still reach a rank of the
 * other side waits for that side's coordinator, whose decision leaves it out. If no rank reaches
 * the other side, a coordinator that has lost as many ranks as it keeps, or more, probes their
 * processes (rcmi_node_probe). The larger side continues; of equal sides, the one with the lowest
 * rank. A process that cannot be probed (a host that does not answer) counts as dead.
 *
 *   survivors.c        the call, on the thread of the caller
 *        |-- survivors_lead.c      decisions of a coordinator
 *   survivors_receive.c  messages of other ranks, on the loop thread
 *        '-- survivors_state.c     agreements, sending for all of the above, and final decisions
 *
 * Ranks are world ranks here. Only these files include this header; other code uses agreement.h.
 * Not here: the use of the answer, see api/comm/group.c.
 */
#ifndef RCMI_SURVIVORS_H
#define RCMI_SURVIVORS_H

#include <pthread.h>
#include <stdbool.h>
#include "agreement.h"

/* What another rank sent. */
struct rcmi_agree_answer {
    bool summoned; /* a CALL was sent to it */
    bool called, joined, canceled;
    rcmi_deadline deadline;
    uint8_t *gone; /* the sets of its JOIN or CALL: lost ranks, then excluded ones; NULL */
};

struct rcmi_agreement {
    struct rcmi_agreement *next;
    uint64_t epoch;
    uint32_t number;
    struct rcmi_agree_answer *answers;  /* by rank; NULL once decided */
    struct rcmi_agree *decision;        /* NULL: not yet; rcmi_agree_bytes of it */
    const struct rcmi_agree_call *call; /* while a thread is in rcmi_agree */
    bool called, quit;                  /* this rank took part, and has given up */
    bool canceled;                      /* this rank's call was canceled */
    int last_coordinator;               /* the last one this rank sent to, -1 */
    rcmi_deadline suspect_until;        /* 0: all ranks lost to joined ones are lost here */
};

struct rcmi_agreements {
    struct rcmi_agreements_config config;
    pthread_mutex_t lock; /* guards all below; never held while a callback may run */
    pthread_cond_t changed;
    struct rcmi_agreement *head;
};

/* ---- Sets of ranks: bits */

static inline bool rcmi_set_has(const uint8_t *set, int rank) {
    return set[rank / 8] >> rank % 8 & 1;
}

static inline void rcmi_set_add(uint8_t *set, int rank) {
    set[rank / 8] = (uint8_t)(set[rank / 8] | 1u << rank % 8);
}

static inline int rcmi_set_lowest(const uint8_t *set, int nranks) {
    for (int r = 0; r < nranks; r++)
        if (rcmi_set_has(set, r))
            return r;
    return nranks;
}

static inline int rcmi_set_count(const uint8_t *set, int nranks) {
    int n = 0;
    for (int r = 0; r < nranks; r++)
        n += rcmi_set_has(set, r);
    return n;
}

/* ---- survivors_state.c; under the lock, which may be held while sending */

struct rcmi_agreement *rcmi_agreement_find(struct rcmi_agreements *all, uint64_t epoch,
                                           uint32_t number);
/* Makes it if it does not exist. NULL: no memory. */
struct rcmi_agreement *rcmi_agreement_get(struct rcmi_agreements *all, uint64_t epoch,
                                          uint32_t number);
void rcmi_agree_fill(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                     enum rcmi_agree_kind kind, struct rcmi_agree *message);
/* If nothing can be sent to a rank, it is gone, which is detected elsewhere. */
void rcmi_agree_send(const struct rcmi_agreements *all, int peer, const struct rcmi_agree *message);
void rcmi_agree_send_kind(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                          int peer, enum rcmi_agree_kind kind);
bool rcmi_agree_lost(const struct rcmi_agreements *all, int peer);
/* Whether this rank's call excludes that world rank. False: no call is in progress. */
bool rcmi_agree_excludes(const struct rcmi_agreement *a, int world);
/* Whether the rank of the members takes no part, because it is lost, has left or is excluded. The
 * call must be in progress, as below. */
bool rcmi_agree_absent(const struct rcmi_agreements *all, const struct rcmi_agreement *a, int rank);
/* The lowest rank that is not absent. */
int rcmi_agree_coordinator(const struct rcmi_agreements *all, const struct rcmi_agreement *a);
/* Stores a decision for good, and sends it to every rank that waits for it here. from: the rank
 * that it came from. */
void rcmi_agree_settle(struct rcmi_agreements *all, struct rcmi_agreement *a,
                       const struct rcmi_agree *decision, int from);
/* The epoch of the new communicator: different for every agreement and every set. */
uint64_t rcmi_agree_child_epoch(const struct rcmi_agree *decision);

/* ---- survivors_lead.c; under the lock */
/* This rank is the coordinator: decides if it is time. */
void rcmi_agree_lead(struct rcmi_agreements *all, struct rcmi_agreement *a);
void rcmi_agree_lead_error(struct rcmi_agreements *all, struct rcmi_agreement *a, rcm_status status,
                           int origin);

#endif
