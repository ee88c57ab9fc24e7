/* SPDX-License-Identifier: BSD-3-Clause */
/* Near and far ranks of a job, summarized; see live.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../common.h"
#include "live.h"

static bool is_near(const struct live_rank *rank) {
    return rank->owner.near.ranks > 0;
}

/* Ranks of one group are near each other, or all are far from all ranks, for one reason. */
static bool is_same_group(const struct live_rank *a, const struct live_rank *b) {
    return a->owner.near.source == b->owner.near.source && is_near(a) == is_near(b) &&
           a->owner.near.cache_cpu == b->owner.near.cache_cpu;
}

/* Writes the CPUs that share the last-level cache of a CPU, ", CPUs 0-7", if they are known. */
static void cache_describe(int cpu, char *text, size_t cap) {
    uint8_t one[RCMI_CPU_BYTES] = {0}, sharers[RCMI_CPU_BYTES];
    char list[64];
    text[0] = '\0';
    if (cpu < 0 || cpu >= RCMI_CPU_BYTES * 8)
        return;
    one[cpu / 8] = (uint8_t)(1u << cpu % 8);
    if (!rcmi_cache_sharers(one, RCMI_CPU_BYTES, sharers))
        return;
    tool_list_bits(sharers, RCMI_CPU_BYTES, list, sizeof(list));
    snprintf(text, cap, ", CPUs %s", list);
}

/* Appends "ranks 0-3 are near each other (REASON)" for the group of `first`. */
static void group_add(const struct live_rank *first, const struct live_rank *end, uint8_t *bits,
                      size_t bytes, char *text, size_t cap) {
    const size_t used = strlen(text);
    char list[128], cpus[96];
    int n = 0;
    memset(bits, 0, bytes);
    for (const struct live_rank *rank = first; rank < end; rank++)
        if (is_same_group(rank, first)) {
            const int r = rank->label.rank;
            bits[r / 8] |= (uint8_t)(1u << r % 8);
            n++;
        }
    tool_list_bits(bits, bytes, list, sizeof(list));
    cache_describe(first->owner.near.cache_cpu, cpus, sizeof(cpus));
    snprintf(text + used, cap - used, "%srank%s %s %s %s (%s%s)", used ? "; " : "",
             n > 1 ? "s" : "", list, n > 1 ? "are" : "is",
             !is_near(first) ? "far from all others"
             : n > 1         ? "near each other"
                             : "near others",
             rcmi_locality_text(first->owner.near.source), cpus);
}

/* Whether a rank in front of this one is of its group. */
static bool is_described(const struct live_rank *first, const struct live_rank *rank) {
    for (const struct live_rank *other = first; other < rank; other++)
        if (is_same_group(other, rank))
            return true;
    return false;
}

void live_near(const struct live_rank *first, const struct live_rank *end, char *text, size_t cap) {
    const size_t bytes = (size_t)first->label.size / 8 + 1;
    uint8_t *bits = first->label.size <= LIVE_RANKS_MAX ? malloc(bytes) : NULL;
    snprintf(text, cap, "%s", bits ? "" : "unknown");
    for (const struct live_rank *rank = first; bits && rank < end; rank++)
        if (strlen(text) < cap - 1 && !is_described(first, rank))
            group_add(rank, end, bits, bytes, text, cap);
    free(bits);
}
