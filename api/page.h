/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The status page: what this rank is doing, in memory that the ranks of its host map, readable
 * whatever the rank itself does. Written by the driver only, word by word; read by others at any
 * time, so a reader may see words of two operations mixed and trusts none of them.
 */
#ifndef RCMI_PAGE_H
#define RCMI_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#define RCMI_PAGE_MAGIC 0x5243504147453031u /* "RCPAGE01" */

/* All fields: relaxed stores by the driver, relaxed loads by readers; nothing is ordered by them.
 */
struct rcmi_status_page {
    _Atomic uint64_t magic;
    _Atomic int32_t pid, rank, size;
    _Atomic uint32_t epoch;
    _Atomic uint64_t sequence; /* of the collective begun last */
    _Atomic uint64_t bytes;
    _Atomic int32_t collective, dtype, op, root;
    _Atomic int32_t running;   /* 1 while it runs */
    _Atomic int32_t waits_for; /* rank, -1 unknown */
    _Atomic uint32_t step;
};

#endif
