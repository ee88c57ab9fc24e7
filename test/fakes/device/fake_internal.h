/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of the fake device. */
#ifndef TEST_DEVICE_FAKE_INTERNAL_H
#define TEST_DEVICE_FAKE_INTERNAL_H

#include <pthread.h>
#include "ringcomm.h"

struct rcmi_operation;

/* Of all that is not told otherwise; the functions without a result are called under it. */
extern pthread_mutex_t fake_lock;

/* ---- fake.c */
void fake_thread_start(void);
/* It runs when it is due: in `own`, as a number. */
void fake_enqueue(struct rcmi_operation *operation);

/* ---- fake_streams.c: as in struct rcmi_mem_row */
rcm_status fake_follow(struct rcmi_operation *operation, void *stream);

#endif
