/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring of slots in memory that a writer and its readers share, for the transports that have such
 * memory: shm (another process's) and self (the heap).
 *
 *   readers x 2 lines   how many messages that reader has given back, and what it wishes; its own
 *   slots x stride      a header line {seq, meta, len, inline bytes}, then the payload area
 *   slots x line        where the reader wants messages, written by it; only with one reader
 *   line                which channel the writer has open here; likewise
 *
 * seq is the number of the message in the slot, from 1, and the last thing written: its release
 * store publishes the rest of the line and the payload. Messages of up to RCMI_RING_INLINE bytes
 * travel in the header line, so that only one line moves. The writer hands out the payload area,
 * because it does not know the length before commit, and copies such few bytes into the line then:
 * both lines are its own, and the payload's never leaves its cache. The stride is an odd number of
 * lines, so that slots do not fall on each other in caches. Nobody writes what another one writes.
 *
 * What is read from the other side is read once and checked.
 */
#ifndef RCMI_RING_H
#define RCMI_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "error.h"
#include "wait.h"

#define RCMI_RING_INLINE  40
#define RCMI_RING_COUNTER (2 * RCMI_LINE) /* processors that fetch lines in pairs exist */

struct rcmi_ring_line {
    /* Release store in rcmi_ring_publish pairs with the acquire load in rcmi_ring_peek. */
    _Alignas(RCMI_LINE) _Atomic uint64_t seq;
    uint64_t meta;
    uint64_t len;
    uint8_t bytes[RCMI_RING_INLINE]; /* or, with bit RCMI_RING_LENT in len, where the payload is */
};
_Static_assert(sizeof(struct rcmi_ring_line) == RCMI_LINE, "a header is one line");

/* In len: the payload lies in memory of the writer's; or where the reader invited it to. */
#define RCMI_RING_LENT   ((uint64_t)1 << 63)
#define RCMI_RING_DIRECT ((uint64_t)1 << 62)
#define RCMI_RING_FLAGS  (RCMI_RING_LENT | RCMI_RING_DIRECT)

/* An invitation: message seq, of up to cap bytes, may be written to a place that the transport
 * knows how to describe. */
struct rcmi_ring_invitation {
    /* Release store by the reader, 0 first when it changes; acquire load by the writer. */
    _Alignas(RCMI_LINE) _Atomic uint64_t seq;
    uint64_t cap;
    uint8_t place[RCMI_RING_INLINE];
};
_Static_assert(sizeof(struct rcmi_ring_invitation) == RCMI_LINE, "an invitation is one line");

struct rcmi_ring_shape {
    size_t slot_bytes, stride, counters, total;
    size_t invitations, open; /* where they begin; 0: there are none */
    uint32_t slots;
    int nreaders;
};

static inline struct rcmi_ring_shape rcmi_ring_shape(size_t slot_bytes, uint32_t slots,
                                                     int nreaders) {
    size_t lines = 1 + (slot_bytes + RCMI_LINE - 1) / RCMI_LINE;
    struct rcmi_ring_shape shape = {
        .slot_bytes = slot_bytes,
        .stride = (lines | 1) * RCMI_LINE,
        .counters = (size_t)nreaders * RCMI_RING_COUNTER,
        .slots = slots,
        .nreaders = nreaders,
    };
    shape.total = shape.counters + slots * shape.stride;
    if (nreaders == 1) {
        shape.invitations = shape.total;
        shape.total += slots * sizeof(struct rcmi_ring_invitation);
        shape.open = shape.total;
        shape.total += RCMI_LINE;
    }
    return shape;
}

/* Of the message with this number. NULL if there are several readers. */
static inline struct rcmi_ring_invitation *
rcmi_ring_invitation(void *base, const struct rcmi_ring_shape *shape, uint64_t number) {
    struct rcmi_ring_invitation *first =
        (struct rcmi_ring_invitation *)((uint8_t *)base + shape->invitations);
    return shape->invitations ? first + number % shape->slots : NULL;
}

static inline struct rcmi_ring_line *rcmi_ring_line(void *base, const struct rcmi_ring_shape *shape,
                                                    uint32_t i) {
    return (struct rcmi_ring_line *)((uint8_t *)base + shape->counters + i * shape->stride);
}

static inline _Atomic uint64_t *rcmi_ring_counter(void *base, int reader) {
    return (_Atomic uint64_t *)((uint8_t *)base + (size_t)reader * RCMI_RING_COUNTER);
}

/* What a reader wishes, in its second line: the writer looks at it seldom. */
static inline _Atomic uint64_t *rcmi_ring_wish(void *base, int reader) {
    return (_Atomic uint64_t *)((uint8_t *)base + (size_t)reader * RCMI_RING_COUNTER + RCMI_LINE);
}

/* A number that the writer gave the channel, as long as its end is open, else 0. NULL if there are
 * several readers. */
static inline _Atomic uint64_t *rcmi_ring_open(void *base, const struct rcmi_ring_shape *shape) {
    return shape->open ? (_Atomic uint64_t *)((uint8_t *)base + shape->open) : NULL;
}

/* Makes fresh what may have been used before. */
static inline void rcmi_ring_clear(void *base, const struct rcmi_ring_shape *shape) {
    for (int r = 0; r < shape->nreaders; r++) {
        atomic_store_explicit(rcmi_ring_counter(base, r), 0, memory_order_relaxed);
        atomic_store_explicit(rcmi_ring_wish(base, r), 0, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < shape->slots; i++)
        atomic_store_explicit(&rcmi_ring_line(base, shape, i)->seq, 0, memory_order_relaxed);
    for (uint32_t i = 0; shape->invitations && i < shape->slots; i++)
        atomic_store_explicit(&rcmi_ring_invitation(base, shape, i)->seq, 0, memory_order_relaxed);
    if (shape->open)
        atomic_store_explicit(rcmi_ring_open(base, shape), 0, memory_order_relaxed);
    /* Readers hear of the ring through a system call or a lock after this. */
    atomic_thread_fence(memory_order_release);
}

/* ---- Writer ---------------------------------------------------------------------------------- */

struct rcmi_ring_writer {
    struct rcmi_ring_line *line; /* the next to be published */
    uint64_t produced;
    uint64_t limit; /* produced may reach it without a look at the counters */
    uint32_t index; /* of line */
    bool broken;
    void *base;
    struct rcmi_ring_shape shape;
};

static inline void rcmi_ring_writer_init(struct rcmi_ring_writer *w, void *base,
                                         const struct rcmi_ring_shape *shape) {
    *w = (struct rcmi_ring_writer){.line = rcmi_ring_line(base, shape, 0),
                                   .limit = shape->slots,
                                   .base = base,
                                   .shape = *shape};
}

/* Looks at the counters. Not inlined, seldom called: in ring.c. */
rcm_status rcmi_ring_refresh(struct rcmi_ring_writer *w);

/* Has every reader given back the first `number` messages? In ring.c. */
bool rcmi_ring_taken(const struct rcmi_ring_writer *w, uint64_t number);

static inline rcm_status rcmi_ring_room(struct rcmi_ring_writer *w) {
    return w->produced != w->limit ? RCM_OK : rcmi_ring_refresh(w);
}

static inline rcm_status rcmi_ring_reserve(struct rcmi_ring_writer *w, void **ret_slot) {
    rcm_status status = rcmi_ring_room(w);
    if (status == RCM_OK)
        *ret_slot = w->line + 1;
    return status;
}

static inline void rcmi_ring_publish(struct rcmi_ring_writer *w, uint64_t len, uint64_t meta) {
    struct rcmi_ring_line *line = w->line;
    line->meta = meta;
    line->len = len;
    w->produced++;
    /* Pairs with the acquire load in rcmi_ring_peek. */
    atomic_store_explicit(&line->seq, w->produced, memory_order_release);
    if (++w->index == w->shape.slots) {
        w->index = 0;
        w->line = rcmi_ring_line(w->base, &w->shape, 0);
    } else {
        w->line = (struct rcmi_ring_line *)((uint8_t *)line + w->shape.stride);
    }
}

static inline void rcmi_ring_commit(struct rcmi_ring_writer *w, size_t len, uint64_t meta) {
    struct rcmi_ring_line *line = w->line;
    const uint8_t *payload = (const uint8_t *)(line + 1);
    if (len <= 8) /* most often, and not worth a call */
        memcpy(line->bytes, payload, 8);
    else if (len <= RCMI_RING_INLINE)
        memcpy(line->bytes, payload, RCMI_RING_INLINE);
    rcmi_ring_publish(w, len, meta);
}

/* ---- Reader ---------------------------------------------------------------------------------- */

struct rcmi_ring_reader {
    struct rcmi_ring_line *line; /* the next to be read */
    uint64_t consumed;
    _Atomic uint64_t *counter;
    uint32_t index; /* of line */
    bool large;     /* the last message did not fit its header line */
    void *base;
    struct rcmi_ring_shape shape;
};

static inline void rcmi_ring_reader_init(struct rcmi_ring_reader *r, void *base,
                                         const struct rcmi_ring_shape *shape, int number) {
    *r = (struct rcmi_ring_reader){.line = rcmi_ring_line(base, shape, 0),
                                   .counter = rcmi_ring_counter(base, number),
                                   .base = base,
                                   .shape = *shape};
}

/* A seq or a length that cannot be. In ring.c. */
rcm_status rcmi_ring_broken(const struct rcmi_ring_reader *r, uint64_t seq, uint64_t len);

/* RCM_AGAIN, or the line with the next message. *ret_len may have bits of RCMI_RING_FLAGS. */
static inline rcm_status rcmi_ring_peek(struct rcmi_ring_reader *r, uint64_t *ret_len) {
    const struct rcmi_ring_line *line = r->line;
    /* Pairs with the release store in rcmi_ring_publish. */
    uint64_t seq = atomic_load_explicit(&line->seq, memory_order_acquire);
    if (seq != r->consumed + 1) {
        /* If the next one does not fit either, its first line is fetched beside the header. Else
         * that line had better stay in the writer's cache. */
        if (r->large)
            __builtin_prefetch(line + 1);
        return seq > r->consumed ? rcmi_ring_broken(r, seq, 0) : RCM_AGAIN;
    }
    /* Once: the other side may change it. */
    uint64_t len = *(const volatile uint64_t *)&line->len;
    if ((len & ~RCMI_RING_FLAGS) > r->shape.slot_bytes)
        return rcmi_ring_broken(r, seq, len);
    r->large = len > RCMI_RING_INLINE && !(len & RCMI_RING_FLAGS);
    *ret_len = len;
    return RCM_OK;
}

static inline const void *rcmi_ring_payload(const struct rcmi_ring_reader *r, uint64_t len) {
    return len <= RCMI_RING_INLINE ? (const void *)r->line->bytes : (const void *)(r->line + 1);
}

static inline void rcmi_ring_release(struct rcmi_ring_reader *r) {
    r->consumed++;
    /* Pairs with the acquire load in rcmi_ring_refresh: our reads are over. */
    atomic_store_explicit(r->counter, r->consumed, memory_order_release);
    if (++r->index == r->shape.slots) {
        r->index = 0;
        r->line = rcmi_ring_line(r->base, &r->shape, 0);
    } else {
        r->line = (struct rcmi_ring_line *)((uint8_t *)r->line + r->shape.stride);
    }
}

#endif
