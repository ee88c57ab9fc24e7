/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of communicators that this rank has not made yet: stored, and delivered once it has.
 * Their content is not interpreted here. Everything is under the engine's lock.
 */
#ifndef RCMI_EARLY_MESSAGES_H
#define RCMI_EARLY_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rcmi_early;

struct rcmi_early *rcmi_early_create(void);
void rcmi_early_free(struct rcmi_early *early);
enum rcmi_early_kind {
    RCMI_EARLY_QUESTION, /* the sender repeats it if no answer comes */
    RCMI_EARLY_FAILURE,  /* the first of a communicator counts */
    RCMI_EARLY_LEFT,     /* peer has left the communicator */
    RCMI_EARLY_WANTED,   /* peer requests that its point-to-point channel be opened: no bytes */
};
/* Stores a message, unless its communicator has ended. Without memory it is lost. */
void rcmi_early_keep(struct rcmi_early *early, enum rcmi_early_kind kind, uint64_t epoch, int peer,
                     const void *bytes, size_t len);
/* A communicator of this rank has ended: nothing is stored for it from now on. left: this rank has
 * left it, and the others may not have been notified; _was_left returns this for the last ones. */
void rcmi_early_over(struct rcmi_early *early, uint64_t epoch, bool left);
bool rcmi_early_was_left(const struct rcmi_early *early, uint64_t epoch);
/* Removes the messages stored for epoch, and calls receive with each, in order; bytes NULL: a
 * channel request. */
void rcmi_early_take(struct rcmi_early *early, uint64_t epoch,
                     void (*receive)(void *arg, int peer, const void *bytes, size_t len),
                     void *arg);

#endif
