/* SPDX-License-Identifier: BSD-3-Clause */
/* What rings do seldom: look at all counters, complain. */
#include "ring.h"

#include <inttypes.h>

/* The smallest counter says how far the writer may go. A counter that is out of bounds stays an
 * error: nobody knows any more which slots are free. */
rcm_status rcmi_ring_refresh(struct rcmi_ring_writer *w) {
    uint64_t least = w->produced, floor = w->limit - w->shape.slots;
    for (int r = 0; r < w->shape.nreaders && !w->broken; r++) {
        /* Pairs with the release store in rcmi_ring_release. */
        uint64_t count = atomic_load_explicit(rcmi_ring_counter(w->base, r), memory_order_acquire);
        w->broken = count > w->produced || count < floor;
        least = count < least ? count : least;
    }
    if (w->broken)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "a reader of shared slots says that it read more than was written, or "
                         "less than it said before");
    w->limit = least + w->shape.slots;
    return w->produced != w->limit ? RCM_OK : RCM_AGAIN;
}

bool rcmi_ring_taken(const struct rcmi_ring_writer *w, uint64_t number) {
    for (int r = 0; r < w->shape.nreaders; r++)
        /* Pairs with the release store in rcmi_ring_release. */
        if (atomic_load_explicit(rcmi_ring_counter(w->base, r), memory_order_acquire) < number)
            return false;
    return true;
}

rcm_status rcmi_ring_broken(const struct rcmi_ring_reader *r, uint64_t seq, uint64_t len) {
    return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                     "a shared slot holds message %" PRIu64 " of %" PRIu64
                     " bytes where message %" PRIu64 " of at most %zu bytes is due",
                     seq, len, r->consumed + 1, r->shape.slot_bytes);
}
