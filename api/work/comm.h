/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/ makes communicators and works from the layers below it, and implements the functions of
 * ringcomm.h.
 *
 *   calls/  collective*.c coalesced.c prepare.c       collectives: check and record the arguments
 *             request.c uneven.c                      ... the checks
 *             start.c persistent.c                    persistent works, started again
 *             message.c probe.c batch.c               point to point
 *             memory.c info*.c counters.c             memory of the library, queries
 *             store_custom.c wait_many.c              custom stores; several works
 *   comm/   init*.c spawn.c exchange.c sharing.c      rcm_init, rcm_spawn
 *             exit.c leave.c                          the end of a process's engine
 *             subset.c shrink.c group.c destroy*.c    communicators: made, ended
 *             comm_request.c background.c             ... in the background
 *             engine.c early_messages.c tuning.c      state shared by all communicators
 *   work/   issue.c                                   works, for the functions of calls/
 *             drive.c                                 one thread at a time drives works
 *             queue.c deadline.c                      ... a bounded number, until their deadlines
 *             transfer.c                              ... sends and receives, by p2p/
 *             completion*.c notice.c                  ... their completion, and callbacks
 *             work.c                                  an operation in flight
 *             comm.c failure.h                        the communicator, its error record
 *             struct_versions.c                       versions of public structs
 *
 * Calls go down in this list. Not here: matching (p2p/), diagnosis of hangs (diagnosis/), consensus
 * (agreement/), plans and their executor (algorithms/).
 *
 * This file: the communicator itself. Which thread may touch what:
 *   - A communicator's executor, start queue and point-to-point state belong to the *driver*: the
 *     thread that holds comm->driving. Waiting callers drive first; the loop thread drives only
 *     when no caller waits.
 *   - Issuing appends to comm->submitted under comm->submit_lock; the driver takes from there. A
 *     blocking call that finds no driver starts its work directly.
 *   - The error record has its own lock. comm->failed shows without a lock whether there is one.
 *   - A work's status is atomic; everything else in it belongs to the driver until the status is
 *     final.
 */
#ifndef RCMI_COMM_H
#define RCMI_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "choice.h"
#include "engine.h"
#include "entry.h"
#include "exec.h"
#include "failure.h"
#include "fork.h"
#include "notice.h"
#include "plan.h"
#include "queue.h"
#include "request.h"
#include "ringcomm.h"
#include "work.h"

struct rcmi_p2p;
struct rcmi_page_comm;
struct rcmi_call_log;
struct rcmi_diagnosis;
struct rcmi_proposals;

struct rcm_comm {
    struct rcmi_engine *engine;
    struct rcm_comm *next; /* in engine->comms */
    int rank, size, local_rank, local_size;
    int machine_rank, machine_size; /* within its host identity, with shared memory or not */
    uint64_t epoch;
    uint32_t fork_generation;
    _Atomic int64_t timeout_ms; /* relaxed: applies to later calls */
    _Atomic int64_t spin_ns;    /* relaxed likewise; -1: the engine's budget */
    int64_t warn_after_ns;      /* 0: never */
    size_t slot_bytes;
    uint32_t slots;
    int *host_of, *world_rank;
    int *by_world;               /* see struct rcmi_members; NULL in the world */
    _Atomic int64_t *left_ns;    /* by rank: when its leave was received; 0: not. Set by the loop
                                    thread, relaxed */
    bool has_left;               /* this rank has left; the destroying thread's */
    struct rcmi_members members; /* the same data for the layers below; from rcmi_comm_equip on */
    struct rcmi_shape shape;
    double ranks_per_cpu;        /* ranks for each CPU of this rank's machine */
    struct rcmi_choices choices; /* algorithms by name; others by predicted time */
    /* Number of the last agreement in which this rank took part; the issuing thread's. */
    uint32_t agreements;
    uint64_t children; /* made by all ranks, or several parts of them; the issuing thread's */

    /* The driver's: */
    atomic_flag driving;
    struct rcmi_entered entry; /* the driver thread's FP state and cancelability on entry */
    struct rcmi_exec *exec;
    struct rcmi_plan_cache *plans;
    struct rcmi_selection *selection;       /* the issuing thread's */
    struct rcmi_selection *stage_selection; /* the driver's */
    struct rcmi_queue queue;                /* accepted collectives that are not complete */
    struct rcmi_p2p *p2p;
    struct rcmi_page_comm *page;      /* in shared memory */
    struct rcmi_trace *trace;         /* of exec; NULL */
    struct rcmi_call_log *call_log;   /* has its own lock */
    struct rcmi_diagnosis *diagnosis; /* has its own lock */
    struct rcmi_proposals *proposals; /* has its own lock */
    rcmi_deadline next_look;          /* time of the next look at all works, see deadline.c */
    bool closing;
    rcmi_deadline quiet_until; /* wait for memory operations after a failure; 0: no wait */
    bool abandoned;            /* one did not end: the memory it uses stays */
    bool yield_due;            /* see rcmi_run_yields */
    struct rcmi_called called[RCMI_COLLECTIVES]; /* the last call of each; the issuing thread's */
    rcm_op held; /* the operator of the last call with a created one; likewise */

    /* Threads in rcmi_comm_enter ... _exit, for which rcm_destroy waits; closed: none may enter. */
    _Atomic int inside;
    _Atomic bool closed;
    /* The owner's reference and one per work: the struct outlives rcm_destroy until they are
     * freed. */
    _Atomic int refs;
    _Atomic int waiters; /* threads in comm_wait; while any, the loop does not drive */
    /* A blocking call drives its own work: the loop thread does not drive, at the cost of a plain
     * store. Relaxed: a loop thread that sees it late only drives, or does not, once too often. */
    _Atomic bool attended;
    _Atomic int unfinished;  /* works submitted and not complete */
    _Atomic uint32_t issued; /* total number of works that a callback may have begun */
    struct rcmi_completions completions;

    pthread_mutex_t submit_lock;
    struct rcm_work *submitted, **submitted_end;
    /* Number of submitted works, so that the driver can look without the lock. Relaxed: a thread
     * that must see a work submitted it, or was woken after it. */
    _Atomic int nsubmitted;
    uint64_t sequence;      /* collectives issued; the issuing thread's */
    struct rcm_work *spare; /* memory of the last blocking call's; the issuing thread's */
    uint64_t history;       /* hash of the records of all collectives, likewise */

    /* All ranks are in rcm_destroy: the end of a link is a death only if there was a link. Set by
     * the destroying thread, read by the loop thread; relaxed, because neither orders anything by
     * it. */
    _Atomic bool parting;
    bool open;          /* counted in engine->open; under its lock */
    _Atomic int failed; /* rcm_status; set after error was written, release/acquire */
    pthread_mutex_t error_lock;
    struct rcm_error error;
    /* Under error_lock too: */
    char name[RCM_NAME_MAX];
    enum { RCMI_NAME_WORLD, RCMI_NAME_RANKS, RCMI_NAME_GIVEN } named; /* see rcmi_comm_label */
    struct rcmi_rank_set *missing; /* from the monitored barrier by which it failed; NULL: none */
};

/* ---- comm.c */
/* NULL: no memory (thread's error). */
rcm_comm *rcmi_comm_new(void);
/* rcmi_comm_why_not, mostly without a function call. */
static inline rcm_status rcmi_comm_usable(const rcm_comm *comm) {
    /* Acquire pairs with the release in comm_record: the record is complete. */
    if (comm && comm->fork_generation == rcmi_fork_generation() && !rcmi_in_operator() &&
        atomic_load_explicit(&comm->failed, memory_order_acquire) == RCM_OK)
        return RCM_OK;
    return rcmi_comm_why_not(comm);
}

/* ---- The driver's lock, see above. Its holder has entered the library (entry.h). */
static inline bool rcmi_comm_try_drive(rcm_comm *comm) {
    /* Acquire pairs with the release in rcmi_comm_stop_driving: the previous driver has
     * finished. */
    if (atomic_flag_test_and_set_explicit(&comm->driving, memory_order_acquire))
        return false;
    rcmi_entry_begin(&comm->entry);
    return true;
}
static inline void rcmi_comm_stop_driving(rcm_comm *comm) {
    const struct rcmi_entered entry = comm->entry;
    atomic_flag_clear_explicit(&comm->driving, memory_order_release);
    rcmi_entry_end(&entry);
}

/* After rcmi_comm_stop_driving: wakes waiting threads that could not drive because this one did, so
 * that they look themselves. Nothing else may show them what this one left to the next look, for
 * example credits that a transport still owes. _let_go: stops and wakes, for a driver that does not
 * look again. */
void rcmi_comm_wake_waiters(rcm_comm *comm);
void rcmi_comm_let_go(rcm_comm *comm);

/* For an issuing thread: becomes the driver if nothing is unfinished, so that all lists of works
 * are empty. Relaxed: the thread sees what it has issued itself, and works that others issue
 * meanwhile are in no list yet. */
static inline bool rcmi_comm_take(rcm_comm *comm) {
    if (!rcmi_comm_try_drive(comm))
        return false;
    /* Acquire pairs with the release in comm.c. If comm has failed, its channels are closed, or the
     * next driver will close them. */
    if (!comm->closing && atomic_load_explicit(&comm->unfinished, memory_order_relaxed) == 0 &&
        atomic_load_explicit(&comm->failed, memory_order_acquire) == RCM_OK)
        return true;
    rcmi_comm_stop_driving(comm);
    return false;
}
/* Without a wake-up: a thread that could not drive meanwhile looks again soon (drive.h). */
static inline void rcmi_comm_give(rcm_comm *comm) {
    rcmi_comm_stop_driving(comm);
}

/* How long a wait on comm spins and how often it yields. */
static inline struct rcmi_pause rcmi_comm_budget(const struct rcm_comm *comm) {
    struct rcmi_pause budget = comm->engine->budget;
    const int64_t spin_ns = atomic_load_explicit(&comm->spin_ns, memory_order_relaxed);
    if (spin_ns >= 0)
        budget.spin_ns = spin_ns;
    budget.slow = comm->shape.nhosts > 1; /* sockets, as for rcmi_pause_for_bytes */
    return budget;
}

/* Publishes on which CPU this thread drives comm, for rcmi_comm_shares_cpu of other ranks. */
void rcmi_comm_drives_here(rcm_comm *comm);
/* After that many spins a wait checks once whether the rank that it waits for runs on the CPU of
 * this thread. Then spinning only keeps that rank from running. False for ranks without a shared
 * status page, which other hosts have. rank: -1 for none. */
#define RCMI_SPINS_BEFORE_CPU 32
bool rcmi_comm_shares_cpu(rcm_comm *comm, int rank);

#endif
