/* SPDX-License-Identifier: BSD-3-Clause */
/* Breaches of the library's contract for device memory, injected between the library and the
 * driver. */
#ifndef TEST_CUDA_CONTRACT_BREACHES_H
#define TEST_CUDA_CONTRACT_BREACHES_H

/*
 * Returns the function that injects the breach in the calling rank before rcm_init; NULL: unknown
 * name.
 *
 *   dereference  device memory counts as host memory, and the CPU accesses it
 *   early        an operation ends and releases its slots before the device has done it
 *   fence        operations enqueued on the program's stream are not waited for
 */
void (*breach_find(const char *name))(int rank);

#endif
