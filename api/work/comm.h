/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/ makes communicators and works out of the rooms below it, and has the functions of
 * ringcomm.h.
 *
 *   calls/  collective*.c coalesced.c prepare.c  collectives: arguments are checked, recorded
 *             request.c uneven.c             ... what is checked
 *             start.c persistent.c           persistent works, started again
 *             message.c probe.c batch.c      point to point
 *             memory.c info*.c counters.c    memory of the library, questions to it
 *             store_custom.c wait_many.c     own stores; several works
 *   comm/   init*.c spawn.c exchange.c sharing.c  how ranks come to be
 *             exit.c leave.c                 ... and are gone
 *             subset.c shrink.c group.c destroy*.c communicators: made, ended
 *             comm_request.c background.c    ... begun, and waited for later
 *             engine.c early_messages.c tuning.c      what a process has once for all of them
 *   work/   issue.c                          works as callers see them
 *             drive.c                        one thread at a time makes works go on
 *             queue.c deadline.c             ... boundedly many at once, until it is too late
 *             transfer.c                     ... sends and receives, by p2p/
 *             completion*.c notice.c         ... their end, and what is called then
 *             work.c                         an operation in flight
 *             comm.c failure.h               the struct of a communicator, its error record
 *             struct_versions.c              structs of the public header that grow
 *
 * Calls go down in this list. Not here: matching (p2p/), what is found out of a hang (diagnosis/),
 * consensus (agreement/), plans and their executor (algorithms/).
 *
 * This file: the communicator itself. Which thread may touch what:
 *   - A communicator's executor, start queue and point-to-point state belong to the *driver*: the
 *     thread that holds comm->driving. Callers that wait drive first; the loop thread only when
 *     no caller waits.
 *   - Issuing appends to comm->submitted under comm->submit_lock; the driver takes from there. A
 *     blocking call that finds no driver starts its work itself, without that detour.
 *   - The error record has a lock of its own; comm->failed says without a lock that there is one.
 *   - A work's status is an atomic; everything else in it belongs to the driver until it is final.
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
    int machine_rank, machine_size; /* likewise, of its host identity, whatever memory they share */
    uint64_t epoch;
    uint32_t fork_generation;
    _Atomic int64_t timeout_ms; /* relaxed: it is of the calls that follow */
    int64_t warn_after_ns;      /* 0: never */
    size_t slot_bytes;
    uint32_t slots;
    int *host_of, *world_rank;
    int *by_world;               /* see struct rcmi_members; NULL in the world */
    _Atomic int64_t *left_ns;    /* by rank: when it was heard that it has left; 0: not. Set by the
                                    loop thread, relaxed */
    bool has_left;               /* this rank has; the destroying thread's */
    struct rcmi_members members; /* the same again, for the parts below; from rcmi_comm_equip on */
    struct rcmi_shape shape;
    double ranks_per_cpu;        /* ranks for each CPU of this rank's machine */
    struct rcmi_choices choices; /* algorithms by name; others by price */
    /* Number of the last one that this rank took part in; the issuing thread's. */
    uint32_t agreements;
    uint64_t children; /* made by all ranks, or several parts of them; the issuing thread's */

    /* The driver's. */
    atomic_flag driving;
    struct rcmi_entered entry; /* how the driver's thread came */
    struct rcmi_exec *exec;
    struct rcmi_plan_cache *plans;
    struct rcmi_selection *selection;       /* the issuing thread's */
    struct rcmi_selection *stage_selection; /* the driver's */
    struct rcmi_queue queue; /* its collectives that were taken over and are not complete */
    struct rcmi_p2p *p2p;
    struct rcmi_page_comm *page;      /* in shared memory */
    struct rcmi_trace *trace;         /* of exec; NULL */
    struct rcmi_call_log *call_log;   /* has a lock of its own */
    struct rcmi_diagnosis *diagnosis; /* has a lock of its own */
    struct rcmi_proposals *proposals; /* has a lock of its own */
    rcmi_deadline next_look;          /* at all works, see deadline.c */
    bool closing;
    rcmi_deadline quiet_until; /* of operations on memory after a failure; 0: not waited for */
    bool abandoned;            /* one did not end: what it uses stays */
    bool yield_due;            /* see rcmi_run_yields */
    struct rcmi_called called[RCMI_COLLECTIVES]; /* the last call of each; the issuing thread's */
    rcm_op held; /* the operator of the last call with one that was created; likewise */

    /* Threads in rcmi_comm_enter ... _exit, and whether that is over: rcm_destroy waits for
     * them. */
    _Atomic int inside;
    _Atomic bool closed;
    /* The owner's reference and one per work: the struct outlives rcm_destroy until they are
     * freed. */
    _Atomic int refs;
    _Atomic int waiters; /* threads inside comm_wait; the loop does not drive while there are any */
    /* A blocking call drives its own work: the same for the loop, at the price of a plain store.
     * Relaxed: a loop that sees it late only drives, or does not, once too often. */
    _Atomic bool attended;
    _Atomic int unfinished;  /* works submitted and not complete */
    _Atomic uint32_t issued; /* works that a callback may have begun, in all */
    struct rcmi_completions completions;

    pthread_mutex_t submit_lock;
    struct rcm_work *submitted, **submitted_end;
    /* How many; lets the driver look without the lock. Relaxed: a thread that needs to see a work
     * submitted it, or was woken after it. */
    _Atomic int nsubmitted;
    uint64_t sequence;      /* collectives issued; the issuing thread's */
    struct rcm_work *spare; /* a blocking call's work, for the next one; the issuing thread's */
    uint64_t history;       /* hash of all their records, likewise */

    /* All ranks are in rcm_destroy: the end of a link is a death only if the link was there. Set by
     * the destroying thread, read by the loop thread; relaxed, for neither orders anything by it.
     */
    _Atomic bool parting;
    bool open;          /* counted in engine->open; under its lock */
    _Atomic int failed; /* rcm_status; set after error was written, release/acquire */
    pthread_mutex_t error_lock;
    struct rcm_error error;
    /* Under error_lock too. */
    char name[RCM_NAME_MAX];
    enum { RCMI_NAME_WORLD, RCMI_NAME_RANKS, RCMI_NAME_GIVEN } named; /* see rcmi_comm_label */
    struct rcmi_rank_set *missing; /* from a monitored barrier by which it failed; NULL: by none */
};

/* ---- comm.c */
/* NULL: no memory (thread's error). */
rcm_comm *rcmi_comm_new(void);
/* rcmi_comm_why_not, most often without a function call. */
static inline rcm_status rcmi_comm_usable(const rcm_comm *comm) {
    /* Acquire pairs with the release in comm_record: the record is complete. */
    if (comm && comm->fork_generation == rcmi_fork_generation() && !rcmi_in_operator() &&
        atomic_load_explicit(&comm->failed, memory_order_acquire) == RCM_OK)
        return RCM_OK;
    return rcmi_comm_why_not(comm);
}

/* ---- The driver's lock, see above. Whoever has it has entered the library (entry.h). */
static inline bool rcmi_comm_try_drive(rcm_comm *comm) {
    /* Acquire pairs with the release in rcmi_comm_stop_driving: the driver before is done. */
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

/* After it stopped: threads that wait and could not drive, since this one did, look themselves.
 * What this one left to the next look (credits that a transport still owes, say) may be shown by
 * nothing else. _let_go: stops, for a driver that does not look again. */
void rcmi_comm_wake_waiters(rcm_comm *comm);
void rcmi_comm_let_go(rcm_comm *comm);

/* A thread that issues: becomes the driver if nothing is unfinished, so that all lists of works are
 * empty. Relaxed: what it has issued itself it sees, and what others issue meanwhile is in no list
 * yet. */
static inline bool rcmi_comm_take(rcm_comm *comm) {
    if (!rcmi_comm_try_drive(comm))
        return false;
    /* Acquire pairs with the release in comm.c. If comm has failed, its channels are closed, or
     * will be by the next driver. */
    if (!comm->closing && atomic_load_explicit(&comm->unfinished, memory_order_relaxed) == 0 &&
        atomic_load_explicit(&comm->failed, memory_order_acquire) == RCM_OK)
        return true;
    rcmi_comm_stop_driving(comm);
    return false;
}
/* Without a wake-up: a thread that could not drive meanwhile looks again in a moment (drive.h). */
static inline void rcmi_comm_give(rcm_comm *comm) {
    rcmi_comm_stop_driving(comm);
}

#endif
