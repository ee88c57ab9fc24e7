/* SPDX-License-Identifier: BSD-3-Clause */
/* Breaches of what the library keeps with device memory, planted between it and the driver. */
#ifndef TEST_CUDA_CONTRACT_BREACHES_H
#define TEST_CUDA_CONTRACT_BREACHES_H

/* What plants it in the rank that calls, before rcm_init; NULL: there is none of that name.
 *   dereference  the device's memory is taken for the host's, and the CPU touches it
 *   early        an operation ends, and its slots are released, before the device has done it
 *   fence        what is enqueued on the program's stream is not waited for */
void (*breach_find(const char *name))(int rank);

#endif
