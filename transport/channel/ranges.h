/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Free ranges of something that is addressed by offsets, as a memory file or an arena: handed out
 * first fit, joined again when they come back. Not for the memory itself.
 */
#ifndef RCMI_TRANSPORT_RANGES_H
#define RCMI_TRANSPORT_RANGES_H

#include <stdbool.h>
#include <stddef.h>

struct rcmi_free_range;

struct rcmi_ranges {
    struct rcmi_free_range *free; /* by position */
};

/* Of len bytes; false if none is large enough. */
bool rcmi_ranges_take(struct rcmi_ranges *ranges, size_t len, size_t *ret_at);
/* One that was taken, or is new. Without memory to remember it, it stays unused. */
void rcmi_ranges_give(struct rcmi_ranges *ranges, size_t at, size_t len);
void rcmi_ranges_clear(struct rcmi_ranges *ranges);

#endif
