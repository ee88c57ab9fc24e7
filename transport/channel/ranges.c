/* SPDX-License-Identifier: BSD-3-Clause */
/* First-fit allocation of ranges: see ranges.h. */
#include "ranges.h"
#include <stdlib.h>

struct rcmi_free_range {
    struct rcmi_free_range *next;
    size_t at, len;
};

bool rcmi_ranges_take(struct rcmi_ranges *ranges, size_t len, size_t *ret_at) {
    struct rcmi_free_range **at = &ranges->free;
    while (*at && (*at)->len < len)
        at = &(*at)->next;
    struct rcmi_free_range *range = *at;
    if (!range)
        return false;
    *ret_at = range->at;
    range->at += len;
    range->len -= len;
    if (range->len == 0) {
        *at = range->next;
        free(range);
    }
    return true;
}

/* Joins a range with the next one if they touch. */
static void range_join(struct rcmi_free_range *range) {
    struct rcmi_free_range *next = range->next;
    if (!next || range->at + range->len != next->at)
        return;
    range->len += next->len;
    range->next = next->next;
    free(next);
}

void rcmi_ranges_give(struct rcmi_ranges *ranges, size_t at, size_t len) {
    struct rcmi_free_range **link = &ranges->free, *before = NULL;
    struct rcmi_free_range *range = calloc(1, sizeof *range);
    if (!range)
        return;
    while (*link && (*link)->at < at) {
        before = *link;
        link = &(*link)->next;
    }
    *range = (struct rcmi_free_range){.next = *link, .at = at, .len = len};
    *link = range;
    range_join(range);
    if (before)
        range_join(before);
}

void rcmi_ranges_clear(struct rcmi_ranges *ranges) {
    while (ranges->free) {
        struct rcmi_free_range *range = ranges->free;
        ranges->free = range->next;
        free(range);
    }
}
