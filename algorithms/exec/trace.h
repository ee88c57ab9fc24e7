/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Record of a communicator's executor: its operations, their steps, and how long each step waited
 * for which peer. A preallocated ring keeps the last events, so recording is a few stores. Not
 * here: the trace file (api/diagnosis/trace_file.h).
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

#define RCMI_TRACE_EVENTS 65536 /* size of the ring; a power of two */
#define RCMI_TRACE_TRACKS 64

enum rcmi_trace_kind { RCMI_TRACE_OPERATION, RCMI_TRACE_STEP, RCMI_TRACE_WAIT };

struct rcmi_trace_event {
    int64_t begin, end;    /* by rcmi_trace_now */
    const char *name;      /* of the collective or step; static; unset for waits */
    const char *algorithm; /* static */
    uint64_t bytes;        /* of a block; of the step's message; unset for waits */
    uint32_t number, step; /* of the operation; in its plan, unset for operations */
    int32_t peer;          /* rank; -1: none, or all of the host */
    uint16_t lane;
    uint8_t track;   /* concurrent operations have different tracks */
    uint8_t kind;    /* enum rcmi_trace_kind */
    bool to_send;    /* a wait for a free slot; else for a message */
    bool unfinished; /* a wait cut off by the operation's end */
};
_Static_assert(sizeof(struct rcmi_trace_event) == 64, "an event is a cache line");

struct rcmi_trace {
    struct rcmi_trace_event *events; /* cache-line aligned; pages already faulted in */
    /* Events recorded so far. The driver stores it with release: earlier events are complete. */
    _Atomic uint64_t n;
    /* Time that steps waited and took, by transport number, in units of rcmi_trace_now. Written by
     * the driver, relaxed. */
    _Atomic uint64_t waited[RCMI_TRANSPORTS_MAX], moved[RCMI_TRANSPORTS_MAX];
    uint64_t tracks; /* bit mask of those in use; driver only */
    /* Time comes from the CPU's counter if it has a constant rate, else from CLOCK_MONOTONIC.
     * `first` and `first_ns` are the start on both clocks. */
    bool by_counter;
    int64_t first, first_ns;
};

/* Reading the clock is most of the cost of recording. */
static inline int64_t rcmi_trace_now(const struct rcmi_trace *trace) {
#if defined(__x86_64__)
    if (trace->by_counter)
        return (int64_t)__rdtsc();
#endif
    (void)trace;
    return rcmi_now_ns();
}

/* Sets the clock; and, at a later time, returns the ns per unit of it. */
void rcmi_trace_set_clock(struct rcmi_trace *trace);
double rcmi_trace_unit_ns(const struct rcmi_trace *trace);

/* The next event, to be filled in and published. Prefetches the event after it, whose memory was
 * used 65536 events ago. */
static inline struct rcmi_trace_event *rcmi_trace_next(struct rcmi_trace *trace) {
    const uint64_t n = atomic_load_explicit(&trace->n, memory_order_relaxed);
    __builtin_prefetch(&trace->events[(n + 1) % RCMI_TRACE_EVENTS], 1);
    /* Pairs with the acquire in rcmi_trace_read: a reader detects that this event is being
     * overwritten. */
    atomic_thread_fence(memory_order_release);
    return &trace->events[n % RCMI_TRACE_EVENTS];
}

static inline void rcmi_trace_publish(struct rcmi_trace *trace) {
    const uint64_t n = atomic_load_explicit(&trace->n, memory_order_relaxed);
    atomic_store_explicit(&trace->n, n + 1, memory_order_release);
}

/* Copies event number `at`, while others may be recorded. False: it was overwritten. */
static inline bool rcmi_trace_read(const struct rcmi_trace *trace, uint64_t at,
                                   struct rcmi_trace_event *ret_event) {
    *ret_event = trace->events[at % RCMI_TRACE_EVENTS];
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&trace->n, memory_order_relaxed) - at < RCMI_TRACE_EVENTS;
}

#endif
