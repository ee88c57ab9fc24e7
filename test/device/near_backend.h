/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test backend for device memory (transport/transport.h) of the fake device (fake.h). `near`
 * serves ranks that are threads of one process. Slots are in the writer's memory, and the reader's
 * operations read them there. Registered memory is sent without a slot. A link is ready a moment
 * after both ends have accepted, and is declined as near_orders requests.
 *
 * It is the last backend in the device tests' own transport table (meson.build).
 */
#ifndef TEST_DEVICE_NEAR_BACKEND_H
#define TEST_DEVICE_NEAR_BACKEND_H

#include <stdbool.h>
#include "ringcomm.h"

/* Steps at which a link may be declined. */
enum near_slot { NEAR_NONE, NEAR_INIT, NEAR_OFFER, NEAR_ACCEPT, NEAR_READY, NEAR_SLOTS };

/* What nodes of `rank` do with links to higher ranks. Set before the links are opened. rank -1: no
 * node. */
struct near_orders {
    int rank;
    enum near_slot decline;
    rcm_status how; /* 0: RCM_ERR_UNSUPPORTED */
    bool never;     /* never becomes ready */
    bool refuses;   /* every second message of registered memory, on any rank */
};
extern struct near_orders near_orders;
extern const char near_sentence[];

/* Number of messages sent without a slot. */
long near_as_it_lies(void);
/* Number of open channel queues. */
int near_queues(void);

#endif
