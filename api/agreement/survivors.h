/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the agreement on survivors: which ranks of a communicator are left. An agreement among its
 * ranks while any of them may die, over the control streams alone. It answers with a set of ranks,
 * or with an error that is the same for all.
 *
 * Source: agreement led by the lowest rank that lives, on top of a detector of crashes, the
 * simplest of the family to which the early-returning agreement of ULFM belongs (Herault et al.,
 * "Practical Scalable Consensus for Pseudo-Synchronous Distributed Systems", SC15). Theirs runs
 * along a tree; this one is a star, because a shrunk communicator pays for its new links anyway.
 *
 *   caller                        coordinator: the lowest rank whose link has not ended
 *             <-- CALL            to those that have not joined, so that a link is made
 *   JOIN(gone) -->                ranks that the caller has lost, and how long it will wait
 *             <-- DECISION(set)   when all that are not gone have joined; to all, also to
 *                                 those that it leaves out
 *   JOIN(gone) -->                to the next rank, if the coordinator is gone
 *
 * The members are the ranks that joined and that no other member has lost: the coordinator leaves
 * out those that are lost for most, then goes through the rest in order and leaves out each that
 * does not fit. A rank that a joined one has lost is most likely dead, also if it has joined, and
 * the coordinator will notice too: it waits SUSPECT_NS for that, and no longer. A rank that is
 * waited for until the first of the deadlines of those that joined makes the decision an error that
 * names it. A coordinator that does not answer is named by each caller itself, a little after its
 * own deadline (GRACE_NS), with LEAVE as the caller's last message.
 *
 * A call may exclude ranks, whatever they do. For it they are as if they were lost, but all members
 * get its CALL, and they the decision. What a rank excludes is in each JOIN and CALL. A coordinator
 * that finds another list at one that it does not exclude makes the decision an error with both
 * lists (RCM_ERR_MISMATCH). It takes no decision from one that it excludes. A coordinator needs the
 * JOIN of each member that its list leaves, with that list, so two decisions of one agreement are
 * only those of groups that exclude each other.
 *
 * A caller that is canceled sends CANCEL to its coordinator, which makes the decision an error that
 * names it, and to every later one that calls it. It waits a moment for the decision (ANSWER_NS).
 * So the n-th call of each rank is of one agreement, also where others are ahead by a cancel.
 *
 * Why every survivor gets the same answer when coordinators die in the middle:
 *   - A rank joins c only when the links to all ranks below c have ended for it. The end of a link
 *     is final and comes after everything that arrived, so from then on no lower rank can give it
 *     a decision; and it takes decisions from no rank but its coordinator. A coordinator takes
 *     them from any rank.
 *   - A rank that has a decision answers every JOIN and CALL with it, from the loop thread, for as
 *     long as the engine lives, whatever became of the call and of the communicators.
 *   - So let p have got a decision from a coordinator that died, and c be a later coordinator. c
 *     decides only after every rank whose link has not ended answered, so after p did. Either p
 *     had the decision by then, and sends it, and c gives it again; or p had joined c, and then it
 *     cannot have got the decision afterwards. By induction there is one decision among survivors.
 *     It may include a rank that died meanwhile: then the new communicator fails and is shrunk.
 *   - A rank that died may have known another decision. It had another epoch, so what it sent is
 *     dropped.
 *
 * A rank that has left the communicator (rcm_leave) is like one whose link has ended: it took part
 * in no agreement before, for the first thing that does is to fail the communicator, which cannot
 * be left then; and it takes part in none. It has no decision, and is no other side either.
 *
 * A link can end although both processes live. A rank that can still reach a rank of the other
 * side waits for its coordinator and is told that it is out. Where no rank reaches the other side,
 * a coordinator that has lost as many ranks as it keeps, or more, looks whether their processes are
 * there (rcmi_node_probe): the larger side goes on, of equal ones that with the lowest rank. What
 * cannot be probed (a host that does not answer) counts as dead.
 *
 *   survivors.c        the call, on the thread of the caller
 *        |-- survivors_lead.c    what a coordinator decides
 *   survivors_hear.c   messages of other ranks, on the loop thread
 *        '-- survivors_state.c   agreements, what all of the above send, and what is final
 *
 * Ranks are world ranks here. Only these files include this header; for the rest there is
 * agreement.h. Not here: what is done with the answer, see api/comm/group.c.
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
    uint8_t *gone; /* the sets of its JOIN, or CALL: what is gone, and excluded behind it; NULL */
};

struct rcmi_agreement {
    struct rcmi_agreement *next;
    uint64_t epoch;
    uint32_t number;
    struct rcmi_agree_answer *answers;  /* by rank; NULL once decided */
    struct rcmi_agree *decision;        /* NULL: not yet; rcmi_agree_bytes of it */
    const struct rcmi_agree_call *call; /* while a thread is in rcmi_agree */
    bool called, quit;                  /* this rank took part, and gave up */
    bool canceled;                      /* this rank's call was */
    int told;                           /* the coordinator joined last, -1 */
    rcmi_deadline suspect_until;        /* 0: no joined one has lost a rank that is not lost here */
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

/* ---- survivors_state.c; under the lock, which sending does not mind */

struct rcmi_agreement *rcmi_agreement_find(struct rcmi_agreements *all, uint64_t epoch,
                                           uint32_t number);
/* Makes it if there is none. NULL: no memory. */
struct rcmi_agreement *rcmi_agreement_get(struct rcmi_agreements *all, uint64_t epoch,
                                          uint32_t number);
void rcmi_agree_fill(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                     enum rcmi_agree_kind kind, struct rcmi_agree *message);
/* A rank that nothing can be sent to is gone, which will be noticed. */
void rcmi_agree_send(const struct rcmi_agreements *all, int peer, const struct rcmi_agree *message);
void rcmi_agree_say(const struct rcmi_agreements *all, const struct rcmi_agreement *a, int peer,
                    enum rcmi_agree_kind kind);
bool rcmi_agree_lost(const struct rcmi_agreements *all, int peer);
/* Does this rank's call exclude that world rank? False: no call is in progress. */
bool rcmi_agree_excludes(const struct rcmi_agreement *a, int world);
/* Will the rank of the members take no part, because it is lost, has left or is excluded? The call
 * is in progress, as below. */
bool rcmi_agree_absent(const struct rcmi_agreements *all, const struct rcmi_agreement *a, int rank);
/* The lowest rank that is not absent. */
int rcmi_agree_coordinator(const struct rcmi_agreements *all, const struct rcmi_agreement *a);
/* Takes a decision for good, and tells every rank here that waits for it. from: the rank that gave
 * it. */
void rcmi_agree_settle(struct rcmi_agreements *all, struct rcmi_agreement *a,
                       const struct rcmi_agree *decision, int from);
/* The epoch of the communicator to be made: different for every agreement and every set. */
uint64_t rcmi_agree_child_epoch(const struct rcmi_agree *decision);

/* ---- survivors_lead.c; under the lock */
/* This rank is the coordinator: decides if that is due. */
void rcmi_agree_lead(struct rcmi_agreements *all, struct rcmi_agreement *a);
void rcmi_agree_lead_error(struct rcmi_agreements *all, struct rcmi_agreement *a, rcm_status status,
                           int origin);

#endif
