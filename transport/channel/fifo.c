/* SPDX-License-Identifier: BSD-3-Clause */
/* Rare operations of the queue of fifo.h: checking all counters, reporting invalid values. */
#include "fifo.h"

#include <inttypes.h>

/* Reads and checks a reader's counter. */
static uint64_t look(struct rcmi_fifo_writer *w, _Atomic uint64_t *counter, uint64_t at_least,
                     uint64_t at_most) {
    /* Pairs with the release stores in rcmi_fifo_release. */
    const uint64_t count = atomic_load_explicit(counter, memory_order_acquire);
    w->broken = w->broken || count > at_most || count < at_least;
    return count;
}

/* The slowest reader's counters limit the writer. An invalid counter is a permanent error, because
 * it is unknown which slots are free. */
rcm_status rcmi_fifo_refresh(struct rcmi_fifo_writer *w) {
    uint64_t taken = w->produced, emptied = w->filled;
    for (int r = 0; r < w->shape.nreaders && !w->broken; r++) {
        uint64_t count = look(w, rcmi_fifo_counter(w->base, r), w->taken, w->produced);
        taken = count < taken ? count : taken;
        count = look(w, rcmi_fifo_emptied(w->base, r), w->room - w->shape.slots, w->filled);
        emptied = count < emptied ? count : emptied;
    }
    if (w->broken)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "a reader of shared slots has an invalid counter: more messages than were "
                         "written, or fewer than before");
    w->taken = taken;
    w->room = emptied + w->shape.slots;
    w->limit = w->filled == w->room ? w->produced : taken + w->shape.nheaders;
    return w->produced != w->limit ? RCM_OK : RCM_AGAIN;
}

bool rcmi_fifo_taken_by(const struct rcmi_fifo_writer *w, int reader, uint64_t number) {
    /* Pairs with the release store in rcmi_fifo_release. */
    return atomic_load_explicit(rcmi_fifo_counter(w->base, reader), memory_order_acquire) >= number;
}

bool rcmi_fifo_taken(const struct rcmi_fifo_writer *w, uint64_t number) {
    for (int r = 0; r < w->shape.nreaders; r++)
        if (!rcmi_fifo_taken_by(w, r, number))
            return false;
    return true;
}

bool rcmi_fifo_unread(const struct rcmi_fifo_reader *r) {
    const uint64_t released = atomic_load_explicit(r->counter, memory_order_acquire);
    const struct rcmi_fifo_header *next = rcmi_fifo_header(r->base, &r->shape, released);
    return atomic_load_explicit(&next->seq, memory_order_acquire) > released;
}

bool rcmi_fifo_fits(struct rcmi_fifo_reader *r) {
    r->place = (uint32_t)((r->len & RCMI_FIFO_PLACE_BITS) >> RCMI_FIFO_PLACE_SHIFT);
    r->len &= ~RCMI_FIFO_PLACE_BITS;
    const size_t begin = r->place * r->shape.part;
    return (r->len & ~RCMI_FIFO_FLAGS) <= rcmi_fifo_longest(&r->shape, r->len) - begin &&
           (r->place == 0 || rcmi_fifo_in_slot(r));
}

rcm_status rcmi_fifo_broken(const struct rcmi_fifo_reader *r, uint64_t seq, uint64_t len) {
    return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                     "shared memory holds message %" PRIu64 " of %" PRIu64
                     " bytes where message %" PRIu64 " of at most %zu bytes is due",
                     seq, len, r->consumed + 1, rcmi_fifo_longest(&r->shape, len));
}
