/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of PMIx, the service by which Open MPI's mpirun, PRRTE and srun --mpi=pmix tell the
 * processes they start who they are and let them exchange a few words. It is reached through
 * libpmix.so.2, which is looked for when it is first needed: nothing is linked, and where it is
 * absent launchers have their other means.
 *
 * libpmix has calls without a deadline. Each of the functions here lets a thread of its own do
 * them and waits for it; one that does not come back in time is left behind, and nothing more can
 * be asked of PMIx by this process until it does. The connection is kept, with a sleeping thread
 * of libpmix's, until the process ends; an MPI library in it may use PMIx as well, before and
 * after: libpmix counts its users.
 */
#ifndef RCMI_PMIX_CLIENT_H
#define RCMI_PMIX_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include "clock.h"
#include "ringcomm.h"

#define RCMI_PMIX_KEY  64   /* bytes of a key, its NUL included */
#define RCMI_PMIX_TEXT 1000 /* the same of a value */

/* What PMIx says of this process and its job. */
struct rcmi_pmix_job {
    int rank, size;
    int local_rank; /* -1: not told */
    int local_size; /* 0: not told */
};

/* Whether libpmix.so.2 can be loaded; if not, the error says why. */
rcm_status rcmi_pmix_load(void);

/* Asks the server. */
rcm_status rcmi_pmix_ask(rcmi_deadline deadline, struct rcmi_pmix_job *ret_job);

/* Rank 0 publishes a text under a new key, the others (mine NULL) get it into text, which has
 * RCMI_PMIX_TEXT bytes. Returns when all ranks of the job have called it. */
rcm_status rcmi_pmix_pin(const char *key, const char *mine, rcmi_deadline deadline, char *text);

#endif
