/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that end in the background, so that MPI_Comm_free does not wait for other ranks. */
#include <pthread.h>
#include "mpi_comm.h"

enum { MOST = 64 }; /* that end at the same time; more wait for the one that began first */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rcm_comm_request *ends[MOST];
static unsigned nbegun, nended;
static int first_error = MPI_SUCCESS;

/* With the lock: takes the oldest one out if it has ended; `wait`: waits for it. */
static bool take_oldest(struct form *form, bool wait) {
    rcm_comm_request *oldest = ends[nended % MOST];
    const rcm_status status = comm_ended(wait ? rcm_comm_request_wait(oldest, -1, NULL)
                                              : rcm_comm_request_test(oldest, NULL));
    if (status == RCM_PENDING)
        return false;
    if (status != RCM_OK && first_error == MPI_SUCCESS)
        first_error = form_status(form, status);
    rcm_comm_request_cancel(oldest);
    nended++;
    return true;
}

int comm_end(struct form *form, rcm_comm *comm) {
    if (!comm)
        return MPI_SUCCESS;
    pthread_mutex_lock(&lock);
    while (nended != nbegun && take_oldest(form, nbegun - nended == MOST))
        ;
    const rcm_status status = rcm_destroy_begin(comm, &ends[nbegun % MOST]);
    if (status == RCM_OK)
        nbegun++;
    pthread_mutex_unlock(&lock);
    return status == RCM_OK ? MPI_SUCCESS : form_status(form, rcm_destroy(comm));
}

int comm_end_all(struct form *form) {
    pthread_mutex_lock(&lock);
    while (nended != nbegun)
        (void)take_oldest(form, true);
    const int code = first_error;
    first_error = MPI_SUCCESS;
    pthread_mutex_unlock(&lock);
    return code;
}
