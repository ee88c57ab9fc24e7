/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one way to wait: spin within a budget, then yield the CPU, then arm a bit and sleep.
 *
 * A *doorbell* is what a process (or one thread-rank) sleeps on. It may lie in memory that other
 * processes map: they ring it after having changed something it may wait for. Three kinds of
 * sleepers exist: threads, which sleep on the doorbell's futex word; the engine thread, which
 * sleeps in epoll on an eventfd; and at most one thread that polls descriptors, another eventfd
 * among them, and that only its own process can wake. The armed bits say which of them need waking,
 * so that ringing costs one load when nobody sleeps.
 *
 *   sleeper                                    ringer
 *     seen = rcmi_doorbell_arm(doorbell, BIT)            publish the change
 *     check the condition once more              rcmi_doorbell_ring(doorbell, eventfd)
 *     rcmi_doorbell_sleep(doorbell, seen, deadline)
 *     rcmi_doorbell_disarm(doorbell, BIT)
 *
 * Pairing: arm's sequentially consistent write before the sleeper's re-check, against ring's
 * sequentially consistent fence between the published change and its read of the armed bits: one
 * of the two sees the other.
 */
#ifndef RCMI_WAIT_H
#define RCMI_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "ringcomm.h"
#include "clock.h"

/* Bytes of a cache line; what is written by different sides is so far apart. */
#define RCMI_LINE 64

#define RCMI_DOORBELL_FUTEX_ONE  0x1u /* added to armed by each sleeping thread */
#define RCMI_DOORBELL_FUTEX_MASK 0xffffu
#define RCMI_DOORBELL_ENGINE     0x10000u /* set by the engine thread */
#define RCMI_DOORBELL_POLLER     0x20000u /* set by the thread that polls */

struct rcmi_doorbell {
    _Alignas(RCMI_LINE) _Atomic uint32_t word; /* futex; changes at each ring that wakes */
    _Atomic uint32_t armed;                    /* bits above; written by the owner's threads */
};

/* Announces that the caller is about to sleep: bit is one of RCMI_DOORBELL_FUTEX_ONE, _ENGINE and
 * _POLLER. Returns the word to hand to rcmi_doorbell_sleep. */
uint32_t rcmi_doorbell_arm(struct rcmi_doorbell *doorbell, uint32_t bit);
void rcmi_doorbell_disarm(struct rcmi_doorbell *doorbell, uint32_t bit);

/* Sleeps until the word is no longer `seen` or the deadline passed. May return early. */
void rcmi_doorbell_sleep(struct rcmi_doorbell *doorbell, uint32_t seen, rcmi_deadline deadline);

/* Wakes all that are armed; poller_fd is the eventfd of the thread that polls. Any thread, any
 * process. */
void rcmi_doorbell_ring_all(struct rcmi_doorbell *doorbell, int eventfd, int poller_fd);
/* The same but for the thread that polls; eventfd is that of the doorbell's engine, -1 for none.
 * Inlined, for most often nothing is armed. */
static inline void rcmi_doorbell_ring(struct rcmi_doorbell *doorbell, int eventfd) {
    /* Partner: the fence in rcmi_doorbell_arm. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&doorbell->armed, memory_order_relaxed) != 0)
        rcmi_doorbell_ring_all(doorbell, eventfd, -1);
}

#define RCMI_SPIN_US_MAX 1000000 /* of RINGCOMM_SPIN_US and rcm_comm_set_spin */

/* Budgeted pause between two looks at a condition. */
struct rcmi_pause {
    int64_t spin_ns;    /* how long to spin, looks included; 0: not, or no longer */
    int64_t spin_until; /* 0: the clock has not been read yet */
    uint32_t spins;     /* made so far, each a cpu pause instruction */
    uint32_t yields;    /* left, each a sched_yield; none of them where these are lost (yield.h) */
};

/* How long to spin before sleeping: generous when every rank of this host can have a CPU of its
 * own (CPUs of the affinity mask and the quota, read once per process, >= local_ranks), no spinning
 * and more yields when not: there each yield lets another rank run, and that is the fast way. The
 * length of the spin is set with RINGCOMM_SPIN_US. Cheap: call it before every wait. */
struct rcmi_pause rcmi_pause_budget(int local_ranks);

/* The budget of a wait in which so many bytes are moved. With many it is longer, as long as moving
 * them may take (not if RINGCOMM_SPIN_US is set): a core that slept meanwhile comes back late. */
struct rcmi_pause rcmi_pause_for_bytes(struct rcmi_pause budget, size_t bytes, bool by_sockets);

/* Pauses once; false when the caller should sleep: the budget is spent, or yields rest
 * (yield.h). */
bool rcmi_pause(struct rcmi_pause *pause);

#endif
