/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of communicators. Their orderly end runs in the background, and the process waits for it
 * before it exits. */
#ifndef NCCL_END_H
#define NCCL_END_H

#include "nccl_comm.h"

/* Under the lock, which it gives up. Ends what is being made or ended itself. */
void cancel_requests(struct ncclComm *comm, const char *why);
/* Called once a communicator exists. */
void end_watch_exit(void);

#endif
