/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue of messages in memory that a writer and its readers share: headers and slots, each used
 * in turns as a ring buffer. For the transports that have such memory: shm and cuda_ipc (another
 * process's) and self (the heap).
 *
 *   readers x 2 lines   how much that reader has given back; its own
 *   headers x 2 lines   {seq, meta, len, inline bytes}
 *   slots x stride      payloads
 *   slots x line        memory that the reader posted, written by it; only with one reader
 *   line                which channel the writer has open here; likewise
 *   4 lines             the get request: what is got, and which side copies which piece; likewise
 *
 * seq is the number of the message in the header, from 1, and the last thing written: its release
 * store publishes the rest of the header and the payload. Messages of up to RCMI_FIFO_INLINE bytes
 * travel in the header, most of them in its first line, so that only that one moves, and use no
 * slot; there are 64 headers for them, or as many as slots. All others use the slots in turns, also
 * those whose payload lies elsewhere. The writer hands out the next slot, because it does not know
 * the length before commit, and copies such few bytes into the header then: the slot's lines never
 * leave its cache. After a message it prefetches the lines of the next one, which the reader still
 * has, for writing. Processors that fetch lines in pairs exist, so a header is a pair of its own.
 * The stride is an odd number of lines, so that slots do not fall on each other in caches. No side
 * writes what another one writes, but a reader its answer into a slot before it gives that back,
 * and both the word by which they take pieces of a vector.
 *
 * What is read from the other side is read once and checked.
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

#define RCMI_FIFO_FIRST   40 /* bytes that fit the first line of a header, or a posted location */
#define RCMI_FIFO_INLINE  (RCMI_FIFO_FIRST + RCMI_LINE)
#define RCMI_FIFO_PAIR    (2 * RCMI_LINE)
#define RCMI_FIFO_HEADERS 64 /* at least */
/* The next message is likely to be as long as this one: its lines of the slot are prefetched.
 * Not from here on: pieces of large messages follow so fast that the reader still reads that slot.
 * Nor where they are written by the string instruction (cpu.h). */
#define RCMI_FIFO_AHEAD ((size_t)16 << 10)
_Static_assert(RCMI_FIFO_INLINE <= 2 * RCMI_LINE && RCMI_FIFO_INLINE <= RCMI_TINY,
               "a message of more uses a slot");

struct rcmi_fifo_header {
    /* Release store in rcmi_fifo_publish pairs with the acquire load in rcmi_fifo_peek. */
    _Alignas(RCMI_LINE) _Atomic uint64_t seq;
    uint64_t meta;
    uint64_t len;
    uint8_t bytes[RCMI_FIFO_INLINE]; /* or, with a bit of RCMI_FIFO_FLAGS in len, where the payload
                                        is */
};
_Static_assert(sizeof(struct rcmi_fifo_header) == RCMI_FIFO_PAIR, "a header is two lines");

/* In len: the payload lies in memory of the writer's that the reader maps; where the reader posted
 * memory; or in memory of the writer's that is to be got. */
#define RCMI_FIFO_MAPPED ((uint64_t)1 << 63)
#define RCMI_FIFO_PUT    ((uint64_t)1 << 62)
#define RCMI_FIFO_GET    ((uint64_t)1 << 61)
#define RCMI_FIFO_FLAGS  (RCMI_FIFO_MAPPED | RCMI_FIFO_PUT | RCMI_FIFO_GET)

/* Posted memory: message seq, of up to cap bytes, may be written to a location that the transport
 * knows how to describe. */
struct rcmi_fifo_posted {
    /* Release store by the reader, 0 first when it changes; acquire load by the writer. */
    _Alignas(RCMI_LINE) _Atomic uint64_t seq;
    uint64_t cap;
    uint8_t location[RCMI_FIFO_FIRST];
};
_Static_assert(sizeof(struct rcmi_fifo_posted) == RCMI_LINE, "it is one line");

/* A get, of which shm/get.c has the picture. Words of the reader's: release stores, the number
 * last; acquire loads. */
struct rcmi_fifo_request {
    _Alignas(RCMI_LINE) _Atomic uint64_t number; /* of the get, from 1 */
    _Atomic uint64_t dest, from, len, permit;
    _Alignas(RCMI_LINE) _Atomic uint64_t claims; /* of both */
    /* The writer's; the same. */
    _Alignas(RCMI_LINE) _Atomic uint64_t helped;
    _Atomic uint64_t bounced;
    _Alignas(RCMI_LINE) _Atomic uint64_t wanted; /* the reader's */
};

struct rcmi_fifo_shape {
    size_t slot_bytes, longest_mapped; /* the longest payload in a slot, and of RCMI_FIFO_MAPPED */
    size_t stride, total;
    size_t headers, payloads;     /* where they begin */
    size_t posted, open, request; /* 0: there are none */
    uint32_t nheaders;            /* a power of two */
    uint32_t slots;
    int nreaders;
};

static inline struct rcmi_fifo_shape rcmi_fifo_shape(size_t slot_bytes, uint32_t slots,
                                                     int nreaders) {
    /* Two at least: commit copies as many bytes as fit a header. */
    const size_t lines = 1 + (slot_bytes + RCMI_LINE - 1) / RCMI_LINE;
    struct rcmi_fifo_shape shape = {
        .slot_bytes = slot_bytes,
        .longest_mapped = slot_bytes > RCMI_GET_MAX ? slot_bytes : RCMI_GET_MAX,
        .stride = (lines | 1) * RCMI_LINE,
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

/* Of the message with this number. NULL if there are several readers. */
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

/* How long a message with these flags in its header may be. */
static inline size_t rcmi_fifo_longest(const struct rcmi_fifo_shape *shape, uint64_t len) {
    if (len & RCMI_FIFO_GET)
        return RCMI_GET_MAX;
    return len & RCMI_FIFO_MAPPED ? shape->longest_mapped : shape->slot_bytes;
}

/* Does a message with this in its header use a slot? */
static inline bool rcmi_fifo_fills(uint64_t len) {
    return len > RCMI_FIFO_INLINE;
}

/* What a reader has given back: messages, and behind that how many of them had used a slot. */
static inline _Atomic uint64_t *rcmi_fifo_counter(void *base, int reader) {
    return (_Atomic uint64_t *)((uint8_t *)base + (size_t)reader * RCMI_FIFO_PAIR);
}
static inline _Atomic uint64_t *rcmi_fifo_emptied(void *base, int reader) {
    return rcmi_fifo_counter(base, reader) + 1;
}

/* A number that the writer gave the channel, as long as its end is open, else 0. NULL if there are
 * several readers. */
static inline _Atomic uint64_t *rcmi_fifo_open(void *base, const struct rcmi_fifo_shape *shape) {
    return shape->open ? (_Atomic uint64_t *)((uint8_t *)base + shape->open) : NULL;
}

/* NULL if there are several readers. */
static inline struct rcmi_fifo_request *rcmi_fifo_request(void *base,
                                                          const struct rcmi_fifo_shape *shape) {
    return shape->request ? (struct rcmi_fifo_request *)((uint8_t *)base + shape->request) : NULL;
}

/* Makes fresh what may have been used before. */
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
    /* Readers learn of the queue through a system call or a lock after this. */
    atomic_thread_fence(memory_order_release);
}

/* ---- Writer ---------------------------------------------------------------------------------- */

struct rcmi_fifo_writer {
    struct rcmi_fifo_header *header; /* of the next message */
    void *slot;                      /* the next one */
    uint64_t produced;
    uint64_t limit;  /* produced may reach it without a look at the counters */
    uint64_t filled; /* slots, so far */
    uint64_t room;   /* filled may reach it */
    uint64_t taken;  /* messages, by the last look */
    size_t ahead;    /* longer messages are not prefetched */
    uint32_t index;  /* of slot */
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

/* Looks at the counters. Not inlined, rarely called: in fifo.c. */
rcm_status rcmi_fifo_refresh(struct rcmi_fifo_writer *w);

/* Has that reader given back the first `number` messages; have all? In fifo.c. */
bool rcmi_fifo_taken_by(const struct rcmi_fifo_writer *w, int reader, uint64_t number);
bool rcmi_fifo_taken(const struct rcmi_fifo_writer *w, uint64_t number);

static inline rcm_status rcmi_fifo_room(struct rcmi_fifo_writer *w) {
    return w->produced != w->limit ? RCM_OK : rcmi_fifo_refresh(w);
}

static inline rcm_status rcmi_fifo_reserve(struct rcmi_fifo_writer *w, void **ret_slot) {
    rcm_status status = rcmi_fifo_room(w);
    if (status == RCM_OK)
        *ret_slot = w->slot;
    return status;
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
    w->slot = rcmi_fifo_slot(w->base, &w->shape, w->index);
    if (++w->filled == w->room)
        w->limit = w->produced;
    for (size_t at = 0; len < w->ahead && at < len; at += RCMI_LINE)
        rcmi_prefetch_write((const uint8_t *)w->slot + at);
}

static inline void rcmi_fifo_commit(struct rcmi_fifo_writer *w, size_t len, uint64_t meta) {
    if (len <= 8) /* most often, and not worth a call */
        memcpy(w->header->bytes, w->slot, 8);
    else if (len <= RCMI_FIFO_FIRST)
        memcpy(w->header->bytes, w->slot, RCMI_FIFO_FIRST);
    else if (len <= RCMI_FIFO_INLINE)
        memcpy(w->header->bytes, w->slot, RCMI_FIFO_INLINE);
    rcmi_fifo_publish(w, len, meta);
}

/* ---- Reader ---------------------------------------------------------------------------------- */

struct rcmi_fifo_reader {
    struct rcmi_fifo_header *header; /* of the next message */
    void *slot;                      /* the next one to be read, if the message uses one */
    uint64_t consumed;
    uint64_t len; /* of the last message, as its header said when it was read */
    _Atomic uint64_t *counter;
    uint64_t emptied; /* slots */
    uint32_t index;   /* of slot */
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

/* A seq or a length that cannot be. In fifo.c. */
rcm_status rcmi_fifo_broken(const struct rcmi_fifo_reader *r, uint64_t seq, uint64_t len);

/* Is, or was, the last message in its slot? */
static inline bool rcmi_fifo_in_slot(const struct rcmi_fifo_reader *r) {
    return rcmi_fifo_fills(r->len) && !(r->len & RCMI_FIFO_FLAGS);
}

/* If the next message is like the last one its second line is fetched beside the first one. Else
 * that line had better stay in the writer's cache. */
static inline void rcmi_fifo_prefetch(const struct rcmi_fifo_reader *r) {
    if (rcmi_fifo_in_slot(r))
        __builtin_prefetch(r->slot);
    else if (r->len > RCMI_FIFO_FIRST && !rcmi_fifo_fills(r->len))
        __builtin_prefetch((const uint8_t *)r->header + RCMI_LINE);
}

/* Is there a message that was not released? Any thread, beside the one that reads. In fifo.c. */
bool rcmi_fifo_unread(const struct rcmi_fifo_reader *r);

/* RCM_AGAIN, or what the next message's header says. *ret_len may have bits of RCMI_FIFO_FLAGS. */
static inline rcm_status rcmi_fifo_peek(struct rcmi_fifo_reader *r, uint64_t *ret_len) {
    const struct rcmi_fifo_header *header = r->header;
    /* Pairs with the release store in rcmi_fifo_publish. */
    uint64_t seq = atomic_load_explicit(&header->seq, memory_order_acquire);
    if (seq != r->consumed + 1) {
        rcmi_fifo_prefetch(r);
        return seq > r->consumed ? rcmi_fifo_broken(r, seq, 0) : RCM_AGAIN;
    }
    /* Once: the other side may change it. */
    uint64_t len = *(const volatile uint64_t *)&header->len;
    /* With a flag it is more, too. */
    if (len > r->shape.slot_bytes && (len & ~RCMI_FIFO_FLAGS) > rcmi_fifo_longest(&r->shape, len))
        return rcmi_fifo_broken(r, seq, len);
    r->len = len;
    *ret_len = len;
    return RCM_OK;
}

static inline const void *rcmi_fifo_payload(const struct rcmi_fifo_reader *r, uint64_t len) {
    return rcmi_fifo_fills(len) ? r->slot : r->header->bytes;
}

static inline void rcmi_fifo_release(struct rcmi_fifo_reader *r) {
    if (rcmi_fifo_fills(r->len)) {
        r->index = r->index + 1 == r->shape.slots ? 0 : r->index + 1;
        r->slot = rcmi_fifo_slot(r->base, &r->shape, r->index);
        /* As the next one. */
        atomic_store_explicit(r->counter + 1, ++r->emptied, memory_order_release);
    }
    r->consumed++;
    /* Pairs with the acquire load in rcmi_fifo_refresh: our reads are over. */
    atomic_store_explicit(r->counter, r->consumed, memory_order_release);
    r->header = rcmi_fifo_header(r->base, &r->shape, r->consumed);
}

#endif
