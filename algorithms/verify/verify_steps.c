/* SPDX-License-Identifier: BSD-3-Clause */
/* The verifier's memory, and access to steps: as data, and as text for errors. */
#include "verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "error.h"

struct rcmi_verify_block {
    struct rcmi_verify_block *next;
    _Alignas(max_align_t) char bytes[];
};

void *rcmi_verify_alloc(struct rcmi_verifier *v, size_t count, size_t size) {
    struct rcmi_verify_block *block = NULL;
    if (count <= (SIZE_MAX - sizeof(*block)) / size)
        block = calloc(1, sizeof(*block) + count * size);
    if (!block) {
        rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to verify plans of %u ranks", v->nranks);
        return NULL;
    }
    block->next = v->blocks;
    v->blocks = block;
    return block->bytes;
}

void rcmi_verifier_free(struct rcmi_verifier *v) {
    while (v->blocks) {
        struct rcmi_verify_block *block = v->blocks;
        v->blocks = block->next;
        free(block);
    }
}

const struct rcmi_step *rcmi_verify_step(const struct rcmi_verifier *v, uint32_t step) {
    const uint32_t rank = v->rank_of[step];
    return &v->plans[rank]->steps[step - v->step_base[rank]];
}

const struct rcmi_operand *rcmi_verify_srcs(const struct rcmi_verifier *v, uint32_t step) {
    return &v->plans[v->rank_of[step]]->operands[rcmi_verify_step(v, step)->first_src];
}

uint32_t rcmi_verify_cell(const struct rcmi_verifier *v, const struct rcmi_plan *plan,
                          struct rcmi_operand buffer) {
    if (v->options.in_place)
        return rcmi_plan_cell(plan, buffer.where, buffer.index);
    return buffer.index + (buffer.where == RCMI_OUT ? rcmi_plan_chunks(plan, RCMI_IN) : 0);
}

bool rcmi_verify_is_noop(const struct rcmi_verifier *v, uint32_t step) {
    const struct rcmi_step *s = rcmi_verify_step(v, step);
    return v->options.in_place && rcmi_step_stays(v->plans[v->rank_of[step]], s);
}

void rcmi_verify_describe(const struct rcmi_verifier *v, uint32_t step, char *text, size_t size) {
    char words[96];
    const uint32_t rank = v->rank_of[step], index = step - v->step_base[rank];
    rcmi_step_describe(v->plans[rank], index, words, sizeof(words));
    snprintf(text, size, "rank %u step %u (%s)", rank, index, words);
}

rcm_status rcmi_verify_fail_at(const struct rcmi_verifier *v, uint32_t step, const char *format,
                               ...) {
    char where[160], what[320];
    va_list args;
    rcmi_verify_describe(v, step, where, sizeof(where));
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "%s: %s %s", v->plans[0]->algorithm, where, what);
}
