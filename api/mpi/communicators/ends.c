/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that end in the background, so that MPI_Comm_free does not wait for other ranks. */
#include <pthread.h>
#include <stdlib.h>
#include "mpi_comm.h"

struct ending {
    struct ending *next; /* began later */
    rcm_comm_request *request;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ending *oldest, **place = &oldest;
static int first_error = MPI_SUCCESS;

/* With the lock: takes the oldest one out if it has ended; `wait`: waits for it. */
static bool take_oldest(struct form *form, bool wait) {
    struct ending *ending = oldest;
    const rcm_status status = comm_ended(wait ? rcm_comm_request_wait(ending->request, -1, NULL)
                                              : rcm_comm_request_test(ending->request, NULL));
    if (status == RCM_PENDING)
        return false;
    if (status != RCM_OK && first_error == MPI_SUCCESS)
        first_error = form_status(form, status);
    rcm_comm_request_cancel(ending->request);
    oldest = ending->next;
    if (!oldest)
        place = &oldest;
    free(ending);
    return true;
}

/* A call must not wait for earlier ends with the lock: two ranks may free in different orders. */
int comm_end(struct form *form, rcm_comm *comm) {
    struct ending *made = comm ? calloc(1, sizeof *made) : NULL;
    if (!comm)
        return MPI_SUCCESS;
    pthread_mutex_lock(&lock);
    while (oldest && take_oldest(form, false))
        ;
    const rcm_status status = made ? rcm_destroy_begin(comm, &made->request) : RCM_ERR_NOMEM;
    if (status == RCM_OK) {
        *place = made;
        place = &made->next;
    }
    pthread_mutex_unlock(&lock);
    if (status == RCM_OK)
        return MPI_SUCCESS;
    free(made);
    return form_status(form, rcm_destroy(comm));
}

int comm_end_all(struct form *form) {
    pthread_mutex_lock(&lock);
    while (oldest)
        (void)take_oldest(form, true);
    const int code = first_error;
    first_error = MPI_SUCCESS;
    pthread_mutex_unlock(&lock);
    return code;
}
