/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of pairs; see minloc.h. The pair with the better value wins; for equal values, the one
 * with the lower index. Values are compared by a key, an integer with the same order: for floats -0
 * before +0, and a NaN before or after all numbers, so that it wins. The winner is stored
 * unchanged, including unused bytes; a NaN is stored as the canonical NaN.
 */
#include "minloc.h"
#include <stdbool.h>
#include <string.h>

/* The bits of a float, read as an integer of sign and magnitude. */
static int32_t float32_bits(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static int64_t float64_bits(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static int64_t key_float32(float value, int64_t nan) {
    const int32_t bits = float32_bits(value);
    return value != value ? nan : bits < 0 ? bits ^ INT32_MAX : bits;
}

static int64_t key_float64(double value, int64_t nan) {
    const int64_t bits = float64_bits(value);
    return value != value ? nan : bits < 0 ? bits ^ INT64_MAX : bits;
}

static int64_t key_int(int64_t value, int64_t nan) {
    (void)nan;
    return value;
}

static float canonical_float32(float value) {
    const uint32_t nan = 0x7fc00000;
    if (value != value)
        memcpy(&value, &nan, sizeof(value));
    return value;
}

static double canonical_float64(double value) {
    const uint64_t nan = UINT64_C(0x7ff8000000000000);
    if (value != value)
        memcpy(&value, &nan, sizeof(value));
    return value;
}

#define canonical_int(value) (value)

/* turn: + for the smallest, ~ to reverse the order for the largest. nan: the key of a NaN before
 * `turn`. Uses memcpy: an assignment might omit the unused bytes. */
#define LOCATION(name, T, kind, nan, turn)                                                         \
    void rcmi_##name##_##T(void *dst, const void *const *srcs, int nsrcs, size_t count) {          \
        struct rcm_##T *results = dst;                                                             \
        for (size_t i = 0; i < count; i++) {                                                       \
            const struct rcm_##T *best = &((const struct rcm_##T *)srcs[0])[i];                    \
            int64_t best_key = turn key_##kind(best->value, nan);                                  \
            for (int s = 1; s < nsrcs; s++) {                                                      \
                const struct rcm_##T *next = &((const struct rcm_##T *)srcs[s])[i];                \
                const int64_t key = turn key_##kind(next->value, nan);                             \
                const bool wins =                                                                  \
                    key < best_key || (key == best_key && next->index < best->index);              \
                best = wins ? next : best;                                                         \
                best_key = wins ? key : best_key;                                                  \
            }                                                                                      \
            memmove(&results[i], best, sizeof(*best));                                             \
            if (nsrcs > 1)                                                                         \
                results[i].value = canonical_##kind(results[i].value);                             \
        }                                                                                          \
    }

#define LOCATIONS(T, kind)                                                                         \
    LOCATION(minloc, T, kind, INT64_MIN, +)                                                        \
    LOCATION(maxloc, T, kind, INT64_MAX, ~)

LOCATIONS(float32_int32, float32)
LOCATIONS(float64_int32, float64)
LOCATIONS(int32_int32, int)
LOCATIONS(int64_int32, int)
