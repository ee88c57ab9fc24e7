/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of each rank for 64 live groups of all ranks:
 *
 *     footprint TRANSPORT RANKS
 *
 * Measured after an all_reduce and an all_to_all of some bytes in each group, after messages that
 * use slots in one group, and after all groups are destroyed. The value is the rank's share of its
 * mapped pages (Pss), including pages shared with peers. With MALLOC_PERTURB_ the allocator fills
 * all memory, so all allocated memory counts.
 */
#include "../sanitized.h"
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>

enum { LIVE = 64, MOST_KIB = 32 << 10, LEFT_KIB = 12 << 10, BIG = 1 << 18 };

/* -1: unknown. */
static long share_kib(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[200];
    long kib = -1;
    while (file && kib < 0 && fgets(line, sizeof line, file))
        (void)sscanf(line, "Pss: %ld", &kib);
    if (file)
        (void)fclose(file);
    return kib;
}

/* Measures between two barriers, so that all ranks have done the step before and none the next
 * one. */
static long share_now(rcm_comm *comm, int *errors) {
    CHECK(*errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    const long kib = share_kib();
    CHECK(*errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    return kib;
}

static void within(rcm_comm *comm, const char *what, long before, long most, int *errors) {
    const long kib = share_now(comm, errors) - before;
    if (rcm_rank(comm) == 0)
        printf("64 groups of %d ranks, %s: %ld KiB more on rank 0\n", rcm_size(comm), what, kib);
    CHECK(*errors, before < 0 || TEST_SANITIZED || kib <= most, "%s: %ld KiB, more than %ld", what,
          kib, most);
}

static void reduce_each(rcm_comm *const *groups, int n, size_t count, int *errors) {
    float *data = calloc(count, sizeof *data);
    if (!data)
        abort();
    for (int i = 0; i < n; i++) {
        data[0] = data[count - 1] = 1;
        CHECK(*errors,
              rcm_all_reduce(groups[i], data, data, count, RCM_FLOAT32, RCM_SUM, NULL, NULL) ==
                      RCM_OK &&
                  data[count - 1] == (float)rcm_size(groups[i]),
              "group %d: %s", i, rcm_last_error());
    }
    free(data);
}

static void exchange_each(rcm_comm *const *groups, int n, int *errors) {
    char out[64] = "", in[64];
    for (int i = 0; i < n; i++)
        CHECK(*errors, rcm_all_to_all(groups[i], out, in, 4, RCM_UINT8, NULL, NULL) == RCM_OK,
              "group %d: %s", i, rcm_last_error());
}

static int footprint(rcm_comm *comm, void *arg) {
    rcm_comm *groups[LIVE] = {NULL};
    int errors = 0;
    (void)arg;
    reduce_each(&comm, 1, BIG, &errors);
    const long before = share_now(comm, &errors);
    for (int i = 0; i < LIVE; i++)
        CHECK(errors, rcm_comm_duplicate(comm, NULL, &groups[i]) == RCM_OK, "%s", rcm_last_error());
    reduce_each(groups, LIVE, 1, &errors);
    within(comm, "all_reduce of 4 bytes", before, MOST_KIB, &errors);
    exchange_each(groups, LIVE, &errors);
    within(comm, "all_to_all of 4 bytes", before, MOST_KIB, &errors);
    reduce_each(groups, 1, BIG, &errors);
    within(comm, "all_reduce of 1 MiB in one", before, MOST_KIB, &errors);
    reduce_each(groups, LIVE, 1 << 14, &errors); /* uses other slots */
    for (int i = 0; i < LIVE; i++)
        CHECK(errors, rcm_destroy(groups[i]) == RCM_OK, "%s", rcm_last_error());
    within(comm, "after their end", before, LEFT_KIB, &errors);
    return errors;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: footprint TRANSPORT RANKS\n");
        return 2;
    }
    const struct ranks ranks = {.n = atoi(argv[2]), .transport = argv[1]};
    return ranks_run(&ranks, footprint, NULL) != 0;
}
