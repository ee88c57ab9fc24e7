/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases that run in processes of their own, each with its own environment. */
#ifndef TEST_CUDA_CASE_H
#define TEST_CUDA_CASE_H

#include <stddef.h>
#include "ringcomm.h"

struct test_case {
    const char *name;
    const char *environment; /* "NAME=value NAME=value" */
    const char *argument;
    void (*run)(const char *argument);
};

void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void must(rcm_status status);
/* Ends the process unless `got` is `wanted` and the thread's error contains `words`; NULL: any
 * text. */
void expect(rcm_status wanted, const char *words, rcm_status got);

/* Runs all cases, or only number argv[1]. Returns the exit status. */
int cases_run(int argc, char **argv, const struct test_case *cases, size_t n);

#endif
