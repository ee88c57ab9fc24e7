/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators of the face: the list of all, their states and errors. See nccl_comm.h. */
#include "nccl_comm.h"
#include <stdlib.h>
#include <time.h>
#include "nccl_end.h"
#include "nccl_group.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *all;

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
    return at && !at->destroyed && (id == COMM_ANY || at->id == id);
}

ncclResult_t comm_new(int device, const struct ncclComm *parent, const ncclConfig_t *config,
                      struct ncclComm **ret_comm) {
    static uint64_t last_id;
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return face_fail(ncclSystemError, "no memory for a communicator");
    const ncclResult_t result = comm_configure(comm, parent, config);
    if (result != ncclSuccess) {
        free(comm);
        return result;
    }
    comm->device = device;
    comm->users = 1;
    comm_lock();
    comm->id = ++last_id;
    comm->next = all;
    *ret_comm = all = comm;
    comm_unlock();
    return ncclSuccess;
}

void comm_free(struct ncclComm *comm) {
    struct ncclComm **at = &all;
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    objects_free(&comm->operators);
    objects_free(&comm->registrations);
    free(comm);
}

/* ---- States ---------------------------------------------------------------------------------- */

static void made(struct ncclComm *comm) {
    end_watch_exit();
    comm->state = COMM_READY;
    comm->rank = rcm_rank(comm->rcm);
    comm->size = rcm_size(comm->rcm);
    if (comm->ends_alone) { /* belongs to nobody */
        (void)!rcm_destroy(comm->rcm);
        comm->rcm = NULL;
        comm->state = COMM_ENDED;
    } else if (comm->name[0]) {
        (void)!rcm_comm_set_name(comm->rcm, comm->name);
    }
}

/* Finished requests are freed at once. */
void comm_poll(struct ncclComm *comm) {
    const bool making = comm->state == COMM_MAKING;
    rcm_init_request *init = comm->init;
    rcm_comm_request *request = comm->request;
    if (!init && !request)
        return;
    const rcm_status status =
        init ? rcm_init_test(init, &comm->rcm) : rcm_comm_request_test(request, &comm->rcm);
    if (status == RCM_PENDING)
        return;
    comm->init = NULL;
    comm->request = NULL;
    comm->parent = NULL;
    comm->state = making ? COMM_FAILED : COMM_ENDED;
    if (status != RCM_OK)
        comm_fail(comm, face_number(status), rcm_last_error());
    else if (making)
        made(comm);
    rcm_init_cancel(init);
    rcm_comm_request_cancel(request);
}

/* Under the lock. Frees it, if it ends alone and has ended. */
static bool free_ended(struct ncclComm *comm) {
    if (!comm->ends_alone || comm->request || comm->orders || comm->users > 0)
        return false;
    comm_free(comm);
    return true;
}

bool comms_poll(void) {
    bool any = false;
    for (struct ncclComm *comm = all, *next; comm; comm = next) {
        next = comm->next;
        comm_poll(comm);
        const bool awaited = comm->ends_alone && comm->destroyed;
        any |= !free_ended(comm) && awaited;
    }
    return any;
}

static bool comm_is_busy(struct ncclComm *comm) {
    comm_poll(comm);
    /* A blocking ncclCommFinalize is complete when this rank's operations are. */
    return comm->state == COMM_MAKING ||
           (comm->state == COMM_ENDING && comm->orders && comm->result == ncclSuccess);
}

ncclResult_t comm_error(const struct ncclComm *comm) {
    return comm->result == ncclSuccess ? ncclSuccess : face_fail(comm->result, "%s", comm->text);
}

static ncclResult_t comm_outcome(const struct ncclComm *comm) {
    const bool busy = comm->state == COMM_MAKING || comm->state == COMM_ENDING;
    if (comm->result != ncclSuccess)
        return comm_error(comm);
    return busy && !comm->blocking ? ncclInProgress : ncclSuccess;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

ncclResult_t comm_hold(const struct ncclComm *comm, uint64_t id, const char *what) {
    if (!comm)
        return face_fail(ncclInvalidArgument, "%s: comm is NULL", what);
    comm_lock();
    if (comm_lives(comm, id))
        return ncclSuccess;
    comm_unlock();
    return face_fail(ncclInvalidArgument,
                     "%s: comm is %p, which is no communicator. Pass one that was made, and was "
                     "not destroyed or aborted",
                     what, (const void *)comm);
}

ncclResult_t comm_hold_ready(struct ncclComm *comm, uint64_t id, const char *what) {
    ncclResult_t result = comm_hold(comm, id, what);
    if (result != ncclSuccess)
        return result;
    if (comm->state == COMM_MAKING)
        comm_poll(comm);
    if (comm->state == COMM_READY)
        return ncclSuccess;
    result = comm_error(comm);
    if (result == ncclSuccess)
        result = face_fail(ncclInvalidArgument,
                           comm->state == COMM_MAKING
                               ? "%s: the communicator is not made yet. Call ncclCommGetAsyncError "
                                 "until it no longer returns ncclInProgress"
                               : "%s: the communicator was finalized, destroyed or aborted",
                           what);
    comm_unlock();
    return result;
}

ncclResult_t comm_enter(struct ncclComm *comm, uint64_t id, const char *what) {
    const ncclResult_t result = comm_hold_ready(comm, id, what);
    if (result == ncclSuccess) {
        comm->users++;
        comm_unlock();
    }
    return result;
}

void comm_exit(struct ncclComm *comm) {
    comm_lock();
    comm->users--;
    comm_unlock();
}

/* Under the lock, which it gives up while it waits. Ends a use, after which comm may be freed. */
static ncclResult_t comm_settle(struct ncclComm *comm) {
    while (comm->blocking && comm_is_busy(comm))
        comm_sleep();
    const ncclResult_t result = comm_outcome(comm);
    comm->users--;
    (void)free_ended(comm);
    return result;
}

ncclResult_t comm_await(struct ncclComm *comm) {
    comm_lock();
    ncclResult_t result = comm->blocking ? ncclSuccess : ncclInProgress;
    if (group_await(comm))
        comm->users -= !comm->ends_alone;
    else
        result = comm_settle(comm);
    comm_unlock();
    return result;
}

/* One that ends alone has no handle that a thread could abort: the group uses it until now. */
ncclResult_t comm_wait(struct ncclComm *comm, uint64_t id, bool ends, const char *why) {
    ncclResult_t result = ncclSuccess;
    comm_lock();
    if (comm_lives(comm, id)) {
        comm->users += !comm->ends_alone;
        if (why && comm->state == COMM_MAKING)
            cancel_requests(comm, why);
        if (why) {
            comm->users--;
            (void)free_ended(comm);
        } else {
            result = comm_settle(comm);
        }
    } else if (!ends && !why) {
        result = face_fail(ncclRemoteError,
                           "another thread aborted the communicator while it was made. Make it "
                           "again on all ranks");
    }
    comm_unlock();
    return result;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

void comm_fail(struct ncclComm *comm, ncclResult_t result, const char *text) {
    if (comm->result != ncclSuccess)
        return;
    comm->result = result;
    snprintf(comm->text, sizeof comm->text, "%s", text);
    (void)face_fail(result, "%s", text);
}

static bool is_revoked(const struct ncclComm *comm) {
    return comm->revoked || comm->shrinking > 0;
}

/* Under the lock: has it failed, also without an operation? A revoked one has. */
static void comm_look(struct ncclComm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    comm_poll(comm);
    if (comm->state != COMM_READY || is_revoked(comm))
        return;
    const rcm_status status = rcm_comm_error(comm->rcm, &error);
    if (status != RCM_OK)
        comm_fail(comm, face_number(status), error.text);
}

bool comm_error_text(struct ncclComm *comm, char *text, size_t cap) {
    comm_lock();
    const bool lives = comm_lives(comm, COMM_ANY);
    if (lives)
        comm_look(comm);
    const bool has = lives && comm->result != ncclSuccess;
    if (has)
        snprintf(text, cap, "%s", comm->text);
    comm_unlock();
    return has;
}

/* Is another one made from it, by a call that does not wait? */
static bool has_children(const struct ncclComm *comm) {
    const struct ncclComm *child = all;
    while (child && (child->parent != comm || child->blocking))
        child = child->next;
    return child != NULL;
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError)(ncclComm_t comm, ncclResult_t *ret) {
    if (comm && !ret)
        return face_fail(ncclInvalidArgument, "ncclCommGetAsyncError: result is NULL");
    const ncclResult_t result = comm_hold(comm, COMM_ANY, __func__);
    if (result != ncclSuccess)
        return result;
    (void)comms_poll();
    comm_look(comm);
    const bool busy = has_children(comm) || (is_revoked(comm) && comm->orders);
    *ret = is_revoked(comm) ? ncclSuccess : comm_outcome(comm);
    if (*ret == ncclSuccess && busy && !comm->blocking)
        *ret = ncclInProgress;
    comm_unlock();
    return ncclSuccess;
}
