/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries that offer this library under the names of NCCL and of MPI's ABI: the ranks inherit an
 * environment that loads them. Each call exits with a message if its library is not installed. */
#ifndef RUN_FACES_H
#define RUN_FACES_H

/* Adds libnccl.so.2 to LD_PRELOAD. */
void run_nccl_preload(void);
/* Puts the folder of libmpi_abi.so.1 first in LD_LIBRARY_PATH. */
void run_mpi_path(void);

#endif
