/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: the state of a process that all its communicators share. Its node's loop thread
 * drives the communicators on which no thread waits, from its tick. It spins within a budget, then
 * arms the doorbell and sleeps in epoll. Events of the node (lost peers, messages) are passed to
 * the communicators.
 *
 * Not here: driving itself, and waiting (drive.c); the meaning of messages (diagnosis/,
 * agreement/).
 */
#include "agreement.h"
#include "comm.h"
#include "deadline.h"
#include "diagnosis.h"
#include "drive.h"
#include "early_messages.h"
#include "fd.h"
#include "log.h"
#include "p2p.h"
#include "status_page.h"
#include "trace_file.h"
#include "transfer.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- The loop thread ------------------------------------------------------------------------- */

/* Has a communicator nothing to do? A peer's first message waits for its channel, also while this
 * rank is in an operation of another communicator. */
static bool comm_rests(const rcm_comm *comm) {
    return atomic_load_explicit(&comm->unfinished, memory_order_relaxed) == 0 &&
           (!rcmi_p2p_is_wanted(comm->p2p) ||
            atomic_load_explicit(&comm->failed, memory_order_relaxed) != RCM_OK);
}

/* Drives a communicator if that is the loop thread's task. Returns whether it has more to do. */
static bool engine_drive(rcm_comm *comm, bool *moved, rcmi_deadline *until) {
    if (comm_rests(comm) || atomic_load_explicit(&comm->waiters, memory_order_relaxed) > 0 ||
        atomic_load_explicit(&comm->attended, memory_order_relaxed))
        return false;
    if (!rcmi_comm_try_drive(comm)) {
        const rcmi_deadline again = rcmi_now_ns() + RCMI_LOOK_AGAIN_NS;
        *until = again < *until ? again : *until;
        return true;
    }
    if (!comm->closing && rcmi_comm_drive(comm))
        *moved = true;
    const rcmi_deadline deadline = comm->closing ? RCMI_NEVER : rcmi_comm_check_deadlines(comm);
    if (deadline < *until)
        *until = deadline;
    rcmi_comm_let_go(comm);
    return !comm_rests(comm);
}

static void engine_arm(struct rcmi_engine *engine, bool armed) {
    if (engine->armed == armed)
        return;
    if (armed)
        rcmi_doorbell_arm(rcmi_node_doorbell(engine->node), RCMI_DOORBELL_ENGINE);
    else
        rcmi_doorbell_disarm(rcmi_node_doorbell(engine->node), RCMI_DOORBELL_ENGINE);
    engine->armed = armed;
}

static rcmi_deadline engine_tick(void *arg) {
    struct rcmi_engine *engine = arg;
    bool busy = false, moved = false;
    rcmi_deadline until = RCMI_NEVER, proposals_until = RCMI_NEVER;
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next) {
        busy |= engine_drive(comm, &moved, &until);
        const rcmi_deadline next = rcmi_proposals_progress(comm->proposals);
        if (next < proposals_until)
            proposals_until = next;
    }
    pthread_mutex_unlock(&engine->lock);
    if (proposals_until < until)
        until = proposals_until;

    if (rcmi_notices_run(&engine->notices)) /* callbacks may have issued operations */
        moved = busy = true;
    if (busy && (moved || rcmi_node_progress(engine->node))) {
        engine->pause = engine->budget;
        engine_arm(engine, false);
        return 0;
    }
    if (!busy) {
        engine_arm(engine, false);
        return proposals_until;
    }
    if (!engine->armed) {
        if (!rcmi_pause(&engine->pause)) {
            engine_arm(engine, true); /* then one more look, then sleep */
            rcmi_node_arm(engine->node);
        }
        return 0;
    }
    rcmi_node_arm(engine->node); /* it may have fired since */
    const rcmi_deadline look = rcmi_now_ns() + RCMI_LOOK_EVERY_NS;
    return until < look ? until : look;
}

/* ---- Callbacks of the node ------------------------------------------------------------------- */

static void engine_linked(void *arg, int peer) {
    const struct rcmi_engine *engine = arg;
    rcmi_page_linked(rcmi_node_status_page(engine->node), rcmi_node_transport(engine->node, peer));
}

/* Whether the end of peer's link is the death of a member; in rcm_destroy only if there was a link.
 * If a rank has left comm, the later end of its process does not concern comm. */
static bool comm_loses(const rcm_comm *comm, int peer) {
    const int rank = rcmi_members_rank(&comm->members, peer);
    return rank >= 0 && atomic_load_explicit(&comm->left_ns[rank], memory_order_relaxed) == 0 &&
           (!atomic_load_explicit(&comm->parting, memory_order_relaxed) ||
            rcmi_node_was_linked(comm->engine->node, peer));
}

static void engine_peer_lost(void *arg, int peer, const struct rcmi_error *why) {
    struct rcmi_engine *engine = arg;
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next)
        if (comm_loses(comm, peer))
            rcmi_comm_lose(comm, peer, why);
    pthread_mutex_unlock(&engine->lock);
    rcmi_agree_wake(engine->agreements);
    rcmi_creation_lost(engine->creations, peer);
}

static void engine_broken(void *arg, const struct rcmi_error *why) {
    struct rcmi_engine *engine = arg;
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm; comm = comm->next) {
        *rcmi_last_error() = *why;
        rcmi_last_error()->origin = comm->rank;
        rcmi_comm_fail(comm, NULL);
    }
    pthread_mutex_unlock(&engine->lock);
}

/* peer has left: true unless this rank still shares a communicator in use with it. */
static bool engine_parted(void *arg, int peer) {
    struct rcmi_engine *engine = arg;
    bool shared = false;
    pthread_mutex_lock(&engine->lock);
    for (const rcm_comm *comm = engine->comms; comm && !shared; comm = comm->next)
        shared = !atomic_load_explicit(&comm->parting, memory_order_relaxed) &&
                 atomic_load_explicit(&comm->failed, memory_order_relaxed) == RCM_OK &&
                 rcmi_members_rank(&comm->members, peer) >= 0;
    pthread_mutex_unlock(&engine->lock);
    return !shared;
}

/* The communicator of that epoch if peer is one of its ranks (*ret_rank), else NULL. Under the
 * lock. */
static rcm_comm *engine_find(const struct rcmi_engine *engine, uint64_t epoch, int peer,
                             int *ret_rank) {
    rcm_comm *comm = engine->comms;
    while (comm && comm->epoch != epoch)
        comm = comm->next;
    *ret_rank = comm ? rcmi_members_rank(&comm->members, peer) : -1;
    return *ret_rank >= 0 ? comm : NULL;
}

/* A question of peer, or an answer, about which rank waits for which. */
static void engine_inquiry(struct rcmi_engine *engine, int peer,
                           const struct rcmi_inquiry *inquiry) {
    int rank;
    pthread_mutex_lock(&engine->lock);
    rcm_comm *comm = engine_find(engine, inquiry->epoch, peer, &rank);
    if (comm && inquiry->state == RCMI_INQUIRY_QUESTION)
        rcmi_comm_answer(comm, rank, inquiry);
    else if (comm)
        rcmi_diagnosis_answer(comm->diagnosis, rank, inquiry);
    pthread_mutex_unlock(&engine->lock);
}

static void engine_record(struct rcmi_engine *engine, int peer,
                          const struct rcmi_call_record *record) {
    int rank;
    pthread_mutex_lock(&engine->lock);
    const rcm_comm *comm = engine_find(engine, record->epoch, peer, &rank);
    if (comm)
        rcmi_call_log_receive(comm->call_log, rank, record);
    pthread_mutex_unlock(&engine->lock);
}

/* Notifies peer, which was not connected then, if this rank has left the communicator of a received
 * message. Under the lock. */
static bool engine_send_left(const struct rcmi_engine *engine, uint64_t epoch, int peer) {
    const struct rcmi_left left = {.magic = RCMI_LEFT_MAGIC, .epoch = epoch};
    if (!rcmi_early_was_left(engine->early, epoch))
        return false;
    (void)rcmi_node_send(engine->node, peer, &left, sizeof(left));
    return true;
}

static bool engine_answer_left(struct rcmi_engine *engine, uint64_t epoch, int peer) {
    pthread_mutex_lock(&engine->lock);
    const bool left = engine_send_left(engine, epoch, peer);
    pthread_mutex_unlock(&engine->lock);
    return left;
}

/* Stores a message for a communicator that other ranks have made and this one has not yet. */
static bool engine_keep(struct rcmi_engine *engine, enum rcmi_early_kind kind, uint64_t epoch,
                        int peer, const void *bytes, size_t len) {
    bool known = false;
    pthread_mutex_lock(&engine->lock);
    for (const rcm_comm *comm = engine->comms; comm; comm = comm->next)
        known = known || comm->epoch == epoch;
    if (!known && (kind == RCMI_EARLY_LEFT || !engine_send_left(engine, epoch, peer)))
        rcmi_early_keep(engine->early, kind, epoch, peer, bytes, len);
    pthread_mutex_unlock(&engine->lock);
    return !known;
}

static bool engine_receive_left(struct rcmi_engine *engine, int peer, const void *bytes,
                                size_t len) {
    struct rcmi_left left;
    int rank;
    if (!rcmi_left_decode(bytes, len, &left))
        return false;
    if (left.epoch == RCMI_LEFT_STORE) {
        atomic_store_explicit(&engine->gone_received[peer], true, memory_order_release);
        return true;
    }
    if (engine_keep(engine, RCMI_EARLY_LEFT, left.epoch, peer, bytes, len))
        return true;
    pthread_mutex_lock(&engine->lock);
    const rcm_comm *comm = engine_find(engine, left.epoch, peer, &rank);
    if (comm) /* release pairs with rcmi_comm_rank_left */
        atomic_store_explicit(&comm->left_ns[rank], rcmi_now_ns(), memory_order_release);
    pthread_mutex_unlock(&engine->lock);
    rcmi_node_ring(engine->node);
    return true;
}

static bool engine_receive_creation(struct rcmi_engine *engine, int peer, const void *bytes,
                                    size_t len) {
    struct rcmi_creation message;
    if (!rcmi_creation_decode(bytes, len, &message))
        return false;
    if (message.type == RCMI_CREATION_HELLO || message.type == RCMI_CREATION_ASK)
        (void)engine_answer_left(engine, message.parent, peer);
    rcmi_creation_receive(engine->creations, peer, &message);
    return true;
}

static bool engine_receive_agree(struct rcmi_engine *engine, int peer, const void *bytes,
                                 size_t len) {
    struct rcmi_agree message;
    if (!rcmi_agree_decode(bytes, len, &message))
        return false;
    if (!engine_answer_left(engine, message.epoch, peer))
        rcmi_agree_receive(engine->agreements, peer, &message);
    return true;
}

/* peer's communicator has failed, or there is a vote on the cause. An invalid origin becomes -1. */
static void engine_fail_remote(struct rcmi_engine *engine, int peer,
                               const struct rcmi_failure *failure, struct rcm_error *error) {
    int rank;
    pthread_mutex_lock(&engine->lock);
    rcm_comm *comm = engine_find(engine, failure->epoch, peer, &rank);
    if (comm && (error->origin < -1 || error->origin >= comm->size))
        error->origin = -1;
    if (comm && failure->kind == RCMI_FAILURE_RECORD)
        rcmi_comm_fail_remote(comm, error, &failure->missing);
    else if (comm)
        rcmi_proposals_receive(comm->proposals, rank, failure, error);
    pthread_mutex_unlock(&engine->lock);
}

static void engine_message(void *arg, int peer, const void *bytes, size_t len) {
    struct rcmi_engine *engine = arg;
    struct rcmi_failure failure;
    struct rcmi_inquiry inquiry;
    struct rcmi_call_record record;
    struct rcm_error error;
    if (engine_receive_agree(engine, peer, bytes, len) ||
        engine_receive_creation(engine, peer, bytes, len) ||
        engine_receive_left(engine, peer, bytes, len))
        return;
    if (rcmi_call_record_decode(bytes, len, &record)) {
        if (!engine_keep(engine, RCMI_EARLY_QUESTION, record.epoch, peer, bytes, len))
            engine_record(engine, peer, &record);
        return;
    }
    if (rcmi_inquiry_decode(bytes, len, &inquiry)) {
        if (!engine_keep(engine, RCMI_EARLY_QUESTION, inquiry.epoch, peer, bytes, len))
            engine_inquiry(engine, peer, &inquiry);
        return;
    }
    if (!rcmi_failure_decode(bytes, len, &failure, &error)) {
        char more[RCMI_LOG_MORE];
        if (rcmi_log_rate_allows(&engine->log_rate, more))
            rcmi_log(RCMI_LOG_WARN, "rank %d sent an invalid control message of %zu bytes%s", peer,
                     len, more);
        return;
    }
    const enum rcmi_early_kind kind =
        failure.kind == RCMI_FAILURE_RECORD ? RCMI_EARLY_FAILURE : RCMI_EARLY_QUESTION;
    if (engine_keep(engine, kind, failure.epoch, peer, bytes, len))
        return;
    engine_fail_remote(engine, peer, &failure, &error);
}

static void engine_wanted(void *arg, int peer, uint64_t epoch, uint32_t id) {
    struct rcmi_engine *engine = arg;
    int rank;
    if (id != RCMI_P2P_CHANNEL)
        return; /* opened when a collective, or an RTS, needs it */
    if (engine_keep(engine, RCMI_EARLY_WANTED, epoch, peer, NULL, 0))
        return;
    pthread_mutex_lock(&engine->lock);
    const rcm_comm *comm = engine_find(engine, epoch, peer, &rank);
    if (comm)
        rcmi_p2p_wanted(comm->p2p, rank);
    pthread_mutex_unlock(&engine->lock);
    rcmi_node_ring(engine->node);
    rcmi_loop_wake(rcmi_node_loop(engine->node));
}

/* ---- Creation and end ------------------------------------------------------------------------ */

/* Also for a partly made engine. */
static void engine_free(struct rcmi_engine *engine) {
    if (engine->unwatch)
        engine->unwatch(engine);
    const bool broken = engine->node && rcmi_node_is_broken(engine->node);
    const bool before = rcmi_fd_distrust(broken || rcmi_fd_distrusted());
    rcmi_node_destroy(engine->node);
    rcmi_rank_device_end(&engine->device);
    rcm_store_close(engine->store);
    (void)rcmi_fd_distrust(before);
    rcmi_agreements_free(engine->agreements);
    rcmi_creations_free(engine->creations);
    rcmi_early_free(engine->early);
    rcmi_trace_file_close(engine->trace);
    rcmi_book_free(engine->book);
    rcmi_tuning_end(&engine->tuning);
    pthread_mutex_destroy(&engine->lock);
    free(engine->awaited);
    free(engine->gone_received);
    free(engine->cpus);
    free(engine);
}

static void engine_revoke(void *arg, uint64_t epoch, int origin) {
    rcmi_engine_revoke(arg, epoch, origin);
}

static void engine_revoke_created(void *arg, uint64_t epoch) {
    rcmi_engine_revoke(arg, epoch, -1);
}

static rcm_status engine_make_parts(struct rcmi_engine *engine, struct rcmi_node_config *config) {
    engine->rank = config->rank;
    engine->nranks = config->nranks;
    engine->awaited = calloc((size_t)config->nranks, sizeof(*engine->awaited));
    engine->gone_received = calloc((size_t)config->nranks, sizeof(*engine->gone_received));
    engine->early = rcmi_early_create();
    if (!engine->awaited || !engine->gone_received || !engine->early)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the engine");
    const rcm_status status = rcmi_node_create(config, &engine->node);
    if (status != RCM_OK)
        return status;
    engine->device.node = engine->node;
    const struct rcmi_agreements_config agreements = {.node = engine->node,
                                                      .rank = config->rank,
                                                      .nranks = config->nranks,
                                                      .arg = engine,
                                                      .revoke = engine_revoke};
    const struct rcmi_creations_config creations = {.node = engine->node,
                                                    .rank = config->rank,
                                                    .nranks = config->nranks,
                                                    .arg = engine,
                                                    .revoke = engine_revoke_created};
    rcm_status made = rcmi_agreements_create(&agreements, &engine->agreements);
    if (made == RCM_OK)
        made = rcmi_creations_create(&creations, &engine->creations);
    return made;
}

rcm_status rcmi_engine_create(struct rcmi_node_config *config, const char *device,
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
    engine->cpu_sharers = 1;
    engine->budget = rcmi_pause_budget(1);
    atomic_init(&engine->refs, 1);
    config->linked = engine_linked;
    config->peer_lost = engine_peer_lost;
    config->broken = engine_broken;
    config->message = engine_message;
    config->wanted = engine_wanted;
    config->peer_done = engine_parted;
    config->tick = engine_tick;
    config->arg = engine;
    rcm_status status = rcmi_rank_device_init(&engine->device, device);
    if (status == RCM_OK)
        status = engine_make_parts(engine, config);
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

static void engine_replay(void *arg, int peer, const void *bytes, size_t len) {
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
    rcmi_early_take(engine->early, comm->epoch, engine_replay, comm);
    pthread_mutex_unlock(&engine->lock);
}

bool rcmi_engine_part(struct rcmi_engine *engine, rcm_comm *comm, bool orderly) {
    pthread_mutex_lock(&engine->lock);
    for (int r = 0; orderly && r < comm->size; r++)
        engine->awaited[comm->world_rank[r]] = true;
    if (comm->open)
        engine->open--;
    comm->open = false;
    const bool last = engine->open == 0;
    pthread_mutex_unlock(&engine->lock);
    return last;
}

void rcmi_engine_revoke(struct rcmi_engine *engine, uint64_t epoch, int origin) {
    const struct rcmi_error *cause = rcmi_last_error();
    struct rcm_error error = RCM_ERROR_INIT;
    struct rcmi_failure failure;
    error.status = cause->status;
    error.origin = origin;
    error.sys_errno = cause->sys_errno;
    snprintf(error.text, sizeof(error.text), "%s", cause->text);
    rcmi_failure_encode(epoch, &error, NULL, &failure);
    rcmi_node_send_linked(engine->node, NULL, 0, &failure, rcmi_failure_bytes(&failure));
}

static void engine_run_notices(void *arg) {
    struct rcmi_engine *engine = arg;
    (void)rcmi_notices_run(&engine->notices);
}

void rcmi_engine_flush(struct rcmi_engine *engine) {
    rcmi_loop_call(rcmi_node_loop(engine->node), engine_run_notices, engine);
}

struct settling {
    const rcm_comm *comm;
    bool settled;
};

/* On the thread of callbacks, so none runs at the same time. The list contains the notices of all
 * works that were complete when `unfinished` was read (acquire pairs with the release in
 * rcmi_work_complete). */
static void comm_run_notices(void *arg) {
    struct settling *settling = arg;
    const rcm_comm *comm = settling->comm;
    const bool none = atomic_load_explicit(&comm->unfinished, memory_order_acquire) == 0;
    const uint32_t issued = atomic_load_explicit(&comm->issued, memory_order_relaxed);
    (void)rcmi_notices_run(&comm->engine->notices);
    settling->settled = none && atomic_load_explicit(&comm->issued, memory_order_relaxed) == issued;
}

bool rcmi_engine_settled(const rcm_comm *comm) {
    struct settling settling = {.comm = comm};
    rcmi_loop_call(rcmi_node_loop(comm->engine->node), comm_run_notices, &settling);
    return settling.settled;
}

void rcmi_engine_remove(struct rcmi_engine *engine, rcm_comm *comm) {
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm **at = &engine->comms; *at; at = &(*at)->next) {
        if (*at == comm) {
            *at = comm->next;
            rcmi_early_over(engine->early, comm->epoch, comm->has_left);
            break;
        }
    }
    pthread_mutex_unlock(&engine->lock);
}

bool rcmi_engine_visit(struct rcmi_engine *engine, bool (*visit)(void *arg, struct rcm_work *work),
                       void *arg) {
    bool all = true;
    pthread_mutex_lock(&engine->lock);
    for (rcm_comm *comm = engine->comms; comm && all; comm = comm->next)
        all = rcmi_comm_visit(comm, visit, arg);
    pthread_mutex_unlock(&engine->lock);
    return all;
}

/* A thread that drives is in an operation, even without a work. */
static bool comm_is_idle(rcm_comm *comm) {
    if (atomic_load_explicit(&comm->failed, memory_order_relaxed) != RCM_OK)
        return true;
    if (!rcmi_comm_try_drive(comm))
        return false;
    const bool idle = atomic_load_explicit(&comm->unfinished, memory_order_relaxed) == 0;
    rcmi_comm_let_go(comm);
    return idle;
}

bool rcmi_engine_is_idle(struct rcmi_engine *engine) {
    pthread_mutex_lock(&engine->lock);
    bool idle = engine->open > 0 && !engine->left;
    for (rcm_comm *comm = engine->comms; comm && idle; comm = comm->next)
        idle = comm_is_idle(comm);
    pthread_mutex_unlock(&engine->lock);
    return idle;
}
