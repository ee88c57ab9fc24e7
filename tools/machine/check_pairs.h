/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All pairs of a job's ranks, one after the other, as many as there is time for: by which transport
 * they are linked, why by no better one, latency, GB/s, and whether data are right. A test of
 * CHECK_OF_JOBS: it runs on every rank, and rank 0 shows it all, with what other ranks have found
 * to be mended.
 */
#ifndef RINGCOMM_TOOLS_CHECK_PAIRS_H
#define RINGCOMM_TOOLS_CHECK_PAIRS_H

#include "check_frame.h"

void check_pairs(struct check_out *out);

#endif
