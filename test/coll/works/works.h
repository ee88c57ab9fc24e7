/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the works test. */
#ifndef TEST_WORKS_H
#define TEST_WORKS_H

#include <stdbool.h>
#include <string.h>
#include "../ranks.h"

static inline bool error_has(const char *words) {
    return strstr(rcm_last_error(), words) != NULL;
}

#define CHECK_OK(errors, call) CHECK(errors, (call) == RCM_OK, "%s: %s", #call, rcm_last_error())
#define CHECK_REFUSED(errors, call, words)                                                         \
    CHECK(errors, (call) == RCM_ERR_INVALID && error_has(words), "%s: %s", #call, rcm_last_error())

/* persistent.c: persistent operations. */
int check_persistent(rcm_comm *comm);

#endif
