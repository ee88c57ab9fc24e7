/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What went by the transports, counted: messages and bytes of payload, by row of the table of
 * transports. The framework counts (transport.h, rcmi_channel_commit and _release), so no row does;
 * the opener of a channel says where to (rcmi_channel_count). A message by multicast is sent once.
 *
 * Not here: what is on the wire besides, headers of rows and control streams.
 */
#ifndef RCMI_TRAFFIC_H
#define RCMI_TRAFFIC_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RCMI_TRANSPORTS_MAX 8

/* Of one row. Written by one thread at a time, read by any, also by other processes: relaxed. */
struct rcmi_traffic {
    _Atomic uint64_t sent, sent_bytes;
    _Atomic uint64_t received, received_bytes;
};

static inline void rcmi_count(_Atomic uint64_t *count, uint64_t more) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

#endif
