/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operators on one lane (lanes.h), as classes of reduce.cu. Each has
 *
 *      SIZE, UNIT         bytes of an element, and the alignment of its address
 *      lane, sum          a lane, and its representation between operands
 *      take(lane, scaled, args)     converts a source; scaled: the context scales it
 *      combine(sum, sum)
 *      finish(sum, args)            applied once to the final result
 *
 * The rules for floats, and the bits, are those of kernels.h. Every float operation is written as
 * the instruction that rounds to nearest and is never contracted. A NaN becomes the canonical NaN
 * at the end. Ordered values are compared as integers.
 */
#ifndef RCMI_CUDA_OPERATORS_H
#define RCMI_CUDA_OPERATORS_H

#include "args.h"
#include "floats.h"
#include "lanes.h"

typedef const rcmi_cuda_args &context;

/* ---- Integers -------------------------------------------------------------------------------- */

template <int BITS> struct integers {
    enum { SIZE = BITS / 8, UNIT = SIZE, COUNT = BITS < 32 ? 32 / BITS : 1 };
    typedef typename lane_of<SIZE>::type lane;
    typedef lane sum;
    DEVICE sum take(lane v, bool, context) {
        return v;
    }
    DEVICE lane finish(sum r, context) {
        return r;
    }
    /* The highest and the lowest bit of each element. */
    DEVICE lane highest() {
        return (BITS == 8    ? (lane)0x80808080u
                : BITS == 16 ? (lane)0x80008000u
                             : (lane)1 << (BITS - 1));
    }
    DEVICE lane lowest() {
        return BITS == 8 ? 0x01010101u : BITS == 16 ? 0x00010001u : 1;
    }
    /* The lowest bit set where an element is not 0, else all 0. */
    DEVICE lane truth(lane v) {
        const lane low = ~highest();
        return (((v & low) + low) | v) >> (BITS - 1) & lowest();
    }
    DEVICE lane element(lane v, int i) {
        return BITS < 32 ? v >> BITS * i & (((lane)1 << BITS % 32) - 1) : v;
    }
    DEVICE lane at(lane value, int i) {
        return BITS < 32 ? (value & (((lane)1 << BITS % 32) - 1)) << BITS * i : value;
    }
};

template <int BITS> struct integer_sum : integers<BITS> {
    typedef integers<BITS> base;
    typedef typename base::lane lane;
    DEVICE lane combine(lane a, lane b) {
        if (base::COUNT == 1)
            return a + b;
        const lane high = base::highest();
        return ((a & ~high) + (b & ~high)) ^ ((a ^ b) & high);
    }
};

template <int BITS> struct integer_prod : integers<BITS> {
    typedef integers<BITS> base;
    typedef typename base::lane lane;
    DEVICE lane combine(lane a, lane b) {
        lane r = 0;
#pragma unroll
        for (int i = 0; i < base::COUNT; i++)
            r |= base::at(base::element(a, i) * base::element(b, i), i);
        return r;
    }
};

#define BITWISE(name, expression)                                                                  \
    template <int BITS> struct name : integers<BITS> {                                             \
        typedef integers<BITS> base;                                                               \
        typedef typename base::lane lane;                                                          \
        DEVICE lane combine(lane a, lane b) {                                                      \
            return expression;                                                                     \
        }                                                                                          \
    };
BITWISE(integer_and, a &b)
BITWISE(integer_or, a | b)
BITWISE(integer_xor, a ^ b)
BITWISE(truth_and, base::truth(a) & base::truth(b))
BITWISE(truth_or, base::truth(a | b))
BITWISE(truth_xor, base::truth(a) ^ base::truth(b))

template <class T, bool MAX> struct integer_order : integers<8 * sizeof(T)> {
    typedef integers<8 * sizeof(T)> base;
    typedef typename base::lane lane;
    DEVICE lane combine(lane a, lane b) {
        lane r = 0;
#pragma unroll
        for (int i = 0; i < base::COUNT; i++) {
            const T x = (T)base::element(a, i), y = (T)base::element(b, i);
            r |= base::at((lane)((x < y) == MAX ? y : x), i);
        }
        return r;
    }
};

/* The type in which a sum is divided must also hold the divisor; the quotient is truncated. */
template <class T> struct quotient { typedef uint32_t type; };
template <> struct quotient<int8_t> { typedef int32_t type; };
template <> struct quotient<int16_t> { typedef int32_t type; };
template <> struct quotient<int32_t> { typedef int32_t type; };
template <> struct quotient<int64_t> { typedef int64_t type; };
template <> struct quotient<uint64_t> { typedef uint64_t type; };

template <class T> struct integer_average : integer_sum<8 * sizeof(T)> {
    typedef integers<8 * sizeof(T)> base;
    typedef typename base::lane lane;
    DEVICE lane finish(lane sum, context args) {
        typedef typename quotient<T>::type Q;
        if (args.divisor <= 1)
            return sum;
        lane r = 0;
#pragma unroll
        for (int i = 0; i < base::COUNT; i++)
            r |= base::at((lane)((Q)(T)base::element(sum, i) / (Q)args.divisor), i);
        return r;
    }
};

/* One source, each byte unchanged. */
struct copies : integers<8> {
    DEVICE lane combine(lane a, lane) {
        return a;
    }
};

/* ---- Floats ---------------------------------------------------------------------------------- */

template <class F> struct float_sum {
    typedef integers<F::BITS> codes;
    enum { SIZE = F::BITS / 8, UNIT = SIZE, COUNT = codes::COUNT };
    typedef typename codes::lane lane;
    struct sum {
        typename F::real value[COUNT];
    };
    DEVICE sum take(lane v, bool, context) {
        sum s;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            s.value[i] = F::widen((typename F::code)codes::element(v, i));
        return s;
    }
    DEVICE sum combine(sum a, sum b) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            a.value[i] = add(a.value[i], b.value[i]);
        return a;
    }
    DEVICE lane finish(sum s, context) {
        lane r = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            r |= codes::at((lane)F::narrow(s.value[i]), i);
        return r;
    }
};

template <class F> struct float_prod : float_sum<F> {
    typedef typename float_sum<F>::sum sum;
    DEVICE sum combine(sum a, sum b) {
#pragma unroll
        for (int i = 0; i < float_sum<F>::COUNT; i++)
            a.value[i] = multiply(a.value[i], b.value[i]);
        return a;
    }
};

/* A contribution is rounded as if stored, as on the CPU. */
template <class F> struct float_scaled_sum : float_sum<F> {
    typedef float_sum<F> base;
    typedef typename base::lane lane;
    typedef typename base::sum sum;
    typedef typename F::real real;
    DEVICE sum take(lane v, bool scaled, context args) {
        sum s = base::take(v, scaled, args);
        if (!scaled)
            return s;
#pragma unroll
        for (int i = 0; i < base::COUNT; i++)
            s.value[i] = F::widen(F::narrow(multiply(s.value[i], to_real<real>(args.scale[0]))));
        return s;
    }
    DEVICE lane finish(sum s, context args) {
#pragma unroll
        for (int i = 0; i < base::COUNT && args.divisor > 1; i++)
            s.value[i] = divide(s.value[i], to_real<real>(args.divisor));
        return base::finish(s, args);
    }
};

/*
 * min and max: of integers with the order of the floats, inverted so that a NaN of either sign is
 * at the winning end (table in ops.h).
 */
template <class F, bool MAX> struct float_order : integers<F::BITS> {
    typedef integers<F::BITS> base;
    typedef typename base::lane lane;
    typedef typename F::code code;
    typedef typename F::ordered ordered;
    DEVICE ordered key(code v) {
        return (ordered)(v ^ (code)((ordered)v >> (F::BITS - 1) & (ordered)F::MAGNITUDE));
    }
    DEVICE code shift() {
        return MAX ? (code)(0 - F::NANS) : (code)F::NANS;
    }
    DEVICE lane take(lane v, bool, context) {
        lane r = 0;
#pragma unroll
        for (int i = 0; i < base::COUNT; i++)
            r |= base::at((lane)(code)(key((code)base::element(v, i)) + shift()), i);
        return r;
    }
    DEVICE lane combine(lane a, lane b) {
        lane r = 0;
#pragma unroll
        for (int i = 0; i < base::COUNT; i++) {
            const ordered x = (ordered)(code)base::element(a, i),
                          y = (ordered)(code)base::element(b, i);
            r |= base::at((lane)(code)((x < y) == MAX ? y : x), i);
        }
        return r;
    }
    DEVICE code untake(code v) {
        const code bits = (code)key((code)(v - shift()));
        return (bits & F::MAGNITUDE) > F::INFINITE ? F::NOT_A_NUMBER : bits;
    }
    DEVICE lane finish(lane sum, context) {
        lane r = 0;
#pragma unroll
        for (int i = 0; i < base::COUNT; i++)
            r |= base::at((lane)untake((code)base::element(sum, i)), i);
        return r;
    }
};

/* ---- Complex numbers ------------------------------------------------------------------------- */

template <class F> struct complex_sum {
    enum { SIZE = F::BITS / 4, UNIT = F::BITS / 8 };
    typedef typename lane_of<SIZE>::type lane;
    typedef typename F::real real;
    struct sum {
        real re, im;
    };
    DEVICE sum take(lane v, bool, context) {
        return sum{F::widen(low_half(v)), F::widen(high_half(v))};
    }
    DEVICE sum combine(sum a, sum b) {
        return sum{add(a.re, b.re), add(a.im, b.im)};
    }
    DEVICE lane finish(sum s, context) {
        return halves(F::narrow(s.re), F::narrow(s.im));
    }
    DEVICE sum product(sum a, sum b) {
        return sum{add(multiply(a.re, b.re), negate(multiply(a.im, b.im))),
                   add(multiply(a.re, b.im), multiply(a.im, b.re))};
    }
};

template <class F> struct complex_prod : complex_sum<F> {
    typedef typename complex_sum<F>::sum sum;
    DEVICE sum combine(sum a, sum b) {
        return complex_sum<F>::product(a, b);
    }
};

template <class F> struct complex_scaled_sum : complex_sum<F> {
    typedef complex_sum<F> base;
    typedef typename base::lane lane;
    typedef typename base::sum sum;
    typedef typename F::real real;
    DEVICE sum take(lane v, bool scaled, context args) {
        const sum s = base::take(v, scaled, args);
        const sum scale = {to_real<real>(args.scale[0]), to_real<real>(args.scale[1])};
        return scaled ? base::product(scale, s) : s;
    }
    DEVICE lane finish(sum s, context args) {
        if (args.divisor > 1) {
            s.re = divide(s.re, to_real<real>(args.divisor));
            s.im = divide(s.im, to_real<real>(args.divisor));
        }
        return base::finish(s, args);
    }
};

/* ---- Pairs of a value and an index ----------------------------------------------------------- */

/* The value is at the start of the lane, the index in the following word. A NaN is before all
 * numbers. */
template <class F> struct float_key {
    typedef typename F::code code;
    DEVICE int64_t key(code v) {
        if ((v & F::MAGNITUDE) > F::INFINITE)
            return INT64_MIN;
        return (typename F::ordered)(v ^ (code)((typename F::ordered)v >> (F::BITS - 1) &
                                                (typename F::ordered)F::MAGNITUDE));
    }
    DEVICE code canonical(code v) {
        return (v & F::MAGNITUDE) > F::INFINITE ? F::NOT_A_NUMBER : v;
    }
    DEVICE bool first(code v) {
        return (v & F::MAGNITUDE) > F::INFINITE;
    }
};
template <class T> struct integer_key {
    typedef typename lane_of<sizeof(T)>::type code;
    DEVICE int64_t key(code v) {
        return (T)v;
    }
    DEVICE code canonical(code v) {
        return v;
    }
    DEVICE bool first(code) {
        return false;
    }
};

template <class L, class K, bool MAX> struct location {
    enum { SIZE = sizeof(L), UNIT = SIZE / 2 };
    typedef L lane;
    typedef L sum;
    DEVICE lane take(lane v, bool, context) {
        return v;
    }
    DEVICE int64_t key(lane v) {
        const int64_t key = K::key(low_half(v));
        return MAX && !K::first(low_half(v)) ? ~key : key;
    }
    DEVICE lane combine(lane best, lane next) {
        const int64_t a = key(best), b = key(next);
        const bool wins = b < a || (b == a && (int32_t)high_half(next) < (int32_t)high_half(best));
        return wins ? next : best;
    }
    DEVICE lane finish(lane best, context) {
        return halves(K::canonical(low_half(best)), high_half(best));
    }
};

#endif
