/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floating-point types for operators.h: the meaning of their bits, and arithmetic that rounds to
 * nearest. A class of one has
 *
 *      BITS, code, ordered     of an element; an unsigned and a signed integer of that size
 *      real                    the type for arithmetic; widen is exact, narrow rounds to nearest
 *      MAGNITUDE               all bits but the sign
 *      INFINITE, NANS          the last code before the NaNs of one sign, and how many they are
 *      NOT_A_NUMBER            the NaN to which narrow converts every NaN
 */
#ifndef RCMI_CUDA_FLOATS_H
#define RCMI_CUDA_FLOATS_H

#include <stdint.h>
#include "lanes.h"

DEVICE float add(float a, float b) {
    return __fadd_rn(a, b);
}
DEVICE double add(double a, double b) {
    return __dadd_rn(a, b);
}
DEVICE float multiply(float a, float b) {
    return __fmul_rn(a, b);
}
DEVICE double multiply(double a, double b) {
    return __dmul_rn(a, b);
}
DEVICE float divide(float a, float b) {
    return __fdiv_rn(a, b);
}
DEVICE double divide(double a, double b) {
    return __ddiv_rn(a, b);
}
DEVICE float negate(float a) {
    return __uint_as_float(__float_as_uint(a) ^ 0x80000000);
}
DEVICE double negate(double a) {
    return __longlong_as_double(__double_as_longlong(a) ^ INT64_MIN);
}

template <class R> DEVICE R to_real(double v);
template <> __device__ __forceinline__ float to_real<float>(double v) {
    return __double2float_rn(v);
}
template <> __device__ __forceinline__ double to_real<double>(double v) {
    return v;
}
template <class R> DEVICE R to_real(uint32_t v);
template <> __device__ __forceinline__ float to_real<float>(uint32_t v) {
    return __uint2float_rn(v);
}
template <> __device__ __forceinline__ double to_real<double>(uint32_t v) {
    return __uint2double_rn(v);
}

struct float32 {
    enum : uint32_t {
        BITS = 32,
        MAGNITUDE = 0x7fffffff,
        INFINITE = 0x7f800000,
        NANS = MAGNITUDE - INFINITE,
        NOT_A_NUMBER = 0x7fc00000
    };
    typedef uint32_t code;
    typedef int32_t ordered;
    typedef float real;
    DEVICE float widen(uint32_t v) {
        return __uint_as_float(v);
    }
    DEVICE uint32_t narrow(float v) {
        const uint32_t bits = __float_as_uint(v);
        return (bits & MAGNITUDE) > INFINITE ? NOT_A_NUMBER : bits;
    }
};

struct float64 {
    enum : uint64_t {
        BITS = 64,
        MAGNITUDE = INT64_MAX,
        INFINITE = 0x7ff0000000000000,
        NANS = MAGNITUDE - INFINITE,
        NOT_A_NUMBER = 0x7ff8000000000000
    };
    typedef uint64_t code;
    typedef int64_t ordered;
    typedef double real;
    DEVICE double widen(uint64_t v) {
        return __longlong_as_double((int64_t)v);
    }
    DEVICE uint64_t narrow(double v) {
        const uint64_t bits = (uint64_t)__double_as_longlong(v);
        return (bits & MAGNITUDE) > INFINITE ? (uint64_t)NOT_A_NUMBER : bits;
    }
};

struct float16 {
    enum : uint16_t {
        BITS = 16,
        MAGNITUDE = 0x7fff,
        INFINITE = 0x7c00,
        NANS = MAGNITUDE - INFINITE,
        NOT_A_NUMBER = 0x7e00
    };
    typedef uint16_t code;
    typedef int16_t ordered;
    typedef float real;
    DEVICE float widen(uint16_t v) {
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v));
        return wide;
    }
    DEVICE uint16_t narrow(float v) {
        uint16_t bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
        return (bits & MAGNITUDE) > INFINITE ? (uint16_t)NOT_A_NUMBER : bits;
    }
};

struct bfloat16 {
    enum : uint16_t {
        BITS = 16,
        MAGNITUDE = 0x7fff,
        INFINITE = 0x7f80,
        NANS = MAGNITUDE - INFINITE,
        NOT_A_NUMBER = 0x7fc0
    };
    typedef uint16_t code;
    typedef int16_t ordered;
    typedef float real;
    DEVICE float widen(uint16_t v) {
        return __uint_as_float((uint32_t)v << 16);
    }
    DEVICE uint16_t narrow(float v) {
        const uint32_t bits = float32::narrow(v);
        return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
};

/* ---- The 8-bit floats: integer arithmetic, as vector_small.h explains it --------------------- */

#define FLOAT32_POWER(exponent) ((uint32_t)(127 + (exponent)) << 23)

template <int MANTISSA, int BIAS> struct eight {
    DEVICE float widen(uint32_t v, uint32_t special) {
        const uint32_t magnitude = (v & 0x7f) << (23 - MANTISSA);
        const float number =
            multiply(__uint_as_float(magnitude), __uint_as_float(FLOAT32_POWER(127 - BIAS)));
        return __uint_as_float(__float_as_uint(number) | special | v >> 7 << 31);
    }
    /* For a magnitude that is at most the largest number. */
    DEVICE uint32_t round(uint32_t v) {
        const int cut = 23 - MANTISSA;
        const uint32_t power = FLOAT32_POWER(1 - BIAS - MANTISSA + 23);
        if (v < FLOAT32_POWER(1 - BIAS))
            return __float_as_uint(add(__uint_as_float(v), __uint_as_float(power))) - power;
        return (v + (v >> cut & 1) + ((1u << (cut - 1)) - 1) -
                (FLOAT32_POWER(1 - BIAS) - (1u << 23))) >>
               cut;
    }
};

struct float8_e5m2 {
    enum : uint8_t {
        BITS = 8,
        MAGNITUDE = 0x7f,
        INFINITE = 0x7c,
        NANS = MAGNITUDE - INFINITE,
        NOT_A_NUMBER = 0x7f
    };
    typedef uint8_t code;
    typedef int8_t ordered;
    typedef float real;
    DEVICE float widen(uint8_t v) {
        return eight<2, 15>::widen(v, (v & INFINITE) == INFINITE ? 0x7f800000 : 0);
    }
    DEVICE uint8_t narrow(float v) {
        const uint32_t bits = __float_as_uint(v), magnitude = bits & 0x7fffffff;
        if (magnitude > 0x7f800000)
            return NOT_A_NUMBER;
        const uint32_t rounded =
            magnitude < FLOAT32_POWER(16) ? eight<2, 15>::round(magnitude) : (uint32_t)INFINITE;
        return (uint8_t)(rounded | bits >> 31 << 7);
    }
};

/* Without infinity; values above the largest number, 448, become 448. */
struct float8_e4m3fn {
    enum : uint8_t {
        BITS = 8,
        MAGNITUDE = 0x7f,
        INFINITE = 0x7e,
        NANS = MAGNITUDE - INFINITE,
        NOT_A_NUMBER = 0x7f
    };
    typedef uint8_t code;
    typedef int8_t ordered;
    typedef float real;
    DEVICE float widen(uint8_t v) {
        return eight<3, 7>::widen(v, (v & MAGNITUDE) > INFINITE ? 0x7f800001 : 0);
    }
    DEVICE uint8_t narrow(float v) {
        const uint32_t largest = 0x43e00000, bits = __float_as_uint(v),
                       magnitude = bits & 0x7fffffff;
        if (magnitude > 0x7f800000)
            return NOT_A_NUMBER;
        return (uint8_t)(eight<3, 7>::round(magnitude < largest ? magnitude : largest) |
                         bits >> 31 << 7);
    }
};

/* ---- Two codes in a lane --------------------------------------------------------------------- */

DEVICE uint32_t low_half(uint64_t lane) {
    return (uint32_t)lane;
}
DEVICE uint32_t high_half(uint64_t lane) {
    return (uint32_t)(lane >> 32);
}
DEVICE uint64_t low_half(wide lane) {
    return lane.low;
}
DEVICE uint64_t high_half(wide lane) {
    return lane.high;
}
DEVICE uint64_t halves(uint32_t low, uint32_t high) {
    return (uint64_t)high << 32 | low;
}
DEVICE wide halves(uint64_t low, uint64_t high) {
    return wide{low, high};
}

#endif
