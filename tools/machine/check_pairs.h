/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures all pairs of a job's ranks, one after the other, as many as fit the time: their
 * transport, the reason if there is no better one, latency, GB/s, and whether the data is correct.
 * A test of CHECK_OF_JOBS: it runs on every rank. Rank 0 shows all results and the other ranks'
 * problems.
 */
#ifndef RINGCOMM_TOOLS_CHECK_PAIRS_H
#define RINGCOMM_TOOLS_CHECK_PAIRS_H

#include "check_frame.h"

void check_pairs(struct check_out *out);

#endif
