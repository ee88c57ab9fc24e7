/* SPDX-License-Identifier: BSD-3-Clause */
/* Finishes plans: lays out in one block of memory what the builder collected. */
#include "builder.h"

#include <stdlib.h>
#include <string.h>
#include "error.h"

/* One block: the plan, then its arrays, which need an alignment of at most 4. */
static struct rcmi_plan *plan_allocate(const struct rcmi_plan *head) {
    const size_t steps = head->nsteps * sizeof(struct rcmi_step);
    const size_t lanes = head->nlanes * sizeof(struct rcmi_lane);
    const size_t operands = head->noperands * sizeof(struct rcmi_operand);
    const size_t channels = head->nchannels * sizeof(struct rcmi_plan_channel);
    const size_t listed = head->nlisted * sizeof(struct rcmi_listed);
    struct rcmi_plan *plan = malloc(sizeof(*plan) + steps + lanes + operands + channels + listed);
    if (!plan) {
        rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a plan of %u steps", head->nsteps);
        return NULL;
    }
    *plan = *head;
    char *at = (char *)(plan + 1);
    plan->steps = (struct rcmi_step *)(void *)at;
    plan->lanes = (struct rcmi_lane *)(void *)(at += steps);
    plan->operands = (struct rcmi_operand *)(void *)(at += lanes);
    plan->channels = (struct rcmi_plan_channel *)(void *)(at += operands);
    plan->listed = (struct rcmi_listed *)(void *)(at + channels);
    return plan;
}

static void plan_fill(struct rcmi_plan *plan, const struct rcmi_builder *b) {
    uint32_t first = 0;
    for (uint32_t lane = 0; lane < plan->nlanes; lane++) {
        const struct rcmi_lane_steps *from = &b->lanes[lane];
        if (from->nsteps > 0)
            memcpy(plan->steps + first, from->steps, from->nsteps * sizeof(*from->steps));
        plan->lanes[lane] = (struct rcmi_lane){.first_step = first, .nsteps = from->nsteps};
        first += from->nsteps;
    }
    if (plan->noperands > 0)
        memcpy(plan->operands, b->operands, plan->noperands * sizeof(*b->operands));
    if (plan->nchannels > 0)
        memcpy(plan->channels, b->channels, plan->nchannels * sizeof(*b->channels));
    if (plan->nlisted > 0)
        memcpy(plan->listed, b->head.listed, plan->nlisted * sizeof(*plan->listed));
}

static void builder_free(struct rcmi_builder *b) {
    for (int lane = 0; lane < RCMI_LANES_MAX; lane++)
        free(b->lanes[lane].steps);
    free(b->operands);
    free(b->head.listed);
    free(b->channels);
    free(b->buckets);
    free(b);
}

rcm_status rcmi_plan_finish(struct rcmi_builder *builder, struct rcmi_plan **ret_plan) {
    rcm_status status = builder->status;
    struct rcmi_plan *plan = NULL;
    if (status != RCM_OK)
        goto out;
    plan = plan_allocate(&builder->head);
    if (!plan) {
        status = RCM_ERR_NOMEM;
        goto out;
    }
    plan_fill(plan, builder);
    status = rcmi_plan_mark(plan);
    if (status != RCM_OK)
        rcmi_plan_free(plan);
    else
        *ret_plan = plan;
out:
    builder_free(builder);
    return status;
}
