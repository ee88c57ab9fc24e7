/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: who drives what is unfinished, and how one waits.
 *
 * A communicator is driven by whoever holds its try-lock `driving`. A thread in a blocking call or
 * a wait drives itself: it spins within its budget, then sleeps on the node's sockets, or on
 * its bell, which peers, the loop thread and completions ring. Only when nobody waits on a
 * communicator does the node's loop thread drive it, from its tick: it spins within a budget too,
 * then arms the bell and sleeps in epoll.
 *
 * Not here: what driving does for one collective (algorithms/exec.c) or message (p2p.c), and what
 * happens to works that are late (deadline.c).
 */
#include "comm.h"
#include "log.h"
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STORY_NS        INT64_C(1500000000)
#define PASSES_PER_LOOK 256 /* passes of a driving thread between two looks at the clock */
#define LOOK_EVERY_NS   (INT64_C(500000000)) /* a sleeper looks at deadlines that often */

/* ---- Driving ------------------------------------------------------------------------------- */

static void comm_show_oldest(rcm_comm *comm) {
    const struct rcm_work *oldest = comm->active;
    rcmi_page_oldest(comm->page, oldest ? oldest->sequence : 0, oldest ? &oldest->bind : NULL);
}

static void comm_finish(rcm_comm *comm, struct rcm_work *work, rcm_status status) {
    if (work->run)
        rcmi_run_end(work->run);
    work->run = NULL;
    comm_show_oldest(comm);
    rcmi_work_complete(work, status);
}

/* Ends everything with the communicator's error. */
static void comm_cancel_all(rcm_comm *comm, rcm_status status) {
    /* First nothing touches the buffers any more, then the works are complete. */
    for (struct rcm_work *work = comm->active; work; work = work->next) {
        if (work->run)
            rcmi_run_end(work->run);
        work->run = NULL;
    }
    rcmi_exec_close_channels(comm->exec);
    while (comm->active) {
        struct rcm_work *work = comm->active;
        comm->active = work->next;
        comm_finish(comm, work, status);
    }
    comm->active_end = &comm->active;
    rcmi_p2p_cancel(comm->p2p, status);
}

static void comm_activate(rcm_comm *comm, struct rcm_work *work) {
    work->next = NULL;
    *comm->active_end = work;
    comm->active_end = &work->next;
}

static void comm_start(rcm_comm *comm, struct rcm_work *work) {
    const rcm_status failed = atomic_load_explicit(&comm->failed, memory_order_acquire);
    if (failed != RCM_OK) {
        rcmi_work_complete(work, failed);
        return;
    }
    if (work->kind != RCMI_WORK_COLLECTIVE) {
        rcmi_p2p_post(comm->p2p, work);
        return;
    }
    rcm_status status = rcmi_run_start(comm->exec, &work->bind, &work->run);
    if (status == RCM_ERR_UNSUPPORTED) { /* the same on every rank: nothing was sent */
        rcmi_work_complete(work, status);
        return;
    }
    if (status != RCM_OK)
        rcmi_comm_fail(comm, work);
    const bool first = comm->active == NULL;
    rcmi_page_called(comm->page, work->sequence, work->bind.plan);
    comm_activate(comm, work);
    if (first)
        comm_show_oldest(comm);
}

/* Takes over what was issued, in order. */
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
        comm_start(comm, work);
        work = next;
    }
    return any;
}

/* So long the whole story is waited for: not as long as others may wait for us. */
static int64_t work_story_ns(const struct rcm_work *work) {
    const int64_t quarter_ms = work->timeout_ms / 4;
    return quarter_ms > 0 && quarter_ms < STORY_NS / 1000000 ? quarter_ms * 1000000 : STORY_NS;
}

/* A message of another call came. The rank that sent it is told what we called, and will answer
 * with an error that names both calls; if it does not, ours names one. */
static bool work_wait_for_story(rcm_comm *comm, struct rcm_work *work, rcm_status status) {
    if (status != RCM_ERR_MISMATCH)
        return false;
    rcmi_comm_own_origin(comm);
    if (work->mismatch_until == 0) {
        work->mismatch_until = rcmi_now_ns() + work_story_ns(work);
        rcmi_records_tell_history(comm->records, rcmi_last_error()->origin);
    }
    return !rcmi_deadline_passed(work->mismatch_until);
}

static rcm_status comm_progress_collectives(rcm_comm *comm, bool *moved) {
    struct rcm_work **at = &comm->active;
    while (*at) {
        struct rcm_work *work = *at;
        bool stepped = false;
        rcm_status status = work->run ? rcmi_run_progress(work->run, &stepped) : RCM_AGAIN;
        if (stepped)
            *moved = true;
        if (status == RCM_OK) {
            *at = work->next;
            if (!*at)
                comm->active_end = at;
            comm_finish(comm, work, RCM_OK);
            *moved = true;
        } else if (status == RCM_AGAIN || work_wait_for_story(comm, work, status)) {
            at = &work->next;
        } else {
            rcmi_comm_fail(comm, work);
            return status;
        }
    }
    return RCM_OK;
}

/* One pass over everything unfinished. The caller is the driver. True if anything moved. */
static bool comm_drive(rcm_comm *comm) {
    bool moved = comm_absorb(comm);
    /* Acquire pairs with the release in comm.c: the record is complete. */
    rcm_status failed = atomic_load_explicit(&comm->failed, memory_order_acquire);
    if (failed == RCM_OK && comm_progress_collectives(comm, &moved) == RCM_OK &&
        rcmi_p2p_progress(comm->p2p, &moved) != RCM_OK)
        rcmi_comm_fail(comm, NULL);
    failed = atomic_load_explicit(&comm->failed, memory_order_acquire);
    if (failed != RCM_OK) {
        comm_cancel_all(comm, failed);
        return true;
    }
    return moved;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static rcm_status work_check(void *arg) {
    struct rcm_work *work = arg;
    /* Acquire pairs with the release in rcmi_work_complete: results and message are complete. */
    return atomic_load_explicit(&work->status, memory_order_acquire) == RCM_PENDING ? RCM_AGAIN
                                                                                    : RCM_OK;
}

/* What a thread waits for. */
struct waiting {
    rcm_status (*check)(void *arg); /* RCM_AGAIN: not yet */
    void *arg;
    bool drivers; /* check touches what is the driver's */
    rcmi_deadline deadline;
};

/* Check as one who does not drive. */
static rcm_status waiting_look(const struct waiting *waiting) {
    return waiting->drivers ? RCM_AGAIN : waiting->check(waiting->arg);
}

/* Drives until check is satisfied, the budget is spent, or the deadline passed. The clock is looked
 * at now and then, for deadlines pass also while something moves all the time. */
static rcm_status comm_spin_driving(rcm_comm *comm, const struct waiting *waiting) {
    const struct rcmi_pause full = comm->engine->budget;
    struct rcmi_pause pause = full;
    bool started = false;
    for (uint32_t pass = 1;; pass++) {
        const bool moved = comm_drive(comm);
        const rcm_status status = waiting->check(waiting->arg);
        if (status != RCM_AGAIN)
            return status;
        if (moved || rcmi_node_progress(comm->engine->node)) {
            pause = full;
        } else {
            if (!started && pause.spins == 0) { /* others get the processor now, for how long? */
                rcmi_comm_start_clocks(comm);
                rcmi_place_return(&comm->place);
            }
            started = started || pause.spins == 0;
            if (!rcmi_pause(&pause))
                return RCM_AGAIN;
        }
        if (pass % PASSES_PER_LOOK == 0) {
            rcmi_comm_check_deadlines(comm);
            if (rcmi_deadline_passed(waiting->deadline))
                return RCM_AGAIN;
        }
    }
}

/* Spins, driving if nobody else does. RCM_AGAIN: sleep, or the deadline passed. */
static rcm_status comm_spin(rcm_comm *comm, const struct waiting *waiting) {
    struct rcmi_pause pause = comm->engine->budget;
    while (!rcmi_comm_try_drive(comm)) { /* somebody else drives: watch */
        const rcm_status status = waiting_look(waiting);
        if (status != RCM_AGAIN || !rcmi_pause(&pause))
            return status;
    }
    const rcm_status status = comm->closing ? RCM_OK : comm_spin_driving(comm, waiting);
    rcmi_comm_stop_driving(comm);
    return status;
}

/* Sleeps until something happened, a deadline is near, or half a second passed. */
static void comm_sleep(rcm_comm *comm, const struct waiting *waiting) {
    rcmi_deadline deadline = waiting->deadline;
    rcm_status status;
    struct rcmi_sleep sleep;
    rcmi_node_sleep_begin(comm->engine->node, &sleep);
    bool moved = false;
    if (rcmi_comm_try_drive(comm)) { /* the look between arming and sleeping */
        if (!comm->closing) {
            moved = rcmi_node_progress(comm->engine->node);
            moved = comm_drive(comm) || moved;
            const rcmi_deadline work_deadline = rcmi_comm_check_deadlines(comm);
            if (work_deadline < deadline)
                deadline = work_deadline;
        }
        status = comm->closing ? RCM_OK : waiting->check(waiting->arg);
        rcmi_comm_stop_driving(comm);
    } else { /* who drives now rings the bell when it stops, see rcmi_comm_wait_for and _kick */
        status = waiting_look(waiting);
    }
    if (!moved && status == RCM_AGAIN) {
        const rcmi_deadline look = rcmi_now_ns() + LOOK_EVERY_NS;
        rcmi_node_sleep_until(comm->engine->node, &sleep, deadline < look ? deadline : look);
    }
    rcmi_node_sleep_end(comm->engine->node, &sleep);
}

bool rcmi_comm_enter(rcm_comm *comm) {
    /* Sequentially consistent, as is comm_retire's pair of a store to closed and a load of inside:
     * one of the two sees the other. */
    atomic_fetch_add(&comm->inside, 1);
    if (!atomic_load(&comm->closed))
        return true;
    atomic_fetch_sub(&comm->inside, 1);
    return false;
}

void rcmi_comm_leave(rcm_comm *comm) {
    atomic_fetch_sub(&comm->inside, 1);
}

static rcm_status comm_wait_for(rcm_comm *comm, const struct waiting *waiting) {
    rcm_status status;
    /* Seen by the loop thread's tick, which then leaves driving to us. */
    atomic_fetch_add_explicit(&comm->waiters, 1, memory_order_relaxed);
    while ((status = comm_spin(comm, waiting)) == RCM_AGAIN) {
        if (rcmi_deadline_passed(waiting->deadline))
            break;
        comm_sleep(comm, waiting);
    }
    /* Who goes on driving: another waiter, who may sleep because we drove, or the loop thread. */
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
    return comm_wait_for(comm, &waiting);
}

rcm_status rcmi_comm_wait(rcm_comm *comm, struct rcm_work *work, rcmi_deadline deadline) {
    const struct waiting waiting = {.check = work_check, .arg = work, .deadline = deadline};
    if (work_check(work) == RCM_AGAIN && rcmi_comm_enter(comm)) {
        comm_wait_for(comm, &waiting);
        rcmi_comm_leave(comm);
    }
    /* Still pending: the deadline passed. */
    return atomic_load_explicit(&work->status, memory_order_acquire);
}

void rcmi_comm_submit(rcm_comm *comm, struct rcm_work *work) {
    atomic_fetch_add_explicit(&comm->unfinished, 1, memory_order_relaxed);
    work->next = NULL;
    pthread_mutex_lock(&comm->submit_lock);
    *comm->submitted_end = work;
    comm->submitted_end = &work->next;
    atomic_fetch_add_explicit(&comm->nsubmitted, 1, memory_order_relaxed);
    pthread_mutex_unlock(&comm->submit_lock);
}

void rcmi_comm_hand_over(rcm_comm *comm) {
    /* Partner: the increment of waiters in comm_wait_for. Who waits but could not drive, since we
     * did, is seen here. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&comm->waiters, memory_order_relaxed) > 0)
        rcmi_node_ring(comm->engine->node);
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) > 0)
        rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
}

/* The driver is the caller of this blocking work. */
static void comm_attend(rcm_comm *comm, struct rcm_work *work) {
    atomic_store_explicit(&comm->attended, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->unfinished, 1, memory_order_relaxed);
    work->attended = true;
}

/* Drives until its work, which has begun, is final; then, or to sleep, lets go. */
static void comm_run_attended(rcm_comm *comm, struct rcm_work *work) {
    const struct waiting waiting = {.check = work_check, .arg = work, .deadline = RCMI_NEVER};
    const rcm_status status = comm_spin_driving(comm, &waiting);
    if (status == RCM_AGAIN)
        work->attended = false;
    rcmi_comm_stop_driving(comm);
    /* Before the loop thread is woken for what else is unfinished. */
    atomic_store_explicit(&comm->attended, false, memory_order_relaxed);
    if (status == RCM_AGAIN)
        comm_wait_for(comm, &waiting);
    else
        rcmi_comm_hand_over(comm);
}

void rcmi_comm_run(rcm_comm *comm, struct rcm_work *work) {
    const struct waiting waiting = {.check = work_check, .arg = work, .deadline = RCMI_NEVER};
    if (!rcmi_comm_try_drive(comm)) {
        rcmi_comm_submit(comm, work);
        comm_wait_for(comm, &waiting);
        return;
    }
    comm_attend(comm, work);
    comm_absorb(comm); /* earlier calls' works start first */
    comm_start(comm, work);
    comm_run_attended(comm, work);
}

void rcmi_comm_go_on(rcm_comm *comm, struct rcm_work *work, struct rcmi_run *run) {
    comm_attend(comm, work);
    work->run = run;
    comm_activate(comm, work);
    comm_run_attended(comm, work);
}

void rcmi_comm_kick(rcm_comm *comm) {
    if (!rcmi_comm_enter(comm))
        return;
    if (rcmi_comm_try_drive(comm)) {
        if (!comm->closing)
            comm_drive(comm);
        rcmi_comm_stop_driving(comm);
    }
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) > 0) {
        /* A waiter may be between its last look and its sleep, or the loop thread. */
        rcmi_node_ring(comm->engine->node);
        rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
    }
    rcmi_comm_leave(comm);
}

/* ---- The loop thread ----------------------------------------------------------------------- */

/* Drives a communicator if that is the loop's business. Returns whether it has unfinished works. */
static bool engine_drive(rcm_comm *comm, bool *moved, rcmi_deadline *until) {
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) == 0 ||
        atomic_load_explicit(&comm->waiters, memory_order_relaxed) > 0 ||
        atomic_load_explicit(&comm->attended, memory_order_relaxed))
        return false;
    if (!rcmi_comm_try_drive(comm))
        return true;
    if (!comm->closing && comm_drive(comm))
        *moved = true;
    const rcmi_deadline deadline = comm->closing ? RCMI_NEVER : rcmi_comm_check_deadlines(comm);
    if (deadline < *until)
        *until = deadline;
    rcmi_comm_stop_driving(comm);
    return atomic_load_explicit(&comm->unfinished, memory_order_relaxed) > 0;
}

static void engine_arm(struct rcmi_engine *engine, bool armed) {
    if (engine->armed == armed)
        return;
    if (armed)
        rcmi_bell_arm(rcmi_node_bell(engine->node), RCMI_BELL_ENGINE);
    else
        rcmi_bell_disarm(rcmi_node_bell(engine->node), RCMI_BELL_ENGINE);
    engine->armed = armed;
}

static rcmi_deadline engine_tick(void *arg) {
    struct rcmi_engine *engine = arg;
    bool busy = false, moved = false;
    rcmi_deadline until = RCMI_NEVER;
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next)
        busy |= engine_drive(comm, &moved, &until);
    pthread_mutex_unlock(&engine->lock);

    if (busy && (moved || rcmi_node_progress(engine->node))) {
        engine->pause = engine->budget;
        engine_arm(engine, false);
        return 0;
    }
    if (!busy) {
        engine_arm(engine, false);
        return RCMI_NEVER;
    }
    if (!engine->armed) {
        if (!rcmi_pause(&engine->pause)) {
            engine_arm(engine, true); /* then one more look, then sleep */
            rcmi_node_arm(engine->node);
        }
        return 0;
    }
    rcmi_node_arm(engine->node); /* it may have fired since */
    const rcmi_deadline look = rcmi_now_ns() + LOOK_EVERY_NS;
    return until < look ? until : look;
}

/* ---- Callbacks of the node ----------------------------------------------------------------- */

static void engine_peer_lost(void *arg, int peer, const struct rcmi_error *why) {
    struct rcmi_engine *engine = arg;
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next) {
        for (int r = 0; r < comm->size; r++) {
            if (comm->world_rank[r] != peer ||
                atomic_load_explicit(&comm->parting, memory_order_relaxed))
                continue;
            const rcm_status status = why->status == RCM_ERR_AUTH ? RCM_ERR_AUTH : RCM_ERR_PEER;
            if (why->status == RCM_ERR_NOMEM || why->status == RCM_ERR_RESOURCE)
                rcmi_fail_origin(why->status, comm->rank, "rank %d had to give up %.400s",
                                 comm->rank, why->text);
            else
                rcmi_fail_peer(status, peer, "lost %.400s", why->text);
            rcmi_comm_fail(comm, NULL);
        }
    }
    pthread_mutex_unlock(&engine->lock);
    rcmi_agree_wake(engine->agreements);
}

/* peer has left: do we still share a communicator that is in use? */
static bool engine_parted(void *arg, int peer) {
    struct rcmi_engine *engine = arg;
    bool shared = false;
    pthread_mutex_lock(&engine->lock);
    for (const rcm_comm *comm = engine->comms; comm && !shared; comm = comm->next) {
        if (atomic_load_explicit(&comm->parting, memory_order_relaxed) ||
            atomic_load_explicit(&comm->failed, memory_order_relaxed) != RCM_OK)
            continue;
        for (int r = 0; r < comm->size; r++)
            shared = shared || comm->world_rank[r] == peer;
    }
    pthread_mutex_unlock(&engine->lock);
    return !shared;
}

/* peer asks, or answers, who waits for whom. */
static void engine_inquiry(struct rcmi_engine *engine, int peer,
                           const struct rcmi_inquiry *inquiry) {
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next) {
        for (int r = 0; r < comm->size && comm->epoch == inquiry->epoch; r++) {
            if (comm->world_rank[r] != peer)
                continue;
            if (inquiry->state == RCMI_INQUIRY_QUESTION)
                rcmi_comm_answer(comm, r, inquiry);
            else
                rcmi_blame_answer(comm->blame, r, inquiry);
        }
    }
    pthread_mutex_unlock(&engine->lock);
}

static void engine_record(struct rcmi_engine *engine, int peer, const struct rcmi_record *record) {
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next)
        for (int r = 0; r < comm->size && comm->epoch == record->epoch; r++)
            if (comm->world_rank[r] == peer)
                rcmi_records_hear(comm->records, r, record);
    pthread_mutex_unlock(&engine->lock);
}

/* Keeps what is for a communicator that this rank has not made yet, as others have. */
static bool engine_keep(struct rcmi_engine *engine, uint32_t epoch, int peer, const void *bytes,
                        size_t len) {
    bool known = false;
    pthread_mutex_lock(&engine->lock);
    for (const rcm_comm *comm = engine->comms; comm; comm = comm->next)
        known = known || comm->epoch == epoch;
    if (!known)
        rcmi_early_keep(engine->early, epoch, peer, bytes, len);
    pthread_mutex_unlock(&engine->lock);
    return !known;
}

static bool engine_hear_agree(struct rcmi_engine *engine, int peer, const void *bytes, size_t len) {
    struct rcmi_agree said;
    if (!rcmi_agree_decode(bytes, len, &said))
        return false;
    rcmi_agree_hear(engine->agreements, peer, &said);
    return true;
}

/* Whoever it is to blame, and if that is nonsense: peer's communicator has failed. */
static void engine_fail_remote(struct rcmi_engine *engine, uint32_t epoch,
                               struct rcm_error *error) {
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next) {
        if (comm->epoch != epoch)
            continue;
        if (error->origin < -1 || error->origin >= comm->size)
            error->origin = -1;
        rcmi_comm_fail_remote(comm, error);
    }
    pthread_mutex_unlock(&engine->lock);
}

static void engine_message(void *arg, int peer, const void *bytes, size_t len) {
    struct rcmi_engine *engine = arg;
    struct rcmi_failure failure;
    struct rcmi_inquiry inquiry;
    struct rcmi_record record;
    struct rcm_error error;
    if (engine_hear_agree(engine, peer, bytes, len))
        return;
    if (rcmi_record_decode(bytes, len, &record)) {
        if (!engine_keep(engine, record.epoch, peer, bytes, len))
            engine_record(engine, peer, &record);
        return;
    }
    if (rcmi_inquiry_decode(bytes, len, &inquiry)) {
        if (!engine_keep(engine, inquiry.epoch, peer, bytes, len))
            engine_inquiry(engine, peer, &inquiry);
        return;
    }
    if (!rcmi_failure_decode(bytes, len, &failure, &error)) {
        char more[RCMI_LOG_MORE];
        if (rcmi_log_seldom(&engine->seldom, more))
            rcmi_log(RCMI_LOG_WARN,
                     "rank %d sent a control message of %zu bytes that means nothing%s", peer, len,
                     more);
        return;
    }
    if (engine_keep(engine, failure.epoch, peer, bytes, len))
        return;
    engine_fail_remote(engine, failure.epoch, &error);
}

static void engine_wanted(void *arg, int peer, uint32_t epoch, uint32_t id) {
    struct rcmi_engine *engine = arg;
    if (id != RCMI_P2P_CHANNEL)
        return; /* a collective's: opened when this rank calls it */
    if (engine_keep(engine, epoch, peer, NULL, 0))
        return;
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next)
        for (int r = 0; r < comm->size && comm->epoch == epoch; r++)
            if (comm->world_rank[r] == peer)
                rcmi_p2p_wanted(comm->p2p, r);
    pthread_mutex_unlock(&engine->lock);
    rcmi_node_ring(engine->node);
}

/* ---- Life ---------------------------------------------------------------------------------- */

/* Also of a half-made one. */
static void engine_free(struct rcmi_engine *engine) {
    rcmi_node_destroy(engine->node);
    rcm_store_close(engine->store);
    rcmi_agreements_free(engine->agreements);
    rcmi_early_free(engine->early);
    rcmi_book_free(engine->book);
    pthread_mutex_destroy(&engine->lock);
    free(engine->parted);
    free(engine->cpus);
    free(engine);
}

static rcm_status engine_make_parts(struct rcmi_engine *engine, struct rcmi_node_config *config) {
    engine->rank = config->rank;
    engine->nranks = config->nranks;
    engine->parted = calloc((size_t)config->nranks, sizeof(*engine->parted));
    engine->early = rcmi_early_create();
    if (!engine->parted || !engine->early)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the engine");
    rcm_status status = rcmi_agreements_create(engine, &engine->agreements);
    return status == RCM_OK ? rcmi_node_create(config, &engine->node) : status;
}

rcm_status rcmi_engine_create(struct rcmi_node_config *config, struct rcmi_engine **ret_engine) {
    struct rcmi_engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the engine");
    /* Recursive: the tick drives, driving opens channels, opening may call back. */
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&engine->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    engine->crowd = 1;
    engine->budget = rcmi_pause_budget(1);
    atomic_init(&engine->refs, 1);
    config->peer_lost = engine_peer_lost;
    config->message = engine_message;
    config->wanted = engine_wanted;
    config->parted = engine_parted;
    config->tick = engine_tick;
    config->arg = engine;
    rcm_status status = engine_make_parts(engine, config);
    if (status != RCM_OK) {
        engine_free(engine);
        return status;
    }
    *ret_engine = engine;
    return RCM_OK;
}

void rcmi_engine_hold(struct rcmi_engine *engine) {
    atomic_fetch_add_explicit(&engine->refs, 1, memory_order_relaxed);
}

void rcmi_engine_release(struct rcmi_engine *engine) {
    /* Acquire-release: the last one sees everything the others did. */
    if (engine && atomic_fetch_sub_explicit(&engine->refs, 1, memory_order_acq_rel) == 1)
        engine_free(engine);
}

static void engine_hear_again(void *arg, int peer, const void *bytes, size_t len) {
    const rcm_comm *comm = arg;
    if (bytes)
        engine_message(comm->engine, peer, bytes, len);
    else
        engine_wanted(comm->engine, peer, comm->epoch, RCMI_P2P_CHANNEL);
}

void rcmi_engine_add(struct rcmi_engine *engine, rcm_comm *comm) {
    pthread_mutex_lock(&engine->lock);
    comm->next = engine->comms;
    engine->comms = comm;
    comm->open = true;
    engine->open++;
    rcmi_early_take(engine->early, comm->epoch, engine_hear_again, comm);
    pthread_mutex_unlock(&engine->lock);
}

bool rcmi_engine_part(struct rcmi_engine *engine, rcm_comm *comm, bool orderly) {
    pthread_mutex_lock(&engine->lock);
    for (int r = 0; orderly && r < comm->size; r++)
        engine->parted[comm->world_rank[r]] = true;
    if (comm->open)
        engine->open--;
    comm->open = false;
    const bool last = engine->open == 0;
    pthread_mutex_unlock(&engine->lock);
    return last;
}

void rcmi_engine_revoke(struct rcmi_engine *engine, uint32_t epoch, int origin) {
    const struct rcmi_error *cause = rcmi_last_error();
    struct rcm_error error = RCM_ERROR_INIT;
    struct rcmi_failure failure;
    error.status = cause->status;
    error.origin = origin;
    error.sys_errno = cause->sys_errno;
    snprintf(error.text, sizeof(error.text), "%s", cause->text);
    rcmi_failure_encode(epoch, &error, &failure);
    rcmi_node_send_linked(engine->node, &failure, sizeof(failure));
}

void rcmi_engine_remove(struct rcmi_engine *engine, rcm_comm *comm) {
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm **at = &engine->comms; *at; at = &(*at)->next) {
        if (*at == comm) {
            *at = comm->next;
            break;
        }
    }
    pthread_mutex_unlock(&engine->lock);
}
