/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups, topologies, and the communicators that are made of intercommunicators. */
#ifndef COMMUNICATORS_H
#define COMMUNICATORS_H

#include "mpi_comm.h"

struct MPI_ABI_Group {
    int size;
    int ranks[]; /* in the world */
};
enum set_operation { SET_UNION, SET_INTERSECTION, SET_DIFFERENCE };
int group_find(struct form *form, MPI_Group handle, struct MPI_ABI_Group **ret_group);

/* A Cartesian topology. */
struct cart {
    int ndims;
    int places[]; /* the dimensions, then whether each is periodic, then this rank's coordinates */
};
/* Copies the topology, if there is one, to a duplicate. */
int topology_copy(struct form *form, const struct MPI_ABI_Comm *from, MPI_Comm to);

/* MPI_Comm_split of an intercommunicator. colour < 0: none, and so MPI_COMM_NULL. Likewise if one
 * group has no rank of the colour. */
int intercomm_split(struct form *form, struct MPI_ABI_Comm *comm, int colour, int key,
                    MPI_Comm *ret_comm);

#endif
