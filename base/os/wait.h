/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How every wait works: spin within a budget, then yield the CPU, then arm a bit and sleep.
 *
 * A *doorbell* is what a process (or a rank that is a thread) sleeps on. Other processes may map
 * it; they ring it after a change that it may wait for. There are three kinds of sleepers: threads,
 * which sleep on the doorbell's futex word; the engine thread, which sleeps in epoll on an eventfd;
 * and at most one thread that polls descriptors including another eventfd, which only its own
 * process can wake. The armed bits show which of them need waking, so ringing costs one load if
 * none sleeps.
 *
 *   sleeper                                    ringer
 *     seen = rcmi_doorbell_arm(doorbell, BIT)            publish the change
 *     check the condition once more              rcmi_doorbell_ring(doorbell, eventfd)
 *     rcmi_doorbell_sleep(doorbell, seen, deadline)
 *     rcmi_doorbell_disarm(doorbell, BIT)
 *
 * Pairing: arm ends with a sequentially consistent fence, before the sleeper's re-check. ring has
 * one between the published change and its read of the armed bits. So one of the two sees the
 * other. A ring between arm and sleep changes the word, so that a sleep with the older `seen`
 * returns.
 */
#ifndef RCMI_WAIT_H
#define RCMI_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "ringcomm.h"
#include "clock.h"

/* Bytes of a cache line, the distance between data written by different sides. */
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
 * _POLLER. Returns the word to pass to rcmi_doorbell_sleep. */
uint32_t rcmi_doorbell_arm(struct rcmi_doorbell *doorbell, uint32_t bit);
void rcmi_doorbell_disarm(struct rcmi_doorbell *doorbell, uint32_t bit);

/* Sleeps until the word is no longer `seen` or the deadline passed. May return early. */
void rcmi_doorbell_sleep(struct rcmi_doorbell *doorbell, uint32_t seen, rcmi_deadline deadline);

/* Wakes all armed sleepers; poller_fd is the eventfd of the polling thread. Any thread, any
 * process. */
void rcmi_doorbell_ring_all(struct rcmi_doorbell *doorbell, int eventfd, int poller_fd);
/* The same without the polling thread; eventfd: of the doorbell's engine, -1: none. Inlined,
 * because usually nothing is armed. */
static inline void rcmi_doorbell_ring(struct rcmi_doorbell *doorbell, int eventfd) {
    /* Partner: the fence in rcmi_doorbell_arm. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&doorbell->armed, memory_order_relaxed) != 0)
        rcmi_doorbell_ring_all(doorbell, eventfd, -1);
}

#define RCMI_SPIN_US_MAX 1000000 /* of RINGCOMM_SPIN_US and rcm_comm_set_spin */

/* Budgeted pause between two checks of a condition. */
struct rcmi_pause {
    int64_t spin_ns; /* how long to spin, checks included; 0: not, or no longer */
    int64_t began;   /* on the clock; 0: at the first pause. A wait that continues another one, on
                        the same budget, begins when that began */
    uint32_t spins;  /* made so far, each a cpu pause instruction */
    uint32_t yields; /* sched_yields left; none while yields are suspended (yield.h) */
    bool slow;       /* a check makes system calls. Set by the caller; false in rcmi_pause_budget */
};

/* How long to spin before sleeping. Generous if every rank of this host can have its own CPU (CPUs
 * of the affinity mask and the quota, read once per process, >= local_ranks). Otherwise no spinning
 * but more yields: each yield lets another rank run, which is faster. RINGCOMM_SPIN_US sets the
 * spin time. Cheap: call it before every wait. */
struct rcmi_pause rcmi_pause_budget(int local_ranks);

/* The budget of a wait during which `bytes` are moved. For many bytes it is extended by the time
 * that moving them may take, because a core that slept wakes late. RINGCOMM_SPIN_US, if set, is not
 * extended. */
struct rcmi_pause rcmi_pause_for_bytes(struct rcmi_pause budget, size_t bytes, bool by_sockets);

/* Pauses once; false when the caller should sleep: the budget is spent, or yields are
 * suspended (yield.h). */
bool rcmi_pause(struct rcmi_pause *pause);

#endif
