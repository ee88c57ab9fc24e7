/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that make communicators of some ranks of another one. A rank sends HELLO to its leader,
 * or leads, until all members have called or the deadline passes. See creation.h for the protocol.
 * Not here: failing and cancels (creation_end.c), messages of other ranks (creation_receive.c), and
 * the use of the epoch (api/comm/group.c).
 */
#include "creation.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "log.h"
#include "thread.h"

#define MS        INT64_C(1000000)
#define LOOK_NS   (20 * MS)   /* interval of polls of what does not wake this thread */
#define CALL_NS   (100 * MS)  /* then the leader sends ASK to the missing members */
#define ANSWER_NS (500 * MS)  /* wait for an answer */
#define GRACE_NS  (1000 * MS) /* wait for the leader's FAIL: it sends ASK first */

/* ---- Life ------------------------------------------------------------------------------------ */

rcm_status rcmi_creations_create(const struct rcmi_creations_config *config,
                                 struct rcmi_creations **ret_creations) {
    struct rcmi_creations *all = calloc(1, sizeof(*all));
    struct rcmi_creation_hello **hellos = calloc((size_t)config->nranks, sizeof(*hellos));
    if (!all || !hellos) {
        free(all);
        free(hellos);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", config->nranks);
    }
    rcmi_condition_init(&all->changed);
    pthread_mutex_init(&all->lock, NULL);
    all->config = *config;
    all->hellos = hellos;
    *ret_creations = all;
    return RCM_OK;
}

void rcmi_creations_free(struct rcmi_creations *all) {
    if (!all)
        return;
    for (int r = 0; r < all->config.nranks; r++)
        rcmi_creation_lost(all, r);
    rcmi_canceled_free(all);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    free(all->hellos);
    free(all);
}

void rcmi_creations_wake(struct rcmi_creations *all) {
    pthread_mutex_lock(&all->lock);
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

/* ---- The end of a call ----------------------------------------------------------------------- */

/* Leader: all members have called. */
static void lead_go(struct rcmi_creations *all, struct rcmi_creating *creating) {
    struct rcmi_creation go;
    rcmi_creating_end(creating, RCM_OK, -1);
    creating->epoch = RCMI_EPOCH_GROUP | (uint64_t)(uint32_t)all->config.rank << 32 | ++all->epochs;
    rcmi_creating_fill(creating, RCMI_CREATION_GO, &go);
    go.epoch = creating->epoch;
    rcmi_creating_answer(all, creating, &go);
}

static bool is_canceled(const struct rcmi_creating *creating) {
    /* Relaxed: polled. */
    return creating->call->canceled &&
           atomic_load_explicit(creating->call->canceled, memory_order_relaxed);
}

static void cancel_fill(const struct rcmi_creating *creating, struct rcmi_creation *message) {
    const struct rcmi_creation_call *call = creating->call;
    char who[RCMI_WHO_TEXT], ours[120];
    rcmi_creating_fill(creating, RCMI_CREATION_CANCEL, message);
    rcmi_creation_describe(call->ranks, call->n, call->tag, ours, sizeof(ours));
    message->origin = call->parent->rank;
    snprintf(message->text, sizeof(message->text), "%s canceled %s with %s",
             rcmi_members_describe(call->parent, call->parent->rank, who),
             rcmi_creation_function(call->kind), ours);
}

/* A member waits for the leader's answer, which decides whether the others have made the
 * communicator. */
static void creating_cancel(struct rcmi_creations *all, struct rcmi_creating *creating,
                            int64_t now) {
    struct rcmi_creation message;
    cancel_fill(creating, &message);
    memcpy(creating->text, message.text, sizeof(creating->text));
    if (creating->attendance) {
        rcmi_creation_cancel(all, &message, all->config.rank);
    } else if (creating->canceled_until == 0) {
        creating->canceled_until = now + ANSWER_NS;
        rcmi_creating_send(all, creating, creating->leader, &message);
    } else if (now >= creating->canceled_until) {
        rcmi_creating_end(creating, RCM_ERR_CANCELED, message.origin);
    }
}

/* ---- Deadline -------------------------------------------------------------------------------- */

/* On the leader the first missing member, on another member the leader. */
static int first_missing(const struct rcmi_creating *creating) {
    const int *ranks = creating->call->ranks;
    for (int i = 0; creating->attendance && i < creating->call->n; i++)
        if (creating->attendance[ranks[i]] == RCMI_ATTENDANCE_MISSING)
            return ranks[i];
    return creating->leader;
}

static void creating_ask(const struct rcmi_creations *all, const struct rcmi_creating *creating,
                         int rank) {
    struct rcmi_creation ask;
    rcmi_creating_fill(creating, RCMI_CREATION_ASK, &ask);
    rcmi_creating_send(all, creating, rank, &ask);
}

/* Writes the error text about the queried rank. Returns the status. */
static rcm_status late_describe(struct rcmi_creating *creating) {
    const struct rcmi_creation_call *call = creating->call;
    const struct rcmi_creation *answer = &creating->answer;
    const char *function = rcmi_creation_function(call->kind);
    char who[RCMI_WHO_TEXT], ours[120];
    rcmi_members_describe(call->parent, creating->queried, who);
    rcmi_creation_describe(call->ranks, call->n, call->tag, ours, sizeof(ours));
    if (creating->answered && answer->state == RCMI_CREATION_DIFFERS) {
        snprintf(creating->text, sizeof(creating->text),
                 "%s was called with %s on rank %d, but with %.110s on %s", function, ours,
                 call->parent->rank, answer->text, who);
        return RCM_ERR_MISMATCH;
    }
    const int used =
        snprintf(creating->text, sizeof(creating->text),
                 "%s has not called %s with %s within the deadline", who, function, ours);
    if (creating->answered && answer->state == RCMI_CREATION_OTHER && used > 0)
        snprintf(creating->text + used, sizeof(creating->text) - (size_t)used,
                 "; it is in %s with %.110s", rcmi_creation_function(answer->kind), answer->text);
    return RCM_ERR_TIMEOUT;
}

/* The queried rank's call has failed as well. */
static void late_fail_other(const struct rcmi_creations *all,
                            const struct rcmi_creating *creating) {
    struct rcmi_creation fail;
    rcmi_creating_fill(creating, RCMI_CREATION_FAIL, &fail);
    fail.number = creating->answer.own_number;
    fail.status = RCM_ERR_MISMATCH;
    fail.origin = creating->call->parent->rank;
    memcpy(fail.text, creating->text, sizeof(fail.text));
    rcmi_creating_send(all, creating, creating->queried, &fail);
}

/* The deadline has passed: queries the missing rank, and fails with its answer, or without. */
static void creating_late(struct rcmi_creations *all, struct rcmi_creating *creating, int64_t now) {
    if (creating->ask_until == 0) {
        creating->queried = first_missing(creating);
        creating->ask_until = now + ANSWER_NS;
        creating_ask(all, creating, creating->queried);
    } else if (creating->answered || now >= creating->ask_until) {
        const rcm_status status = late_describe(creating);
        if (status == RCM_ERR_MISMATCH)
            late_fail_other(all, creating);
        rcmi_creating_fail(all, creating, status, creating->queried);
    }
}

/* ---- Polling --------------------------------------------------------------------------------- */

static bool is_lost(const struct rcmi_creating *creating, int rank) {
    const struct rcmi_creation_call *call = creating->call;
    return rank != call->parent->rank && call->left(call->arg, rank);
}

/* A rank that this one waits for, or that waits for it, and that has left or died; -1. */
static int find_lost(const struct rcmi_creating *creating) {
    const struct rcmi_creation_call *call = creating->call;
    if (!creating->attendance)
        return is_lost(creating, creating->leader) ? creating->leader : -1;
    for (int i = 0; i < call->n; i++)
        if (is_lost(creating, call->ranks[i]))
            return call->ranks[i];
    return -1;
}

static void creating_lost(struct rcmi_creations *all, struct rcmi_creating *creating, int rank) {
    char who[RCMI_WHO_TEXT];
    snprintf(creating->text, sizeof(creating->text),
             "%s, a member of the new communicator, has died or left",
             rcmi_members_describe(creating->call->parent, rank, who));
    rcmi_creating_fail(all, creating, RCM_ERR_PEER, rank);
}

/* Makes a link to each missing member, so that its end is detected. */
static void lead_call(const struct rcmi_creations *all, struct rcmi_creating *creating) {
    const int *ranks = creating->call->ranks;
    creating->called = true;
    for (int i = 0; i < creating->call->n; i++)
        if (creating->attendance[ranks[i]] == RCMI_ATTENDANCE_MISSING)
            creating_ask(all, creating, ranks[i]);
}

static void creating_warn(struct rcmi_creating *creating) {
    const struct rcmi_creation_call *call = creating->call;
    char who[RCMI_WHO_TEXT], ours[120];
    rcmi_creation_describe(call->ranks, call->n, call->tag, ours, sizeof(ours));
    creating->warned = true;
    rcmi_log(RCMI_LOG_WARN, "no progress for %" PRId64 " s in %s with %s: waiting for %s",
             call->warn_after_ns / (1000 * MS), rcmi_creation_function(call->kind), ours,
             rcmi_members_describe(call->parent, first_missing(creating), who));
}

static void creating_look(struct rcmi_creations *all, struct rcmi_creating *creating) {
    const struct rcmi_creation_call *call = creating->call;
    const int64_t now = rcmi_now_ns(), waited = now - creating->begun_ns;
    const int lost = find_lost(creating);
    const int64_t grace = creating->attendance ? 0 : GRACE_NS;
    if (creating->differs) {
        rcmi_creating_fail(all, creating, creating->status, creating->origin);
    } else if (call->failed(call->arg)) {
        snprintf(creating->text, sizeof(creating->text), "the communicator has failed");
        rcmi_creating_fail(all, creating, RCM_ERR_ABORTED, -1);
    } else if (lost >= 0) {
        creating_lost(all, creating, lost);
    } else if (is_canceled(creating)) {
        creating_cancel(all, creating, now);
    } else if (creating->deadline != RCMI_NEVER && now - grace >= creating->deadline) {
        creating_late(all, creating, now);
    }
    if (!creating->done && creating->attendance && !creating->called && waited > CALL_NS)
        lead_call(all, creating);
    if (!creating->done && !creating->warned && call->warn_after_ns > 0 &&
        waited > call->warn_after_ns)
        creating_warn(creating);
}

/* A look visits all members, so there is not one for each HELLO. */
static void creating_wait(struct rcmi_creations *all, struct rcmi_creating *creating) {
    int64_t look = 0;
    while (!creating->done) {
        if (creating->attendance && creating->missing == 0) {
            lead_go(all, creating);
            return;
        }
        if (rcmi_now_ns() >= look || creating->answered || creating->differs ||
            (is_canceled(creating) && creating->canceled_until == 0)) {
            creating_look(all, creating);
            look = rcmi_now_ns() + LOOK_NS;
        }
        if (!creating->done)
            (void)rcmi_condition_wait(&all->changed, &all->lock, look);
    }
}

/* ---- The call -------------------------------------------------------------------------------- */

static uint64_t hash_ranks(const int *ranks, int n) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, by numbers */
    for (int i = 0; i < n; i++) {
        hash = (hash ^ (uint32_t)ranks[i]) * UINT64_C(0x100000001b3);
        hash ^= hash >> 32;
    }
    return hash;
}

static int lowest(const int *ranks, int n) {
    int low = ranks[0];
    for (int i = 1; i < n; i++)
        low = ranks[i] < low ? ranks[i] : low;
    return low;
}

/* Leader: sets the members to wait for; some may have called, or canceled, already. */
static void lead_begin(struct rcmi_creations *all, struct rcmi_creating *creating) {
    const struct rcmi_creation_call *call = creating->call;
    struct rcmi_creation name;
    rcmi_creating_fill(creating, RCMI_CREATION_HELLO, &name);
    if (rcmi_creation_refuse(all, &name, all->config.rank, creating))
        return;
    for (int i = 0; i < call->n; i++) {
        const int rank = call->ranks[i];
        const struct rcmi_creation_hello *hello = all->hellos[call->parent->world_rank[rank]];
        if (rank == call->parent->rank)
            continue;
        creating->attendance[rank] = RCMI_ATTENDANCE_MISSING;
        creating->missing++;
        while (hello && !rcmi_creating_is(creating, &hello->message))
            hello = hello->next;
        if (hello)
            rcmi_creating_note(creating, rank, hello);
    }
}

static void member_begin(const struct rcmi_creations *all, const struct rcmi_creating *creating) {
    const rcmi_deadline deadline = creating->call->deadline;
    struct rcmi_creation hello;
    rcmi_creating_fill(creating, RCMI_CREATION_HELLO, &hello);
    hello.left_ms = deadline == RCMI_NEVER ? -1 : rcmi_deadline_left_ms(deadline);
    rcmi_creating_send(all, creating, creating->leader, &hello);
}

static void creating_remove(struct rcmi_creations *all, const struct rcmi_creating *creating) {
    struct rcmi_creating **at = &all->head;
    while (*at != creating)
        at = &(*at)->next;
    *at = creating->next;
}

static void creating_run(struct rcmi_creations *all, struct rcmi_creating *creating) {
    pthread_mutex_lock(&all->lock);
    creating->number = ++all->calls;
    creating->next = all->head;
    all->head = creating;
    if (creating->attendance)
        lead_begin(all, creating);
    else
        member_begin(all, creating);
    creating_wait(all, creating);
    creating_remove(all, creating);
    pthread_mutex_unlock(&all->lock);
}

rcm_status rcmi_creation_join(struct rcmi_creations *all, const struct rcmi_creation_call *call,
                              uint64_t *ret_epoch) {
    struct rcmi_creating creating = {.call = call,
                                     .hash = hash_ranks(call->ranks, call->n),
                                     .leader = lowest(call->ranks, call->n),
                                     .deadline = call->deadline,
                                     .begun_ns = rcmi_now_ns(),
                                     .origin = -1};
    if (creating.leader == call->parent->rank) {
        creating.attendance = calloc((size_t)call->parent->size, 1);
        if (!creating.attendance)
            return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", call->parent->size);
    }
    creating_run(all, &creating);
    free(creating.attendance);
    *ret_epoch = creating.epoch;
    return creating.status == RCM_OK
               ? RCM_OK
               : rcmi_fail_origin(creating.status, creating.origin, "%s", creating.text);
}
