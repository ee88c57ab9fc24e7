/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * floor: measures the limits of this machine, to compare a library's figures with them. It links
 * the internal libraries, unlike the other tools of this folder.
 *
 *      floor.c          the command line
 *      floor_pair.c     the two pinned processes, and the rows
 *      floor_line.c     cache line and channel
 *      floor_step.c     the executor
 *      floor_memory.c   copies and additions
 *      floor_tcp.c      bare sockets
 *      floor_futex.c    waking another process
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
    int ncpus;   /* number of CPUs that this process may use */
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
/* The median of the values; there must be at least one. Sorts them. */
double floor_median(struct floor_series *series);

/* Writes a row: minimum, median and maximum of the rounds. bytes 0: the row has no size. */
void floor_row(const struct floor *f, const char *what, const char *how, int cores, size_t bytes,
               const char *unit, struct floor_series *series);

/* Prints what failed, with the library's last error if there is one. Returns false. */
bool floor_failed(const char *what);

/* ---- Two processes, each pinned to a core --------------------------------------------------- */

#define FLOOR_ADDRESS_MAX 1024

/* The address of a node, for its peers; len is written last. */
struct floor_address {
    _Atomic uint32_t len; /* release store at the owner, acquire load at the reader */
    char bytes[FLOOR_ADDRESS_MAX];
};

/* Memory shared by both processes. */
struct floor_shared {
    struct {
        _Alignas(2 * RCMI_LINE) _Atomic uint64_t turn;
    } line[2];
    struct {
        _Alignas(2 * RCMI_LINE) _Atomic uint64_t count; /* pairs with the other side's load */
    } met[2];
    _Alignas(2 * RCMI_LINE) _Atomic uint32_t futex; /* pairs with word_await in floor_futex.c */
    _Alignas(2 * RCMI_LINE) _Atomic int failed; /* one side has failed, so the other must stop */
    double rate[2];                             /* read after floor_meet */
    struct floor_address addresses[2];
};

struct floor_side {
    struct floor *floor;
    struct floor_shared *shared;
    int rank; /* 0: the parent, which keeps the results; 1: the child */
    uint64_t meetings;
};

/* Calls fn in this process as rank 0 on the first core, and in a forked child as rank 1 on the
 * second core. True if both succeed. This process must have no other thread. */
bool floor_pair(struct floor *f, bool (*fn)(struct floor_side *side, void *arg), void *arg);

/* A barrier of both sides. False if the other side has failed or the deadline has passed. */
bool floor_meet(struct floor_side *side);
/* The same for sides that may share a core: yields. */
bool floor_meet_politely(struct floor_side *side);

/* For loops that spin: checks floor_over every 16384 calls. */
bool floor_hopeless(const struct floor_side *side, uint32_t *spins);
/* Whether the loop must stop: the other side has failed, or the deadline has passed. */
bool floor_over(const struct floor_side *side);

/* ---- A node of the transport layer ---------------------------------------------------------- */

/* Creates and starts a node. addresses: those of all ranks; this rank's is filled in. */
bool floor_node_open(int rank, int nranks, const char *transport, struct floor_address *addresses,
                     struct rcmi_node **ret_node);
/* The library's values: the defaults, or from the environment. */
bool floor_slots(size_t *ret_slot_bytes, uint32_t *ret_slots);

/* ---- Sections ------------------------------------------------------------------------------- */

/* Each measures and writes its rows; false after an error, which is printed. */
bool floor_line(struct floor *f);    /* the cache line alone */
bool floor_channel(struct floor *f); /* the cache line and a channel, alternating */
bool floor_step(struct floor *f);
bool floor_memory(struct floor *f);
bool floor_tcp(struct floor *f);
bool floor_futex(struct floor *f);

#endif
