/* SPDX-License-Identifier: BSD-3-Clause */
/* See request.h: operations, and the functions that wait for one request. */
#include "request.h"
#include <stdlib.h>
#include <string.h>
#include "faces.h"
#include "generalized.h"
#include "leaks.h"
#include "operators.h"

MPI_Request request_new(struct form *form) {
    MPI_Request request = calloc(1, sizeof *request);
    if (!request) {
        form->code = form_error(form, MPI_ERR_NO_MEM, "no memory for a request");
        return NULL;
    }
    request->name = form->name;
    request->comm = form->comm;
    comm_get(request->comm);
    leaks_count(request->name, 1);
    return request;
}

void request_free(MPI_Request request) {
    holds_drop(request->holds);
    free(request->generalized);
    comm_put(request->comm);
    leaks_count(request->name, -1);
    free(request);
}

/* Begins an operation whose two buffers the caller binds. */
static inline struct operation *begin(struct form *form, struct operation *local) {
    struct operation *operation = local;
    if (form->kind == FORM_BEGIN) {
        if (!form->request)
            form->request = request_new(form);
        if (!form->request)
            return NULL;
        operation = &form->request->operation;
    }
    operation->work = NULL;
    operation->making = NULL;
    operation->is_receive = false;
    operation->blocks = NULL;
    operation->temporary = NULL;
    operation->made_op = NULL;
    operation->nblocks = operation->nsend = 0;
    operation->fold.n = 0;
    return operation;
}

/* Packs a buffer; one of a result also where that is in place or is not written everywhere. */
RARE static int pack_side(struct form *form, const struct side *side, const struct side *other,
                          bool is_result, struct MPI_ABI_Datatype *type, struct data *data) {
    const bool is_read = !is_result || side->keeps || (other && other->buffer == MPI_IN_PLACE);
    return data_pack(form, side->buffer, side->count, type, is_read ? DATA_IN : DATA_OUT, data);
}

static inline int bind_side(struct form *form, const struct side *side, const struct side *other,
                            bool is_result, struct data *data) {
    if (side && side->buffer != MPI_IN_PLACE) {
        struct MPI_ABI_Datatype *packs;
        const int code = data_find(form, side->buffer, side->count, side->type, data, &packs);
        return packs ? pack_side(form, side, other, is_result, packs, data) : code;
    }
    data_clear(data);
    if (!side || other)
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_BUFFER,
                      "a buffer is MPI_IN_PLACE, but this rank has no other one");
}

int operation_bind(struct form *form, struct operation *local, const struct side *send,
                   const struct side *recv, struct operation **ret_operation) {
    struct operation *operation = *ret_operation = begin(form, local);
    if (!operation)
        return form->code;
    int code = bind_side(form, send, recv, false, &operation->send);
    if (code == MPI_SUCCESS)
        code = bind_side(form, recv, send, true, &operation->recv);
    else
        operation->recv.packed = NULL;
    return code == MPI_SUCCESS ? code : operation_drop(form, operation, code);
}

int operation_copy(struct form *form, struct operation *operation, const struct side *side) {
    const int code = data_copy(form, side->buffer, side->count, side->type, &operation->send);
    return code == MPI_SUCCESS ? code : operation_drop(form, operation, code);
}

/* Combines the contributions in the order of the ranks. */
static rcm_status fold(const struct operation *operation) {
    const struct fold *fold = &operation->fold;
    const size_t bytes = operation->recv.bytes;
    char *result = (char *)operation->temporary + fold->skip + fold->stride * (size_t)(fold->n - 1);
    rcm_status status = RCM_OK;
    for (int i = 1; bytes && status == RCM_OK && i < fold->n; i++)
        status = rcm_reduce_local(result - fold->stride * (size_t)i, result,
                                  bytes / rcm_dtype_size(fold->dtype), fold->dtype, fold->op);
    if (bytes)
        memcpy(operation->recv.address, result, bytes);
    return status;
}

/* Computes and unpacks results, and frees what the operation held. Returns status, or why the
 * result could not be computed. */
RARE static rcm_status operation_release(struct operation *operation, rcm_status status) {
    if (operation->fold.n && status == RCM_OK)
        status = fold(operation);
    data_finish(&operation->send, false, 0);
    data_finish(&operation->recv, true,
                operation->is_receive ? operation->message.bytes : operation->recv.bytes);
    for (int i = 0; i < operation->nblocks; i++)
        data_finish(&operation->blocks[i], i >= operation->nsend, operation->blocks[i].bytes);
    free(operation->blocks);
    free(operation->temporary);
    reduction_end(operation->made_op);
    operation->blocks = NULL;
    operation->temporary = NULL;
    operation->made_op = NULL;
    operation->nblocks = 0;
    return status;
}

static inline rcm_status operation_finish(struct operation *operation, rcm_status status) {
    return operation_is_plain(operation) ? status : operation_release(operation, status);
}

static void operation_status(const struct operation *operation, bool is_canceled,
                             MPI_Status *ret_status) {
    if (!ret_status)
        return;
    const bool is_none = operation->source == MPI_PROC_NULL || is_canceled;
    if (operation->is_receive && !is_none)
        status_receive(ret_status, &operation->message, operation->peer_first);
    else
        status_set(ret_status, operation->is_receive ? MPI_PROC_NULL : MPI_ANY_SOURCE, MPI_ANY_TAG,
                   0, is_canceled);
}

int operation_drop(struct form *form, struct operation *operation, int code) {
    (void)operation_finish(operation, RCM_ERR_CANCELED);
    if (form->kind == FORM_BEGIN && !form->request->is_persistent)
        request_free(form->request);
    return code;
}

int operation_ended(struct form *form, struct operation *operation, rcm_status status,
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
    const int code = form_status(form, operation_finish(operation, status));
    operation_status(operation, false, ret_status);
    return code;
}

/* The operation of an active request has ended. */
static void request_ended(struct form *form, MPI_Request request, rcm_status status) {
    request->is_canceled = status == RCM_ERR_CANCELED && request->is_canceled;
    if (request->is_canceled)
        request->operation.message.bytes = 0;
    status = operation_finish(&request->operation, status);
    request->code = request->is_canceled ? MPI_SUCCESS : form_status(form, status);
    rcm_work_free(request->operation.work);
    request->operation.work = NULL;
    request->is_done = true;
}

bool request_is_null(MPI_Request request) {
    return is_predefined(request) || !request->is_active;
}

int request_making(struct form *form, rcm_comm_request *making, rcm_comm **made,
                   MPI_Request *ret_request) {
    form->kind = FORM_BEGIN;
    form->ret_request = ret_request;
    struct operation *operation = NULL;
    if (operation_bind(form, NULL, NULL, NULL, &operation) != MPI_SUCCESS) {
        rcm_comm_request_cancel(making);
        return form->code;
    }
    operation->making = making;
    operation->made = made;
    return operation_issued(form, operation, RCM_OK, NULL);
}

/* Tests, or waits for, what the request waits for. */
static rcm_status poll_operation(struct operation *operation, int64_t timeout_ms) {
    rcm_work *work = operation->work;
    if (!operation->making)
        return !work ? RCM_OK : timeout_ms ? rcm_work_wait(work, timeout_ms) : rcm_work_test(work);
    const rcm_status status =
        timeout_ms ? rcm_comm_request_wait(operation->making, timeout_ms, operation->made)
                   : rcm_comm_request_test(operation->making, operation->made);
    if (status != RCM_PENDING) {
        rcm_comm_request_cancel(operation->making);
        operation->making = NULL;
    }
    return status;
}

bool request_poll(struct form *form, MPI_Request request, bool wait) {
    if (request_is_null(request) || request->is_done)
        return true;
    wait |=
        request->generalized && atomic_load(&request->generalized->state) == GENERALIZED_COMPLETE;
    const rcm_status status = poll_operation(&request->operation, wait ? -1 : 0);
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
    form->comm = form->held; /* of an earlier request that failed, or none */
    if (code != MPI_SUCCESS && !form->held)
        form_hold(form, request->comm);
    request->is_active = false;
    if (!request->is_persistent) {
        request_free(request);
        *place = MPI_REQUEST_NULL;
    }
    return code;
}

bool request_is_making(MPI_Request request) {
    return !request_is_null(request) && !request->is_done && request->operation.making;
}

rcm_work *request_work(MPI_Request request) {
    return request_is_null(request) || request->is_done ? NULL : request->operation.work;
}

int face_wait_one(struct form *form, MPI_Request *request, bool wait, int *ret_flag,
                  MPI_Status *ret_status) {
    const bool is_complete = request_poll(form, *request, wait);
    if (ret_flag)
        *ret_flag = is_complete;
    return is_complete ? request_take(form, request, ret_status) : MPI_SUCCESS;
}

int face_Request_get_status(struct form *form, MPI_Request request, int *ret_flag,
                            MPI_Status *ret_status) {
    *ret_flag = request_poll(form, request, false);
    return *ret_flag ? request_peek(form, request, ret_status) : MPI_SUCCESS;
}

/* The operation of a request that the program has freed is complete. */
static void released(void *arg, rcm_status status) {
    MPI_Request request = arg;
    (void)operation_finish(&request->operation, status);
    request_free(request);
    comm_detached();
}

int face_Request_free(struct form *form, MPI_Request *place) {
    MPI_Request request = *place;
    if (is_predefined(request))
        return form_error(form, MPI_ERR_REQUEST, "request is MPI_REQUEST_NULL");
    *place = MPI_REQUEST_NULL;
    if (request->generalized)
        return generalized_release(form, request);
    if (request_is_making(request))
        (void)request_poll(form, request, true);
    rcm_work *work = request_work(request);
    if (work)
        return form_status(form, comm_detach(work, released, request));
    if (request->is_active && !request->is_done)
        (void)operation_finish(&request->operation, RCM_OK);
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
