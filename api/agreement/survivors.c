/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call of an agreement on survivors: a rank joins its coordinator, or leads, until there is a
 * decision. See survivors.h, with the protocol and its proof.
 */
#include "survivors.h"
#include <stdio.h>
#include <time.h>

#define LOOK_NS  (INT64_C(20) * 1000000)   /* between two looks at what does not wake this thread */
#define GRACE_NS (INT64_C(1000) * 1000000) /* for the coordinator's decision to arrive */

static void agree_join(const struct rcmi_agreements *all, struct rcmi_agreement *a,
                       int coordinator) {
    struct rcmi_agree message;
    rcmi_agree_fill(all, a, RCMI_AGREE_JOIN, &message);
    message.left_ms =
        a->call->deadline == RCMI_NEVER ? -1 : rcmi_deadline_left_ms(a->call->deadline);
    for (int r = 0; r < a->call->members->size; r++)
        if (rcmi_agree_lost(all, a->call->members->world_rank[r]))
            rcmi_set_add(message.set, a->call->members->world_rank[r]);
    a->told = coordinator;
    rcmi_agree_send(all, coordinator, &message);
}

static void agree_sleep(struct rcmi_agreements *all, const struct rcmi_agreement *a) {
    int64_t until = rcmi_now_ns() + LOOK_NS;
    if (a->call->deadline > rcmi_now_ns() && a->call->deadline < until)
        until = a->call->deadline;
    const struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
                                .tv_nsec = (long)(until % 1000000000)};
    (void)pthread_cond_timedwait(&all->changed, &all->lock, &at);
}

/* A rank that has joined a later agreement, so has given this one up; -1. */
static int agree_straggler(const struct rcmi_agreements *all, const struct rcmi_agreement *a) {
    for (const struct rcmi_agreement *b = all->head; b; b = b->next)
        for (int r = 0;
             b->epoch == a->epoch && b->number > a->number && b->answers && r < all->config.nranks;
             r++)
            if (b->answers[r].joined)
                return r;
    return -1;
}

/* Until there is a decision; false if the coordinator does not answer. *ret_again: this agreement
 * has come to nothing and the next one is under way. */
static bool agree_take_part(struct rcmi_agreements *all, struct rcmi_agreement *a, int *ret_silent,
                            bool *ret_again) {
    *ret_again = false;
    while (!a->decision) {
        const int coordinator = rcmi_agree_coordinator(all, a);
        const int straggler = agree_straggler(all, a);
        if (coordinator == all->config.rank && straggler >= 0) {
            rcmi_agree_lead_error(all, a, RCM_ERR_TIMEOUT, straggler);
            *ret_again = a->decision != NULL;
        } else if (coordinator == all->config.rank)
            rcmi_agree_lead(all, a);
        else if (coordinator != a->told)
            agree_join(all, a, coordinator);
        if (a->decision)
            break;
        if (coordinator != all->config.rank && a->call->deadline != RCMI_NEVER &&
            rcmi_deadline_passed(a->call->deadline + GRACE_NS)) {
            rcmi_agree_say(all, a, coordinator, RCMI_AGREE_LEAVE);
            a->quit = true;
            *ret_silent = coordinator;
            return false;
        }
        agree_sleep(all, a);
    }
    return true;
}

/* The agreement that this call is part of: this rank's next one, or one that others are ahead in.
 * Or an earlier one that left this rank out: that is so for good. */
static struct rcmi_agreement *agree_begin(struct rcmi_agreements *all,
                                          const struct rcmi_members *members, uint32_t *last) {
    uint32_t number = *last + 1;
    for (struct rcmi_agreement *a = all->head; a; a = a->next) {
        if (a->epoch != members->epoch)
            continue;
        if (a->decision && a->decision->status == RCM_OK &&
            !rcmi_set_has(a->decision->set, all->config.rank))
            return a;
        if (a->number > number)
            number = a->number;
    }
    *last = number;
    return rcmi_agreement_get(all, members->epoch, number);
}

static rcm_status agree_fail(const struct rcmi_members *members, rcm_status status, int world) {
    char who[RCMI_WHO_TEXT];
    const int rank = rcmi_members_rank(members, world);
    if (rank < 0)
        return rcmi_fail(status, 0, "the ranks did not agree on who is left");
    rcmi_members_describe(members, rank, who);
    if (status == RCM_ERR_PEER)
        return rcmi_fail_origin(status, rank,
                                "%s is alive, but out of reach; its side has more ranks, or the "
                                "lowest, and goes on without this one",
                                who);
    if (rank == members->rank)
        return rcmi_fail_origin(status, rank,
                                "this rank had not called rcm_comm_shrink when the others' "
                                "deadline passed");
    return rcmi_fail_origin(status, rank, "%s has not called rcm_comm_shrink within the deadline",
                            who);
}

static rcm_status agree_read(const struct rcmi_agreements *all, const struct rcmi_members *members,
                             const struct rcmi_agree *decision, int *ret_members, int *ret_nmembers,
                             uint64_t *ret_epoch) {
    int n = 0;
    if (decision->status != RCM_OK)
        return agree_fail(members, (rcm_status)decision->status, decision->origin);
    if (!rcmi_set_has(decision->set, all->config.rank))
        return rcmi_fail(RCM_ERR_PEER, 0,
                         "the other ranks hold this one (rank %d) for lost and went on without it",
                         members->rank);
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
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "an agreement of %d ranks, more than %d",
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
            status = agree_fail(call->members, RCM_ERR_TIMEOUT, silent);
        a->call = NULL;
    }
    pthread_mutex_unlock(&all->lock);
    return status;
}
