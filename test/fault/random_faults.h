/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random faults: shared declarations.
 *
 *   random_faults.c          options; rounds, some in parallel; the sum
 *   random_faults_round.c    one round: a store, n ranks, one fault, the verdict
 *   random_faults_rank.c     a rank: init, workload until an error, its report, destroy, leaks
 *   workload.c               a mix of operations with checked results; workload_blocks.c
 *   cpu_starvation.c         whether the machine let them run
 *
 * Each round is a process, and so are its store and its ranks. Ranks report in memory shared with
 * their round.
 */
#ifndef TEST_FAULT_RANDOM_FAULTS_H
#define TEST_FAULT_RANDOM_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "random.h"
#include "ringcomm.h"
#include "cpu_starvation.h"
#include "workload.h"

#define RANKS_MAX  64
#define RANKS_LIST 8

enum fault {
    FAULT_KILL,    /* SIGKILL */
    FAULT_STOP,    /* SIGSTOP for longer than the deadline */
    FAULT_FREEZE,  /* SIGSTOP and SIGCONT within the deadline: no error */
    FAULT_CUT,     /* all links of a rank fail, by the chaos transport */
    FAULT_DELAY,   /* messages are late, by the chaos transport: no error */
    FAULT_LINK,    /* one link fails; from here on all by the chaos transport */
    FAULT_CLOSE,   /* a connection is closed */
    FAULT_CORRUPT, /* a header is invalid */
    FAULT_SHORT,   /* a message is too short */
    FAULT_STALL,   /* nothing arrives from one peer any more */
    FAULT_COUNT
};
const char *fault_name(enum fault fault);

struct options {
    const char *transport;
    int ranks[RANKS_LIST], nranks; /* round k has ranks[k % nranks] */
    int rounds, jobs;
    int fault; /* enum fault, -1 random: kill, stop, freeze or cut */
    uint64_t seed;
    int64_t deadline_ms;
    bool verbose;
};

/* A rank's report; each member is written once, before the flag of its group. */
struct seen {
    _Atomic int64_t iterations;
    _Atomic int64_t last_ns; /* the end of the last iteration */
    struct strain begun;     /* at that time, within the first EARLY iterations */
    _Atomic bool reported;   /* stored with release; covers the next members */
    int64_t at_ns;
    struct strain strain;
    int status, origin;
    char text[512];
    _Atomic bool finished; /* stored with release; covers the next members */
    int64_t destroy_ns;    /* without the time that it queued for a processor */
    char problem[256];     /* "": none */
};

#define EARLY 3 /* iterations until a rank counts as working */

struct board {
    int n;
    int64_t deadline_ms;
    _Atomic bool stop; /* ranks agree to end when one of them reads it */
    struct seen seen[RANKS_MAX];
};

/* The slow-down by a sanitizer. */
int slowness(void);
int64_t now_ns(void);

/* random_faults_round.c: runs a round and prints its failures; returns the process's exit
 * status. */
int round_run(const struct options *options, int ranks, uint64_t seed);

/* random_faults_rank.c: runs the rank from start to end; returns the process's exit status. */
int rank_run(struct board *board, int rank, const char *url, const char *transport, uint64_t seed);

#endif
