/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of checks. */
#include <string.h>
#include "check_frame.h"

extern const struct check check_cuda, check_verbs;

static const struct check *const checks[] = {&check_cuda, &check_verbs};
enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

const struct check *check_at(size_t i) {
    return i < CHECKS ? checks[i] : NULL;
}

const struct check *check_find(const char *name) {
    for (size_t i = 0; i < CHECKS; i++)
        if (strcmp(checks[i]->name, name) == 0)
            return checks[i];
    return NULL;
}
