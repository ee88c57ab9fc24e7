/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies of communicators. */
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include "mpi_comm.h"

/* A Cartesian topology. */
struct cart {
    int ndims;
    int places[]; /* the dimensions, then whether each is periodic, then this rank's coordinates */
};
int comm_find_cart(struct form *form, MPI_Comm handle, struct MPI_ABI_Comm **ret_comm);
/* Copies the topology, if there is one, to a duplicate. */
int topology_copy(struct form *form, const struct MPI_ABI_Comm *from, MPI_Comm to);

#endif
