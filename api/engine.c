/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: who drives what is unfinished, and how one waits.
 *
 * A communicator is driven by whoever holds its try-lock `driving`. A thread in a blocking call or
 * a wait drives itself: it spins within its budget, then sleeps on the node's bell, which peers,
 * the loop thread and completions ring. Only when nobody waits on a communicator does the node's
 * loop thread drive it, from its tick: it spins within a budget too, then arms the bell and sleeps
 * in epoll.
 *
 * Not here: what driving does for one collective (algorithms/exec.c) or message (p2p.c).
 */
#include "comm.h"
#include "log.h"
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARN_AFTER_NS (30 * INT64_C(1000000000))
#define LOOK_EVERY_NS (INT64_C(500000000)) /* a sleeper looks at deadlines that often */

static bool comm_try_drive(rcm_comm *comm) {
    /* Acquire pairs with the release in comm_stop_driving: the driver before us is done. */
    return !atomic_flag_test_and_set_explicit(&comm->driving, memory_order_acquire);
}

static void comm_stop_driving(rcm_comm *comm) {
    atomic_flag_clear_explicit(&comm->driving, memory_order_release);
}

/* ---- Driving ------------------------------------------------------------------------------- */

static void comm_finish(rcm_comm *comm, struct rcm_work *work, rcm_status status) {
    if (work->run)
        rcmi_run_end(work->run);
    work->run = NULL;
    if (comm->active == NULL)
        rcmi_page_end(comm->page);
    rcmi_work_complete(work, status);
}

/* Ends everything with the communicator's error. */
static void comm_cancel_all(rcm_comm *comm, rcm_status status) {
    while (comm->active) {
        struct rcm_work *work = comm->active;
        comm->active = work->next;
        comm_finish(comm, work, status);
    }
    comm->active_end = &comm->active;
    rcmi_p2p_cancel(comm->p2p, status);
}

static void comm_start(rcm_comm *comm, struct rcm_work *work) {
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
    rcmi_page_begin(comm->page, work);
    work->next = NULL;
    *comm->active_end = work;
    comm->active_end = &work->next;
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

static rcm_status comm_progress_collectives(rcm_comm *comm, bool *moved) {
    struct rcm_work **at = &comm->active;
    while (*at) {
        struct rcm_work *work = *at;
        bool stepped = false;
        rcm_status status = work->run ? rcmi_run_progress(work->run, &stepped) : RCM_AGAIN;
        if (stepped)
            *moved = true;
        if (stepped && work->warned)
            work->moved_ns = rcmi_now_ns();
        if (status == RCM_OK) {
            *at = work->next;
            if (!*at)
                comm->active_end = at;
            comm_finish(comm, work, RCM_OK);
            *moved = true;
        } else if (status == RCM_AGAIN) {
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

/* ---- Deadlines ----------------------------------------------------------------------------- */

/* Who an unfinished work waits for: a rank, or -1. */
static int work_waits_for(const struct rcm_work *work, struct rcmi_run_wait *wait) {
    *wait = (struct rcmi_run_wait){.peer = -1};
    if (work->kind != RCMI_WORK_COLLECTIVE)
        wait->peer = work->transfer.peer;
    else if (work->run)
        rcmi_run_waits_for(work->run, wait);
    return wait->peer;
}

static void work_describe_wait(const rcm_comm *comm, const struct rcm_work *work, char *text,
                               size_t cap) {
    char who[128], what[128];
    struct rcmi_run_wait wait;
    const int peer = work_waits_for(work, &wait);
    const size_t bytes = work->kind == RCMI_WORK_COLLECTIVE
                             ? work->bind.count * rcm_dtype_size(work->bind.dtype)
                             : work->transfer.capacity;
    if (peer < 0) {
        snprintf(text, cap, "%s (operation %llu, %zu bytes) waits for the other ranks",
                 rcmi_work_name(work), (unsigned long long)work->sequence, bytes);
        return;
    }
    rcmi_page_describe(comm, peer, what, sizeof(what));
    snprintf(text, cap, "%s (operation %llu, %zu bytes) waits for %s%s%s", rcmi_work_name(work),
             (unsigned long long)work->sequence, bytes,
             rcmi_book_describe(comm->engine->book, comm->world_rank[peer], who),
             what[0] ? ", which is in " : "", what);
}

struct deadline_check {
    rcm_comm *comm;
    int64_t now;
    rcmi_deadline earliest;
};

/* False once the communicator failed. */
static bool work_check_deadline(void *arg, struct rcm_work *work) {
    struct deadline_check *check = arg;
    char text[400];
    if (work->deadline < check->earliest)
        check->earliest = work->deadline;
    if (work->deadline <= check->now) {
        struct rcmi_run_wait wait;
        work_describe_wait(check->comm, work, text, sizeof(text));
        rcmi_fail_origin(RCM_ERR_TIMEOUT, work_waits_for(work, &wait),
                         "%s and did not finish within its deadline of %.1f s", text,
                         (double)work->timeout_ms / 1000);
        rcmi_comm_fail(check->comm, work);
        return false;
    }
    if (!work->warned && check->now - work->moved_ns > WARN_AFTER_NS) {
        work_describe_wait(check->comm, work, text, sizeof(text));
        rcmi_log(RCMI_LOG_WARN, "no progress for 30 s: %s", text);
        work->warned = true;
    }
    return true;
}

/* The caller is the driver. Returns the earliest deadline of all works. */
static rcmi_deadline comm_check_deadlines(rcm_comm *comm) {
    struct deadline_check check = {.comm = comm, .now = rcmi_now_ns(), .earliest = RCMI_NEVER};
    for (struct rcm_work *work = comm->active; work; work = work->next) {
        struct rcmi_run_wait wait;
        if (work == comm->active)
            rcmi_page_waits(comm->page, work_waits_for(work, &wait), wait.step);
        if (!work_check_deadline(&check, work))
            return check.now;
    }
    rcmi_p2p_each(comm->p2p, work_check_deadline, &check);
    return check.earliest;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static rcm_status work_check(void *arg) {
    struct rcm_work *work = arg;
    /* Acquire pairs with the release in rcmi_work_complete: results and message are complete. */
    return atomic_load_explicit(&work->status, memory_order_acquire) == RCM_PENDING ? RCM_AGAIN
                                                                                    : RCM_OK;
}

/* Spins as the driver until check is satisfied or the budget is spent. RCM_AGAIN: sleep. */
static rcm_status comm_spin(rcm_comm *comm, rcm_status (*check)(void *), void *arg) {
    struct rcmi_pause pause = rcmi_pause_budget(comm->engine->local_ranks);
    const struct rcmi_pause full = pause;
    for (;;) {
        if (!comm_try_drive(comm)) { /* somebody else drives: watch */
            rcm_status status = check(arg);
            if (status != RCM_AGAIN || !rcmi_pause(&pause))
                return status;
            continue;
        }
        rcm_status status;
        for (;;) {
            bool moved = comm_drive(comm);
            status = check(arg);
            if (status != RCM_AGAIN)
                break;
            if (moved || rcmi_node_progress(comm->engine->node))
                pause = full;
            else if (!rcmi_pause(&pause))
                break;
        }
        comm_stop_driving(comm);
        return status;
    }
}

/* Sleeps until something happened, a deadline is near, or half a second passed. */
static void comm_sleep(rcm_comm *comm, rcm_status (*check)(void *), void *arg,
                       rcmi_deadline deadline) {
    struct rcmi_bell *bell = rcmi_node_bell(comm->engine->node);
    const uint32_t seen = rcmi_bell_arm(bell, RCMI_BELL_FUTEX_ONE);
    rcmi_node_arm(comm->engine->node);
    bool moved = true;
    if (comm_try_drive(comm)) { /* the look between arming and sleeping */
        moved = rcmi_node_progress(comm->engine->node);
        moved = comm_drive(comm) || moved;
        const rcmi_deadline work_deadline = comm_check_deadlines(comm);
        if (work_deadline < deadline)
            deadline = work_deadline;
        comm_stop_driving(comm);
    } else {
        moved = false;
    }
    if (!moved && check(arg) == RCM_AGAIN) {
        const rcmi_deadline look = rcmi_now_ns() + LOOK_EVERY_NS;
        rcmi_bell_sleep(bell, seen, deadline < look ? deadline : look);
    }
    rcmi_bell_disarm(bell, RCMI_BELL_FUTEX_ONE);
}

rcm_status rcmi_comm_wait_for(rcm_comm *comm, rcm_status (*check)(void *arg), void *arg,
                              rcmi_deadline deadline) {
    rcm_status status;
    /* Seen by the loop thread's tick, which then leaves driving to us. */
    atomic_fetch_add_explicit(&comm->waiters, 1, memory_order_relaxed);
    while ((status = comm_spin(comm, check, arg)) == RCM_AGAIN) {
        if (rcmi_deadline_passed(deadline))
            break;
        comm_sleep(comm, check, arg, deadline);
    }
    atomic_fetch_sub_explicit(&comm->waiters, 1, memory_order_relaxed);
    /* Works of others go on in the background. */
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) > 0)
        rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
    return status;
}

rcm_status rcmi_comm_wait(rcm_comm *comm, struct rcm_work *work, rcmi_deadline deadline) {
    if (work_check(work) == RCM_AGAIN &&
        rcmi_comm_wait_for(comm, work_check, work, deadline) == RCM_AGAIN)
        return RCM_PENDING;
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

void rcmi_comm_kick(rcm_comm *comm) {
    if (comm_try_drive(comm)) {
        comm_drive(comm);
        comm_stop_driving(comm);
    }
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) > 0)
        rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
}

/* ---- The loop thread ----------------------------------------------------------------------- */

/* Drives a communicator if that is the loop's business. Returns whether it has unfinished works. */
static bool engine_drive(rcm_comm *comm, bool *moved, rcmi_deadline *until) {
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) == 0 ||
        atomic_load_explicit(&comm->waiters, memory_order_relaxed) > 0)
        return false;
    if (!comm_try_drive(comm))
        return true;
    if (!comm->closing && comm_drive(comm))
        *moved = true;
    const rcmi_deadline deadline = comm->closing ? RCMI_NEVER : comm_check_deadlines(comm);
    if (deadline < *until)
        *until = deadline;
    comm_stop_driving(comm);
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
        engine->pause = rcmi_pause_budget(engine->local_ranks);
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
            rcmi_fail_origin(why->status == RCM_ERR_AUTH ? RCM_ERR_AUTH : RCM_ERR_PEER, r,
                             "lost %.400s", why->text);
            rcmi_comm_fail(comm, NULL);
        }
    }
    pthread_mutex_unlock(&engine->lock);
}

static void engine_message(void *arg, int peer, const void *bytes, size_t len) {
    struct rcmi_engine *engine = arg;
    struct rcmi_failure failure;
    struct rcm_error error;
    if (!rcmi_failure_decode(bytes, len, &failure, &error)) {
        rcmi_log(RCMI_LOG_WARN, "rank %d sent a control message of %zu bytes that means nothing",
                 peer, len);
        return;
    }
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next)
        if (comm->epoch == failure.epoch)
            rcmi_comm_fail_remote(comm, &error);
    pthread_mutex_unlock(&engine->lock);
}

static void engine_wanted(void *arg, int peer, uint32_t epoch, uint32_t id) {
    struct rcmi_engine *engine = arg;
    if (id != RCMI_P2P_CHANNEL)
        return; /* a collective's: opened when this rank calls it */
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next)
        for (int r = 0; r < comm->size && comm->epoch == epoch; r++)
            if (comm->world_rank[r] == peer)
                rcmi_p2p_wanted(comm->p2p, r);
    pthread_mutex_unlock(&engine->lock);
    rcmi_node_ring(engine->node);
}

/* ---- Life ---------------------------------------------------------------------------------- */

rcm_status rcmi_engine_create(struct rcmi_node_config *config, int local_ranks,
                              struct rcmi_engine **ret_engine) {
    struct rcmi_engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the engine");
    /* Recursive: the tick drives, driving opens channels, opening may call back. */
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&engine->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    engine->local_ranks = local_ranks;
    config->peer_lost = engine_peer_lost;
    config->message = engine_message;
    config->wanted = engine_wanted;
    config->tick = engine_tick;
    config->arg = engine;
    rcm_status status = rcmi_node_create(config, &engine->node);
    if (status != RCM_OK) {
        pthread_mutex_destroy(&engine->lock);
        free(engine);
        return status;
    }
    *ret_engine = engine;
    return RCM_OK;
}

void rcmi_engine_destroy(struct rcmi_engine *engine) {
    if (!engine)
        return;
    rcmi_node_destroy(engine->node);
    rcmi_book_free(engine->book);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}

void rcmi_engine_add(struct rcmi_engine *engine, rcm_comm *comm) {
    pthread_mutex_lock(&engine->lock);
    comm->next = engine->comms;
    engine->comms = comm;
    pthread_mutex_unlock(&engine->lock);
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
