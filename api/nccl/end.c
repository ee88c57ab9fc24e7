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

/* Communicators whose handles are no longer the program's. */
static struct ending {
    struct ending *next;
    struct ncclComm *comm;
} * endings;

/* Under the lock: frees those that have ended. Returns whether any has not. */
static bool endings_poll(void) {
    struct ending **at = &endings;
    while (*at) {
        struct ending *ending = *at;
        comm_poll(ending->comm);
        if (ending->comm->request) {
            at = &ending->next;
            continue;
        }
        *at = ending->next;
        comm_free(ending->comm);
        free(ending);
    }
    return endings != NULL;
}

static pid_t watched; /* process that waits; under the lock */

/* Another rank may never destroy its communicator. */
static void await_endings(void) {
    const time_t until = time(NULL) + EXIT_WAIT_S;
    if (getpid() != watched) /* a child after fork */
        return;
    comm_lock();
    while (endings_poll() && time(NULL) < until)
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
        comm_fail(child, ncclRemoteError, "its parent was aborted or destroyed while it was made");
        comm_unlock();
        rcm_comm_request_cancel(request);
        comm_lock();
    }
}

/* Under the lock, which it gives up. Ends what is being made or ended itself. */
static void cancel_requests(struct ncclComm *comm) {
    rcm_init_request *init = comm->init;
    rcm_comm_request *request = comm->request;
    comm->init = NULL;
    comm->request = NULL;
    comm->parent = NULL;
    if (comm->state == COMM_MAKING) {
        comm->state = COMM_FAILED;
        comm_fail(comm, ncclRemoteError, "ncclCommAbort was called while it was made");
    }
    comm_unlock();
    rcm_init_cancel(init);
    rcm_comm_request_cancel(request);
    comm_lock();
}

/* Under the lock, which it gives up: other threads leave calls that use comm, some of which may be
 * making another one from it. ms < 0: without limit. */
static void await_users(struct ncclComm *comm, int ms) {
    cancel_children(comm);
    for (int i = 0; comm->users > 0 && (ms < 0 || i < 2 * ms); i++) {
        comm_sleep();
        cancel_children(comm);
    }
}

/* Under the lock, which it gives up. */
static void stop_operations(struct ncclComm *comm, const char *why) {
    rcm_comm *rcm = comm->rcm;
    await_users(comm, CALL_MS);
    if (rcm && (comm->orders || comm->users > 0)) {
        comm->users++;
        comm_unlock();
        (void)!rcm_abort(rcm, why);
        comm_lock();
        comm->users--;
    }
    orders_release(comm);
}

static ncclResult_t check(const struct ncclComm *comm, const char *what) {
    comm_lock();
    const bool lives = comm_lives(comm, 0);
    comm_unlock();
    return lives ? ncclSuccess
                 : face_fail(ncclInvalidArgument, "%s: comm is %p, which is no communicator", what,
                             (const void *)comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    const ncclResult_t result = check(comm, __func__);
    if (result != ncclSuccess)
        return result;
    comm_lock();
    if (comm->state == COMM_READY)
        comm->state = COMM_ENDED; /* no further call begins */
    cancel_requests(comm);
    stop_operations(comm, "ncclCommAbort was called");
    await_users(comm, -1);
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
    return ncclSuccess;
}
NCCL_ALSO_P(ncclCommAbort);

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
    ncclResult_t result = check(comm, __func__);
    if (result == ncclSuccess && flags != 0)
        result = face_fail(ncclInvalidArgument, "ncclCommRevoke: revokeFlags is %d. Use 0", flags);
    if (result != ncclSuccess)
        return result;
    comm_lock();
    const bool ready = comm->state == COMM_READY;
    if (ready) {
        comm->revoked = true;
        comm->users++;
        rcm_comm *rcm = comm->rcm;
        comm_unlock();
        (void)!rcm_abort(rcm, "ncclCommRevoke was called");
        comm_lock();
        comm->users--;
        orders_release(comm);
        while (comm->blocking && comm->orders)
            comm_sleep();
    }
    const bool busy = comm->orders != NULL;
    comm_unlock();
    if (!ready)
        return face_fail(ncclInvalidArgument, "ncclCommRevoke: the communicator is not in use");
    return busy ? ncclInProgress : ncclSuccess;
}
NCCL_ALSO_P(ncclCommRevoke);

/* ---- Orderly end ----------------------------------------------------------------------------- */

/* Under the lock, which it gives up: begins rcm_destroy. Without a thread for it, comm is left. */
static void begin_end(struct ncclComm *comm) {
    rcm_comm_request *request = NULL;
    comm->state = COMM_ENDING;
    await_users(comm, -1);
    rcm_comm *rcm = comm->rcm;
    comm->rcm = NULL;
    comm_unlock();
    const rcm_status status = rcm_destroy_begin(rcm, &request);
    if (status != RCM_OK)
        (void)!rcm_leave(rcm);
    comm_lock();
    comm->request = request;
    if (!request)
        comm->state = COMM_ENDED;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    const ncclResult_t result = comm_enter(comm, 0, __func__);
    if (result != ncclSuccess)
        return group_fail(result);
    comm_lock();
    comm->users--;
    begin_end(comm);
    comm_unlock();
    return comm_await(comm);
}
NCCL_ALSO_P(ncclCommFinalize);

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    const ncclResult_t result = check(comm, __func__);
    struct ending *ending = malloc(sizeof *ending);
    if (result != ncclSuccess || !ending) {
        free(ending);
        return result != ncclSuccess ? result : face_fail(ncclSystemError, "no memory");
    }
    comm_lock();
    (void)endings_poll();
    comm_poll(comm);
    if (comm->state == COMM_MAKING) {
        comm_unlock();
        free(ending);
        return ncclCommAbort(comm);
    }
    orders_release(comm);
    if (comm->state == COMM_READY)
        begin_end(comm);
    await_users(comm, -1);
    *ending = (struct ending){endings, comm};
    endings = ending;
    (void)endings_poll();
    comm_unlock();
    return ncclSuccess;
}
NCCL_ALSO_P(ncclCommDestroy);
