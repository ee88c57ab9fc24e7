/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A row for tests of what a transport may do while its link is made: `late` is tcp, but a link of
 * it is ready a while after all was attached, and it declines, or its process dies, where it is
 * told. It stands at the end of the conformance suite's own table of transports (meson.build).
 */
#ifndef TEST_TRANSPORT_LATE_TRANSPORT_H
#define TEST_TRANSPORT_LATE_TRANSPORT_H

#include <stdbool.h>

/* The slots of the table in which a link may be declined; LATE_WAITED is `ready` when it is asked
 * again. */
enum late_slot {
    LATE_NONE,
    LATE_OFFER,
    LATE_ACCEPT,
    LATE_ATTACH,
    LATE_READY,
    LATE_WAITED,
    LATE_SLOTS
};

/* What the nodes of this process with that rank do. Before they are started. */
struct late_orders {
    enum late_slot decline, die;
    bool never; /* ready */
};
extern struct late_orders late_orders[2];
extern const char late_sentence[];

#endif
