/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_comm_shrink_excluding, and background requests when a rank dies:
 *     shrink_excluding CASE shm|tcp RANKS
 *
 *   stopped    the last rank is stopped: the others continue without it; later it gets an error
 *   stopped0   the same for rank 0, which would lead
 *   calls      the excluded rank calls rcm_comm_shrink meanwhile
 *   dead       the excluded rank is dead
 *   differ     the ranks give different lists, then the same
 *   arguments  invalid lists, and an empty one
 *   creation   a rank dies while the others create a communicator in the background
 *   destroy    a rank dies while the others end one in the background
 */
#include "../coll/ranks.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LONG_MS = 20000, BEGUN_US = 100000 };

struct board {
    const char *what;
    _Atomic int pid, done;
};

static bool error_has(const char *words) {
    return strstr(rcm_last_error(), words) != NULL;
}

static void await(_Atomic int *counter, int least) {
    for (int i = 0; i < LONG_MS && atomic_load(counter) < least; i++)
        usleep(1000);
}

/* Odd ranks start a request and wait for it; even ranks make the blocking call. */
static rcm_status exclude(rcm_comm *comm, int victim, rcm_comm **ret_rest) {
    rcm_comm_request *request;
    if (rcm_rank(comm) % 2 == 0)
        return rcm_comm_shrink_excluding(comm, &victim, 1, NULL, ret_rest);
    const rcm_status status = rcm_comm_shrink_excluding_begin(comm, &victim, 1, NULL, &request);
    return status == RCM_OK ? rcm_comm_request_wait(request, -1, ret_rest) : status;
}

static int go_on(rcm_comm *comm, int victim) {
    rcm_comm *rest = NULL;
    int32_t sum = 1;
    int errors = 0;
    CHECK(errors, exclude(comm, victim, &rest) == RCM_OK, "%s", rcm_last_error());
    if (errors)
        return errors;
    CHECK(errors, rcm_all_reduce(rest, &sum, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, sum == rcm_size(comm) - 1, "the sum is %d", sum);
    CHECK(errors, rcm_destroy(rest) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* Checks the excluded rank's own call, and the error of comm. */
static int be_out(rcm_comm *comm, const char *leader) {
    rcm_comm *rest = NULL;
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    const rcm_status status = rcm_comm_shrink(comm, NULL, &rest);
    CHECK(errors,
          status == RCM_ERR_PEER && error_has(leader) && error_has("excluded this rank") &&
              error_has("rcm_comm_shrink_excluding"),
          "%s: %s", rcm_status_name(status), rcm_last_error());
    CHECK(errors, rcm_comm_error(comm, &error) == RCM_ERR_ABORTED, "%s", error.text);
    return errors;
}

static int stopped(rcm_comm *comm, struct board *board, int victim) {
    const char *leader = victim == 0 ? "rank 1" : "rank 0";
    char byte = 0;
    int errors = 0;
    if (rcm_rank(comm) == victim) {
        atomic_store(&board->pid, getpid());
        raise(SIGSTOP);
        await(&board->done, rcm_size(comm) - 1);
        /* Its next call names the function. */
        const rcm_status status =
            rcm_recv(comm, &byte, 1, RCM_UINT8, RCM_ANY_SOURCE, 1, NULL, NULL);
        CHECK(errors, status == RCM_ERR_ABORTED && error_has("rcm_comm_shrink_excluding"), "%s: %s",
              rcm_status_name(status), rcm_last_error());
        errors += be_out(comm, leader);
        atomic_fetch_add(&board->done, 1);
    } else {
        await(&board->pid, 1);
        ranks_await_stopped(atomic_load(&board->pid));
        errors += go_on(comm, victim);
        atomic_fetch_add(&board->done, 1);
        await(&board->done, rcm_size(comm) - 1);
        kill(atomic_load(&board->pid), SIGCONT);
        await(&board->done, rcm_size(comm)); /* so that a rank is left to inform it */
    }
    (void)!rcm_destroy(comm);
    return errors;
}

static int calls(rcm_comm *comm, struct board *board) {
    const int victim = rcm_size(comm) - 1;
    const int errors = rcm_rank(comm) == victim ? be_out(comm, "rank 0") : go_on(comm, victim);
    atomic_fetch_add(&board->done, 1);
    await(&board->done, rcm_size(comm));
    (void)!rcm_destroy(comm);
    return errors;
}

static int dead(rcm_comm *comm) {
    const int victim = 1;
    if (rcm_rank(comm) == victim)
        _exit(0);
    usleep(BEGUN_US);
    const int errors = go_on(comm, victim);
    (void)!rcm_destroy(comm);
    return errors;
}

static int differ(rcm_comm *comm, struct board *board) {
    const int last = rcm_size(comm) - 1, other = last - 1;
    const int *list = rcm_rank(comm) == 1 ? &other : &last;
    rcm_comm *rest = NULL;
    int errors = 0;
    if (rcm_rank(comm) < 2) {
        const rcm_status status = rcm_comm_shrink_excluding(comm, list, 1, NULL, &rest);
        CHECK(errors,
              status == RCM_ERR_MISMATCH && error_has("rank 0 excludes rank 3") &&
                  error_has("excludes rank 2") && error_has("rank 1 ("),
              "%s: %s", rcm_status_name(status), rcm_last_error());
    } else { /* it has not called, or some ranks exclude it */
        const rcm_status status = rcm_comm_shrink_excluding(
            comm, rcm_rank(comm) == last ? NULL : &last, rcm_rank(comm) != last, NULL, &rest);
        CHECK(errors, status == RCM_ERR_MISMATCH, "%s: %s", rcm_status_name(status),
              rcm_last_error());
    }
    /* Before the others end: afterwards no rank could inform it. */
    atomic_fetch_add(&board->done, 1);
    await(&board->done, rcm_size(comm));
    if (rcm_rank(comm) != last)
        errors += errors ? 0 : go_on(comm, last);
    (void)!rcm_destroy(comm);
    return errors;
}

static int arguments(rcm_comm *comm, struct board *board) {
    const int self = rcm_rank(comm), outside = rcm_size(comm), next = (self + 1) % rcm_size(comm);
    const int twice[] = {next, next};
    rcm_comm *rest = NULL;
    int errors = 0;
    CHECK(errors,
          rcm_comm_shrink_excluding(comm, &self, 1, NULL, &rest) == RCM_ERR_INVALID &&
              error_has("itself") &&
              rcm_comm_shrink_excluding(comm, &outside, 1, NULL, &rest) == RCM_ERR_INVALID &&
              error_has("no rank of comm") &&
              rcm_comm_shrink_excluding(comm, twice, 2, NULL, &rest) == RCM_ERR_INVALID &&
              error_has("twice") &&
              rcm_comm_shrink_excluding(comm, NULL, 1, NULL, &rest) == RCM_ERR_INVALID &&
              rcm_comm_shrink_excluding(comm, NULL, -1, NULL, &rest) == RCM_ERR_INVALID,
          "%s", rcm_last_error());
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    atomic_fetch_add(&board->done, 1); /* the barrier is over on all ranks */
    await(&board->done, rcm_size(comm));
    CHECK(errors, rcm_comm_shrink_excluding(comm, NULL, 0, NULL, &rest) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_size(rest) == rcm_size(comm), "size %d", rcm_size(rest));
    CHECK(errors, rcm_destroy(rest) == RCM_OK, "%s", rcm_last_error());
    (void)!rcm_destroy(comm);
    return errors;
}

/* The request fails with the name of the dead rank. */
static int dies(rcm_comm *comm, bool ends) {
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL;
    int errors = 0;
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    if (rcm_rank(comm) == 1) {
        usleep(BEGUN_US);
        _exit(0);
    }
    const rcm_status begun =
        ends ? rcm_destroy_begin(comm, &request) : rcm_comm_duplicate_begin(comm, NULL, &request);
    CHECK(errors, begun == RCM_OK, "%s", rcm_last_error());
    const rcm_status status = rcm_comm_request_wait(request, LONG_MS, &made);
    CHECK(errors, status == RCM_ERR_PEER && error_has("rank 1"), "%s: %s", rcm_status_name(status),
          rcm_last_error());
    rcm_comm_request_cancel(request);
    if (!ends)
        (void)!rcm_destroy(comm);
    return errors;
}

static int rank_run(rcm_comm *comm, void *arg) {
    struct board *board = arg;
    alarm(40);
    if (strcmp(board->what, "stopped") == 0)
        return stopped(comm, board, rcm_size(comm) - 1);
    if (strcmp(board->what, "stopped0") == 0)
        return stopped(comm, board, 0);
    if (strcmp(board->what, "calls") == 0)
        return calls(comm, board);
    if (strcmp(board->what, "dead") == 0)
        return dead(comm);
    if (strcmp(board->what, "differ") == 0)
        return differ(comm, board);
    if (strcmp(board->what, "arguments") == 0)
        return arguments(comm, board);
    return dies(comm, strcmp(board->what, "destroy") == 0);
}

int main(int argc, char **argv) {
    struct ranks ranks = {.timeout_ms = LONG_MS, .keep = true};
    if (argc != 4)
        return 2;
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    board->what = argv[1];
    ranks.transport = argv[2];
    ranks.n = atoi(argv[3]);
    return ranks_run(&ranks, rank_run, board) == 0 ? 0 : 1;
}
