/* SPDX-License-Identifier: BSD-3-Clause */
/* libnccl.so.2 of this library, for ranks that are linked with NCCL. */
#ifndef RUN_NCCL_H
#define RUN_NCCL_H

/* Adds the library to LD_PRELOAD, which the ranks inherit. Exits with a message if it is not
 * installed. */
void run_nccl_preload(void);

#endif
