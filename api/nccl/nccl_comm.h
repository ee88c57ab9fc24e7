/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator of the face, around one of ringcomm.h.
 *
 *      MAKING ----> READY ----> ENDING ----> ENDED         freed by Destroy or Abort
 *         \---> FAILED            Finalize
 *
 * One lock guards the fields of all communicators. It is not held during a call of ringcomm.h that
 * waits or enters an engine, because callbacks on an engine's thread take the lock.
 */
#ifndef NCCL_COMM_H
#define NCCL_COMM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "nccl_errors.h"
#include "nccl_objects.h"

enum comm_state { COMM_MAKING, COMM_READY, COMM_ENDING, COMM_ENDED, COMM_FAILED };

struct order;
struct ncclComm {
    struct ncclComm *next;   /* in the list of all */
    uint64_t id;             /* of no other communicator, also not of a freed one */
    struct ncclComm *parent; /* while a split or shrink makes it */
    enum comm_state state;
    int rank, size, device;
    bool blocking;
    char name[RCM_NAME_MAX];
    rcm_comm *rcm;             /* from READY until its end begins */
    rcm_init_request *init;    /* MAKING, one of these */
    rcm_comm_request *request; /* also ENDING */
    int users;                /* calls that use the fields above; while positive, it is not freed */
    bool destroyed;           /* Destroy or Abort was called: the handle is no longer valid */
    bool ends_alone;          /* freed when it has ended: destroyed, or of ncclCommSplit without a
                               * colour, which has no handle */
    bool revoked, released;   /* released: failed orders end, see stream_order.h */
    int shrinking;            /* calls that may revoke it; until then, their abort is no error */
    struct order *orders;     /* unfinished or failed */
    struct object *operators; /* created by the program */
    struct object *registrations;
    ncclResult_t result; /* the first error, and its text */
    char text[512];
};

void comm_lock(void);
void comm_unlock(void);
/* Under the lock, which it gives up for 0.5 ms. Requests of ringcomm.h are polled, so that another
 * thread can cancel them meanwhile. */
void comm_sleep(void);

/* Under the lock: is it a communicator, with that id, and not destroyed? Another thread may have
 * ended it, and the handle of a program may be uninitialised. No communicator has the id 0. */
#define COMM_ANY UINT64_MAX /* any id */
bool comm_lives(const struct ncclComm *comm, uint64_t id);
/* Locks, if it is a communicator. After an error, whose text names `what`, nothing is locked. */
ncclResult_t comm_hold(const struct ncclComm *comm, uint64_t id, const char *what);
/* The same, and the communicator is ready. */
ncclResult_t comm_hold_ready(struct ncclComm *comm, uint64_t id, const char *what);
/* Begins a call that uses comm->rcm: the communicator is ready, or the error; comm_exit ends it.
 * id: not COMM_ANY, where the handle was stored and another thread may have aborted it since. */
ncclResult_t comm_enter(struct ncclComm *comm, uint64_t id, const char *what);
void comm_exit(struct ncclComm *comm);

/* Adds a communicator in the state MAKING, which the caller uses. config NULL: the parent's, or
 * defaults. */
ncclResult_t comm_new(int device, const struct ncclComm *parent, const ncclConfig_t *config,
                      struct ncclComm **ret_comm);
ncclResult_t comm_configure(struct ncclComm *comm, const struct ncclComm *parent,
                            const ncclConfig_t *config);
/* Under the lock: removes it from the list, and frees it. */
void comm_free(struct ncclComm *comm);
/* Under the lock: the list of all. */
struct ncclComm *comm_first(void);

/* Under the lock: proceeds with what is being made or ended, without waiting. */
void comm_poll(struct ncclComm *comm);
/* The same for all; frees those that end alone and have ended. Returns whether destroyed ones have
 * not. */
bool comms_poll(void);
/* Under the lock: keeps the first error, and makes its text the process's last one. */
void comm_fail(struct ncclComm *comm, ncclResult_t result, const char *text);
/* Under the lock: the error that it is known to have, whose text becomes the last one. */
ncclResult_t comm_error(const struct ncclComm *comm);
/* A copy of the communicator's error text; false: it has no error. */
bool comm_error_text(struct ncclComm *comm, char *text, size_t cap);

/* Ends a call that makes or finalizes comm, and the call's use of it: waits if comm is blocking and
 * no group is open. */
ncclResult_t comm_await(struct ncclComm *comm);
/* For a communicator that comm_await added to a group: waits for it at the group's end. ends: it
 * was finalized, and may have been destroyed since. why: instead, because the group failed, ends
 * what is being made, also on other ranks. */
ncclResult_t comm_wait(struct ncclComm *comm, uint64_t id, bool ends, const char *why);

/* Without the lock: ends what was registered with comm, which no call uses; rcm is its
 * communicator. */
void registrations_end(struct ncclComm *comm, rcm_comm *rcm);

#endif
