/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of mismatch for mismatch.c: for each the call of the odd rank, the calls of the others,
 * and the error. */
#ifndef TEST_FAULT_MISMATCH_KINDS_H
#define TEST_FAULT_MISMATCH_KINDS_H

#include "ringcomm.h"

enum { CALLS = 3, MAX_COUNT = 300000, KINDS = 36 };

enum what {
    NONE,
    ALL_REDUCE,
    BROADCAST,
    BARRIER,
    MONITORED_BARRIER, /* count: flags */
    REDUCE,
    SCATTER,
    GATHER,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    SCAN,
    EXSCAN,
    SEND,
    RECV,
    STAY_AWAY
};
enum who { ODD, NEXT, ZERO }; /* the odd rank, the one after it */

struct action {
    enum what what;
    size_t count;
    rcm_dtype dtype;
    rcm_op op;
    enum who root; /* or peer */
    const char *algorithm;
    uint32_t flags; /* of the call */
};

struct kind {
    const char *name;
    rcm_status status; /* of every rank; for a timeout, the deadline is late_ms */
    struct action usual[CALLS], odd[CALLS];
    const char *words[3]; /* in the error; %d is the odd rank */
};

extern const struct kind kinds[KINDS];

#endif
