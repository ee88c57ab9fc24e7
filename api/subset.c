/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of some ranks of another one. There is one mechanism: the members call with the
 * same list, function and tag, and get an epoch (agreement/creation.h); then each makes its part by
 * itself (group.c). rcm_comm_subset is that; what the other functions add is where the list comes
 * from.
 *
 *      rcm_comm_subset       the caller's list
 *      rcm_comm_split        the ranks of one colour, which an all_gather finds
 *      rcm_comm_split_hosts  the ranks of this host, which all know
 *      rcm_comm_duplicate    all ranks
 */
#include "error.h"
#include "agreement.h"
#include "engine.h"
#include "entry.h"
#include "failure.h"
#include "group.h"
#include "work.h"
#include <stdlib.h>
#include <string.h>

/* What is to be made. */
struct making {
    rcm_comm *parent;
    struct rcmi_engine *engine;
    const int *ranks; /* of the parent */
    int n;
    enum rcmi_creation_kind kind;
    uint64_t tag;
    const struct rcm_call *call;
};

/* ---- Making --------------------------------------------------------------------------------- */

static bool parent_failed(void *arg) {
    return rcmi_comm_why_not(arg) != RCM_OK;
}

static bool parent_left(void *arg, int rank) {
    return rcmi_comm_rank_left(arg, rank);
}

static rcm_status making_join(const struct making *m, uint64_t *ret_epoch) {
    const struct rcmi_creation_call call = {.parent = rcmi_comm_members(m->parent),
                                            .ranks = m->ranks,
                                            .n = m->n,
                                            .kind = m->kind,
                                            .tag = m->tag,
                                            .deadline = rcmi_comm_deadline(m->parent, m->call),
                                            .warn_after_ns = rcmi_comm_warn_after_ns(m->parent),
                                            .arg = m->parent,
                                            .failed = parent_failed,
                                            .left = parent_left};
    const rcm_status status = rcmi_creation_join(m->engine->creations, &call, ret_epoch);
    return status == RCM_ERR_ABORTED && parent_failed(m->parent) ? rcmi_comm_why_not(m->parent)
                                                                 : status;
}

/* "ranks 0-2,5, tag 7": by their numbers in the world. */
static rcm_status making_name(const struct making *m, char name[RCM_NAME_MAX]) {
    int *worlds = calloc((size_t)m->n, sizeof(*worlds));
    if (!worlds)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", m->n);
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

/* This rank is a member. All have agreed, so one that cannot come along must tell the others. */
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

static rcm_status making_run(const struct making *m, rcm_comm **ret_comm) {
    const int rank = making_rank(m);
    return rank >= 0 ? making_member(m, rank, ret_comm)
                     : rcmi_comm_absent(m->parent, m->ranks, m->n, ret_comm);
}

/* ---- What all have in common ------------------------------------------------------------------
 */

/* *ret_over: the call ends with that status already, as that of a rank that is no member does. */
static rcm_status making_begin(struct making *m, struct rcm_call *room, rcm_comm **ret_comm,
                               bool *ret_over) {
    rcm_status status = rcmi_comm_why_not(m->parent);
    const bool absent = status == RCMI_ABSENT;
    *ret_over = true;
    if (status != RCM_OK && !absent)
        return status;
    if (!ret_comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_comm is NULL");
    status = rcmi_call_in_alone(&m->call, room);
    if (status == RCM_OK)
        status = rcmi_comm_own(m->parent, &m->engine);
    if (status != RCM_OK)
        return status;
    if (absent && m->kind == RCMI_CREATION_SUBSET && m->n < 1)
        return rcmi_fail(RCM_ERR_INVALID, 0, "n is %d, not 1 or more", m->n);
    *ret_over = absent;
    return absent ? rcmi_comm_absent(m->parent, NULL, m->n, ret_comm) : RCM_OK;
}

/* A list that this file has made, and frees. */
static rcm_status making_run_own(struct making *m, int *ranks, int n, rcm_comm **ret_comm) {
    m->ranks = ranks;
    m->n = n;
    const rcm_status status = making_run(m, ret_comm);
    free(ranks);
    return status;
}

static int *list_new(const rcm_comm *parent) {
    int *list = calloc((size_t)rcm_size(parent), sizeof(*list));
    if (!list)
        (void)rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", rcm_size(parent));
    return list;
}

/* ---- By a list ------------------------------------------------------------------------------ */

static rcm_status list_check_each(const struct making *m, uint8_t *seen) {
    const int size = rcm_size(m->parent);
    for (int i = 0; i < m->n; i++) {
        if (m->ranks[i] < 0 || m->ranks[i] >= size)
            return rcmi_fail(RCM_ERR_INVALID, 0, "ranks[%d] is %d, not a rank of 0..%d", i,
                             m->ranks[i], size - 1);
        if (seen[m->ranks[i]]++)
            return rcmi_fail(RCM_ERR_INVALID, 0, "ranks[%d] is %d, which is there twice", i,
                             m->ranks[i]);
    }
    return RCM_OK;
}

static rcm_status list_check(const struct making *m) {
    if (m->n < 1 || m->n > rcm_size(m->parent))
        return rcmi_fail(RCM_ERR_INVALID, 0, "n is %d, not 1 to the %d ranks there are", m->n,
                         rcm_size(m->parent));
    if (!m->ranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ranks is NULL and n is %d", m->n);
    uint8_t *seen = calloc((size_t)rcm_size(m->parent), 1);
    if (!seen)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", rcm_size(m->parent));
    const rcm_status status = list_check_each(m, seen);
    free(seen);
    return status;
}

static rcm_status subset_call(rcm_comm *parent, const int *ranks, int n, uint64_t tag,
                              const struct rcm_call *call, rcm_comm **ret_comm) {
    RCMI_ENTRY;
    struct making m = {.parent = parent,
                       .ranks = ranks,
                       .n = n,
                       .kind = RCMI_CREATION_SUBSET,
                       .tag = tag,
                       .call = call};
    struct rcm_call room;
    bool over;
    rcm_status status = making_begin(&m, &room, ret_comm, &over);
    if (!over)
        status = list_check(&m);
    if (!over && status == RCM_OK)
        status = making_run(&m, ret_comm);
    return rcmi_call_out(parent, m.call, status);
}

rcm_status rcm_comm_subset(rcm_comm *parent, const int *ranks, int n, uint64_t tag,
                           const struct rcm_call *call, rcm_comm **ret_comm) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, subset_call(parent, ranks, n, tag, call, ret_comm));
}

/* ---- By colours ----------------------------------------------------------------------------- */

/* What a rank gave. */
struct colour {
    int colour, key, rank;
};

static int colour_compare(const void *x, const void *y) {
    const struct colour *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank - b->rank;
}

/* The ranks of this rank's colour, by key and rank; `all` is what each gave. Returns how many. */
static int colours_choose(struct colour *all, int n, int colour, int *ret_ranks) {
    int chosen = 0;
    for (int r = 0; r < n; r++) {
        if (all[r].colour != colour)
            continue;
        all[chosen] = all[r];
        all[chosen++].rank = r;
    }
    qsort(all, (size_t)chosen, sizeof(*all), colour_compare);
    for (int i = 0; i < chosen; i++)
        ret_ranks[i] = all[i].rank;
    return chosen;
}

static rcm_status split_run(struct making *m, const struct colour *mine, struct colour *all,
                            rcm_comm **ret_comm) {
    const struct rcm_call gather = {.size = sizeof(gather),
                                    .timeout_ms = m->call ? m->call->timeout_ms : 0};
    rcm_status status =
        rcm_all_gather(m->parent, mine, all, sizeof(*mine), RCM_UINT8, &gather, NULL);
    if (status != RCM_OK)
        return status;
    m->tag = rcmi_comm_next_child(m->parent);
    if (mine->colour < 0)
        return rcmi_comm_absent(m->parent, NULL, 0, ret_comm);
    int *ranks = list_new(m->parent);
    if (!ranks)
        return RCM_ERR_NOMEM;
    const int n = colours_choose(all, rcm_size(m->parent), mine->colour, ranks);
    return making_run_own(m, ranks, n, ret_comm);
}

static rcm_status split_call(rcm_comm *parent, int colour, int key, const struct rcm_call *call,
                             rcm_comm **ret_comm) {
    RCMI_ENTRY;
    struct making m = {.parent = parent, .kind = RCMI_CREATION_SPLIT, .call = call};
    const struct colour mine = {.colour = colour, .key = key};
    struct rcm_call room;
    bool over;
    rcm_status status = making_begin(&m, &room, ret_comm, &over);
    if (over)
        return rcmi_call_out(parent, m.call, status);
    struct colour *all = calloc((size_t)rcm_size(parent), sizeof(*all));
    status = all ? split_run(&m, &mine, all, ret_comm)
                 : rcmi_comm_decline(parent, rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks",
                                                       rcm_size(parent)));
    free(all);
    return rcmi_call_out(parent, m.call, status);
}

rcm_status rcm_comm_split(rcm_comm *parent, int colour, int key, const struct rcm_call *call,
                          rcm_comm **ret_comm) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, split_call(parent, colour, key, call, ret_comm));
}

/* ---- By hosts, and all ---------------------------------------------------------------------- */

static rcm_status hosts_choose(const rcm_comm *parent, int *ret_ranks, int *ret_n) {
    const struct rcmi_members *members = rcmi_comm_members(parent);
    const int own = members->world_rank[members->rank];
    *ret_n = 0;
    for (int r = 0; r < members->size; r++)
        if (rcmi_book_one_host(members->book, own, members->world_rank[r]))
            ret_ranks[(*ret_n)++] = r;
    return RCM_OK;
}

static rcm_status all_choose(const rcm_comm *parent, int *ret_ranks, int *ret_n) {
    *ret_n = rcm_size(parent);
    for (int r = 0; r < *ret_n; r++)
        ret_ranks[r] = r;
    return RCM_OK;
}

/* All ranks call, and know which go together. */
static rcm_status make_chosen(struct making *m,
                              rcm_status (*choose)(const rcm_comm *parent, int *ret_ranks,
                                                   int *ret_n),
                              rcm_comm **ret_comm) {
    struct rcm_call room;
    bool over;
    int n;
    rcm_status status = making_begin(m, &room, ret_comm, &over);
    if (over)
        return rcmi_call_out(m->parent, m->call, status);
    int *ranks = list_new(m->parent);
    if (!ranks)
        return rcmi_call_out(m->parent, m->call, RCM_ERR_NOMEM);
    m->tag = rcmi_comm_next_child(m->parent);
    status = choose(m->parent, ranks, &n);
    if (status == RCM_OK)
        status = making_run_own(m, ranks, n, ret_comm);
    else
        free(ranks);
    return rcmi_call_out(m->parent, m->call, status);
}

rcm_status rcm_comm_split_hosts(rcm_comm *parent, const struct rcm_call *call,
                                rcm_comm **ret_comm) {
    RCMI_ENTRY;
    struct making m = {.parent = parent, .kind = RCMI_CREATION_SPLIT_HOSTS, .call = call};
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, make_chosen(&m, hosts_choose, ret_comm));
}

rcm_status rcm_comm_duplicate(rcm_comm *parent, const struct rcm_call *call, rcm_comm **ret_comm) {
    RCMI_ENTRY;
    struct making m = {.parent = parent, .kind = RCMI_CREATION_DUPLICATE, .call = call};
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, make_chosen(&m, all_choose, ret_comm));
}
