/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank that measures the cost of creating and destroying communicators: rcm_comm_duplicate of
 * the world, then rcm_destroy, repeatedly. Before each of the two calls is a barrier, which is not
 * measured. Rank 0 prints one line of CSV: microseconds on rank 0.
 *
 *      ringcomm-run -n 4 -- creation-rank --rounds 500
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common.h"
#include "ringcomm.h"

#define CREATION_ROUNDS     200
#define CREATION_ROUNDS_MAX 1000000
#define CREATION_WARM_UP    5 /* rounds that are not counted */

enum creation_part { PART_DUPLICATE, PART_DESTROY, PART_BOTH, PART_COUNT };

static int compare_times(const void *x, const void *y) {
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

static bool creation_failed(const rcm_comm *world, const char *what) {
    tool_error("rank %d: %s: %s", rcm_rank(world), what, rcm_last_error());
    return false;
}

/* Times of one round, in nanoseconds. */
static bool creation_round(rcm_comm *world, int64_t times[PART_COUNT]) {
    rcm_comm *comm = NULL;
    if (rcm_barrier(world, NULL, NULL) != RCM_OK)
        return creation_failed(world, "barrier");
    int64_t begun = tool_now_ns();
    if (rcm_comm_duplicate(world, NULL, &comm) != RCM_OK)
        return creation_failed(world, "duplicate");
    times[PART_DUPLICATE] = tool_now_ns() - begun;
    if (rcm_barrier(world, NULL, NULL) != RCM_OK)
        return creation_failed(world, "barrier");
    begun = tool_now_ns();
    if (rcm_destroy(comm) != RCM_OK)
        return creation_failed(world, "destroy");
    times[PART_DESTROY] = tool_now_ns() - begun;
    times[PART_BOTH] = times[PART_DUPLICATE] + times[PART_DESTROY];
    return true;
}

static void creation_print(const rcm_comm *world, int64_t *times[PART_COUNT], size_t rounds) {
    static const char *const names[PART_COUNT] = {"duplicate", "destroy", "both"};
    printf("ranks,rounds");
    for (int p = 0; p < PART_COUNT; p++)
        printf(",%s_us,%s_p90_us", names[p], names[p]);
    printf("\n%d,%zu", rcm_size(world), rounds);
    for (int p = 0; p < PART_COUNT; p++) {
        qsort(times[p], rounds, sizeof(*times[p]), compare_times);
        printf(",%.1f,%.1f", (double)times[p][rounds / 2] / 1e3,
               (double)times[p][rounds * 9 / 10] / 1e3);
    }
    printf("\n");
}

static bool creation_measure(rcm_comm *world, size_t rounds) {
    int64_t *times[PART_COUNT] = {NULL}, round[PART_COUNT];
    bool ok = true;
    for (int p = 0; p < PART_COUNT; p++)
        ok = (times[p] = calloc(rounds, sizeof(*times[p]))) != NULL && ok;
    for (size_t i = 0; ok && i < rounds + CREATION_WARM_UP; i++) {
        ok = creation_round(world, round);
        for (int p = 0; ok && p < PART_COUNT && i >= CREATION_WARM_UP; p++)
            times[p][i - CREATION_WARM_UP] = round[p];
    }
    if (ok && rcm_rank(world) == 0)
        creation_print(world, times, rounds);
    for (int p = 0; p < PART_COUNT; p++)
        free(times[p]);
    return ok;
}

int main(int argc, char **argv) {
    int64_t rounds = CREATION_ROUNDS;
    rcm_comm *world;
    const bool given = argc == 3 && strcmp(argv[1], "--rounds") == 0;
    if (argc != 1 && !(given && tool_parse_int(argv[2], 1, CREATION_ROUNDS_MAX, &rounds))) {
        fprintf(stderr, "usage: creation-rank [--rounds N], with a launcher's environment\n");
        return TOOL_USAGE;
    }
    if (rcm_init(NULL, &world) != RCM_OK) {
        tool_error("%s", rcm_last_error());
        return TOOL_FAILED;
    }
    const bool ok = creation_measure(world, (size_t)rounds);
    if (!ok && rcm_abort(world, "the measurement of communicators failed") != RCM_OK)
        tool_error("abort: %s", rcm_last_error());
    return rcm_destroy(world) == RCM_OK && ok ? TOOL_OK : TOOL_FAILED;
}
