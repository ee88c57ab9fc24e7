/* SPDX-License-Identifier: BSD-3-Clause */
/* See request.h: operations, and the functions that wait for one request. */
#include "request.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "faces.h"
#include "generalized.h"
#include "wait.h"

static atomic_long live_requests;

static MPI_Request request_new(struct form *form) {
    MPI_Request request = calloc(1, sizeof *request);
    if (!request) {
        form->code = form_error(form, MPI_ERR_NO_MEM, "no memory for a request");
        return NULL;
    }
    request->name = form->name;
    request->comm = form->comm;
    atomic_fetch_add(&live_requests, 1);
    return request;
}

void request_free(MPI_Request request) {
    for (int i = 0; i < FORM_ARRAYS; i++)
        free(request->arrays[i]);
    free(request->arguments);
    free(request->generalized);
    free(request);
    atomic_fetch_sub(&live_requests, 1);
}

void request_report_unfinished(void) {
    const char *level = getenv("RINGCOMM_LOG");
    const long n = atomic_load(&live_requests);
    if (n > 0 && level && (strcmp(level, "info") == 0 || strcmp(level, "debug") == 0))
        fprintf(stderr, "ringcomm: MPI_Finalize: %ld requests were not completed or freed\n", n);
}

/* All that is read of an operation whose buffers may not be bound. */
static inline void operation_clear(struct operation *operation) {
    operation->work = NULL;
    operation->message = (struct rcm_message)RCM_MESSAGE_INIT;
    operation->is_receive = false;
    operation->source = MPI_PROC_NULL;
    operation->send.packed = operation->send.address = NULL;
    operation->recv.packed = operation->recv.address = NULL;
    operation->send.bytes = operation->recv.bytes = operation->send.count = operation->recv.count =
        0;
    operation->blocks = NULL;
    operation->nblocks = operation->nsend = 0;
    operation->temporary = NULL;
}

struct operation *operation_begin(struct form *form, struct operation *local) {
    struct operation *operation = local;
    if (form->kind == FORM_BEGIN) {
        if (!form->request)
            form->request = request_new(form);
        if (!form->request)
            return NULL;
        operation = &form->request->operation;
    }
    operation_clear(operation);
    return operation;
}

/* Unpacks results and frees what the operation held. */
RARE static void operation_release(struct operation *operation) {
    data_finish(&operation->send, false, 0);
    data_finish(&operation->recv, true,
                operation->is_receive ? operation->message.bytes : operation->recv.bytes);
    for (int i = 0; i < operation->nblocks; i++)
        data_finish(&operation->blocks[i], i >= operation->nsend, operation->blocks[i].bytes);
    free(operation->blocks);
    free(operation->temporary);
    operation->blocks = NULL;
    operation->temporary = NULL;
    operation->nblocks = 0;
}

static inline void operation_finish(struct operation *operation) {
    if (operation->send.packed || operation->recv.packed || operation->blocks ||
        operation->temporary)
        operation_release(operation);
}

static void operation_status(const struct operation *operation, bool is_canceled,
                             MPI_Status *ret_status) {
    if (!ret_status)
        return;
    if (!operation->is_receive)
        status_set(ret_status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, is_canceled);
    else if (operation->source == MPI_PROC_NULL || is_canceled)
        status_set(ret_status, MPI_PROC_NULL, MPI_ANY_TAG, 0, is_canceled);
    else
        status_set(ret_status, operation->message.source, (int)operation->message.tag,
                   (MPI_Count)operation->message.bytes, false);
}

int operation_drop(struct form *form, struct operation *operation, int code) {
    operation_finish(operation);
    if (form->kind == FORM_BEGIN && !form->request->is_persistent)
        request_free(form->request);
    return code;
}

int operation_issued(struct form *form, struct operation *operation, rcm_status status,
                     MPI_Status *ret_status) {
    if (form->kind == FORM_BEGIN) {
        if (status != RCM_OK)
            return operation_drop(form, operation, form_status(form, status));
        form->request->is_active = true;
        form->request->is_done = false;
        form->request->is_canceled = false;
        *form->ret_request = form->request;
        return MPI_SUCCESS;
    }
    const int code = form_status(form, status);
    operation_finish(operation);
    operation_status(operation, false, ret_status);
    return code;
}

/* The operation of an active request has ended. */
static void request_ended(struct form *form, MPI_Request request, rcm_status status) {
    request->is_canceled = status == RCM_ERR_CANCELED && request->is_canceled;
    request->code = request->is_canceled ? MPI_SUCCESS : form_status(form, status);
    if (request->is_canceled)
        request->operation.message.bytes = 0;
    operation_finish(&request->operation);
    rcm_work_free(request->operation.work);
    request->operation.work = NULL;
    request->is_done = true;
}

bool request_is_null(MPI_Request request) {
    return is_predefined(request) || !request->is_active;
}

bool request_poll(struct form *form, MPI_Request request, bool wait) {
    if (request_is_null(request) || request->is_done)
        return true;
    rcm_work *work = request->operation.work;
    wait |= request->generalized && atomic_load(&request->generalized->is_complete);
    const rcm_status status = !work ? RCM_OK : wait ? rcm_work_wait(work, -1) : rcm_work_test(work);
    if (status == RCM_PENDING)
        return false;
    request_ended(form, request, status);
    return true;
}

int request_peek(struct form *form, MPI_Request request, MPI_Status *ret_status) {
    if (request_is_null(request)) {
        status_empty(ret_status);
        return MPI_SUCCESS;
    }
    form->comm = request->comm;
    if (request->generalized)
        return generalized_query(request, ret_status);
    operation_status(&request->operation, request->is_canceled, ret_status);
    return request->code;
}

int request_take(struct form *form, MPI_Request *place, MPI_Status *ret_status) {
    MPI_Request request = *place;
    int code = request_peek(form, request, ret_status);
    if (request_is_null(request))
        return code;
    if (request->generalized) {
        const int freed = generalized_free(request);
        code = code == MPI_SUCCESS ? freed : code;
    }
    request->is_active = false;
    if (!request->is_persistent) {
        request_free(request);
        *place = MPI_REQUEST_NULL;
    }
    return code;
}

rcm_work *request_work(MPI_Request request) {
    return request_is_null(request) || request->is_done ? NULL : request->operation.work;
}

int face_Wait(struct form *form, MPI_Request *request, MPI_Status *ret_status) {
    (void)request_poll(form, *request, true);
    return request_take(form, request, ret_status);
}

int face_Test(struct form *form, MPI_Request *request, int *ret_flag, MPI_Status *ret_status) {
    *ret_flag = request_poll(form, *request, false);
    return *ret_flag ? request_take(form, request, ret_status) : MPI_SUCCESS;
}

int face_Request_get_status(struct form *form, MPI_Request request, int *ret_flag,
                            MPI_Status *ret_status) {
    *ret_flag = request_poll(form, request, false);
    return *ret_flag ? request_peek(form, request, ret_status) : MPI_SUCCESS;
}

/* The operation of a request that the program has freed is complete. */
static void released(void *arg, rcm_status status) {
    MPI_Request request = arg;
    (void)status;
    operation_finish(&request->operation);
    request_free(request);
}

int face_Request_free(struct form *form, MPI_Request *place) {
    MPI_Request request = *place;
    if (is_predefined(request))
        return form_error(form, MPI_ERR_REQUEST, "request is MPI_REQUEST_NULL");
    *place = MPI_REQUEST_NULL;
    rcm_work *work = request_work(request);
    if (work && request->generalized) {
        request->generalized->is_released = true;
        return MPI_SUCCESS;
    }
    if (work)
        return form_status(form, rcm_work_detach(work, released, request));
    if (request->is_active && !request->is_done)
        operation_finish(&request->operation);
    request_free(request);
    return MPI_SUCCESS;
}

int face_Cancel(struct form *form, MPI_Request *place) {
    if (is_predefined(*place))
        return form_error(form, MPI_ERR_REQUEST, "request is MPI_REQUEST_NULL");
    rcm_work *work = request_work(*place);
    if ((*place)->generalized)
        return generalized_cancel(*place);
    if (!work || !(*place)->operation.is_receive)
        return MPI_SUCCESS;
    (*place)->is_canceled = true;
    const rcm_status status = rcm_work_cancel(work);
    return status == RCM_PENDING ? MPI_SUCCESS : form_status(form, status);
}

int form_keep(struct form *form, form_start start, const void *arguments, size_t bytes,
              MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    int code = form->code != MPI_SUCCESS ? form->code : comm_find(form, handle, &comm);
    MPI_Request request = code == MPI_SUCCESS ? request_new(form) : NULL;
    void *copy = malloc(bytes + 1);
    if (!request || !copy) {
        for (int i = 0; i < form->narrays; i++)
            free(form->arrays[i]);
        if (request)
            request_free(request);
        free(copy);
        return code != MPI_SUCCESS ? code : form_error(form, MPI_ERR_NO_MEM, "no memory");
    }
    memcpy(copy, arguments, bytes);
    memcpy(request->arrays, form->arrays, sizeof request->arrays);
    request->arguments = copy;
    request->start = start;
    request->is_persistent = true;
    *form->ret_request = request;
    return MPI_SUCCESS;
}

/* A copy of n entries that the request will own. */
static void *keep_copy(struct form *form, const void *items, size_t bytes) {
    void *copy = form->narrays < FORM_ARRAYS ? malloc(bytes + 1) : NULL;
    if (!copy) {
        form->code = form_error(form, MPI_ERR_NO_MEM, "no memory for copies of the arguments");
        return NULL;
    }
    form->arrays[form->narrays++] = copy;
    return memcpy(copy, items, bytes);
}

struct array form_keep_array(struct form *form, struct array array, MPI_Comm handle, int root) {
    struct MPI_ABI_Comm *comm;
    form->code = form->code != MPI_SUCCESS ? form->code : comm_find(form, handle, &comm);
    if (form->code != MPI_SUCCESS || !array.items || (root >= 0 && root != comm->rank))
        return (struct array){NULL, array.large};
    const size_t bytes = array.large ? sizeof(MPI_Count) : sizeof(int);
    return (struct array){keep_copy(form, array.items, bytes * (size_t)comm->size), array.large};
}

const MPI_Datatype *form_keep_types(struct form *form, const MPI_Datatype *types, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    form->code = form->code != MPI_SUCCESS ? form->code : comm_find(form, handle, &comm);
    if (form->code != MPI_SUCCESS || !types)
        return NULL;
    return keep_copy(form, types, sizeof *types * (size_t)comm->size);
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
