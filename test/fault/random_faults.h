/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault harness: what its files share.
 *
 *   random_faults.c   options; rounds, some at a time; the sum
 *   random_faults_round.c     one round: a store, n ranks, one fault, the verdict
 *   random_faults_rank.c      a rank: init, workload until something fails, what it sees, destroy, what is left
 *   workload.c  a mix of operations, every result checked; workload_blocks.c
 *   cpu_starvation.c    whether the machine let them run
 *
 * Each round is a process, so are its store and its ranks. Ranks tell what they see in memory
 * shared with their round.
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
    FAULT_FREEZE,  /* SIGSTOP, SIGCONT within the deadline: nothing happened */
    FAULT_CUT,     /* all links of a rank fail, by the chaos transport */
    FAULT_DELAY,   /* messages are late, by the chaos transport: nothing happened */
    FAULT_LINK,    /* one link fails, by the chaos transport; so the rest */
    FAULT_CLOSE,   /* a connection is closed */
    FAULT_CORRUPT, /* a header is wrong */
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

/* What a rank tells; written once each, before the flag of its group. */
struct seen {
    _Atomic int64_t iterations;
    _Atomic int64_t last_ns; /* when the last iteration ended */
    struct strain begun;     /* then, of the first EARLY ones: a fault may come before all begin */
    _Atomic bool reported;   /* release; the next lines */
    int64_t at_ns;
    struct strain strain;
    int status, origin;
    char text[512];
    _Atomic bool finished; /* release; the next lines */
    int64_t destroy_ns;    /* without what it had to queue for a processor */
    char problem[256];     /* "" if all is well */
};

#define EARLY 3 /* iterations until a rank counts as at work */

struct board {
    int n;
    int64_t deadline_ms;
    _Atomic bool stop; /* ranks agree to end when one of them sees it */
    struct seen seen[RANKS_MAX];
};

/* How much slower a sanitizer makes things. */
int slowness(void);
int64_t now_ns(void);

/* random_faults_round.c: runs a round and prints what went wrong; returns the process's exit status. */
int round_run(const struct options *options, int ranks, uint64_t seed);

/* random_faults_rank.c: the rank's whole life; returns the process's exit status. */
int rank_run(struct board *board, int rank, const char *url, const char *transport, uint64_t seed);

#endif
