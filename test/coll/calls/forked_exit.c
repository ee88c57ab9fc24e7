/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Children of a rank that exit, by every method to exit and every method to create a child, with
 * destructors and exit handlers:
 *
 *     forked_exit TRANSPORT
 *
 * The exiting child must not send the parent's farewell: the parent's next operations succeed. The
 * same holds for a child that shares the parent's memory (vfork) and calls exit.
 */
#include "children.h"
#include "../ranks.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { CHILD_SECONDS = 60 };

static jmp_buf end_of_main;

static void by_return(void) {
    longjmp(end_of_main, 1);
}
static void by_exit(void) {
    exit(0);
}
static void by_quick_exit(void) {
    quick_exit(0);
}
static void by_own_world(void) { /* its own communicator sends a farewell, the parent's does not */
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *own;
    options.rank = 0;
    options.world_size = 1;
    options.url = "hash:";
    exit(rcm_init(&options, &own) == RCM_OK ? 0 : 1);
}
static void by_destroy(void) {
    exit(0);
}

static const struct end {
    const char *name;
    void (*run)(void);
} ends[] = {{"return from main", by_return},
            {"exit", by_exit},
            {"quick_exit", by_quick_exit},
            {"exit with a new world", by_own_world},
            {"exit after rcm_destroy", by_destroy}};
enum { ENDS = sizeof ends / sizeof ends[0] };

static int sum_errors(rcm_comm *comm, const char *after) {
    int one = 1, sum = 0, errors = 0;
    CHECK(errors,
          rcm_all_reduce(comm, &one, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK &&
              sum == rcm_size(comm),
          "after %s: sum %d, %s", after, sum, rcm_last_error());
    return errors;
}

/* On rank 1 only. The communicator is idle, so an unguarded exit would send its farewell. */
static int child_errors(rcm_comm *comm, enum child_way way, const struct end *end) {
    int status = 0, errors = 0;
    if (rcm_rank(comm) == 1) {
        const pid_t pid = child_make(way);
        if (pid == 0) {
            alarm(CHILD_SECONDS);
            if (end->run == by_destroy && rcm_destroy(comm) != RCM_OK)
                _exit(1);
            end->run();
        }
        CHECK(errors, pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
              "a child of %s by %s: status %#x", child_way_names[way], end->name, status);
    }
    return errors + sum_errors(comm, end->name);
}

static int shared_end(void *arg) {
    (void)arg;
    exit(3);
}

/* Sharing the parent's memory, as vfork and posix_spawn do. Some programs exit this way when exec
 * fails. */
static int shared_errors(rcm_comm *comm) {
    static _Alignas(16) char stack[1 << 20];
    int errors = 0, status = 0;
    if (rcm_rank(comm) == 1) {
        const pid_t pid =
            clone(shared_end, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        CHECK(errors, pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3,
              "a child that shares memory: status %#x", status);
    }
    return errors + sum_errors(comm, "exit with shared memory");
}

static int rank_run(rcm_comm *comm, void *arg) {
    int errors = sum_errors(comm, "the beginning");
    unsetenv("RINGCOMM_LOCAL_RANK");
    unsetenv("RINGCOMM_LOCAL_WORLD_SIZE");
    (void)arg;
    for (enum child_way way = 0; way < CHILD_WAYS; way++)
        for (int i = 0; i < ENDS && errors == 0; i++)
            errors += child_errors(comm, way, &ends[i]);
    errors += errors ? 0 : shared_errors(comm);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: forked_exit TRANSPORT\n");
        return 2;
    }
    const struct ranks ranks = {.n = 2, .transport = argv[1], .keep = true};
    if (setjmp(end_of_main) != 0)
        return 0;
    return ranks_run(&ranks, rank_run, NULL) != 0;
}
