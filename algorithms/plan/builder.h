/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the parts of the builder; no other file includes it.
 *
 *   builder.c           begins a plan, makes channels and adds steps
 *   builder_finish.c    lays the plan out in one block of memory
 *   builder_flags.c     what follows from all steps of a plan: stable, lasting, early...
 */
#ifndef RCMI_BUILDER_H
#define RCMI_BUILDER_H

#include "plan.h"

#define RCMI_LANES_MAX 64

struct rcmi_lane_steps {
    struct rcmi_step *steps;
    uint32_t nsteps, capacity;
};

struct rcmi_builder {
    rcm_status status; /* the first failure */
    const struct rcmi_shape *shape;
    struct rcmi_plan head; /* without its arrays, except listed, which grows */
    struct rcmi_lane_steps lanes[RCMI_LANES_MAX];
    struct rcmi_operand *operands;
    uint32_t operand_capacity;
    uint32_t listed_capacity; /* of head.listed */
    struct rcmi_plan_channel *channels;
    uint32_t channel_capacity;
    uint32_t *buckets; /* open addressing over channels: index + 1, 0 is free */
    uint32_t nbuckets; /* a power of two, at least twice the channels */
};

/* Computes the flags of all steps. */
rcm_status rcmi_plan_mark(struct rcmi_plan *plan);

#endif
