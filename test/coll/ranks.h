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
    bool keep;             /* the function destroys the communicator */
    int hosts;             /* number of simulated hosts, ranks dealt round; 0: none */
    /* Non-NULL: rcm_init must return RCM_ERR_UNSUPPORTED on every rank, with this text in the
     * error. */
    const char *refused;
    /* Called in each rank before rcm_init, if not NULL. */
    void (*before)(int rank);
};

/* fn(comm, arg) returns the number of errors it found (0 to 100). Returns 0 if every rank
 * initialized, found no error and destroyed its communicator. Prints each error. */
int ranks_run(const struct ranks *ranks, int (*fn)(rcm_comm *comm, void *arg), void *arg);

/* Waits until that process is stopped (SIGSTOP), at most 10 s. */
void ranks_await_stopped(int pid);

/* Prints the message and counts an error if the condition is false. */
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
