/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers of the stress program. A stream is a function of the seed and its purpose: a step
 * can be drawn without the earlier ones, and all ranks draw the same values.
 */
#ifndef STRESS_RANDOM_H
#define STRESS_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct draw {
    uint64_t state;
};

struct draw draw_of(uint64_t seed, uint64_t episode, uint64_t thread, uint64_t step);
/* Another stream of the same step, for choices of one rank. */
struct draw draw_of_rank(const struct draw *draw, int rank);

uint64_t draw_next(struct draw *draw);
/* 0 to n - 1; n > 0. */
unsigned draw_below(struct draw *draw, unsigned n);
bool draw_one_in(struct draw *draw, unsigned n);
/* A number of elements of `size` bytes: none, one, a few, about a slot of slot_bytes, several
 * slots; at most `most`. */
size_t draw_count(struct draw *draw, size_t size, size_t slot_bytes, size_t most);
/* Draws an order of 0 to n - 1. */
void draw_order(struct draw *draw, int n, int *ret_order);

#endif
