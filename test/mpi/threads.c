/* SPDX-License-Identifier: BSD-3-Clause */
/* Four threads of each rank with MPI_THREAD_MULTIPLE: messages and attributes on one communicator,
 * collectives on one of each thread. */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include "job.h"

enum { THREADS = 4, ROUNDS = 200 };

struct thread {
    pthread_t id;
    int number, failed, key;
    MPI_Comm comm;
};

/* Sets, reads and deletes an attribute of the communicator of all threads. */
static int use_attribute(const struct thread *thread, int *value) {
    int *found = NULL, is_set = 0, failed = 0;
    failed += MPI_Comm_set_attr(MPI_COMM_WORLD, thread->key, value) != MPI_SUCCESS;
    failed += MPI_Comm_get_attr(MPI_COMM_WORLD, thread->key, &found, &is_set) != MPI_SUCCESS;
    failed += !is_set || found != value;
    failed += MPI_Comm_delete_attr(MPI_COMM_WORLD, thread->key) != MPI_SUCCESS;
    return failed;
}

static void *run(void *arg) {
    struct thread *thread = arg;
    const int right = (job_rank + 1) % job_size, left = (job_rank + job_size - 1) % job_size;
    for (int i = 0; i < ROUNDS; i++) {
        int send = 1000 * i + 10 * job_rank + thread->number, got = -1, sum = -1;
        MPI_Request requests[2];
        thread->failed += MPI_Irecv(&got, 1, MPI_INT, left, thread->number, MPI_COMM_WORLD,
                                    &requests[0]) != MPI_SUCCESS;
        thread->failed += MPI_Isend(&send, 1, MPI_INT, right, thread->number, MPI_COMM_WORLD,
                                    &requests[1]) != MPI_SUCCESS;
        thread->failed += MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS;
        thread->failed += got != 1000 * i + 10 * left + thread->number;
        thread->failed += MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, thread->comm) != MPI_SUCCESS;
        thread->failed += sum != i * job_size;
        thread->failed += use_attribute(thread, &sum);
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct thread threads[THREADS];
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &job_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &job_size));
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.number = i};
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm));
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &threads[i].key,
                                  NULL));
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i].id, NULL, run, &threads[i]) != 0)
            abort();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        CHECK(threads[i].failed == 0);
        OK(MPI_Comm_free(&threads[i].comm));
    }
    return job_end();
}
