/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue of messages in memory shared by a writer and its readers: headers and slots, each a ring
 * buffer. Used by the backends with such memory: shm and cuda_ipc (another process's) and self (the
 * heap).
 *
 *   readers x 2 lines   how much each reader has released; written by it
 *   headers x 2 lines   {seq, meta, len, inline bytes}
 *   slots x stride      payloads
 *   slots x line        memory posted by the reader, written by it; only with one reader
 *   line                which channel the writer has open here; only with one reader
 *   4 lines             the get request: what is got, and which side copies which piece; likewise
 *
 * seq is the number of the message in the header, from 1, and is written last: its release store
 * publishes the rest of the header and the payload. Messages of up to RCMI_FIFO_INLINE bytes travel
 * in the header and use no slot; most of them fit its first line, so that only one line moves.
 * There are 64 headers, or as many as slots if that is more. All other messages use the slots in
 * turn, even if their payload is elsewhere.
 *
 * The lines of a message stay in its reader's cache after it was read. To write there again, the
 * writer first has to get them back, which costs as much as the copy. So it returns to them late: a
 * message that fills at most half or a quarter of its slot uses the slot's two or four places in
 * turn. The number of the place is in the header.
 *
 * Reserve returns memory of the next slot also for a message that will travel in its header,
 * because the length may become less until commit. Commit then copies it into the header, and the
 * slot's lines stay in the writer's cache. After a message the writer prefetches the lines of the
 * next one, which the reader still has, for writing. A header is an aligned pair of lines, because
 * some CPUs fetch lines in pairs. The stride is an odd number of lines, so that slots do not
 * collide in caches.
 *
 * Each word is written by one side only. Exceptions: a reader's answer in a slot before it releases
 * it, and the word by which both sides claim pieces of a vector. Values from the other side are
 * read once and checked.
 */
#ifndef RCMI_FIFO_H
#define RCMI_FIFO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "cpu.h"
#include "error.h"
#include "prefetch.h"
#include "transport.h"

#define RCMI_FIFO_FIRST   40 /* bytes in the first line of a header, or of a posted location */
#define RCMI_FIFO_INLINE  (RCMI_FIFO_FIRST + RCMI_LINE)
#define RCMI_FIFO_PAIR    (2 * RCMI_LINE)
#define RCMI_FIFO_HEADERS 64 /* at least */
/* The next message is probably as long as this one, so its slot's lines are prefetched. Not from
 * this size on: pieces of large messages follow so fast that the reader still reads that slot. Nor
 * if slots are written by the string instruction (cpu.h). */
#define RCMI_FIFO_AHEAD ((size_t)16 << 10)
_Static_assert(RCMI_FIFO_INLINE <= 2 * RCMI_LINE && RCMI_FIFO_INLINE <= RCMI_TINY,
               "longer messages use a slot");

struct rcmi_fifo_header {
    /* Release store in rcmi_fifo_publish pairs with the acquire load in rcmi_fifo_peek. */
    _Alignas(RCMI_LINE) _Atomic uint64_t seq;
    uint64_t meta;
    uint64_t len;
    uint8_t bytes[RCMI_FIFO_INLINE]; /* the payload or, with a bit of RCMI_FIFO_FLAGS in len, its
                                        location */
};
_Static_assert(sizeof(struct rcmi_fifo_header) == RCMI_FIFO_PAIR, "a header is two lines");

/* Flags in len. MAPPED: the payload is in the writer's memory, which the reader maps. PUT: in
 * memory that the reader posted. GET: in the writer's memory, to be got. */
#define RCMI_FIFO_MAPPED ((uint64_t)1 << 63)
#define RCMI_FIFO_PUT    ((uint64_t)1 << 62)
#define RCMI_FIFO_GET    ((uint64_t)1 << 61)
#define RCMI_FIFO_FLAGS  (RCMI_FIFO_MAPPED | RCMI_FIFO_PUT | RCMI_FIFO_GET)
/* Also in len: the place of the payload in its slot. From RCMI_FIFO_PLACED bytes on: the lines of a
 * shorter message are back before they are needed (rcmi_fifo_publish). */
#define RCMI_FIFO_PLACED      4096
#define RCMI_FIFO_PLACES      4
#define RCMI_FIFO_PLACE_SHIFT 59
#define RCMI_FIFO_PLACE_BITS  ((uint64_t)(RCMI_FIFO_PLACES - 1) << RCMI_FIFO_PLACE_SHIFT)

/* Posted memory: message seq, of up to cap bytes, may be written to the location, whose format is
 * defined by the backend. */
struct rcmi_fifo_posted {
    /* Release store by the reader, 0 first when it changes; acquire load by the writer. */
    _Alignas(RCMI_LINE) _Atomic uint64_t seq;
    uint64_t cap;
    uint8_t location[RCMI_FIFO_FIRST];
};
_Static_assert(sizeof(struct rcmi_fifo_posted) == RCMI_LINE, "a posted receive is one line");

/* The words of a get, see shm/get.c. The reader's words: release stores, the number last; acquire
 * loads. */
struct rcmi_fifo_request {
    _Alignas(RCMI_LINE) _Atomic uint64_t number; /* of the get, from 1 */
    _Atomic uint64_t dest, from, len, permit;
    _Alignas(RCMI_LINE) _Atomic uint64_t claims; /* written by both */
    /* Written by the writer, with the same memory order. */
    _Alignas(RCMI_LINE) _Atomic uint64_t helped;
    _Atomic uint64_t bounced;
    _Alignas(RCMI_LINE) _Atomic uint64_t wanted; /* written by the reader */
};

struct rcmi_fifo_shape {
    size_t slot_bytes, longest_mapped; /* longest payload in a slot, and with RCMI_FIFO_MAPPED */
    size_t stride, total;
    size_t part;                  /* distance of the places in a slot */
    size_t headers, payloads;     /* offsets */
    size_t posted, open, request; /* offsets; 0: not present */
    uint32_t nheaders;            /* a power of two */
    uint32_t slots;
    int nreaders;
};

static inline struct rcmi_fifo_shape rcmi_fifo_shape(size_t slot_bytes, uint32_t slots,
                                                     int nreaders) {
    /* At least two lines: commit copies up to RCMI_FIFO_INLINE bytes from the slot. */
    const size_t lines = 1 + (slot_bytes + RCMI_LINE - 1) / RCMI_LINE;
    struct rcmi_fifo_shape shape = {
        .slot_bytes = slot_bytes,
        .longest_mapped = slot_bytes > RCMI_GET_MAX ? slot_bytes : RCMI_GET_MAX,
        .stride = (lines | 1) * RCMI_LINE,
        .part = slot_bytes / RCMI_FIFO_PLACES / RCMI_LINE * RCMI_LINE,
        .headers = (size_t)nreaders * RCMI_FIFO_PAIR,
        .nheaders = RCMI_FIFO_HEADERS,
        .slots = slots,
        .nreaders = nreaders,
    };
    while (shape.nheaders < slots)
        shape.nheaders *= 2;
    shape.payloads = shape.headers + shape.nheaders * RCMI_FIFO_PAIR;
    shape.total = shape.payloads + slots * shape.stride;
    if (nreaders == 1) {
        shape.posted = shape.total;
        shape.total += slots * sizeof(struct rcmi_fifo_posted);
        shape.open = shape.total;
        shape.total += RCMI_LINE;
        shape.request = shape.total;
        shape.total += sizeof(struct rcmi_fifo_request);
    }
    return shape;
}

/* The posted receive for the message with this number. NULL if there are several readers. */
static inline struct rcmi_fifo_posted *
rcmi_fifo_posted(void *base, const struct rcmi_fifo_shape *shape, uint64_t number) {
    struct rcmi_fifo_posted *first = (struct rcmi_fifo_posted *)((uint8_t *)base + shape->posted);
    return shape->posted ? first + number % shape->slots : NULL;
}

/* The header of the message after the first `number` ones. */
static inline struct rcmi_fifo_header *
rcmi_fifo_header(void *base, const struct rcmi_fifo_shape *shape, uint64_t number) {
    const size_t i = (size_t)(number & (shape->nheaders - 1));
    return (struct rcmi_fifo_header *)((uint8_t *)base + shape->headers + i * RCMI_FIFO_PAIR);
}

static inline void *rcmi_fifo_slot(void *base, const struct rcmi_fifo_shape *shape, uint32_t i) {
    return (uint8_t *)base + shape->payloads + i * shape->stride;
}

/* The place of a message of this length in its slot. laps: how often all slots were used before. */
static inline uint32_t rcmi_fifo_place(const struct rcmi_fifo_shape *shape, uint32_t laps,
                                       uint64_t len) {
    if (len < RCMI_FIFO_PLACED || len > 2 * shape->part)
        return 0;
    return laps * (len > shape->part ? 2 : 1) % RCMI_FIFO_PLACES;
}

/* The maximum length of a message with these flags in its header. */
static inline size_t rcmi_fifo_longest(const struct rcmi_fifo_shape *shape, uint64_t len) {
    if (len & RCMI_FIFO_GET)
        return RCMI_GET_MAX;
    return len & RCMI_FIFO_MAPPED ? shape->longest_mapped : shape->slot_bytes;
}

/* Does a message with this len in its header use a slot? */
static inline bool rcmi_fifo_fills(uint64_t len) {
    return len > RCMI_FIFO_INLINE;
}

/* A reader's counters: messages released, and after it (_emptied) how many of them used a slot. */
static inline _Atomic uint64_t *rcmi_fifo_counter(void *base, int reader) {
    return (_Atomic uint64_t *)((uint8_t *)base + (size_t)reader * RCMI_FIFO_PAIR);
}
static inline _Atomic uint64_t *rcmi_fifo_emptied(void *base, int reader) {
    return rcmi_fifo_counter(base, reader) + 1;
}

/* The writer's number for the channel while its end is open, else 0. NULL if there are several
 * readers. */
static inline _Atomic uint64_t *rcmi_fifo_open(void *base, const struct rcmi_fifo_shape *shape) {
    return shape->open ? (_Atomic uint64_t *)((uint8_t *)base + shape->open) : NULL;
}

/* NULL if there are several readers. */
static inline struct rcmi_fifo_request *rcmi_fifo_request(void *base,
                                                          const struct rcmi_fifo_shape *shape) {
    return shape->request ? (struct rcmi_fifo_request *)((uint8_t *)base + shape->request) : NULL;
}

/* Initialises memory that may have been used before. */
static inline void rcmi_fifo_clear(void *base, const struct rcmi_fifo_shape *shape) {
    for (int r = 0; r < shape->nreaders; r++) {
        atomic_store_explicit(rcmi_fifo_counter(base, r), 0, memory_order_relaxed);
        atomic_store_explicit(rcmi_fifo_emptied(base, r), 0, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < shape->nheaders; i++)
        atomic_store_explicit(&rcmi_fifo_header(base, shape, i)->seq, 0, memory_order_relaxed);
    for (uint32_t i = 0; shape->posted && i < shape->slots; i++)
        atomic_store_explicit(&rcmi_fifo_posted(base, shape, i)->seq, 0, memory_order_relaxed);
    if (shape->open)
        atomic_store_explicit(rcmi_fifo_open(base, shape), 0, memory_order_relaxed);
    if (shape->request) {
        struct rcmi_fifo_request *request = rcmi_fifo_request(base, shape);
        atomic_store_explicit(&request->number, 0, memory_order_relaxed);
        atomic_store_explicit(&request->claims, 0, memory_order_relaxed);
        atomic_store_explicit(&request->helped, 0, memory_order_relaxed);
        atomic_store_explicit(&request->bounced, 0, memory_order_relaxed);
        atomic_store_explicit(&request->wanted, 0, memory_order_relaxed);
    }
    /* Readers get the queue's location through a system call or a lock after this. */
    atomic_thread_fence(memory_order_release);
}

/* ---- Writer ---------------------------------------------------------------------------------- */

struct rcmi_fifo_writer {
    struct rcmi_fifo_header *header; /* of the next message */
    void *slot;                      /* the next slot */
    uint64_t produced;
    uint64_t limit;  /* produced may reach it without checking the counters */
    uint64_t filled; /* slots used so far */
    uint64_t room;   /* filled may reach it */
    uint64_t taken;  /* messages released by all readers, at the last check */
    size_t ahead;    /* longer messages are not prefetched */
    uint32_t index;  /* index of slot */
    uint32_t laps;   /* how often all slots were used */
    uint32_t place;  /* of the reserved memory in its slot */
    bool broken;
    void *base;
    struct rcmi_fifo_shape shape;
};

static inline void rcmi_fifo_writer_init(struct rcmi_fifo_writer *w, void *base,
                                         const struct rcmi_fifo_shape *shape) {
    *w = (struct rcmi_fifo_writer){.header = rcmi_fifo_header(base, shape, 0),
                                   .slot = rcmi_fifo_slot(base, shape, 0),
                                   .limit = shape->nheaders,
                                   .room = shape->slots,
                                   .ahead = rcmi_cpu_copies_strings() ? RCMI_STRING_MIN
                                                                      : RCMI_FIFO_AHEAD,
                                   .base = base,
                                   .shape = *shape};
}

/* Checks the counters. Not inlined because it is rarely called: in fifo.c. */
rcm_status rcmi_fifo_refresh(struct rcmi_fifo_writer *w);

/* Has that reader released the first `number` messages; have all readers? In fifo.c. */
bool rcmi_fifo_taken_by(const struct rcmi_fifo_writer *w, int reader, uint64_t number);
bool rcmi_fifo_taken(const struct rcmi_fifo_writer *w, uint64_t number);

static inline rcm_status rcmi_fifo_room(struct rcmi_fifo_writer *w) {
    return w->produced != w->limit ? RCM_OK : rcmi_fifo_refresh(w);
}

/* Returns memory for a message of up to len bytes, at most the slot size. */
static inline rcm_status rcmi_fifo_reserve(struct rcmi_fifo_writer *w, size_t len,
                                           void **ret_bytes) {
    rcm_status status = rcmi_fifo_room(w);
    if (status != RCM_OK)
        return status;
    w->place = rcmi_fifo_place(&w->shape, w->laps, len);
    *ret_bytes = (uint8_t *)w->slot + w->place * w->shape.part;
    return RCM_OK;
}

static inline void rcmi_fifo_publish(struct rcmi_fifo_writer *w, uint64_t len, uint64_t meta) {
    struct rcmi_fifo_header *header = w->header;
    header->meta = meta;
    header->len = len;
    w->produced++;
    /* Pairs with the acquire load in rcmi_fifo_peek. */
    atomic_store_explicit(&header->seq, w->produced, memory_order_release);
    w->header = rcmi_fifo_header(w->base, &w->shape, w->produced);
    rcmi_prefetch_write(w->header);
    rcmi_prefetch_write((const uint8_t *)w->header + RCMI_LINE);
    if (!rcmi_fifo_fills(len))
        return;
    w->index = w->index + 1 == w->shape.slots ? 0 : w->index + 1;
    w->laps += w->index == 0;
    w->slot = rcmi_fifo_slot(w->base, &w->shape, w->index);
    if (++w->filled == w->room)
        w->limit = w->produced;
    len &= ~RCMI_FIFO_PLACE_BITS;
    const uint8_t *next =
        (const uint8_t *)w->slot + rcmi_fifo_place(&w->shape, w->laps, len) * w->shape.part;
    for (size_t at = 0; len < w->ahead && at < len; at += RCMI_LINE)
        rcmi_prefetch_write(next + at);
}

static inline void rcmi_fifo_commit(struct rcmi_fifo_writer *w, size_t len, uint64_t meta) {
    const uint8_t *bytes = (const uint8_t *)w->slot + w->place * w->shape.part;
    if (len <= 8) /* the most frequent case, without a call of memcpy */
        memcpy(w->header->bytes, bytes, 8);
    else if (len <= RCMI_FIFO_FIRST)
        memcpy(w->header->bytes, bytes, RCMI_FIFO_FIRST);
    else if (len <= RCMI_FIFO_INLINE)
        memcpy(w->header->bytes, bytes, RCMI_FIFO_INLINE);
    else
        len |= (uint64_t)w->place << RCMI_FIFO_PLACE_SHIFT;
    rcmi_fifo_publish(w, len, meta);
}

/* ---- Reader ---------------------------------------------------------------------------------- */

struct rcmi_fifo_reader {
    struct rcmi_fifo_header *header; /* of the next message */
    void *slot;                      /* the next slot, if the message uses one */
    uint64_t consumed;
    uint64_t len; /* of the last message, as read once from its header, without its place */
    _Atomic uint64_t *counter;
    uint64_t emptied; /* slots released */
    uint32_t index;   /* index of slot */
    uint32_t laps;    /* how often all slots were released */
    uint32_t place;   /* of the last message in its slot */
    void *base;
    struct rcmi_fifo_shape shape;
};

static inline void rcmi_fifo_reader_init(struct rcmi_fifo_reader *r, void *base,
                                         const struct rcmi_fifo_shape *shape, int number) {
    *r = (struct rcmi_fifo_reader){.header = rcmi_fifo_header(base, shape, 0),
                                   .slot = rcmi_fifo_slot(base, shape, 0),
                                   .counter = rcmi_fifo_counter(base, number),
                                   .base = base,
                                   .shape = *shape};
}

/* Takes the place out of the len of the last message. Is it then at most as long as its kind may
 * be, and within its slot? In fifo.c. */
bool rcmi_fifo_fits(struct rcmi_fifo_reader *r);

/* Reports an invalid seq or length. In fifo.c. */
rcm_status rcmi_fifo_broken(const struct rcmi_fifo_reader *r, uint64_t seq, uint64_t len);

/* Is or was the payload of the last message in its slot? */
static inline bool rcmi_fifo_in_slot(const struct rcmi_fifo_reader *r) {
    return rcmi_fifo_fills(r->len) && !(r->len & RCMI_FIFO_FLAGS);
}

/* Prefetches the lines that a message like the last one would use. A header's second line is not
 * prefetched otherwise, so that it stays in the writer's cache. */
static inline void rcmi_fifo_prefetch(const struct rcmi_fifo_reader *r) {
    if (rcmi_fifo_in_slot(r))
        __builtin_prefetch((const uint8_t *)r->slot +
                           rcmi_fifo_place(&r->shape, r->laps, r->len) * r->shape.part);
    else if (r->len > RCMI_FIFO_FIRST && !rcmi_fifo_fills(r->len))
        __builtin_prefetch((const uint8_t *)r->header + RCMI_LINE);
}

/* Is there an unreleased message? Any thread, concurrently with the reading one. In fifo.c. */
bool rcmi_fifo_unread(const struct rcmi_fifo_reader *r);

/* RCM_AGAIN, or the next message's len, which may have bits of RCMI_FIFO_FLAGS. */
static inline rcm_status rcmi_fifo_peek(struct rcmi_fifo_reader *r, uint64_t *ret_len) {
    const struct rcmi_fifo_header *header = r->header;
    /* Pairs with the release store in rcmi_fifo_publish. */
    uint64_t seq = atomic_load_explicit(&header->seq, memory_order_acquire);
    if (seq != r->consumed + 1) {
        rcmi_fifo_prefetch(r);
        return seq > r->consumed ? rcmi_fifo_broken(r, seq, 0) : RCM_AGAIN;
    }
    /* Read once: the other side may change it. */
    r->len = *(const volatile uint64_t *)&header->len;
    r->place = 0;
    /* With flags or a place it is above slot_bytes, too. */
    if (r->len > r->shape.slot_bytes && !rcmi_fifo_fits(r))
        return rcmi_fifo_broken(r, seq, r->len);
    *ret_len = r->len;
    return RCM_OK;
}

/* Of a message without flags. The reader may write to it if it is in a slot. */
static inline void *rcmi_fifo_payload(const struct rcmi_fifo_reader *r, uint64_t len) {
    return rcmi_fifo_fills(len) ? (uint8_t *)r->slot + r->place * r->shape.part : r->header->bytes;
}

static inline void rcmi_fifo_release(struct rcmi_fifo_reader *r) {
    if (rcmi_fifo_fills(r->len)) {
        r->index = r->index + 1 == r->shape.slots ? 0 : r->index + 1;
        r->laps += r->index == 0;
        r->slot = rcmi_fifo_slot(r->base, &r->shape, r->index);
        /* Release order, like the next store. */
        atomic_store_explicit(r->counter + 1, ++r->emptied, memory_order_release);
    }
    r->consumed++;
    /* Pairs with the acquire load in rcmi_fifo_refresh: our reads are complete. */
    atomic_store_explicit(r->counter, r->consumed, memory_order_release);
    r->header = rcmi_fifo_header(r->base, &r->shape, r->consumed);
}

#endif
