/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Execution: fragments of warps, barriers, warp-wide operations, and the scheduler.
 *
 * A fragment is a set of lanes at one pc. Usually the runnable fragment with the smallest pc runs
 * first, so that lanes reconverge after a branch. At random moments another one runs, so that lanes
 * of one warp that wait for each other make progress (independent thread scheduling).
 */
#include "ptx_internal.h"
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t ptx_random(struct run *run) {
    run->rng ^= run->rng << 13;
    run->rng ^= run->rng >> 7;
    run->rng ^= run->rng << 17;
    return run->rng >> 11;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void thread_of(const struct warp *w, int lane, unsigned tid[3]) {
    const unsigned *b = w->run->launch->block;
    unsigned linear = (unsigned)(w->index * LANES + lane);
    tid[0] = linear % b[0];
    tid[1] = linear / b[0] % b[1];
    tid[2] = linear / b[0] / b[1];
}

_Noreturn void ptx_fault_at(struct warp *w, const struct insn *in, int lane, enum ptx_fault code,
                            const char *format, ...) {
    struct run *r = w->run;
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    unsigned t[3];
    thread_of(w, lane, t);
    snprintf(r->why, r->why_len, "%s: block (%u,%u,%u) thread (%u,%u,%u): %s; PTX line %d: %s",
             r->fn->name, w->cta->id[0], w->cta->id[1], w->cta->id[2], t[0], t[1], t[2], text,
             in->line, in->text);
    r->code = code;
    longjmp(r->fault, 1);
}

static _Noreturn void unsupported(struct warp *w, const struct insn *in) {
    fprintf(stderr, "ptx: kernel %s, PTX line %d: unsupported instruction: %s\n", w->fn->name,
            in->line, in->text);
    abort();
}

/* ---- fragments ------------------------------------------------------------------------------- */

static uint32_t live_lanes(const struct warp *w) {
    uint32_t m = 0;
    for (int i = 0; i < w->nfrag; i++)
        m |= w->frag[i].mask;
    return m;
}

static void remove_fragment(struct warp *w, int i) {
    w->frag[i] = w->frag[--w->nfrag];
}

/* Merges fragments at one pc. A fragment that waited there checks its condition again. */
static void merge_fragments(struct warp *w) {
    for (int i = 0; i < w->nfrag; i++)
        for (int k = i + 1; k < w->nfrag; k++) {
            struct fragment *a = &w->frag[i], *b = &w->frag[k];
            if (a->pc != b->pc || a->state == F_BARRIER || b->state == F_BARRIER)
                continue;
            a->mask |= b->mask;
            a->state = F_RUN;
            remove_fragment(w, k--);
        }
}

/* Returns false when no fragment can run. */
static bool select_fragment(struct warp *w) {
    if (w->nfrag > 1)
        merge_fragments(w);
    bool any = w->nfrag > 1 && ptx_random(w->run) % 32 == 0;
    int best = -1, seen = 0;
    for (int i = 0; i < w->nfrag; i++) {
        if (w->frag[i].state != F_RUN)
            continue;
        seen++;
        if (best < 0 ||
            (any ? ptx_random(w->run) % (unsigned)seen == 0 : w->frag[i].pc < w->frag[best].pc))
            best = i;
    }
    w->cur = best;
    return best >= 0;
}

void ptx_exec_bra(struct warp *w, const struct insn *in, uint32_t taken) {
    struct fragment *f = &w->frag[w->cur];
    if (taken == f->mask) {
        f->pc = in->op[0].slot;
        return;
    }
    f->pc++;
    if (!taken)
        return;
    f->mask &= ~taken;
    w->frag[w->nfrag++] = (struct fragment){in->op[0].slot, taken, F_RUN, 0};
}

/* ---- barriers -------------------------------------------------------------------------------- */

struct vote_sum {
    int count, all;
};

static struct vote_sum barrier_votes(struct cta *cta, int id) {
    struct vote_sum v = {0, 1};
    for (int k = 0; k < cta->nwarps; k++) {
        struct warp *w = &cta->warps[k];
        for (int i = 0; i < w->nfrag; i++) {
            struct fragment *f = &w->frag[i];
            const struct insn *in = &w->fn->insns[f->pc];
            if (f->state != F_BARRIER || f->barrier != id || in->sub < 2)
                continue;
            uint32_t p = pred_of(w, &in->op[in->nops - 1]) & f->mask;
            v.count += __builtin_popcount(p);
            v.all &= p == f->mask;
        }
    }
    return v;
}

static void finish_red(struct warp *w, const struct insn *in, uint32_t mask, struct vote_sum v) {
    if (in->sub == 2)
        FOR_LANES(mask, dst(w, in)[l] = (uint64_t)v.count);
    else if (in->sub > 2)
        set_pred(w, in->op[0].slot, (in->sub == 3 ? v.all : v.count > 0) ? ~0u : 0, mask);
}

static void release_barrier(struct cta *cta, int id) {
    struct vote_sum v = barrier_votes(cta, id);
    cta->arrived[id] = 0;
    for (int k = 0; k < cta->nwarps; k++) {
        struct warp *w = &cta->warps[k];
        for (int i = 0; i < w->nfrag; i++) {
            struct fragment *f = &w->frag[i];
            if (f->state != F_BARRIER || f->barrier != id)
                continue;
            finish_red(w, &w->fn->insns[f->pc], f->mask, v);
            f->state = F_RUN;
            f->pc++;
        }
    }
}

/* bar.sync id {, count}; bar.arrive id, count; bar.red d, id {, count}, p */
void ptx_exec_bar(struct warp *w, const struct insn *in, uint32_t mask) {
    struct fragment *f = &w->frag[w->cur];
    int first = in->sub >= 2, nargs = in->nops - 2 * first;
    int lane = __builtin_ctz(f->mask);
    unsigned id = (unsigned)src(w, in, first)[lane] & 15;
    int want = nargs > 1 ? (int)src(w, in, first + 1)[lane] : w->cta->nthreads;
    if (mask != f->mask)
        ptx_fault_at(w, in, lane, PTX_DEADLOCK, "barrier under a guard that diverges");
    w->cta->arrived[id] += __builtin_popcount(mask);
    w->cta->counted[id] = nargs > 1;
    if (in->sub == 1)
        f->pc++;
    else {
        f->state = F_BARRIER;
        f->barrier = (int)id;
    }
    if (w->cta->arrived[id] > want)
        ptx_fault_at(w, in, lane, PTX_DEADLOCK, "%d threads at a barrier for %d",
                     w->cta->arrived[id], want);
    if (w->cta->arrived[id] == want)
        release_barrier(w->cta, (int)id);
}

void ptx_exec_exit(struct warp *w, const struct insn *in, uint32_t mask) {
    (void)in;
    struct fragment *f = &w->frag[w->cur];
    f->mask &= ~mask;
    f->pc++;
    if (!f->mask)
        remove_fragment(w, w->cur);
    struct cta *cta = w->cta;
    cta->nthreads -= __builtin_popcount(mask);
    cta->live_warps -= w->nfrag == 0;
    for (int id = 0; id < 16 && mask; id++) /* waiting threads no longer wait for these */
        if (cta->nthreads && !cta->counted[id] && cta->arrived[id] == cta->nthreads)
            release_barrier(cta, id);
}

/* ---- warp-wide operations -------------------------------------------------------------------- */

/* True when all lanes of the member mask have arrived. Otherwise the fragment waits for them. */
static bool gathered(struct warp *w, const struct insn *in, uint32_t mask, uint32_t members) {
    struct fragment *f = &w->frag[w->cur];
    uint32_t need = members & live_lanes(w);
    int lane = __builtin_ctz(mask ? mask : f->mask);
    if (mask & ~members)
        ptx_fault_at(w, in, lane, PTX_TRAP, "lane is not in its own member mask 0x%x", members);
    if ((mask & need) == need) {
        f->pc++;
        return true;
    }
    f->state = F_SYNC;
    w->yield = true;
    return false;
}

static uint32_t members_at(struct warp *w, const struct insn *in, int operand, uint32_t mask) {
    return (uint32_t)src(w, in, operand)[__builtin_ctz(mask)];
}

#define NOTHING_TO_DO(mask)                                                                        \
    if (!(mask)) {                                                                                 \
        w->frag[w->cur].pc++;                                                                      \
        return;                                                                                    \
    }

void ptx_exec_warp_sync(struct warp *w, const struct insn *in, uint32_t mask) {
    NOTHING_TO_DO(mask)
    gathered(w, in, mask, members_at(w, in, 0, mask));
}

/* d|p, a, b, c, members */
void ptx_exec_shfl(struct warp *w, const struct insn *in, uint32_t mask) {
    NOTHING_TO_DO(mask)
    if (!gathered(w, in, mask, members_at(w, in, 4, mask)))
        return;
    const uint64_t *a = src(w, in, 1), *b = src(w, in, 2), *c = src(w, in, 3);
    uint64_t result[LANES];
    uint32_t valid = 0;
    for (int l = 0; l < LANES; l++) {
        int segment = (int)(c[l] >> 8) & 31, clamp = (int)c[l] & 31, by = (int)b[l] & 31;
        int max = (l & segment) | (clamp & ~segment), min = l & segment, from;
        bool ok;
        switch (in->sub) {
        case 0:
            from = l - by, ok = from >= max;
            break;
        case 1:
            from = l + by, ok = from <= max;
            break;
        case 2:
            from = l ^ by, ok = from <= max;
            break;
        default:
            from = min | (by & ~segment), ok = from <= max;
            break;
        }
        result[l] = (uint32_t)a[ok ? from : l];
        valid |= (uint32_t)ok << l;
    }
    FOR_LANES(mask, dst(w, in)[l] = result[l]);
    if (in->op[0].slot2 >= 0)
        set_pred(w, in->op[0].slot2, valid, mask);
}

/* d, p, members */
void ptx_exec_vote(struct warp *w, const struct insn *in, uint32_t mask) {
    NOTHING_TO_DO(mask)
    if (!gathered(w, in, mask, members_at(w, in, 2, mask)))
        return;
    uint32_t p = pred_of(w, &in->op[1]) & mask;
    bool r = in->sub == 0 ? p == mask : in->sub == 1 ? p != 0 : p == mask || p == 0;
    if (in->sub == 3)
        FOR_LANES(mask, dst(w, in)[l] = p);
    else
        set_pred(w, in->op[0].slot, r ? ~0u : 0, mask);
}

/* d{|p}, a, members */
void ptx_exec_match(struct warp *w, const struct insn *in, uint32_t mask) {
    NOTHING_TO_DO(mask)
    if (!gathered(w, in, mask, members_at(w, in, 2, mask)))
        return;
    const uint64_t *a = src(w, in, 1);
    uint64_t keep = ptx_type_size(in->type) == 8 ? ~0ull : 0xffffffffu, result[LANES];
    for (int l = 0; l < LANES; l++) {
        result[l] = 0;
        for (int k = 0; k < LANES; k++)
            if (mask >> k & 1 && (a[k] & keep) == (a[l] & keep))
                result[l] |= 1u << k;
        if (in->sub && result[l] != mask)
            result[l] = 0;
    }
    FOR_LANES(mask, dst(w, in)[l] = result[l]);
    if (in->op[0].slot2 >= 0)
        set_pred(w, in->op[0].slot2, result[__builtin_ctz(mask)] ? ~0u : 0, mask);
}

void ptx_exec_activemask(struct warp *w, const struct insn *in, uint32_t mask) {
    FOR_LANES(mask, dst(w, in)[l] = mask);
}

void ptx_exec_nanosleep(struct warp *w, const struct insn *in, uint32_t mask) {
    (void)in, (void)mask;
    w->yield = true;
}

void ptx_exec_trap(struct warp *w, const struct insn *in, uint32_t mask) {
    if (mask)
        ptx_fault_at(w, in, __builtin_ctz(mask), PTX_TRAP, "trap");
    w->frag[w->cur].pc++;
}

void ptx_exec_clock(struct warp *w, const struct insn *in, uint32_t mask) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec, v;
    switch (in->op[1].slot) {
    case SR_CLOCK:
        v = (uint32_t)w->run->insns;
        break;
    case SR_CLOCK64:
        v = w->run->insns;
        break;
    case SR_GLOBALTIMER_LO:
        v = (uint32_t)ns;
        break;
    default:
        v = ns;
        break;
    }
    FOR_LANES(mask, dst(w, in)[l] = v);
}

/* ---- the inner loop -------------------------------------------------------------------------- */

static void step_control(struct warp *w, const struct insn *in, uint32_t mask) {
    if (mask || in->exec == ptx_exec_bra)
        in->exec(w, in, mask);
    else
        w->frag[w->cur].pc++;
}

static void run_warp(struct warp *w, unsigned quantum) {
    w->yield = false;
    while (quantum && !w->yield && select_fragment(w)) {
        struct fragment *f = &w->frag[w->cur];
        do {
            const struct insn *in = &w->fn->insns[f->pc];
            uint32_t mask = f->mask;
            if (in->guard >= 0)
                mask &= in->guard_neg ? ~w->preds[in->guard] : w->preds[in->guard];
            w->run->insns++;
            quantum--;
            if (!in->exec)
                unsupported(w, in);
            if (in->control) {
                step_control(w, in, mask);
                break;
            }
            if (mask)
                in->exec(w, in, mask);
            f->pc++;
        } while (quantum && !w->yield && w->nfrag == 1);
    }
}

/* ---- CTAs ------------------------------------------------------------------------------------ */

static void set_special(struct warp *w, enum special sr, uint64_t value) {
    int slot = w->fn->special[sr];
    if (slot >= 0)
        for (int l = 0; l < LANES; l++)
            w->regs[slot][l] = value;
}

static void set_lane_specials(struct warp *w) {
    for (int l = 0; l < LANES; l++) {
        unsigned t[3];
        thread_of(w, l, t);
        uint32_t bit = 1u << l;
        uint64_t value[SR_COUNT] = {
            [SR_TID_X] = t[0],
            [SR_TID_Y] = t[1],
            [SR_TID_Z] = t[2],
            [SR_LANEID] = (uint64_t)l,
            [SR_LANEMASK_EQ] = bit,
            [SR_LANEMASK_LT] = bit - 1,
            [SR_LANEMASK_LE] = bit | (bit - 1),
            [SR_LANEMASK_GE] = ~(bit - 1),
            [SR_LANEMASK_GT] = ~(bit | (bit - 1)),
        };
        static const enum special per_lane[] = {SR_TID_X,       SR_TID_Y,       SR_TID_Z,
                                                SR_LANEID,      SR_LANEMASK_EQ, SR_LANEMASK_LT,
                                                SR_LANEMASK_LE, SR_LANEMASK_GE, SR_LANEMASK_GT};
        for (size_t i = 0; i < sizeof per_lane / sizeof *per_lane; i++)
            if (w->fn->special[per_lane[i]] >= 0)
                w->regs[w->fn->special[per_lane[i]]][l] = value[per_lane[i]];
    }
}

static void set_specials(struct warp *w, unsigned slot) {
    const struct ptx_launch *la = w->run->launch;
    for (int i = 0; i < 3; i++) {
        set_special(w, SR_NTID_X + (unsigned)i, la->block[i]);
        set_special(w, SR_CTAID_X + (unsigned)i, w->cta->id[i]);
        set_special(w, SR_NCTAID_X + (unsigned)i, la->grid[i]);
    }
    set_special(w, SR_WARPID, (uint64_t)w->index);
    set_special(w, SR_NWARPID, (uint64_t)w->cta->nwarps);
    set_special(w, SR_SMID, slot);
    set_special(w, SR_NSMID, w->run->nctas);
    set_special(w, SR_GRIDID, 1);
    set_special(w, SR_DYNAMIC_SMEM, la->dynamic_shared);
    set_special(w, SR_TOTAL_SMEM, w->run->shared_total);
    set_lane_specials(w);
}

/* Registers and shared memory start with garbage, the same in every run with one seed. */
static void start_cta(struct run *r, struct cta *cta) {
    const struct ptx_launch *la = r->launch;
    uint64_t n = r->next_cta++;
    unsigned slot = (unsigned)(cta - r->ctas);
    cta->id[0] = (unsigned)(n % la->grid[0]);
    cta->id[1] = (unsigned)(n / la->grid[0] % la->grid[1]);
    cta->id[2] = (unsigned)(n / la->grid[0] / la->grid[1]);
    cta->nthreads = (int)(la->block[0] * la->block[1] * la->block[2]);
    cta->live_warps = cta->nwarps;
    cta->nwb = 0;
    cta->active = true;
    memset(cta->arrived, 0, sizeof cta->arrived);
    memset(cta->shared, 0xa5, r->shared_total);
    for (int i = 0; i < cta->nwarps; i++) {
        struct warp *w = &cta->warps[i];
        int lanes = cta->nthreads - i * LANES;
        uint32_t mask = lanes >= LANES ? ~0u : (1u << lanes) - 1;
        w->frag[0] = (struct fragment){0, mask, F_RUN, 0};
        w->nfrag = 1;
        memset(w->regs, 0xa5, (size_t)r->fn->nregs * sizeof *w->regs);
        memset(w->preds, 0x5a, (size_t)r->fn->npreds * sizeof *w->preds);
        set_specials(w, slot);
    }
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static bool warp_ready(const struct warp *w) {
    for (int i = 0; i < w->nfrag; i++)
        if (w->frag[i].state == F_RUN)
            return true;
    return false;
}

static struct warp *ready_warp(struct cta *cta, unsigned from) {
    for (int i = 0; i < cta->nwarps; i++) {
        struct warp *w = &cta->warps[((unsigned)i + from) % (unsigned)cta->nwarps];
        if (w->nfrag && warp_ready(w))
            return w;
    }
    return NULL;
}

static _Noreturn void deadlock(struct cta *cta) {
    for (int i = 0; i < cta->nwarps; i++)
        if (cta->warps[i].nfrag) {
            struct warp *w = &cta->warps[i];
            ptx_fault_at(w, &w->fn->insns[w->frag[0].pc], __builtin_ctz(w->frag[0].mask),
                         PTX_DEADLOCK, "no thread of the block can run");
        }
    abort();
}

/* One turn of a CTA: one of its warps runs for a while. */
static bool turn(struct run *r, struct cta *cta, uint64_t round) {
    bool random = r->launch->seed != 0;
    struct warp *w = ready_warp(cta, random ? (unsigned)ptx_random(r) : (unsigned)round);
    if (!w)
        deadlock(cta);
    run_warp(w, random ? 1 + (unsigned)(ptx_random(r) % 64) : 4096);
    cta->active = cta->live_warps > 0;
    if (cta->nwb && !cta->active)
        ptx_drain(r, cta);
    else if (cta->nwb)
        ptx_leak(r, cta);
    return w->yield;
}

static void schedule(struct run *r) {
    unsigned active = 0, idle = 0;
    for (uint64_t round = 0;; round++) {
        if (r->launch->cancel && *r->launch->cancel) {
            r->code = PTX_TRAP;
            snprintf(r->why, r->why_len, "%s: cancelled", r->fn->name);
            return;
        }
        unsigned c = (unsigned)((r->launch->seed ? ptx_random(r) : round) % r->nctas);
        struct cta *cta = &r->ctas[c];
        if (!cta->active) {
            if (r->next_cta < r->total_ctas)
                start_cta(r, cta), active++;
            else if (active == 0)
                return;
            else
                continue;
        }
        idle = turn(r, cta, round / r->nctas) ? idle + 1 : 0;
        active -= !cta->active;
        if (idle > 2 * r->nctas) { /* all only wait: the host or a peer may continue */
            sched_yield();
            idle = 0;
        }
    }
}

enum ptx_fault ptx_run(const struct ptx_function *fn, const struct ptx_env *env,
                       const struct ptx_launch *launch, char *why, size_t why_len) {
    struct run *r = calloc(1, sizeof *r);
    *r = (struct run){.fn = fn, .env = env, .launch = launch, .why = why, .why_len = why_len};
    r->rng = launch->seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
    r->shared_total = fn->dynamic_base + launch->dynamic_shared;
    r->total_ctas = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    r->nctas = launch->resident < r->total_ctas ? launch->resident : (unsigned)r->total_ctas;
    ptx_ctas_take(r);
    if (setjmp(r->fault) == 0)
        schedule(r);
    enum ptx_fault code = r->code;
    if (launch->warp_insns)
        *launch->warp_insns = r->insns;
    if (launch->moved)
        memcpy(launch->moved, r->moved, sizeof r->moved);
    atomic_thread_fence(memory_order_seq_cst);
    ptx_ctas_give(r);
    free(r);
    return code;
}
