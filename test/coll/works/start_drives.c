/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start of a small asynchronous operation drives it inside the call. The library's thread is
 * held in a callback meanwhile, so nothing else can.
 *
 *     start_drives spin|yield
 *
 * A rank sends to itself, which takes two passes: the first sends, the second receives. spin: each
 * start drives at least once more, whatever the time. yield: each start yields the CPU and drives
 * again, except while yields rest (base/os/yield.h), so it counts one of many. A message above 64
 * KiB is not driven on.
 */
#include "../ranks.h"
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TINY = 8, SMALL = 64 << 10, LARGE = SMALL + 1, TRIES = 500 };

static unsigned char sent[LARGE], received[LARGE];
static sem_t held, freed;

static void hold(void *arg, rcm_status status) {
    (void)arg;
    (void)status;
    sem_post(&held);
    while (sem_wait(&freed) != 0)
        ;
}

/* Starts a message of this rank to itself. True: it was complete when its start returned. */
static bool start(rcm_comm *comm, size_t bytes, int *errors) {
    rcm_work *works[2] = {NULL, NULL};
    memset(received, 0, bytes);
    CHECK(*errors, rcm_irecv(comm, received, bytes, RCM_UINT8, 0, 5, &works[0]) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(*errors, rcm_isend(comm, sent, bytes, RCM_UINT8, 0, 5, &works[1]) == RCM_OK, "%s",
          rcm_last_error());
    const bool complete = memcmp(sent, received, bytes) == 0;
    for (int i = 0; i < 2; i++) {
        CHECK(*errors, rcm_work_wait(works[i], -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(works[i]);
    }
    CHECK(*errors, memcmp(sent, received, bytes) == 0, "wrong data");
    return complete;
}

/* Returns once the library's thread is in the callback. */
static void thread_hold(rcm_comm *comm, int *errors) {
    rcm_work *works[2] = {NULL, NULL};
    CHECK(*errors, rcm_irecv(comm, received, 1, RCM_UINT8, 0, 6, &works[0]) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(*errors, rcm_work_on_complete(works[0], hold, NULL) == RCM_OK, "%s", rcm_last_error());
    CHECK(*errors, rcm_isend(comm, sent, 1, RCM_UINT8, 0, 6, &works[1]) == RCM_OK, "%s",
          rcm_last_error());
    while (sem_wait(&held) != 0)
        ;
    rcm_work_free(works[0]);
    rcm_work_free(works[1]);
}

static int count(rcm_comm *comm, size_t bytes, int *errors) {
    int complete = 0;
    for (int i = 0; i < TRIES && *errors == 0; i++)
        complete += start(comm, bytes, errors);
    printf("%zu bytes: %d of %d were complete when the start returned\n", bytes, complete, TRIES);
    return complete;
}

static int run(rcm_comm *comm, void *arg) {
    const bool spins = strcmp(arg, "spin") == 0;
    int errors = 0;
    CHECK(errors, rcm_comm_set_spin(comm, spins ? 1000 : 0) == RCM_OK, "%s", rcm_last_error());
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (unsigned char)(i % 251 + 1);
    start(comm, sizeof sent, &errors); /* opens the channels */
    thread_hold(comm, &errors);
    const int tiny = count(comm, TINY, &errors), small = count(comm, SMALL, &errors),
              large = count(comm, LARGE, &errors), least = spins ? TRIES : 1;
    sem_post(&freed);
    CHECK(errors, tiny >= least && small >= least, "starts did not drive their messages");
    CHECK(errors, large == 0, "%d large messages were driven on", large);
    return errors;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: start_drives spin|yield\n");
        return 2;
    }
    setenv("RINGCOMM_SLOT_BYTES", "128K", 1);
    setenv("RINGCOMM_PROTOCOL", "eager=always", 1);
    if (sem_init(&held, 0, 0) != 0 || sem_init(&freed, 0, 0) != 0)
        return 1;
    const struct ranks ranks = {.n = 1, .threads = true, .transport = "auto"};
    return ranks_run(&ranks, run, argv[1]) != 0;
}
