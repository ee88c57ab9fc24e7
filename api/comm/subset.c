/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of some ranks of another one. There is one mechanism: the members call with the
 * same list, function and tag, and get an epoch (agreement/creation.h); then each makes its part
 * locally (group.c). rcm_comm_subset is this mechanism. The functions differ in the source of the
 * list:
 *
 *   rcm_comm_subset       the caller's list
 *   rcm_comm_split        the ranks of one colour, found by an all_gather
 *   rcm_comm_split_hosts  the ranks of this host, which all ranks have
 *   rcm_comm_duplicate    all ranks
 *
 * A call has two halves. making_start, on the calling thread, checks, counts among the calls on the
 * parent and issues the all_gather. making_finish waits, on that thread or, for a function with
 * _begin, on a separate one.
 */
#include "agreement.h"
#include "comm_request.h"
#include "engine.h"
#include "entry.h"
#include "error.h"
#include "failure.h"
#include "group.h"
#include "work.h"
#include <stdlib.h>
#include <string.h>

/* A rank's arguments of rcm_comm_split. */
struct colour {
    int colour, key, rank;
};

/* A communicator being made. */
struct making {
    struct rcm_comm_request request; /* first member; unused in a blocking call */
    rcm_comm *parent;
    struct rcmi_engine *engine;
    const int *ranks; /* of the parent */
    int n;
    int *own; /* ranks, if this file frees them; NULL */
    enum rcmi_creation_kind kind;
    uint64_t tag;
    int64_t timeout_ms;
    bool background, absent; /* absent: this rank is in no communicator made from parent */
    /* rcm_comm_split: */
    struct colour mine, *all; /* all: by rank */
    rcm_work *gather;
    _Atomic bool gathered; /* relaxed: guards no other data */
};

static void making_free(struct making *m) {
    rcm_work_free(m->gather);
    free(m->all);
    free(m->own);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static rcm_status no_memory(const rcm_comm *parent) {
    return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", rcm_size(parent));
}

static rcm_status list_check_each(const struct making *m, uint8_t *seen) {
    const int size = rcm_size(m->parent);
    for (int i = 0; i < m->n; i++) {
        if (m->ranks[i] < 0 || m->ranks[i] >= size)
            return rcmi_fail(RCM_ERR_INVALID, 0, "ranks[%d] is %d, not a rank of 0..%d", i,
                             m->ranks[i], size - 1);
        if (seen[m->ranks[i]]++)
            return rcmi_fail(RCM_ERR_INVALID, 0, "ranks[%d] is %d, which is listed twice", i,
                             m->ranks[i]);
    }
    return RCM_OK;
}

/* Checks the caller's list, and copies it for a background call, which outlives it. */
static rcm_status list_check(struct making *m) {
    if (m->n < 1 || m->n > rcm_size(m->parent))
        return rcmi_fail(RCM_ERR_INVALID, 0, "n is %d, must be from 1 to %d, the number of ranks",
                         m->n, rcm_size(m->parent));
    if (!m->ranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ranks is NULL and n is %d", m->n);
    uint8_t *seen = calloc((size_t)rcm_size(m->parent), 1);
    if (!seen)
        return no_memory(m->parent);
    const rcm_status status = list_check_each(m, seen);
    free(seen);
    if (status != RCM_OK || !m->background)
        return status;
    m->own = malloc((size_t)m->n * sizeof(*m->own));
    if (!m->own)
        return no_memory(m->parent);
    memcpy(m->own, m->ranks, (size_t)m->n * sizeof(*m->own));
    m->ranks = m->own;
    return RCM_OK;
}

static rcm_status list_new(struct making *m) {
    m->own = calloc((size_t)rcm_size(m->parent), sizeof(*m->own));
    m->ranks = m->own;
    return m->own ? RCM_OK : no_memory(m->parent);
}

/* The ranks of this rank's host, or all. */
static rcm_status list_hosts(struct making *m) {
    const struct rcmi_members *members = rcmi_comm_members(m->parent);
    const int own = members->world_rank[members->rank];
    const rcm_status status = list_new(m);
    for (int r = 0; status == RCM_OK && r < members->size; r++)
        if (m->kind == RCMI_CREATION_DUPLICATE ||
            rcmi_book_one_host(members->book, own, members->world_rank[r]))
            m->own[m->n++] = r;
    return status;
}

static int colour_compare(const void *x, const void *y) {
    const struct colour *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank - b->rank;
}

/* The ranks of this rank's colour, by key and rank. */
static rcm_status list_colour(struct making *m) {
    const rcm_status status = list_new(m);
    if (status != RCM_OK)
        return status;
    for (int r = 0; r < rcm_size(m->parent); r++) {
        if (m->all[r].colour != m->mine.colour)
            continue;
        m->all[m->n] = m->all[r];
        m->all[m->n++].rank = r;
    }
    qsort(m->all, (size_t)m->n, sizeof(*m->all), colour_compare);
    for (int i = 0; i < m->n; i++)
        m->own[i] = m->all[i].rank;
    return RCM_OK;
}

/* ---- The first half -------------------------------------------------------------------------- */

static rcm_status colours_gather(struct making *m) {
    const struct rcm_call gather = {.size = sizeof(gather), .timeout_ms = m->timeout_ms};
    m->all = calloc((size_t)rcm_size(m->parent), sizeof(*m->all));
    if (!m->all)
        return rcmi_comm_decline(m->parent, no_memory(m->parent));
    return m->engine->calls->all_gather(m->parent, &m->mine, m->all, sizeof(m->mine), RCM_UINT8,
                                        &gather, m->background ? &m->gather : NULL);
}

static rcm_status making_check(struct making *m, const struct rcm_call **call,
                               struct rcm_call *room, const char *missing) {
    rcm_status status = rcmi_comm_why_not(m->parent);
    m->absent = status == RCMI_ABSENT;
    if (status != RCM_OK && !m->absent)
        return status;
    if (missing)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", missing);
    status = m->background ? RCM_OK : rcmi_work_may_wait(-1);
    if (status == RCM_OK)
        status = rcmi_call_in_alone(call, room);
    if (status == RCM_OK)
        status = rcmi_comm_own(m->parent, &m->engine);
    if (status != RCM_OK)
        return status;
    if (m->absent && m->kind == RCMI_CREATION_SUBSET && m->n < 1)
        return rcmi_fail(RCM_ERR_INVALID, 0, "n is %d, not 1 or more", m->n);
    return RCM_OK;
}

/* missing: the name of a NULL result argument, or NULL. */
static rcm_status making_start(struct making *m, const struct rcm_call **call,
                               struct rcm_call *room, const char *missing) {
    const rcm_status status = making_check(m, call, room, missing);
    if (status != RCM_OK || m->absent)
        return status;
    m->timeout_ms =
        *call && (*call)->timeout_ms ? (*call)->timeout_ms : rcm_comm_timeout(m->parent);
    if (m->kind == RCMI_CREATION_SUBSET)
        return list_check(m);
    m->tag = rcmi_comm_next_child(m->parent);
    return m->kind == RCMI_CREATION_SPLIT ? colours_gather(m) : list_hosts(m);
}

/* ---- The second half ------------------------------------------------------------------------- */

/* A communicator being destroyed counts as failed. */
static bool parent_failed(void *arg) {
    rcm_comm *parent = arg;
    if (!rcmi_comm_enter(parent))
        return true;
    rcmi_comm_exit(parent);
    return rcmi_comm_why_not(parent) != RCM_OK;
}

static bool parent_left(void *arg, int rank) {
    return rcmi_comm_rank_left(arg, rank);
}

static rcm_status making_join(const struct making *m, uint64_t *ret_epoch) {
    const struct rcmi_creation_call call = {
        .parent = rcmi_comm_members(m->parent),
        .ranks = m->ranks,
        .n = m->n,
        .kind = m->kind,
        .tag = m->tag,
        .deadline = rcmi_deadline_in(m->timeout_ms),
        .warn_after_ns = rcmi_comm_warn_after_ns(m->parent),
        .canceled = m->background ? &m->request.background.canceled : NULL,
        .arg = m->parent,
        .failed = parent_failed,
        .left = parent_left};
    const rcm_status status = rcmi_creation_join(m->engine->creations, &call, ret_epoch);
    const rcm_status failed = status == RCM_ERR_ABORTED ? rcmi_comm_failure(m->parent) : RCM_OK;
    return failed == RCM_OK ? status : failed;
}

/* Writes "ranks 0-2,5, tag 7", with world ranks. */
static rcm_status making_name(const struct making *m, char name[RCM_NAME_MAX]) {
    int *worlds = calloc((size_t)m->n, sizeof(*worlds));
    if (!worlds)
        return no_memory(m->parent);
    for (int i = 0; i < m->n; i++)
        worlds[i] = rcm_world_rank(m->parent, m->ranks[i]);
    rcmi_creation_describe(worlds, m->n, m->kind == RCMI_CREATION_SUBSET ? m->tag : 0, name,
                           RCM_NAME_MAX);
    free(worlds);
    return RCM_OK;
}

static int making_rank(const struct making *m) {
    for (int i = 0; i < m->n; i++)
        if (m->ranks[i] == rcm_rank(m->parent))
            return i;
    return -1;
}

/* For a member. All have agreed, so a rank that cannot make its part must notify the others. */
static rcm_status making_member(const struct making *m, int rank, rcm_comm **ret_comm) {
    char name[RCM_NAME_MAX];
    struct rcmi_derivation derivation = {.members = m->ranks, .size = m->n, .name = name};
    rcm_status status = making_name(m, name);
    if (status == RCM_OK)
        status = making_join(m, &derivation.epoch);
    if (status != RCM_OK)
        return status;
    status = rcmi_comm_derive(m->parent, &derivation, ret_comm);
    if (status == RCM_OK)
        return RCM_OK;
    rcmi_fail_context("rank %d cannot make its part of a communicator", rank);
    rcmi_engine_revoke(m->engine, derivation.epoch, rank);
    return status;
}

/* Whether no wait is needed, because this rank is no member. */
static bool making_is_over(const struct making *m) {
    return m->absent || (m->kind == RCMI_CREATION_SUBSET && making_rank(m) < 0);
}

static rcm_status making_absent(const struct making *m, rcm_comm **ret_comm) {
    return rcmi_comm_absent(m->parent, m->absent ? NULL : m->ranks, m->n, ret_comm);
}

static rcm_status colours_await(struct making *m) {
    const rcm_status status = m->gather ? rcm_work_wait(m->gather, -1) : RCM_OK;
    atomic_store_explicit(&m->gathered, true, memory_order_relaxed);
    return status == RCM_OK && m->mine.colour >= 0 ? list_colour(m) : status;
}

static rcm_status making_finish(struct making *m, rcm_comm **ret_comm) {
    if (making_is_over(m))
        return making_absent(m, ret_comm);
    const rcm_status status = m->kind == RCMI_CREATION_SPLIT ? colours_await(m) : RCM_OK;
    if (status != RCM_OK)
        return status;
    return m->n > 0 ? making_member(m, making_rank(m), ret_comm)
                    : rcmi_comm_absent(m->parent, NULL, 0, ret_comm);
}

/* ---- Both halves ----------------------------------------------------------------------------- */

static rcm_status making_call(struct making *m, const struct rcm_call *call, rcm_comm **ret_comm) {
    RCMI_ENTRY;
    struct rcmi_error *before = rcmi_errors_begin();
    struct rcm_call room;
    rcm_status status = making_start(m, &call, &room, ret_comm ? NULL : "ret_comm");
    if (status == RCM_OK)
        status = making_finish(m, ret_comm);
    making_free(m);
    return rcmi_errors_end(before, rcmi_call_out(m->parent, call, status));
}

static rcm_status making_run(struct rcm_comm_request *request, rcm_comm **ret_comm) {
    return making_finish((struct making *)request, ret_comm);
}

/* The all_gather of a split belongs to the parent, and continues. What follows it has its own tag,
 * so no rank waits for its end. */
static bool making_wake(struct rcm_comm_request *request) {
    struct making *m = (struct making *)request;
    rcmi_creations_wake(m->engine->creations);
    return m->kind != RCMI_CREATION_SPLIT ||
           atomic_load_explicit(&m->gathered, memory_order_relaxed);
}

static void making_end(struct rcm_comm_request *request) {
    making_free((struct making *)request);
}

static void making_released(void *arg, rcm_status status) {
    struct making *m = arg;
    (void)status;
    m->gather = NULL;
    making_free(m);
    free(m);
}

/* No thread could be started for m, and the other ranks wait for it. They get RCM_ERR_CANCELED.
 * Exception: after the all_gather of a split, for which this rank may be unable to wait, the parent
 * fails. */
static rcm_status making_give_up(struct making *m, rcm_status status) {
    const struct rcmi_error why = *rcmi_last_error();
    rcm_comm *none = NULL;
    if (m->kind == RCMI_CREATION_SPLIT) {
        status = rcmi_comm_decline(m->parent, status);
        if (rcm_work_detach(m->gather, making_released, m) == RCM_OK)
            return status;
        rcm_work_free(m->gather);
        return status; /* without memory for detaching, m leaks: the all_gather uses it */
    }
    atomic_store_explicit(&m->request.background.canceled, true, memory_order_relaxed);
    if (making_finish(m, &none) == RCM_OK)
        rcmi_comm_retire(none);
    making_released(m, status);
    *rcmi_last_error() = why;
    return status;
}

/* m: on the heap. */
static rcm_status making_begin_given(struct making *m, const struct rcm_call **call,
                                     struct rcm_call *room, rcm_comm_request **ret_request) {
    static const struct rcmi_comm_request_kind kind = {
        .makes = true, .run = making_run, .wake = making_wake, .end = making_end};
    rcm_comm *absent = NULL;
    rcm_status status = making_start(m, call, room, ret_request ? NULL : "ret_request");
    if (status == RCM_OK && !making_is_over(m)) {
        status = rcmi_comm_request_begin(&m->request, &kind, m->parent, ret_request);
        return status == RCM_OK ? status : making_give_up(m, status);
    }
    if (status == RCM_OK)
        status = making_absent(m, &absent);
    if (status == RCM_OK) {
        rcmi_comm_request_complete(&m->request, &kind, m->parent, absent, ret_request);
        return RCM_OK;
    }
    making_free(m);
    free(m);
    return status;
}

static rcm_status making_begin(const struct making *given, const struct rcm_call *call,
                               rcm_comm_request **ret_request) {
    RCMI_ENTRY;
    struct rcmi_error *before = rcmi_errors_begin();
    struct making *m = malloc(sizeof(*m));
    struct rcm_call room;
    if (!m)
        return rcmi_errors_end(before, no_memory(given->parent));
    *m = *given;
    m->background = true;
    m->request.what = rcmi_creation_function(m->kind);
    const rcm_status status = making_begin_given(m, &call, &room, ret_request);
    return rcmi_errors_end(before, rcmi_call_out(given->parent, call, status));
}

/* ---- The functions --------------------------------------------------------------------------- */

rcm_status rcm_comm_subset(rcm_comm *parent, const int *ranks, int n, uint64_t tag,
                           const struct rcm_call *call, rcm_comm **ret_comm) {
    struct making m = {
        .parent = parent, .ranks = ranks, .n = n, .kind = RCMI_CREATION_SUBSET, .tag = tag};
    return making_call(&m, call, ret_comm);
}

rcm_status rcm_comm_subset_begin(rcm_comm *parent, const int *ranks, int n, uint64_t tag,
                                 const struct rcm_call *call, rcm_comm_request **ret_request) {
    const struct making m = {
        .parent = parent, .ranks = ranks, .n = n, .kind = RCMI_CREATION_SUBSET, .tag = tag};
    return making_begin(&m, call, ret_request);
}

rcm_status rcm_comm_split(rcm_comm *parent, int colour, int key, const struct rcm_call *call,
                          rcm_comm **ret_comm) {
    struct making m = {
        .parent = parent, .kind = RCMI_CREATION_SPLIT, .mine = {.colour = colour, .key = key}};
    return making_call(&m, call, ret_comm);
}

rcm_status rcm_comm_split_begin(rcm_comm *parent, int colour, int key, const struct rcm_call *call,
                                rcm_comm_request **ret_request) {
    const struct making m = {
        .parent = parent, .kind = RCMI_CREATION_SPLIT, .mine = {.colour = colour, .key = key}};
    return making_begin(&m, call, ret_request);
}

rcm_status rcm_comm_split_hosts(rcm_comm *parent, const struct rcm_call *call,
                                rcm_comm **ret_comm) {
    struct making m = {.parent = parent, .kind = RCMI_CREATION_SPLIT_HOSTS};
    return making_call(&m, call, ret_comm);
}

rcm_status rcm_comm_split_hosts_begin(rcm_comm *parent, const struct rcm_call *call,
                                      rcm_comm_request **ret_request) {
    const struct making m = {.parent = parent, .kind = RCMI_CREATION_SPLIT_HOSTS};
    return making_begin(&m, call, ret_request);
}

rcm_status rcm_comm_duplicate(rcm_comm *parent, const struct rcm_call *call, rcm_comm **ret_comm) {
    struct making m = {.parent = parent, .kind = RCMI_CREATION_DUPLICATE};
    return making_call(&m, call, ret_comm);
}

rcm_status rcm_comm_duplicate_begin(rcm_comm *parent, const struct rcm_call *call,
                                    rcm_comm_request **ret_request) {
    const struct making m = {.parent = parent, .kind = RCMI_CREATION_DUPLICATE};
    return making_begin(&m, call, ret_request);
}
