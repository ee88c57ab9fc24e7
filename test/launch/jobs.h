/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs whose ranks are forked by a test, meet in a store, add up their jobs' numbers, and tell how
 * it went. For one thread of one process. */
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

/* Where the jobs of a case meet: set by the case, or by file_new: a file that is not there yet, in
 * a folder of its own, which file_remove removes. */
extern char url[100], path[60];
void file_new(void);
void file_remove(void);

double now(void);
void *shared_memory(size_t bytes);

/* What a rank tells; in memory shared with the test. */
struct told {
    _Atomic bool joined; /* rcm_init is over, read while the rank still runs */
    _Atomic int tries;   /* of rcm_init that have begun */
    int status;
    char text[512];
    double seconds;
    float sum; /* of all ranks' job numbers */
    int destroyed;
};

struct job {
    const char *url;
    int number, size;
    bool apart;         /* the ranks' parent is a process of their own */
    bool orphan;        /* ends without rcm_destroy */
    _Atomic bool *hold; /* the ranks go on when this is false; NULL: at once */
    const char *ports;  /* RINGCOMM_PORTS of rank 1 */
    bool no_files;      /* rank 0 may make none: it has no shared memory, and no other transport */
    const char *log;    /* file for its messages; NULL: as the test's */
    int timeout_ms;     /* 0: a minute */
    bool again;         /* a rank whose rcm_init timed out calls it again, for a minute */
    const char *id;     /* RINGCOMM_JOB_ID; NULL: none */
    int forgets;        /* this rank, if it is not 0, has no id */
    int late; /* this rank, if it is not 0, has joined, and is slow to ask for the others: */
    _Atomic bool *late_goes; /* until this is true */
    _Atomic int *turn;    /* a rank begins when this has reached its number below; NULL: at once */
    int turns[RANKS_MAX]; /* 0: it does not come */
    int pause_us[RANKS_MAX]; /* and after this */
    int counts[RANKS_MAX];   /* TORCHELASTIC_RESTART_COUNT; 0: as the test's */
    pid_t pids[RANKS_MAX], parent;
    struct told *told;
};

void job_start(struct job *job);
void job_start_some(struct job *job, int first, int last);
void job_wait(struct job *job);
void job_await_init(const struct job *job, int rank);

/* Everybody was refused, soon, with all of these words. */
void job_refused(const struct job *job, int first, int last, const char *a, const char *b,
                 const char *c);
void job_went_well(const struct job *job);

/* A listener on a free port of loopback, none that the kernel gives to connections: it has to be
 * free still when a job wants it. */
int listener(int *ret_port);
/* A free port, by the same rule. */
int free_port(void);
/* A store of no job at that port, in a process of its own: to be killed. */
pid_t store_serve(int port);

#endif
