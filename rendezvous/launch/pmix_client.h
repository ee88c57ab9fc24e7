/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of PMIx, a service of Open MPI's mpirun, PRRTE and srun --mpi=pmix: the processes they
 * start get their rank from it and exchange short texts through it. libpmix.so.2 is loaded at the
 * first use, not linked. Without it, launchers use their own rendezvous.
 *
 * libpmix's calls have no deadline. So each function here runs them on a new thread and waits for
 * it. A thread that does not return before the deadline is abandoned; until it returns, this
 * process cannot use PMIx. The connection, with a sleeping thread of libpmix, stays until the
 * process ends. An MPI library in the process may use PMIx before and after: libpmix counts its
 * users.
 */
#ifndef RCMI_PMIX_CLIENT_H
#define RCMI_PMIX_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include "clock.h"
#include "ringcomm.h"

#define RCMI_PMIX_KEY  64   /* bytes of a key, with its NUL */
#define RCMI_PMIX_TEXT 1000 /* bytes of a value, with its NUL */

/* This process and its job, as reported by PMIx. */
struct rcmi_pmix_job {
    int rank, size;
    int local_rank; /* -1: unknown */
    int local_size; /* 0: unknown */
};

/* Loads libpmix.so.2; the error contains the reason of a failure. */
rcm_status rcmi_pmix_load(void);

/* Gets this process's rank and job from the server. */
rcm_status rcmi_pmix_job_get(rcmi_deadline deadline, struct rcmi_pmix_job *ret_job);

/* Rank 0 publishes a text under a new key. The other ranks pass mine NULL and get it in text, which
 * has RCMI_PMIX_TEXT bytes. Returns when all ranks of the job have called it. */
rcm_status rcmi_pmix_pin(const char *key, const char *mine, rcmi_deadline deadline, char *text);

#endif
