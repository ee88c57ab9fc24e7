/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What other ranks say in creations of communicators, on the loop thread, and what is kept of it.
 * See creation.h. Not here: the calls themselves (creation.c).
 */
#include "creation.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "log.h"

#define HELLOS_MAX 64 /* of one peer, which has a thread in each */

/* ---- Hellos --------------------------------------------------------------------------------- */

/* Keeps it, in the place of an earlier one of that name. NULL: there is no room. */
static const struct rcmi_creation_hello *hello_keep(struct rcmi_creations *all, int peer,
                                                    const struct rcmi_creation *said) {
    struct rcmi_creation_hello **at = &all->hellos[peer];
    int n = 0;
    for (; *at && !rcmi_creation_same(&(*at)->said, said); at = &(*at)->next)
        n++;
    if (!*at && n < HELLOS_MAX)
        *at = calloc(1, sizeof(**at));
    if (!*at) {
        rcmi_log(RCMI_LOG_ERROR, "what rank %d sent to make a communicator is dropped: %s", peer,
                 n < HELLOS_MAX ? "no memory" : "it makes too many at a time");
        return NULL;
    }
    (*at)->said = *said;
    (*at)->deadline = rcmi_deadline_in(said->left_ms);
    return *at;
}

static void hear_hello(struct rcmi_creations *all, int peer, const struct rcmi_creation *said) {
    if (rcmi_creation_refuse(all, said, peer, NULL))
        return;
    const struct rcmi_creation_hello *hello = hello_keep(all, peer, said);
    struct rcmi_creating *creating = hello ? rcmi_creating_named(all, said) : NULL;
    const int rank = creating ? rcmi_members_rank(creating->call->parent, peer) : -1;
    if (rank >= 0)
        rcmi_creating_note(creating, rank, hello);
}

/* False: it has its answer. */
static bool hello_drop(struct rcmi_creations *all, int peer, uint64_t number) {
    struct rcmi_creation_hello **at = &all->hellos[peer];
    while (*at && (*at)->said.number != number)
        at = &(*at)->next;
    struct rcmi_creation_hello *hello = *at;
    if (!hello)
        return false;
    *at = hello->next;
    free(hello);
    return true;
}

static void hear_cancel(struct rcmi_creations *all, int peer, const struct rcmi_creation *said) {
    if (hello_drop(all, peer, said->number))
        rcmi_creation_cancel(all, said, peer);
}

static void hear_quit(struct rcmi_creations *all, int peer, const struct rcmi_creation *said) {
    struct rcmi_creating *creating = rcmi_creating_named(all, said);
    if (!hello_drop(all, peer, said->number))
        return;
    const int rank = creating ? rcmi_members_rank(creating->call->parent, peer) : -1;
    if (rank < 0 || !creating->attendance || creating->attendance[rank] != RCMI_ATTENDANCE_HERE)
        return;
    creating->attendance[rank] = RCMI_ATTENDANCE_MISSING;
    creating->missing++;
}

/* ---- Results -------------------------------------------------------------------------------- */

static struct rcmi_creating *find_numbered(struct rcmi_creations *all, uint64_t number) {
    struct rcmi_creating *creating = all->head;
    while (creating && (creating->done || creating->number != number))
        creating = creating->next;
    return creating;
}

static bool is_leader(const struct rcmi_creating *creating, int peer) {
    return creating && creating->call->parent->world_rank[creating->leader] == peer;
}

static void hear_go(struct rcmi_creations *all, int peer, const struct rcmi_creation *said) {
    struct rcmi_creating *creating = find_numbered(all, said->number);
    if (is_leader(creating, peer)) {
        creating->done = true;
        creating->status = RCM_OK;
        creating->epoch = said->epoch;
        return;
    }
    /* The others count on this rank, and its caller has been told that it failed. */
    rcmi_fail(RCM_ERR_ABORTED, 0,
              "rank %d of the world had given up when the others made this "
              "communicator",
              all->config.rank);
    all->config.revoke(all->config.arg, said->epoch);
}

/* From the leader; or of a rank that was called with other ranks, and has found that out. */
static void hear_fail(struct rcmi_creations *all, int peer, const struct rcmi_creation *said) {
    struct rcmi_creating *creating = find_numbered(all, said->number);
    if (!creating || rcmi_members_rank(creating->call->parent, peer) < 0)
        return;
    creating->done = is_leader(creating, peer);
    creating->differs = !creating->done;
    creating->status = (rcm_status)said->status;
    creating->origin =
        said->origin >= 0 && said->origin < creating->call->parent->size ? said->origin : -1;
    memcpy(creating->text, said->text, sizeof(creating->text));
}

/* ---- Questions ------------------------------------------------------------------------------ */

static bool is_asked_for(const struct rcmi_creating *creating, const struct rcmi_creation *said) {
    return said->tag == creating->call->tag && said->kind == (uint32_t)creating->call->kind;
}

/* A call on that parent, of the tag and kind rather than another one. */
static const struct rcmi_creating *find_asked(const struct rcmi_creations *all,
                                              const struct rcmi_creation *said) {
    const struct rcmi_creating *found = NULL;
    for (const struct rcmi_creating *c = all->head; c; c = c->next) {
        if (c->done || c->call->parent->epoch != said->parent)
            continue;
        if (!found || is_asked_for(c, said))
            found = c;
    }
    return found;
}

static void hear_ask(const struct rcmi_creations *all, int peer, const struct rcmi_creation *said) {
    const struct rcmi_creating *creating = find_asked(all, said);
    struct rcmi_creation answer = *said;
    answer.type = RCMI_CREATION_ANSWER;
    answer.state = RCMI_CREATION_NONE;
    if (creating && !rcmi_creating_is(creating, said)) {
        answer.state = is_asked_for(creating, said) ? RCMI_CREATION_DIFFERS : RCMI_CREATION_OTHER;
        rcmi_creation_describe(creating->call->ranks, creating->call->n, creating->call->tag,
                               answer.text, sizeof(answer.text));
        answer.kind = creating->call->kind;
        answer.own_number = creating->number;
    }
    (void)rcmi_node_send(all->config.node, peer, &answer, sizeof(answer));
}

static void hear_answer(struct rcmi_creations *all, int peer, const struct rcmi_creation *said) {
    struct rcmi_creating *creating = find_numbered(all, said->number);
    if (!creating || creating->ask_until == 0 ||
        creating->call->parent->world_rank[creating->asked] != peer)
        return;
    creating->answered = true;
    creating->answer = *said;
}

void rcmi_creation_hear(struct rcmi_creations *all, int peer, const struct rcmi_creation *said) {
    pthread_mutex_lock(&all->lock);
    switch (said->type) {
    case RCMI_CREATION_HELLO:
        hear_hello(all, peer, said);
        break;
    case RCMI_CREATION_QUIT:
        hear_quit(all, peer, said);
        break;
    case RCMI_CREATION_CANCEL:
        hear_cancel(all, peer, said);
        break;
    case RCMI_CREATION_GO:
        hear_go(all, peer, said);
        break;
    case RCMI_CREATION_FAIL:
        hear_fail(all, peer, said);
        break;
    case RCMI_CREATION_ASK:
        hear_ask(all, peer, said);
        break;
    default:
        hear_answer(all, peer, said);
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
