/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many ranks on one machine start, compute and end:
 *     many auto|shm|tcp threads|processes N
 */
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check(rcm_comm *comm, void *arg) {
    const int n = rcm_size(comm);
    int errors = 0;
    (void)arg;
    for (int i = 0; i < 5; i++) {
        int64_t mine[3] = {rcm_rank(comm), 1, i}, sum[3];
        CHECK(errors, rcm_all_reduce(comm, mine, sum, 3, RCM_INT64, RCM_SUM, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors, sum[0] == (int64_t)n * (n - 1) / 2 && sum[1] == n && sum[2] == (int64_t)i * n,
              "rank %d: wrong sum", rcm_rank(comm));
    }
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: many auto|shm|tcp threads|processes N\n");
        return 2;
    }
    const struct ranks ranks = {.n = atoi(argv[3]),
                                .threads = strcmp(argv[2], "threads") == 0,
                                .transport = argv[1],
                                .timeout_ms = 120000};
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
