/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that came too early: communicators made from others come to be at different moments on
 * their ranks, so the first may already inquire, open a channel, or fail, when the last has not
 * made its own yet. The latest KEPT_MAX such messages are kept until then. Some are for
 * communicators that are gone; they are pushed out in time.
 *
 * Everything here is under the engine's lock.
 */
#include "early.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MAX 64

struct kept {
    struct kept *next;
    uint64_t epoch;
    int peer;
    bool is_message; /* else the wish to have a channel opened */
    size_t len;
    _Alignas(8) char bytes[];
};

struct rcmi_early {
    struct kept *head, **end; /* oldest first */
    int n;
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
    early->n--;
}

static void early_drop_oldest(struct rcmi_early *early) {
    struct kept *kept = early->head;
    early_remove(early, &early->head);
    free(kept);
}

void rcmi_early_free(struct rcmi_early *early) {
    while (early && early->head)
        early_drop_oldest(early);
    free(early);
}

void rcmi_early_keep(struct rcmi_early *early, uint64_t epoch, int peer, const void *bytes,
                     size_t len) {
    struct kept *kept = malloc(sizeof(*kept) + len);
    if (!kept)
        return;
    *kept = (struct kept){.epoch = epoch, .peer = peer, .is_message = bytes != NULL, .len = len};
    if (bytes)
        memcpy(kept->bytes, bytes, len);
    if (early->n == KEPT_MAX)
        early_drop_oldest(early);
    *early->end = kept;
    early->end = &kept->next;
    early->n++;
}

void rcmi_early_take(struct rcmi_early *early, uint64_t epoch,
                     void (*hear)(void *arg, int peer, const void *bytes, size_t len), void *arg) {
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
        hear(arg, kept->peer, kept->is_message ? kept->bytes : NULL, kept->len);
        free(kept);
    }
}
