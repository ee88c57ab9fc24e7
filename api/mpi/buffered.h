/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that are copied before they are sent: MPI_Bsend, and small ones to the own rank. */
#ifndef BUFFERED_H
#define BUFFERED_H

#include "mpi_comm.h"
#include "datatype.h"

/* The buffer of the process, and that of a communicator, which it makes. */
extern struct pool pool_process;
int pool_find(struct form *form, MPI_Comm comm, struct pool **ret_pool);
/* Whether the attached buffer has room for a message. */
int buffered_check(struct form *form, const void *memory, size_t bytes);
/* Sends a copy of the data in the background. buffered_copy_free takes no room of a buffer. */
rcm_status buffered_copy(struct MPI_ABI_Comm *comm, const struct data *data, int dst, uint64_t tag);
rcm_status buffered_copy_free(struct MPI_ABI_Comm *comm, const struct data *data, int dst,
                              uint64_t tag);
/* Waits for the messages of a communicator's own buffer, and frees that. */
void buffered_close(struct MPI_ABI_Comm *comm);

#endif
