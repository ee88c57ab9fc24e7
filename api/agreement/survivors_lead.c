/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The coordinator of an agreement on survivors, under the lock. It calls ranks that have not
 * joined, waits for those that may be alive, and decides. See survivors.h for the proof.
 */
#include "survivors.h"
#include <string.h>
#include <time.h>

#define SUSPECT_NS (INT64_C(1000) * 1000000)
#define PROBE_MS   500 /* for one rank */
#define PROBES     2   /* a dying process may listen for a moment after its links ended */

static void lead_decide(struct rcmi_agreements *all, struct rcmi_agreement *a,
                        const struct rcmi_agree *decision) {
    for (int r = 0; r < a->call->members->size; r++) {
        const int world = a->call->members->world_rank[r];
        if (!a->answers[world].called && !a->answers[world].joined &&
            (rcmi_agree_excludes(a, world) || !rcmi_agree_absent(all, a, r)))
            rcmi_agree_send(all, world, decision);
    }
    rcmi_agree_settle(all, a, decision, all->config.rank);
}

void rcmi_agree_lead_error(struct rcmi_agreements *all, struct rcmi_agreement *a, rcm_status status,
                           int origin) {
    struct rcmi_agree decision;
    rcmi_agree_fill(all, a, RCMI_AGREE_DECISION, &decision);
    decision.status = status;
    decision.origin = origin;
    lead_decide(all, a, &decision);
}

/* Whether it has joined and counts. */
static bool lead_has(const struct rcmi_agreements *all, const struct rcmi_agreement *a, int rank) {
    return a->answers[rank].joined && !rcmi_agree_lost(all, rank) && !rcmi_agree_excludes(a, rank);
}

/* Whether a joined rank has lost it. */
static bool lead_suspects(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                          int rank) {
    for (int r = 0; r < all->config.nranks; r++)
        if (lead_has(all, a, r) && rcmi_set_has(a->answers[r].gone, rank))
            return true;
    return false;
}

/* Whether a joined rank has lost some rank that may still turn out to be lost here too. */
static bool lead_doubts(const struct rcmi_agreements *all, struct rcmi_agreement *a) {
    bool suspects = false;
    for (int r = 0; r < a->call->members->size && !suspects; r++) {
        const int world = a->call->members->world_rank[r];
        suspects = world != all->config.rank && !rcmi_agree_lost(all, world) &&
                   !rcmi_agree_excludes(a, world) && lead_suspects(all, a, world);
    }
    if (!suspects)
        a->suspect_until = 0;
    else if (a->suspect_until == 0)
        a->suspect_until = rcmi_now_ns() + SUSPECT_NS;
    return suspects && !rcmi_deadline_passed(a->suspect_until);
}

/* The lowest rank still to wait for, -1. Calls ranks that may have no link to this one. */
static int lead_missing(const struct rcmi_agreements *all, struct rcmi_agreement *a, bool doubt) {
    int missing = -1;
    for (int r = 0; r < a->call->members->size; r++) {
        const int world = a->call->members->world_rank[r];
        struct rcmi_agree_answer *answer = &a->answers[world];
        const bool excluded = rcmi_agree_excludes(a, world);
        if (world == all->config.rank || answer->joined ||
            (!excluded && rcmi_agree_absent(all, a, r)))
            continue;
        if (!answer->summoned)
            rcmi_agree_send_kind(all, a, world, RCMI_AGREE_CALL);
        answer->summoned = true;
        if (excluded)
            continue;
        if ((missing < 0 || world < missing) && (doubt || !lead_suspects(all, a, world)))
            missing = world;
    }
    return missing;
}

/* Whether most of the joined ranks have lost it. */
static bool lead_is_outvoted(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                             int rank) {
    int lost = 0, answers = 1; /* this rank's */
    for (int r = 0; r < all->config.nranks; r++) {
        if (r == rank || !lead_has(all, a, r))
            continue;
        answers++;
        lost += rcmi_set_has(a->answers[r].gone, rank);
    }
    return 2 * lost > answers;
}

/* Whether it fits the members: it has lost none of them, and none has lost it. */
static bool lead_fits(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                      const uint8_t *members, int rank) {
    if (rank == all->config.rank)
        return true;
    if (!lead_has(all, a, rank) || lead_is_outvoted(all, a, rank))
        return false;
    for (int r = 0; r < rank; r++)
        if (rcmi_set_has(members, r) &&
            (rcmi_set_has(a->answers[rank].gone, r) ||
             (r != all->config.rank && rcmi_set_has(a->answers[r].gone, rank))))
            return false;
    return true;
}

/* Fills ret_members, and ret_gone with the others that are lost here. */
static void lead_divide(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                        uint8_t *ret_members, uint8_t *ret_gone) {
    uint8_t ours[RCMI_AGREE_SET_BYTES] = {0};
    for (int r = 0; r < a->call->members->size; r++)
        rcmi_set_add(ours, a->call->members->world_rank[r]);
    for (int r = 0; r < all->config.nranks; r++) {
        if (!rcmi_set_has(ours, r))
            continue;
        if (lead_fits(all, a, ret_members, r))
            rcmi_set_add(ret_members, r);
        else if (rcmi_agree_lost(all, r) && !rcmi_agree_excludes(a, r))
            rcmi_set_add(ret_gone, r);
    }
}

/* The lowest rank of another side that continues without this one, -1. Not under the lock. */
static int lead_other_side(const struct rcmi_agreements *all, const uint8_t *members,
                           const uint8_t *gone) {
    const int n = all->config.nranks, ours = rcmi_set_count(members, n);
    uint8_t alive[RCMI_AGREE_SET_BYTES];
    memcpy(alive, gone, sizeof(alive));
    for (int probe = 0; probe < PROBES; probe++) {
        const struct timespec pause = {.tv_nsec = probe > 0 ? 100000000 : 0};
        (void)nanosleep(&pause, NULL);
        for (int r = 0; r < n; r++)
            if (rcmi_set_has(alive, r) &&
                rcmi_node_probe(all->config.node, r, rcmi_deadline_in(PROBE_MS)) != RCM_OK)
                alive[r / 8] = (uint8_t)(alive[r / 8] & ~(1u << r % 8));
        const int theirs = rcmi_set_count(alive, n);
        if (theirs < ours ||
            (theirs == ours && rcmi_set_lowest(members, n) < rcmi_set_lowest(alive, n)))
            return -1;
    }
    return rcmi_set_lowest(alive, n);
}

/* All live ranks have joined. */
static void lead_conclude(struct rcmi_agreements *all, struct rcmi_agreement *a) {
    struct rcmi_agree decision;
    uint8_t gone[RCMI_AGREE_SET_BYTES] = {0};
    int other = -1;
    rcmi_agree_fill(all, a, RCMI_AGREE_DECISION, &decision);
    lead_divide(all, a, decision.set, gone);
    if (rcmi_set_count(decision.set, all->config.nranks) <=
        rcmi_set_count(gone, all->config.nranks)) {
        pthread_mutex_unlock(&all->lock);
        other = lead_other_side(all, decision.set, gone);
        pthread_mutex_lock(&all->lock);
    }
    if (a->decision) /* of another coordinator, received meanwhile */
        return;
    if (other >= 0)
        rcmi_agree_lead_error(all, a, RCM_ERR_PEER, other);
    else
        lead_decide(all, a, &decision);
}

/* A rank whose call was canceled, -1. */
static int lead_canceled(const struct rcmi_agreements *all, const struct rcmi_agreement *a) {
    for (int r = 0; r < all->config.nranks; r++)
        if (a->answers[r].canceled && !rcmi_agree_lost(all, r) && !rcmi_agree_excludes(a, r))
            return r;
    return -1;
}

/* Whether the rank excludes the same ranks. */
static bool lead_is_like(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                         int rank) {
    static const uint8_t none[RCMI_AGREE_SET_BYTES];
    const size_t bytes = RCMI_RANKS_BYTES(all->config.nranks);
    return memcmp(a->answers[rank].gone + bytes, a->call->excluded ? a->call->excluded : none,
                  bytes) == 0;
}

/* A rank that has called, counts, and excludes other ranks than this one does; -1. */
static int lead_differing(const struct rcmi_agreements *all, const struct rcmi_agreement *a) {
    for (int r = 0; r < all->config.nranks; r++)
        if ((a->answers[r].called || a->answers[r].joined) && a->answers[r].gone &&
            !rcmi_agree_lost(all, r) && !rcmi_agree_excludes(a, r) && !lead_is_like(all, a, r))
            return r;
    return -1;
}

static void lead_mismatch(struct rcmi_agreements *all, struct rcmi_agreement *a, int rank) {
    const size_t bytes = RCMI_RANKS_BYTES(all->config.nranks);
    struct rcmi_agree decision;
    rcmi_agree_fill(all, a, RCMI_AGREE_DECISION, &decision);
    decision.status = RCM_ERR_MISMATCH;
    decision.origin = rank;
    memcpy(decision.set, a->answers[rank].gone + bytes, bytes);
    lead_decide(all, a, &decision);
}

void rcmi_agree_lead(struct rcmi_agreements *all, struct rcmi_agreement *a) {
    const int canceled = lead_canceled(all, a), differing = lead_differing(all, a);
    if (canceled >= 0) {
        rcmi_agree_lead_error(all, a, RCM_ERR_CANCELED, canceled);
        return;
    }
    if (differing >= 0) {
        lead_mismatch(all, a, differing);
        return;
    }
    const bool doubt = lead_doubts(all, a);
    const int missing = lead_missing(all, a, doubt);
    rcmi_deadline deadline = a->call->deadline;
    for (int r = 0; r < all->config.nranks; r++)
        if (a->answers[r].joined && !rcmi_agree_excludes(a, r) && a->answers[r].deadline < deadline)
            deadline = a->answers[r].deadline;
    const bool late = rcmi_deadline_passed(deadline);
    if (missing < 0 && (!doubt || late))
        lead_conclude(all, a);
    else if (missing >= 0 && late)
        rcmi_agree_lead_error(all, a, RCM_ERR_TIMEOUT, missing);
}
