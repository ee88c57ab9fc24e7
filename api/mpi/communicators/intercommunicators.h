/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that are made of an intercommunicator. */
#ifndef INTERCOMMUNICATORS_H
#define INTERCOMMUNICATORS_H

#include "mpi_comm.h"

/* MPI_Comm_split of an intercommunicator. colour < 0: none, and so MPI_COMM_NULL. Likewise if one
 * group has no rank of the colour. */
int intercomm_split(struct form *form, const struct MPI_ABI_Comm *comm, int colour, int key,
                    MPI_Comm *ret_comm);

#endif
