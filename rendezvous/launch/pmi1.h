/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of PMI-1, the line protocol of MPICH's process manager (Hydra) and others on the socket
 * PMI_FD. It has a key-value space shared by all ranks of the job, and a barrier. Each request has
 * one reply. A value put before a barrier is visible to all ranks after it.
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

#define RCMI_PMI1_LINE 8192 /* bytes of the longest line accepted */

struct rcmi_pmi1 {
    int fd;               /* borrowed */
    bool broken;          /* a request got no reply, so the next input is unknown */
    int key_max, val_max; /* bytes, the NUL included */
    char kvsname[257];
    char line[RCMI_PMI1_LINE];
};

/* Opens the session with the server on fd, a stream socket. After an error only finalize works. */
rcm_status rcmi_pmi1_init(struct rcmi_pmi1 *pmi, int fd, rcmi_deadline deadline);
/* Key and value without blanks; RCM_ERR_INVALID if the server cannot hold them. */
rcm_status rcmi_pmi1_put(struct rcmi_pmi1 *pmi, const char *key, const char *value,
                         rcmi_deadline deadline);
/* The value with its NUL into cap bytes; RCM_ERR_NOT_FOUND if there is none. */
rcm_status rcmi_pmi1_get(struct rcmi_pmi1 *pmi, const char *key, rcmi_deadline deadline,
                         char *ret_value, size_t cap);
/* Waits for all ranks of the job. */
rcm_status rcmi_pmi1_barrier(struct rcmi_pmi1 *pmi, rcmi_deadline deadline);
/* Ends the session. Without it the server treats the end of the process as a failure. */
rcm_status rcmi_pmi1_finalize(struct rcmi_pmi1 *pmi, rcmi_deadline deadline);

#endif
