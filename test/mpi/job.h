/* SPDX-License-Identifier: BSD-3-Clause */
/* What the test programs of MPI share: checks that count, and the rank. */
#ifndef JOB_H
#define JOB_H

#include "mpi.h"

extern int job_rank, job_size, job_failed;

#define CHECK(condition) job_check((condition), #condition, __FILE__, __LINE__)
#define OK(call)         CHECK((call) == MPI_SUCCESS)

void job_begin(int *argc, char ***argv);
void job_check(int holds, const char *what, const char *file, int line);
/* Finalizes; returns the exit status. */
int job_end(void);

#endif
