/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: lists of ranks of the world. */
#ifndef GROUPS_H
#define GROUPS_H

#include "mpi_comm.h"

struct MPI_ABI_Group {
    int size;
    int ranks[]; /* in the world */
};

enum set_operation { SET_UNION, SET_INTERSECTION, SET_DIFFERENCE };

int group_find(struct form *form, MPI_Group handle, struct MPI_ABI_Group **ret_group);

#endif
