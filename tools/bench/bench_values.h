/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The values of ringcomm-bench's elements, of every type, before they are stored as one and after
 * (bench_values.c). Where an element is sent and what arrives is bench_data.c's.
 */
#ifndef RINGCOMM_TOOLS_BENCH_VALUES_H
#define RINGCOMM_TOOLS_BENCH_VALUES_H

#include "bench.h"

#define BENCH_BLOCK 512 /* elements computed at a time */

/* Integers, truth values and those of integer pairs are ints, all others reals. second: imaginary
 * parts (reals), or indices of pairs (ints). */
struct bench_block {
    union bench_part {
        int64_t ints[BENCH_BLOCK];
        double reals[BENCH_BLOCK];
    } first, second;
};

/* What `rank` has from position `first` on; one hash for each element. */
void bench_values_make(const struct bench_point *point, int rank, uint64_t first,
                       const uint32_t *hashes, size_t n, struct bench_block *ret_block);
/* What premul_sum makes of them. */
void bench_values_scale(const struct bench_point *point, int rank, size_t n,
                        struct bench_block *block);
/* acc op= more, as the point's operator does. */
void bench_values_combine(const struct bench_point *point, struct bench_block *acc,
                          const struct bench_block *more, size_t n);
/* Sums become averages of nranks values, as ringcomm.h words them. */
void bench_values_divide(const struct bench_point *point, struct bench_block *sums, size_t n,
                         int nranks);
/* Converts to the point's type. Integers wrap. */
void bench_values_store(const struct bench_point *point, const struct bench_block *block, size_t n,
                        void *dst);
/* Is it another value? Zeros of complex products may have either sign. */
bool bench_values_differ(const struct bench_point *point, const void *a, const void *b);

#endif
