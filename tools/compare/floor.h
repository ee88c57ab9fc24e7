/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * floor: what this machine can do at all, beside which the figures of a library are to be read.
 * floor.c has the command line, floor_pair.c the two pinned processes and the rows, floor_line.c
 * cache line and channel, floor_step.c the executor, floor_memory.c copies and additions,
 * floor_tcp.c bare sockets, floor_futex.c waking. Unlike the other tools of this folder it links
 * the rooms.
 */
#ifndef RINGCOMM_TOOLS_COMPARE_FLOOR_H
#define RINGCOMM_TOOLS_COMPARE_FLOOR_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "ringcomm.h"
#include "transport.h"
#include "wait.h"

#define FLOOR_MAX_ROUNDS 1000

struct report;

struct floor {
    struct report *report;
    int rounds;
    int ncpus;   /* that this process may use */
    int cpus[2]; /* the first two of them */
    int64_t timeout_ms;
    int64_t deadline_ns;
};

/* One figure, measured once per round. */
struct floor_series {
    double values[FLOOR_MAX_ROUNDS];
    int n;
};

void floor_add(struct floor_series *series, double value);
/* Of what was added so far; at least one value. Sorts. */
double floor_median(struct floor_series *series);

/* Writes a row: minimum, median and maximum of the rounds. bytes 0: the size means nothing here. */
void floor_row(const struct floor *f, const char *what, const char *how, int cores, size_t bytes,
               const char *unit, struct floor_series *series);

/* Says on stderr what failed, with the library's last error where there is one; false. */
bool floor_failed(const char *what);

/* ---- Two processes, each pinned to a core --------------------------------------------------- */

#define FLOOR_ADDRESS_MAX 1024

/* What a node tells its peers; len is written last. */
struct floor_address {
    _Atomic uint32_t len; /* release store at the owner, acquire load at the reader */
    char bytes[FLOOR_ADDRESS_MAX];
};

/* Memory of both. */
struct floor_shared {
    struct {
        _Alignas(2 * RCMI_LINE) _Atomic uint64_t turn;
    } line[2];
    struct {
        _Alignas(2 * RCMI_LINE) _Atomic uint64_t count; /* pairs with the other side's load */
    } met[2];
    _Alignas(2 * RCMI_LINE) _Atomic uint32_t futex; /* pairs with word_await in floor_futex.c */
    _Alignas(2 * RCMI_LINE) _Atomic int failed;     /* a side gave up: the other need not wait */
    double rate[2];                                 /* read after floor_meet */
    struct floor_address addresses[2];
};

struct floor_side {
    struct floor *floor;
    struct floor_shared *shared;
    int rank; /* 0: the parent, which keeps the results; 1: the child */
    uint64_t meetings;
};

/* Calls fn here as rank 0 on the first core and in a forked child as rank 1 on the second. True if
 * both did. No other thread may be running in this process. */
bool floor_pair(struct floor *f, bool (*fn)(struct floor_side *side, void *arg), void *arg);

/* Both sides come here, then both go on. False when the other one gave up or the time is over. */
bool floor_meet(struct floor_side *side);
/* The same where both may be on one core. */
bool floor_meet_politely(struct floor_side *side);

/* For loops that spin: true now and then when there is a reason to give up. */
bool floor_hopeless(const struct floor_side *side, uint32_t *spins);
/* For loops that sleep: whether there is one now. */
bool floor_over(const struct floor_side *side);

/* ---- A node of the transport room ----------------------------------------------------------- */

/* Makes and starts it; addresses: those of all ranks, this one's is filled in. */
bool floor_node_open(int rank, int nranks, const char *transport, struct floor_address *addresses,
                     struct rcmi_node **ret_node);
/* As the library itself would by default, or by the environment. */
bool floor_slots(size_t *ret_slot_bytes, uint32_t *ret_slots);

/* ---- Sections ------------------------------------------------------------------------------- */

/* Each measures and writes its rows; false after it said what failed. */
bool floor_line(struct floor *f);    /* the cache line alone */
bool floor_channel(struct floor *f); /* the cache line and a channel, alternating */
bool floor_step(struct floor *f);
bool floor_memory(struct floor *f);
bool floor_tcp(struct floor *f);
bool floor_futex(struct floor *f);

#endif
