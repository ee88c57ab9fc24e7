/* SPDX-License-Identifier: BSD-3-Clause */
/* Doorbells and pauses. Futex calls are of the shared kind, because several processes map
 * doorbells. */
#include "wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "cgroup.h"
#include "entry.h"
#include "log.h"
#include "settings.h"
#include "yield.h"

/* ---- Bells --------------------------------------------------------------------------------- */

uint32_t rcmi_doorbell_arm(struct rcmi_doorbell *doorbell, uint32_t bit) {
    if (bit == RCMI_DOORBELL_FUTEX_ONE)
        atomic_fetch_add_explicit(&doorbell->armed, bit, memory_order_seq_cst);
    else
        atomic_fetch_or_explicit(&doorbell->armed, bit, memory_order_seq_cst);
    /* Partner: the fence in rcmi_doorbell_ring. A read-modify-write alone would let the caller's
     * re-check move ahead of it on some machines. */
    atomic_thread_fence(memory_order_seq_cst);
    /* Partner: the increment in doorbell_wake_threads. A reader of the new word also sees the
     * change that it was rung for, so the re-check finds it. */
    return atomic_load_explicit(&doorbell->word, memory_order_acquire);
}

void rcmi_doorbell_disarm(struct rcmi_doorbell *doorbell, uint32_t bit) {
    /* Relaxed: a ringer that still sees the bit wakes nobody, which is harmless. */
    if (bit == RCMI_DOORBELL_FUTEX_ONE)
        atomic_fetch_sub_explicit(&doorbell->armed, bit, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&doorbell->armed, ~bit, memory_order_relaxed);
}

void rcmi_doorbell_sleep(struct rcmi_doorbell *doorbell, uint32_t seen, rcmi_deadline deadline) {
    struct timespec at = {.tv_sec = (time_t)(deadline / 1000000000),
                          .tv_nsec = (long)(deadline % 1000000000)};
    int saved_errno = errno;
    /* The bitset form takes an absolute monotonic time. All its errors mean "check again": the word
     * had changed, a signal arrived, the deadline passed. */
    syscall(SYS_futex, &doorbell->word, FUTEX_WAIT_BITSET, seen,
            deadline == RCMI_NEVER ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY);
    errno = saved_errno;
}

static void doorbell_wake_threads(struct rcmi_doorbell *doorbell) {
    /* Partner: the load in rcmi_doorbell_arm. The kernel compares the word with `seen` before
     * sleeping, so a caller between arm and sleep does not sleep. */
    atomic_fetch_add_explicit(&doorbell->word, 1, memory_order_release);
    syscall(SYS_futex, &doorbell->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void doorbell_wake_eventfd(int eventfd) {
    RCMI_ENTRY;
    const uint64_t one = 1;
    /* Fails only if the counter is full; the sleeper is then awake already. */
    while (eventfd >= 0 && write(eventfd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void rcmi_doorbell_ring_all(struct rcmi_doorbell *doorbell, int eventfd, int poller_fd) {
    /* Partner: the fence in rcmi_doorbell_arm. */
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t armed = atomic_load_explicit(&doorbell->armed, memory_order_relaxed);
    if (armed == 0)
        return;
    int saved_errno = errno;
    if (armed & RCMI_DOORBELL_FUTEX_MASK)
        doorbell_wake_threads(doorbell);
    if (armed & RCMI_DOORBELL_ENGINE)
        doorbell_wake_eventfd(eventfd);
    if (armed & RCMI_DOORBELL_POLLER)
        doorbell_wake_eventfd(poller_fd);
    errno = saved_errno;
}

/* ---- Pauses -------------------------------------------------------------------------------- */

enum {
    SPIN_US_ROOMY = 50,   /* longer than a wake-up through the kernel */
    YIELDS_ROOMY = 32,    /* another thread may need this CPU after all */
    YIELDS_CROWDED = 64,  /* each gives the CPU to another rank: faster than any sleep */
    SPINS_PER_CLOCK = 16, /* of short spins */
    SPINS_PER_YIELD = 8,  /* of long ones */
    BYTES_MANY = 65536,
    BYTES_PER_YIELD = 4096,
    YIELDS_MOVED = 4000, /* maximum additional yields while bytes are moved */
};

/* Values determined once per process. Concurrent first callers measure twice and write nearly the
 * same. Each value is independent, so relaxed order needs no partner. */
static _Atomic int known_cpus = -1;    /* -1: not yet */
static _Atomic int known_spin_us = -2; /* RINGCOMM_SPIN_US; -1: auto; -2: not yet */

static inline void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* `yield` takes no time on most CPUs */
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* Whole CPUs; 0 if a quota allows less than one. */
static int cpus_of_process(void) {
    int cpus = atomic_load_explicit(&known_cpus, memory_order_relaxed);
    if (cpus >= 0)
        return cpus;
    struct rcmi_cgroup_cpus limit;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cpus = CPU_COUNT(&set);
    else /* more CPUs than the set holds */
        cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    cpus = cpus > 0 ? cpus : 1;
    rcmi_cgroup_cpus(&limit);
    if (limit.cpus > 0 && limit.cpus < cpus)
        cpus = (int)limit.cpus;
    atomic_store_explicit(&known_cpus, cpus, memory_order_relaxed);
    return cpus;
}

static int spin_setting(void) {
    int us = atomic_load_explicit(&known_spin_us, memory_order_relaxed);
    if (us != -2)
        return us;
    int64_t ns = -1000;
    if (strcasecmp(rcmi_setting("RINGCOMM_SPIN_US"), "auto") != 0 &&
        rcmi_setting_duration("RINGCOMM_SPIN_US", 1000, 0, RCMI_SPIN_US_MAX * INT64_C(1000), &ns) !=
            RCM_OK)
        rcmi_log(RCMI_LOG_WARN, "%s; using auto", rcm_last_error());
    us = (int)(ns / 1000);
    atomic_store_explicit(&known_spin_us, us, memory_order_relaxed);
    return us;
}

struct rcmi_pause rcmi_pause_budget(int local_ranks) {
    const bool roomy = cpus_of_process() >= local_ranks;
    const int set = spin_setting(), usual = roomy ? SPIN_US_ROOMY : 0;
    return (struct rcmi_pause){
        .spin_ns = (set >= 0 ? set : usual) * INT64_C(1000),
        .yields = roomy ? YIELDS_ROOMY : YIELDS_CROWDED,
    };
}

static size_t at_most(size_t n, size_t most) {
    return n < most ? n : most;
}

/* A round trip of the bytes: through sockets within a host, and through slow memory. */
struct rcmi_pause rcmi_pause_for_bytes(struct rcmi_pause budget, size_t bytes, bool by_sockets) {
    const size_t bytes_per_us = by_sockets ? 1024 : 4096, most_us = by_sockets ? 2000 : 1000;
    if (bytes < BYTES_MANY || spin_setting() >= 0)
        return budget;
    if (budget.spin_ns > 0)
        budget.spin_ns += (int64_t)at_most(bytes / bytes_per_us, most_us) * 1000;
    else
        budget.yields += (uint32_t)at_most(bytes / BYTES_PER_YIELD, YIELDS_MOVED);
    return budget;
}

/* Reads the clock instead of counting pauses: between two pauses the caller checks its condition,
 * and checking sockets takes many times as long as a pause. */
static void pause_check_clock(struct rcmi_pause *pause) {
    const int64_t now = rcmi_now_ns();
    if (pause->began == 0)
        pause->began = now;
    if (now - pause->began >= pause->spin_ns)
        pause->spin_ns = 0;
}

static void pause_spin(struct rcmi_pause *pause) {
    cpu_pause();
    pause->spins++;
    if (pause->slow || pause->spins % SPINS_PER_CLOCK == 1)
        pause_check_clock(pause);
    /* A yield takes as long as a slow check, and the awaited rank may need this CPU. While yields
     * are suspended, computing threads need it: a spin would use up this process's share. */
    if (pause->slow && pause->spins % SPINS_PER_YIELD == 0 && !rcmi_yield())
        pause->spin_ns = 0;
}

bool rcmi_pause(struct rcmi_pause *pause) {
    if (pause->spin_ns > 0) {
        pause_spin(pause);
        return true;
    }
    if (pause->yields > 0 && rcmi_yield()) {
        pause->yields--;
        return true;
    }
    return false;
}
