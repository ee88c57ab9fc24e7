/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of intercommunicators: what each group sends goes to the other one. */
#ifndef BETWEEN_H
#define BETWEEN_H

#include "lists.h"

enum between {
    BETWEEN_BROADCAST,
    BETWEEN_GATHER,
    BETWEEN_SCATTER,
    BETWEEN_ALL_GATHER,
    BETWEEN_ALL_TO_ALL
};

/* Moves blocks, and ends the call. root: MPI_ROOT, MPI_PROC_NULL, or the root in the other group;
 * ignored where there is none. */
int between_move(struct form *form, const struct MPI_ABI_Comm *comm, enum between kind, int root,
                 const struct blocks *send, const struct blocks *recv);
/* Reduces what the other group sends, to the root (BETWEEN_GATHER) or on each of its ranks, where
 * the result begins at element `skip`. */
int between_reduce(struct form *form, const struct MPI_ABI_Comm *comm, enum between kind, int root,
                   struct side *send, struct side *recv, MPI_Op op, MPI_Count skip);

/* A buffer of equal blocks. */
static inline struct blocks between_blocks(const struct side *side) {
    return (struct blocks){.buffer = side->buffer, .count = side->count, .type = side->type};
}

#endif
