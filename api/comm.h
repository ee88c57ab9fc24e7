/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of api/ share: engine, communicator, work. Nobody outside api/ includes it.
 *
 * Who may touch what:
 *   - A communicator's executor, active works and point-to-point state belong to the *driver*: the
 *     thread that holds comm->driving. Callers that wait drive first; the loop thread only when
 *     no caller waits.
 *   - Issuing appends to comm->submitted under comm->submit_lock; the driver takes from there. A
 *     blocking call that finds nobody driving starts its work itself, without that detour.
 *   - The error record has a lock of its own; comm->failed says without a lock that there is one.
 *   - A work's status is an atomic; everything else in it belongs to the driver until it is final.
 */
#ifndef RCMI_COMM_H
#define RCMI_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "agreement.h"
#include "clock.h"
#include "diagnosis.h"
#include "endpoint.h"
#include "error.h"
#include "exec.h"
#include "log.h"
#include "members.h"
#include "plan.h"
#include "ringcomm.h"
#include "sized.h"
#include "transport.h"
#include "wait.h"
#include "rendezvous.h"

struct rcmi_p2p;
struct rcmi_status_page;
struct rcmi_early;

/* The CPUs that a rank may use: an affinity mask. */
#define RCMI_CPU_BYTES 128 /* 1024 CPUs */
struct rcmi_cpus {
    uint8_t bytes[RCMI_CPU_BYTES];
};

/* One per node: the node, its communicators, and the background driving (engine.c, drive.c). */
struct rcmi_engine {
    struct rcmi_node *node;
    pthread_mutex_t lock; /* guards comms */
    struct rcm_comm *comms;
    int cpu_sharers; /* ranks that share a CPU with another one, for the spin budget; 1: none */
    struct rcmi_pause budget;      /* how long its threads spin; final after rcm_init */
    struct rcmi_pause pause;       /* loop thread only */
    bool armed;                    /* loop thread only */
    struct rcmi_log_rate log_rate; /* loop thread only */
    struct rcmi_address_book *book;
    int rank, nranks;                /* of the world, that is of rcm_init */
    struct rcmi_protocols protocols; /* rank 0's, without get where some rank cannot */
    struct rcmi_cpus *cpus;          /* by world rank */
    _Atomic int refs; /* communicators that are not freed; acquire-release, the last one frees */
    int open;         /* communicators in use; under lock */
    bool *parted;     /* by world rank: shared a communicator that had an orderly end; under lock */
    bool left;        /* farewell was said, by the thread that destroys the last communicator */
    struct rcmi_agreements *agreements; /* has a lock of its own */
    struct rcmi_early *early;           /* under lock */
    rcm_store *store;                   /* ours, closed at the end; NULL if the caller's */
    struct rcmi_join join;              /* our place in it */
    bool serves_store;
};

/* What a call's arguments come to, kept because most calls are as the last one was. */
struct rcmi_called {
    const struct rcmi_plan *plan; /* NULL: there was no call yet */
    size_t count, bytes;          /* of a block */
    size_t in_bytes, out_bytes;   /* of this rank's buffers */
    rcm_dtype dtype;
    rcm_op op;
    int root;
    uint64_t hash; /* of what must be equal on all ranks */
};

struct rcm_comm {
    struct rcmi_engine *engine;
    struct rcm_comm *next; /* in engine->comms */
    int rank, size, local_rank, local_size;
    uint32_t epoch;
    uint32_t fork_generation;
    int64_t timeout_ms;
    int64_t warn_after_ns; /* 0: never */
    size_t slot_bytes;
    uint32_t slots;
    int *host_of, *world_rank;
    struct rcmi_members members; /* the same again, for the parts below; from rcmi_comm_equip on */
    struct rcmi_shape shape;
    double ranks_per_cpu;                 /* ranks for each CPU of this rank's machine */
    const char *forced[RCMI_COLLECTIVES]; /* algorithm by name, NULL: by cost */
    char *forced_text;
    uint32_t
        agreements; /* number of the last one that this rank took part in; the issuing thread's */

    /* The driver's. */
    atomic_flag driving;
    struct rcmi_exec *exec;
    struct rcmi_plan_cache *plans;
    struct rcm_work *active, **active_end;
    struct rcmi_p2p *p2p;
    struct rcmi_status_page *page;    /* in shared memory */
    struct rcmi_call_log *call_log;   /* has a lock of its own */
    struct rcmi_diagnosis *diagnosis; /* has a lock of its own */
    struct rcmi_proposals *proposals; /* has a lock of its own */
    bool closing;
    bool yield_due; /* see rcmi_run_yields */
    struct {
        const struct rcmi_algorithm *algorithm;
        size_t bytes;
    } chosen[RCMI_COLLECTIVES];                  /* last choice by cost; the issuing thread's */
    struct rcmi_called called[RCMI_COLLECTIVES]; /* the last call of each; likewise */

    /* Threads in rcmi_comm_enter ... _leave, and whether that is over: rcm_destroy waits for them.
     */
    _Atomic int inside;
    _Atomic bool closed;
    /* The owner's reference and one per work: the struct outlives rcm_destroy until they are freed.
     */
    _Atomic int refs;
    _Atomic int waiters; /* threads inside comm_wait; the loop does not drive while there are any */
    /* A blocking call drives its own work: the same for the loop, at the price of a plain store.
     * Relaxed: a loop that sees it late only drives, or does not, once too often. */
    _Atomic bool attended;
    _Atomic int unfinished; /* works submitted and not complete */

    pthread_mutex_t submit_lock;
    struct rcm_work *submitted, **submitted_end;
    /* How many; lets the driver look without the lock. Relaxed: who needs to see a work submitted
     * it, or was woken after it. */
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
};

enum rcmi_work_kind { RCMI_WORK_COLLECTIVE, RCMI_WORK_SEND, RCMI_WORK_RECV };

struct rcm_work {
    /* RCM_PENDING, then final. The driver's release store pairs with the acquire load of whoever
     * tests or waits. */
    _Atomic int status;
    _Atomic int refs; /* the user's and the driver's */
    /* Of a blocking call, known to nobody but it: refs do not count, and none is held on comm. Who
     * completes it does not touch it any more. */
    bool blocking;
    bool attended; /* the driver's: who waits for it drives, and need not be woken */
    enum rcmi_work_kind kind;
    enum rcm_collective collective; /* of that kind */
    struct rcm_comm *comm;          /* holds a reference; see rcmi_comm_enter */
    uint32_t fork_generation;
    struct rcm_work *next;
    rcmi_deadline deadline;
    int64_t timeout_ms;
    int64_t moved_ns; /* last progress seen, for the warning; 0: not looked at yet */
    bool warned;
    /* Who was told what it is, see call_log.c: 0 nobody, 1 the ranks of this host, 2 + rank. */
    int told;
    uint64_t seen; /* the progress seen last, to notice that there was some */
    bool parting;  /* the barrier of rcm_destroy */
    bool shown;    /* it is the send or receive on the status page */
    /* A message of another call came: so long the other rank's call log is waited for yet, as of
     * then; 0: it did not. */
    int64_t call_log_left_ns, call_log_looked_ns;
    uint64_t sequence;
    struct rcmi_bind bind;
    struct rcmi_run *run;
    struct rcmi_transfer transfer;
    struct rcm_message message;
};

/* ---- comm.c */
/* Makes comm fail with the thread's error (or joins an earlier failure); tells all linked ranks.
 * work: in which operation, NULL if in none. Any thread. */
void rcmi_comm_fail(rcm_comm *comm, const struct rcm_work *work);
/* Proposes that comm fails with the thread's error, a timeout or a mismatch, in this work; weight:
 * enum rcmi_proposal_weight. Any thread. */
void rcmi_comm_propose(rcm_comm *comm, const struct rcm_work *work, int weight);
/* What would be recorded then. */
void rcmi_comm_make_error(const rcm_comm *comm, const struct rcm_work *work,
                          struct rcm_error *ret_error);
/* Makes the origin in the thread's error, if it is a rank of the world, one of this communicator.
 */
void rcmi_comm_own_origin(const rcm_comm *comm);
/* How a call ends that could not begin, with the thread's error. A wrong argument is the caller's
 * matter; after anything else this rank is missing from what the others do, and comm fails. */
rcm_status rcmi_comm_decline(rcm_comm *comm, rcm_status status);
/* A record that came from another rank. */
void rcmi_comm_fail_remote(rcm_comm *comm, const struct rcm_error *error);
/* If comm has failed, tells rank so, who may not have heard of it; else false. */
bool rcmi_comm_tell_failure(const rcm_comm *comm, int rank);
/* Sets the thread's error from comm's record and returns its status. */
rcm_status rcmi_comm_failure(const rcm_comm *comm);
/* Counts forks, on the child's side: cheaper than getpid() in every call. Relaxed, without a
 * partner: who was forked is alone. From rcmi_fork_watch on, which every communicator calls. */
extern _Atomic uint32_t rcmi_forks;
void rcmi_fork_watch(void);
static inline uint32_t rcmi_fork_generation(void) {
    return atomic_load_explicit(&rcmi_forks, memory_order_relaxed);
}
/* RCM_OK if operations may be issued; else the thread's error is set. _why_not: they may not. */
rcm_status rcmi_comm_why_not(const rcm_comm *comm);
static inline rcm_status rcmi_comm_usable(const rcm_comm *comm) {
    /* Acquire pairs with the release in comm_record: the record is complete. */
    if (comm && comm->fork_generation == rcmi_fork_generation() &&
        atomic_load_explicit(&comm->failed, memory_order_acquire) == RCM_OK)
        return RCM_OK;
    return rcmi_comm_why_not(comm);
}
/* Gives a reference back. */
void rcmi_comm_unref(rcm_comm *comm);
/* Ends what is in flight and frees everything, also half-made. Keeps the thread's error. */
void rcmi_comm_retire(rcm_comm *comm);
/* rcm_init fails on all ranks, for a reason that each found in what they exchanged: rank 0 serves
 * its store until the others have found it, too. */
void rcmi_engine_leave_refused(struct rcmi_engine *engine);
/* Waits until no work of a communicator that failed touches its buffers any more. */
rcm_status rcmi_comm_settle(rcm_comm *comm, rcmi_deadline deadline);

/* ---- group.c: making communicators on an engine */
/* NULL: no memory (thread's error). */
rcm_comm *rcmi_comm_new(void);
/* From world_rank: groups ranks by host identity for local rank and size and what is known of the
 * machines, and by the memory they share for host_of and shape. */
rcm_status rcmi_comm_shape(rcm_comm *comm);
/* The last step: makes what runs its operations, and adds it to the engine. */
rcm_status rcmi_comm_equip(rcm_comm *comm);
/* Makes a communicator of these ranks of parent, in this order, on parent's engine; this rank must
 * be among them. All of them call it with the same members and the same epoch, which no other
 * communicator of theirs has. Talks to nobody. One of which a member is lost already comes out
 * failed. */
rcm_status rcmi_comm_derive(rcm_comm *parent, uint32_t epoch, const int *members, int nmembers,
                            rcm_comm **ret_comm);

/* ---- engine.c */
rcm_status rcmi_engine_create(struct rcmi_node_config *config, struct rcmi_engine **ret_engine);
/* Of each communicator on it, one more reference than rcmi_engine_create's; the last release ends
 * it. */
void rcmi_engine_hold(struct rcmi_engine *engine);
void rcmi_engine_release(struct rcmi_engine *engine);
void rcmi_engine_add(struct rcmi_engine *engine, rcm_comm *comm);
/* comm is over, orderly (all its ranks know) or not; once or twice. True if none is in use any
 * more. */
bool rcmi_engine_part(struct rcmi_engine *engine, rcm_comm *comm, bool orderly);
/* Tells all ranks, also those that have not made it yet, that the communicator of this epoch is of
 * no use, for the reason in the thread's error; origin: its rank that caused it. */
void rcmi_engine_revoke(struct rcmi_engine *engine, uint32_t epoch, int origin);
void rcmi_engine_remove(struct rcmi_engine *engine, rcm_comm *comm);

/* ---- drive.c */
/* The driver's, at the end of a blocking call: see rcmi_run_yields. */
void rcmi_comm_yield_once(rcm_comm *comm);
static inline void rcmi_comm_yield_if_due(rcm_comm *comm) {
    if (comm->yield_due)
        rcmi_comm_yield_once(comm);
}
/* A sleeping driver looks at deadlines that often. */
#define RCMI_LOOK_EVERY_NS INT64_C(500000000)
/* One pass over everything unfinished. The caller is the driver. True if anything moved. */
bool rcmi_comm_drive(rcm_comm *comm);
/* A thread that came by a work enters before it touches comm; false: comm is at its end, its works
 * are complete. */
bool rcmi_comm_enter(rcm_comm *comm);
void rcmi_comm_leave(rcm_comm *comm);
/* Hands a new work to the driver. */
void rcmi_comm_submit(rcm_comm *comm, struct rcm_work *work);
/* Issues a blocking call's work and drives until it is final. */
void rcmi_comm_run(rcm_comm *comm, struct rcm_work *work);
/* The epilogue of a thread that drove: others may sleep because it did. */
void rcmi_comm_hand_over(rcm_comm *comm);
/* After submitting an asynchronous work: one try at once, then the loop thread goes on. */
void rcmi_comm_kick(rcm_comm *comm);
/* The same with a work whose run the caller has begun. The caller took the communicator, and gives
 * it up by this. */
void rcmi_comm_go_on(rcm_comm *comm, struct rcm_work *work, struct rcmi_run *run);
/* Drives until work is final, or the deadline (RCM_PENDING). */
rcm_status rcmi_comm_wait(rcm_comm *comm, struct rcm_work *work, rcmi_deadline deadline);
/* Drives until check(arg) is no longer RCM_AGAIN. check runs as the driver. */
rcm_status rcmi_comm_wait_for(rcm_comm *comm, rcm_status (*check)(void *arg), void *arg,
                              rcmi_deadline deadline);

/* The driver's lock, see above. */
static inline bool rcmi_comm_try_drive(rcm_comm *comm) {
    /* Acquire pairs with the release in rcmi_comm_stop_driving: the driver before us is done. */
    return !atomic_flag_test_and_set_explicit(&comm->driving, memory_order_acquire);
}
static inline void rcmi_comm_stop_driving(rcm_comm *comm) {
    atomic_flag_clear_explicit(&comm->driving, memory_order_release);
}

/* The issuing thread: becomes the driver if nothing is unfinished, so that all lists of works are
 * empty. Relaxed: only this thread makes it more. */
static inline bool rcmi_comm_take(rcm_comm *comm) {
    if (!rcmi_comm_try_drive(comm))
        return false;
    if (!comm->closing && atomic_load_explicit(&comm->unfinished, memory_order_relaxed) == 0)
        return true;
    rcmi_comm_stop_driving(comm);
    return false;
}
/* Nobody has to be told: who else waits to drive waits for a work, and there was none, or settles a
 * communicator that failed, which rings, and looks twice a second. */
static inline void rcmi_comm_give(rcm_comm *comm) {
    rcmi_comm_stop_driving(comm);
}

/* ---- deadline.c */
/* The caller is the driver. The time of works that nobody has looked at yet begins now. */
void rcmi_comm_start_clocks(rcm_comm *comm);
/* Driver: shows, tells and, at a deadline, asks and fails. Returns when to look again. */
rcmi_deadline rcmi_comm_check_deadlines(rcm_comm *comm);
/* Loop thread: answers another rank's question. */
void rcmi_comm_answer(rcm_comm *comm, int peer, const struct rcmi_inquiry *question);

/* ---- work.c */
/* blocking: rcmi_work_issue will get no ret_work. Issuing thread. A new work is memory, that of the
 * last blocking call if there is some, and a beginning. _spare: there is memory for one; _take:
 * takes it. */
rcm_status rcmi_work_make_spare(rcm_comm *comm);
static inline rcm_status rcmi_work_spare(rcm_comm *comm) {
    return comm->spare ? RCM_OK : rcmi_work_make_spare(comm);
}
struct rcm_work *rcmi_work_take(rcm_comm *comm);
void rcmi_work_begin(rcm_comm *comm, enum rcmi_work_kind kind, bool blocking,
                     const struct rcm_call *call, struct rcm_work *work);
rcm_status rcmi_work_new(rcm_comm *comm, enum rcmi_work_kind kind, bool blocking,
                         const struct rcm_call *call, struct rcm_work **ret_work);
void rcmi_work_complete(struct rcm_work *work, rcm_status status);
/* Blocking: submits, waits, ends. Else submits, kicks, hands out. */
rcm_status rcmi_work_issue(rcm_comm *comm, struct rcm_work *work, rcm_work **ret_work);
/* The result of a blocking call, whose work is final and not needed any more. */
rcm_status rcmi_work_end(rcm_comm *comm, struct rcm_work *work);
/* "all_reduce", "send" */
const char *rcmi_work_name(const struct rcm_work *work);
/* Checks a call that was given, of whatever size: *call stays if it is NULL or of our size, else it
 * becomes `room`, which has all fields that this library knows. */
rcm_status rcmi_call_in_given(const struct rcm_call **call, struct rcm_call *room);
static inline rcm_status rcmi_call_in(const struct rcm_call **call, struct rcm_call *room) {
    const struct rcm_call *given = *call;
    const bool usual = !given || (given->size == sizeof(*given) && given->flags == 0);
    return usual ? RCM_OK : rcmi_call_in_given(call, room);
}

/* ---- leave.c */
/* No communicator is in use any more, and one had an orderly end: waits for the farewells of all
 * that took part in that, not of those that were left out on the way, and leaves the store. comm is
 * the last one, in its own orderly end: a rank of it that dies makes it fail, and a failure ends
 * the waiting, which is RCM_OK; NULL: it has failed before. */
rcm_status rcmi_engine_leave(struct rcmi_engine *engine, rcm_comm *comm, rcmi_deadline deadline);
/* The last communicator to be destroyed is one that failed. Others may still be in the orderly end
 * of a later one. */
void rcmi_engine_end(struct rcmi_engine *engine);

/* ---- transfer.c; for the driver but where said otherwise */
rcm_status rcmi_transfers_create(rcm_comm *comm);
/* Hands a new send or receive to point to point. */
void rcmi_transfer_start(rcm_comm *comm, struct rcm_work *work);
/* Calls visit on every unfinished send and receive until it returns false. */
void rcmi_transfers_each(const rcm_comm *comm, bool (*visit)(void *arg, struct rcm_work *work),
                         void *arg);
/* After point to point failed: a send or receive of whose memory a channel could make nothing, else
 * NULL. */
const struct rcm_work *rcmi_transfer_at_fault(const rcm_comm *comm);
/* Puts one on the status page; NULL: there is none. */
void rcmi_comm_show_transfer(const rcm_comm *comm, const struct rcm_work *work);
/* A blocking send or receive of a small message at once, if that can be: RCM_OK; RCM_AGAIN: nothing
 * was done, issue a work. Issuing thread. */
rcm_status rcmi_send_now(rcm_comm *comm, int peer, uint64_t tag, const void *buffer, size_t bytes);
rcm_status rcmi_receive_now(rcm_comm *comm, int peer, uint64_t tag, void *buffer, size_t capacity);
#define RCMI_P2P_CHANNEL (0x100u | RCMI_ID_BULK)

/* ---- collective.c */
/* The barrier of rcm_destroy: no call of a user is equal to it. */
rcm_status rcmi_barrier_parting(rcm_comm *comm);

/* ---- collective_direct.c */
/* Between two looks of a blocking caller who has no work yet. False: it is time for one. */
bool rcmi_caller_pauses(rcm_comm *comm, struct rcmi_pause *pause);
/* A blocking call, as far as its caller would spin anyway. RCM_OK: it is done. RCM_AGAIN: with NULL
 * in *ret_run nothing was begun, else the caller is the driver and calls rcmi_comm_go_on. */
rcm_status rcmi_collective_now(rcm_comm *comm, uint64_t sequence, const struct rcmi_bind *bind,
                               struct rcmi_run **ret_run);

/* ---- early.c: messages of communicators that this rank has not made yet */
/* All under the engine's lock. No memory: they are lost, as if they had come too early. */
struct rcmi_early *rcmi_early_create(void);
void rcmi_early_free(struct rcmi_early *early);
/* Keeps a message, or with bytes NULL that peer wants its point-to-point channel opened. */
void rcmi_early_keep(struct rcmi_early *early, uint32_t epoch, int peer, const void *bytes,
                     size_t len);
/* Takes out what was kept for epoch, in order, and calls hear with each. */
void rcmi_early_take(struct rcmi_early *early, uint32_t epoch,
                     void (*hear)(void *arg, int peer, const void *bytes, size_t len), void *arg);

#endif
