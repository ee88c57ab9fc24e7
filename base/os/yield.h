/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sched_yield, as long as the CPU comes back soon. Which thread a yield gives the CPU to is the
 * kernel's choice. If that is another rank that waits, the CPU comes back after a microsecond, and
 * no sleep is as fast. If it is a thread that computes (another program's, or the user's), the CPU
 * comes back after a whole slice of some milliseconds, and a thread that sleeps, which the kernel
 * prefers once it is woken, is far better off.
 *
 * So each lost yield is a debt of the time that it took, and each good one pays a little of it.
 * With too much debt there are no yields for a while, twice as long each time, until yields
 * that were tried in between have paid it off.
 *
 * Not here: how often a wait yields, and how it sleeps (wait.c).
 */
#ifndef RCMI_YIELD_H
#define RCMI_YIELD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    RCMI_YIELD_NS_LOST = 1000000,    /* or longer */
    RCMI_YIELD_NS_EARNED = 50000,    /* by a good one: with one lost of 60 it is still worth it */
    RCMI_YIELD_DEBT_MAX = 48000000,  /* a dozen slices, which can come together by chance */
    RCMI_YIELD_REST_MIN = 4000000,   /* nanoseconds without yields */
    RCMI_YIELD_REST_MAX = 512000000, /* beside which a few lost ones to try again are little */
};

/* Of a process. Its threads race, and may lose each other's last word, which does no harm: relaxed
 * order is enough, each value stands alone, and none is the partner of another atomic. */
struct rcmi_yields {
    _Atomic int64_t debt;       /* nanoseconds */
    _Atomic int64_t rest;       /* how long the next one lasts */
    _Atomic int64_t rest_until; /* times as of the caller's clock; 0: no rest */
};

/* Whether to yield now at all. */
bool rcmi_yields_allowed(const struct rcmi_yields *yields, int64_t now);
/* A yield took from begin to end. */
void rcmi_yields_account(struct rcmi_yields *yields, int64_t begin, int64_t end);

/* Yields; false, at once, where it was not allowed: then sleep. */
bool rcmi_yield(void);

#endif
