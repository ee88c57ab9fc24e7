/* SPDX-License-Identifier: BSD-3-Clause */
/* Error handlers of communicators, and the end of a process by an error or MPI_Abort. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "mpi_comm.h"
#include "faces.h"
#include "leaks.h"

/* Of references and of the handlers of all communicators: one that is replaced may be in use. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

MPI_Errhandler handler_of(const struct MPI_ABI_Comm *comm) {
    pthread_mutex_lock(&lock);
    MPI_Errhandler handler = comm->handler;
    if (!is_predefined(handler))
        handler->references++;
    pthread_mutex_unlock(&lock);
    return handler;
}

void handler_put(MPI_Errhandler handler) {
    if (is_predefined(handler))
        return;
    pthread_mutex_lock(&lock);
    const bool is_last = --handler->references == 0;
    pthread_mutex_unlock(&lock);
    if (!is_last)
        return;
    free(handler);
    leaks_count(leak_errhandler, -1);
}

void form_hold(struct form *form, MPI_Comm comm) {
    comm_get(comm);
    comm_put(form->held);
    form->held = form->comm = comm;
}

static void call_handler(const struct form *form, int code) {
    MPI_Comm comm = form->comm ? form->comm : comm_default();
    const MPI_Errhandler handler = handler_of(comm_object(comm));
    if (handler == MPI_ERRORS_RETURN)
        return;
    if (!is_predefined(handler)) {
        int copy = code;
        handler->function(&comm, &copy);
        handler_put(handler);
        return;
    }
    char text[MPI_MAX_ERROR_STRING];
    const char *name = comm != MPI_COMM_NULL ? comm_name(comm_object(comm)) : "no communicator";
    error_text(code, text, sizeof text);
    fprintf(stderr, "ringcomm: fatal error in %s on %s: %s\n", form->name, name, text);
    comm_die(comm, error_class(code), text);
}

int form_failed(struct form *form, int code) {
    call_handler(form, code);
    comm_put(form->held);
    form->held = NULL;
    return code;
}

int face_Comm_create_errhandler(struct form *form, MPI_Comm_errhandler_function *function,
                                MPI_Errhandler *ret_handler) {
    struct MPI_ABI_Errhandler *made = calloc(1, sizeof *made);
    if (!made)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for an error handler");
    made->function = function;
    made->references = 1;
    leaks_count(leak_errhandler, 1);
    *ret_handler = made;
    return MPI_SUCCESS;
}

int face_Errhandler_free(struct form *form, MPI_Errhandler *handler) {
    if (*handler == MPI_ERRHANDLER_NULL)
        return form_error(form, MPI_ERR_ERRHANDLER, "errhandler is MPI_ERRHANDLER_NULL");
    handler_put(*handler);
    *handler = MPI_ERRHANDLER_NULL;
    return MPI_SUCCESS;
}

int face_Comm_set_errhandler(struct form *form, struct MPI_ABI_Comm *comm, MPI_Errhandler handler) {
    if (handler == MPI_ERRHANDLER_NULL)
        return form_error(form, MPI_ERR_ERRHANDLER, "errhandler is MPI_ERRHANDLER_NULL");
    pthread_mutex_lock(&lock);
    const MPI_Errhandler replaced = comm->handler;
    comm->handler = handler;
    if (!is_predefined(handler))
        handler->references++;
    pthread_mutex_unlock(&lock);
    handler_put(replaced);
    return MPI_SUCCESS;
}

int face_Comm_call_errhandler(struct form *form, struct MPI_ABI_Comm *comm, int code) {
    (void)form_failed(form, code);
    return MPI_SUCCESS;
}
