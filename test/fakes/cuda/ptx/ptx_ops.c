/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic, logic and bit instructions. Macros define one handler for each operation and type,
 * found by name ("add.f32"). NaN results of f32, f16 and bf16 are canonical, as on a GPU.
 */
#include "ptx_internal.h"
#include "ptx_float.h"
#include <stdlib.h>

/* Lists of macros. */
/* clang-format off */
/* T_: the C type of a PTX type; G_: register bits -> value; P_: value -> register bits */
#define T_u16 uint16_t
#define T_s16 int16_t
#define T_u32 uint32_t
#define T_s32 int32_t
#define T_u64 uint64_t
#define T_s64 int64_t
#define T_f32 float
#define T_f64 double
#define T_f16 float
#define T_bf16 float
#define G_u16(x) ((uint16_t)(x))
#define G_s16(x) ((int16_t)(x))
#define G_u32(x) ((uint32_t)(x))
#define G_s32(x) ((int32_t)(x))
#define G_u64(x) (x)
#define G_s64(x) ((int64_t)(x))
#define G_f32(x) bits_f32((uint32_t)(x))
#define G_f64(x) bits_f64(x)
#define G_f16(x) f16_to_f32((uint16_t)(x))
#define G_bf16(x) bf16_to_f32((uint16_t)(x))
#define P_u16(v) ((uint64_t)(uint16_t)(v))
#define P_s16(v) ((uint64_t)(uint16_t)(v))
#define P_u32(v) ((uint64_t)(uint32_t)(v))
#define P_s32(v) ((uint64_t)(uint32_t)(v))
#define P_u64(v) ((uint64_t)(v))
#define P_s64(v) ((uint64_t)(v))
#define P_f32(v) canonical_f32(v)
#define P_f64(v) f64_bits(v)
#define P_f16(v) ((uint64_t)f32_to_f16(v))
#define P_bf16(v) ((uint64_t)f32_to_bf16(v))

static inline uint64_t canonical_f32(float v) {
    return v != v ? 0x7fffffffu : f32_bits(v);
}

#define HANDLER(name) static void name(struct warp *w, const struct insn *in, uint32_t mask)

#define UNARY(op, t, ...)                                                                          \
    HANDLER(op##_##t) {                                                                            \
        const uint64_t *pa = src(w, in, 1);                                                        \
        uint64_t *d = dst(w, in);                                                                  \
        FOR_LANES(mask, T_##t a = G_##t(pa[l]); d[l] = P_##t(__VA_ARGS__));                        \
    }

#define BINARY_TO(op, t, to, ...)                                                                  \
    HANDLER(op##_##t) {                                                                            \
        const uint64_t *pa = src(w, in, 1), *pb = src(w, in, 2);                                   \
        uint64_t *d = dst(w, in);                                                                  \
        FOR_LANES(mask, T_##t a = G_##t(pa[l]); T_##t b = G_##t(pb[l]); d[l] = P_##to(__VA_ARGS__)); \
    }
#define BINARY(op, t, ...) BINARY_TO(op, t, t, __VA_ARGS__)

#define TERNARY(op, t, ...)                                                                        \
    HANDLER(op##_##t) {                                                                            \
        const uint64_t *pa = src(w, in, 1), *pb = src(w, in, 2), *pc = src(w, in, 3);              \
        uint64_t *d = dst(w, in);                                                                  \
        FOR_LANES(mask, T_##t a = G_##t(pa[l]); T_##t b = G_##t(pb[l]); T_##t c = G_##t(pc[l]);    \
                  d[l] = P_##t(__VA_ARGS__));                                                      \
    }

/* the same for both halves of a packed pair */
#define HALVES(lo, hi) ((uint64_t)(uint16_t)(lo) | (uint64_t)(uint16_t)(hi) << 16)
#define PACKED2(op, t, f)                                                                          \
    HANDLER(op##_##t##x2) {                                                                        \
        const uint64_t *pa = src(w, in, 1), *pb = src(w, in, 2);                                   \
        uint64_t *d = dst(w, in);                                                                  \
        FOR_LANES(mask, d[l] = HALVES(P_##t(f(G_##t(pa[l]), G_##t(pb[l]))),                        \
                                      P_##t(f(G_##t(pa[l] >> 16), G_##t(pb[l] >> 16)))));          \
    }
#define PACKED3(op, t, f)                                                                          \
    HANDLER(op##_##t##x2) {                                                                        \
        const uint64_t *pa = src(w, in, 1), *pb = src(w, in, 2), *pc = src(w, in, 3);              \
        uint64_t *d = dst(w, in);                                                                  \
        FOR_LANES(mask, d[l] = HALVES(P_##t(f(G_##t(pa[l]), G_##t(pb[l]), G_##t(pc[l]))),          \
                                      P_##t(f(G_##t(pa[l] >> 16), G_##t(pb[l] >> 16),              \
                                              G_##t(pc[l] >> 16)))));                              \
    }

/* ---- integers ------------------------------------------------------------------------------- */

#define INTEGERS(X) X(u16) X(s16) X(u32) X(s32) X(u64) X(s64)
#define WIDE(X) X(u16, u32) X(s16, s32) X(u32, u64) X(s32, s64)
#define INTEGER_OPS(t)                                                                             \
    BINARY(add, t, (uint64_t)a + (uint64_t)b)                                                      \
    BINARY(sub, t, (uint64_t)a - (uint64_t)b)                                                      \
    BINARY(mul_lo, t, (uint64_t)a * (uint64_t)b)                                                   \
    BINARY(mul_hi, t, (T_##t)((__int128)a * b >> (8 * sizeof a)))                                  \
    TERNARY(mad_lo, t, (uint64_t)a * (uint64_t)b + (uint64_t)c)                                    \
    TERNARY(mad_hi, t, (uint64_t)(T_##t)((__int128)a * b >> (8 * sizeof a)) + (uint64_t)c)         \
    BINARY(min, t, b < a ? b : a)                                                                  \
    BINARY(max, t, a < b ? b : a)                                                                  \
    BINARY(div, t, b == 0 ? (T_##t)-1 : (T_##t)-1 < 0 && b == (T_##t)-1 ? (T_##t)-(uint64_t)a : a / b) \
    BINARY(rem, t, b == 0 ? a : (T_##t)-1 < 0 && b == (T_##t)-1 ? 0 : a % b)
INTEGERS(INTEGER_OPS)

#define WIDE_OPS(t, to)                                                                            \
    BINARY_TO(mul_wide, t, to, (T_##to)a * (T_##to)b)                                              \
    HANDLER(mad_wide_##t) {                                                                        \
        const uint64_t *pa = src(w, in, 1), *pb = src(w, in, 2), *pc = src(w, in, 3);              \
        uint64_t *d = dst(w, in);                                                                  \
        FOR_LANES(mask, d[l] = P_##to((T_##to)((uint64_t)((T_##to)G_##t(pa[l]) * (T_##to)G_##t(pb[l])) + pc[l]))); \
    }
WIDE(WIDE_OPS)

#define SIGNED_OPS(t) UNARY(abs, t, a < 0 ? -(uint64_t)a : (uint64_t)a) UNARY(neg, t, -(uint64_t)a)
SIGNED_OPS(s16) SIGNED_OPS(s32) SIGNED_OPS(s64)

#define BIT_OPS(t)                                                                                 \
    BINARY(and, t, a & b) BINARY(or, t, a | b) BINARY(xor, t, a ^ b)                               \
    UNARY(not, t, ~(uint64_t)a) UNARY(cnot, t, a == 0)
BIT_OPS(u16) BIT_OPS(u32) BIT_OPS(u64)

/* shift counts are 32-bit and clamp at the width */
#define SHIFT(op, t, over, ...)                                                                    \
    HANDLER(op##_##t) {                                                                            \
        const uint64_t *pa = src(w, in, 1), *pb = src(w, in, 2);                                   \
        uint64_t *d = dst(w, in);                                                                  \
        FOR_LANES(mask, T_##t a = G_##t(pa[l]); uint32_t n = (uint32_t)pb[l];                      \
                  d[l] = P_##t(n >= 8 * sizeof a ? (T_##t)(over) : (T_##t)(__VA_ARGS__)));         \
    }
SHIFT(shl, u16, 0, a << n) SHIFT(shl, u32, 0, a << n) SHIFT(shl, u64, 0, a << n)
SHIFT(shr, u16, 0, a >> n) SHIFT(shr, u32, 0, a >> n) SHIFT(shr, u64, 0, a >> n)
SHIFT(shr, s16, a < 0 ? -1 : 0, a >> n) SHIFT(shr, s32, a < 0 ? -1 : 0, a >> n)
SHIFT(shr, s64, a < 0 ? -1 : 0, a >> n)

static uint64_t reverse(uint64_t v, int bits) {
    uint64_t r = 0;
    for (int i = 0; i < bits; i++)
        r |= (v >> i & 1) << (bits - 1 - i);
    return r;
}

static uint32_t highest_bit(uint64_t v, bool shift_amount, int bits) {
    if (v == 0)
        return ~0u;
    uint32_t at = 63 - (uint32_t)__builtin_clzll(v);
    return shift_amount ? (uint32_t)bits - 1 - at : at;
}

UNARY(popc, u32, (uint32_t)__builtin_popcount(a))
UNARY(popc, u64, (uint32_t)__builtin_popcountll(a))
UNARY(clz, u32, a ? (uint32_t)__builtin_clz(a) : 32)
UNARY(clz, u64, a ? (uint32_t)__builtin_clzll(a) : 64)
UNARY(brev, u32, reverse(a, 32))
UNARY(brev, u64, reverse(a, 64))
UNARY(bfind, u32, highest_bit(a, false, 32))
UNARY(bfind, u64, highest_bit(a, false, 64))
UNARY(bfind, s32, highest_bit((uint32_t)(a < 0 ? ~a : a), false, 32))
UNARY(bfind_shiftamt, u32, highest_bit(a, true, 32))
UNARY(bfind_shiftamt, u64, highest_bit(a, true, 64))

static uint64_t extract(uint64_t a, uint32_t pos, uint32_t len, int bits, bool is_signed) {
    pos &= 0xff, len &= 0xff;
    uint64_t top = is_signed ? a >> (len == 0 ? 0 : pos + len - 1 < (uint32_t)bits ? pos + len - 1 : (uint32_t)bits - 1) & 1 : 0;
    uint64_t r = 0;
    for (uint32_t i = 0; i < (uint32_t)bits && len; i++) {
        uint64_t bit = i < len && pos + i < (uint32_t)bits ? a >> (pos + i) & 1 : top;
        r |= bit << i;
    }
    return r;
}

static uint64_t insert(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, int bits) {
    pos &= 0xff, len &= 0xff;
    for (uint32_t i = 0; i < len && pos + i < (uint32_t)bits; i++) {
        b &= ~(1ull << (pos + i));
        b |= (a >> i & 1) << (pos + i);
    }
    return b;
}

TERNARY(bfe, u32, extract(a, b, c, 32, false))
TERNARY(bfe, s32, extract((uint32_t)a, (uint32_t)b, (uint32_t)c, 32, true))
TERNARY(bfe, u64, extract(a, (uint32_t)b, (uint32_t)c, 64, false))
TERNARY(bfe, s64, extract((uint64_t)a, (uint32_t)b, (uint32_t)c, 64, true))

#define BFI(t, bits)                                                                               \
    HANDLER(bfi_##t) {                                                                             \
        const uint64_t *pa = src(w, in, 1), *pb = src(w, in, 2), *pc = src(w, in, 3), *pd = src(w, in, 4); \
        uint64_t *d = dst(w, in);                                                                  \
        FOR_LANES(mask, d[l] = P_##t(insert(pa[l], G_##t(pb[l]), (uint32_t)pc[l], (uint32_t)pd[l], bits))); \
    }
BFI(u32, 32) BFI(u64, 64)

static uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = selector >> (4 * i) & 0xf, byte = (uint32_t)(both >> (8 * (s & 7))) & 0xff;
        if (s & 8)
            byte = byte & 0x80 ? 0xff : 0;
        r |= byte << (8 * i);
    }
    return r;
}
TERNARY(prmt, u32, permute(a, b, c))
TERNARY(shf_l_wrap, u32, (uint32_t)((((uint64_t)b << 32 | a) << (c & 31)) >> 32))
TERNARY(shf_r_wrap, u32, (uint32_t)(((uint64_t)b << 32 | a) >> (c & 31)))
TERNARY(shf_l_clamp, u32, c >= 32 ? a : (uint32_t)((((uint64_t)b << 32 | a) << c) >> 32))
TERNARY(shf_r_clamp, u32, c >= 32 ? b : (uint32_t)(((uint64_t)b << 32 | a) >> c))
TERNARY(sad, u32, (a > b ? a - b : b - a) + c)
TERNARY(sad, s32, (uint64_t)(a > b ? (int64_t)a - b : (int64_t)b - a) + (uint64_t)c)

HANDLER(lop3_u32) {
    const uint64_t *pa = src(w, in, 1), *pb = src(w, in, 2), *pc = src(w, in, 3);
    uint32_t lut = (uint32_t)src(w, in, 4)[0];
    uint64_t *d = dst(w, in);
    FOR_LANES(mask, {
        uint32_t r = 0;
        for (int k = 0; k < 8; k++)
            if (lut >> k & 1)
                r |= (uint32_t)((k & 4 ? pa[l] : ~pa[l]) & (k & 2 ? pb[l] : ~pb[l]) & (k & 1 ? pc[l] : ~pc[l]));
        d[l] = r;
    });
}

#define DP4A(name, ta, tb)                                                                         \
    HANDLER(name) {                                                                                \
        const uint64_t *pa = src(w, in, 1), *pb = src(w, in, 2), *pc = src(w, in, 3);              \
        uint64_t *d = dst(w, in);                                                                  \
        FOR_LANES(mask, {                                                                          \
            uint32_t r = (uint32_t)pc[l];                                                          \
            for (int k = 0; k < 32; k += 8)                                                        \
                r += (uint32_t)((ta)(pa[l] >> k) * (tb)(pb[l] >> k));                              \
            d[l] = r;                                                                              \
        });                                                                                        \
    }
DP4A(dp4a_uu, uint8_t, uint8_t) DP4A(dp4a_ss, int8_t, int8_t)
DP4A(dp4a_us, uint8_t, int8_t) DP4A(dp4a_su, int8_t, uint8_t)

/* ---- floating point --------------------------------------------------------------------------- */

static inline double min_f(double a, double b) {
    return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
static inline double max_f(double a, double b) {
    return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a < b ? b : a;
}
static inline double min_nan(double a, double b) {
    return a != a || b != b ? NAN : min_f(a, b);
}
static inline double max_nan(double a, double b) {
    return a != a || b != b ? NAN : max_f(a, b);
}

#define FLOAT_OPS(t)                                                                               \
    BINARY(add, t, a + b) BINARY(sub, t, a - b) BINARY(mul, t, a * b) BINARY(div, t, a / b)        \
    BINARY(min, t, (T_##t)min_f(a, b)) BINARY(max, t, (T_##t)max_f(a, b))                          \
    BINARY(min_NaN, t, (T_##t)min_nan(a, b)) BINARY(max_NaN, t, (T_##t)max_nan(a, b))              \
    UNARY(sqrt, t, (T_##t)sqrt((double)a)) UNARY(rcp, t, 1 / a)                                    \
    UNARY(rsqrt, t, (T_##t)(1 / sqrt((double)a)))
FLOAT_OPS(f32) FLOAT_OPS(f64)
TERNARY(fma, f32, fmaf(a, b, c))
TERNARY(fma, f64, fma(a, b, c))
UNARY(ex2, f32, exp2f(a))
UNARY(lg2, f32, log2f(a))
UNARY(sin, f32, sinf(a))
UNARY(cos, f32, cosf(a))
UNARY(tanh, f32, tanhf(a))

/* sign operations work on the bits */
#define SIGN_OPS(name, t, sign)                                                                    \
    UNARY(abs_##name, t, a & ~(sign)) UNARY(neg_##name, t, a ^ (sign))
SIGN_OPS(f32, u32, 0x80000000u) SIGN_OPS(f64, u64, 0x8000000000000000ull)
SIGN_OPS(f16, u16, 0x8000u) SIGN_OPS(f16x2, u32, 0x80008000u)
BINARY(copysign_f32, u32, (a & 0x80000000u) | (b & 0x7fffffffu))
BINARY(copysign_f64, u64, (a & 0x8000000000000000ull) | (b & 0x7fffffffffffffffull))

#define F_ADD(a, b) ((a) + (b))
#define F_SUB(a, b) ((a) - (b))
#define F_MUL(a, b) ((a) * (b))
#define F_MIN(a, b) ((float)min_f(a, b))
#define F_MAX(a, b) ((float)max_f(a, b))
#define F_MIN_NAN(a, b) ((float)min_nan(a, b))
#define F_MAX_NAN(a, b) ((float)max_nan(a, b))
/* float represents sums and products of two halves so exactly that double rounding changes
 * nothing */
#define HALF_OPS(t)                                                                                \
    BINARY(add, t, a + b) BINARY(sub, t, a - b) BINARY(mul, t, a * b)                              \
    BINARY(min, t, F_MIN(a, b)) BINARY(max, t, F_MAX(a, b))                                        \
    BINARY(min_NaN, t, F_MIN_NAN(a, b)) BINARY(max_NaN, t, F_MAX_NAN(a, b))                        \
    TERNARY(fma, t, fma_round_odd(a, b, c))                                                        \
    PACKED2(add, t, F_ADD) PACKED2(sub, t, F_SUB) PACKED2(mul, t, F_MUL)                           \
    PACKED2(min, t, F_MIN) PACKED2(max, t, F_MAX)                                                  \
    PACKED2(min_NaN, t, F_MIN_NAN) PACKED2(max_NaN, t, F_MAX_NAN)                                  \
    PACKED3(fma, t, fma_round_odd)
HALF_OPS(f16) HALF_OPS(bf16)

/* ---- the table ---------------------------------------------------------------------------------- */

struct named {
    const char *name;
    exec_fn *exec;
};

#define E(name, fn) {name, fn},
#define E_INTEGER(t)                                                                               \
    E("add." #t, add_##t) E("sub." #t, sub_##t) E("mul.lo." #t, mul_lo_##t)                        \
    E("mul.hi." #t, mul_hi_##t) E("mad.lo." #t, mad_lo_##t) E("mad.hi." #t, mad_hi_##t)            \
    E("min." #t, min_##t) E("max." #t, max_##t) E("div." #t, div_##t) E("rem." #t, rem_##t)
#define E_WIDE(t, to) E("mul.wide." #t, mul_wide_##t) E("mad.wide." #t, mad_wide_##t)
#define E_SIGNED(t) E("abs." #t, abs_##t) E("neg." #t, neg_##t) E("shr." #t, shr_##t)
#define E_BITS(b, t)                                                                               \
    E("and." #b, and_##t) E("or." #b, or_##t) E("xor." #b, xor_##t) E("not." #b, not_##t)          \
    E("cnot." #b, cnot_##t) E("shl." #b, shl_##t) E("shr." #b, shr_##t) E("shr." #t, shr_##t)
#define E_FLOAT(t)                                                                                 \
    E("add." #t, add_##t) E("sub." #t, sub_##t) E("mul." #t, mul_##t) E("div." #t, div_##t)        \
    E("min." #t, min_##t) E("max." #t, max_##t) E("min.NaN." #t, min_NaN_##t)                      \
    E("max.NaN." #t, max_NaN_##t) E("sqrt." #t, sqrt_##t) E("rcp." #t, rcp_##t)                    \
    E("rsqrt." #t, rsqrt_##t) E("fma." #t, fma_##t) E("mad." #t, fma_##t)
#define E_HALF(t)                                                                                  \
    E("add." #t, add_##t) E("sub." #t, sub_##t) E("mul." #t, mul_##t) E("min." #t, min_##t)        \
    E("max." #t, max_##t) E("min.NaN." #t, min_NaN_##t) E("max.NaN." #t, max_NaN_##t)              \
    E("fma." #t, fma_##t)
#define E_SIGN(t, as) E("abs." #t, abs_##as) E("neg." #t, neg_##as)

static const struct named table[] = {
    INTEGERS(E_INTEGER) WIDE(E_WIDE) E_SIGNED(s16) E_SIGNED(s32) E_SIGNED(s64)
    E_BITS(b16, u16) E_BITS(b32, u32) E_BITS(b64, u64)
    E("popc.b32", popc_u32) E("popc.b64", popc_u64) E("clz.b32", clz_u32) E("clz.b64", clz_u64)
    E("brev.b32", brev_u32) E("brev.b64", brev_u64)
    E("bfind.u32", bfind_u32) E("bfind.u64", bfind_u64) E("bfind.s32", bfind_s32)
    E("bfind.shiftamt.u32", bfind_shiftamt_u32) E("bfind.shiftamt.u64", bfind_shiftamt_u64)
    E("bfe.u32", bfe_u32) E("bfe.s32", bfe_s32) E("bfe.u64", bfe_u64) E("bfe.s64", bfe_s64)
    E("bfi.b32", bfi_u32) E("bfi.b64", bfi_u64) E("prmt.b32", prmt_u32) E("lop3.b32", lop3_u32)
    E("shf.l.wrap.b32", shf_l_wrap_u32) E("shf.r.wrap.b32", shf_r_wrap_u32)
    E("shf.l.clamp.b32", shf_l_clamp_u32) E("shf.r.clamp.b32", shf_r_clamp_u32)
    E("sad.u32", sad_u32) E("sad.s32", sad_s32)
    E("dp4a.u32.u32", dp4a_uu) E("dp4a.s32.s32", dp4a_ss) E("dp4a.u32.s32", dp4a_us)
    E("dp4a.s32.u32", dp4a_su)
    E_FLOAT(f32) E_FLOAT(f64) E_HALF(f16) E_HALF(f16x2) E_HALF(bf16) E_HALF(bf16x2)
    E_SIGN(f32, f32_u32) E_SIGN(f64, f64_u64) E_SIGN(f16, f16_u16) E_SIGN(bf16, f16_u16)
    E_SIGN(f16x2, f16x2_u32) E_SIGN(bf16x2, f16x2_u32)
    E("copysign.f32", copysign_f32_u32) E("copysign.f64", copysign_f64_u64)
    E("ex2.f32", ex2_f32) E("lg2.f32", lg2_f32) E("sin.f32", sin_f32) E("cos.f32", cos_f32)
    E("tanh.f32", tanh_f32)
};

/* clang-format on */
exec_fn *ptx_arith(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].exec;
    return NULL;
}
