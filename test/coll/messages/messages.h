/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the program `messages`. */
#ifndef TEST_MESSAGES_H
#define TEST_MESSAGES_H

#include "../ranks.h"

/* mixtures.c: random sends and receives of all kinds against a model. */
int check_mixtures(rcm_comm *comm, unsigned seed);
int check_mixture(rcm_comm *comm, unsigned seed); /* one round */
/* message_threads.c: several threads of each rank, next to a collective. */
int check_threads(rcm_comm *comm);

#endif
