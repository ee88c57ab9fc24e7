/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: each is one of ringcomm.h. Its error handler and name are local. */
#ifndef MPI_COMM_H
#define MPI_COMM_H

#include "form.h"

struct MPI_ABI_Comm {
    rcm_comm *comm;         /* of an intercommunicator: that of both groups, one behind the other */
    int rank, size;         /* in the own group */
    int own_first;          /* the own group's first rank in comm */
    int peer_first, npeers; /* the ranks that messages go to: all, or those of the other group */
    bool is_inter;
    MPI_Errhandler handler; /* see handler_of */
    struct attribute *attributes;
    struct cart *cart;       /* the topology, or NULL */
    struct pool *pool;       /* of its own buffer for MPI_Bsend, or NULL */
    uint64_t id;             /* equal on all ranks, and no other's: see comm_next_id */
    atomic_ullong nchildren; /* communicators that all its ranks made of it */
    atomic_ullong nshrunk;   /* those of MPIX_Comm_shrink */
    atomic_int references;   /* the program's, and those of requests and messages */
    char name[MPI_MAX_OBJECT_NAME];
};

struct MPI_ABI_Errhandler {
    MPI_Comm_errhandler_function *function;
    int references;
};

/* Makes the world, and closes all communicators that MPI has. */
int comm_open_world(struct form *form);
int comm_close_world(struct form *form);
/* Whether MPI is initialized and not finalized; what MPI_Init and MPI_Finalize set. */
extern atomic_bool comm_running, comm_initialized, comm_finalized;
extern int comm_thread_level;
static inline bool comm_is_open(void) {
    return atomic_load(&comm_running);
}

/* Finds a communicator by its handle, and makes its error handler the call's. */
extern struct MPI_ABI_Comm comm_basics[2]; /* the world, and that of this rank only */
RARE int comm_refuse(struct form *form, MPI_Comm handle);
static inline int comm_find(struct form *form, MPI_Comm handle, struct MPI_ABI_Comm **ret_comm) {
    const uintptr_t i = (uintptr_t)handle - (uintptr_t)MPI_COMM_WORLD;
    *ret_comm = i < 2 ? &comm_basics[i] : handle;
    if (!comm_is_open() || (i >= 2 && (is_predefined(handle) || !handle->references)))
        return comm_refuse(form, handle);
    form->comm = handle;
    return MPI_SUCCESS;
}
/* Checks the kind of a communicator. */
int comm_check_inter(struct form *form, const struct MPI_ABI_Comm *comm);
int comm_check_intra(struct form *form, const struct MPI_ABI_Comm *comm);
int comm_check_cart(struct form *form, const struct MPI_ABI_Comm *comm);
/* Checks rank and tag of a message. With `any`, MPI_ANY_SOURCE and MPI_ANY_TAG are legal;
 * MPI_PROC_NULL always is. */
int comm_check_peer(struct form *form, const struct MPI_ABI_Comm *comm, int rank, int tag,
                    bool any);
int comm_check_root(struct form *form, const struct MPI_ABI_Comm *comm, int root);
/* A peer of the program as a rank of ringcomm.h, and a tag. */
static inline int comm_peer(const struct MPI_ABI_Comm *comm, int rank) {
    return rank == MPI_ANY_SOURCE ? RCM_ANY_SOURCE : comm->peer_first + rank;
}
static inline uint64_t comm_tag(int tag) {
    return tag == MPI_ANY_TAG ? RCM_ANY_TAG : (uint64_t)tag;
}
/* The communicator for error handling of calls that name none. */
MPI_Comm comm_default(void);
/* Makes a handle without a communicator yet, with the error handler of `parent`. */
int comm_new(struct form *form, const struct MPI_ABI_Comm *parent, MPI_Comm *ret_comm);
/* A reference to a handle, which may be predefined. The last one ends the communicator. */
void comm_get(MPI_Comm comm);
void comm_put(MPI_Comm comm);
/* Makes the error handler of `comm` that of the call. It stays until the call has ended. */
void form_hold(struct form *form, MPI_Comm comm);
/* The id of the next communicator that all ranks of `parent` make of it, in one order; and of the
 * next one of those that live. comm_mix makes ids of others, and tags. */
uint64_t comm_next_id(struct MPI_ABI_Comm *parent);
uint64_t comm_next_shrunk_id(struct MPI_ABI_Comm *parent);
uint64_t comm_mix(uint64_t id, uint64_t number);
/* Wraps a communicator that was made from `parent` with this status. NULL in `made`, or no member
 * of it: MPI_COMM_NULL. After an error it is ended. */
int comm_wrap(struct form *form, const struct MPI_ABI_Comm *parent, uint64_t id, rcm_status status,
              rcm_comm *made, MPI_Comm *ret_comm);
/* Makes an intercommunicator of a wrapped communicator: its first `nfirst` ranks are a group, and
 * the others are. comm_divided returns nfirst. */
void comm_divide(MPI_Comm comm, int nfirst);
static inline int comm_divided(const struct MPI_ABI_Comm *comm) {
    return comm->own_first == 0 ? comm->size : comm->npeers;
}
/* Ends a communicator (NULL: none) without waiting for other ranks. */
void comm_end(rcm_comm *comm);
/* Ends those that could not be ended in a callback; `waits`: after all callbacks. */
void comm_end_rests(bool waits);
/* rcm_work_detach; the callback's last call is comm_detached. */
rcm_status comm_detach(rcm_work *work, void (*function)(void *arg, rcm_status status), void *arg);
void comm_detached(void);
/* The program goes on without ranks that died: MPI_Finalize does not report them. */
void comm_survive(void);
/* A duplicate of the world for messages of this library, which no receive of the program gets. */
rcm_comm *comm_internal(void);
/* The communicator of a handle; the world for one that is none. And the handle. */
struct MPI_ABI_Comm *comm_object(MPI_Comm handle);
MPI_Comm comm_handle(struct MPI_ABI_Comm *comm);
/* Its name in errors. */
static inline const char *comm_name(const struct MPI_ABI_Comm *comm) {
    return comm->name[0] ? comm->name : "an unnamed communicator";
}
/* The error handler of a communicator, with a reference. */
MPI_Errhandler handler_of(const struct MPI_ABI_Comm *comm);
void handler_put(MPI_Errhandler handler);
/* Ends the process after an error that no handler returns. */
_Noreturn void comm_die(MPI_Comm comm, int exit_status, const char *reason);

#endif
