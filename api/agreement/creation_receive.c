/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of other ranks in creations of communicators, on the loop thread, and what is kept of
 * them. See creation.h. Not here: the calls themselves (creation.c).
 */
#include "creation.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "log.h"

#define HELLOS_MAX 64 /* of one peer, with a thread in each */

/* ---- Hellos ---------------------------------------------------------------------------------- */

/* Stores it in place of an earlier one of that name. NULL: no memory, or too many. */
static const struct rcmi_creation_hello *hello_keep(struct rcmi_creations *all, int peer,
                                                    const struct rcmi_creation *message) {
    struct rcmi_creation_hello **at = &all->hellos[peer];
    int n = 0;
    for (; *at && !rcmi_creation_same(&(*at)->message, message); at = &(*at)->next)
        n++;
    if (!*at && n < HELLOS_MAX)
        *at = calloc(1, sizeof(**at));
    if (!*at) {
        rcmi_log(RCMI_LOG_ERROR, "a request of rank %d for a new communicator is dropped: %s", peer,
                 n < HELLOS_MAX ? "no memory" : "it has too many at a time");
        return NULL;
    }
    (*at)->message = *message;
    (*at)->deadline = rcmi_deadline_in(message->left_ms);
    return *at;
}

static void receive_hello(struct rcmi_creations *all, int peer,
                          const struct rcmi_creation *message) {
    if (rcmi_creation_refuse(all, message, peer, NULL))
        return;
    const struct rcmi_creation_hello *hello = hello_keep(all, peer, message);
    struct rcmi_creating *creating = hello ? rcmi_creating_named(all, message) : NULL;
    const int rank = creating ? rcmi_members_rank(creating->call->parent, peer) : -1;
    if (rank >= 0)
        rcmi_creating_note(creating, rank, hello);
}

/* False: it was answered already. */
static bool hello_drop(struct rcmi_creations *all, int peer, uint64_t number) {
    struct rcmi_creation_hello **at = &all->hellos[peer];
    while (*at && (*at)->message.number != number)
        at = &(*at)->next;
    struct rcmi_creation_hello *hello = *at;
    if (!hello)
        return false;
    *at = hello->next;
    free(hello);
    return true;
}

static void receive_cancel(struct rcmi_creations *all, int peer,
                           const struct rcmi_creation *message) {
    if (hello_drop(all, peer, message->number))
        rcmi_creation_cancel(all, message, peer);
}

static void receive_quit(struct rcmi_creations *all, int peer,
                         const struct rcmi_creation *message) {
    struct rcmi_creating *creating = rcmi_creating_named(all, message);
    if (!hello_drop(all, peer, message->number))
        return;
    const int rank = creating ? rcmi_members_rank(creating->call->parent, peer) : -1;
    if (rank < 0 || !creating->attendance || creating->attendance[rank] != RCMI_ATTENDANCE_HERE)
        return;
    creating->attendance[rank] = RCMI_ATTENDANCE_MISSING;
    creating->missing++;
}

/* ---- Results --------------------------------------------------------------------------------- */

static struct rcmi_creating *find_numbered(struct rcmi_creations *all, uint64_t number) {
    struct rcmi_creating *creating = all->head;
    while (creating && (creating->done || creating->number != number))
        creating = creating->next;
    return creating;
}

static bool is_leader(const struct rcmi_creating *creating, int peer) {
    return creating && creating->call->parent->world_rank[creating->leader] == peer;
}

static void receive_go(struct rcmi_creations *all, int peer, const struct rcmi_creation *message) {
    struct rcmi_creating *creating = find_numbered(all, message->number);
    if (is_leader(creating, peer)) {
        creating->done = true;
        creating->status = RCM_OK;
        creating->epoch = message->epoch;
        return;
    }
    /* The others count on this rank, but its caller has already got an error. */
    rcmi_fail(RCM_ERR_ABORTED, 0,
              "rank %d of the world had given up when the others made this "
              "communicator",
              all->config.rank);
    all->config.revoke(all->config.arg, message->epoch);
}

/* From the leader, or from a rank that was called with other ranks and found that out. */
static void receive_fail(struct rcmi_creations *all, int peer,
                         const struct rcmi_creation *message) {
    struct rcmi_creating *creating = find_numbered(all, message->number);
    if (!creating || rcmi_members_rank(creating->call->parent, peer) < 0)
        return;
    creating->done = is_leader(creating, peer);
    creating->differs = !creating->done;
    creating->status = (rcm_status)message->status;
    creating->origin = message->origin >= 0 && message->origin < creating->call->parent->size
                           ? message->origin
                           : -1;
    memcpy(creating->text, message->text, sizeof(creating->text));
}

/* ---- Queries --------------------------------------------------------------------------------- */

static bool is_queried(const struct rcmi_creating *creating, const struct rcmi_creation *message) {
    return message->tag == creating->call->tag && message->kind == (uint32_t)creating->call->kind;
}

/* A call on that parent, preferably of the same tag and kind. */
static const struct rcmi_creating *find_queried(const struct rcmi_creations *all,
                                                const struct rcmi_creation *message) {
    const struct rcmi_creating *found = NULL;
    for (const struct rcmi_creating *c = all->head; c; c = c->next) {
        if (c->done || c->call->parent->epoch != message->parent)
            continue;
        if (!found || is_queried(c, message))
            found = c;
    }
    return found;
}

static void receive_ask(const struct rcmi_creations *all, int peer,
                        const struct rcmi_creation *message) {
    const struct rcmi_creating *creating = find_queried(all, message);
    struct rcmi_creation answer = *message;
    answer.type = RCMI_CREATION_ANSWER;
    answer.state = RCMI_CREATION_NONE;
    if (creating && !rcmi_creating_is(creating, message)) {
        answer.state = is_queried(creating, message) ? RCMI_CREATION_DIFFERS : RCMI_CREATION_OTHER;
        rcmi_creation_describe(creating->call->ranks, creating->call->n, creating->call->tag,
                               answer.text, sizeof(answer.text));
        answer.kind = creating->call->kind;
        answer.own_number = creating->number;
    }
    (void)rcmi_node_send(all->config.node, peer, &answer, sizeof(answer));
}

static void receive_answer(struct rcmi_creations *all, int peer,
                           const struct rcmi_creation *message) {
    struct rcmi_creating *creating = find_numbered(all, message->number);
    if (!creating || creating->ask_until == 0 ||
        creating->call->parent->world_rank[creating->queried] != peer)
        return;
    creating->answered = true;
    creating->answer = *message;
}

void rcmi_creation_receive(struct rcmi_creations *all, int peer,
                           const struct rcmi_creation *message) {
    pthread_mutex_lock(&all->lock);
    switch (message->type) {
    case RCMI_CREATION_HELLO:
        receive_hello(all, peer, message);
        break;
    case RCMI_CREATION_QUIT:
        receive_quit(all, peer, message);
        break;
    case RCMI_CREATION_CANCEL:
        receive_cancel(all, peer, message);
        break;
    case RCMI_CREATION_GO:
        receive_go(all, peer, message);
        break;
    case RCMI_CREATION_FAIL:
        receive_fail(all, peer, message);
        break;
    case RCMI_CREATION_ASK:
        receive_ask(all, peer, message);
        break;
    default:
        receive_answer(all, peer, message);
        break;
    }
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

void rcmi_creation_lost(struct rcmi_creations *all, int peer) {
    pthread_mutex_lock(&all->lock);
    while (all->hellos[peer]) {
        struct rcmi_creation_hello *hello = all->hellos[peer];
        all->hellos[peer] = hello->next;
        free(hello);
    }
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}
