/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What other ranks say in an agreement on survivors, on the loop thread: joins and calls, which a
 * decision answers for ever, and decisions, which this rank may take or not. See survivors.h, with
 * the proof.
 */
#include "survivors.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX 64 /* agreements that others have begun and this rank not */

/* May this rank take the decision? See survivors.h. */
static bool hear_may_take(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                          int peer, const struct rcmi_agree *said) {
    const int self = all->config.rank;
    if (rcmi_agree_excludes(a, peer))
        return false;
    if (said->status == RCM_OK && !rcmi_set_has(said->set, self))
        return true; /* for the rest of them this rank is gone */
    if (!a->call)    /* not joined, so it is no set with this rank in it */
        return a->quit || said->status != RCM_OK;
    const int coordinator = rcmi_agree_coordinator(all, a);
    return coordinator == self || coordinator == peer;
}

static int members_index(const uint8_t *set, int rank) {
    int index = 0;
    for (int r = 0; r < rank; r++)
        index += rcmi_set_has(set, r);
    return index;
}

static void hear_decision(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                          const struct rcmi_agree *said) {
    if (a->decision || !hear_may_take(all, a, peer, said))
        return;
    if (a->quit && said->status == RCM_OK && rcmi_set_has(said->set, all->config.rank)) {
        /* The others count on this rank, and its caller has been told that it failed. */
        const int origin = members_index(said->set, all->config.rank);
        rcmi_fail_origin(a->canceled ? RCM_ERR_CANCELED : RCM_ERR_TIMEOUT, origin,
                         "rank %d had %s rcm_comm_shrink when the others agreed", origin,
                         a->canceled ? "canceled" : "given up");
        all->config.revoke(all->config.arg, rcmi_agree_child_epoch(said), origin);
    }
    if (said->status == RCM_OK && !rcmi_set_has(said->set, all->config.rank) && said->by >= 0)
        rcmi_log(RCMI_LOG_WARN, "rank %d and others made a communicator without this rank by %s",
                 said->by, "rcm_comm_shrink");
    rcmi_agree_settle(all, a, said, peer);
}

/* Both sets. False: no memory. */
static bool hear_sets(struct rcmi_agree_answer *answer, int peer, const struct rcmi_agree *said) {
    const size_t bytes = 2 * RCMI_RANKS_BYTES(said->nranks);
    if (!answer->gone)
        answer->gone = malloc(bytes);
    if (!answer->gone) {
        rcmi_log(RCMI_LOG_ERROR, "no memory for what rank %d says", peer);
        return false;
    }
    memcpy(answer->gone, said->set, bytes);
    return true;
}

static void hear_join(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                      const struct rcmi_agree *said) {
    struct rcmi_agree_answer *answer = &a->answers[peer];
    if (!hear_sets(answer, peer, said))
        return;
    answer->deadline = rcmi_deadline_in(said->left_ms);
    answer->joined = true;
    pthread_cond_broadcast(&all->changed);
}

/* Agreements that this rank has no part in yet. */
static bool hear_is_too_much(const struct rcmi_agreements *all) {
    int n = 0;
    for (const struct rcmi_agreement *a = all->head; a; a = a->next)
        n += !a->called && !a->decision;
    return n >= OPEN_MAX;
}

/* A coordinator that does not know of the cancel, as the one before it did. */
static void hear_call(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                      const struct rcmi_agree *said) {
    if (!a->answers[peer].gone && !hear_sets(&a->answers[peer], peer, said))
        return;
    a->answers[peer].called = true;
    pthread_cond_broadcast(&all->changed);
    if (a->canceled && !a->call)
        rcmi_agree_say(all, a, peer, RCMI_AGREE_CANCEL);
}

static void hear_no_more(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                         bool canceled) {
    a->answers[peer].joined = false;
    a->answers[peer].called = a->answers[peer].called || canceled; /* it waits for the decision */
    a->answers[peer].canceled = canceled;
    pthread_cond_broadcast(&all->changed);
}

static void hear(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                 const struct rcmi_agree *said) {
    if (said->kind == RCMI_AGREE_DECISION)
        hear_decision(all, a, peer, said);
    else if (a->decision && said->kind != RCMI_AGREE_LEAVE)
        rcmi_agree_send(all, peer, a->decision);
    else if (a->decision)
        return;
    else if (said->kind == RCMI_AGREE_JOIN)
        hear_join(all, a, peer, said);
    else if (said->kind == RCMI_AGREE_CALL)
        hear_call(all, a, peer, said);
    else
        hear_no_more(all, a, peer, said->kind == RCMI_AGREE_CANCEL);
}

void rcmi_agree_hear(struct rcmi_agreements *all, int peer, const struct rcmi_agree *said) {
    if (said->nranks != (uint32_t)all->config.nranks) {
        rcmi_log(RCMI_LOG_WARN, "rank %d agrees about a world of %u ranks, not %d", peer,
                 said->nranks, all->config.nranks);
        return;
    }
    pthread_mutex_lock(&all->lock);
    struct rcmi_agreement *a = rcmi_agreement_find(all, said->epoch, said->number);
    if (!a && !hear_is_too_much(all))
        a = rcmi_agreement_get(all, said->epoch, said->number);
    if (a)
        hear(all, a, peer, said);
    else
        rcmi_log(RCMI_LOG_WARN, "what rank %d sent for an agreement is dropped", peer);
    pthread_mutex_unlock(&all->lock);
}

void rcmi_agree_wake(struct rcmi_agreements *all) {
    pthread_mutex_lock(&all->lock);
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}
