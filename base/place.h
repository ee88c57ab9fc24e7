/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a thread runs that shares CPUs with other ranks. Ranks that wait give their CPU away again
 * and again and never look idle, so the kernel leaves them as they happen to lie, three on one CPU
 * and one on another, for seconds. A thread that finds itself elsewhere than at home goes there,
 * and is free to be moved again: its affinity mask is what it was. It goes seldom, and the more
 * seldom the more often it was moved away, for the kernel may know better.
 *
 * Not here: who has which home (api/group.c).
 */
#ifndef RCMI_PLACE_H
#define RCMI_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct rcmi_place {
    int home;                  /* CPU, -1: none; the rest begins as zeros */
    int other;                 /* that is its home for the time being, ... */
    int64_t other_until;       /* ... by rcmi_now_ns; 0: there is none */
    int64_t busy_ns;           /* what a yield may take there */
    int64_t shunned_until;     /* no visits before */
    int64_t next_ns, pause_ns; /* not before, by rcmi_now_ns; how long after the last time */
};

/* Moves the calling thread home if it is elsewhere and was not moved just before. Next to nothing
 * at home. */
void rcmi_place_return(struct rcmi_place *place);

/* For some milliseconds from now on, this CPU is the thread's home. Moves nothing itself. busy_ns:
 * a yield that takes longer there shows that it is in use by somebody who does not yield. */
void rcmi_place_visit(struct rcmi_place *place, int cpu, int64_t busy_ns);
static inline bool rcmi_place_visits(const struct rcmi_place *place) {
    return place->other_until != 0;
}
/* So long has a yield taken. Who finds the CPU that he visits in use is at home again, and does not
 * visit for a while. */
void rcmi_place_waited(struct rcmi_place *place, int64_t ns);

#endif
