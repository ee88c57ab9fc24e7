/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank and size from a launcher (rcm_launch_at), for tools that do not call rcm_init. A value that
 * is missing or not a number counts as not set.
 */
#ifndef RINGCOMM_TOOLS_LAUNCHED_H
#define RINGCOMM_TOOLS_LAUNCHED_H

/* This process's rank and the number of ranks; 0 of 1 if not set. */
void launched_job(int *ret_rank, int *ret_nranks);
/* Its rank on this host; 0 if not set. */
int launched_local_rank(void);

#endif
