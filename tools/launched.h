/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a launcher told this process (rcm_launch_at), for tools that start no rank by themselves: a
 * word that is missing or no number counts as not told.
 */
#ifndef RINGCOMM_TOOLS_LAUNCHED_H
#define RINGCOMM_TOOLS_LAUNCHED_H

/* This process's rank and the number of ranks; of one if none was told. */
void launched_job(int *ret_rank, int *ret_nranks);
/* Its number on this host; 0 if none was told. */
int launched_local_rank(void);

#endif
