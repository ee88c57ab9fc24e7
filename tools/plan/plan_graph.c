/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes all steps and messages of plans as text for Graphviz, for ringcomm-plan. */
#include "plan_graph.h"

static bool step_uses(const struct rcmi_plan *plan, const struct rcmi_step *step,
                      uint32_t channel) {
    if (step->out == channel)
        return true;
    for (uint32_t i = 0; i < step->nsrcs; i++) {
        const struct rcmi_operand *src = &plan->operands[step->first_src + i];
        if (src->where == RCMI_CHANNEL && src->index == channel)
            return true;
    }
    return false;
}

/* The number of a step's message on its channel. */
static uint32_t message_number(const struct rcmi_plan *plan, uint32_t step) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < step; i++)
        n += plan->steps[i].out == plan->steps[step].out;
    return n;
}

/* Writes an arrow to the step of `reader` that receives message n of the writer's channel, if there
 * is one. */
static void write_arrow(FILE *to, const struct rcmi_plan *writer, uint32_t step,
                        const struct rcmi_plan *reader, uint32_t n) {
    const struct rcmi_plan_channel *out = &writer->channels[writer->steps[step].out];
    for (uint32_t c = 0; c < reader->nchannels; c++) {
        const struct rcmi_plan_channel *in = &reader->channels[c];
        if (in->outgoing || in->peer != writer->rank || in->multicast != out->multicast ||
            in->number != out->number || (!out->multicast && out->peer != reader->rank))
            continue;
        for (uint32_t i = 0, seen = 0; i < reader->nsteps; i++)
            if (step_uses(reader, &reader->steps[i], c) && seen++ == n)
                fprintf(to, "  s%d_%u -> s%d_%u [color=\"#1f5fbf\"];\n", writer->rank, step,
                        reader->rank, i);
    }
}

static void write_messages(FILE *to, const struct rcmi_plan *const *plans, int rank) {
    for (uint32_t step = 0; step < plans[rank]->nsteps; step++) {
        if (plans[rank]->steps[step].out == RCMI_NO_CHANNEL)
            continue;
        const uint32_t n = message_number(plans[rank], step);
        for (int reader = 0; reader < plans[0]->nranks; reader++)
            if (reader != rank)
                write_arrow(to, plans[rank], step, plans[reader], n);
    }
}

static void write_rank(FILE *to, const struct rcmi_plan *plan) {
    fprintf(to, "  subgraph cluster_%d {\n    label=\"rank %d\"; color=gray;\n", plan->rank,
            plan->rank);
    for (uint32_t lane = 0; lane < plan->nlanes; lane++) {
        const struct rcmi_lane *l = &plan->lanes[lane];
        for (uint32_t i = 0; i < l->nsteps; i++) {
            char words[160];
            const uint32_t step = l->first_step + i;
            rcmi_step_describe(plan, step, words, sizeof(words));
            fprintf(to, "    s%d_%u [label=\"%s\"];\n", plan->rank, step, words);
            if (i > 0)
                fprintf(to, "    s%d_%u -> s%d_%u [style=dotted, arrowhead=none, weight=10];\n",
                        plan->rank, step - 1, plan->rank, step);
        }
    }
    fprintf(to, "  }\n");
}

void plan_write_dot(FILE *to, const struct rcmi_plan *const *plans) {
    fprintf(to, "digraph \"%s_%s_%d\" {\n", rcmi_collective_name(plans[0]->collective),
            plans[0]->algorithm, plans[0]->nranks);
    fprintf(to, "  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n");
    for (int rank = 0; rank < plans[0]->nranks; rank++)
        write_rank(to, plans[rank]);
    for (int rank = 0; rank < plans[0]->nranks; rank++)
        write_messages(to, plans, rank);
    fprintf(to, "}\n");
}
