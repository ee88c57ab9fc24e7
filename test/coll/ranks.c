/* SPDX-License-Identifier: BSD-3-Clause */
/* See ranks.h. */
#include "ranks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rank {
    const struct ranks *ranks;
    int (*fn)(rcm_comm *comm, void *arg);
    void *arg;
    rcm_store *store;
    int rank, errors;
    pthread_t thread;
};

static int check_refusal(const struct rank *rank, rcm_status status, rcm_comm *comm) {
    int errors = 0;
    CHECK(errors, status == RCM_ERR_UNSUPPORTED && strstr(rcm_last_error(), rank->ranks->refused),
          "rank %d: init: %s, not \"%s\": %s", rank->rank, rcm_status_name(status),
          rank->ranks->refused, rcm_last_error());
    if (status == RCM_OK)
        (void)!rcm_destroy(comm);
    return errors;
}

static int rank_body(struct rank *rank) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm = NULL;
    char host[16];
    if (rank->ranks->hosts > 0) {
        snprintf(host, sizeof host, "h%d", rank->rank % rank->ranks->hosts);
        options.host_id = host;
    }
    options.transport = rank->ranks->transport;
    options.algorithm = rank->ranks->algorithm;
    options.timeout_ms = rank->ranks->timeout_ms ? rank->ranks->timeout_ms : 60000;
    if (rank->store) {
        options.store = rank->store;
        options.rank = rank->rank;
        options.world_size = rank->ranks->n;
    }
    if (rank->ranks->before)
        rank->ranks->before(rank->rank);
    const rcm_status status = rcm_init(&options, &comm);
    if (rank->ranks->refused)
        return check_refusal(rank, status, comm);
    if (status != RCM_OK) {
        fprintf(stderr, "rank %d: init: %s\n", rank->rank, rcm_last_error());
        return 1;
    }
    int errors = rank->fn(comm, rank->arg);
    if (rank->ranks->keep)
        return errors;
    if (rcm_destroy(comm) != RCM_OK) {
        fprintf(stderr, "rank %d: destroy: %s\n", rank->rank, rcm_last_error());
        errors++;
    }
    return errors;
}

static void *rank_thread(void *arg) {
    struct rank *rank = arg;
    rank->errors = rank_body(rank);
    return NULL;
}

static int run_threads(const struct ranks *ranks, int (*fn)(rcm_comm *, void *), void *arg) {
    struct rank *all = calloc((size_t)ranks->n, sizeof(*all));
    rcm_store *store;
    int errors = 0;
    if (!all || rcm_store_open("hash:", 1000, &store) != RCM_OK) {
        fprintf(stderr, "no store: %s\n", rcm_last_error());
        free(all);
        return 1;
    }
    for (int r = 0; r < ranks->n; r++) {
        all[r] = (struct rank){.ranks = ranks, .fn = fn, .arg = arg, .store = store, .rank = r};
        if (pthread_create(&all[r].thread, NULL, rank_thread, &all[r]) != 0)
            abort();
    }
    for (int r = 0; r < ranks->n; r++) {
        pthread_join(all[r].thread, NULL);
        errors += all[r].errors;
    }
    rcm_store_close(store);
    free(all);
    return errors;
}

static int rank_process(int rank, void *arg) {
    struct rank mine = *(struct rank *)arg;
    mine.rank = rank;
    const int errors = rank_body(&mine);
    return errors > 100 ? 100 : errors;
}

static int run_processes(const struct ranks *ranks, int (*fn)(rcm_comm *, void *), void *arg) {
    struct rank rank = {.ranks = ranks, .fn = fn, .arg = arg};
    int failed, status;
    if (rcm_spawn(ranks->n, rank_process, &rank, 300000, &failed, &status) == RCM_OK)
        return 0;
    fprintf(stderr, "%d ranks over %s: %s (rank %d, exit %d)\n", ranks->n, ranks->transport,
            rcm_last_error(), failed, status);
    return 1;
}

int ranks_run(const struct ranks *ranks, int (*fn)(rcm_comm *comm, void *arg), void *arg) {
    return ranks->threads ? run_threads(ranks, fn, arg) : run_processes(ranks, fn, arg);
}

static char process_state(int pid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return '?';
    const size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = '\0';
    const char *end = strrchr(text, ')'); /* of the name */
    return end && end[1] ? end[2] : '?';
}

void ranks_await_stopped(int pid) {
    for (int i = 0; i < 10000 && process_state(pid) != 'T'; i++)
        usleep(1000);
}
