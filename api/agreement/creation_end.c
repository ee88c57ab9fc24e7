/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the creation of a communicator fails, and the leader's list of canceled creations. See
 * creation.h. Under the lock.
 */
#include "creation.h"
#include <stdlib.h>
#include <string.h>
#include "log.h"

#define CANCELED_MAX 256 /* at a time; then the oldest is dropped, and its members time out */

/* ---- The end of a call ----------------------------------------------------------------------- */

void rcmi_creating_end(struct rcmi_creating *creating, rcm_status status, int origin) {
    creating->done = true;
    creating->status = status;
    creating->origin = origin;
}

void rcmi_creating_answer(struct rcmi_creations *all, const struct rcmi_creating *creating,
                          struct rcmi_creation *message) {
    for (int i = 0; i < creating->call->n; i++)
        if (rcmi_creating_take(all, creating, creating->call->ranks[i], &message->number))
            rcmi_creating_send(all, creating, creating->call->ranks[i], message);
}

void rcmi_creating_fail(struct rcmi_creations *all, struct rcmi_creating *creating,
                        rcm_status status, int origin) {
    const bool leads = creating->leader == creating->call->parent->rank;
    struct rcmi_creation message;
    rcmi_creating_fill(creating, leads ? RCMI_CREATION_FAIL : RCMI_CREATION_QUIT, &message);
    rcmi_creating_end(creating, status, origin);
    if (!leads) {
        rcmi_creating_send(all, creating, creating->leader, &message);
        return;
    }
    message.status = status;
    message.origin = origin;
    memcpy(message.text, creating->text, sizeof(message.text));
    rcmi_creating_answer(all, creating, &message);
}

/* ---- Canceled creations ---------------------------------------------------------------------- */

/* The answer that each member gets, once, for its call of that creation. */
struct rcmi_canceled {
    struct rcmi_canceled *next;
    struct rcmi_creation fail;
    uint32_t nanswered;
    uint8_t answered[]; /* by world rank: bits */
};

static bool was_answered(const struct rcmi_canceled *canceled, int world) {
    return canceled->answered[world / 8] >> world % 8 & 1;
}

static void note_answered(struct rcmi_canceled *canceled, int world) {
    canceled->nanswered += !was_answered(canceled, world);
    canceled->answered[world / 8] = (uint8_t)(canceled->answered[world / 8] | 1u << world % 8);
}

static void canceled_send(const struct rcmi_creations *all, struct rcmi_canceled *canceled,
                          int world, uint64_t number) {
    note_answered(canceled, world);
    canceled->fail.number = number;
    (void)rcmi_node_send(all->config.node, world, &canceled->fail, sizeof(canceled->fail));
}

static void canceled_end_own(struct rcmi_canceled *canceled, struct rcmi_creating *creating,
                             int world) {
    note_answered(canceled, world);
    memcpy(creating->text, canceled->fail.text, sizeof(creating->text));
    rcmi_creating_end(creating, RCM_ERR_CANCELED, canceled->fail.origin);
}

/* Answers the members that have sent HELLO. */
static void canceled_answer(struct rcmi_creations *all, struct rcmi_canceled *canceled) {
    uint64_t number;
    for (int r = 0; r < all->config.nranks; r++)
        if (!was_answered(canceled, r) && rcmi_hello_take(all, r, &canceled->fail, &number))
            canceled_send(all, canceled, r, number);
}

static void canceled_remove(struct rcmi_canceled **at) {
    struct rcmi_canceled *canceled = *at;
    *at = canceled->next;
    free(canceled);
}

/* Stores it for members that call later; in the order of cancels. */
static void canceled_keep(struct rcmi_creations *all, struct rcmi_canceled *canceled) {
    struct rcmi_canceled **end = &all->canceled;
    int n = 0;
    for (; *end; end = &(*end)->next)
        n++;
    *end = canceled;
    if (n == CANCELED_MAX)
        canceled_remove(&all->canceled);
}

void rcmi_creation_cancel(struct rcmi_creations *all, const struct rcmi_creation *message,
                          int world) {
    struct rcmi_creating *own = rcmi_creating_named(all, message);
    struct rcmi_canceled *canceled =
        calloc(1, sizeof(*canceled) + ((size_t)all->config.nranks + 7) / 8);
    if (!canceled) {
        rcmi_log(RCMI_LOG_ERROR, "a canceled communicator is not recorded: no memory");
        if (own)
            rcmi_creating_end(own, RCM_ERR_CANCELED, message->origin);
        return;
    }
    canceled->fail = *message;
    canceled->fail.type = RCMI_CREATION_FAIL;
    canceled->fail.status = RCM_ERR_CANCELED;
    if (world == all->config.rank)
        note_answered(canceled, world);
    else
        canceled_send(all, canceled, world, message->number);
    if (own)
        canceled_end_own(canceled, own, all->config.rank);
    canceled_answer(all, canceled);
    if (canceled->nanswered < canceled->fail.n)
        canceled_keep(all, canceled);
    else
        free(canceled);
}

/* The oldest of that name that has not answered the rank. */
static struct rcmi_canceled **canceled_find(struct rcmi_creations *all,
                                            const struct rcmi_creation *message, int world) {
    struct rcmi_canceled **at = &all->canceled;
    while (*at && (!rcmi_creation_same(&(*at)->fail, message) || was_answered(*at, world)))
        at = &(*at)->next;
    return at;
}

bool rcmi_creation_refuse(struct rcmi_creations *all, const struct rcmi_creation *message,
                          int world, struct rcmi_creating *own) {
    struct rcmi_canceled **at = canceled_find(all, message, world);
    if (!*at)
        return false;
    if (own)
        canceled_end_own(*at, own, world);
    else
        canceled_send(all, *at, world, message->number);
    if ((*at)->nanswered >= (*at)->fail.n)
        canceled_remove(at);
    return true;
}

void rcmi_creations_forget(struct rcmi_creations *all, uint64_t parent) {
    pthread_mutex_lock(&all->lock);
    struct rcmi_canceled **at = &all->canceled;
    while (*at) {
        if ((*at)->fail.parent == parent)
            canceled_remove(at);
        else
            at = &(*at)->next;
    }
    pthread_mutex_unlock(&all->lock);
}

void rcmi_canceled_free(struct rcmi_creations *all) {
    while (all->canceled)
        canceled_remove(&all->canceled);
}
