/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A free list of ranges of something addressed by offsets, such as a memory file or an arena. First
 * fit; returned ranges are joined with their neighbours. Not for the memory itself.
 */
#ifndef RCMI_TRANSPORT_RANGES_H
#define RCMI_TRANSPORT_RANGES_H

#include <stdbool.h>
#include <stddef.h>

struct rcmi_free_range;

struct rcmi_ranges {
    struct rcmi_free_range *free; /* sorted by position */
};

/* Takes a range of len bytes; false if none is large enough. */
bool rcmi_ranges_take(struct rcmi_ranges *ranges, size_t len, size_t *ret_at);
/* Returns a range, or adds a new one. If there is no memory to store it, it stays unused. */
void rcmi_ranges_give(struct rcmi_ranges *ranges, size_t at, size_t len);
void rcmi_ranges_clear(struct rcmi_ranges *ranges);

#endif
