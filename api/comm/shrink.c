/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_comm_shrink, which makes a communicator of the remaining ranks: ends the old one, agrees with
 * the survivors on the members (agreement/survivors.h), and makes the new one locally.
 */
#include "agreement.h"
#include "comm_request.h"
#include "engine.h"
#include "entry.h"
#include "failure.h"
#include "group.h"
#include "work.h"
#include <stdlib.h>

enum { EXCLUDED_TEXT = 120 };
#define SETTLE_MS 5000 /* wait until works of a failed communicator are complete */

struct shrinking {
    struct rcm_comm_request request; /* first member; unused in a blocking call */
    rcm_comm *comm;
    struct rcmi_engine *engine;
    int64_t timeout_ms;
    const _Atomic bool *canceled; /* NULL: cannot be canceled */
    const int *list;              /* world ranks to exclude; the caller's, for checks */
    int n;
    uint8_t *excluded; /* list as a set; NULL: none */
};

/* ---- Excluded ranks -------------------------------------------------------------------------- */

static rcm_status excluded_check(const struct shrinking *s, int i) {
    const struct rcmi_members *members = rcmi_comm_members(s->comm);
    const int world = s->list[i];
    const int rank = rcmi_members_rank(members, world);
    if (rank < 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "world_ranks[%d] is %d, which is no rank of comm", i,
                         world);
    if (rank == members->rank)
        return rcmi_fail(RCM_ERR_INVALID, 0, "world_ranks[%d] is %d, this rank itself", i, world);
    if (s->excluded[world / 8] >> world % 8 & 1)
        return rcmi_fail(RCM_ERR_INVALID, 0, "world_ranks[%d] is %d, which is listed twice", i,
                         world);
    return RCM_OK;
}

static rcm_status excluded_take(struct shrinking *s) {
    rcm_status status = RCM_OK;
    if (s->n < 0 || (s->n > 0 && !s->list))
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         s->n < 0 ? "n is %d, below 0" : "world_ranks is NULL and n is %d", s->n);
    if (s->n == 0 || rcm_rank(s->comm) < 0)
        return RCM_OK;
    s->excluded = calloc(RCMI_RANKS_BYTES(s->engine->nranks), 1);
    if (!s->excluded)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", s->engine->nranks);
    for (int i = 0; status == RCM_OK && i < s->n; i++) {
        status = excluded_check(s, i);
        if (status == RCM_OK)
            s->excluded[s->list[i] / 8] |= (uint8_t)(1u << s->list[i] % 8);
    }
    return status;
}

/* ---- The call -------------------------------------------------------------------------------- */

/* Fails the parent: ranks without a failure would not call. */
static void shrink_end_parent(const struct shrinking *s) {
    char without[EXCLUDED_TEXT] = "";
    if (s->n > 0) {
        rcmi_creation_describe(s->list, s->n, 0, without, sizeof(without));
        rcmi_fail_origin(RCM_ERR_ABORTED, rcm_rank(s->comm),
                         "rank %d shrinks the communicator by rcm_comm_shrink_excluding, without "
                         "%s of the world",
                         rcm_rank(s->comm), without);
    } else {
        rcmi_fail_origin(RCM_ERR_ABORTED, rcm_rank(s->comm), "rank %d shrinks the communicator",
                         rcm_rank(s->comm));
    }
    rcmi_comm_fail(s->comm, NULL);
}

/* All members have agreed, so a rank that cannot make its part must notify the others. */
static rcm_status shrink_derive(struct rcmi_engine *engine, const rcm_comm *parent, uint64_t epoch,
                                const int *members, int nmembers, rcm_comm **ret_comm) {
    const struct rcmi_derivation derivation = {
        .epoch = epoch, .members = members, .size = nmembers};
    rcm_status status = rcmi_comm_derive(parent, &derivation, ret_comm);
    if (status == RCM_OK)
        return RCM_OK;
    int rank = 0;
    while (rank < nmembers && members[rank] != rcm_rank(parent))
        rank++;
    rcmi_fail_context("rank %d cannot make the communicator of the survivors", rank);
    rcmi_engine_revoke(engine, epoch, rank);
    return status;
}

static bool member_left(void *arg, int rank) {
    return rcmi_comm_rank_left(arg, rank);
}

/* Collective, except for the parent's unfinished works. */
static rcm_status shrink_agree(const struct shrinking *s, int *members, rcm_comm **ret_comm) {
    uint64_t epoch;
    int nmembers;
    const struct rcmi_agree_call call = {.members = rcmi_comm_members(s->comm),
                                         .number = rcmi_comm_agreements(s->comm),
                                         .deadline = rcmi_deadline_in(s->timeout_ms),
                                         .canceled = s->canceled,
                                         .excluded = s->excluded,
                                         .arg = s->comm,
                                         .left = member_left};
    rcm_status status = rcmi_comm_settle(s->comm, s->canceled, rcmi_deadline_in(SETTLE_MS));
    if (status == RCM_OK)
        status = rcmi_agree(s->engine->agreements, &call, members, &nmembers, &epoch);
    return status == RCM_OK ? shrink_derive(s->engine, s->comm, epoch, members, nmembers, ret_comm)
                            : status;
}

static rcm_status shrink_finish(const struct shrinking *s, rcm_comm **ret_comm) {
    int *members = calloc((size_t)rcm_size(s->comm), sizeof(*members));
    if (!members)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", rcm_size(s->comm));
    const rcm_status status = shrink_agree(s, members, ret_comm);
    free(members);
    return status;
}

/* missing: the name of a NULL result argument, or NULL. */
static rcm_status shrink_start(struct shrinking *s, const struct rcm_call **call,
                               struct rcm_call *room, const char *missing) {
    if (s->comm && missing)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", missing);
    rcm_status status = rcmi_comm_own(s->comm, &s->engine);
    if (status == RCM_OK)
        status = s->canceled ? rcmi_operator_check() : rcmi_work_may_wait(-1);
    if (status == RCM_OK)
        status = rcmi_call_in_alone(call, room);
    if (status != RCM_OK)
        return status;
    status = excluded_take(s);
    if (status != RCM_OK)
        return status;
    s->timeout_ms = *call && (*call)->timeout_ms ? (*call)->timeout_ms : rcm_comm_timeout(s->comm);
    if (rcm_rank(s->comm) >= 0)
        shrink_end_parent(s);
    return RCM_OK;
}

static rcm_status shrink_absent(const struct shrinking *s, rcm_comm **ret_comm) {
    return rcmi_comm_absent(s->comm, NULL, rcm_size(s->comm), ret_comm);
}

static rcm_status shrink_call(struct shrinking *s, const struct rcm_call *call,
                              rcm_comm **ret_comm) {
    RCMI_ENTRY;
    struct rcm_call room;
    const rcm_status status = shrink_start(s, &call, &room, ret_comm ? NULL : "ret_comm");
    if (status != RCM_OK)
        return status;
    return rcm_rank(s->comm) < 0 ? shrink_absent(s, ret_comm) : shrink_finish(s, ret_comm);
}

rcm_status rcm_comm_shrink_excluding(rcm_comm *comm, const int *world_ranks, int n,
                                     const struct rcm_call *call, rcm_comm **ret_comm) {
    struct rcmi_error *before = rcmi_errors_begin();
    struct shrinking s = {.comm = comm, .list = world_ranks, .n = n};
    const rcm_status status = shrink_call(&s, call, ret_comm);
    free(s.excluded);
    return rcmi_errors_end(before, rcmi_call_out(comm, call, status));
}

rcm_status rcm_comm_shrink(rcm_comm *comm, const struct rcm_call *call, rcm_comm **ret_comm) {
    return rcm_comm_shrink_excluding(comm, NULL, 0, call, ret_comm);
}

/* ---- In the background ----------------------------------------------------------------------- */

static rcm_status shrink_run(struct rcm_comm_request *request, rcm_comm **ret_comm) {
    return shrink_finish((const struct shrinking *)request, ret_comm);
}

static bool shrink_wake(struct rcm_comm_request *request) {
    const struct shrinking *s = (const struct shrinking *)request;
    rcmi_agree_wake(s->engine->agreements);
    rcmi_node_ring(s->engine->node);
    return true;
}

static void shrink_end(struct rcm_comm_request *request) {
    free(((struct shrinking *)request)->excluded);
}

/* No thread could be started, and the others wait for this rank: cancels its part. */
static void shrink_give_up(struct shrinking *s) {
    const struct rcmi_error why = *rcmi_last_error();
    rcm_comm *none = NULL;
    atomic_store_explicit(&s->request.background.canceled, true, memory_order_relaxed);
    if (shrink_finish(s, &none) == RCM_OK)
        rcmi_comm_retire(none);
    *rcmi_last_error() = why;
}

/* s: on the heap; freed if this fails. */
static rcm_status shrink_begin(struct shrinking *s, const struct rcm_call **call,
                               struct rcm_call *room, rcm_comm_request **ret_request) {
    static const struct rcmi_comm_request_kind kind = {
        .makes = true, .run = shrink_run, .wake = shrink_wake, .end = shrink_end};
    rcm_comm *absent = NULL;
    rcm_status status = shrink_start(s, call, room, ret_request ? NULL : "ret_request");
    if (status == RCM_OK && rcm_rank(s->comm) >= 0) {
        status = rcmi_comm_request_begin(&s->request, &kind, s->comm, ret_request);
        if (status != RCM_OK)
            shrink_give_up(s);
    } else if (status == RCM_OK) {
        status = shrink_absent(s, &absent);
        if (status == RCM_OK)
            rcmi_comm_request_complete(&s->request, &kind, s->comm, absent, ret_request);
    }
    if (status != RCM_OK) {
        free(s->excluded);
        free(s);
    }
    return status;
}

static rcm_status shrink_begin_given(rcm_comm *comm, const int *world_ranks, int n,
                                     const struct rcm_call *call, rcm_comm_request **ret_request) {
    RCMI_ENTRY;
    struct rcm_call room;
    struct shrinking *s = calloc(1, sizeof(*s));
    if (!s)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for rcm_comm_shrink in the background");
    s->request.what = "rcm_comm_shrink";
    s->comm = comm;
    s->list = world_ranks;
    s->n = n;
    s->canceled = &s->request.background.canceled;
    return rcmi_call_out(comm, call, shrink_begin(s, &call, &room, ret_request));
}

rcm_status rcm_comm_shrink_excluding_begin(rcm_comm *comm, const int *world_ranks, int n,
                                           const struct rcm_call *call,
                                           rcm_comm_request **ret_request) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, shrink_begin_given(comm, world_ranks, n, call, ret_request));
}

rcm_status rcm_comm_shrink_begin(rcm_comm *comm, const struct rcm_call *call,
                                 rcm_comm_request **ret_request) {
    return rcm_comm_shrink_excluding_begin(comm, NULL, 0, call, ret_request);
}
