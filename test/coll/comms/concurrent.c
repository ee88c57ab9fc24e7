/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Independent communicators: every rank has two and uses each from its own thread at the same time,
 * blocking and asynchronous. One communicator is aborted, the other goes on:
 *
 *     concurrent shm|tcp N
 */
#include <pthread.h>
#include "../ranks.h"
#include <stdio.h>
#include <stdlib.h>

struct side {
    rcm_store *store;
    const char *transport;
    int rank, n, which, errors;
    pthread_t thread;
};

static int use(rcm_comm *comm, int which) {
    enum { COUNT = 700, ROUNDS = 60 };
    float data[COUNT];
    int errors = 0;
    for (int i = 0; i < ROUNDS; i++) {
        rcm_work *work = NULL;
        for (int k = 0; k < COUNT; k++)
            data[k] = (float)(rcm_rank(comm) + k + which);
        rcm_status status = rcm_all_reduce(comm, data, data, COUNT, RCM_FLOAT32, RCM_MAX, NULL,
                                           i % 2 ? &work : NULL);
        if (status == RCM_OK && work)
            status = rcm_work_wait(work, -1);
        rcm_work_free(work);
        if (status == RCM_ERR_ABORTED && which == 0 && i == ROUNDS - 1)
            break; /* rank 0 had its result and aborted before this rank was done */
        CHECK(errors, status == RCM_OK, "communicator %d: %s", which, rcm_last_error());
        CHECK(errors, data[COUNT - 1] == (float)(rcm_size(comm) + COUNT - 2 + which), "wrong max");
    }
    return errors;
}

static void *side_run(void *arg) {
    struct side *side = arg;
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm;
    options.store = side->store;
    options.rank = side->rank;
    options.world_size = side->n;
    options.transport = side->transport;
    options.timeout_ms = 60000;
    if (rcm_init(&options, &comm) != RCM_OK) {
        fprintf(stderr, "rank %d: %s\n", side->rank, rcm_last_error());
        side->errors = 1;
        return NULL;
    }
    side->errors = use(comm, side->which);
    if (side->which == 0 && side->rank == 0 && rcm_abort(comm, "test") != RCM_OK)
        side->errors++;
    if (side->which == 1)
        side->errors += use(comm, side->which);
    const rcm_status status = rcm_destroy(comm);
    const rcm_status expected = side->which == 0 ? RCM_ERR_ABORTED : RCM_OK;
    CHECK(side->errors, status == expected, "destroy of %d: %s", side->which,
          rcm_status_name(status));
    return NULL;
}

int main(int argc, char **argv) {
    enum { MAX = 8 };
    struct side sides[2 * MAX];
    rcm_store *stores[2];
    int errors = 0;
    if (argc < 3 || atoi(argv[2]) > MAX) {
        fprintf(stderr, "usage: concurrent shm|tcp N\n");
        return 2;
    }
    const int n = atoi(argv[2]);
    for (int w = 0; w < 2; w++)
        if (rcm_store_open("hash:", 1000, &stores[w]) != RCM_OK)
            return 1;
    for (int i = 0; i < 2 * n; i++) {
        sides[i] = (struct side){
            .store = stores[i % 2], .transport = argv[1], .rank = i / 2, .n = n, .which = i % 2};
        if (pthread_create(&sides[i].thread, NULL, side_run, &sides[i]) != 0)
            return 1;
    }
    for (int i = 0; i < 2 * n; i++) {
        pthread_join(sides[i].thread, NULL);
        errors += sides[i].errors;
    }
    for (int w = 0; w < 2; w++)
        rcm_store_close(stores[w]);
    return errors ? 1 : 0;
}
