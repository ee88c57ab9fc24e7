/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of RDMA (ringcomm-info --check verbs). They use the library's own code to load libibverbs,
 * open devices, connect and explain errors, so that their results also apply to rcm_init.
 *
 *   check_verbs.c           devices, ports and addresses, locked memory
 *   check_verbs_loopback.c  a pair of queue pairs in this process
 *   check_pairs.c           under a launcher: all pairs of ranks
 */
#ifndef RINGCOMM_TOOLS_CHECK_VERBS_H
#define RINGCOMM_TOOLS_CHECK_VERBS_H

#include "check_frame.h"
#include "verbs/verbs.h"

/* Opens the ports that rcm_init would use; false with the thread's error if there are none. The
 * process exits with them open. */
bool check_verbs_open(struct verbs_domain *domain);

void check_verbs_loopback(struct check_out *out);

#endif
