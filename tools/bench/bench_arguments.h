/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses single arguments of ringcomm-bench's options. Each function exits with an error and status
 * 2 (argp_error) if the text is not valid.
 *
 * Not here: the options and their combinations (bench_options.c).
 */
#ifndef RINGCOMM_TOOLS_BENCH_ARGUMENTS_H
#define RINGCOMM_TOOLS_BENCH_ARGUMENTS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include "bench.h"

int64_t bench_argument_int(struct argp_state *state, const char *name, const char *text,
                           int64_t min, int64_t max);
int64_t bench_argument_size(struct argp_state *state, const char *name, const char *text);
/* Fills sizes and nsizes, and min_bytes and max_bytes with their range. */
void bench_argument_sizes(struct argp_state *state, const char *text,
                          struct bench_options *options);
rcm_dtype bench_argument_dtype(struct argp_state *state, const char *text);
rcm_op bench_argument_op(struct argp_state *state, const char *text);
/* True: device memory. */
bool bench_argument_memory(struct argp_state *state, const char *text);
/* Checks the syntax only, not whether the device exists. */
const char *bench_argument_device(struct argp_state *state, const char *text);
/* Also rejects a transport that is unusable on this machine. */
void bench_argument_transport(struct argp_state *state, const char *text);
enum bench_what bench_argument_what(struct argp_state *state, const char *text);

#endif
