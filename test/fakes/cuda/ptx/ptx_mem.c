/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads, stores, atomics and fences. Every access is checked (mapped, aligned) and made by C
 * atomics: relaxed for plain accesses, acquire and release as PTX requires.
 *
 * Weak mode: plain and relaxed stores to global memory wait in a buffer of the CTA. They leave it
 * in any order that keeps each address's own order, at the latest at a release, a fence or the
 * kernel's end. So other CTAs and processes see the effect of a missing release or __threadfence
 * before a flag.
 */
#include "ptx_internal.h"
#include "ptx_float.h"
#include <string.h>

/* ---- addresses ------------------------------------------------------------------------------- */

static const struct ptx_range *cached_range(struct run *r, uint64_t addr, unsigned size) {
    uint64_t gen = atomic_load_explicit(r->env->generation, memory_order_acquire);
    if (gen != r->cached_gen)
        memset(r->cached, 0, sizeof r->cached);
    r->cached_gen = gen;
    for (int i = 0; i < CACHED_RANGES; i++)
        if (addr >= r->cached[i].lo && addr + size <= r->cached[i].hi)
            return &r->cached[i];
    struct ptx_range *slot = &r->cached[r->next_cached++ % CACHED_RANGES];
    if (r->env->find(addr, r->launch->device, slot) && addr + size <= slot->hi)
        return slot;
    *slot = (struct ptx_range){.lo = 0};
    return NULL;
}

static uint8_t *global_ptr(struct warp *w, const struct insn *in, int lane, uint64_t addr,
                           unsigned size, bool write) {
    const struct ptx_range *r = cached_range(w->run, addr, size);
    if (!r)
        ptx_fault_at(w, in, lane, PTX_ILLEGAL_ADDRESS, "%s of %u bytes at 0x%llx, no such memory",
                     write ? "write" : "read", size, (unsigned long long)addr);
    if (write && r->read_only)
        ptx_fault_at(w, in, lane, PTX_ILLEGAL_ADDRESS, "write to read-only memory at 0x%llx",
                     (unsigned long long)addr);
    w->run->moved[r->memory][write] += size;
    return (uint8_t *)(uintptr_t)(addr + (uint64_t)r->shift);
}

static uint8_t *window_ptr(struct warp *w, const struct insn *in, int lane, uint64_t at,
                           unsigned size, uint8_t *base, uint64_t limit, const char *what) {
    if (at + size > limit)
        ptx_fault_at(w, in, lane, PTX_ILLEGAL_ADDRESS, "%s memory at offset %llu, only %llu bytes",
                     what, (unsigned long long)at, (unsigned long long)limit);
    return base + at;
}

static enum space generic_space(uint64_t *addr) {
    uint64_t window = *addr & WINDOW_MASK;
    enum space s = window == SHARED_WINDOW  ? SP_SHARED
                   : window == LOCAL_WINDOW ? SP_LOCAL
                   : window == PARAM_WINDOW ? SP_PARAM
                                            : SP_GLOBAL;
    if (s != SP_GLOBAL)
        *addr &= ~WINDOW_MASK;
    return s;
}

static uint8_t *locate(struct warp *w, const struct insn *in, int lane, uint64_t addr,
                       unsigned size, bool write, enum space *space) {
    *space = in->space;
    if (*space == SP_GENERIC)
        *space = generic_space(&addr);
    if (addr % size)
        ptx_fault_at(w, in, lane, PTX_MISALIGNED, "%u bytes at misaligned 0x%llx", size,
                     (unsigned long long)addr);
    if (*space == SP_PARAM && addr & CALL_PARAM)
        *space = SP_LOCAL;
    switch (*space) {
    case SP_SHARED:
        return window_ptr(w, in, lane, (uint32_t)addr, size, w->cta->shared, w->run->shared_total,
                          "shared");
    case SP_LOCAL:
        return window_ptr(w, in, lane, (uint32_t)addr, size,
                          w->local + (size_t)lane * w->fn->local_size, w->fn->local_size, "local");
    case SP_PARAM:
        return window_ptr(w, in, lane, addr, size, (uint8_t *)(uintptr_t)w->run->launch->params,
                          w->fn->param_size, "param");
    default:
        return global_ptr(w, in, lane, addr, size, write);
    }
}

/* ---- single accesses ------------------------------------------------------------------------ */

#define ORDER(sem, weakest) ((sem) == SEM_ACQUIRE ? __ATOMIC_ACQUIRE : (weakest))

static inline uint64_t load_value(const void *p, unsigned size) {
    switch (size) {
    case 1:
        return __atomic_load_n((const uint8_t *)p, __ATOMIC_RELAXED);
    case 2:
        return __atomic_load_n((const uint16_t *)p, __ATOMIC_RELAXED);
    case 4:
        return __atomic_load_n((const uint32_t *)p, __ATOMIC_RELAXED);
    default:
        return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
    }
}

static inline void store_value(void *p, unsigned size, uint64_t v) {
    switch (size) {
    case 1:
        __atomic_store_n((uint8_t *)p, (uint8_t)v, __ATOMIC_RELAXED);
        break;
    case 2:
        __atomic_store_n((uint16_t *)p, (uint16_t)v, __ATOMIC_RELAXED);
        break;
    case 4:
        __atomic_store_n((uint32_t *)p, (uint32_t)v, __ATOMIC_RELAXED);
        break;
    default:
        __atomic_store_n((uint64_t *)p, v, __ATOMIC_RELAXED);
        break;
    }
}

/* ---- the write buffer of weak mode ---------------------------------------------------------- */

static bool overlaps(const struct pending_store *s, const void *p, unsigned size) {
    return (uint8_t *)s->ptr < (const uint8_t *)p + size &&
           (const uint8_t *)p < (uint8_t *)s->ptr + s->size;
}

/* Entry i may leave only after earlier entries for the same bytes. */
static void drain_one(struct cta *cta, int i) {
    struct pending_store s = cta->wb[i];
    for (int k = 0; k < i; k++)
        if (overlaps(&cta->wb[k], s.ptr, s.size)) {
            drain_one(cta, k);
            drain_one(cta, i - 1);
            return;
        }
    store_value(s.ptr, s.size, s.value);
    memmove(&cta->wb[i], &cta->wb[i + 1], (size_t)(cta->nwb - i - 1) * sizeof s);
    cta->nwb--;
}

void ptx_drain(struct run *run, struct cta *cta) {
    while (cta->nwb)
        drain_one(cta, (int)(ptx_random(run) % (unsigned)cta->nwb));
    atomic_thread_fence(memory_order_seq_cst);
}

/* Makes one store visible at random moments. */
void ptx_leak(struct run *run, struct cta *cta) {
    if (ptx_random(run) % 8 == 0)
        drain_one(cta, (int)(ptx_random(run) % (unsigned)cta->nwb));
}

static void drain_address(struct cta *cta, const void *p, unsigned size) {
    for (int i = 0; i < cta->nwb; i++)
        if (overlaps(&cta->wb[i], p, size)) {
            drain_one(cta, i);
            i = -1;
        }
}

static void buffer_store(struct warp *w, void *p, unsigned size, uint64_t v) {
    struct cta *cta = w->cta;
    if (cta->nwb == WRITE_BUFFER)
        drain_one(cta, (int)(ptx_random(w->run) % WRITE_BUFFER));
    cta->wb[cta->nwb++] = (struct pending_store){p, v, size};
}

/* ---- ld and st ------------------------------------------------------------------------------- */

static inline uint64_t extend(uint64_t v, enum type t) {
    switch (t) {
    case T_S8:
        return (uint64_t)(int64_t)(int8_t)v;
    case T_S16:
        return (uint64_t)(int64_t)(int16_t)v;
    case T_S32:
        return (uint64_t)(int64_t)(int32_t)v;
    default:
        return v;
    }
}

static void load_element(struct warp *w, const struct insn *in, int slot, int lane,
                         const uint8_t *p, unsigned size) {
    if (slot != SLOT_SINK)
        w->regs[slot][lane] = extend(load_value(p, size), in->type);
}

/* A thread that polls a flag yields to the one that will set it. */
static void poll(struct warp *w) {
    if (++w->run->polls % 64 == 0)
        w->yield = true;
}

void ptx_exec_ld(struct warp *w, const struct insn *in, uint32_t mask) {
    const struct operand *to = &in->op[0];
    const uint64_t *base = src(w, in, 1);
    unsigned size = ptx_type_size(in->type), total = size * in->vec;
    enum space space;
    FOR_LANES(mask, {
        uint8_t *p = locate(w, in, l, base[l] + (uint64_t)in->op[1].offset, total, false, &space);
        if (w->cta->nwb && space == SP_GLOBAL)
            drain_address(w->cta, p, total);
        if (to->kind == O_VEC)
            for (int e = 0; e < to->n; e++)
                load_element(w, in, to->vec[e], l, p + (unsigned)e * size, size);
        else
            load_element(w, in, to->slot, l, p, size);
    });
    if (in->sem == SEM_ACQUIRE)
        atomic_thread_fence(memory_order_acquire);
    if (in->sem != SEM_WEAK || in->is_volatile)
        poll(w);
}

static void store_element(struct warp *w, const struct insn *in, int slot, int lane, uint8_t *p,
                          unsigned size, bool buffered) {
    (void)in;
    uint64_t v = src_of(w, slot)[lane];
    if (buffered)
        buffer_store(w, p, size, v);
    else
        store_value(p, size, v);
}

void ptx_exec_st(struct warp *w, const struct insn *in, uint32_t mask) {
    const struct operand *from = &in->op[1];
    const uint64_t *base = src(w, in, 0);
    unsigned size = ptx_type_size(in->type), total = size * in->vec;
    enum space space;
    if (in->sem == SEM_RELEASE) {
        ptx_drain(w->run, w->cta);
        atomic_thread_fence(memory_order_release);
    }
    FOR_LANES(mask, {
        uint8_t *p = locate(w, in, l, base[l] + (uint64_t)in->op[0].offset, total, true, &space);
        bool buffered = w->run->launch->weak && space == SP_GLOBAL && in->sem != SEM_RELEASE;
        if (from->kind == O_VEC)
            for (int e = 0; e < from->n; e++)
                store_element(w, in, from->vec[e], l, p + (unsigned)e * size, size, buffered);
        else
            store_element(w, in, from->slot, l, p, size, buffered);
    });
}

void ptx_exec_fence(struct warp *w, const struct insn *in, uint32_t mask) {
    (void)mask;
    if (in->sub) /* not only CTA scope */
        ptx_drain(w->run, w->cta);
    atomic_thread_fence(memory_order_seq_cst);
}

void ptx_exec_cvta(struct warp *w, const struct insn *in, uint32_t mask) {
    const uint64_t *from = src(w, in, 1);
    uint64_t *to = dst(w, in);
    uint64_t window = in->space == SP_SHARED  ? SHARED_WINDOW
                      : in->space == SP_LOCAL ? LOCAL_WINDOW
                      : in->space == SP_PARAM ? PARAM_WINDOW
                                              : 0;
    FOR_LANES(mask, to[l] = in->sub ? from[l] & ~window : from[l] | window);
}

/* ---- atom and red ---------------------------------------------------------------------------- */

enum { A_ADD, A_MIN, A_MAX, A_INC, A_DEC, A_AND, A_OR, A_XOR, A_EXCH, A_CAS };

static uint64_t float_sum(enum type t, uint64_t a, uint64_t b) {
    switch (t) {
    case T_F32:
        return f32_bits(bits_f32((uint32_t)a) + bits_f32((uint32_t)b));
    case T_F64:
        return f64_bits(bits_f64(a) + bits_f64(b));
    case T_F16:
        return f32_to_f16(f16_to_f32((uint16_t)a) + f16_to_f32((uint16_t)b));
    case T_BF16:
        return f32_to_bf16(bf16_to_f32((uint16_t)a) + bf16_to_f32((uint16_t)b));
    case T_F16X2:
        return float_sum(T_F16, a, b) | float_sum(T_F16, a >> 16, b >> 16) << 16;
    case T_BF16X2:
        return float_sum(T_BF16, a, b) | float_sum(T_BF16, a >> 16, b >> 16) << 16;
    default:
        return a + b;
    }
}

static bool below(enum type t, uint64_t a, uint64_t b) {
    return t == T_S32   ? (int32_t)a < (int32_t)b
           : t == T_S64 ? (int64_t)a < (int64_t)b
           : t == T_U32 ? (uint32_t)a < (uint32_t)b
                        : a < b;
}

static uint64_t combine(const struct insn *in, uint64_t old, uint64_t b, uint64_t c) {
    switch (in->sub) {
    case A_ADD:
        return float_sum(in->type, old, b);
    case A_MIN:
        return below(in->type, b, old) ? b : old;
    case A_MAX:
        return below(in->type, old, b) ? b : old;
    case A_INC:
        return (uint32_t)old >= (uint32_t)b ? 0 : old + 1;
    case A_DEC:
        return (uint32_t)old == 0 || (uint32_t)old > (uint32_t)b ? b : old - 1;
    case A_AND:
        return old & b;
    case A_OR:
        return old | b;
    case A_XOR:
        return old ^ b;
    case A_EXCH:
        return b;
    default:
        return old == b ? c : old; /* cas */
    }
}

#define CAS_LOOP(bits)                                                                             \
    static uint64_t rmw##bits(const struct insn *in, void *p, uint64_t b, uint64_t c) {            \
        uint##bits##_t old = __atomic_load_n((uint##bits##_t *)p, __ATOMIC_RELAXED), want;         \
        do                                                                                         \
            want = (uint##bits##_t)combine(in, old, (uint##bits##_t)b, (uint##bits##_t)c);         \
        while (!__atomic_compare_exchange_n((uint##bits##_t *)p, &old, want, false,                \
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));                  \
        return old;                                                                                \
    }
CAS_LOOP(16)
CAS_LOOP(32)
CAS_LOOP(64)

/* op: d, [a], b (, c) for atom; [a], b for red. Lanes run in turn from a random one on. */
void ptx_exec_atom(struct warp *w, const struct insn *in, uint32_t mask) {
    int a = in->vec ? 0 : 1; /* vec marks red */
    const uint64_t *base = src(w, in, a), *pb = src(w, in, a + 1);
    const uint64_t *pc = in->nops > a + 2 ? src(w, in, a + 2) : pb;
    unsigned size = ptx_type_size(in->type);
    bool result = a == 1 && in->op[0].kind == O_SLOT;
    int start = w->run->launch->seed ? (int)(ptx_random(w->run) % LANES) : 0;
    enum space space;
    if (w->cta->nwb && (in->sem == SEM_RELEASE || in->sem == SEM_ACQ_REL))
        ptx_drain(w->run, w->cta);
    for (int i = 0; i < LANES; i++) {
        int l = (start + i) % LANES;
        if (!(mask >> l & 1))
            continue;
        uint8_t *p = locate(w, in, l, base[l] + (uint64_t)in->op[a].offset, size, true, &space);
        if (w->cta->nwb)
            drain_address(w->cta, p, size);
        uint64_t old = size == 2   ? rmw16(in, p, pb[l], pc[l])
                       : size == 4 ? rmw32(in, p, pb[l], pc[l])
                                   : rmw64(in, p, pb[l], pc[l]);
        if (result)
            dst(w, in)[l] = old;
    }
    poll(w);
}
