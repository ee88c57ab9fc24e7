/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of communicators that this rank has not made yet: kept, and heard again once it has.
 * What they mean is not looked at here. Everything is under the engine's lock.
 */
#ifndef RCMI_EARLY_H
#define RCMI_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rcmi_early;

struct rcmi_early *rcmi_early_create(void);
void rcmi_early_free(struct rcmi_early *early);
enum rcmi_early_kind {
    RCMI_EARLY_QUESTION, /* it will be asked, or told, again if nothing comes of it */
    RCMI_EARLY_FAILURE,  /* the first of a communicator counts */
    RCMI_EARLY_LEFT,     /* peer has left the communicator */
    RCMI_EARLY_WANTED,   /* the wish of peer that its point-to-point channel be opened: no bytes */
};
/* Keeps it, but for a communicator that is over. Without memory it is lost. */
void rcmi_early_keep(struct rcmi_early *early, enum rcmi_early_kind kind, uint64_t epoch, int peer,
                     const void *bytes, size_t len);
/* A communicator of this rank is over: nothing is kept for it from now on. left: this rank has left
 * it, and the others may not know; _was_left tells of the last ones. */
void rcmi_early_over(struct rcmi_early *early, uint64_t epoch, bool left);
bool rcmi_early_was_left(const struct rcmi_early *early, uint64_t epoch);
/* Takes out what was kept for epoch, in order, and calls hear with each; bytes NULL: a wish. */
void rcmi_early_take(struct rcmi_early *early, uint64_t epoch,
                     void (*hear)(void *arg, int peer, const void *bytes, size_t len), void *arg);

#endif
