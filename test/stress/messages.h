/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the operations on messages. */
#ifndef STRESS_MESSAGES_H
#define STRESS_MESSAGES_H

#include "stress.h"

/* The i-th tag of the job's step and thread. */
uint64_t tag_of(const struct job *job, unsigned i);
/* Draws the length of a message. */
size_t length_draw(struct job *job);

#endif
