/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Driving the unfinished works of a communicator, and waiting for them.
 *
 * The thread that holds the try-lock `driving` drives a communicator. A thread in a blocking call
 * or a wait drives itself. It spins within its budget, then sleeps on the node's sockets, or on its
 * doorbell, which peers, the loop thread and completions ring. The node's loop thread drives only
 * while no thread waits on a communicator (engine.c).
 *
 * Not here: driving one collective (algorithms/exec/exec.c) or message (p2p/), late works
 * (deadline.c), and collectives that end while their caller spins (collective.c).
 */
#include "drive.h"
#include "agreement.h"
#include "comm.h"
#include "deadline.h"
#include "diagnosis.h"
#include "entry.h"
#include "log.h"
#include "p2p.h"
#include "status_page.h"
#include "transfer.h"

#define CALL_LOG_NS     INT64_C(5000000000) /* limit of the wait for another rank's call log */
#define QUIET_MS        2000                /* the same for operations on memory */
#define KICK_BYTES      ((size_t)64 << 10)  /* larger operations take longer than a wake-up */
#define KICK_NS         INT64_C(10000)      /* limit of the time a kick drives, */
#define KICK_IDLE_NS    INT64_C(2000)       /* and of the time without progress */
#define KICK_WORKS      2   /* unfinished works, at most: a persistent work and its part */
#define PASSES_PER_LOOK 256 /* idle passes of a driving thread between two looks at the clock */

/* ---- Driving --------------------------------------------------------------------------------- */

static void comm_show_oldest(rcm_comm *comm) {
    const struct rcm_work *oldest = comm->queue.first;
    rcmi_page_oldest(comm->page, oldest ? oldest->sequence : 0, oldest ? &oldest->bind : NULL);
}

static void comm_finish(rcm_comm *comm, struct rcm_work *work, rcm_status status) {
    if (work->run && status == RCM_OK)
        comm->yield_due = rcmi_run_yields(work->run);
    if (work->run)
        rcmi_run_end(work->run);
    work->run = NULL;
    rcmi_exec_trim(comm->exec);
    comm_show_oldest(comm);
    rcmi_work_complete(work, status);
}

/* Whether no operation on memory that a work began touches it any more (exec.h). An operation that
 * does not end in time is abandoned. All that it may still touch (runs, slots, the node that owns
 * them) stays allocated for good, because it cannot be stopped. */
static bool comm_quiesce(rcm_comm *comm) {
    const bool exec_is_quiet = rcmi_exec_quiesce(comm->exec);
    if ((rcmi_p2p_quiesce(comm->p2p) && exec_is_quiet) || comm->abandoned)
        return true;
    if (comm->quiet_until == 0)
        comm->quiet_until = rcmi_deadline_in(QUIET_MS);
    if (!rcmi_deadline_passed(comm->quiet_until))
        return false;
    rcmi_log(RCMI_LOG_ERROR,
             "an operation on memory did not end within %d s after its communicator failed: the "
             "memory that it uses is not freed",
             QUIET_MS / 1000);
    comm->abandoned = true;
    return true;
}

/* Ends the runs of all works. */
static void comm_end_runs(rcm_comm *comm) {
    for (struct rcm_work *work = comm->queue.first; work; work = work->next) {
        if (work->run && !comm->abandoned)
            rcmi_run_end(work->run);
        work->run = NULL;
    }
    if (!comm->abandoned)
        rcmi_exec_close_channels(comm->exec);
}

/* Ends all works with the communicator's error. False: an operation still runs; the node's doorbell
 * is rung when it ends. */
static bool comm_cancel_all(rcm_comm *comm, rcm_status status) {
    /* First nothing touches the buffers any more, then the works are complete. */
    if (!comm_quiesce(comm))
        return false;
    comm_end_runs(comm);
    while (comm->queue.first)
        comm_finish(comm, rcmi_queue_remove(&comm->queue, &comm->queue.first), status);
    rcmi_p2p_cancel(comm->p2p, status);
    return true;
}

/* Starts the first waiting collective. */
static void comm_start_next(rcm_comm *comm, struct rcm_work *work) {
    rcm_status status = rcmi_run_start(comm->exec, &work->bind, &work->run);
    if (status == RCM_ERR_UNSUPPORTED) { /* the same on every rank: nothing was sent */
        comm_finish(comm, rcmi_queue_remove(&comm->queue, comm->queue.waiting), status);
        return;
    }
    rcmi_queue_start(&comm->queue);
    if (status == RCM_OK)
        rcmi_queue_weigh(&comm->queue, work, rcmi_run_bytes(work->run));
    else
        rcmi_comm_fail(comm, work);
}

static void comm_start_queued(rcm_comm *comm) {
    struct rcm_work *work;
    /* Acquire pairs with the release in comm.c: the record is complete. */
    while ((work = rcmi_queue_next(&comm->queue)) != NULL &&
           atomic_load_explicit(&comm->failed, memory_order_acquire) == RCM_OK)
        comm_start_next(comm, work);
}

static void comm_enqueue(rcm_comm *comm, struct rcm_work *work) {
    rcmi_page_called(comm->page, work->sequence, work->bind.collective);
    rcmi_queue_add(&comm->queue, work);
    if (comm->queue.first == work)
        comm_show_oldest(comm);
}

/* Accepts a work. A collective starts in its turn. */
static void comm_accept(rcm_comm *comm, struct rcm_work *work) {
    const rcm_status failed = atomic_load_explicit(&comm->failed, memory_order_acquire);
    if (failed != RCM_OK)
        rcmi_work_complete(work, failed);
    else if (work->kind == RCMI_WORK_COLLECTIVE)
        comm_enqueue(comm, work);
    else
        rcmi_transfer_start(comm, work);
}

/* Accepts submitted works, in order. */
static bool comm_absorb(rcm_comm *comm) {
    if (atomic_load_explicit(&comm->nsubmitted, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&comm->submit_lock);
    atomic_store_explicit(&comm->nsubmitted, 0, memory_order_relaxed);
    struct rcm_work *work = comm->submitted;
    comm->submitted = NULL;
    comm->submitted_end = &comm->submitted;
    pthread_mutex_unlock(&comm->submit_lock);
    const bool any = work != NULL;
    while (work) {
        struct rcm_work *next = work->next;
        comm_accept(comm, work);
        work = next;
    }
    comm_start_queued(comm);
    return any;
}

/* How long to wait for another rank's call log: less than others may wait for this rank. */
static int64_t work_call_log_ns(const struct rcm_work *work) {
    const int64_t quarter_ms = work->timeout_ms / 4;
    return quarter_ms > 0 && quarter_ms < CALL_LOG_NS / 1000000 ? quarter_ms * 1000000
                                                                : CALL_LOG_NS;
}

/* Whether that wait is over. Time in which this rank could not look does not count: if the machine
 * stood still, no rank could send anything either. */
static bool work_call_log_is_overdue(struct rcm_work *work) {
    const int64_t now = rcmi_now_ns(), gap = now - work->call_log_looked_ns;
    work->call_log_left_ns -= gap < RCMI_LOOK_EVERY_NS ? gap : RCMI_LOOK_EVERY_NS;
    work->call_log_looked_ns = now;
    return work->call_log_left_ns <= 0;
}

/* A message of another call came. Its sender gets this rank's call log, and will propose an error
 * that names both calls. If it does not, this rank proposes one that names its own call. */
static bool work_is_mismatched(rcm_comm *comm, struct rcm_work *work, rcm_status status) {
    if (status != RCM_ERR_MISMATCH)
        return false;
    rcmi_comm_own_origin(comm);
    if (rcmi_run_counts_differ(work->run)) { /* all facts are known */
        if (!rcmi_proposals_are_open(comm->proposals))
            rcmi_comm_propose(comm, work, NULL, RCMI_PROPOSAL_MISMATCH);
        return true;
    }
    if (work->call_log_looked_ns == 0) {
        work->call_log_looked_ns = rcmi_now_ns();
        work->call_log_left_ns = work_call_log_ns(work);
        rcmi_call_log_send_history(comm->call_log, rcmi_last_error()->origin);
    }
    if (work_call_log_is_overdue(work) && !rcmi_proposals_are_open(comm->proposals))
        rcmi_comm_propose(comm, work, NULL, RCMI_PROPOSAL_MISMATCH);
    return true;
}

/* The run of a collective, or of one of its stages, is complete. */
static rcm_status comm_next_stage(rcm_comm *comm, struct rcm_work *work) {
    const rcm_status status = rcmi_work_next_stage(work);
    if (status != RCM_AGAIN)
        return status;
    rcmi_queue_weigh(&comm->queue, work, rcmi_run_bytes(work->run));
    if (work->last_stage)
        rcmi_queue_release(&comm->queue);
    if (work == comm->queue.first)
        comm_show_oldest(comm);
    return RCM_AGAIN;
}

/* *ret_ends: the work is complete with the status. */
static rcm_status comm_progress_collective(rcm_comm *comm, struct rcm_work *work, bool *moved,
                                           bool *ret_ends) {
    rcm_status status = work->run ? rcmi_run_progress(work->run, moved) : RCM_AGAIN;
    *ret_ends = status == RCM_OK;
    if (status == RCM_OK && work->stages) {
        *moved = true;
        status = comm_next_stage(comm, work);
        *ret_ends = status == RCM_OK || status == RCM_ERR_UNSUPPORTED;
    }
    return status;
}

static rcm_status comm_progress_collectives(rcm_comm *comm, bool *moved) {
    struct rcm_work **at = &comm->queue.first;
    while (at != comm->queue.waiting) {
        struct rcm_work *work = *at;
        bool stepped = false, ends = false;
        const rcm_status status = comm_progress_collective(comm, work, &stepped, &ends);
        if (stepped)
            *moved = true;
        if (ends) {
            comm_finish(comm, rcmi_queue_remove(&comm->queue, at), status);
            *moved = true;
        } else if (status == RCM_AGAIN || work_is_mismatched(comm, work, status)) {
            at = &work->next;
        } else {
            rcmi_comm_fail(comm, work);
            return status;
        }
    }
    comm_start_queued(comm);
    return RCM_OK;
}

bool rcmi_comm_drive(rcm_comm *comm) {
    bool moved = comm_absorb(comm);
    /* Acquire pairs with the release in comm.c: the record is complete. */
    rcm_status failed = atomic_load_explicit(&comm->failed, memory_order_acquire);
    if (failed == RCM_OK && comm_progress_collectives(comm, &moved) == RCM_OK &&
        rcmi_p2p_progress(comm->p2p, &moved) != RCM_OK)
        rcmi_comm_fail(comm, rcmi_transfer_at_fault(comm));
    failed = atomic_load_explicit(&comm->failed, memory_order_acquire);
    return failed != RCM_OK ? comm_cancel_all(comm, failed) : moved;
}

static bool visit_list(struct rcm_work *work, bool (*visit)(void *arg, struct rcm_work *work),
                       void *arg) {
    while (work) {
        if (!visit(arg, work))
            return false;
        work = work->next;
    }
    return true;
}

/* The lists do not change while this thread drives, and no blocking call is on its fast path. */
bool rcmi_comm_visit(rcm_comm *comm, bool (*visit)(void *arg, struct rcm_work *work), void *arg) {
    if (!rcmi_comm_try_drive(comm))
        return false;
    if (visit_list(comm->queue.first, visit, arg))
        rcmi_transfers_each(comm, visit, arg);
    pthread_mutex_lock(&comm->submit_lock);
    (void)visit_list(comm->submitted, visit, arg);
    pthread_mutex_unlock(&comm->submit_lock);
    rcmi_comm_let_go(comm);
    return true;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static rcm_status work_check(void *arg) {
    struct rcm_work *work = arg;
    /* Acquire pairs with the release in rcmi_work_complete: results and message are complete. */
    return atomic_load_explicit(&work->status, memory_order_acquire) == RCM_PENDING ? RCM_AGAIN
                                                                                    : RCM_OK;
}

/* The condition of a waiting thread. */
struct waiting {
    rcm_status (*check)(void *arg); /* RCM_AGAIN: not yet */
    void *arg;
    const struct rcm_work *work; /* arg, if it is one; else NULL */
    bool drivers;                /* check touches the driver's data */
    rcmi_deadline deadline;
};

/* The check of a thread that does not drive. */
static rcm_status waiting_look(const struct waiting *waiting) {
    return waiting->drivers ? RCM_AGAIN : waiting->check(waiting->arg);
}

void rcmi_comm_yield_once(rcm_comm *comm) {
    struct rcmi_pause once = {.yields = 1};
    (void)rcmi_pause(&once);
    comm->yield_due = false;
}

size_t rcmi_bind_bytes(const struct rcmi_bind *bind) {
    return bind->count * rcm_dtype_size(bind->dtype);
}

/* Maximum spin time for the given amount of data. Spinning pays only within one machine, because a
 * network is slower than any wake-up. With shared cores no thread spins longer: a collective waits
 * for several ranks, which need the core. A collective whose channels are being opened does not
 * spin either. */
static struct rcmi_pause waiting_budget(const rcm_comm *comm, const struct waiting *waiting) {
    const struct rcm_work *work = waiting->work;
    const struct rcmi_pause least = rcmi_comm_budget(comm);
    if (work && work->run && rcmi_run_opens(work->run))
        return (struct rcmi_pause){.yields = least.yields};
    if (!work || !comm->shape.loopback ||
        atomic_load_explicit(&comm->spin_ns, memory_order_relaxed) >= 0 ||
        (least.spin_ns == 0 && work->kind == RCMI_WORK_COLLECTIVE))
        return least;
    const size_t bytes =
        work->kind == RCMI_WORK_COLLECTIVE ? rcmi_bind_bytes(&work->bind) : work->transfer.mem.len;
    return rcmi_pause_for_bytes(least, bytes, comm->shape.nhosts > 1);
}

/* Whether the kernel's clock ticked since the last call. At first *at is 0. */
static bool clock_ticked(int64_t *at) {
    const int64_t before = *at;
    *at = rcmi_tick_ns();
    return before != 0 && *at != before;
}

/* Drives until check is satisfied, the budget is spent, or the deadline has passed. Deadlines are
 * also checked during constant progress, when a pass may take long. began: when the budget began,
 * as in struct rcmi_pause. */
static rcm_status comm_spin_driving(rcm_comm *comm, const struct waiting *waiting, int64_t began) {
    const struct rcm_work *work = waiting->work;
    const struct rcmi_pause full = waiting_budget(comm, waiting);
    struct rcmi_pause pause = full;
    pause.began = began;
    int64_t tick = 0;
    bool started = false;
    rcmi_comm_drives_here(comm);
    for (uint32_t pass = 1;; pass++) {
        const bool moved = rcmi_comm_drive(comm);
        const rcm_status status = waiting->check(waiting->arg);
        if (status != RCM_AGAIN) {
            if (comm->yield_due)
                rcmi_comm_yield_once(comm);
            return status;
        }
        if (moved || rcmi_node_progress(comm->engine->node)) {
            pause = full;
        } else {
            if (pause.spin_ns > 0 && pause.spins == RCMI_SPINS_BEFORE_CPU && work &&
                rcmi_comm_shares_cpu(comm, rcmi_work_waits_for(work)))
                pause.spin_ns = 0;
            if (!started && pause.spin_ns == 0) /* others get the CPU now, for an unknown time */
                rcmi_comm_start_clocks(comm);
            started = started || pause.spin_ns == 0;
            if (!rcmi_pause(&pause))
                return RCM_AGAIN;
        }
        if ((moved || pass % PASSES_PER_LOOK == 0) && clock_ticked(&tick)) {
            rcmi_comm_check_deadlines(comm);
            if (rcmi_deadline_passed(waiting->deadline))
                return RCM_AGAIN;
        }
    }
}

/* Spins, driving if no other thread does. RCM_AGAIN: sleep, or the deadline has passed. */
static rcm_status comm_spin(rcm_comm *comm, const struct waiting *waiting) {
    struct rcmi_pause pause = rcmi_comm_budget(comm);
    while (!rcmi_comm_try_drive(comm)) { /* another thread drives: watch */
        const rcm_status status = waiting_look(waiting);
        if (status != RCM_AGAIN || !rcmi_pause(&pause))
            return status;
    }
    const rcm_status status = comm->closing ? RCM_OK : comm_spin_driving(comm, waiting, 0);
    rcmi_comm_stop_driving(comm);
    return status;
}

/* Sleeps until an event, a near deadline, or 0.5 s. */
static void comm_sleep(rcm_comm *comm, const struct waiting *waiting) {
    rcmi_deadline deadline = waiting->deadline;
    int64_t look_ns = RCMI_LOOK_EVERY_NS;
    rcm_status status;
    struct rcmi_sleep sleep;
    rcmi_node_sleep_begin(comm->engine->node, &sleep);
    bool moved = false;
    if (rcmi_comm_try_drive(comm)) { /* the look between arming and sleeping */
        if (!comm->closing) {
            moved = rcmi_node_progress(comm->engine->node);
            moved = rcmi_comm_drive(comm) || moved;
            const rcmi_deadline work_deadline = rcmi_comm_check_deadlines(comm);
            if (work_deadline < deadline)
                deadline = work_deadline;
        }
        status = comm->closing ? RCM_OK : waiting->check(waiting->arg);
        rcmi_comm_stop_driving(comm);
    } else { /* the driver rings the doorbell when it stops, or stops soon */
        status = waiting_look(waiting);
        look_ns = RCMI_LOOK_AGAIN_NS;
    }
    if (!moved && status == RCM_AGAIN) {
        const rcmi_deadline look = rcmi_now_ns() + look_ns;
        rcmi_node_sleep_until(comm->engine->node, &sleep, deadline < look ? deadline : look);
    }
    rcmi_node_sleep_end(comm->engine->node, &sleep);
}

/* spun: the caller has spent the budget, so sleep first. */
static rcm_status comm_wait_for(rcm_comm *comm, const struct waiting *waiting, bool spun) {
    RCMI_ENTRY;
    /* Seen by the loop thread's tick, which then leaves driving to this thread. */
    atomic_fetch_add_explicit(&comm->waiters, 1, memory_order_relaxed);
    rcm_status status = spun ? RCM_AGAIN : comm_spin(comm, waiting);
    while (status == RCM_AGAIN && !rcmi_deadline_passed(waiting->deadline)) {
        comm_sleep(comm, waiting);
        status = comm_spin(comm, waiting);
    }
    /* Another waiter, which may sleep because this one drove, or the loop thread continues
     * driving. */
    if (atomic_fetch_sub_explicit(&comm->waiters, 1, memory_order_relaxed) > 1)
        rcmi_node_ring(comm->engine->node);
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) > 0)
        rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
    return status;
}

rcm_status rcmi_comm_wait_for(rcm_comm *comm, rcm_status (*check)(void *arg), void *arg,
                              rcmi_deadline deadline) {
    const struct waiting waiting = {
        .check = check, .arg = arg, .drivers = true, .deadline = deadline};
    return comm_wait_for(comm, &waiting, false);
}

static void comm_enter_and_wait(rcm_comm *comm, const struct waiting *waiting) {
    if (waiting->check(waiting->arg) == RCM_AGAIN && rcmi_comm_enter(comm)) {
        comm_wait_for(comm, waiting, false);
        rcmi_comm_exit(comm);
    }
}

void rcmi_comm_wait_until(rcm_comm *comm, rcm_status (*check)(void *arg), void *arg,
                          rcmi_deadline deadline) {
    const struct waiting waiting = {.check = check, .arg = arg, .deadline = deadline};
    comm_enter_and_wait(comm, &waiting);
}

rcm_status rcmi_comm_wait(rcm_comm *comm, struct rcm_work *work, rcmi_deadline deadline) {
    const struct waiting waiting = {
        .check = work_check, .arg = work, .work = work, .deadline = deadline};
    comm_enter_and_wait(comm, &waiting);
    /* Still pending: the deadline has passed. */
    return atomic_load_explicit(&work->status, memory_order_acquire);
}

void rcmi_comm_submit(rcm_comm *comm, struct rcm_work *work) {
    atomic_fetch_add_explicit(&comm->issued, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->unfinished, 1, memory_order_relaxed);
    work->next = NULL;
    pthread_mutex_lock(&comm->submit_lock);
    *comm->submitted_end = work;
    comm->submitted_end = &work->next;
    atomic_fetch_add_explicit(&comm->nsubmitted, 1, memory_order_relaxed);
    pthread_mutex_unlock(&comm->submit_lock);
}

/* The epilogue of a thread that drove: others may sleep because it did. */
static void comm_hand_over(rcm_comm *comm) {
    RCMI_ENTRY;
    rcmi_comm_wake_waiters(comm);
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) > 0)
        rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
}

/* The driver is the caller of this blocking work. */
static void comm_attend(rcm_comm *comm, struct rcm_work *work) {
    atomic_store_explicit(&comm->attended, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->unfinished, 1, memory_order_relaxed);
    work->attended = true;
}

/* Drives until its work, which has begun, is final, or until the deadline. Stops driving then, and
 * to sleep. */
static void comm_run_attended(rcm_comm *comm, struct rcm_work *work, rcmi_deadline until) {
    const struct waiting waiting = {
        .check = work_check, .arg = work, .work = work, .deadline = until};
    const rcm_status status = comm_spin_driving(comm, &waiting, work->spin_began);
    if (status == RCM_AGAIN)
        work->attended = false;
    rcmi_comm_stop_driving(comm);
    /* Before the loop thread is woken for other unfinished works. */
    atomic_store_explicit(&comm->attended, false, memory_order_relaxed);
    if (status == RCM_AGAIN)
        comm_wait_for(comm, &waiting, true);
    else
        comm_hand_over(comm);
}

void rcmi_comm_run(rcm_comm *comm, struct rcm_work *work, rcmi_deadline until) {
    const struct waiting waiting = {
        .check = work_check, .arg = work, .work = work, .deadline = until};
    if (!rcmi_comm_try_drive(comm)) {
        rcmi_comm_submit(comm, work);
        comm_wait_for(comm, &waiting, false);
        return;
    }
    comm_attend(comm, work);
    comm_absorb(comm); /* works of earlier calls start first */
    comm_accept(comm, work);
    comm_start_queued(comm);
    comm_run_attended(comm, work, until);
}

void rcmi_comm_go_on(rcm_comm *comm, struct rcm_work *work, struct rcmi_run *run,
                     rcmi_deadline until) {
    comm_attend(comm, work);
    work->run = run;
    rcmi_queue_add(&comm->queue, work);
    rcmi_queue_start(&comm->queue);
    comm_run_attended(comm, work, until);
}

/* Drives the newest work as long as there is progress, unless many works are unfinished. With
 * shared cores there is none before other ranks run, so the caller yields a few times. */
static void kick_drive_on(rcm_comm *comm) {
    const bool spins = rcmi_comm_budget(comm).spin_ns > 0;
    struct rcmi_pause yields = {.yields = RCMI_CALLER_YIELDS};
    const int64_t now = rcmi_now_ns(), end = now + KICK_NS;
    int64_t idle_until = now + KICK_IDLE_NS, at = now;
    int left = atomic_load_explicit(&comm->unfinished, memory_order_relaxed);
    if (left > KICK_WORKS)
        return;
    while (left > 0 && (spins ? at < end && at < idle_until : rcmi_pause(&yields))) {
        const bool moved = rcmi_comm_drive(comm);
        at = rcmi_now_ns();
        idle_until = moved ? at + KICK_IDLE_NS : idle_until;
        left = atomic_load_explicit(&comm->unfinished, memory_order_relaxed);
    }
}

static void comm_kick(rcm_comm *comm, bool small) {
    RCMI_ENTRY;
    if (!rcmi_comm_enter(comm))
        return;
    if (rcmi_comm_try_drive(comm)) {
        if (!comm->closing)
            rcmi_comm_drive(comm);
        if (!comm->closing && small)
            kick_drive_on(comm);
        rcmi_comm_stop_driving(comm);
    }
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) > 0) {
        /* A waiter, or the loop thread, may be between its last look and its sleep. */
        rcmi_node_ring(comm->engine->node);
        rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
    }
    rcmi_comm_exit(comm);
}

void rcmi_comm_kick(rcm_comm *comm) {
    comm_kick(comm, false);
}

void rcmi_comm_kick_small(rcm_comm *comm, size_t bytes) {
    comm_kick(comm, bytes <= KICK_BYTES);
}
