/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the fake device. */
#ifndef TEST_DEVICE_FAKE_INTERNAL_H
#define TEST_DEVICE_FAKE_INTERNAL_H

#include <pthread.h>
#include "ringcomm.h"

struct rcmi_operation;

/* Guards everything without its own lock. Callers of functions without a result must hold it. */
extern pthread_mutex_t fake_lock;

/* ---- fake.c */
void fake_thread_start(void);
/* The operation runs at its due time, stored in `own` as a number. */
void fake_enqueue(struct rcmi_operation *operation);

/* ---- fake_streams.c: as in struct rcmi_mem_row */
rcm_status fake_follow(struct rcmi_operation *operation, void *stream);

#endif
