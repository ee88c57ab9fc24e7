/* SPDX-License-Identifier: BSD-3-Clause */
/* The conversions and the fused multiply-add of ptx_float.h against exact arithmetic. */
#include "../ptx/ptx_float.h"
#include "reference.h"

/* a * b + c exactly enough (113 bits), then to odd in a double, then by table */
static uint32_t exact_fma(enum dtype t, double a, double b, double c) {
    __float128 s = (__float128)a * b + c;
    double d = (double)s;
    uint64_t u;
    memcpy(&u, &d, 8);
    if (d == d && (__float128)d != s && !(u & 1))
        u += ((__float128)d < s) == (d >= 0) ? 1 : -1;
    memcpy(&d, &u, 8);
    return encode(t, d);
}

static void check_fma(enum dtype t) {
    for (int i = 0; i < 1000000; i++) {
        uint64_t r = rnd();
        uint16_t a = (uint16_t)r, b = (uint16_t)(r >> 16), c = (uint16_t)(r >> 32);
        if (t == BF16) /* keep the exponents near each other: 113 bits must hold the sum */
            a = (a & 0x83ff) | 0x3c00, b = (b & 0x83ff) | 0x3c00, c = (c & 0x87ff) | 0x3800;
        float got = t == F16 ? fma_round_odd(f16_to_f32(a), f16_to_f32(b), f16_to_f32(c))
                             : fma_round_odd(bf16_to_f32(a), bf16_to_f32(b), bf16_to_f32(c));
        uint32_t code = t == F16 ? f32_to_f16(got) : f32_to_bf16(got);
        uint32_t want = exact_fma(t, decode(t, a), decode(t, b), decode(t, c));
        CHECK(code == want, "%s fma %04x %04x %04x: %04x, not %04x", type_names[t], a, b, c, code,
              want);
    }
}

static uint32_t narrow(enum dtype t, float f) {
    return t == F16    ? f32_to_f16(f)
           : t == BF16 ? f32_to_bf16(f)
           : t == E4M3 ? f32_to_e4m3_satfinite(f)
                       : f32_to_e5m2_satfinite(f);
}

static float widen(enum dtype t, uint32_t c) {
    return t == F16    ? f16_to_f32((uint16_t)c)
           : t == BF16 ? bf16_to_f32((uint16_t)c)
           : t == E4M3 ? e4m3_to_f32((uint8_t)c)
                       : e5m2_to_f32((uint8_t)c);
}

static void check_conversions(enum dtype t) {
    uint32_t codes = t == F16 || t == BF16 ? 65536 : 256;
    for (uint32_t c = 0; c < codes; c++) {
        double want = decode(t, c);
        float got = widen(t, c);
        CHECK((want != want && got != got) || (want == got && !signbit(want) == !signbit(got)),
              "%s %x", type_names[t], c);
    }
    for (uint32_t i = 0; i < 1u << 22;
         i++) { /* every 1021st float, and the neighbours of every tie */
        uint32_t u = i * 1021u;
        for (int k = -1; k <= 1; k++) {
            float f =
                bits_f32(k ? (u & 0xfff00000u) + (uint32_t)((int32_t)(u << 13 & 0x80000) + k) : u);
            CHECK(narrow(t, f) == encode(t, f), "%s %08x: %x, not %x", type_names[t], f32_bits(f),
                  narrow(t, f), encode(t, f));
        }
    }
}

int main(void) {
    for (int t = F16; t <= E5M2; t++)
        check_conversions(t);
    check_fma(F16);
    check_fma(BF16);
    printf("float_check: all equal\n");
    return 0;
}
