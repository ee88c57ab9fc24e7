/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paper binding (compiled, not run): lowers a plan to a CUDA stream. Steps become stream
 * operations: wait until a flag in memory reaches a value, a kernel or a copy, write a flag. No
 * kernel spins on a peer.
 *
 * It shows that a plan is sufficient. Steps name the channel they read and write. With one counter
 * per channel end, counted while lowering, message i of a channel is flag value i, in slot i modulo
 * slots. A slot may be overwritten when the reader's counter has reached i - slots. The caller
 * unrolls slices.
 */
#include "plan.h"

/* Stand-ins for cuStreamWaitValue64, cuStreamWriteValue64, cuMemcpyAsync and cuLaunchKernel. */
struct stream;
void stream_wait(struct stream *stream, const uint64_t *flag, uint64_t at_least);
void stream_write(struct stream *stream, uint64_t *flag, uint64_t value);
void stream_copy(struct stream *stream, void *dst, const void *src, size_t bytes);
void stream_reduce(struct stream *stream, void *dst, const void *const *srcs, int n, size_t bytes);

/* Device memory of one channel end, as a cuda_ipc channel maps it. */
struct window {
    char *slots;
    size_t slot_bytes;
    uint32_t nslots;
    uint64_t *written; /* messages written so far */
    uint64_t *taken;   /* messages read so far */
    uint64_t next;     /* counted while lowering */
};

struct lowering {
    const struct rcmi_plan *plan;
    struct stream **lane; /* one stream per lane */
    struct window *windows;
    char *base[RCMI_SCRATCH + 1];
    size_t (*offset)(const struct rcmi_operand *operand);
    size_t bytes; /* of this slice of the chunk */
};

void lower_lane(struct lowering *l, uint32_t lane);

static char *window_slot(const struct window *w) {
    return w->slots + (w->next % w->nslots) * w->slot_bytes;
}

static void lower_step(struct lowering *l, struct stream *stream, const struct rcmi_step *step) {
    const struct rcmi_plan *plan = l->plan;
    const void *srcs[RCMI_SOURCES_MAX];
    for (uint32_t i = 0; i < step->nsrcs; i++) {
        const struct rcmi_operand *operand = &plan->operands[step->first_src + i];
        if (operand->where == RCMI_CHANNEL) {
            const struct window *w = &l->windows[operand->index];
            stream_wait(stream, w->written, w->next + 1);
            srcs[i] = window_slot(w);
        } else {
            srcs[i] = l->base[operand->where] + l->offset(operand);
        }
    }
    struct window *out = step->out != RCMI_NO_CHANNEL ? &l->windows[step->out] : NULL;
    char *dst = step->dst.where != RCMI_NOWHERE ? l->base[step->dst.where] + l->offset(&step->dst)
                : out                           ? window_slot(out)
                                                : NULL;
    if (out && out->next >= out->nslots)
        stream_wait(stream, out->taken, out->next - out->nslots + 1);
    if (step->nsrcs > 1)
        stream_reduce(stream, dst, srcs, step->nsrcs, l->bytes);
    else if (step->nsrcs == 1 && step->op != RCMI_STEP_WAIT)
        stream_copy(stream, dst, srcs[0], l->bytes);
    if (out && step->dst.where != RCMI_NOWHERE)
        stream_copy(stream, window_slot(out), dst, l->bytes);
    if (out)
        stream_write(stream, out->written, ++out->next);
    for (uint32_t i = 0; i < step->nsrcs; i++) {
        const struct rcmi_operand *operand = &plan->operands[step->first_src + i];
        if (operand->where == RCMI_CHANNEL) {
            struct window *w = &l->windows[operand->index];
            stream_write(stream, w->taken, ++w->next);
        }
    }
}

void lower_lane(struct lowering *l, uint32_t lane) {
    const struct rcmi_lane *steps = &l->plan->lanes[lane];
    for (uint32_t i = 0; i < steps->nsteps; i++)
        lower_step(l, l->lane[lane], &l->plan->steps[steps->first_step + i]);
}
