/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sched_yield with back-off. The kernel chooses which thread gets the CPU. If that is another
 * waiting rank, the CPU returns after a microsecond, faster than any sleep. If it is a computing
 * thread (of another program, or the user's), the CPU returns after a whole time slice of some
 * milliseconds. A sleeping thread is then much better off, because the kernel prefers it once it is
 * woken.
 *
 * Each lost yield adds its duration to a debt, and each good yield pays back a little. With too
 * much debt there are no yields for a while (a rest), twice as long each time, until trial yields
 * in between have paid back the debt.
 *
 * Not here: how often a wait yields, and how it sleeps (wait.c).
 */
#ifndef RCMI_YIELD_H
#define RCMI_YIELD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    RCMI_YIELD_NS_LOST = 1000000,    /* a yield this long or longer is lost */
    RCMI_YIELD_NS_EARNED = 50000,    /* per good yield: one lost of 60 is still acceptable */
    RCMI_YIELD_DEBT_MAX = 48000000,  /* a dozen slices, which can coincide by chance */
    RCMI_YIELD_REST_MIN = 4000000,   /* ns without yields */
    RCMI_YIELD_REST_MAX = 512000000, /* long compared with a few lost trial yields */
};

/* One per process. Its threads race and may lose each other's writes, which is harmless: each value
 * is independent, so relaxed order needs no partner. */
struct rcmi_yields {
    _Atomic int64_t debt;       /* nanoseconds */
    _Atomic int64_t rest;       /* length of the next rest */
    _Atomic int64_t rest_until; /* on the caller's clock; 0: no rest */
};

/* Are yields allowed now? */
bool rcmi_yields_allowed(const struct rcmi_yields *yields, int64_t now);
/* Accounts for a yield from begin to end. */
void rcmi_yields_account(struct rcmi_yields *yields, int64_t begin, int64_t end);

/* Yields; returns false at once if yields are not allowed: sleep instead. */
bool rcmi_yield(void);

#endif
