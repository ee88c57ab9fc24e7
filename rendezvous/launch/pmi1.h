/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of PMI-1, the line protocol by which MPICH's process manager (Hydra) and others serve
 * the processes they start, over the socket PMI_FD: a key-value space that all ranks of the job
 * share, and a barrier. One request, one answer; a value put before a barrier can be read by all
 * after it.
 *
 *   > cmd=init pmi_version=1 pmi_subversion=1   < cmd=response_to_init ... rc=0
 *   > cmd=get_maxes                             < cmd=maxes kvsname_max=.. keylen_max=.. ...
 *   > cmd=get_my_kvsname                        < cmd=my_kvsname kvsname=NAME
 *   > cmd=put kvsname=NAME key=K value=V        < cmd=put_result rc=0 msg=success
 *   > cmd=barrier_in                            < cmd=barrier_out
 *   > cmd=get kvsname=NAME key=K                < cmd=get_result rc=0 msg=success value=V
 *   > cmd=finalize                              < cmd=finalize_ack
 */
#ifndef RCMI_PMI1_H
#define RCMI_PMI1_H

#include <stdbool.h>
#include <stddef.h>
#include "clock.h"
#include "ringcomm.h"

#define RCMI_PMI1_LINE 8192 /* longest line that is understood */

struct rcmi_pmi1 {
    int fd;               /* borrowed */
    bool broken;          /* a request was not answered: what comes next is unknown */
    int key_max, val_max; /* bytes, the NUL included */
    char kvsname[257];
    char line[RCMI_PMI1_LINE];
};

/* Greets the server on fd, a stream socket. After an error only finalize is of use. */
rcm_status rcmi_pmi1_init(struct rcmi_pmi1 *pmi, int fd, rcmi_deadline deadline);
/* Key and value without blanks; RCM_ERR_INVALID if the server cannot hold them. */
rcm_status rcmi_pmi1_put(struct rcmi_pmi1 *pmi, const char *key, const char *value,
                         rcmi_deadline deadline);
/* The value with its NUL into cap bytes; RCM_ERR_NOT_FOUND if there is none. */
rcm_status rcmi_pmi1_get(struct rcmi_pmi1 *pmi, const char *key, rcmi_deadline deadline,
                         char *ret_value, size_t cap);
/* Waits for all ranks of the job. */
rcm_status rcmi_pmi1_barrier(struct rcmi_pmi1 *pmi, rcmi_deadline deadline);
/* Says goodbye: without it the server takes the end of the process for its failure. */
rcm_status rcmi_pmi1_finalize(struct rcmi_pmi1 *pmi, rcmi_deadline deadline);

#endif
