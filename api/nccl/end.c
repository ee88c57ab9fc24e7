/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of communicators: finalized, destroyed, aborted, revoked. See nccl_end.h. */
#include "nccl_end.h"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "nccl_group.h"
#include "stream_order.h"

enum { EXIT_WAIT_S = 15, CALL_MS = 50 };

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
    while (comms_poll() && seconds() < until)
        comm_sleep();
    comm_unlock();
}

/* Runs before ringcomm's own function, which was registered with the first communicator. */
void end_watch_exit(void) {
    if (watched != getpid() && atexit(await_endings) == 0)
        watched = getpid();
}

/* ---- Aborting -------------------------------------------------------------------------------- */

void cancel_requests(struct ncclComm *comm, const char *why) {
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

/* Under the lock, which it gives up. Ends what is being made from comm, also on other ranks. */
static void cancel_children(const struct ncclComm *comm) {
    struct ncclComm *child = comm_first();
    while (child)
        if (child->parent == comm && child->request) {
            cancel_requests(child, "its parent was aborted or destroyed while it was made. Make it "
                                   "again, from another one");
            child = comm_first();
        } else {
            child = child->next;
        }
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
static void abort_operations(struct ncclComm *comm, const char *why) {
    rcm_comm *rcm = comm->rcm; /* another thread's Finalize may have taken it */
    if (rcm && (comm->orders || comm->users > 0)) {
        comm->users++;
        comm_unlock();
        (void)!rcm_abort(rcm, why);
        comm_lock();
        comm->users--;
    }
    orders_release(comm);
}

/* Under the lock, which it gives up. Frees comm, whose handle is not the program's any more. */
static void abort_destroyed(struct ncclComm *comm) {
    if (comm->state == COMM_READY)
        comm->state = COMM_ENDED; /* no further call begins */
    do {                          /* another thread's Finalize may make a request meanwhile */
        cancel_requests(comm, "ncclCommAbort was called while it was made. Make it again on all "
                              "ranks");
        await_users(comm, 0, CALL_MS);
        abort_operations(comm, "ncclCommAbort was called");
    } while (comm->users > 0 || comm->request);
    rcm_comm *rcm = comm->rcm;
    comm->rcm = NULL;
    comm_unlock();
    if (rcm)
        (void)!rcm_leave(rcm);
    comm_lock();
    while (comm->orders) /* of callbacks that still run */
        comm_sleep();
    comm_free(comm);
}

NCCL_API(ncclResult_t, ncclCommAbort)(ncclComm_t comm) {
    const ncclResult_t result = comm ? comm_hold(comm, COMM_ANY, __func__) : ncclSuccess;
    if (!comm || result != ncclSuccess)
        return result;
    comm->destroyed = true;
    abort_destroyed(comm);
    comm_unlock();
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommRevoke)(ncclComm_t comm, int flags) {
    if (flags != 0)
        return face_fail(ncclInvalidArgument, "ncclCommRevoke: revokeFlags is %d. Use 0", flags);
    ncclResult_t result = comm_hold(comm, COMM_ANY, __func__);
    if (result != ncclSuccess)
        return result;
    if (comm->state == COMM_READY) {
        comm->revoked = true;
        comm->users++;
        abort_operations(comm, "ncclCommRevoke was called");
        while (comm->blocking && comm->orders)
            comm_sleep();
        comm->users--;
        result = comm->orders ? ncclInProgress : ncclSuccess;
    } else {
        result = face_fail(ncclInvalidArgument, "ncclCommRevoke: the communicator is not in use");
    }
    comm_unlock();
    return result;
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
    const ncclResult_t result = comm_hold_ready(comm, COMM_ANY, __func__);
    if (result != ncclSuccess)
        return group_fail(result);
    comm->users++;
    begin_end(comm, 1);
    comm_unlock();
    return comm_await(comm);
}

NCCL_API(ncclResult_t, ncclCommDestroy)(ncclComm_t comm) {
    const ncclResult_t result = comm ? comm_hold(comm, COMM_ANY, __func__) : ncclSuccess;
    if (!comm || result != ncclSuccess)
        return result;
    comm->destroyed = true;
    comm_poll(comm);
    if (comm->state == COMM_MAKING) {
        abort_destroyed(comm);
    } else {
        orders_release(comm);
        if (comm->state == COMM_READY)
            begin_end(comm, 0);
        await_users(comm, 0, -1);
        comm->ends_alone = true;
    }
    (void)comms_poll();
    comm_unlock();
    return ncclSuccess;
}
