/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_spawn in processes that reap the children before it can: SIGCHLD ignored, SIGCHLD without
 * zombies (SA_NOCLDWAIT), a handler and a thread that wait for all children. A rank that succeeded
 * is no failure. A rank that failed keeps its status, and the others end. For a rank that was
 * killed the error explains why its status is unknown.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ringcomm.h"

enum { RANKS = 3, FAILS = 1 };

static void on_child(int sig) {
    const int saved_errno = errno;
    (void)sig;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = saved_errno;
}

static void *collect(void *arg) {
    const _Atomic int *go_on = arg;
    while (atomic_load(go_on))
        if (waitpid(-1, NULL, 0) < 0)
            usleep(100);
    return NULL;
}

static _Atomic int collecting;

static void none(void) {
    signal(SIGCHLD, SIG_DFL);
}
static void ignored(void) {
    signal(SIGCHLD, SIG_IGN);
}
static void no_zombies(void) {
    const struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    sigaction(SIGCHLD, &action, NULL);
}
static void handler(void) {
    const struct sigaction action = {.sa_handler = on_child};
    sigaction(SIGCHLD, &action, NULL);
}
static void thread(void) {
    pthread_t collector;
    signal(SIGCHLD, SIG_DFL);
    atomic_store(&collecting, 1);
    if (pthread_create(&collector, NULL, collect, &collecting) == 0)
        pthread_detach(collector);
}

static int ends_well(int rank, void *arg) {
    rcm_comm *comm;
    (void)arg;
    usleep((useconds_t)rank * 50000);
    if (rcm_init(NULL, &comm) != RCM_OK || rcm_barrier(comm, NULL, NULL) != RCM_OK ||
        rcm_destroy(comm) != RCM_OK)
        return 9;
    usleep((useconds_t)(RANKS - rank) * 50000); /* not all at once */
    return 0;
}

static int at_once(int rank, void *arg) {
    (void)rank;
    (void)arg;
    return 0;
}

static int returns_3(int rank, void *arg) {
    (void)arg;
    if (rank == FAILS)
        return 3;
    sleep(60);
    return 0;
}

static int exits_4(int rank, void *arg) {
    (void)arg;
    if (rank == FAILS) {
        if (fork() == 0)
            exit(0); /* another child's exit is not the rank's */
        wait(NULL);
        exit(4);
    }
    sleep(60);
    return 0;
}

static int is_killed(int rank, void *arg) {
    (void)arg;
    if (rank == FAILS)
        raise(SIGKILL);
    sleep(60);
    return 0;
}

static const struct way {
    const char *name;
    void (*prepare)(void);
    int keeps; /* the status of children is kept */
} ways[] = {{"nothing special", none, 1},
            {"SIGCHLD ignored", ignored, 0},
            {"SA_NOCLDWAIT", no_zombies, 0},
            {"a handler", handler, 0},
            {"a thread", thread, 0}};
static const struct end {
    const char *name;
    int (*fn)(int rank, void *arg);
    int exit_status;
} ends[] = {{"end well", ends_well, 0},
            {"end at once", at_once, 0},
            {"return 3", returns_3, 3},
            {"exit 4", exits_4, 4},
            {"killed", is_killed, 128 + SIGKILL}};

static int case_errors(const struct way *way, const struct end *end) {
    int failed = -2, exit_status = -2;
    const rcm_status status = rcm_spawn(RANKS, end->fn, NULL, 30000, &failed, &exit_status);
    const int well = end->exit_status == 0;
    int expected = end->exit_status, errors = 0;
    /* The handler or the thread may be too late to reap the child. */
    if (end->fn == is_killed && !way->keeps && exit_status == 125) {
        expected = 125;
        errors += strstr(rcm_last_error(), "SIGCHLD") == NULL;
    }
    errors += status != (well ? RCM_OK : RCM_ERR_PEER) || failed != (well ? -1 : FAILS) ||
              exit_status != expected;
    if (errors)
        fprintf(stderr, "%s, %s: %s, rank %d, status %d: %s\n", way->name, end->name,
                rcm_status_name(status), failed, exit_status, rcm_last_error());
    return errors;
}

int main(void) {
    int errors = 0;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        ways[i].prepare(); /* the thread is last: rcm_spawn must be called without threads */
        for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++)
            errors += case_errors(&ways[i], &ends[k]);
    }
    atomic_store(&collecting, 0);
    return errors != 0;
}
