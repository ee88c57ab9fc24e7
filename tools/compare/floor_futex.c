/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a hand-over without spinning: a futex wake between two processes, on two cores and on
 * one, and sched_yield between two processes on one core. It is the minimum for ranks that share a
 * core or wait for long.
 */
#include "floor.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"

#define FUTEX_TRIPS   1000 /* round trips per measurement */
#define FUTEX_WAIT_NS 100000000

enum futex_way { FUTEX_SLEEP, FUTEX_YIELD };

struct futex_figures {
    struct floor_series apart, together, yield;
};

/* Sleeps with a limit: a partner that has failed sends no wake, and the caller checks for that. */
static void word_sleep(_Atomic uint32_t *word, uint32_t seen) {
    const struct timespec most = {.tv_nsec = FUTEX_WAIT_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &most, NULL, 0);
}

/* Waits until the word differs from `seen`. */
static bool word_await(struct floor_side *side, _Atomic uint32_t *word, uint32_t seen,
                       enum futex_way way) {
    uint32_t spins = 0;
    while (atomic_load_explicit(word, memory_order_acquire) == seen) {
        if (way == FUTEX_SLEEP)
            word_sleep(word, seen);
        else
            sched_yield();
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return true;
        if (way == FUTEX_SLEEP ? floor_over(side) : floor_hopeless(side, &spins))
            return false;
    }
    return true;
}

/* Rank 0 makes the word odd, rank 1 makes it even again. */
static bool futex_trips(struct floor_side *side, enum futex_way way, double *ret_us) {
    _Atomic uint32_t *const word = &side->shared->futex;
    if (side->rank == 0)
        atomic_store(word, 0);
    if (!floor_meet_politely(side))
        return false;
    const int64_t start = rcmi_now_ns();
    for (uint32_t i = 0; i < FUTEX_TRIPS; i++) {
        const uint32_t turn = 2 * i + (uint32_t)side->rank;
        if (side->rank == 1 && !word_await(side, word, turn - 1, way))
            return false;
        atomic_store_explicit(word, turn + 1, memory_order_release); /* pairs with word_await */
        if (way == FUTEX_SLEEP)
            syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
        if (side->rank == 0 && !word_await(side, word, turn + 1, way))
            return false;
    }
    *ret_us = (double)(rcmi_now_ns() - start) / FUTEX_TRIPS / 2e3;
    return floor_meet_politely(side);
}

static bool side_move(const struct floor_side *side, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)side->floor->cpus[cpu], &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0 || floor_failed("futex: cannot pin");
}

static bool futex_rounds(struct floor_side *side, struct futex_figures *figures) {
    for (int round = -1; round < side->floor->rounds; round++) { /* the first warms up */
        double apart, together, yield;
        if (!side_move(side, side->rank) || !futex_trips(side, FUTEX_SLEEP, &apart) ||
            !side_move(side, 0) || !futex_trips(side, FUTEX_SLEEP, &together) ||
            !futex_trips(side, FUTEX_YIELD, &yield))
            return false;
        if (round < 0)
            continue;
        floor_add(&figures->apart, apart);
        floor_add(&figures->together, together);
        floor_add(&figures->yield, yield);
    }
    return true;
}

static bool futex_side(struct floor_side *side, void *arg) {
    return futex_rounds(side, arg);
}

bool floor_futex(struct floor *f) {
    static struct futex_figures figures;
    if (!floor_pair(f, futex_side, &figures))
        return floor_failed("cannot measure futexes");
    floor_row(f, "hand over", "futex, two cores", 2, 0, "us", &figures.apart);
    floor_row(f, "hand over", "futex, one core", 1, 0, "us", &figures.together);
    floor_row(f, "hand over", "sched_yield, one core", 1, 0, "us", &figures.yield);
    return true;
}
