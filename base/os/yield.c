/* SPDX-License-Identifier: BSD-3-Clause */
/* Yields and their cost; see the header. */
#include "yield.h"

#include <sched.h>
#include "clock.h"

enum { TIMED_YIELDS = 16 }; /* after a yield that may have been lost */

bool rcmi_yields_allowed(const struct rcmi_yields *yields, int64_t now) {
    return now >= atomic_load_explicit(&yields->rest_until, memory_order_relaxed);
}

static void yields_begin_rest(struct rcmi_yields *yields, int64_t now) {
    const int64_t rest = atomic_load_explicit(&yields->rest, memory_order_relaxed);
    const int64_t length = rest < RCMI_YIELD_REST_MIN ? RCMI_YIELD_REST_MIN : rest;
    atomic_store_explicit(&yields->rest_until, now + length, memory_order_relaxed);
    if (length < RCMI_YIELD_REST_MAX)
        atomic_store_explicit(&yields->rest, 2 * length, memory_order_relaxed);
}

void rcmi_yields_account(struct rcmi_yields *yields, int64_t begin, int64_t end) {
    const bool lost = end - begin >= RCMI_YIELD_NS_LOST;
    int64_t debt = atomic_load_explicit(&yields->debt, memory_order_relaxed);
    if (!lost && debt == 0)
        return;
    debt += lost ? end - begin : -RCMI_YIELD_NS_EARNED;
    if (debt <= 0) {
        debt = 0;
        atomic_store_explicit(&yields->rest, RCMI_YIELD_REST_MIN, memory_order_relaxed);
    } else if (debt > RCMI_YIELD_DEBT_MAX) {
        yields_begin_rest(yields, end);
        debt = RCMI_YIELD_DEBT_MAX / 3 * 2; /* after the rest, less evidence is needed */
    }
    atomic_store_explicit(&yields->debt, debt, memory_order_relaxed);
}

static struct rcmi_yields of_process;
/* The number of yields still to be timed, per process; relaxed like the others. */
static _Atomic int timed;

/* Yields once, and only checks whether the clock ticked meanwhile, as it does in a lost yield and
 * by chance in others. Exact timing would cost some percent of a good yield. */
static void yield_untimed(int64_t tick) {
    sched_yield();
    if (rcmi_tick_ns() != tick)
        atomic_store_explicit(&timed, TIMED_YIELDS, memory_order_relaxed);
}

static void yield_timed(int left) {
    const int64_t begin = rcmi_now_ns();
    sched_yield();
    rcmi_yields_account(&of_process, begin, rcmi_now_ns());
    atomic_store_explicit(&timed, left - 1, memory_order_relaxed);
}

bool rcmi_yield(void) {
    const int64_t tick = rcmi_tick_ns();
    if (!rcmi_yields_allowed(&of_process, tick))
        return false;
    const int left = atomic_load_explicit(&timed, memory_order_relaxed);
    if (left > 0)
        yield_timed(left);
    else
        yield_untimed(tick);
    return true;
}
