/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stress program's own interfaces: random operations of all kinds, on random communicators, in
 * random variants, against a scalar reference.
 *
 *   main.c                the command line; runs episodes until the time is over
 *   episode.c             an episode: ranks, transport, hosts, settings; its threads and its end
 *   step.c                the steps of a thread: which operation of the table, on which group
 *   job.c                 an operation from its call to the check of its result
 *   wait_methods.c        the ways to wait for a work
 *   groups.c              communicators that are created, ended, aborted, shrunk
 *   collectives.c, unequal_blocks.c, byte_collectives.c, messages.c, wildcard_messages.c
 *                         the operations
 *   memory.c              buffers, on the host or on a device (cuda_driver.c)
 *   random.c              random numbers
 *   report.c              failures, and the watchdog
 *
 * Data and expected results are those of ringcomm-bench (tools/bench/bench_data.c). They are exact
 * in every type and for any order of operands, so all bits are compared.
 *
 * An episode is a world of its own. Each of its threads takes steps. A step is drawn from (seed,
 * episode, thread, step), so all ranks draw the same one. How a rank does its part is drawn from a
 * stream of the rank. A thread takes its steps in order on every rank, and a step waits for no
 * later one, so there are no circular waits.
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
    int64_t episodes; /* -1: as many as the time allows */
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
    unsigned end;      /* index into the table of ends */
    bool device_named; /* RINGCOMM_DEVICE=0: all ranks use the first device */
};

/* A communicator as a thread of each rank sees it, also on ranks that are not in it. */
struct group {
    bool live;
    bool shared; /* the world, used by several threads: only thread 0 starts its collectives */
    int n, me;   /* number of members; this rank's number, -1: no member */
    int members[RANKS_MAX];
    rcm_comm *comm; /* NULL: this rank is no member, and has no handle */
    int queue;      /* descriptor of the completion queue, or -1 */
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
    pthread_mutex_t lock; /* protects doing */
    char doing[256];
};

/* ---- Failures (report.c) ------------------------------------------------------------------- */

/* Reports what is wrong and how to replay it, and ends the process. */
_Noreturn void stress_fail(struct driver *driver, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets the text of what the thread is doing. */
void stress_doing(struct driver *driver, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Until stress_unwatch, the process ends with a report when no thread changes that text for
 * long. */
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
    unsigned char *data; /* for the library's calls; between guard bytes */
    unsigned char *view; /* for the program: the contents before and after a run */
    size_t bytes;
    unsigned char *base, *copy; /* allocations of data, view: one, or on device and host */
    rcm_comm *owner;            /* NULL: from malloc */
    rcm_comm *registrar;        /* NULL: not registered */
    struct memory *next;        /* next buffer of the job */
};

/* Allocates a buffer of the job; *ret_memory must not move. */
void memory_get(struct job *job, enum rcm_mem_kind kind, size_t bytes, struct memory *ret_memory);
enum rcm_mem_kind memory_kind_draw(const struct driver *driver, struct draw *draw);
/* Draws what the call is ordered after: a stream, or nothing (RCM_NO_STREAM); sets job->call. */
void memories_draw_order(struct job *job);
/* Copies the views into the job's buffers before a run; and back after it. */
void memories_write(struct job *job);
void memories_read(struct job *job);
/* Checks the guard bytes of the job's buffers and frees them all. */
void memories_put(struct job *job);

/* ---- Jobs (job.c, wait_methods.c) ---------------------------------------------------------- */

struct job_part {
    struct bench_point point;
    struct memory send, recv;
};

struct job {
    struct driver *driver;
    struct group *group;
    unsigned uses; /* a bit for each group of the thread that it uses */
    const struct row *row;
    uint64_t step;
    struct draw what, how;  /* the same on all ranks; this rank's own */
    uint64_t salt;          /* of the data, different for each step and run */
    int runs;               /* number of runs */
    enum rcm_mem_kind kind; /* of a collective's buffers */
    char name[160];

    struct rcm_call call;
    const struct wait_method *wait_method;
    bool blocking;
    bool may_abort;
    rcm_work *work;
    rcm_status expected, status;
    bool taken;   /* taken from the completion queue */
    void *waiter; /* see wait_methods.c */

    int nparts;
    struct job_part parts[PARTS_MAX];
    rcm_op op; /* for all parts; it may have been created */
    struct memory *memories;
    void *own; /* the operation's state; freed with the job */
};

/* The groups of a thread on which an operation may run: those of its own; also the world if it is
 * thread 0; also the world. */
enum scope { SCOPE_OWN, SCOPE_FIRST, SCOPE_ANY };

/* An operation of the table. */
struct row {
    const char *name;
    unsigned weight;
    enum scope scope;
    bool whole;                  /* call does everything, and is complete when it returns */
    bool everybody;              /* runs also on ranks that are not members */
    void (*draw)(struct job *);  /* parameters, from job->what; buffers */
    void (*fill)(struct job *);  /* the input, before each run */
    void (*call)(struct job *);  /* sets status and, unless blocking, work */
    void (*check)(struct job *); /* checks the result after each run */
    void (*free)(struct job *);  /* frees what draw allocated beyond buffers and own; or NULL */
};

struct job *job_new(struct driver *driver, const struct row *row, struct group *group);
/* Runs the job until it has ended or is pending. */
void job_run(struct job *job);
/* Waits for it, checks it, frees it. */
void job_end(struct job *job);
/* Ends some of the pending jobs, or with `all` all of them. */
void jobs_reap(struct driver *driver, struct draw *how, bool all);
/* Ends all that use this group. */
void jobs_end_of(struct driver *driver, const struct group *group);
/* The group's jobs are waited for without the group's queue. */
void jobs_need_no_queue(struct driver *driver, const struct group *group);
/* The group was aborted: its jobs may fail with RCM_ERR_ABORTED. */
void jobs_may_abort(struct driver *driver, const struct group *group);
rcm_work **job_work(struct job *job); /* ret_work of a call */

struct wait_method {
    const char *name;
    void (*begin)(struct job *);
    rcm_status (*finish)(struct job *);
};
const struct wait_method *wait_method_draw(struct job *job);
extern const struct wait_method wait_method_wait, wait_method_queue;

/* ---- Groups (groups.c) --------------------------------------------------------------------- */

/* Adds the world to the thread's groups. */
void groups_begin(struct driver *driver);
/* Destroys the groups that this thread has created, in a drawn order. */
void groups_end(struct driver *driver, struct draw *what);
/* Returns a live group in this scope, or NULL. */
struct group *groups_draw(struct driver *driver, struct draw *what, enum scope scope);
/* Checks calls with a handle of a non-member. */
void group_absent(struct driver *driver, struct group *group);

/* ---- Operations ---------------------------------------------------------------------------- */

extern const struct row row_collective, row_coalesced, row_uneven, row_bytes, row_barrier,
    row_monitored, row_message, row_sendrecv, row_batch, row_prepare, row_cancel, row_relay,
    row_mixture, row_subset, row_split, row_duplicate, row_destroy, row_abort, row_mistake;

/* Takes all steps of a thread; its groups stay. */
void steps_take(struct driver *driver);
/* Runs all ranks of an episode, from rcm_init to the end. Returns 0, or 1 after a failure, which it
 * reports. */
int episode_run(const struct stress_options *options, uint64_t number);

/* The i-th byte of data with this salt. */
unsigned char byte_at(uint64_t salt, size_t i);
void bytes_fill(uint64_t salt, void *bytes, size_t n);
bool bytes_right(uint64_t salt, const void *bytes, size_t n);

#endif
