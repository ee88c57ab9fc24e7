/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators of the face: the list of all, their states, errors and queries. See nccl_comm.h. */
#include "nccl_comm.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "nccl_end.h"
#include "nccl_group.h"
#include "nccl_operators.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *all;
static uint64_t last_id;

void comm_lock(void) {
    pthread_mutex_lock(&lock);
}

void comm_unlock(void) {
    pthread_mutex_unlock(&lock);
}

void comm_sleep(void) {
    const struct timespec pause = {.tv_nsec = 500000};
    comm_unlock();
    nanosleep(&pause, NULL);
    comm_lock();
}

/* ---- The list -------------------------------------------------------------------------------- */

struct ncclComm *comm_first(void) {
    return all;
}

bool comm_lives(const struct ncclComm *comm, uint64_t id) {
    const struct ncclComm *at = all;
    while (at && at != comm)
        at = at->next;
    return at && !at->destroyed && (id == 0 || at->id == id);
}

ncclResult_t comm_unknown(const struct ncclComm *comm, const char *what) {
    return face_fail(ncclInvalidArgument,
                     "%s: comm is %p, which is no communicator. Pass one that was made, and was "
                     "not destroyed or aborted",
                     what, (const void *)comm);
}

struct ncclComm *comm_new(int device) {
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (!comm) {
        (void)face_fail(ncclSystemError, "no memory for a communicator");
        return NULL;
    }
    comm->device = device;
    comm->blocking = true;
    comm->users = 1;
    comm_lock();
    comm->id = ++last_id;
    comm->next = all;
    all = comm;
    comm_unlock();
    return comm;
}

void comm_free(struct ncclComm *comm) {
    struct ncclComm **at = &all;
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    operators_forget(comm);
    registrations_forget(comm);
    free(comm);
}

void comm_forget(struct ncclComm *comm) {
    comm_lock();
    comm_free(comm);
    comm_unlock();
}

bool comm_has_children(struct ncclComm *comm) {
    bool any = false;
    for (struct ncclComm *child = all, *next; child; child = next) {
        next = child->next;
        if (child->parent != comm)
            continue;
        comm_poll(child);
        any |= child->state == COMM_MAKING && !child->blocking;
        if (child->outside && child->state != COMM_MAKING && child->users == 0)
            comm_free(child);
    }
    return any;
}

/* ---- States ---------------------------------------------------------------------------------- */

void comm_fail(struct ncclComm *comm, ncclResult_t result, const char *text) {
    if (comm->result != ncclSuccess)
        return;
    comm->result = result;
    snprintf(comm->text, sizeof comm->text, "%s", text);
    (void)face_fail(result, "%s", text);
}

static void made(struct ncclComm *comm, rcm_status status, const char *text) {
    comm->init = NULL;
    comm->request = NULL;
    comm->parent = NULL;
    comm->state = status == RCM_OK ? COMM_READY : COMM_FAILED;
    if (status != RCM_OK) {
        comm_fail(comm, face_number(status), text);
        return;
    }
    end_watch_exit();
    comm->rank = rcm_rank(comm->rcm);
    comm->size = rcm_size(comm->rcm);
    if (comm->outside) { /* belongs to nobody */
        (void)!rcm_destroy(comm->rcm);
        comm->rcm = NULL;
        comm->state = COMM_ENDED;
    } else if (comm->name[0]) {
        (void)!rcm_comm_set_name(comm->rcm, comm->name);
    }
}

/* Finished requests are freed at once. */
void comm_poll(struct ncclComm *comm) {
    if (comm->init) {
        rcm_init_request *init = comm->init;
        const rcm_status status = rcm_init_test(init, &comm->rcm);
        if (status == RCM_PENDING)
            return;
        made(comm, status, rcm_last_error());
        rcm_init_cancel(init);
    } else if (comm->request) {
        rcm_comm_request *request = comm->request;
        const rcm_status status = rcm_comm_request_test(request, &comm->rcm);
        if (status == RCM_PENDING)
            return;
        if (comm->state == COMM_MAKING) {
            made(comm, status, rcm_last_error());
        } else {
            comm->request = NULL;
            comm->state = COMM_ENDED;
            if (status != RCM_OK)
                comm_fail(comm, face_number(status), rcm_last_error());
        }
        rcm_comm_request_cancel(request);
    } else {
        return;
    }
}

static bool comm_is_busy(struct ncclComm *comm) {
    comm_poll(comm);
    /* A blocking ncclCommFinalize is complete when this rank's operations are. */
    return comm->state == COMM_MAKING ||
           (comm->state == COMM_ENDING && comm->orders && comm->result == ncclSuccess);
}

/* Under the lock: its error, whose text becomes the last one. */
static ncclResult_t comm_error(const struct ncclComm *comm) {
    return comm->result == ncclSuccess ? ncclSuccess : face_fail(comm->result, "%s", comm->text);
}

static ncclResult_t comm_outcome(const struct ncclComm *comm) {
    const bool busy = comm->state == COMM_MAKING || comm->state == COMM_ENDING;
    if (comm->result != ncclSuccess)
        return comm_error(comm);
    return busy && !comm->blocking ? ncclInProgress : ncclSuccess;
}

void comm_use(struct ncclComm *comm) {
    comm->users += !comm->outside;
}

void comm_drop(struct ncclComm *comm) {
    comm->users--;
    if (comm->outside && comm->state != COMM_MAKING && comm->users == 0)
        comm_free(comm);
}

/* Under the lock, which it gives up while it waits. Ends a use, after which comm may be freed. */
static ncclResult_t comm_settle(struct ncclComm *comm) {
    while (comm->blocking && comm_is_busy(comm))
        comm_sleep();
    const ncclResult_t result = comm_outcome(comm);
    comm_drop(comm);
    return result;
}

ncclResult_t comm_wait(struct ncclComm *comm, uint64_t id, bool ends) {
    comm_lock();
    if (!comm_lives(comm, id)) {
        comm_unlock();
        return ends ? ncclSuccess
                    : face_fail(ncclRemoteError,
                                "another thread aborted the communicator while it was made. Make "
                                "it again on all ranks");
    }
    comm_use(comm);
    const ncclResult_t result = comm_settle(comm);
    comm_unlock();
    return result;
}

ncclResult_t comm_await(struct ncclComm *comm) {
    comm_lock();
    ncclResult_t result = comm->blocking ? ncclSuccess : ncclInProgress;
    if (group_await(comm))
        comm->users -= !comm->outside;
    else
        result = comm_settle(comm);
    comm_unlock();
    return result;
}

static ncclResult_t not_ready(enum comm_state state, const char *what) {
    return face_fail(ncclInvalidArgument,
                     state == COMM_MAKING
                         ? "%s: the communicator is not made yet. Call ncclCommGetAsyncError until "
                           "it no longer returns ncclInProgress"
                         : "%s: the communicator was finalized, destroyed or aborted",
                     what);
}

ncclResult_t comm_enter(struct ncclComm *comm, uint64_t id, const char *what) {
    if (!comm)
        return face_fail(ncclInvalidArgument, "%s: comm is NULL", what);
    comm_lock();
    const bool lives = comm_lives(comm, id);
    if (lives && comm->state == COMM_MAKING)
        comm_poll(comm);
    const enum comm_state state = lives ? comm->state : COMM_ENDED;
    const ncclResult_t result = lives && state != COMM_READY ? comm_error(comm) : ncclSuccess;
    if (state == COMM_READY)
        comm->users++;
    comm_unlock();
    if (state == COMM_READY)
        return ncclSuccess;
    return result != ncclSuccess ? result : not_ready(state, what);
}

void comm_exit(struct ncclComm *comm) {
    comm_lock();
    comm->users--;
    comm_unlock();
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Has the communicator failed, also without an operation? A revoked one has. */
static void comm_look(struct ncclComm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    comm_lock();
    const bool look = comm_lives(comm, 0) && comm->state == COMM_READY &&
                      comm->result == ncclSuccess && !comm->revoked;
    if (look)
        comm->users++;
    comm_unlock();
    if (!look)
        return;
    const rcm_status status = rcm_comm_error(comm->rcm, &error);
    comm_lock();
    comm->users--;
    if (status != RCM_OK && !comm->revoked)
        comm_fail(comm, face_number(status), error.text);
    comm_unlock();
}

ncclResult_t comm_failure(struct ncclComm *comm) {
    comm_lock();
    const ncclResult_t result = comm_error(comm);
    comm_unlock();
    return result;
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError)(ncclComm_t comm, ncclResult_t *result) {
    if (!comm || !result)
        return face_fail(ncclInvalidArgument, "ncclCommGetAsyncError: %s is NULL",
                         comm ? "result" : "comm");
    comm_look(comm);
    comm_lock();
    const bool lives = comm_lives(comm, 0);
    if (lives) {
        comm_poll(comm);
        const bool busy = comm_has_children(comm) || (comm->revoked && comm->orders);
        *result = comm->revoked ? ncclSuccess : comm_outcome(comm);
        if (*result == ncclSuccess && busy && !comm->blocking)
            *result = ncclInProgress;
    }
    comm_unlock();
    return lives ? ncclSuccess : comm_unknown(comm, __func__);
}

bool comm_error_text(struct ncclComm *comm, char *text, size_t cap) {
    comm_look(comm);
    comm_lock();
    const bool has = comm_lives(comm, 0) && comm->result != ncclSuccess;
    if (has)
        snprintf(text, cap, "%s", comm->text);
    comm_unlock();
    return has;
}
