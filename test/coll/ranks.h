/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a function on n ranks, as threads of this process or as processes, over a given
 * transport. */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include <stdbool.h>
#include "ringcomm.h"

struct ranks {
    int n;
    bool threads;          /* else processes */
    const char *transport; /* "shm", "tcp", "auto" */
    const char *algorithm; /* NULL: by cost */
    int64_t timeout_ms;    /* of operations; 0: 60 s */
    bool keep;             /* the function destroys the communicator itself */
    int hosts;             /* simulated ones, dealt round; 0: as it is */
    /* rcm_init is RCM_ERR_UNSUPPORTED on every rank, with this in its sentence; NULL: it works. */
    const char *refused;
    /* In each rank before it initialises; NULL: nothing. */
    void (*before)(int rank);
};

/* fn(comm, arg) returns the number of errors it found (0..100). Returns 0 if every rank
 * initialised, found no error and destroyed its communicator; prints what was wrong. */
int ranks_run(const struct ranks *ranks, int (*fn)(rcm_comm *comm, void *arg), void *arg);

/* Waits until that process is stopped (SIGSTOP), ten seconds at most. */
void ranks_await_stopped(int pid);

/* Says what was expected, counts one error. */
#define CHECK(errors, condition, ...)                                                              \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            (errors)++;                                                                            \
        }                                                                                          \
    } while (0)

#endif
