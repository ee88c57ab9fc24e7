/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank is doing, as far as others can observe it: the content of its status page
 * (status_page.h), of its answer to an inquiry (diagnosis_wire.h), and of its row in a report
 * (hang.h). It is no consistent snapshot: pages are read while they are written.
 */
#ifndef RCMI_ACTIVITY_H
#define RCMI_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"

enum rcmi_transfer_kind {
    RCMI_TRANSFER_NONE,
    RCMI_TRANSFER_SEND,
    RCMI_TRANSFER_RECV,
    RCMI_TRANSFER_PROBE,
    RCMI_TRANSFER_KINDS
};

struct rcmi_activity {
    uint64_t called;   /* number of the last called collective, 0 if none */
    uint64_t sequence; /* number of the oldest unfinished collective, 0 if none */
    uint64_t count;    /* elements of that collective; the next lines are about it too */
    uint64_t done;     /* bytes of its result that are complete, roughly */
    int32_t collective, dtype, op, root;
    int32_t waits_for;             /* rank, -1 unknown or any of its host */
    uint32_t step, nsteps;         /* nsteps 0: unknown */
    int32_t called_as;             /* enum rcm_collective of number `called` */
    uint64_t waited_ms;            /* without progress */
    uint64_t tag, bytes;           /* of the oldest unfinished send or receive, like the next two */
    int32_t transfer;              /* enum rcmi_transfer_kind */
    int32_t peer;                  /* rank; for a receive or probe also RCM_ANY_SOURCE */
    uint32_t parting;              /* 1: in rcm_destroy */
    int32_t failed;                /* enum rcm_status of the communicator */
    char algorithm[24];            /* "" unknown */
    char op_name[RCM_OP_NAME_MAX]; /* of a created operator; "": by number, or unknown */
};

/* Makes untrusted input safe: ranks become 0..size-1 or -1, unknown values become "none", the
 * algorithm becomes a short word, and the operator's name becomes printable. */
void rcmi_activity_sanitize(struct rcmi_activity *activity, int size);

/* Whether it is in an operation. */
bool rcmi_activity_is_busy(const struct rcmi_activity *activity);

/* Writes the operation: "all_reduce number 12", "recv from rank 2 (tag 77)", "no operation since it
 * finished barrier number 11", "no operation, and was in no collective yet". */
void rcmi_activity_describe(const struct rcmi_activity *activity, char *text, size_t cap);

/* Writes the call without its number: "all_reduce of 1000 float32, sum (ring)", "rcm_destroy". */
void rcmi_call_describe(const struct rcmi_activity *activity, char *text, size_t cap);

#endif
