/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What 64 communicators of ncclCommInitRank use, with 2 ranks as processes.
 *
 *     many_communicators
 *
 * Prints threads, descriptors and memory of rank 0: before, with the communicators, after one
 * all_reduce on each, and after their end. No thread may be left, and few descriptors: on a busy
 * machine the driver may not release all memory in time.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "job.h"
#include "processor_delay.h"

enum { COMMS = 64, COUNT = 1000 };

struct usage {
    int threads, descriptors;
    long kib;
};

static int entries(const char *path) {
    int n = 0;
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n - 2;
}

static struct usage usage_now(const char *what, const struct rank *rank) {
    struct usage usage = {entries("/proc/self/task"), entries("/proc/self/fd"), 0};
    char line[200];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "Pss: %ld kB", &usage.kib);
    if (file)
        fclose(file);
    if (rank->rank == 0)
        printf("%-28s %3d threads %4d descriptors %7ld KiB\n", what, usage.threads,
               usage.descriptors, usage.kib);
    return usage;
}

static int use(const struct rank *rank, ncclComm_t *comms, CUdeviceptr memory) {
    void *at = (void *)(uintptr_t)memory;
    int errors = 0;
    for (int i = 0; i < COMMS; i++)
        NCCL_OK(errors, ncclAllReduce(at, at, COUNT, ncclFloat32, ncclSum, comms[i],
                                      rank->streams[i % STREAMS]));
    for (int i = 0; i < STREAMS; i++)
        CUDA(cuStreamSynchronize(rank->streams[i]));
    return errors;
}

static int many(struct job *job) {
    const struct rank *rank = &job->ranks[0];
    float zeros[COUNT] = {0};
    ncclComm_t comms[COMMS];
    const CUdeviceptr memory = device_copy(zeros, sizeof zeros);
    const struct usage before = usage_now("before", rank);
    const int library = library_threads();
    struct usage after;
    int errors = 0;
    for (int i = 0; i < COMMS; i++)
        NCCL_OK(errors, ncclCommInitRank(&comms[i], job->n, job_id(job), rank->rank));
    (void)usage_now("64 communicators", rank);
    errors += errors ? 0 : use(rank, comms, memory);
    (void)usage_now("after an all_reduce on each", rank);
    for (int i = 0; i < COMMS; i++)
        NCCL_OK(errors, ncclCommDestroy(comms[i]));
    CHECK(errors, library_threads_await(library), "%d threads of the library are left, %d before",
          library_threads(), library);
    after = usage_now("after their end", rank);
    CHECK(errors, after.threads <= before.threads && after.descriptors <= before.descriptors + 8,
          "rank %d: %d threads and %d descriptors are left", rank->rank,
          after.threads - before.threads, after.descriptors - before.descriptors);
    CUDA(cuMemFree(memory));
    return errors;
}

int main(void) {
    return job_run_bare(2, false, many) > 0;
}
