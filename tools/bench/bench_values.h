/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The values of ringcomm-bench's elements, for every type (bench_values.c). bench_data.c decides
 * where an element is sent and which result is expected.
 */
#ifndef RINGCOMM_TOOLS_BENCH_VALUES_H
#define RINGCOMM_TOOLS_BENCH_VALUES_H

#include "bench.h"

#define BENCH_BLOCK 512 /* elements computed at a time */

/* Values in a common form. Integers, truth values and values of integer pairs use ints; all others
 * use reals. second: imaginary parts (reals), or indices of pairs (ints). */
struct bench_block {
    union bench_part {
        int64_t ints[BENCH_BLOCK];
        double reals[BENCH_BLOCK];
    } first, second;
};

/* Makes the values of `rank` from position `first` on; one hash per element. */
void bench_values_make(const struct bench_point *point, int rank, uint64_t first,
                       const uint32_t *hashes, size_t n, struct bench_block *ret_block);
/* Applies the rank's scale of premul_sum. */
void bench_values_scale(const struct bench_point *point, int rank, size_t n,
                        struct bench_block *block);
/* acc op= more, with the point's operator. */
void bench_values_combine(const struct bench_point *point, struct bench_block *acc,
                          const struct bench_block *more, size_t n);
/* Converts sums to averages of nranks values, by ringcomm.h's definition. */
void bench_values_divide(const struct bench_point *point, struct bench_block *sums, size_t n,
                         int nranks);
/* Converts to the point's type; integers wrap. */
void bench_values_store(const struct bench_point *point, const struct bench_block *block, size_t n,
                        void *dst);
/* Whether two stored values differ. Zeros of complex products may have either sign. */
bool bench_values_differ(const struct bench_point *point, const void *a, const void *b);

#endif
