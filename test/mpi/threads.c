/* SPDX-License-Identifier: BSD-3-Clause */
/* Four threads of each rank with MPI_THREAD_MULTIPLE: messages, attributes, error handlers and an
 * info that all share, collectives and intercommunicators on a communicator of each thread. */
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "job.h"

enum { THREADS = 4, ROUNDS = 200, SHARED_ROUNDS = 2000 };

struct thread {
    pthread_t id;
    int number, failed, key, shared_key;
    MPI_Comm comm, shared;
    MPI_Info info;
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

static int delete_value(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    sched_yield();
    free(value); /* twice, if two threads delete one attribute */
    return MPI_SUCCESS;
}

/* All threads replace and delete the attribute of one key. */
static int share_attribute(const struct thread *thread) {
    int failed = 0;
    failed += MPI_Comm_set_attr(thread->shared, thread->shared_key, malloc(1)) != MPI_SUCCESS;
    failed += MPI_Comm_delete_attr(thread->shared, thread->shared_key) != MPI_SUCCESS;
    return failed;
}

static void ignore(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
}

/* Each thread replaces the error handler that the failing calls of the others use. */
static int share_handler(const struct thread *thread) {
    MPI_Errhandler handler;
    int failed = 0;
    failed += MPI_Comm_create_errhandler(ignore, &handler) != MPI_SUCCESS;
    failed += MPI_Comm_set_errhandler(thread->shared, handler) != MPI_SUCCESS;
    failed += MPI_Errhandler_free(&handler) != MPI_SUCCESS;
    failed += MPI_Send(NULL, 0, MPI_INT, job_size, 0, thread->shared) == MPI_SUCCESS;
    return failed;
}

/* Each thread sets and deletes a key of its own in one info. */
static int share_info(const struct thread *thread) {
    char key[16], value[16];
    int failed = 0, flag = 0, length = sizeof value;
    snprintf(key, sizeof key, "key %d", thread->number);
    failed += MPI_Info_set(thread->info, key, key) != MPI_SUCCESS;
    failed += MPI_Info_get_string(thread->info, key, &length, value, &flag) != MPI_SUCCESS;
    failed += !flag || length != 6;
    failed += MPI_Info_delete(thread->info, key) != MPI_SUCCESS;
    return failed;
}

static void *run_shared(void *arg) {
    struct thread *thread = arg;
    for (int i = 0; i < SHARED_ROUNDS; i++) {
        thread->failed += share_attribute(thread);
        thread->failed += share_handler(thread);
        thread->failed += share_info(thread);
    }
    return NULL;
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

/* Makes an intercommunicator of the first two ranks. All threads pass the same leaders and the same
 * tag, on communicators of their own. They begin in different orders on the two ranks. */
static void *make_intercommunicator(void *arg) {
    struct thread *thread = arg;
    MPI_Comm inter;
    int got = -1;
    usleep(20000u * (unsigned)(job_rank == 0 ? thread->number : THREADS - thread->number));
    thread->failed +=
        MPI_Intercomm_create(MPI_COMM_SELF, 0, thread->comm, !job_rank, 5, &inter) != MPI_SUCCESS;
    thread->failed += MPI_Sendrecv(&thread->number, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, inter,
                                   MPI_STATUS_IGNORE) != MPI_SUCCESS;
    thread->failed += got != thread->number;
    thread->failed += MPI_Comm_free(&inter) != MPI_SUCCESS;
    return NULL;
}

/* Runs all threads, and waits for them. */
static void run_all(struct thread *threads, void *(*function)(void *)) {
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i].id, NULL, function, &threads[i]) != 0)
            abort();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        CHECK(threads[i].failed == 0);
    }
}

int main(int argc, char **argv) {
    struct thread threads[THREADS];
    MPI_Comm shared;
    MPI_Info info;
    int provided, shared_key, nkeys;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &job_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &job_size));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    OK(MPI_Info_create(&info));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_value, &shared_key, NULL));
    for (int i = 0; i < THREADS; i++) {
        threads[i] =
            (struct thread){.number = i, .shared = shared, .shared_key = shared_key, .info = info};
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm));
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &threads[i].key,
                                  NULL));
    }
    run_all(threads, run);
    run_all(threads, run_shared);
    if (job_size >= 2 && job_rank < 2)
        run_all(threads, make_intercommunicator);
    OK(MPI_Info_get_nkeys(info, &nkeys));
    CHECK(nkeys == 0);
    OK(MPI_Info_free(&info));
    for (int i = 0; i < THREADS; i++)
        OK(MPI_Comm_free(&threads[i].comm));
    OK(MPI_Comm_free(&shared));
    return job_end();
}
