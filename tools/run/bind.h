/* SPDX-License-Identifier: BSD-3-Clause */
/* --bind core: which CPUs each local rank may run on. Nothing here binds; rank.c does. */
#ifndef RUN_BIND_H
#define RUN_BIND_H

#include <sched.h>

/* The CPUs of the affinity mask grouped by core: sets[0..n) in order of their first CPU. Returns
 * n >= 1, at most max, or -1 with errno. */
int run_cores(cpu_set_t *sets, int max);

#endif
