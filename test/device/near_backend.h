/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A row of device memory for tests (transport/transport.h), of the fake device (fake.h): `near`
 * serves ranks that are threads of one process, by slots in the writer's memory, which the reader's
 * operations read where they are; registered memory is sent as it is. A link is ready a moment
 * after both have accepted, and is declined where it is told.
 *
 * It stands at the end of the device tests' own table of transports (meson.build).
 */
#ifndef TEST_DEVICE_NEAR_BACKEND_H
#define TEST_DEVICE_NEAR_BACKEND_H

#include <stdbool.h>
#include "ringcomm.h"

/* Where a link may be declined. */
enum near_slot { NEAR_NONE, NEAR_INIT, NEAR_OFFER, NEAR_ACCEPT, NEAR_READY, NEAR_SLOTS };

/* What nodes of that rank do with links to higher ranks; before they are made. rank -1: none. */
struct near_orders {
    int rank;
    enum near_slot decline;
    rcm_status how; /* 0: RCM_ERR_UNSUPPORTED */
    bool never;     /* ready */
    bool refuses;   /* every second message of registered memory; any rank */
};
extern struct near_orders near_orders;
extern const char near_sentence[];

/* Messages that were sent from where they lay. */
long near_as_it_lies(void);
/* Queues of channels that are there. */
int near_queues(void);

#endif
