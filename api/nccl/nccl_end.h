/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of communicators. Their orderly end runs in the background, and the process waits for it
 * before it exits. */
#ifndef NCCL_END_H
#define NCCL_END_H

/* Called once a communicator exists. */
void end_watch_exit(void);

#endif
