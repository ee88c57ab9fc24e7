/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of one reduction kernel, included once per (T, OP) by reduce.c, which defines both and
 * optionally some of the macros below. Defines OP_T_reduce, OP_T_reduce_streaming and
 * OP_T_reduce_twice; the last has a second result `other`, NULL in the first two. No include guard,
 * on purpose.
 *
 * LEAN: for kernels that are rarely called or inherently slow. One loop serves any number of
 * sources; results are stored temporally, and the second result is a copy. SCALED (with LEAN):
 * sources and results pass through scale_T and divide_T with the context, even a single source.
 * KEYED: OP combines the results of OP_take_T, and OP_finish_T converts back. PAIRED: two sources
 * have a separate loop, as without LEAN.
 *
 *   dst  |head|....|======|======|======|..|..|tail|
 *        unaligned  blocks of UNROLL vectors,  unaligned, overlaps
 *        overlaps   stores aligned, then single
 *
 * Loads may be unaligned. Stores are aligned, because stores across cache lines cost more. The
 * first and last vector are computed before anything is stored (dst may be a source) and stored
 * last; their overlap with the aligned part gets the same value twice. Each source is read once.
 */
#define RCMI_CAT3_(a, b, c) a##b##c
#define RCMI_CAT3(a, b, c)  RCMI_CAT3_(a, b, c)
#define OF_TYPE(prefix)     RCMI_CAT3(prefix, T, )
#define OP_OF_TYPE(infix)   RCMI_CAT3(OP, infix, T)
#define NAME(suffix)        RCMI_CAT3(OP_OF_TYPE(_), suffix, )
#define ELEM                OF_TYPE(elem_)
#define VEC                 OF_TYPE(vec_)
#define LANES               ((size_t)OF_TYPE(LANES_))
#define LOAD                OF_TYPE(load_)
#define COMBINE             OP_OF_TYPE(_)
#define CONTEXT             const struct rcmi_reduce_context *context
#ifdef SCALED
#define TAKE(value, s) OF_TYPE(scale_)(value, s, context)
#define FINISH(value)  OF_TYPE(divide_)(value, context)
#elif defined(KEYED)
#define TAKE(value, s) OP_OF_TYPE(_take_)(value)
#define FINISH(value)  OP_OF_TYPE(_finish_)(value)
#else
#define TAKE(value, s) (value)
#define FINISH(value)  OP_OF_TYPE(_finish_)(value)
#endif

/* The result for the vector at element i. */
RCMI_INLINE VEC NAME(_at)(const ELEM *const *srcs, int nsrcs, size_t i, CONTEXT) {
    (void)context;
    VEC acc = TAKE(LOAD(srcs[0] + i), 0);
    for (int s = 1; s < nsrcs; s++)
        acc = COMBINE(acc, TAKE(LOAD(srcs[s] + i), s));
    return FINISH(acc);
}

/* Fewer elements than a vector has: one at a time, in the first lane. */
static __attribute__((noinline)) void NAME(_few)(ELEM *dst, ELEM *other, const ELEM *const *srcs,
                                                 int nsrcs, size_t count, CONTEXT) {
    (void)context;
    for (size_t i = 0; i < count; i++) {
        VEC acc = TAKE(OF_TYPE(load_one_)(srcs[0] + i), 0);
        for (int s = 1; s < nsrcs; s++)
            acc = COMBINE(acc, TAKE(OF_TYPE(load_one_)(srcs[s] + i), s));
        acc = FINISH(acc);
        OF_TYPE(store_one_)(dst + i, acc);
        if (other)
            OF_TYPE(store_one_)(other + i, acc);
    }
}

#ifdef LEAN
RCMI_INLINE void NAME(_store)(ELEM *dst, ELEM *other, size_t i, VEC value, enum rcmi_twice how) {
    (void)other;
    (void)how;
    OF_TYPE(store_)(dst + i, value);
}
#else
RCMI_INLINE void NAME(_store)(ELEM *dst, ELEM *other, size_t i, VEC value, enum rcmi_twice how) {
    if (how != RCMI_BOTH_TEMPORAL)
        OF_TYPE(stream_)(dst + i, value);
    else
        OF_TYPE(store_)(dst + i, value);
    if (other && how == RCMI_BOTH_NON_TEMPORAL)
        OF_TYPE(stream_)(other + i, value);
    else if (other)
        OF_TYPE(store_)(other + i, value);
}
#endif

/* UNROLL vectors from element i; unrolled by hand, so that they are registers at -O2 too. */
RCMI_INLINE void NAME(_block)(ELEM *dst, ELEM *other, const ELEM *const *srcs, int nsrcs, size_t i,
                              enum rcmi_twice how, CONTEXT) {
    (void)context;
    const ELEM *src = srcs[0] + i;
    VEC a = TAKE(LOAD(src), 0), b = TAKE(LOAD(src + LANES), 0);
    VEC c = TAKE(LOAD(src + 2 * LANES), 0), d = TAKE(LOAD(src + 3 * LANES), 0);
    for (int s = 1; s < nsrcs; s++) {
        src = srcs[s] + i;
        a = COMBINE(a, TAKE(LOAD(src), s));
        b = COMBINE(b, TAKE(LOAD(src + LANES), s));
        c = COMBINE(c, TAKE(LOAD(src + 2 * LANES), s));
        d = COMBINE(d, TAKE(LOAD(src + 3 * LANES), s));
    }
    NAME(_store)(dst, other, i, FINISH(a), how);
    NAME(_store)(dst, other, i + LANES, FINISH(b), how);
    NAME(_store)(dst, other, i + 2 * LANES, FINISH(c), how);
    NAME(_store)(dst, other, i + 3 * LANES, FINISH(d), how);
}

RCMI_INLINE void NAME(_loop)(ELEM *dst, ELEM *other, const ELEM *const *srcs, int nsrcs,
                             size_t count, enum rcmi_twice how, CONTEXT) {
    if (count < LANES) {
        NAME(_few)(dst, other, srcs, nsrcs, count, context);
        return;
    }
    VEC head = NAME(_at)(srcs, nsrcs, 0, context);
    VEC tail = NAME(_at)(srcs, nsrcs, count - LANES, context);
    size_t i = -(uintptr_t)dst % (LANES * sizeof(ELEM)) / sizeof(ELEM);
    for (; i + UNROLL * LANES <= count; i += UNROLL * LANES)
        NAME(_block)(dst, other, srcs, nsrcs, i, how, context);
    for (; i + LANES <= count; i += LANES)
        NAME(_store)(dst, other, i, NAME(_at)(srcs, nsrcs, i, context), how);
    NAME(_store)(dst, other, 0, head, RCMI_BOTH_TEMPORAL);
    NAME(_store)(dst, other, count - LANES, tail, RCMI_BOTH_TEMPORAL);
}

/* Copies the pointers, so that the compiler can assume that stores to dst do not change them; and
 * uses a separate loop for the frequent two-source case. */
RCMI_INLINE void NAME(_any)(void *dst, void *other, const void *const *srcs, int nsrcs,
                            size_t count, enum rcmi_twice how, CONTEXT) {
    const ELEM *local[RCMI_REDUCE_MAX] = {srcs[0]};
    for (int s = 1; s < nsrcs; s++)
        local[s] = srcs[s];
#if !defined(LEAN) || defined(PAIRED)
    if (nsrcs == 2) {
        NAME(_loop)(dst, other, local, 2, count, how, context);
        return;
    }
#endif
    NAME(_loop)(dst, other, local, nsrcs, count, how, context);
}

#ifdef LEAN
static void NAME(_reduce)(void *dst, const void *const *srcs, int nsrcs, size_t count, CONTEXT) {
#ifndef SCALED
    if (nsrcs == 1) {
        copy_plain(dst, srcs[0], count * sizeof(ELEM));
        return;
    }
#endif
    NAME(_any)(dst, NULL, srcs, nsrcs, count, RCMI_BOTH_TEMPORAL, context);
}

static void NAME(_reduce_streaming)(void *dst, const void *const *srcs, int nsrcs, size_t count,
                                    CONTEXT) {
    NAME(_reduce)(dst, srcs, nsrcs, count, context);
}

static void NAME(_reduce_twice)(void *dst, void *other, const void *const *srcs, int nsrcs,
                                size_t count, enum rcmi_twice how, CONTEXT) {
    NAME(_reduce)(dst, srcs, nsrcs, count, context);
    copy_second(other, dst, count * sizeof(ELEM), how);
}
#else
static void NAME(_reduce)(void *dst, const void *const *srcs, int nsrcs, size_t count, CONTEXT) {
    if (nsrcs == 1)
        copy_plain(dst, srcs[0], count * sizeof(ELEM));
    else
        NAME(_any)(dst, NULL, srcs, nsrcs, count, RCMI_BOTH_TEMPORAL, context);
}

static void NAME(_reduce_streaming)(void *dst, const void *const *srcs, int nsrcs, size_t count,
                                    CONTEXT) {
    if (nsrcs == 1) {
        copy_streaming(dst, srcs[0], count * sizeof(ELEM));
    } else if (count < STREAM_MIN / sizeof(ELEM) || (uintptr_t)dst % sizeof(ELEM) != 0) {
        NAME(_reduce)(dst, srcs, nsrcs, count, context);
    } else {
        NAME(_any)(dst, NULL, srcs, nsrcs, count, RCMI_BOTH_NON_TEMPORAL, context);
        vector_stream_fence();
    }
}

static void NAME(_reduce_twice)(void *dst, void *other, const void *const *srcs, int nsrcs,
                                size_t count, enum rcmi_twice how, CONTEXT) {
    if (count < STREAM_MIN / sizeof(ELEM) || (uintptr_t)dst % sizeof(ELEM) != 0)
        how = RCMI_BOTH_TEMPORAL;
    else if (how == RCMI_BOTH_NON_TEMPORAL && !lie_alike(dst, other))
        how = RCMI_FIRST_NON_TEMPORAL;
    if (nsrcs == 1) {
        copy_twice(dst, other, srcs[0], count * sizeof(ELEM), how);
    } else if (how == RCMI_BOTH_TEMPORAL) {
        NAME(_any)(dst, other, srcs, nsrcs, count, RCMI_BOTH_TEMPORAL, context);
    } else {
        if (how == RCMI_BOTH_NON_TEMPORAL)
            NAME(_any)(dst, other, srcs, nsrcs, count, RCMI_BOTH_NON_TEMPORAL, context);
        else
            NAME(_any)(dst, other, srcs, nsrcs, count, RCMI_FIRST_NON_TEMPORAL, context);
        vector_stream_fence();
    }
}

#endif

#undef RCMI_CAT3_
#undef RCMI_CAT3
#undef OF_TYPE
#undef OP_OF_TYPE
#undef NAME
#undef ELEM
#undef VEC
#undef LANES
#undef LOAD
#undef COMBINE
#undef CONTEXT
#undef TAKE
#undef FINISH
#undef OP
