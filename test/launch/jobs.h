/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs whose ranks are forked by a test, meet in a store, sum their jobs' numbers and report the
 * outcome. For one thread of one process. */
#ifndef TEST_LAUNCH_JOBS_H
#define TEST_LAUNCH_JOBS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include "ringcomm.h"

enum { RANKS_MAX = 4, INIT_MS = 60000, SOON_S = 30 };

extern int errors;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            errors++;                                                                              \
        }                                                                                          \
    } while (0)

/* The meeting point of a case's jobs: set by the case, or by file_new to a new file in a folder of
 * its own, which file_remove removes. */
extern char url[100], path[60];
void file_new(void);
void file_remove(void);

double now(void);
void *shared_memory(size_t bytes);

/* The outcome of a rank; in memory shared with the test. */
struct outcome {
    _Atomic bool joined; /* rcm_init has returned; read while the rank still runs */
    _Atomic int tries;   /* calls of rcm_init that have begun */
    int status;
    char text[512];
    double seconds;
    float sum; /* of all ranks' job numbers */
    int destroyed;
};

struct job {
    const char *url;
    int number, size;
    bool apart;         /* the ranks' parent is a process of its own */
    bool orphan;        /* ends without rcm_destroy */
    _Atomic bool *hold; /* the ranks continue when this is false; NULL: at once */
    const char *ports;  /* RINGCOMM_PORTS of rank 1 */
    bool no_files;      /* rank 0 cannot create files: no shared memory, no other transport */
    const char *log;    /* file for its log; NULL: that of the test */
    int timeout_ms;     /* 0: 60 s */
    bool again;         /* a rank whose rcm_init timed out calls it again, for up to 60 s */
    const char *id;     /* RINGCOMM_JOB_ID; NULL: none */
    int forgets;        /* this rank, unless 0, has no id */
    int late;           /* this rank, unless 0, has joined, and delays its look for the others: */
    _Atomic bool *late_goes; /* until this is true */
    _Atomic int *turn;       /* a rank starts when this reaches its number below; NULL: at once */
    int turns[RANKS_MAX];    /* 0: it does not start */
    int pause_us[RANKS_MAX]; /* and waits so long */
    int counts[RANKS_MAX];   /* TORCHELASTIC_RESTART_COUNT; 0: that of the test */
    pid_t pids[RANKS_MAX], parent;
    struct outcome *outcome;
};

void job_start(struct job *job);
void job_start_some(struct job *job, int first, int last);
void job_wait(struct job *job);
void job_await_init(const struct job *job, int rank);

/* All these ranks were rejected soon, with an error that contains all of these texts. */
void job_refused(const struct job *job, int first, int last, const char *a, const char *b,
                 const char *c);
void job_went_well(const struct job *job);

/* A listener on a free loopback port, outside of the range of outgoing connections: the port must
 * still be free when a job uses it. */
int listener(int *ret_port);
/* A free port, chosen in the same way. */
int free_port(void);
/* Starts a store of no job at that port, in a process of its own, which the caller kills. */
pid_t store_serve(int port);

#endif
