/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of a thread: created from the world or from each other, ended in any order, aborted
 * and then shrunk. All ranks keep a list of all groups of their thread, with their members.
 */
#include "stress.h"
#include <stdio.h>
#include <string.h>

/* ---- The list -------------------------------------------------------------------------------- */

static int rank_in(const struct group *group, int world_rank) {
    for (int i = 0; i < group->n; i++)
        if (group->members[i] == world_rank)
            return i;
    return -1;
}

void groups_begin(struct driver *driver) {
    struct group *world = &driver->groups[0];
    for (int i = 0; i < GROUPS_MAX; i++)
        driver->groups[i] = (struct group){.queue = -1};
    world->live = true;
    world->shared = driver->episode->threads > 1;
    world->n = driver->episode->ranks;
    world->me = driver->rank;
    world->comm = driver->world;
    for (int i = 0; i < world->n; i++)
        world->members[i] = i;
}

static bool group_fits(const struct driver *driver, const struct group *group, enum scope scope) {
    if (!group->live)
        return false;
    return !group->shared || scope == SCOPE_ANY || (scope == SCOPE_FIRST && driver->number == 0);
}

struct group *groups_draw(struct driver *driver, struct draw *what, enum scope scope) {
    struct group *fit[GROUPS_MAX];
    unsigned n = 0;
    for (int i = 0; i < GROUPS_MAX; i++)
        if (group_fits(driver, &driver->groups[i], scope))
            fit[n++] = &driver->groups[i];
    return n > 0 ? fit[draw_below(what, n)] : NULL;
}

static struct group *group_free_one(struct driver *driver) {
    for (int i = 1; i < GROUPS_MAX; i++)
        if (!driver->groups[i].live)
            return &driver->groups[i];
    return NULL;
}

/* Members are ranks of the parent. */
static struct group *group_add(struct job *job, int n, const int *ranks, rcm_comm *comm) {
    struct driver *driver = job->driver;
    struct group *group = group_free_one(driver);
    *group = (struct group){.live = true, .n = n, .comm = comm, .queue = -1};
    for (int i = 0; i < n; i++)
        group->members[i] = job->group->members[ranks[i]];
    group->me = rank_in(group, driver->rank);
    NEED(driver, !comm || (rcm_rank(comm) == group->me && rcm_size(comm) == n),
         "%s: rank %d of %d, not %d of %d", job->name, rcm_rank(comm), rcm_size(comm), group->me,
         n);
    if (group->me >= 0 && draw_one_in(&job->how, 3) &&
        rcm_comm_completions(comm, &group->queue) != RCM_OK)
        stress_fail(driver, "%s: rcm_comm_completions: %s", job->name, rcm_last_error());
    return group;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void nothing(struct job *job) {
    (void)job;
}

static void subset_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "rcm_comm_subset of %d ranks", job->group->n);
}

/* A rank that is no member may call or not. */
static void subset_call(struct job *job) {
    const struct driver *driver = job->driver;
    const int n = 1 + (int)draw_below(&job->what, (unsigned)job->group->n);
    int ranks[RANKS_MAX], at = 0;
    rcm_comm *comm = NULL;
    draw_order(&job->what, job->group->n, ranks);
    while (at < n && ranks[at] != job->group->me)
        at++;
    if (!group_free_one(job->driver))
        return;
    if (job->group->comm && (at < n || draw_one_in(&job->how, 2)))
        job->status =
            rcm_comm_subset(job->group->comm, ranks, n, (uint64_t)driver->number, NULL, &comm);
    if (job->status == RCM_OK)
        group_add(job, n, ranks, comm);
}

#define GROUP_ROW .whole = true, .everybody = true, .check = nothing

const struct row row_subset = {.name = "subset",
                               .weight = 7,
                               .scope = SCOPE_ANY,
                               .draw = subset_draw,
                               .call = subset_call,
                               GROUP_ROW};

static void split_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "rcm_comm_split of %d ranks", job->group->n);
}

/* Two colours; a rank without a colour is in neither group. All ranks count two groups, although
 * each has a handle for its own colour only. */
static void split_call(struct job *job) {
    const int n = job->group->n, me = job->group->me;
    int order[RANKS_MAX], colours[RANKS_MAX], ranks[2][RANKS_MAX], count[2] = {0, 0};
    rcm_comm *comm = NULL;
    draw_order(&job->what, n, order);
    for (int i = 0; i < n; i++) {
        const int colour = (int)draw_below(&job->what, 5) / 2;
        colours[order[i]] = colour < 2 ? colour : -1;
        if (colour < 2)
            ranks[colour][count[colour]++] = order[i];
    }
    int key = 0;
    for (int i = 0; i < n; i++)
        if (order[i] == me)
            key = i - 3;
    if (me >= 0)
        job->status = rcm_comm_split(job->group->comm, colours[me], key, NULL, &comm);
    if (job->status != RCM_OK)
        return;
    if (me >= 0 && colours[me] < 0 && rcm_destroy(comm) != RCM_OK)
        stress_fail(job->driver, "%s: %s", job->name, rcm_last_error());
    for (int colour = 0; colour < 2; colour++) {
        const bool mine = me >= 0 && colours[me] == colour;
        if (count[colour] > 0 && group_free_one(job->driver))
            group_add(job, count[colour], ranks[colour], mine ? comm : NULL);
        else if (mine && rcm_destroy(comm) != RCM_OK)
            stress_fail(job->driver, "%s: %s", job->name, rcm_last_error());
    }
}

const struct row row_split = {.name = "split",
                              .weight = 3,
                              .scope = SCOPE_FIRST,
                              .draw = split_draw,
                              .call = split_call,
                              GROUP_ROW};

static void duplicate_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "rcm_comm_duplicate of %d ranks", job->group->n);
}

static void duplicate_call(struct job *job) {
    int ranks[RANKS_MAX];
    rcm_comm *comm = NULL;
    for (int i = 0; i < job->group->n; i++)
        ranks[i] = i;
    if (!group_free_one(job->driver))
        return;
    if (job->group->me >= 0)
        job->status = rcm_comm_duplicate(job->group->comm, NULL, &comm);
    if (job->status == RCM_OK)
        group_add(job, job->group->n, ranks, comm);
}

const struct row row_duplicate = {.name = "duplicate",
                                  .weight = 3,
                                  .scope = SCOPE_FIRST,
                                  .draw = duplicate_draw,
                                  .call = duplicate_call,
                                  GROUP_ROW};

/* ---- End ------------------------------------------------------------------------------------- */

static void group_end(struct driver *driver, struct group *group, rcm_status expected) {
    const rcm_status status = rcm_destroy(group->comm);
    NEED(driver, status == (group->comm ? expected : RCM_OK), "rcm_destroy: %s instead of %s: %s",
         rcm_status_name(status), rcm_status_name(expected), rcm_last_error());
    group->live = false;
    group->comm = NULL;
}

/* A thread must not end the world. */
static bool is_world(const struct job *job) {
    return job->group == &job->driver->groups[0];
}

static void destroy_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "rcm_destroy of %d ranks", job->group->n);
}

/* All ranks leave it, without waiting for each other. */
static void leave_call(struct job *job) {
    jobs_end_of(job->driver, job->group);
    if (job->group->comm)
        NEED(job->driver, rcm_leave(job->group->comm) == RCM_OK, "%s: rcm_leave: %s", job->name,
             rcm_last_error());
    job->group->live = false;
}

/* With active jobs, or after them: their results are available then. */
static void destroy_call(struct job *job) {
    const bool leaves = draw_one_in(&job->what, 4);
    if (is_world(job))
        return;
    if (leaves) {
        leave_call(job);
        return;
    }
    if (draw_one_in(&job->how, 2))
        jobs_end_of(job->driver, job->group);
    jobs_need_no_queue(job->driver, job->group);
    group_end(job->driver, job->group, RCM_OK);
    jobs_end_of(job->driver, job->group);
}

const struct row row_destroy = {.name = "destroy",
                                .weight = 6,
                                .scope = SCOPE_OWN,
                                .draw = destroy_draw,
                                .call = destroy_call,
                                GROUP_ROW};

void groups_end(struct driver *driver, struct draw *what) {
    int order[GROUPS_MAX];
    draw_order(what, GROUPS_MAX, order);
    for (int i = 0; i < GROUPS_MAX; i++) {
        struct group *group = &driver->groups[order[i]];
        if (order[i] == 0 || !group->live)
            continue;
        stress_doing(driver, "destroys a group of %d", group->n);
        group_end(driver, group, RCM_OK);
    }
}

/* ---- Abort ----------------------------------------------------------------------------------- */

static void abort_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "rcm_abort among %d ranks", job->group->n);
}

static void abort_and_wait(struct job *job, int origin) {
    struct group *group = job->group;
    const rcm_status status = rcm_barrier(group->comm, NULL, NULL); /* all ranks are here */
    NEED(job->driver, status == RCM_OK || status == RCM_ERR_ABORTED,
         "%s: the barrier before: %s: %s", job->name, rcm_status_name(status), rcm_last_error());
    jobs_may_abort(job->driver, group);
    if (group->me == origin)
        NEED(job->driver, rcm_abort(group->comm, "the stress program's") == RCM_OK, "%s: %s",
             job->name, rcm_last_error());
    jobs_end_of(job->driver, group);
}

/* Continues with the communicator of rcm_comm_shrink, or without. */
static void abort_call(struct job *job) {
    struct group *group = job->group, old = *group;
    const int origin = (int)draw_below(&job->what, (unsigned)group->n);
    const bool shrinks = draw_one_in(&job->what, 2);
    rcm_comm *rest = NULL;
    if (is_world(job))
        return;
    if (group->me >= 0)
        abort_and_wait(job, origin);
    if (group->me >= 0 && shrinks)
        NEED(job->driver,
             rcm_comm_shrink(group->comm, NULL, &rest) == RCM_OK && rcm_size(rest) == group->n &&
                 rcm_rank(rest) == group->me,
             "%s: rcm_comm_shrink: %s", job->name, rcm_last_error());
    group_end(job->driver, group, group->me >= 0 ? RCM_ERR_ABORTED : RCM_OK);
    if (!shrinks)
        return;
    *group = old;
    group->comm = rest;
    group->queue = -1;
}

const struct row row_abort = {.name = "abort",
                              .weight = 2,
                              .scope = SCOPE_OWN,
                              .draw = abort_draw,
                              .call = abort_call,
                              GROUP_ROW};

/* ---- Handles of non-members ------------------------------------------------------------------ */

void group_absent(struct driver *driver, struct group *group) {
    int64_t untouched = 7;
    if (!group->comm)
        return;
    NEED(driver,
         rcm_barrier(group->comm, NULL, NULL) == RCM_OK &&
             rcm_all_reduce(group->comm, NULL, &untouched, 1, RCM_INT64, RCM_SUM, NULL, NULL) ==
                 RCM_OK &&
             rcm_recv(group->comm, &untouched, 1, RCM_INT64, 0, 1, NULL, NULL) == RCM_OK &&
             untouched == 7,
         "a handle of no member: %s", rcm_last_error());
}

/* ---- Invalid arguments ----------------------------------------------------------------------- */

static void mistake_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "a wrong argument");
    job->expected = RCM_ERR_INVALID;
}

/* On some ranks: nothing is sent. */
static void mistake_call(struct job *job) {
    rcm_comm *comm = job->group->comm;
    const int n = job->group->n;
    int byte = 0;
    const unsigned kind = draw_below(&job->how, 4);
    if (kind == 0)
        job->status = rcm_send(comm, &byte, 1, RCM_INT32, n, 0, NULL, NULL);
    else if (kind == 1)
        job->status = rcm_broadcast(comm, &byte, 1, RCM_INT32, -1, NULL, NULL);
    else if (kind == 2)
        job->status = rcm_all_reduce(comm, &byte, &byte, 1, RCM_FLOAT32, RCM_BXOR, NULL, NULL);
    else
        job->status = rcm_recv(comm, NULL, 1, RCM_INT32, 0, 0, NULL, NULL);
}

const struct row row_mistake = {.name = "mistake",
                                .weight = 2,
                                .scope = SCOPE_FIRST,
                                .draw = mistake_draw,
                                .call = mistake_call,
                                .whole = true,
                                .check = nothing};
