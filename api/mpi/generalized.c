/* SPDX-License-Identifier: BSD-3-Clause */
/* See generalized.h. */
#include "generalized.h"
#include <pthread.h>
#include <stdlib.h>
#include "faces.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rcm_comm *hidden; /* of this rank; made for the first request */

static rcm_status begin_receive(rcm_comm *self, uint64_t *ret_number, rcm_work **ret_work) {
    static uint64_t last_number;
    const int rank = 0;
    const uint64_t tag = (uint64_t)1 << 33; /* none of MPI_Comm_create_group or MPI_Comm_create */
    pthread_mutex_lock(&lock);
    rcm_status status = hidden ? RCM_OK : rcm_comm_subset(self, &rank, 1, tag, NULL, &hidden);
    if (status == RCM_OK)
        status = rcm_irecv(hidden, NULL, 0, RCM_UINT8, 0, *ret_number = ++last_number, ret_work);
    pthread_mutex_unlock(&lock);
    return status;
}

rcm_status generalized_close(void) {
    const rcm_status status = rcm_destroy(hidden);
    hidden = NULL;
    return status;
}

int generalized_start(struct form *form, const struct generalized *functions,
                      MPI_Request *ret_request) {
    struct MPI_ABI_Comm *self;
    const int code = comm_find(form, MPI_COMM_SELF, &self);
    struct generalized *made = code == MPI_SUCCESS ? malloc(sizeof *made) : NULL;
    if (!made)
        return code != MPI_SUCCESS ? code : form_error(form, MPI_ERR_NO_MEM, "no memory");
    *made = *functions;
    form->kind = FORM_BEGIN;
    form->ret_request = ret_request;
    struct operation *operation;
    if (operation_bind(form, NULL, NULL, NULL, &operation) != MPI_SUCCESS) {
        free(made);
        return form->code;
    }
    form->request->generalized = made;
    return operation_issued(form, operation,
                            begin_receive(self->comm, &made->number, &operation->work), NULL);
}

/* Also in a callback of the library, where nothing may wait. */
int face_Grequest_complete(struct form *form, MPI_Request request) {
    rcm_work *work;
    if (is_predefined(request) || !request->generalized)
        return form_error(form, MPI_ERR_REQUEST, "request is not one of MPI_Grequest_start");
    const uint64_t number = request->generalized->number;
    /* First, because a thread that waits frees the request when the message is there. */
    const bool is_released =
        atomic_exchange(&request->generalized->state, GENERALIZED_COMPLETE) == GENERALIZED_RELEASED;
    pthread_mutex_lock(&lock);
    const rcm_status status = rcm_isend(hidden, NULL, 0, RCM_UINT8, 0, number, &work);
    pthread_mutex_unlock(&lock);
    if (status != RCM_OK)
        return form_status(form, status);
    rcm_work_free(work);
    if (!is_released)
        return MPI_SUCCESS;
    rcm_work_free(request->operation.work);
    const int code = generalized_free(request);
    request_free(request);
    return code;
}

int generalized_query(MPI_Request request, MPI_Status *ret_status) {
    const struct generalized *functions = request->generalized;
    MPI_Status status;
    status_empty(&status);
    const int code = functions->query ? functions->query(functions->extra, &status) : MPI_SUCCESS;
    if (ret_status)
        *ret_status = status;
    return code;
}

int generalized_free(MPI_Request request) {
    const struct generalized *functions = request->generalized;
    return functions->free ? functions->free(functions->extra) : MPI_SUCCESS;
}

int generalized_release(struct form *form, MPI_Request request) {
    int state = GENERALIZED_ACTIVE;
    if (atomic_compare_exchange_strong(&request->generalized->state, &state, GENERALIZED_RELEASED))
        return MPI_SUCCESS;
    (void)request_poll(form, request, true);
    const int code = generalized_free(request);
    request_free(request);
    return code;
}

int generalized_cancel(MPI_Request request) {
    const struct generalized *functions = request->generalized;
    const bool is_complete = atomic_load(&functions->state) == GENERALIZED_COMPLETE;
    return functions->cancel ? functions->cancel(functions->extra, is_complete) : MPI_SUCCESS;
}

int face_Grequest_start(struct form *form, MPI_Grequest_query_function *query,
                        MPI_Grequest_free_function *release, MPI_Grequest_cancel_function *cancel,
                        void *extra, MPI_Request *ret_request) {
    const struct generalized functions = {query, release, cancel, extra, 0, GENERALIZED_ACTIVE};
    return generalized_start(form, &functions, ret_request);
}
