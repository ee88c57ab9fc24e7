/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The struct of a communicator, its error record, and simple queries. Not here: its parts
 * (group.c), and its end (destroy.c).
 */
#include "comm.h"
#include "agreement.h"
#include "counters.h"
#include "diagnosis.h"
#include "entry.h"
#include "group.h"
#include "log.h"
#include "status_page.h"
#include "struct_versions.h"
#include "trace_file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The struct ------------------------------------------------------------------------------ */

rcm_comm *rcmi_comm_new(void) {
    rcm_comm *comm = calloc(1, sizeof(*comm));
    if (!comm) {
        (void)rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a communicator");
        return NULL;
    }
    rcmi_queue_init(&comm->queue);
    comm->submitted_end = &comm->submitted;
    atomic_flag_clear(&comm->driving);
    pthread_mutex_init(&comm->submit_lock, NULL);
    pthread_mutex_init(&comm->error_lock, NULL);
    pthread_mutex_init(&comm->completions.lock, NULL);
    comm->completions.fd = -1;
    comm->error.origin = -1;
    snprintf(comm->name, sizeof(comm->name), "world");
    comm->fork_generation = rcmi_fork_watch();
    atomic_init(&comm->refs, 1);
    return comm;
}

void rcmi_comm_ref(rcm_comm *comm) {
    atomic_fetch_add_explicit(&comm->refs, 1, memory_order_relaxed);
}

void rcmi_comm_unref(rcm_comm *comm) {
    /* Acquire-release: the last one sees everything the others did. */
    if (atomic_fetch_sub_explicit(&comm->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&comm->submit_lock);
    pthread_mutex_destroy(&comm->error_lock);
    pthread_mutex_destroy(&comm->completions.lock);
    free(comm->missing);
    rcmi_operator_drop(comm->held);
    free(comm);
}

bool rcmi_comm_enter(rcm_comm *comm) {
    /* Sequentially consistent, like comm_close's store to closed followed by its load of inside:
     * one of the two sees the other. */
    atomic_fetch_add(&comm->inside, 1);
    if (!atomic_load(&comm->closed))
        return true;
    atomic_fetch_sub(&comm->inside, 1);
    return false;
}

void rcmi_comm_exit(rcm_comm *comm) {
    atomic_fetch_sub(&comm->inside, 1);
}

/* ---- Its name -------------------------------------------------------------------------------- */

void rcmi_comm_inherit_name(rcm_comm *comm, const rcm_comm *parent, const char *name) {
    rcm_comm *writable = (rcm_comm *)parent; /* only its lock */
    pthread_mutex_lock(&writable->error_lock);
    snprintf(comm->name, sizeof(comm->name), "%s", name ? name : parent->name);
    comm->named = name ? RCMI_NAME_RANKS : parent->named;
    pthread_mutex_unlock(&writable->error_lock);
}

const char *rcmi_comm_label(const rcm_comm *comm, char text[RCMI_LABEL_TEXT]) {
    static const char *const formats[] = {"", "communicator of %s", "communicator \"%s\""};
    rcm_comm *writable = (rcm_comm *)comm; /* only its lock */
    pthread_mutex_lock(&writable->error_lock);
    snprintf(text, RCMI_LABEL_TEXT, formats[comm->named], comm->name);
    pthread_mutex_unlock(&writable->error_lock);
    return text;
}

/* Puts the label before the thread's text. */
static void comm_add_label(const rcm_comm *comm) {
    char label[RCMI_LABEL_TEXT];
    if (rcmi_comm_label(comm, label)[0])
        (void)rcmi_fail_context("%s", label);
}

rcm_status rcm_comm_set_name(rcm_comm *comm, const char *name) {
    struct rcmi_engine *engine;
    rcm_status status = rcmi_comm_own(comm, &engine);
    if (status == RCM_OK && (!name || !name[0]))
        status = rcmi_fail(RCM_ERR_INVALID, 0, "name is %s", name ? "empty" : "NULL");
    if (status == RCM_OK && strlen(name) >= RCM_NAME_MAX)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "name has %zu bytes, at most %d", strlen(name),
                           RCM_NAME_MAX - 1);
    if (status != RCM_OK)
        return status;
    pthread_mutex_lock(&comm->error_lock);
    snprintf(comm->name, sizeof(comm->name), "%s", name);
    rcmi_text_clean(comm->name);
    comm->named = RCMI_NAME_GIVEN;
    if (comm->page)
        rcmi_page_name(comm->page, comm->name);
    rcmi_trace_name(engine->trace, comm->trace, comm->name);
    pthread_mutex_unlock(&comm->error_lock);
    return RCM_OK;
}

const char *rcm_comm_name(const rcm_comm *comm) {
    return comm ? comm->name : "";
}

/* ---- Failure --------------------------------------------------------------------------------- */

rcm_status rcmi_comm_failure(const rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    if (rcm_comm_error(comm, &error) != RCM_OK)
        rcmi_fail_origin(error.status, error.origin, "%s", error.text);
    return error.status;
}

void rcmi_comm_wake_waiters(rcm_comm *comm) {
    /* Partner: the increment of waiters in comm_wait_for. Such a thread is seen here. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&comm->waiters, memory_order_relaxed) > 0)
        rcmi_node_ring(comm->engine->node);
}

void rcmi_comm_let_go(rcm_comm *comm) {
    rcmi_comm_stop_driving(comm);
    rcmi_comm_wake_waiters(comm);
}

rcm_status rcmi_operator_check(void) {
    if (!rcmi_in_operator())
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INVALID, 0,
                     "an operator's function may issue no operation and not wait: the operation "
                     "that called it would not end");
}

rcm_status rcmi_comm_why_not(const rcm_comm *comm) {
    if (!comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "comm is NULL");
    if (comm->fork_generation != rcmi_fork_generation())
        return rcmi_fail(RCM_ERR_FORKED, 0, "this communicator belongs to the parent process");
    if (rcmi_in_operator())
        return rcmi_operator_check();
    return comm->rank < 0 ? RCMI_ABSENT : rcmi_comm_failure(comm);
}

/* Under error_lock. Without memory the text alone must suffice. */
static void comm_keep_missing(rcm_comm *comm, const struct rcmi_rank_set *missing) {
    if (!missing || missing->nranks != (uint32_t)comm->size)
        return;
    comm->missing = malloc(sizeof(*comm->missing));
    if (comm->missing)
        *comm->missing = *missing;
}

/* Stores the record if it is the first. Wakes all threads, and sends it to every linked rank. */
static void comm_record(rcm_comm *comm, const struct rcm_error *error,
                        const struct rcmi_rank_set *missing) {
    pthread_mutex_lock(&comm->error_lock);
    const bool first = atomic_load_explicit(&comm->failed, memory_order_relaxed) == RCM_OK;
    if (first) {
        comm->error = *error;
        comm_keep_missing(comm, missing);
        atomic_store_explicit(&comm->failed, error->status, memory_order_release);
    }
    pthread_mutex_unlock(&comm->error_lock);
    if (!first)
        return;
    rcmi_page_fail(comm->page, error->status);
    rcmi_log_set_rank(comm->rank); /* the loop thread has no rank set yet */
    const bool meant = error->status == RCM_ERR_ABORTED || error->status == RCM_ERR_CANCELED;
    rcmi_log(meant ? RCMI_LOG_INFO : RCMI_LOG_ERROR, "%s: %s", rcm_status_name(error->status),
             error->text);
    struct rcmi_failure failure;
    rcmi_failure_encode(comm->epoch, error, comm->missing, &failure);
    rcmi_node_send_linked(comm->engine->node, comm->world_rank, comm->size, &failure,
                          rcmi_failure_bytes(&failure));
    rcmi_node_ring(comm->engine->node);
    rcmi_node_farewell_look(comm->engine->node);
    rcmi_loop_wake(rcmi_node_loop(comm->engine->node));
}

/* Whether the fault is local to this rank (a shortage, or a wrong call), so that no other rank can
 * be the origin. */
static bool is_own_fault(rcm_status status) {
    return status == RCM_ERR_NOMEM || status == RCM_ERR_RESOURCE || status == RCM_ERR_INVALID;
}

void rcmi_comm_own_origin(const rcm_comm *comm) {
    struct rcmi_error *error = rcmi_last_error();
    const int world = error->origin;
    if (!error->of_world)
        return;
    error->of_world = false;
    error->origin = rcmi_members_rank(&comm->members, world);
    if (error->origin != world && error->origin >= 0)
        (void)rcmi_fail_context("rank %d, which is rank %d of the world", error->origin, world);
}

/* This rank is the origin of the thread's error. */
static void comm_add_origin(const rcm_comm *comm, const struct rcm_work *work) {
    (void)rcmi_fail_context("rank %d%s%s", comm->rank, work ? ", " : "",
                            work ? rcmi_work_name(work) : "");
    rcmi_last_error()->origin = comm->rank;
}

/* Makes the communicator's record from the thread's error in this work. */
static void comm_make_error(const rcm_comm *comm, const struct rcm_work *work,
                            struct rcm_error *ret_error) {
    struct rcmi_error *cause = rcmi_last_error();
    struct rcm_error error = RCM_ERROR_INIT;
    rcmi_comm_own_origin(comm);
    if (cause->origin < 0 && is_own_fault(cause->status))
        comm_add_origin(comm, work);
    comm_add_label(comm);
    error.status = cause->status;
    error.origin = cause->origin;
    error.sys_errno = cause->sys_errno;
    if (work) {
        error.sequence = work->sequence;
        snprintf(error.operation, sizeof(error.operation), "%s", rcmi_work_name(work));
    }
    snprintf(error.text, sizeof(error.text), "%s", cause->text);
    *ret_error = error;
}

void rcmi_comm_fail(rcm_comm *comm, const struct rcm_work *work) {
    struct rcm_error error;
    comm_make_error(comm, work, &error);
    comm_record(comm, &error, NULL);
}

/* Descriptors of a process. Base: the loop, listeners, the store, and short-lived ones. Per link:
 * control stream, memory and doorbell, or control and data. */
enum { FDS_BASE = 32, FDS_RANK = 3 };

void rcmi_comm_lose(rcm_comm *comm, int world, const struct rcmi_error *why) {
    const rcm_status status = why->status == RCM_ERR_AUTH ? RCM_ERR_AUTH : RCM_ERR_PEER;
    if (why->sys_errno == EMFILE) /* its text has the limit */
        rcmi_fail_origin(
            why->status, comm->rank,
            "rank %d gave up %.350s; %d ranks need up to %d descriptors in addition to "
            "the program's own",
            comm->rank, why->text, comm->engine->nranks,
            FDS_BASE + FDS_RANK * comm->engine->nranks);
    else if (why->status == RCM_ERR_NOMEM || why->status == RCM_ERR_RESOURCE)
        rcmi_fail_origin(why->status, comm->rank, "rank %d gave up %.400s", comm->rank, why->text);
    else
        rcmi_fail_peer(status, world, "lost %.400s", why->text);
    rcmi_comm_fail(comm, NULL);
}

void rcmi_comm_propose(rcm_comm *comm, const struct rcm_work *work,
                       const struct rcmi_rank_set *missing, int weight) {
    struct rcm_error error;
    comm_make_error(comm, work, &error);
    rcmi_proposals_add(comm->proposals, &error, missing, weight);
}

bool rcmi_comm_send_failure(const rcm_comm *comm, int rank) {
    struct rcm_error error = RCM_ERROR_INIT;
    struct rcmi_failure failure;
    if (rcm_comm_error(comm, &error) == RCM_OK)
        return false;
    rcmi_failure_encode(comm->epoch, &error, comm->missing, &failure); /* final, like the error */
    (void)rcmi_node_send(comm->engine->node, comm->world_rank[rank], &failure,
                         rcmi_failure_bytes(&failure));
    return true;
}

rcm_status rcmi_comm_decline(rcm_comm *comm, rcm_status status) {
    if (status == RCM_OK || status == RCM_ERR_INVALID || status == RCM_ERR_UNSUPPORTED ||
        status == RCM_ERR_CONFIG)
        return status;
    if (rcmi_last_error()->origin < 0)
        comm_add_origin(comm, NULL);
    rcmi_comm_fail(comm, NULL);
    return rcmi_comm_failure(comm);
}

struct rcmi_rank_device *rcmi_comm_device(rcm_comm *comm) {
    return &comm->engine->device;
}

rcm_status rcmi_comm_own(const rcm_comm *comm, struct rcmi_engine **ret_engine) {
    if (!comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "comm is NULL");
    if (comm->fork_generation != rcmi_fork_generation())
        return rcmi_fail(RCM_ERR_FORKED, 0, "this communicator belongs to the parent process");
    *ret_engine = comm->engine;
    return RCM_OK;
}

rcm_status rcmi_comm_completions(rcm_comm *comm, struct rcmi_completions **ret_completions) {
    struct rcmi_engine *engine;
    const rcm_status status = rcmi_comm_own(comm, &engine);
    if (status == RCM_OK)
        *ret_completions = &comm->completions;
    return status;
}

void rcmi_comm_fail_remote(rcm_comm *comm, const struct rcm_error *error,
                           const struct rcmi_rank_set *missing) {
    rcmi_diagnosis_flush(comm->diagnosis, error);
    comm_record(comm, error, missing);
}

static const struct rcmi_sized sized_error = {"ret_error", "RCM_ERROR_INIT", RCMI_ERROR_SIZE_0,
                                              sizeof(struct rcm_error)};

rcm_status rcm_comm_error(const rcm_comm *comm, struct rcm_error *ret_error) {
    if (comm && comm->fork_generation != rcmi_fork_generation())
        return rcmi_fail(RCM_ERR_FORKED, 0, "this communicator belongs to the parent process");
    if (!comm || !ret_error)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", comm ? "ret_error" : "comm");
    rcm_status status = rcmi_struct_out_check(&sized_error, ret_error);
    if (status != RCM_OK)
        return status;
    rcm_comm *writable = (rcm_comm *)comm; /* only its lock */
    pthread_mutex_lock(&writable->error_lock);
    rcmi_struct_out(&sized_error, &comm->error, ret_error);
    status = comm->error.status;
    pthread_mutex_unlock(&writable->error_lock);
    return status;
}

static size_t missing_list(const struct rcmi_rank_set *missing, int *ret_ranks, size_t cap) {
    size_t n = 0;
    for (uint32_t r = 0; missing && r < missing->nranks; r++) {
        if (!rcmi_rank_set_has(missing, r))
            continue;
        if (n < cap)
            ret_ranks[n] = (int)r;
        n++;
    }
    return n;
}

rcm_status rcm_comm_missing(const rcm_comm *comm, int *ret_ranks, size_t cap, size_t *ret_count) {
    struct rcmi_engine *engine;
    const rcm_status status = rcmi_comm_own(comm, &engine);
    if (status != RCM_OK)
        return status;
    if (!ret_count || (cap > 0 && !ret_ranks))
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         ret_count ? "ret_ranks is NULL and cap is %zu" : "ret_count is NULL", cap);
    rcm_comm *writable = (rcm_comm *)comm; /* only its lock */
    pthread_mutex_lock(&writable->error_lock);
    *ret_count = missing_list(comm->missing, ret_ranks, cap);
    pthread_mutex_unlock(&writable->error_lock);
    return RCM_OK;
}

rcm_status rcm_abort(rcm_comm *comm, const char *reason) {
    RCMI_ENTRY;
    struct rcm_error error = RCM_ERROR_INIT;
    if (!comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "comm is NULL");
    if (comm->fork_generation != rcmi_fork_generation())
        return rcmi_comm_usable(comm);
    char label[RCMI_LABEL_TEXT];
    error.status = RCM_ERR_ABORTED;
    error.origin = comm->rank;
    rcmi_comm_label(comm, label);
    snprintf(error.text, sizeof(error.text), "%s%srank %d aborted%s%.300s", label,
             label[0] ? ": " : "", comm->rank, reason ? ": " : "", reason ? reason : "");
    comm_record(comm, &error, NULL);
    return RCM_OK;
}

/* ---- Queries --------------------------------------------------------------------------------- */

int rcm_rank(const rcm_comm *comm) {
    return comm ? comm->rank : -1;
}

int rcm_size(const rcm_comm *comm) {
    return comm ? comm->size : -1;
}

int rcm_local_rank(const rcm_comm *comm) {
    return comm ? comm->local_rank : -1;
}

int rcmi_comm_machine_rank(const rcm_comm *comm) {
    return comm->machine_rank;
}

int rcm_local_size(const rcm_comm *comm) {
    return comm ? comm->local_size : -1;
}

int rcm_world_rank(const rcm_comm *comm, int rank) {
    const bool known = comm && comm->world_rank && rank >= 0 && rank < comm->size;
    return known ? comm->world_rank[rank] : -1;
}

bool rcmi_comm_rank_left(const rcm_comm *comm, int rank) {
    /* Acquire pairs with the release in engine.c: what arrived before is visible. */
    return atomic_load_explicit(&comm->left_ns[rank], memory_order_acquire) != 0 ||
           rcmi_node_gone(comm->engine->node, comm->world_rank[rank]);
}

int rcm_comm_translate(const rcm_comm *from, int rank, const rcm_comm *to) {
    const int world = rcm_world_rank(from, rank);
    return world >= 0 && to && to->engine == from->engine && to->world_rank
               ? rcmi_members_rank(&to->members, world)
               : -1;
}

const struct rcmi_members *rcmi_comm_members(const rcm_comm *comm) {
    return &comm->members;
}

uint32_t *rcmi_comm_agreements(rcm_comm *comm) {
    return &comm->agreements;
}

uint64_t rcmi_comm_next_child(rcm_comm *comm) {
    return ++comm->children;
}

int64_t rcmi_comm_warn_after_ns(const rcm_comm *comm) {
    return comm->warn_after_ns;
}

int64_t rcm_comm_timeout(const rcm_comm *comm) {
    return comm ? atomic_load_explicit(&comm->timeout_ms, memory_order_relaxed) : 0;
}

rcm_status rcm_comm_set_timeout(rcm_comm *comm, int64_t timeout_ms) {
    struct rcmi_engine *engine;
    rcm_status status = rcmi_comm_own(comm, &engine);
    if (status == RCM_OK && timeout_ms == 0)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "timeout_ms is 0, neither a time nor negative");
    if (status == RCM_OK)
        atomic_store_explicit(&comm->timeout_ms, timeout_ms, memory_order_relaxed);
    return status;
}

rcm_status rcm_comm_set_spin(rcm_comm *comm, int64_t us) {
    struct rcmi_engine *engine;
    rcm_status status = rcmi_comm_own(comm, &engine);
    if (status == RCM_OK && (us < -1 || us > RCMI_SPIN_US_MAX))
        status =
            rcmi_fail(RCM_ERR_INVALID, 0, "us is %lld, not -1 (as RINGCOMM_SPIN_US) or 0 to %d",
                      (long long)us, RCMI_SPIN_US_MAX);
    if (status == RCM_OK)
        atomic_store_explicit(&comm->spin_ns, us < 0 ? -1 : us * 1000, memory_order_relaxed);
    return status;
}

void rcmi_comm_drives_here(rcm_comm *comm) {
    rcmi_page_drives_here(rcmi_node_status_page(comm->engine->node));
}

bool rcmi_comm_shares_cpu(rcm_comm *comm, int rank) {
    if (rank < 0 || rank == comm->rank)
        return false;
    const void *page = rcmi_node_peer_status_page(comm->engine->node, comm->world_rank[rank]);
    return page && rcmi_page_drove_here(page);
}

rcmi_deadline rcmi_comm_deadline(const rcm_comm *comm, const struct rcm_call *call) {
    return rcmi_deadline_in(call && call->timeout_ms ? call->timeout_ms : rcm_comm_timeout(comm));
}

rcm_status rcmi_comm_counted(const rcm_comm *comm, struct rcmi_counted *ret_counted) {
    struct rcmi_engine *engine = NULL;
    const rcm_status status = rcmi_comm_own(comm, &engine);
    if (status == RCM_OK)
        *ret_counted = (struct rcmi_counted){.node = engine->node,
                                             .epoch = comm->epoch,
                                             .page = comm->page,
                                             .exec = comm->exec,
                                             .trace = comm->trace};
    return status;
}

const char *rcm_comm_transport(rcm_comm *comm, int peer) {
    const int world = rcm_world_rank(comm, peer);
    return world >= 0 && comm->fork_generation == rcmi_fork_generation()
               ? rcmi_node_transport(comm->engine->node, world)
               : "";
}
