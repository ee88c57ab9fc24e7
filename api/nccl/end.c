/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of communicators: finalized, destroyed, aborted, revoked. See nccl_end.h. */
#include "nccl_end.h"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "nccl_comm.h"
#include "nccl_group.h"
#include "stream_order.h"

enum { EXIT_WAIT_S = 15, CALL_MS = 50 };

/* Under the lock: frees destroyed ones that have ended. Returns whether any has not. */
static bool endings_poll(void) {
    bool any = false;
    for (struct ncclComm *comm = comm_first(), *next; comm; comm = next) {
        next = comm->next;
        if (!comm->ends_alone)
            continue;
        comm_poll(comm);
        if (comm->request || comm->orders || comm->users > 0)
            any = true;
        else
            comm_free(comm);
    }
    return any;
}

static pid_t watched; /* process that waits; under the lock */

static time_t seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Another rank may never destroy its communicator. */
static void await_endings(void) {
    const time_t until = seconds() + EXIT_WAIT_S;
    if (getpid() != watched) /* a child after fork */
        return;
    comm_lock();
    while (endings_poll() && seconds() < until)
        comm_sleep();
    comm_unlock();
}

/* Runs before ringcomm's own function, which was registered with the first communicator. */
void end_watch_exit(void) {
    if (watched != getpid() && atexit(await_endings) == 0)
        watched = getpid();
}

/* ---- Aborting -------------------------------------------------------------------------------- */

static struct ncclComm *child_of(const struct ncclComm *comm) {
    struct ncclComm *child = comm_first();
    while (child && (child->parent != comm || !child->request))
        child = child->next;
    return child;
}

/* Under the lock, which it gives up. Ends what is being made from comm, also on other ranks. */
static void cancel_children(struct ncclComm *comm) {
    struct ncclComm *child;
    while ((child = child_of(comm)) != NULL) {
        rcm_comm_request *request = child->request;
        child->parent = NULL;
        child->request = NULL;
        child->state = COMM_FAILED;
        comm_fail(child, ncclRemoteError,
                  "its parent was aborted or destroyed while it was made. Make it again, from "
                  "another one");
        if (child->outside && child->users == 0)
            comm_free(child);
        comm_unlock();
        rcm_comm_request_cancel(request);
        comm_lock();
    }
}

/* Under the lock, which it gives up. Ends what is being made or ended itself. */
static void cancel_requests(struct ncclComm *comm, const char *why) {
    rcm_init_request *init = comm->init;
    rcm_comm_request *request = comm->request;
    comm->init = NULL;
    comm->request = NULL;
    comm->parent = NULL;
    if (comm->state == COMM_MAKING) {
        comm->state = COMM_FAILED;
        comm_fail(comm, ncclRemoteError, why);
    } else if (comm->state == COMM_ENDING && request) {
        comm->state = COMM_ENDED;
    }
    comm_unlock();
    rcm_init_cancel(init);
    rcm_comm_request_cancel(request);
    comm_lock();
}

/* Under the lock, which it gives up: other threads leave calls that use comm, some of which may be
 * making another one from it. own: users of the caller. ms < 0: without limit. */
static void await_users(struct ncclComm *comm, int own, int ms) {
    cancel_children(comm);
    for (int i = 0; comm->users > own && (ms < 0 || i < 2 * ms); i++) {
        comm_sleep();
        cancel_children(comm);
    }
}

/* Under the lock, which it gives up. */
static void stop_operations(struct ncclComm *comm, const char *why) {
    await_users(comm, 0, CALL_MS);
    rcm_comm *rcm = comm->rcm; /* another thread's Finalize may have taken it meanwhile */
    if (rcm && (comm->orders || comm->users > 0)) {
        comm->users++;
        comm_unlock();
        (void)!rcm_abort(rcm, why);
        comm_lock();
        comm->users--;
    }
    orders_release(comm);
}

/* Under the lock: takes the handle from the program, so that only this call ends comm. */
static bool take(struct ncclComm *comm) {
    const bool lives = comm_lives(comm, 0);
    if (lives)
        comm->destroyed = true;
    return lives;
}

/* Under the lock, which it returns without. */
static void abort_taken(struct ncclComm *comm) {
    static const char why[] =
        "ncclCommAbort was called while it was made. Make it again on all ranks";
    if (comm->state == COMM_READY)
        comm->state = COMM_ENDED; /* no further call begins */
    cancel_requests(comm, why);
    stop_operations(comm, "ncclCommAbort was called");
    /* Another thread's Finalize may make a request meanwhile. */
    while (comm->users > 0 || comm->request) {
        cancel_requests(comm, why);
        await_users(comm, 0, CALL_MS);
    }
    rcm_comm *rcm = comm->rcm;
    comm->rcm = NULL;
    comm_unlock();
    if (rcm)
        (void)!rcm_leave(rcm);
    comm_lock();
    while (comm->orders) /* of callbacks that still run */
        comm_sleep();
    comm_free(comm);
    comm_unlock();
}

NCCL_API(ncclResult_t, ncclCommAbort)(ncclComm_t comm) {
    if (!comm)
        return ncclSuccess;
    comm_lock();
    if (!take(comm)) {
        comm_unlock();
        return comm_unknown(comm, __func__);
    }
    abort_taken(comm);
    return ncclSuccess;
}

void comm_cancel(struct ncclComm *comm, uint64_t id, const char *why) {
    comm_lock();
    if (comm_lives(comm, id)) {
        comm_use(comm);
        if (comm->state == COMM_MAKING)
            cancel_requests(comm, why);
        comm_drop(comm);
    }
    comm_unlock();
}

NCCL_API(ncclResult_t, ncclCommRevoke)(ncclComm_t comm, int flags) {
    if (flags != 0)
        return face_fail(ncclInvalidArgument, "ncclCommRevoke: revokeFlags is %d. Use 0", flags);
    comm_lock();
    const bool lives = comm_lives(comm, 0), ready = lives && comm->state == COMM_READY;
    if (ready) {
        comm->revoked = true;
        comm->users++;
        rcm_comm *rcm = comm->rcm;
        comm_unlock();
        (void)!rcm_abort(rcm, "ncclCommRevoke was called");
        comm_lock();
        orders_release(comm);
        while (comm->blocking && comm->orders)
            comm_sleep();
        comm->users--;
    }
    const bool busy = ready && comm->orders != NULL;
    comm_unlock();
    if (!lives)
        return comm_unknown(comm, __func__);
    if (!ready)
        return face_fail(ncclInvalidArgument, "ncclCommRevoke: the communicator is not in use");
    return busy ? ncclInProgress : ncclSuccess;
}

/* ---- Orderly end ----------------------------------------------------------------------------- */

/* Under the lock, which it gives up: begins rcm_destroy. Without a thread for it, comm is left.
 * own: users of the caller. */
static void begin_end(struct ncclComm *comm, int own) {
    rcm_comm_request *request = NULL;
    comm->state = COMM_ENDING;
    await_users(comm, own, -1);
    rcm_comm *rcm = comm->rcm;
    comm->rcm = NULL;
    comm_unlock();
    registrations_end(comm, rcm);
    const rcm_status status = rcm_destroy_begin(rcm, &request);
    if (status != RCM_OK)
        (void)!rcm_leave(rcm);
    comm_lock();
    comm->request = request;
    if (!request)
        comm->state = COMM_ENDED;
}

NCCL_API(ncclResult_t, ncclCommFinalize)(ncclComm_t comm) {
    ncclResult_t result = comm_enter(comm, 0, __func__);
    if (result != ncclSuccess)
        return group_fail(result);
    comm_lock();
    const bool ready = comm->state == COMM_READY; /* else another thread ends it */
    if (ready)
        begin_end(comm, 1);
    comm_unlock();
    if (ready)
        return comm_await(comm);
    comm_exit(comm);
    return group_fail(face_fail(ncclInvalidArgument, "ncclCommFinalize: another thread finalizes, "
                                                     "destroys or aborts the communicator"));
}

NCCL_API(ncclResult_t, ncclCommDestroy)(ncclComm_t comm) {
    if (!comm)
        return ncclSuccess;
    comm_lock();
    (void)endings_poll();
    if (!take(comm)) {
        comm_unlock();
        return comm_unknown(comm, __func__);
    }
    comm_poll(comm);
    if (comm->state == COMM_MAKING) {
        abort_taken(comm);
        return ncclSuccess;
    }
    orders_release(comm);
    if (comm->state == COMM_READY)
        begin_end(comm, 0);
    await_users(comm, 0, -1);
    comm->ends_alone = true;
    (void)endings_poll();
    comm_unlock();
    return ncclSuccess;
}
