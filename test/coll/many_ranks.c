/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many ranks on one machine start, run collectives and exit:
 *
 *     many_ranks auto|shm|tcp threads|processes N
 */
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t block_of(int rank) {
    return (size_t)(rank * 37 % 11) * 100;
}

/* Blocks that only the root has, to all ranks and back. */
static int check_blocks(rcm_comm *comm) {
    enum { MOST = 1000, RANKS_MAX = 256 };
    const int n = rcm_size(comm), rank = rcm_rank(comm), root = n / 2;
    static _Thread_local size_t counts[RANKS_MAX];
    int32_t own[MOST], *all = calloc((size_t)n * MOST, sizeof(*all));
    size_t total = 0;
    int errors = 0;
    for (int r = 0; r < n; r++)
        total += counts[r] = block_of(r);
    if (!all || n > RANKS_MAX)
        abort();
    for (size_t i = 0; i < total && rank == root; i++)
        all[i] = (int32_t)i;
    CHECK(errors,
          rcm_scatter_v(comm, all, counts, NULL, own, counts[rank], RCM_INT32, root, NULL, NULL) ==
              RCM_OK,
          "%s", rcm_last_error());
    for (size_t i = 0; i < counts[rank]; i++)
        own[i] = 2 * own[i] + 1;
    CHECK(errors,
          rcm_gather_v(comm, own, counts[rank], all, counts, NULL, RCM_INT32, root, NULL, NULL) ==
              RCM_OK,
          "%s", rcm_last_error());
    for (size_t i = 0; i < total && rank == root && errors == 0; i++)
        CHECK(errors, all[i] == 2 * (int32_t)i + 1, "element %zu is %d", i, all[i]);
    free(all);
    return errors;
}

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
    errors += check_blocks(comm);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: many_ranks auto|shm|tcp threads|processes N\n");
        return 2;
    }
    const struct ranks ranks = {.n = atoi(argv[3]),
                                .threads = strcmp(argv[2], "threads") == 0,
                                .transport = argv[1],
                                .timeout_ms = 120000};
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
