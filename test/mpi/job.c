/* SPDX-License-Identifier: BSD-3-Clause */
/* See job.h. */
#include "job.h"
#include <stdio.h>

int job_rank, job_size, job_failed;

void job_begin(int *argc, char ***argv) {
    OK(MPI_Init(argc, argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &job_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &job_size));
}

void job_check(int holds, const char *what, const char *file, int line) {
    if (holds)
        return;
    job_failed++;
    fprintf(stderr, "%s:%d: rank %d of %d: %s does not hold\n", file, line, job_rank, job_size,
            what);
}

int job_end(void) {
    OK(MPI_Finalize());
    return job_failed != 0;
}
