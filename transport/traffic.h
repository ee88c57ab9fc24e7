/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traffic counters: messages and payload bytes per transport. The framework counts (transport.h,
 * rcmi_channel_commit and _release), so backends do not. The opener of a channel sets where
 * (rcmi_channel_count). A multicast message counts once as sent.
 *
 * Not counted: other bytes on the wire, such as headers of backends and control streams.
 */
#ifndef RCMI_TRAFFIC_H
#define RCMI_TRAFFIC_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RCMI_TRANSPORTS_MAX 8

/* Of one transport. One thread at a time writes; any thread or process reads: relaxed. */
struct rcmi_traffic {
    _Atomic uint64_t sent, sent_bytes;
    _Atomic uint64_t received, received_bytes;
};

static inline void rcmi_count(_Atomic uint64_t *count, uint64_t more) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

#endif
