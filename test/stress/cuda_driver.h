/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the stress program itself wants of the CUDA driver: memory that rcm_mem_alloc_kind did not
 * give, and copies. A call that fails ends the process (stress_fail).
 *
 * Not here: which buffers are of the device, and when they are copied (memory.c).
 */
#ifndef STRESS_CUDA_DRIVER_H
#define STRESS_CUDA_DRIVER_H

#include "stress.h"

/* Loads the driver, in each rank before rcm_init: from then on the library looks of which kind a
 * buffer is. */
void device_load(int rank);
/* The thread's context is that of the rank's device; it gets a stream. A no-op where all buffers
 * are of the host. */
void device_enter(struct driver *driver);
void device_leave(struct driver *driver);

void *device_alloc(struct driver *driver, size_t bytes);
void device_free(struct driver *driver, void *memory);
/* Enqueued on that stream; NULL: the legacy default stream. */
void device_write(struct driver *driver, void *to, const void *from, size_t bytes, void *stream);
/* By the thread's own stream, which no other waits for; done. */
void device_read(struct driver *driver, void *to, const void *from, size_t bytes);
void device_await(struct driver *driver, void *stream);

#endif
