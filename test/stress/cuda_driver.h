/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stress program's own calls of the CUDA driver: memory that is not from rcm_mem_alloc_kind,
 * and copies. A call that fails ends the process (stress_fail).
 *
 * Not here: which buffers are on the device, and when they are copied (memory.c).
 */
#ifndef STRESS_CUDA_DRIVER_H
#define STRESS_CUDA_DRIVER_H

#include "stress.h"

/* Loads the driver, in each rank before rcm_init: the library then queries the kind of each
 * buffer. */
void device_load(int rank);
/* Sets the thread's context to the rank's device and creates a stream. A no-op where all buffers
 * are on the host. */
void device_enter(struct driver *driver);
void device_leave(struct driver *driver);

void *device_alloc(struct driver *driver, size_t bytes);
void device_free(struct driver *driver, void *memory);
/* Enqueued on that stream; NULL: the legacy default stream. */
void device_write(struct driver *driver, void *to, const void *from, size_t bytes, void *stream);
/* Synchronous, on the thread's own stream, which no other stream waits for. */
void device_read(struct driver *driver, void *to, const void *from, size_t bytes);
void device_await(struct driver *driver, void *stream);

#endif
