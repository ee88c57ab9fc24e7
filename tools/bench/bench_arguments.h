/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single arguments of ringcomm-bench's options. Each function ends the program with a sentence and
 * status 2 if the text is not valid: that is what argp_error does.
 *
 * Not here: the options, and what goes with what (bench_options.c).
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
/* Fills sizes, nsizes, and the range that they are in. */
void bench_argument_sizes(struct argp_state *state, const char *text,
                          struct bench_options *options);
rcm_dtype bench_argument_dtype(struct argp_state *state, const char *text);
rcm_op bench_argument_op(struct argp_state *state, const char *text);
/* True: memory of devices. */
bool bench_argument_memory(struct argp_state *state, const char *text);
/* Not whether there is such a device. */
const char *bench_argument_device(struct argp_state *state, const char *text);
/* Also refuses a transport that cannot work on this machine. */
void bench_argument_transport(struct argp_state *state, const char *text);
enum bench_what bench_argument_what(struct argp_state *state, const char *text);

#endif
