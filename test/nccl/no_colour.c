/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ncclCommSplit without a colour: its memory is freed when the call ends, and a process that exits
 * does not wait for one that another rank never joins.
 *
 *     no-colour
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "job.h"

enum { RANKS = 2, EXIT_MS = 8000, SPLITS = 300, COMM_BYTES = 300 };

static int64_t *leaves; /* shared: when the child began to exit */

/* Rank 1 does not call ncclCommSplit. */
static int unjoined(struct job *job) {
    const int devices[RANKS] = {0, 1};
    ncclConfig_t config = {
        .size = sizeof config, .magic = NCCL_MAGIC, .version = NCCL_NUMBER, .blocking = 0};
    ncclComm_t comms[RANKS], none;
    int errors = 0;
    (void)job;
    NCCL_OK(errors, ncclCommInitAll(comms, RANKS, devices));
    const ncclResult_t result = ncclCommSplit(comms[0], NCCL_NO_COLOUR, 0, &none, &config);
    CHECK(errors, result == ncclInProgress && !none, "%s", nccl_text(result));
    return errors;
}

static void split_many(ncclComm_t comm, bool group, int *errors) {
    ncclComm_t none;
    for (int i = 0; i < SPLITS; i++) {
        if (group)
            NCCL_OK(*errors, ncclGroupStart());
        NCCL_OK(*errors, ncclCommSplit(comm, NCCL_NO_COLOUR, 0, &none, NULL));
        if (group)
            NCCL_OK(*errors, ncclGroupEnd());
    }
}

/* 0 with the allocator of a sanitizer. */
static int freed(struct job *job) {
    int errors = 0;
    for (int group = 0; group < 2; group++) {
        split_many(job->ranks[0].comm, group, &errors);
        const size_t before = mallinfo2().uordblks;
        split_many(job->ranks[0].comm, group, &errors);
        const size_t after = mallinfo2().uordblks;
        CHECK(errors, after < before + SPLITS * COMM_BYTES, "%zu bytes are left of %d splits",
              after - before, SPLITS);
    }
    return errors;
}

static atomic_bool stops;

static void *poll_main(void *comm) {
    ncclResult_t state;
    while (!stops)
        if (ncclCommGetAsyncError(comm, &state) != ncclSuccess)
            abort();
    return NULL;
}

/* Another thread polls all communicators meanwhile (for the thread sanitizer). */
static int polled(struct job *job) {
    pthread_t thread;
    int errors = freed(job);
    if (pthread_create(&thread, NULL, poll_main, job->ranks[0].comm) != 0)
        abort();
    split_many(job->ranks[0].comm, false, &errors);
    stops = true;
    pthread_join(thread, NULL);
    return errors;
}

int main(void) {
    int errors = 0, status;
    leaves = mmap(NULL, sizeof *leaves, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (leaves == MAP_FAILED)
        return 2;
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        errors = job_run_bare(RANKS, true, unjoined);
        *leaves = now_ms();
        exit(errors > 0);
    }
    CHECK(errors, waitpid(pid, &status, 0) == pid && status == 0, "the child: 0x%x", status);
    CHECK(errors, now_ms() - *leaves < EXIT_MS, "exit took %lld ms",
          (long long)(now_ms() - *leaves));
    return errors + job_run(1, true, polled) > 0;
}
