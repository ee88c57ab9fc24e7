/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test backend `late`: tcp, but a link is ready only a while after all sockets were attached.
 * As ordered, it declines or its process dies in any slot of the set-up. It is the last entry of
 * the conformance suite's own table of transports (meson.build).
 */
#ifndef TEST_TRANSPORT_LATE_TRANSPORT_H
#define TEST_TRANSPORT_LATE_TRANSPORT_H

#include <stdbool.h>

/* The slots in which a link may be declined; LATE_WAITED is the second call of `ready`. */
enum late_slot {
    LATE_NONE,
    LATE_OFFER,
    LATE_ACCEPT,
    LATE_ATTACH,
    LATE_READY,
    LATE_WAITED,
    LATE_SLOTS
};

/* Orders for the nodes of this process, by rank. Set them before the nodes start. */
struct late_orders {
    enum late_slot decline, die;
    bool never; /* never ready */
};
extern struct late_orders late_orders[2];
extern const char late_reason[];

#endif
