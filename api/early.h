/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of communicators that this rank has not made yet: kept, and heard again once it has.
 * What they mean is not looked at here. Everything is under the engine's lock.
 */
#ifndef RCMI_EARLY_H
#define RCMI_EARLY_H

#include <stddef.h>
#include <stdint.h>

struct rcmi_early;

struct rcmi_early *rcmi_early_create(void);
void rcmi_early_free(struct rcmi_early *early);
/* Keeps a message, or with bytes NULL the wish of peer that its point-to-point channel be opened.
 * Without memory it is lost, as if it had come too early. */
void rcmi_early_keep(struct rcmi_early *early, uint64_t epoch, int peer, const void *bytes,
                     size_t len);
/* Takes out what was kept for epoch, in order, and calls hear with each. */
void rcmi_early_take(struct rcmi_early *early, uint64_t epoch,
                     void (*hear)(void *arg, int peer, const void *bytes, size_t len), void *arg);

#endif
