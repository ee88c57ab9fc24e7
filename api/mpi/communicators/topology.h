/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies of communicators. */
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include "mpi_comm.h"

/* Copies the topology, if there is one, to a duplicate. */
int topology_copy(struct form *form, const struct MPI_ABI_Comm *from, MPI_Comm to);

#endif
