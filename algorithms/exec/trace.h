/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A record of what a communicator's executor did: its operations, their steps, and how long each
 * step waited for whom. The last events are kept, in memory that is there from the beginning, so
 * that recording is a few stores. Not here: the file that they go to (api/diagnosis/trace_file.h).
 */
#ifndef RCMI_TRACE_H
#define RCMI_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#include "clock.h"
#include "ringcomm.h"
#include "traffic.h"

#define RCMI_TRACE_EVENTS 65536 /* that memory is for; a power of two */
#define RCMI_TRACE_TRACKS 64

enum rcmi_trace_kind { RCMI_TRACE_OPERATION, RCMI_TRACE_STEP, RCMI_TRACE_WAIT };

struct rcmi_trace_event {
    int64_t begin, end;    /* by rcmi_trace_now */
    const char *name;      /* of the collective, or the step; static; not of a wait */
    const char *algorithm; /* static */
    uint64_t bytes;        /* of a block; of the step's message; not of a wait */
    uint32_t number, step; /* of the operation; in its plan, but not of an operation */
    int32_t peer;          /* rank; -1: none, or all of the host */
    uint16_t lane;
    uint8_t track;   /* of operations that run at a time each has another one */
    uint8_t kind;    /* enum rcmi_trace_kind */
    bool to_send;    /* a wait for a free slot; else for a message */
    bool unfinished; /* a wait that the operation's end ended */
};
_Static_assert(sizeof(struct rcmi_trace_event) == 64, "an event is a cache line");

struct rcmi_trace {
    struct rcmi_trace_event *events; /* at a cache line; its pages are there */
    /* Recorded so far; by the driver, release: what stands before it is complete. */
    _Atomic uint64_t n;
    /* By number of transport, what steps waited and took, by rcmi_trace_now; by the driver,
     * relaxed. */
    _Atomic uint64_t waited[RCMI_TRANSPORTS_MAX], moved[RCMI_TRANSPORTS_MAX];
    uint64_t tracks; /* bits: those in use; the driver's */
    /* Time is that of the processor's counter, if it has one that counts evenly; else
     * CLOCK_MONOTONIC. The two at the beginning. */
    bool by_counter;
    int64_t first, first_ns;
};

/* A look at the clock is most of what recording costs. */
static inline int64_t rcmi_trace_now(const struct rcmi_trace *trace) {
#if defined(__x86_64__)
    if (trace->by_counter)
        return (int64_t)__rdtsc();
#endif
    (void)trace;
    return rcmi_now_ns();
}

/* Sets its time; and, at some later time, how many ns one unit of it is. */
void rcmi_trace_set_clock(struct rcmi_trace *trace);
double rcmi_trace_unit_ns(const struct rcmi_trace *trace);

/* The next event, to be filled in where it is, and then published. The memory of the one after it
 * is fetched meanwhile: it was used 65536 events ago. */
static inline struct rcmi_trace_event *rcmi_trace_next(struct rcmi_trace *trace) {
    const uint64_t n = atomic_load_explicit(&trace->n, memory_order_relaxed);
    __builtin_prefetch(&trace->events[(n + 1) % RCMI_TRACE_EVENTS], 1);
    /* Pairs with the acquire in rcmi_trace_read: which event is overwritten is seen before. */
    atomic_thread_fence(memory_order_release);
    return &trace->events[n % RCMI_TRACE_EVENTS];
}

static inline void rcmi_trace_publish(struct rcmi_trace *trace) {
    const uint64_t n = atomic_load_explicit(&trace->n, memory_order_relaxed);
    atomic_store_explicit(&trace->n, n + 1, memory_order_release);
}

/* Event number at, while others may be recorded. False: it is overwritten. */
static inline bool rcmi_trace_read(const struct rcmi_trace *trace, uint64_t at,
                                   struct rcmi_trace_event *ret_event) {
    *ret_event = trace->events[at % RCMI_TRACE_EVENTS];
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&trace->n, memory_order_relaxed) - at < RCMI_TRACE_EVENTS;
}

#endif
