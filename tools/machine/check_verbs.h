/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of RDMA (ringcomm-info --check verbs), by the library's own table of libibverbs' functions,
 * sentences, and way to open and connect, so that what is well here is well in rcm_init.
 *
 *   check_verbs.c           devices, ports and addresses, locked memory
 *   check_verbs_loopback.c  a pair of queue pairs in this process
 *   check_pairs.c           under a launcher: all pairs of ranks
 */
#ifndef RINGCOMM_TOOLS_CHECK_VERBS_H
#define RINGCOMM_TOOLS_CHECK_VERBS_H

#include "check_frame.h"
#include "verbs/verbs.h"

/* The ports that rcm_init would use, opened; false: the thread's error says why there are none. The
 * process ends with them. */
bool check_verbs_open(struct verbs_domain *domain);

void check_verbs_loopback(struct check_out *out);

#endif
