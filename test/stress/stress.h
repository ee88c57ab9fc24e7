/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stress program from the inside: random operations of all kinds, on random communicators, in
 * random ways, against a scalar reference.
 *
 *   main.c         the command line; one episode after the other until the time is over
 *   episode.c      what an episode is: ranks, transport, hosts, settings; its threads and its end
 *   step.c         the steps of a thread: which row of the table of operations, on which group
 *   job.c          an operation from its call to the check of its result
 *   wait_methods.c       the ways to wait for a work
 *   groups.c       communicators that are made, ended, aborted, shrunk
 *   collectives.c, unequal_blocks.c, byte_collectives.c, messages.c, wildcard_messages.c    operations, a row each
 *   memory.c       buffers, of the host or of a device (cuda_driver.c)
 *   random.c         random numbers
 *   report.c       failures, and the watchdog
 *
 * Data and expected results are those of ringcomm-bench (tools/bench/bench_data.c), which are exact
 * in every type whatever the order of operands, so all bits count.
 *
 * An episode is a world of its own. Each of its threads takes steps. What a step does is drawn from
 * (seed, episode, thread, step), so all ranks know it without talk; how a rank does its part, from
 * a stream of the rank's own. A thread takes its steps in order on every rank, and a step waits for
 * no later one, so nothing here waits in a circle.
 */
#ifndef STRESS_H
#define STRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "bench.h"
#include "random.h"
#include "ringcomm.h"

enum { RANKS_MAX = 16, THREADS_MAX = 4, GROUPS_MAX = 8, PENDING_MAX = 12, PARTS_MAX = 4 };

struct stress_options {
    uint64_t seed, from;
    int64_t episodes; /* -1: as many as there is time for */
    double seconds;
    int ranks;             /* 0: drawn */
    bool threads;          /* ranks are threads of one process */
    bool cuda;             /* most buffers are memory of the ranks' devices */
    const char *transport; /* NULL: drawn */
};

struct episode {
    const struct stress_options *options;
    uint64_t number;
    int ranks, threads, hosts, steps;
    const char *transport;
    size_t slot_bytes;
    unsigned end;      /* a row of the ways to end */
    bool device_named; /* to rcm_init: all ranks have the first one */
};

/* A communicator, which a thread of each rank knows, also of those that are not in it. */
struct group {
    bool live;
    bool shared; /* the world, by several threads: only thread 0 issues its collectives */
    int n, me;   /* members; this rank's number, -1 if it is none */
    int members[RANKS_MAX];
    rcm_comm *comm; /* NULL: this rank is no member, and has no handle */
    int queue;      /* descriptor of completions, -1 */
};

struct job;

/* One thread of a rank. */
struct driver {
    const struct episode *episode;
    rcm_comm *world;
    int rank, number;
    uint64_t step;
    struct group groups[GROUPS_MAX]; /* the first is the world */
    struct job *pending[PENDING_MAX];
    int npending;
    void *stream;         /* of the rank's device */
    pthread_mutex_t lock; /* of doing */
    char doing[256];
};

/* ---- Failures (report.c) ------------------------------------------------------------------- */

/* Says what is wrong and how to see it again, and ends the process. */
_Noreturn void stress_fail(struct driver *driver, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Says what the thread does from now on. */
void stress_doing(struct driver *driver, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Until stress_unwatch the process ends, with a report, when none of its threads does anything else
 * for long. */
void stress_watch(struct driver *drivers, int n);
void stress_unwatch(void);

#define NEED(driver, condition, ...)                                                               \
    do {                                                                                           \
        if (!(condition))                                                                          \
            stress_fail(driver, __VA_ARGS__);                                                      \
    } while (0)

/* ---- Buffers (memory.c) -------------------------------------------------------------------- */

struct memory {
    enum rcm_mem_kind kind;
    unsigned char *data; /* of the calls; with bytes around it that must stay */
    unsigned char *view; /* of the program: what is there before a run, and came there by it */
    size_t bytes;
    unsigned char *base, *copy; /* what they lie in: one and the same, or of a device and here */
    rcm_comm *owner;            /* NULL: of malloc */
    rcm_comm *registrar;        /* NULL: not registered */
    struct memory *next;        /* of the same job */
};

/* Is the job's from now on; *ret_memory stays where it is. */
void memory_get(struct job *job, enum rcm_mem_kind kind, size_t bytes, struct memory *ret_memory);
enum rcm_mem_kind memory_kind_draw(const struct driver *driver, struct draw *draw);
/* What the job's calls come after: job->call. */
void memories_draw_order(struct job *job);
/* The views are what lies in the job's buffers, before a run; and after it. */
void memories_write(struct job *job);
void memories_read(struct job *job);
/* Looks at the bytes around each of the job's, and frees them all. */
void memories_put(struct job *job);

/* ---- Jobs (job.c, wait_methods.c) ---------------------------------------------------------------- */

struct job_part {
    struct bench_point point;
    struct memory send, recv;
};

struct job {
    struct driver *driver;
    struct group *group;
    unsigned uses; /* a bit for each group of the thread that it needs */
    const struct row *row;
    uint64_t step;
    struct draw what, how;  /* the same on all ranks; this rank's own */
    uint64_t salt;          /* of the data, another one for each step and run */
    int runs;               /* the operation is done so often */
    enum rcm_mem_kind kind; /* of a collective's buffers */
    char name[160];

    struct rcm_call call;
    const struct way *way;
    bool blocking;
    bool may_abort;
    rcm_work *work;
    rcm_status expected, status;
    bool taken; /* out of the completion queue */
    void *told; /* a semaphore: see wait_methods.c */

    int nparts;
    struct job_part parts[PARTS_MAX];
    rcm_op op; /* of all parts; it may have been created */
    struct memory *memories;
    void *own; /* the row's; freed with the job */
};

/* On which groups of a thread an operation may run: those that are its own alone, also the world if
 * it is thread 0, also the world. */
enum scope { SCOPE_OWN, SCOPE_FIRST, SCOPE_ANY };

/* A row of the table of operations. */
struct row {
    const char *name;
    unsigned weight;
    enum scope scope;
    bool whole;                  /* call does everything, and is done when it returns */
    bool everybody;              /* ranks that are no members too */
    void (*draw)(struct job *);  /* what it is, from job->what; buffers */
    void (*fill)(struct job *);  /* what is sent, before each run */
    void (*call)(struct job *);  /* sets status and, unless blocking, work */
    void (*check)(struct job *); /* what came, after each run */
    void (*free)(struct job *);  /* NULL, or what draw made beyond buffers and own */
};

struct job *job_new(struct driver *driver, const struct row *row, struct group *group);
/* Runs it, to its end or until it is pending. */
void job_run(struct job *job);
/* Waits for it, checks it, frees it. */
void job_end(struct job *job);
/* Ends some of the pending jobs, or with `all` all of them. */
void jobs_reap(struct driver *driver, struct draw *how, bool all);
/* All that are of this group. */
void jobs_end_of(struct driver *driver, const struct group *group);
/* Its jobs are waited for by other means than the group's queue. */
void jobs_need_no_queue(struct driver *driver, const struct group *group);
/* The group was aborted: its jobs may be. */
void jobs_may_abort(struct driver *driver, const struct group *group);
rcm_work **job_work(struct job *job); /* ret_work of a call */

struct way {
    const char *name;
    void (*begin)(struct job *);
    rcm_status (*finish)(struct job *);
};
const struct way *way_draw(struct job *job);
extern const struct way way_wait, way_queue;

/* ---- Groups (groups.c) --------------------------------------------------------------------- */

/* The thread knows the world. */
void groups_begin(struct driver *driver);
/* Destroys those that this thread has made, in a drawn order. */
void groups_end(struct driver *driver, struct draw *what);
/* A live one in this scope; NULL: none. */
struct group *groups_draw(struct driver *driver, struct draw *what, enum scope scope);
/* What a handle of no member does. */
void group_absent(struct driver *driver, struct group *group);

/* ---- Operations ---------------------------------------------------------------------------- */

extern const struct row row_collective, row_coalesced, row_uneven, row_bytes, row_barrier,
    row_monitored, row_message, row_sendrecv, row_batch, row_prepare, row_cancel, row_relay,
    row_mixture, row_subset, row_split, row_duplicate, row_destroy, row_abort, row_mistake;

/* All steps of a thread, whose groups are left. */
void steps_take(struct driver *driver);
/* All ranks of an episode, from rcm_init to the end. 0, or 1 after a failure, of which is told. */
int episode_run(const struct stress_options *options, uint64_t number);

/* What the i-th byte of something with this salt is. */
unsigned char byte_at(uint64_t salt, size_t i);
void bytes_fill(uint64_t salt, void *bytes, size_t n);
bool bytes_right(uint64_t salt, const void *bytes, size_t n);

#endif
