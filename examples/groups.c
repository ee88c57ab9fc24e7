/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Process groups: communicators of some of the ranks. The collectives are the same on all of them.
 *
 *     ringcomm-run -n 4 -- ./groups
 */
#include <ringcomm.h>
#include <stdio.h>

static int fail(const char *what) {
    fprintf(stderr, "groups: %s: %s\n", what, rcm_last_error());
    return 1;
}

/* The sum of the ranks' numbers in the world. */
static int sum(rcm_comm *group, const char *which) {
    int32_t mine = rcm_world_rank(group, rcm_rank(group)), all = 0;
    if (rcm_all_reduce(group, &mine, &all, 1, RCM_INT32, RCM_SUM, NULL, NULL) != RCM_OK)
        return fail(which);
    printf("rank %d is rank %d of %d in %s (%s): the sum is %d\n", mine, rcm_rank(group),
           rcm_size(group), which, rcm_comm_name(group), all);
    return 0;
}

/* Every rank can call it, like new_group of torch.distributed. Ranks that are not in the list get a
 * handle without effect. */
static int first_two(rcm_comm *world) {
    const int ranks[] = {0, 1};
    rcm_comm *group;
    if (rcm_comm_subset(world, ranks, 2, 0, NULL, &group) != RCM_OK)
        return fail("rcm_comm_subset");
    if (rcm_barrier(group, NULL, NULL) != RCM_OK) /* no effect on the others */
        return fail("barrier");
    if (rcm_rank(group) < 0)
        printf("rank %d is not in it\n", rcm_rank(world));
    else if (sum(group, "the first two"))
        return 1;
    return rcm_destroy(group) == RCM_OK ? 0 : fail("destroy");
}

/* Rows and columns of a grid, for example for data and tensor parallelism. */
static int grid(rcm_comm *world, int columns) {
    const int row = rcm_rank(world) / columns, column = rcm_rank(world) % columns;
    rcm_comm *across, *down;
    if (rcm_comm_split(world, row, column, NULL, &across) != RCM_OK ||
        rcm_comm_split(world, column, row, NULL, &down) != RCM_OK)
        return fail("rcm_comm_split");
    if (sum(across, "its row") || sum(down, "its column"))
        return 1;
    return rcm_destroy(across) == RCM_OK && rcm_destroy(down) == RCM_OK ? 0 : fail("destroy");
}

int main(void) {
    rcm_comm *world;
    if (rcm_init(NULL, &world) != RCM_OK)
        return fail("init");
    if (rcm_size(world) < 2)
        fprintf(stderr, "groups: two ranks are needed\n");
    else if (first_two(world) || grid(world, 2))
        return 1;
    return rcm_destroy(world) == RCM_OK ? 0 : fail("destroy");
}
