/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that starts its own ranks: four processes run one function with parameters of the
 * parent. They send a tensor, blocking and asynchronous, and call the collectives.
 *
 *     ./spawn
 */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <ringcomm.h>

enum { RANKS = 4 };

struct parameters {
    const char *first, *second;
};

static int rank;

static void check(rcm_status status) {
    if (status != RCM_OK)
        errx(1, "rank %d: %s: %s", rank, rcm_status_name(status), rcm_last_error());
}

/* "rank 1 after: [1, 2, 3]", in one call of printf. */
static void show(const char *what, const float *values, int n) {
    char text[256] = "";
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "%s%g", i ? ", " : "", values[i]);
    }
    printf("rank %d %s: [%s]\n", rank, what, text);
}

/* From rank 0 to rank 1, blocking, then asynchronous. */
static void messages(rcm_comm *comm) {
    float tensor[4] = {0};
    rcm_work *work = NULL;
    if (rank == 0) {
        const float values[4] = {0.5f, 1, 1.5f, 2};
        check(rcm_send(comm, values, 4, RCM_FLOAT32, 1, 0, NULL, NULL));
        check(rcm_isend(comm, values, 4, RCM_FLOAT32, 1, 0, &work));
        check(rcm_work_wait(work, -1)); /* now the program can use the values */
    } else if (rank == 1) {
        show("before", tensor, 4);
        check(rcm_recv(comm, tensor, 4, RCM_FLOAT32, 0, 0, NULL, NULL));
        show("after", tensor, 4);
        memset(tensor, 0, sizeof(tensor));
        check(rcm_irecv(comm, tensor, 4, RCM_FLOAT32, 0, 0, &work));
        check(rcm_work_wait(work, -1));
        show("after, not blocking", tensor, 4);
    }
    rcm_work_free(work);
}

static void from_one(rcm_comm *comm) {
    float tensor[2] = {(float)rank, (float)rank}, parts[RANKS] = {10, 20, 30, 40}, mine;
    check(rcm_broadcast(comm, tensor, 2, RCM_FLOAT32, 0, NULL, NULL));
    show("broadcast", tensor, 2);
    check(rcm_scatter(comm, parts, &mine, 1, RCM_FLOAT32, 0, NULL, NULL));
    show("scatter", &mine, 1);
}

static void to_one(rcm_comm *comm) {
    const float ones[2] = {1, (float)rank}, mine = (float)rank;
    float sum[2], all[RANKS];
    check(rcm_reduce(comm, ones, sum, 2, RCM_FLOAT32, RCM_SUM, 0, NULL, NULL));
    check(rcm_gather(comm, &mine, all, 1, RCM_FLOAT32, 0, NULL, NULL));
    if (rank == 0) {
        show("reduce", sum, 2);
        show("gather", all, RANKS);
    }
}

static void to_all(rcm_comm *comm) {
    const float mine = (float)rank, row[RANKS] = {0, 1, 2, 3};
    float sum, largest, all[RANKS], part;
    check(rcm_all_reduce(comm, &mine, &sum, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL));
    show("all_reduce, sum", &sum, 1);
    check(rcm_all_reduce(comm, &mine, &largest, 1, RCM_FLOAT32, RCM_MAX, NULL, NULL));
    show("all_reduce, max", &largest, 1);
    check(rcm_all_gather(comm, &mine, all, 1, RCM_FLOAT32, NULL, NULL));
    show("all_gather", all, RANKS);
    check(rcm_reduce_scatter(comm, row, &part, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL));
    show("reduce_scatter", &part, 1);
    check(rcm_barrier(comm, NULL, NULL));
}

/* Runs in each process. The return value is the exit status. */
static int run(int number, void *arg) {
    const struct parameters *p = arg;
    rcm_comm *comm;
    rank = number;
    printf("%s %s - rank: %d\n", p->first, p->second, rank);
    check(rcm_init(NULL, &comm)); /* rcm_spawn has set the environment */
    messages(comm);
    from_one(comm);
    to_one(comm);
    to_all(comm);
    check(rcm_destroy(comm));
    return 0;
}

int main(void) {
    struct parameters parameters = {"A0", "B1"};
    int failed, status;
    if (rcm_spawn(RANKS, run, &parameters, 60000, &failed, &status) != RCM_OK)
        errx(1, "rank %d, status %d: %s", failed, status, rcm_last_error());
    return 0;
}
