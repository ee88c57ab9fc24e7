/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of communicators, which do not wait for other ranks: these still get what this rank has
 * sent. A callback cannot end one, so those that have their last reference there are left to the
 * next end, or to MPI_Finalize, which waits for these callbacks. */
#include <pthread.h>
#include <stdlib.h>
#include "mpi_comm.h"

struct rest {
    struct rest *next;
    rcm_comm *comm;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t through = PTHREAD_COND_INITIALIZER;
static struct rest *rests;
static int ndetached;

rcm_status comm_detach(rcm_work *work, void (*function)(void *arg, rcm_status status), void *arg) {
    pthread_mutex_lock(&lock);
    ndetached++;
    pthread_mutex_unlock(&lock);
    return rcm_work_detach(work, function, arg);
}

void comm_detached(void) {
    pthread_mutex_lock(&lock);
    ndetached--;
    pthread_cond_broadcast(&through);
    pthread_mutex_unlock(&lock);
}

void comm_end(rcm_comm *comm) {
    /* Other errors are those of operations that the program has called. */
    if (!comm || rcm_leave(comm) != RCM_ERR_INVALID)
        return;
    struct rest *made = malloc(sizeof *made);
    if (!made) /* it stays until the process ends */
        return;
    pthread_mutex_lock(&lock);
    *made = (struct rest){rests, comm};
    rests = made;
    pthread_mutex_unlock(&lock);
}

void comm_end_rests(bool waits) {
    pthread_mutex_lock(&lock);
    while (waits && ndetached > 0)
        pthread_cond_wait(&through, &lock);
    struct rest *all = rests;
    rests = NULL;
    pthread_mutex_unlock(&lock);
    while (all) {
        struct rest *rest = all;
        all = rest->next;
        comm_end(rest->comm);
        free(rest);
    }
}
