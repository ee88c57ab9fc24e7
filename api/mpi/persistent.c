/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent requests: keeping the arguments, and starting. */
#include <stdlib.h>
#include <string.h>
#include "faces.h"
#include "operators.h"
#include "request.h"

/* A copy of arguments, or a reference to an object that the program may free before it starts the
 * request. */
struct hold {
    struct hold *next;
    struct MPI_ABI_Datatype *type; /* or NULL */
    MPI_Op op;                     /* or MPI_OP_NULL */
    MPI_Count copy[];              /* of bytes */
};

/* Returns the copy of `bytes` bytes, if there are some. NULL, and form->code is set: no memory. */
static void *hold(struct form *form, struct MPI_ABI_Datatype *type, MPI_Op op, const void *items,
                  size_t bytes) {
    struct hold *made = malloc(sizeof *made + bytes);
    if (!made) {
        form->code = form_error(form, MPI_ERR_NO_MEM, "no memory to keep the arguments");
        return NULL;
    }
    *made = (struct hold){form->holds, type, op};
    form->holds = made;
    if (type)
        type_get(type);
    op_get(op);
    return bytes ? memcpy(made->copy, items, bytes) : made->copy;
}

void holds_drop(struct hold *holds) {
    while (holds) {
        struct hold *next = holds->next;
        if (holds->type)
            type_put(holds->type);
        op_put(holds->op);
        free(holds);
        holds = next;
    }
}

MPI_Datatype form_keep_datatype(struct form *form, MPI_Datatype handle) {
    if (!is_predefined(handle))
        (void)hold(form, handle, MPI_OP_NULL, NULL, 0);
    return handle;
}

MPI_Op form_keep_op(struct form *form, MPI_Op op) {
    if (!is_predefined(op))
        (void)hold(form, NULL, op, NULL, 0);
    return op;
}

int form_keep(struct form *form, form_start start, const void *arguments, size_t bytes,
              MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    if (form->code == MPI_SUCCESS)
        form->code = comm_find(form, handle, &comm);
    void *copy = form->code == MPI_SUCCESS ? hold(form, NULL, MPI_OP_NULL, arguments, bytes) : NULL;
    MPI_Request request = copy ? request_new(form) : NULL;
    if (!request) {
        holds_drop(form->holds);
        return form->code;
    }
    request->holds = form->holds;
    request->arguments = copy;
    request->start = start;
    request->is_persistent = true;
    *form->ret_request = request;
    return MPI_SUCCESS;
}

struct array form_keep_array(struct form *form, struct array array, MPI_Comm handle, int root) {
    struct MPI_ABI_Comm *comm;
    form->code = form->code != MPI_SUCCESS ? form->code : comm_find(form, handle, &comm);
    const bool is_root =
        form->code == MPI_SUCCESS && root == (comm->is_inter ? MPI_ROOT : comm->rank);
    if (form->code != MPI_SUCCESS || !array.items || (root > KEEP_OWN_GROUP && !is_root))
        return (struct array){NULL, array.large};
    const int n = root == KEEP_OWN_GROUP ? comm->size : comm->npeers;
    const size_t bytes = array.large ? sizeof(MPI_Count) : sizeof(int);
    return (struct array){hold(form, NULL, MPI_OP_NULL, array.items, bytes * (size_t)n),
                          array.large};
}

const MPI_Datatype *form_keep_types(struct form *form, const MPI_Datatype *types, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    form->code = form->code != MPI_SUCCESS ? form->code : comm_find(form, handle, &comm);
    if (form->code != MPI_SUCCESS || !types)
        return NULL;
    for (int i = 0; i < comm->npeers; i++)
        (void)form_keep_datatype(form, types[i]);
    return hold(form, NULL, MPI_OP_NULL, types, sizeof *types * (size_t)comm->npeers);
}

int face_Start(struct form *form, MPI_Request *place) {
    MPI_Request request = *place;
    if (is_predefined(request) || !request->is_persistent)
        return form_error(form, MPI_ERR_REQUEST, "request is not persistent");
    form->comm = request->comm;
    if (request->is_active)
        return form_error(form, MPI_ERR_REQUEST, "the request of %s is active already. Wait for it",
                          request->name);
    struct form started = {.name = request->name,
                           .kind = FORM_BEGIN,
                           .ret_request = place,
                           .comm = request->comm,
                           .request = request};
    return request->start(&started, request->arguments);
}

int face_Startall(struct form *form, int n, MPI_Request *requests) {
    for (int i = 0; i < n; i++) {
        const int code = face_Start(form, &requests[i]);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}
