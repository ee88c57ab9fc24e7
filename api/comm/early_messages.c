/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages for communicators that this rank has not made yet. A communicator made from another one
 * is not made at the same moment on all its ranks. So the first rank may already inquire, open a
 * channel or fail before the last has made its own. Such messages are stored until then. The latest
 * QUESTIONS_MAX questions are kept. One failure and one channel request per communicator and peer
 * are kept, because they are not sent again. Messages for communicators that ended here recently
 * are not kept. Messages for a communicator that is never made here are displaced in time.
 *
 * Everything here is under the engine's lock.
 */
#include "early_messages.h"
#include <stdlib.h>
#include <string.h>

#define QUESTIONS_MAX 64
#define NEEDED_MAX    4096
#define OVER_MAX      256

struct kept {
    struct kept *next;
    uint64_t epoch;
    int peer;
    enum rcmi_early_kind kind;
    size_t len;
    _Alignas(8) char bytes[];
};

struct rcmi_early {
    struct kept *head, **end; /* oldest first */
    int questions, needed;    /* number of questions, and of all others */
    struct {
        uint64_t epoch;
        bool left;
    } over[OVER_MAX]; /* ring buffer of the last communicators that ended */
    unsigned nover;
};

struct rcmi_early *rcmi_early_create(void) {
    struct rcmi_early *early = calloc(1, sizeof(*early));
    if (early)
        early->end = &early->head;
    return early;
}

static void early_remove(struct rcmi_early *early, struct kept **at) {
    struct kept *kept = *at;
    *at = kept->next;
    if (!*at)
        early->end = at;
    if (kept->kind == RCMI_EARLY_QUESTION)
        early->questions--;
    else
        early->needed--;
}

static void early_drop(struct rcmi_early *early, struct kept **at) {
    struct kept *kept = *at;
    early_remove(early, at);
    free(kept);
}

void rcmi_early_free(struct rcmi_early *early) {
    while (early && early->head)
        early_drop(early, &early->head);
    free(early);
}

static bool is_question(const struct kept *kept) {
    return kept->kind == RCMI_EARLY_QUESTION;
}

/* Makes room for one more of its kind. */
static void early_make_room(struct rcmi_early *early, bool question) {
    struct kept **at = &early->head;
    if (question ? early->questions < QUESTIONS_MAX : early->needed < NEEDED_MAX)
        return;
    while (is_question(*at) != question)
        at = &(*at)->next;
    early_drop(early, at);
}

static bool early_is_over(const struct rcmi_early *early, uint64_t epoch) {
    for (int i = 0; i < OVER_MAX; i++)
        if (early->over[i].epoch == epoch)
            return true;
    return false;
}

bool rcmi_early_was_left(const struct rcmi_early *early, uint64_t epoch) {
    for (int i = 0; i < OVER_MAX; i++)
        if (early->over[i].left && early->over[i].epoch == epoch)
            return true;
    return false;
}

/* Whether an equal message is stored already. */
static bool early_has(const struct rcmi_early *early, enum rcmi_early_kind kind, uint64_t epoch,
                      int peer) {
    for (const struct kept *kept = early->head; kept && kind != RCMI_EARLY_QUESTION;
         kept = kept->next)
        if (kept->epoch == epoch && kept->kind == kind && kept->peer == peer)
            return true;
    return false;
}

static void early_append(struct rcmi_early *early, struct kept *kept) {
    *early->end = kept;
    early->end = &kept->next;
    if (is_question(kept))
        early->questions++;
    else
        early->needed++;
}

void rcmi_early_keep(struct rcmi_early *early, enum rcmi_early_kind kind, uint64_t epoch, int peer,
                     const void *bytes, size_t len) {
    if (early_is_over(early, epoch) || early_has(early, kind, epoch, peer))
        return;
    struct kept *kept = malloc(sizeof(*kept) + len);
    if (!kept)
        return;
    *kept = (struct kept){.epoch = epoch, .peer = peer, .kind = kind, .len = len};
    if (len > 0)
        memcpy(kept->bytes, bytes, len);
    early_make_room(early, kind == RCMI_EARLY_QUESTION);
    early_append(early, kept);
}

void rcmi_early_over(struct rcmi_early *early, uint64_t epoch, bool left) {
    struct kept **at = &early->head;
    const unsigned next = early->nover++ % OVER_MAX;
    early->over[next].epoch = epoch;
    early->over[next].left = left;
    while (*at)
        if ((*at)->epoch == epoch)
            early_drop(early, at);
        else
            at = &(*at)->next;
}

void rcmi_early_take(struct rcmi_early *early, uint64_t epoch,
                     void (*receive)(void *arg, int peer, const void *bytes, size_t len),
                     void *arg) {
    struct kept **at = &early->head, *mine = NULL, **end = &mine;
    while (*at) {
        struct kept *kept = *at;
        if (kept->epoch != epoch) {
            at = &kept->next;
            continue;
        }
        early_remove(early, at);
        kept->next = NULL;
        *end = kept;
        end = &kept->next;
    }
    while (mine) {
        struct kept *kept = mine;
        mine = kept->next;
        receive(arg, kept->peer, kept->kind == RCMI_EARLY_WANTED ? NULL : kept->bytes, kept->len);
        free(kept);
    }
}
