/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank and size from a launcher; see launched.h. */
#include "launched.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "common.h"
#include "ringcomm.h"

static int launched_number(const char *name, int64_t min, int64_t otherwise) {
    struct rcm_launch_item item;
    for (size_t i = 0; rcm_launch_at(i, &item) == RCM_OK; i++)
        if (strcmp(item.name, name) == 0)
            (void)tool_parse_int(item.value, min, INT32_MAX, &otherwise);
    return (int)otherwise;
}

void launched_job(int *ret_rank, int *ret_nranks) {
    *ret_rank = launched_number("rank", 0, 0);
    *ret_nranks = launched_number("world_size", 1, 1);
}

int launched_local_rank(void) {
    return launched_number("local_rank", 0, 0);
}
