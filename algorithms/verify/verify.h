/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the parts of the verifier; no other file includes it.
 *
 *   verify.c         the order of the parts
 *   verify_steps.c   memory, descriptions of steps in error texts
 *   verify_form.c    each plan alone: valid lanes, operands and channel ends
 *   verify_match.c   channel ends of all ranks match, and so do their messages
 *   verify_answer.c  messages that are answered in their slots
 *   verify_graph.c   the event graph: deadlock, longest chain of messages
 *   verify_length.c  blocks of unequal length
 *   verify_hazard.c  accesses to a rank's buffers are ordered
 *   verify_data.c    every result is correct; a barrier synchronises
 *   verify_cost.c    the work of all plans equals what the algorithm counts
 *
 * A step is identified by its number among the steps of all ranks (rank after rank). It is one
 * event of the graph per run; events of run u follow those of run u-1 by nsteps.
 */
#ifndef RCMI_VERIFY_H
#define RCMI_VERIFY_H

#include "plan.h"

#define RCMI_VERIFY_RUNS 2 /* consecutive slices, or works, on the same channels */

/* One end of a channel. */
struct rcmi_verify_end {
    uint32_t rank;
    uint32_t first_use, nuses; /* steps that use it, in order: uses[first_use...] */
    uint32_t channel;          /* index into channels */
};

struct rcmi_verify_channel {
    uint32_t writer; /* end */
    uint32_t first_reader, nreaders;
    uint32_t first_message, nmessages;
};

enum { RCMI_EDGE_LANE, RCMI_EDGE_MESSAGE, RCMI_EDGE_CREDIT };

struct rcmi_verify_edge {
    uint32_t from, to; /* events */
    uint32_t kind;
};

struct rcmi_verifier {
    const struct rcmi_shape *shape;
    const struct rcmi_plan *const *plans;
    struct rcmi_verify_options options;
    uint32_t nranks, slots;

    uint32_t nsteps;     /* of all ranks */
    uint32_t *step_base; /* by rank, and one more */
    uint32_t *rank_of;   /* step -> rank */
    uint32_t *lane_of;   /* step -> lane of its rank */

    uint32_t nends;
    uint32_t *end_base; /* first end of each rank: its plan's channels in order */
    struct rcmi_verify_end *ends;
    uint32_t *uses; /* steps */
    uint32_t nchannels;
    struct rcmi_verify_channel *channels;
    uint32_t *readers; /* ends */
    uint32_t nmessages;
    uint32_t *answers; /* by message: the step that receives its answer + 1; 0: none */

    uint32_t nedges;
    struct rcmi_verify_edge *edges; /* sorted by from */
    uint32_t *edge_base;            /* of each event, and one more */
    uint32_t *order;                /* all steps of run 0, causes before effects */

    struct rcmi_verify_block *blocks; /* all memory */
};

/* Zeroed memory that lives as long as the verifier. NULL: the thread's error is set. */
void *rcmi_verify_alloc(struct rcmi_verifier *v, size_t count, size_t size);

void rcmi_verifier_free(struct rcmi_verifier *v);

const struct rcmi_step *rcmi_verify_step(const struct rcmi_verifier *v, uint32_t step);
const struct rcmi_operand *rcmi_verify_srcs(const struct rcmi_verifier *v, uint32_t step);
/* A number for the memory of a chunk of a rank's IN or OUT, below twice the chunks of the larger
 * buffer. */
uint32_t rcmi_verify_cell(const struct rcmi_verifier *v, const struct rcmi_plan *plan,
                          struct rcmi_operand buffer);
/* In place, a copy from a chunk of IN to the same chunk of OUT does nothing. */
bool rcmi_verify_is_noop(const struct rcmi_verifier *v, uint32_t step);

/* RCM_ERR_INTERNAL with "<algorithm>: rank 2 step 5 (send chunk 1: ...) " and the text. */
rcm_status rcmi_verify_fail_at(const struct rcmi_verifier *v, uint32_t step, const char *format,
                               ...) __attribute__((format(printf, 3, 4)));
/* "rank 2 step 5 (send chunk 1: in.1 -> to 3)" */
void rcmi_verify_describe(const struct rcmi_verifier *v, uint32_t step, char *text, size_t size);

rcm_status rcmi_verify_form(const struct rcmi_shape *shape, const struct rcmi_plan *plan);
rcm_status rcmi_verify_match(struct rcmi_verifier *v);
rcm_status rcmi_verify_answers(struct rcmi_verifier *v);
rcm_status rcmi_verify_graph(struct rcmi_verifier *v);
uint32_t rcmi_verify_rounds(struct rcmi_verifier *v, uint32_t *depth);
rcm_status rcmi_verify_lengths(struct rcmi_verifier *v);
rcm_status rcmi_verify_hazards(struct rcmi_verifier *v);
rcm_status rcmi_verify_data(struct rcmi_verifier *v);
rcm_status rcmi_verify_barrier(struct rcmi_verifier *v);
rcm_status rcmi_verify_cost(struct rcmi_verifier *v);

#endif
