/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between neighbours as broadcasts in groups of two. Programs do this for libraries
 * without send and receive (DeepSpeed's p2p.py with can_send_recv() false).
 *
 *     ringcomm-run -n 4 -- ./pair_broadcast
 *
 * An array goes down the pipeline and back up. Each stage adds its number.
 */
#include <ringcomm.h>
#include <stdio.h>

#define COUNT 1000

static int fail(const char *what) {
    fprintf(stderr, "pair_broadcast: %s: %s\n", what, rcm_last_error());
    return 1;
}

/* The stage before this one and the stage after it; NULL at the ends. */
struct stage {
    rcm_comm *world, *before, *after;
    int number;
};

/* Ranks i and i + 1 make pair i. No other rank takes part. */
static rcm_status pair_make(rcm_comm *world, int first, rcm_comm **ret_pair) {
    const int ranks[] = {first, first + 1};
    return rcm_comm_subset(world, ranks, 2, (uint64_t)first, NULL, ret_pair);
}

static rcm_status stage_make(struct stage *stage) {
    rcm_status status = RCM_OK;
    if (stage->number > 0)
        status = pair_make(stage->world, stage->number - 1, &stage->before);
    if (status == RCM_OK && stage->number + 1 < rcm_size(stage->world))
        status = pair_make(stage->world, stage->number, &stage->after);
    return status;
}

/* The root of the broadcast is the sender. */
static rcm_status pair_send(rcm_comm *pair, float *data) {
    return rcm_broadcast(pair, data, COUNT, RCM_FLOAT32, rcm_rank(pair), NULL, NULL);
}
static rcm_status pair_receive(rcm_comm *pair, float *data) {
    return rcm_broadcast(pair, data, COUNT, RCM_FLOAT32, 1 - rcm_rank(pair), NULL, NULL);
}

static rcm_status stage_run(const struct stage *stage, float *data) {
    rcm_status status = stage->before ? pair_receive(stage->before, data) : RCM_OK;
    for (int i = 0; i < COUNT; i++)
        data[i] += (float)stage->number;
    if (status == RCM_OK && stage->after)
        status = pair_send(stage->after, data);
    if (status == RCM_OK && stage->after)
        status = pair_receive(stage->after, data);
    if (status == RCM_OK && stage->before)
        status = pair_send(stage->before, data);
    return status;
}

int main(void) {
    static float data[COUNT];
    struct stage stage = {0};
    if (rcm_init(NULL, &stage.world) != RCM_OK)
        return fail("init");
    stage.number = rcm_rank(stage.world);
    if (stage_make(&stage) != RCM_OK)
        return fail("rcm_comm_subset");
    if (stage_run(&stage, data) != RCM_OK)
        return fail("broadcast");
    printf("stage %d of %d: %g to %g\n", stage.number, rcm_size(stage.world), data[0],
           data[COUNT - 1]);
    if (rcm_destroy(stage.before) != RCM_OK || rcm_destroy(stage.after) != RCM_OK ||
        rcm_destroy(stage.world) != RCM_OK)
        return fail("destroy");
    return 0;
}
