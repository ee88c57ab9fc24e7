/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that end without rcm_destroy:
 *     exit_without_destroy shm|tcp
 * exit() with no operation in flight means that the rank has left: its messages are received, and
 * later operations that need it fail with that reason. With an operation in flight, or by _exit,
 * the rank counts as dead. The exit of a rank's child has no effect. In each case rank 1 of three
 * ends; in the last one rank 0, while others are in rcm_init. If it leaves, rank 2 is then still
 * making the duplicate that rank 1 already has.
 */
#include "ringcomm.h"
#include "../sanitized.h"
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3, ENDS = 1, COUNT = 3000, MESSAGES = 3, LATE_US = 300000, GONE_US = 600000 };

/* The others' error: "has left", or that the rank is lost; or none. */
enum effect { LEFT, DEATH, NOTHING };

static const struct ending {
    const char *name;
    enum effect effect;
    void (*end)(rcm_comm *comm);
} * ending;

static rcm_comm *also; /* a duplicate of comm: its failures do not fail comm */

static int fail(const char *what) {
    fprintf(stderr, "%s: %s: %s\n", ending->name, what, rcm_last_error());
    return 1;
}

/* ---- How rank 1 ends ----------------------------------------------------------------------- */

static void by_exit(rcm_comm *comm) {
    (void)comm;
    exit(0);
}

static void by_death(rcm_comm *comm) {
    (void)comm;
    _exit(0);
}

static void in_flight(rcm_comm *comm) {
    static int place;
    rcm_work *work;
    if (rcm_irecv(comm, &place, 1, RCM_INT32, 0, 9, &work) == RCM_OK)
        exit(0);
    _exit(fail("irecv"));
}

static void by_leave(rcm_comm *comm) {
    _exit(rcm_leave(also) == RCM_OK && rcm_leave(comm) == RCM_OK ? 0 : fail("rcm_leave"));
}

static void child_exits(rcm_comm *comm) {
    int status;
    const pid_t pid = fork();
    if (pid == 0)
        exit(0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0 || rcm_leave(also) != RCM_OK ||
        rcm_barrier(comm, NULL, NULL) != RCM_OK || rcm_destroy(comm) != RCM_OK)
        _exit(fail("a child"));
    _exit(0);
}

static const struct ending endings[] = {{"exit", LEFT, by_exit},
                                        {"rcm_leave", LEFT, by_leave},
                                        {"_exit", DEATH, by_death},
                                        {"in flight", DEATH, in_flight},
                                        {"child", NOTHING, child_exits}};

/* ---- The others ---------------------------------------------------------------------------- */

static bool is_orderly(void) {
    return ending->effect != DEATH;
}

/* All ranks have agreed on the duplicate. Rank 2 makes its part when rank 1 has left. */
struct rcmi_derivation;
rcm_status __real_rcmi_comm_derive(const rcm_comm *parent, const struct rcmi_derivation *derivation,
                                   rcm_comm **ret_comm);
rcm_status __wrap_rcmi_comm_derive(const rcm_comm *parent, const struct rcmi_derivation *derivation,
                                   rcm_comm **ret_comm);
rcm_status __wrap_rcmi_comm_derive(const rcm_comm *parent, const struct rcmi_derivation *derivation,
                                   rcm_comm **ret_comm) {
    if (ending->effect == LEFT && rcm_rank(parent) == 2)
        usleep(GONE_US);
    return __real_rcmi_comm_derive(parent, derivation, ret_comm);
}

/* A receive from any source continues when rank 1 has left, which never sent anything to rank 2. */
static int receive_from_others(int rank) {
    int token = 5, got = -1;
    if (rank == 0 && rcm_send(also, &token, 1, RCM_INT32, 2, 0, NULL, NULL) != RCM_OK)
        return fail("a send to a rank that has not left");
    if (rank == 2 && (rcm_recv(also, &got, 1, RCM_INT32, RCM_ANY_SOURCE, 0, NULL, NULL) != RCM_OK ||
                      got != token))
        return fail("a receive from any source when a rank has left");
    if (rank == 0)
        usleep(GONE_US); /* rank 2 has left it, and its process may end after a failure */
    return rcm_leave(also) == RCM_OK ? 0 : fail("rcm_leave of the other communicator");
}

/* Messages that rank 1 sent before its end arrive afterwards. */
static int receive_all(rcm_comm *comm) {
    usleep(LATE_US);
    for (int i = 0; i < MESSAGES && is_orderly(); i++) {
        int got = -1;
        if (rcm_recv(comm, &got, 1, RCM_INT32, ENDS, 0, NULL, NULL) != RCM_OK || got != i)
            return fail("a message that it had sent");
    }
    return 0;
}

static int other_run(rcm_comm *comm) {
    struct timespec begun, now;
    if (rcm_rank(comm) == 0 && receive_all(comm) != 0)
        return 1;
    if (is_orderly() && receive_from_others(rcm_rank(comm)) != 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    const rcm_status status = rcm_barrier(comm, NULL, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double seconds =
        (double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9;
    if (seconds > 3 + 20 * TEST_SANITIZED)
        return fail("the barrier takes more than 3 s");
    if (ending->effect == NOTHING)
        return status == RCM_OK && rcm_destroy(comm) == RCM_OK ? 0 : fail("this rank");
    if (status != RCM_ERR_PEER || !strstr(rcm_last_error(), "rank 1 (") ||
        is_orderly() != (strstr(rcm_last_error(), "has left") != NULL))
        return fail("the error about rank 1");
    return rcm_leave(comm) == RCM_ERR_PEER ? 0 : fail("rcm_leave");
}

static int rank_run(int rank, void *arg) {
    static float data[COUNT];
    rcm_comm *comm;
    (void)arg;
    if (rcm_init(NULL, &comm) != RCM_OK)
        return fail("init");
    if (rcm_all_reduce(comm, data, data, COUNT, RCM_FLOAT32, RCM_SUM, NULL, NULL) != RCM_OK)
        return fail("all_reduce");
    if (rcm_comm_duplicate(comm, NULL, &also) != RCM_OK)
        return fail("rcm_comm_duplicate");
    if (rank != ENDS)
        return other_run(comm);
    for (int i = 0; i < MESSAGES; i++)
        if (rcm_send(comm, &i, 1, RCM_INT32, 0, 0, NULL, NULL) != RCM_OK)
            return fail("send");
    ending->end(comm);
    return 1;
}

/* ---- Rank 0, which serves the store, leaves at once ------------------------------------------ */

enum { AT_ONCE = 5, ROUNDS = 8 };

static int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        abort();
    close(fd);
    return ntohs(at.sin_port);
}

static void at_once_run(const char *url, int rank, bool leaves) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm;
    options.url = url;
    options.rank = rank;
    options.world_size = AT_ONCE;
    const rcm_status status = rcm_init(&options, &comm);
    if (status == RCM_OK && !leaves)
        exit(0);
    if (status == RCM_OK && rcm_leave(comm) == RCM_OK)
        _exit(0);
    fprintf(stderr, "rank %d: %s\n", rank, rcm_last_error());
    _exit(1);
}

/* The others still pass rcm_init. Returns how many do not. */
static int at_once(bool leaves) {
    char url[64];
    int errors = 0, status;
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", free_port());
    for (int rank = 0; rank < AT_ONCE; rank++)
        if (fork() == 0)
            at_once_run(url, rank, leaves);
    while (wait(&status) > 0)
        errors += status != 0;
    return errors;
}

static int at_once_rounds(void) {
    int errors = 0;
    setenv("RINGCOMM_JOB_ID", "at once", 1); /* so that ranks do not wait for those of equal jobs */
    for (int round = 0; round < ROUNDS && errors == 0; round++)
        errors = at_once(round % 2 == 0);
    if (errors > 0)
        fprintf(stderr, "FAIL at once: %d ranks did not pass rcm_init\n", errors);
    unsetenv("RINGCOMM_JOB_ID");
    return errors;
}

int main(int argc, char **argv) {
    int errors = 0, failed, status;
    if (argc != 2) {
        fprintf(stderr, "usage: exit_without_destroy shm|tcp\n");
        return 2;
    }
    setenv("RINGCOMM_TRANSPORT", argv[1], 1);
    setenv("RINGCOMM_TIMEOUT", "30", 1);
    setenv("RINGCOMM_LOG", "error", 0);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        ending = &endings[i];
        if (rcm_spawn(RANKS, rank_run, NULL, 60000, &failed, &status) == RCM_OK)
            continue;
        fprintf(stderr, "FAIL %s: rank %d ends with %d: %s\n", ending->name, failed, status,
                rcm_last_error());
        errors++;
    }
    errors += at_once_rounds();
    return errors != 0;
}
