/* SPDX-License-Identifier: BSD-3-Clause */
/* See place.h. */
#include "place.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include "clock.h"

#define PAUSE_FIRST_NS INT64_C(2000000)
#define PAUSE_LAST_NS  INT64_C(2000000000)
#define STAYED         4 /* pauses at home, after which the next one is short again */
#define VISIT_NS       INT64_C(20000000)
#define SHUN_NS        INT64_C(200000000) /* some hundred times what was lost */

/* To be bound to one CPU moves a thread there at once; to be unbound moves it nowhere. */
static void thread_move(int cpu) {
    cpu_set_t allowed, home;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || !CPU_ISSET((size_t)cpu, &allowed))
        return;
    CPU_ZERO(&home);
    CPU_SET((size_t)cpu, &home);
    if (sched_setaffinity(0, sizeof home, &home) != 0)
        return;
    /* It was allowed a moment ago. If it is no more, then anything that is. */
    if (sched_setaffinity(0, sizeof allowed, &allowed) == 0)
        return;
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        CPU_SET(i, &allowed);
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

static void place_change(struct rcmi_place *place, int other, int64_t until) {
    place->other = other;
    place->other_until = until;
    place->next_ns = place->pause_ns = 0; /* what was learnt is about another CPU */
}

/* Where it should be. *ret_now: the time, if it mattered. */
static int place_now(struct rcmi_place *place, int64_t *ret_now) {
    if (place->other_until == 0)
        return place->home;
    *ret_now = rcmi_now_ns();
    if (*ret_now >= place->other_until)
        place_change(place, 0, 0);
    return place->other_until ? place->other : place->home;
}

void rcmi_place_visit(struct rcmi_place *place, int cpu, int64_t busy_ns) {
    const int64_t now = rcmi_now_ns(), until = now + VISIT_NS;
    if (now < place->shunned_until)
        return;
    place->busy_ns = busy_ns;
    if (place->other_until && place->other == cpu)
        place->other_until = until;
    else
        place_change(place, cpu, until);
}

void rcmi_place_waited(struct rcmi_place *place, int64_t ns) {
    if (ns < place->busy_ns || place->other_until == 0 || place->other == place->home ||
        sched_getcpu() != place->other)
        return;
    place_change(place, 0, 0);
    place->shunned_until = rcmi_now_ns() + SHUN_NS;
}

void rcmi_place_return(struct rcmi_place *place) {
    int64_t now = 0;
    if (place->home < 0)
        return;
    const int cpu = place_now(place, &now);
    if (sched_getcpu() == cpu)
        return;
    now = now ? now : rcmi_now_ns();
    if (now < place->next_ns)
        return;
    const int saved_errno = errno;
    const bool stayed = now - place->next_ns > STAYED * place->pause_ns;
    place->pause_ns = stayed ? PAUSE_FIRST_NS : place->pause_ns * 2;
    if (place->pause_ns > PAUSE_LAST_NS)
        place->pause_ns = PAUSE_LAST_NS;
    place->next_ns = now + place->pause_ns;
    thread_move(cpu);
    errno = saved_errno;
}
