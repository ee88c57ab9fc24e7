/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Six collectives on one number of each rank: reduce, all_reduce, scatter, gather, all_gather and
 * broadcast.
 *
 *     ringcomm-run -n 4 -- ./six_collectives
 */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <ringcomm.h>

enum { RANKS_MAX = 64 };

static int rank, size;

static void check(rcm_status status) {
    if (status != RCM_OK)
        errx(1, "rank %d: %s: %s", rank, rcm_status_name(status), rcm_last_error());
}

static void show(const char *what, const float *values, int n) {
    char text[RANKS_MAX * 8] = "";
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "%s%.1f", i ? ", " : "", values[i]);
    }
    printf("[%d] %s: data = [%s]\n", rank, what, text);
}

static void do_reduce(rcm_comm *comm) {
    float data = 1;
    check(rcm_reduce(comm, &data, &data, 1, RCM_FLOAT32, RCM_SUM, 0, NULL, NULL));
    show("reduce", &data, 1); /* only rank 0 has the sum */
}

static void do_all_reduce(rcm_comm *comm) {
    float data = 1;
    check(rcm_all_reduce(comm, &data, &data, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL));
    show("all_reduce", &data, 1);
}

static void do_scatter(rcm_comm *comm) {
    float list[RANKS_MAX], data;
    for (int i = 0; i < size; i++) /* of rank 0; the lists of other ranks are not used */
        list[i] = (float)(i + 1);
    check(rcm_scatter(comm, list, &data, 1, RCM_FLOAT32, 0, NULL, NULL));
    show("scatter", &data, 1);
}

static void do_gather(rcm_comm *comm) {
    const float data = (float)rank;
    float list[RANKS_MAX];
    check(rcm_gather(comm, &data, list, 1, RCM_FLOAT32, 0, NULL, NULL));
    if (rank == 0)
        show("gather", list, size);
}

static void do_all_gather(rcm_comm *comm) {
    const float data = (float)rank;
    float list[RANKS_MAX];
    check(rcm_all_gather(comm, &data, list, 1, RCM_FLOAT32, NULL, NULL));
    show("all_gather", list, size);
}

static void do_broadcast(rcm_comm *comm) {
    float data = (float)rank;
    check(rcm_broadcast(comm, &data, 1, RCM_FLOAT32, 0, NULL, NULL));
    show("broadcast", &data, 1);
}

int main(void) {
    rcm_comm *comm;
    check(rcm_init(NULL, &comm));
    rank = rcm_rank(comm);
    size = rcm_size(comm);
    if (size > RANKS_MAX)
        errx(1, "at most %d ranks", RANKS_MAX);
    printf("[%d] say hi!\n", rank);
    do_reduce(comm);
    do_all_reduce(comm);
    do_scatter(comm);
    do_gather(comm);
    do_all_gather(comm);
    do_broadcast(comm);
    check(rcm_destroy(comm));
    return 0;
}
