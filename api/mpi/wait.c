/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that wait for several requests. */
#include "request.h"
#include <stdlib.h>
#include <unistd.h>
#include "faces.h"

enum { MAKING_US = 200 }; /* between two tests of a request for a communicator */

static MPI_Status *status_at(MPI_Status *statuses, int i) {
    return statuses ? &statuses[i] : NULL;
}

/* The code of a call of which a request failed: if there are statuses, they have the codes. */
static int failed_code(struct form *form, int failed, bool has_statuses) {
    char text[MPI_MAX_ERROR_STRING];
    if (failed == MPI_SUCCESS || !has_statuses)
        return failed;
    error_text(failed, text, sizeof text);
    return form_error(form, MPI_ERR_IN_STATUS, "%.400s", text);
}

/* Takes a complete request, or only copies its status. Returns its code. */
static int take_one(struct form *form, const MPI_Request *request, int how, MPI_Status *status) {
    return how == TAKE_NOTHING ? request_peek(form, *request, status)
                               : request_take(form, (MPI_Request *)request, status);
}

/* The same of several: their statuses have their codes. *failed: the first code that is an error.
 */
static void take_next(struct form *form, const MPI_Request *request, int how, MPI_Status *status,
                      int *failed) {
    const int code = take_one(form, request, how, status);
    if (status && how != TAKE_NOTHING)
        status->MPI_ERROR = code;
    if (*failed == MPI_SUCCESS)
        *failed = code;
}

int face_wait_all(struct form *form, int n, const MPI_Request *requests, int how, int *ret_flag,
                  MPI_Status *statuses) {
    bool are_complete = true;
    int failed = MPI_SUCCESS;
    for (int i = 0; i < n; i++)
        are_complete &= request_poll(form, requests[i], how == TAKE_WAIT);
    if (ret_flag)
        *ret_flag = are_complete;
    for (int i = 0; i < n && are_complete; i++)
        take_next(form, &requests[i], how, status_at(statuses, i), &failed);
    return failed_code(form, failed, statuses && how != TAKE_NOTHING);
}

/* The first complete one of the active requests, -1 if none is; *ret_active: whether there are
 * any. */
static int find_complete(struct form *form, int n, const MPI_Request *requests, bool *ret_active) {
    *ret_active = false;
    for (int i = 0; i < n; i++) {
        if (request_is_null(requests[i]))
            continue;
        *ret_active = true;
        if (request_poll(form, requests[i], false))
            return i;
    }
    return -1;
}

/* Waits until one of the active requests, none of which was complete, is. */
static int wait_one(struct form *form, int n, const MPI_Request *requests, int *ret_index) {
    bool makes = false, active;
    for (int i = 0; i < n; i++)
        makes |= request_is_making(requests[i]);
    while (makes) { /* which no wait for works reports */
        *ret_index = find_complete(form, n, requests, &active);
        if (*ret_index >= 0)
            return MPI_SUCCESS;
        usleep(MAKING_US);
    }
    rcm_work **works = malloc(sizeof *works * (size_t)n);
    size_t index = (size_t)n; /* none */
    if (!works)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %d requests", n);
    for (int i = 0; i < n; i++)
        works[i] = request_work(requests[i]);
    const rcm_status status = rcm_work_wait_any(works, (size_t)n, -1, &index);
    free(works);
    if (index >= (size_t)n)
        return form_status(form, status);
    (void)request_poll(form, requests[index], true); /* its own result is in the request */
    *ret_index = (int)index;
    return MPI_SUCCESS;
}

/* Finds a complete one, and waits for it if `how` requires: *ret_index is -1 if there is none,
 * MPI_UNDEFINED if no request is active. */
static int find_any(struct form *form, int n, const MPI_Request *requests, int how,
                    int *ret_index) {
    bool active;
    *ret_index = find_complete(form, n, requests, &active);
    if (!active)
        *ret_index = MPI_UNDEFINED;
    else if (*ret_index < 0 && how == TAKE_WAIT)
        return wait_one(form, n, requests, ret_index);
    return MPI_SUCCESS;
}

int face_wait_any(struct form *form, int n, const MPI_Request *requests, int how, int *ret_index,
                  int *ret_flag, MPI_Status *ret_status) {
    int index;
    const int code = find_any(form, n, requests, how, &index);
    if (code != MPI_SUCCESS)
        return code;
    if (ret_flag)
        *ret_flag = index != -1;
    *ret_index = index < 0 ? MPI_UNDEFINED : index;
    if (index >= 0)
        return take_one(form, &requests[index], how, ret_status);
    if (index == MPI_UNDEFINED)
        status_empty(ret_status);
    return MPI_SUCCESS;
}

int face_wait_some(struct form *form, int n, const MPI_Request *requests, int how, int *ret_count,
                   int *indices, MPI_Status *statuses) {
    int first, failed = MPI_SUCCESS;
    const int found = find_any(form, n, requests, how, &first);
    if (found != MPI_SUCCESS)
        return found;
    *ret_count = first == MPI_UNDEFINED ? MPI_UNDEFINED : 0;
    for (int i = first; first >= 0 && i < n; i++) {
        if (request_is_null(requests[i]) || !request_poll(form, requests[i], false))
            continue;
        take_next(form, &requests[i], how, status_at(statuses, *ret_count), &failed);
        indices[(*ret_count)++] = i;
    }
    return failed_code(form, failed, statuses && how != TAKE_NOTHING);
}
