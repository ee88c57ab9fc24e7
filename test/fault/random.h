/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The random numbers of the fault tests: few, and the same everywhere for the same seed, so that a
 * round can be replayed. Not for secrets.
 *
 * Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
 */
#ifndef FAULT_RANDOM_H
#define FAULT_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state) { /* splitmix64 */
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

#endif
