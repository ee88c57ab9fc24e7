/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call of an agreement on survivors: a rank joins its coordinator, or leads, until there is a
 * decision. See survivors.h for the protocol and its proof.
 */
#include "survivors.h"
#include <stdio.h>
#include <stdlib.h>
#include "thread.h"

#define SET_TEXT  120
#define LOOK_NS   (INT64_C(20) * 1000000) /* interval of polls of what does not wake this thread */
#define GRACE_NS  (INT64_C(1000) * 1000000) /* wait for the coordinator's decision */
#define ANSWER_NS (INT64_C(500) * 1000000)  /* the same, after a cancel */

static void agree_join(const struct rcmi_agreements *all, struct rcmi_agreement *a,
                       int coordinator) {
    struct rcmi_agree message;
    rcmi_agree_fill(all, a, RCMI_AGREE_JOIN, &message);
    message.left_ms =
        a->call->deadline == RCMI_NEVER ? -1 : rcmi_deadline_left_ms(a->call->deadline);
    for (int r = 0; r < a->call->members->size; r++)
        if (rcmi_agree_lost(all, a->call->members->world_rank[r]))
            rcmi_set_add(message.set, a->call->members->world_rank[r]);
    a->last_coordinator = coordinator;
    rcmi_agree_send(all, coordinator, &message);
}

static void agree_sleep(struct rcmi_agreements *all, const struct rcmi_agreement *a) {
    int64_t until = rcmi_now_ns() + LOOK_NS;
    if (a->call->deadline > rcmi_now_ns() && a->call->deadline < until)
        until = a->call->deadline;
    (void)rcmi_condition_wait(&all->changed, &all->lock, until);
}

/* A rank that has joined a later agreement, and so has given this one up; -1. */
static int agree_straggler(const struct rcmi_agreements *all, const struct rcmi_agreement *a) {
    for (const struct rcmi_agreement *b = all->head; b; b = b->next)
        for (int r = 0;
             b->epoch == a->epoch && b->number > a->number && b->answers && r < all->config.nranks;
             r++)
            if (b->answers[r].joined && !a->answers[r].canceled)
                return r;
    return -1;
}

/* Whether a rank has canceled its call. Then the others are ahead only because of the cancel. */
static bool agree_was_canceled(const struct rcmi_agreements *all, const struct rcmi_agreement *a) {
    if (a && a->decision)
        return a->decision->status == RCM_ERR_CANCELED;
    for (int r = 0; a && r < all->config.nranks; r++)
        if (a->answers[r].canceled)
            return true;
    return false;
}

static bool agree_is_canceled(const struct rcmi_agreement *a) {
    /* Relaxed: polled. */
    return a->call->canceled && atomic_load_explicit(a->call->canceled, memory_order_relaxed);
}

static void agree_cancel(struct rcmi_agreements *all, struct rcmi_agreement *a, int coordinator) {
    if (coordinator == all->config.rank)
        rcmi_agree_lead_error(all, a, RCM_ERR_CANCELED, all->config.rank);
    else if (!a->canceled || coordinator != a->last_coordinator)
        rcmi_agree_send_kind(all, a, coordinator, RCMI_AGREE_CANCEL);
    a->last_coordinator = coordinator;
    a->canceled = true;
}

/* When the wait for the coordinator's decision ends. */
static rcmi_deadline agree_patience(const struct rcmi_agreement *a, rcmi_deadline *canceled_until) {
    if (a->canceled && *canceled_until == RCMI_NEVER)
        *canceled_until = rcmi_now_ns() + ANSWER_NS;
    const rcmi_deadline late =
        a->call->deadline == RCMI_NEVER ? RCMI_NEVER : a->call->deadline + GRACE_NS;
    return *canceled_until < late ? *canceled_until : late;
}

/* Waits until there is a decision; false if the coordinator does not answer. *ret_again: this
 * agreement has failed, and the next one is under way. */
static bool agree_take_part(struct rcmi_agreements *all, struct rcmi_agreement *a, int *ret_silent,
                            bool *ret_again) {
    rcmi_deadline canceled_until = RCMI_NEVER;
    *ret_again = false;
    while (!a->decision) {
        const int coordinator = rcmi_agree_coordinator(all, a);
        const int straggler = agree_straggler(all, a);
        if (agree_is_canceled(a)) {
            agree_cancel(all, a, coordinator);
        } else if (coordinator == all->config.rank && straggler >= 0) {
            rcmi_agree_lead_error(all, a, RCM_ERR_TIMEOUT, straggler);
            *ret_again = a->decision != NULL;
        } else if (coordinator == all->config.rank)
            rcmi_agree_lead(all, a);
        else if (coordinator != a->last_coordinator)
            agree_join(all, a, coordinator);
        if (a->decision)
            break;
        if (coordinator != all->config.rank &&
            rcmi_deadline_passed(agree_patience(a, &canceled_until))) {
            if (!a->canceled)
                rcmi_agree_send_kind(all, a, coordinator, RCMI_AGREE_LEAVE);
            a->quit = true;
            *ret_silent = coordinator;
            return false;
        }
        agree_sleep(all, a);
    }
    return true;
}

/* The agreement to which this call belongs: this rank's next one, or a later one that others have
 * begun. Or an earlier one that left this rank out, because that is final. */
static struct rcmi_agreement *agree_begin(struct rcmi_agreements *all,
                                          const struct rcmi_members *members, uint32_t *last) {
    uint32_t number = *last + 1;
    const bool canceled = agree_was_canceled(all, rcmi_agreement_find(all, members->epoch, number));
    for (struct rcmi_agreement *a = all->head; a; a = a->next) {
        if (a->epoch != members->epoch)
            continue;
        if (a->decision && a->decision->status == RCM_OK &&
            !rcmi_set_has(a->decision->set, all->config.rank))
            return a;
        if (a->number > number && !canceled)
            number = a->number;
    }
    *last = number;
    return rcmi_agreement_get(all, members->epoch, number);
}

static rcm_status agree_fail(const struct rcmi_members *members, rcm_status status, int world) {
    char who[RCMI_WHO_TEXT];
    const int rank = rcmi_members_rank(members, world);
    if (rank < 0)
        return rcmi_fail(status, 0, "the ranks did not agree on the survivors");
    rcmi_members_describe(members, rank, who);
    if (status == RCM_ERR_CANCELED)
        return rcmi_fail_origin(status, rank, "%s canceled rcm_comm_shrink", who);
    if (status == RCM_ERR_PEER)
        return rcmi_fail_origin(
            status, rank,
            "%s is alive, but cannot be reached; its side has more ranks, or the "
            "lowest, and continues without this one",
            who);
    if (rank == members->rank)
        return rcmi_fail_origin(status, rank,
                                "this rank had not called rcm_comm_shrink when the others' "
                                "deadline passed");
    return rcmi_fail_origin(status, rank, "%s has not called rcm_comm_shrink within the deadline",
                            who);
}

/* Writes "ranks 1,3" of the world, or "no rank". */
static const char *set_describe(const struct rcmi_agreements *all, const uint8_t *set,
                                char text[SET_TEXT]) {
    int *ranks = calloc((size_t)all->config.nranks, sizeof(*ranks));
    int n = 0;
    for (int r = 0; ranks && r < all->config.nranks; r++)
        if (rcmi_set_has(set, r))
            ranks[n++] = r;
    if (n > 0)
        rcmi_creation_describe(ranks, n, 0, text, SET_TEXT);
    else
        snprintf(text, SET_TEXT, "%s", ranks ? "no rank" : "some ranks");
    free(ranks);
    return text;
}

/* The lists of excluded ranks differ. */
static rcm_status agree_fail_lists(const struct rcmi_agreements *all,
                                   const struct rcmi_members *members,
                                   struct rcmi_agree *decision) {
    char who[RCMI_WHO_TEXT], theirs[SET_TEXT], by[SET_TEXT];
    const int rank = rcmi_members_rank(members, decision->origin);
    const int leader = rcmi_members_rank(members, decision->by);
    if (rank < 0 || leader < 0)
        return rcmi_fail(RCM_ERR_MISMATCH, 0, "rcm_comm_shrink excludes different ranks");
    return rcmi_fail_origin(
        RCM_ERR_MISMATCH, rank,
        "rcm_comm_shrink_excluding: %s excludes %s of the world, but rank %d excludes %s. Give the "
        "same ranks everywhere",
        rcmi_members_describe(members, rank, who), set_describe(all, decision->set, theirs), leader,
        set_describe(all, rcmi_agree_excluded(decision), by));
}

/* The others continue without this rank. */
static rcm_status agree_fail_out(const struct rcmi_agreements *all,
                                 const struct rcmi_members *members, struct rcmi_agree *decision) {
    char who[RCMI_WHO_TEXT];
    const int leader = rcmi_members_rank(members, decision->by);
    if (leader >= 0 && rcmi_set_has(rcmi_agree_excluded(decision), all->config.rank))
        return rcmi_fail_origin(RCM_ERR_PEER, leader,
                                "%s excluded this rank (rank %d) by rcm_comm_shrink_excluding, and "
                                "continued without it",
                                rcmi_members_describe(members, leader, who), members->rank);
    return rcmi_fail(RCM_ERR_PEER, 0,
                     "the other ranks consider this one (rank %d) lost and continued without it",
                     members->rank);
}

static rcm_status agree_read(const struct rcmi_agreements *all, const struct rcmi_members *members,
                             struct rcmi_agree *decision, int *ret_members, int *ret_nmembers,
                             uint64_t *ret_epoch) {
    int n = 0;
    if (decision->status == RCM_ERR_MISMATCH)
        return agree_fail_lists(all, members, decision);
    if (decision->status != RCM_OK)
        return agree_fail(members, (rcm_status)decision->status, decision->origin);
    if (!rcmi_set_has(decision->set, all->config.rank))
        return agree_fail_out(all, members, decision);
    for (int r = 0; r < members->size; r++)
        if (rcmi_set_has(decision->set, members->world_rank[r]))
            ret_members[n++] = r;
    *ret_nmembers = n;
    *ret_epoch = rcmi_agree_child_epoch(decision);
    return RCM_OK;
}

rcm_status rcmi_agree(struct rcmi_agreements *all, const struct rcmi_agree_call *call,
                      int *ret_members, int *ret_nmembers, uint64_t *ret_epoch) {
    int silent = -1;
    rcm_status status = RCM_ERR_NOMEM;
    if (all->config.nranks > RCMI_AGREE_RANKS_MAX)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "rcm_comm_shrink: the world has %d ranks, more than the supported %d",
                         all->config.nranks, RCMI_AGREE_RANKS_MAX);
    pthread_mutex_lock(&all->lock);
    struct rcmi_agreement *a;
    bool again = true;
    while (again && (a = agree_begin(all, call->members, call->number))) {
        a->call = call;
        a->called = true;
        if (agree_take_part(all, a, &silent, &again))
            status =
                agree_read(all, call->members, a->decision, ret_members, ret_nmembers, ret_epoch);
        else
            status = a->canceled ? agree_fail(call->members, RCM_ERR_CANCELED, all->config.rank)
                                 : agree_fail(call->members, RCM_ERR_TIMEOUT, silent);
        a->call = NULL;
    }
    pthread_mutex_unlock(&all->lock);
    return status;
}
