/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that meet in one store with different secrets: no link is made, over no transport, and the
 * error comes at once and names the other rank. secret_mismatch shm|tcp
 */
#include "ringcomm.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS 2

struct rank {
    rcm_store *store;
    const char *transport, *secret;
    int rank;
    rcm_status status;
    struct rcm_error error;
    double seconds;
    pthread_t thread;
};

static int problems;

static void expect(int holds, const char *what, const struct rank *rank) {
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s (rank %d, %s, origin %d, after %.1f s: %s)\n", what,
            rank->rank, rcm_status_name(rank->status), rank->error.origin, rank->seconds,
            rank->error.text);
    problems++;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *rank_run(void *arg) {
    struct rank *rank = arg;
    struct rcm_init_options init = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm;
    init.store = rank->store;
    init.rank = rank->rank;
    init.world_size = RANKS;
    init.transport = rank->transport;
    init.secret = rank->secret;
    init.timeout_ms = 60000;
    rank->error = (struct rcm_error)RCM_ERROR_INIT;
    rank->status = rcm_init(&init, &comm);
    if (rank->status != RCM_OK) {
        snprintf(rank->error.text, sizeof(rank->error.text), "init: %s", rcm_last_error());
        return NULL;
    }
    const double began = now();
    rank->status = rcm_barrier(comm, NULL, NULL);
    rank->seconds = now() - began;
    (void)rcm_comm_error(comm, &rank->error);
    (void)!rcm_destroy(comm);
    return NULL;
}

static void run(const char *transport, const char *const secrets[RANKS], struct rank *ranks) {
    rcm_store *store;
    if (rcm_store_open("hash:", 1000, &store) != RCM_OK)
        abort();
    for (int r = 0; r < RANKS; r++) {
        ranks[r] =
            (struct rank){.store = store, .transport = transport, .secret = secrets[r], .rank = r};
        if (pthread_create(&ranks[r].thread, NULL, rank_run, &ranks[r]) != 0)
            abort();
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(ranks[r].thread, NULL);
    rcm_store_close(store);
}

/* Both fail soon. The first one's error gives the reason; the other has the same, or finds it
 * itself. */
static void check_refused(const char *transport, const char *a, const char *b) {
    const char *const secrets[RANKS] = {a, b};
    struct rank ranks[RANKS];
    int named = 0;
    run(transport, secrets, ranks);
    for (int r = 0; r < RANKS; r++) {
        expect(ranks[r].status < 0, "an error is returned", &ranks[r]);
        expect(ranks[r].seconds < 20, "long before the deadline", &ranks[r]);
        expect(ranks[r].error.origin == 1 - r, "it names the other rank", &ranks[r]);
        named += ranks[r].status == RCM_ERR_AUTH && strstr(ranks[r].error.text, "secret");
    }
    expect(named > 0, "one error is about the secret", &ranks[0]);
    expect(named > 0, "or the other one is", &ranks[1]);
}

static void check_linked(const char *transport, const char *secret) {
    const char *const secrets[RANKS] = {secret, secret};
    struct rank ranks[RANKS];
    run(transport, secrets, ranks);
    for (int r = 0; r < RANKS; r++)
        expect(ranks[r].status == RCM_OK, "equal secrets link", &ranks[r]);
}

int main(int argc, char **argv) {
    const char *transport = argc > 1 ? argv[1] : "shm";
    setenv("RINGCOMM_LOG", "warn", 0);
    check_linked(transport, "open sesame");
    check_refused(transport, "open sesame", "open barley");
    check_refused(transport, "open sesame", NULL);
    check_refused(transport, NULL, "open sesame");
    return problems ? 1 : 0;
}
