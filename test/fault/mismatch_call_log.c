/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message of another call arrives, and its sender is queried for its calls. Rank 1 broadcasts 100
 * numbers and stops; ranks 0 and 2 take part in a broadcast of 4000.
 *
 *     mismatch_call_log alone shm|tcp    rank 1 stays stopped: the others report what they have
 *                                        found, in time
 *     mismatch_call_log frozen shm|tcp   all are stopped for longer than the wait for the call
 *                                        log: that time does not count against rank 1, and the
 *                                        error names both calls
 */
#include "../coll/ranks.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    RANKS = 3,
    TIMEOUT_MS = 12000, /* of the broadcast of 4000; a quarter of it for the call log */
    NOTICED_MS = 100,
    FROZEN_MS = TIMEOUT_MS / 4 + 500,
    FIRST_MS = 400 /* head start of the others: enough to send on their own */
};

struct board {
    bool frozen;
    _Atomic int pid[RANKS];
    _Atomic int called, returned; /* number of the other two ranks */
};

static void sleep_ms(int ms) {
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static rcm_status cast(rcm_comm *comm, size_t count, int64_t timeout_ms) {
    static float data[4000];
    struct rcm_call call = RCM_CALL_INIT;
    call.timeout_ms = timeout_ms;
    return rcm_broadcast(comm, data, count, RCM_FLOAT32, 1, &call, NULL);
}

static rcm_status play_stopped(rcm_comm *comm) {
    const rcm_status status = cast(comm, 100, 0);
    if (status != RCM_OK)
        return status;
    raise(SIGSTOP);
    return rcm_barrier(comm, NULL, NULL);
}

static rcm_status play_waiting(rcm_comm *comm, struct board *board) {
    ranks_await_stopped(atomic_load(&board->pid[1]));
    atomic_fetch_add(&board->called, 1);
    const rcm_status status = cast(comm, 4000, TIMEOUT_MS);
    atomic_fetch_add(&board->returned, 1);
    return status;
}

static int rank_play(rcm_comm *comm, void *arg) {
    struct board *board = arg;
    struct rcm_error error = RCM_ERROR_INIT;
    const int rank = rcm_rank(comm);
    int errors = 0;
    atomic_store(&board->pid[rank], getpid());
    rcm_status status = cast(comm, 100, 0); /* opens the channels: the next is sent at once */
    if (status == RCM_OK)
        status = rank == 1 ? play_stopped(comm) : play_waiting(comm, board);
    (void)rcm_comm_error(comm, &error);
    CHECK(errors, status == RCM_ERR_MISMATCH, "rank %d got %s: %s", rank, rcm_status_name(status),
          error.text);
    const char *words[2] = {"broadcast of 100 float32", "broadcast of 4000 float32"};
    if (!board->frozen)
        words[0] = words[1] = "rank 1 made a different call than this rank";
    for (int i = 0; i < 2; i++)
        CHECK(errors, strstr(error.text, words[i]), "rank %d's error lacks \"%s\": %s", rank,
              words[i], error.text);
    CHECK(errors, rcm_destroy(comm) == status, "rcm_destroy did not return the error");
    return errors;
}

static void others_kill(struct board *board, int signal) {
    kill(atomic_load(&board->pid[0]), signal);
    kill(atomic_load(&board->pid[2]), signal);
}

/* Stops the other two, and continues all. */
static void direct(struct board *board) {
    while (atomic_load(&board->called) < RANKS - 1)
        sleep_ms(1);
    if (board->frozen) {
        sleep_ms(NOTICED_MS);
        others_kill(board, SIGSTOP);
        sleep_ms(FROZEN_MS);
        others_kill(board, SIGCONT);
        sleep_ms(FIRST_MS);
    }
    while (!board->frozen && atomic_load(&board->returned) < RANKS - 1)
        sleep_ms(1);
    kill(atomic_load(&board->pid[1]), SIGCONT);
}

int main(int argc, char **argv) {
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc != 3 || board == MAP_FAILED) {
        fprintf(stderr, "usage: mismatch_call_log alone|frozen shm|tcp\n");
        return 2;
    }
    board->frozen = strcmp(argv[1], "frozen") == 0;
    const struct ranks ranks = {
        .n = RANKS, .transport = argv[2], .timeout_ms = 30000, .keep = true};
    const pid_t director = fork();
    if (director == 0) {
        alarm(60);
        direct(board);
        _exit(0);
    }
    const int errors = ranks_run(&ranks, rank_play, board);
    kill(director, SIGKILL);
    waitpid(director, NULL, 0);
    return errors != 0;
}
