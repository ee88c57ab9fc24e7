/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of other ranks in an agreement on survivors, on the loop thread. Joins and calls are
 * answered with the decision, once there is one. Received decisions are accepted or not. See
 * survivors.h for the proof.
 */
#include "survivors.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX 64 /* agreements that others have begun and this rank has not */

/* Whether this rank may accept the decision. See survivors.h. */
static bool receive_may_take(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                             int peer, const struct rcmi_agree *message) {
    const int self = all->config.rank;
    if (rcmi_agree_excludes(a, peer))
        return false;
    if (message->status == RCM_OK && !rcmi_set_has(message->set, self))
        return true; /* the others consider this rank gone */
    if (!a->call)    /* not joined, so no set can contain this rank */
        return a->quit || message->status != RCM_OK;
    const int coordinator = rcmi_agree_coordinator(all, a);
    return coordinator == self || coordinator == peer;
}

static int members_index(const uint8_t *set, int rank) {
    int index = 0;
    for (int r = 0; r < rank; r++)
        index += rcmi_set_has(set, r);
    return index;
}

static void receive_decision(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                             const struct rcmi_agree *message) {
    if (a->decision || !receive_may_take(all, a, peer, message))
        return;
    if (a->quit && message->status == RCM_OK && rcmi_set_has(message->set, all->config.rank)) {
        /* The others count on this rank, but its caller has already got an error. */
        const int origin = members_index(message->set, all->config.rank);
        rcmi_fail_origin(a->canceled ? RCM_ERR_CANCELED : RCM_ERR_TIMEOUT, origin,
                         "rank %d had %s rcm_comm_shrink when the others agreed", origin,
                         a->canceled ? "canceled" : "given up");
        all->config.revoke(all->config.arg, rcmi_agree_child_epoch(message), origin);
    }
    if (message->status == RCM_OK && !rcmi_set_has(message->set, all->config.rank) &&
        message->by >= 0)
        rcmi_log(RCMI_LOG_WARN, "rank %d and others made a communicator without this rank by %s",
                 message->by, "rcm_comm_shrink");
    rcmi_agree_settle(all, a, message, peer);
}

/* Stores both sets. False: no memory. */
static bool receive_sets(struct rcmi_agree_answer *answer, int peer,
                         const struct rcmi_agree *message) {
    const size_t bytes = 2 * RCMI_RANKS_BYTES(message->nranks);
    if (!answer->gone)
        answer->gone = malloc(bytes);
    if (!answer->gone) {
        rcmi_log(RCMI_LOG_ERROR, "an agreement message of rank %d is dropped: no memory", peer);
        return false;
    }
    memcpy(answer->gone, message->set, bytes);
    return true;
}

static void receive_join(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                         const struct rcmi_agree *message) {
    struct rcmi_agree_answer *answer = &a->answers[peer];
    if (!receive_sets(answer, peer, message))
        return;
    answer->deadline = rcmi_deadline_in(message->left_ms);
    answer->joined = true;
    pthread_cond_broadcast(&all->changed);
}

/* Whether there are too many agreements in which this rank takes no part yet. */
static bool receive_is_too_much(const struct rcmi_agreements *all) {
    int n = 0;
    for (const struct rcmi_agreement *a = all->head; a; a = a->next)
        n += !a->called && !a->decision;
    return n >= OPEN_MAX;
}

/* A coordinator may not have got the cancel that an earlier one got. */
static void receive_call(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                         const struct rcmi_agree *message) {
    if (!a->answers[peer].gone && !receive_sets(&a->answers[peer], peer, message))
        return;
    a->answers[peer].called = true;
    pthread_cond_broadcast(&all->changed);
    if (a->canceled && !a->call)
        rcmi_agree_send_kind(all, a, peer, RCMI_AGREE_CANCEL);
}

static void receive_no_more(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                            bool canceled) {
    a->answers[peer].joined = false;
    a->answers[peer].called = a->answers[peer].called || canceled; /* it waits for the decision */
    a->answers[peer].canceled = canceled;
    pthread_cond_broadcast(&all->changed);
}

static void receive(struct rcmi_agreements *all, struct rcmi_agreement *a, int peer,
                    const struct rcmi_agree *message) {
    if (message->kind == RCMI_AGREE_DECISION)
        receive_decision(all, a, peer, message);
    else if (a->decision && message->kind != RCMI_AGREE_LEAVE)
        rcmi_agree_send(all, peer, a->decision);
    else if (a->decision)
        return;
    else if (message->kind == RCMI_AGREE_JOIN)
        receive_join(all, a, peer, message);
    else if (message->kind == RCMI_AGREE_CALL)
        receive_call(all, a, peer, message);
    else
        receive_no_more(all, a, peer, message->kind == RCMI_AGREE_CANCEL);
}

void rcmi_agree_receive(struct rcmi_agreements *all, int peer, const struct rcmi_agree *message) {
    if (message->nranks != (uint32_t)all->config.nranks) {
        rcmi_log(RCMI_LOG_WARN,
                 "an agreement message of rank %d is dropped: its world has %u ranks, not %d", peer,
                 message->nranks, all->config.nranks);
        return;
    }
    pthread_mutex_lock(&all->lock);
    struct rcmi_agreement *a = rcmi_agreement_find(all, message->epoch, message->number);
    if (!a && !receive_is_too_much(all))
        a = rcmi_agreement_get(all, message->epoch, message->number);
    if (a)
        receive(all, a, peer, message);
    else
        rcmi_log(RCMI_LOG_WARN,
                 "an agreement message of rank %d is dropped: no memory, or too many agreements",
                 peer);
    pthread_mutex_unlock(&all->lock);
}

void rcmi_agree_wake(struct rcmi_agreements *all) {
    pthread_mutex_lock(&all->lock);
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}
