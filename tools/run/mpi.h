/* SPDX-License-Identifier: BSD-3-Clause */
/* libmpi_abi.so.1 of this library, for ranks that are compiled for the ABI of MPI. */
#ifndef RUN_MPI_H
#define RUN_MPI_H

/* Puts the library's folder first in LD_LIBRARY_PATH, which the ranks inherit. Exits with a message
 * if it is not installed. */
void run_mpi_path(void);

#endif
