/* SPDX-License-Identifier: BSD-3-Clause */
/* The floats shorter than float32, by the list of all their values: reference_small.c. */
#ifndef REFERENCE_SMALL_H
#define REFERENCE_SMALL_H

#include <stdbool.h>
#include <stdint.h>
#include "ringcomm.h"

bool small_is(rcm_dtype dtype);
float small_decode(rcm_dtype dtype, uint32_t code);
/* The nearest number; of two equally near ones the one with an even code. */
uint32_t small_encode(rcm_dtype dtype, float value);

#endif
