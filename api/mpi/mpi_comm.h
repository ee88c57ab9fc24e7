/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: each is one of ringcomm.h. Its error handler and name are local. */
#ifndef MPI_COMM_H
#define MPI_COMM_H

#include "form.h"

struct MPI_ABI_Comm {
    rcm_comm *comm;
    int rank, size;
    _Atomic(MPI_Errhandler) handler;
    struct attribute *attributes;
    struct pool *pool; /* of its own buffer for MPI_Bsend, or NULL */
    char name[MPI_MAX_OBJECT_NAME];
};

struct MPI_ABI_Errhandler {
    MPI_Comm_errhandler_function *function;
    atomic_int references;
};

/* Makes the world, and closes all communicators that MPI has. */
int comm_open_world(struct form *form);
int comm_close_world(struct form *form);
/* Whether MPI is initialized and not finalized. */
bool comm_is_open(void);

/* Finds a communicator by its handle, and makes its error handler the call's. */
int comm_find(struct form *form, MPI_Comm handle, struct MPI_ABI_Comm **ret_comm);
/* The same; rank is also checked. With `any`, MPI_ANY_SOURCE is legal; MPI_PROC_NULL always is. */
int comm_find_peer(struct form *form, MPI_Comm handle, int rank, bool any,
                   struct MPI_ABI_Comm **ret_comm);
/* The same; root is checked. */
int comm_find_root(struct form *form, MPI_Comm handle, int root, struct MPI_ABI_Comm **ret_comm);
/* The communicator for error handling of calls that name none. */
MPI_Comm comm_default(void);
/* Wraps a communicator that was made from `parent`. NULL in `made`: MPI_COMM_NULL. */
int comm_wrap(struct form *form, const struct MPI_ABI_Comm *parent, rcm_comm *made,
              MPI_Comm *ret_comm);
/* The error handler of a communicator, or of the world. */
MPI_Errhandler comm_handler(MPI_Comm comm);
/* Ends the process after an error that no handler returns. */
_Noreturn void comm_die(MPI_Comm comm, int exit_status, const char *reason);

#endif
