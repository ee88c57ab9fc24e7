/* SPDX-License-Identifier: BSD-3-Clause */
/* The last-level caches of this machine, and what they decide; see info_near.h. */
#include "info_near.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "../common.h"
#include "cpu.h"
#include "locality.h"
#include "ringcomm.h"
#include "settings.h"
#include "tuning.h"

#define LISTED_MAX 8 /* caches whose CPUs are printed */

static bool mask_has(const uint8_t *mask, int cpu) {
    return mask[cpu / 8] >> cpu % 8 & 1;
}

/* Writes "0-7; 8-15; and 6 more"; returns the number of caches. */
static int caches_list(char *text, size_t cap) {
    uint8_t seen[RCMI_CPU_BYTES] = {0}, sharers[RCMI_CPU_BYTES];
    const long cpus = sysconf(_SC_NPROCESSORS_CONF);
    int caches = 0;
    text[0] = '\0';
    for (int cpu = 0; cpu < cpus && cpu < RCMI_CPU_BYTES * 8; cpu++) {
        uint8_t one[RCMI_CPU_BYTES] = {0};
        char list[48];
        one[cpu / 8] = (uint8_t)(1u << cpu % 8);
        if (mask_has(seen, cpu) || !rcmi_cache_sharers(one, RCMI_CPU_BYTES, sharers))
            continue;
        for (int byte = 0; byte < RCMI_CPU_BYTES; byte++)
            seen[byte] |= sharers[byte];
        tool_list_bits(sharers, RCMI_CPU_BYTES, list, sizeof(list));
        const size_t used = strlen(text);
        if (caches++ < LISTED_MAX)
            snprintf(text + used, cap - used, "%s%s", used ? "; " : "", list);
    }
    const size_t used = strlen(text);
    if (caches > LISTED_MAX)
        snprintf(text + used, cap - used, "; and %d more", caches - LISTED_MAX);
    return caches;
}

/* Which stores write slots, as rank 0 of a job with one CPU per rank would have it. */
static void stores_describe(char *text, size_t cap) {
    struct rcm_protocol_info info = RCM_PROTOCOL_INFO_INIT;
    const char *range = "never";
    for (size_t i = 0; rcm_protocol_at(i, &info) == RCM_OK; i++)
        if (strcmp(info.name, "slot_non_temporal.roomy") == 0) {
            range = info.value;
            break;
        }
    if (strcmp(range, "never") == 0)
        snprintf(text, cap, "slots of near and far ranks: temporal stores");
    else
        snprintf(text, cap, "slots of near ranks: temporal stores; of far ranks: non-temporal %s",
                 range);
}

/* Which ranks would be near a rank with the CPUs of this process. */
static bool near_describe(struct info_near *near, char *ret_why, size_t cap) {
    uint8_t own[RCMI_CPU_BYTES];
    struct rcmi_tuning tuning;
    if (rcmi_tuning_local(&tuning) != RCM_OK)
        return false;
    const struct rcmi_locality_facts facts = {.setting = rcmi_setting("RINGCOMM_NEAR"),
                                              .tuned = tuning.near,
                                              .is_virtual = rcmi_cpu_is_virtual(),
                                              .cpus = own};
    struct rcmi_locality locality;
    char list[128];
    rcmi_tuning_end(&tuning);
    tool_cpu_mask(own, sizeof(own));
    if (rcmi_locality_find(&facts, &locality) != RCM_OK)
        return false;
    const bool by_cache = locality.source == RCMI_LOCALITY_CACHE;
    tool_list_bits(locality.sharers, sizeof(locality.sharers), list, sizeof(list));
    near->value = locality.near_all ? "all" : by_cache ? "cache" : "none";
    near->origin = locality.source == RCMI_LOCALITY_SETTING  ? "environment"
                   : locality.source == RCMI_LOCALITY_TUNING ? "RINGCOMM_TUNING"
                                                             : "machine";
    snprintf(ret_why, cap, "%s%s%s", rcmi_locality_text(locality.source), by_cache ? ", " : "",
             list);
    return true;
}

void info_near_find(struct info_near *near) {
    char why[256], stores[128];
    snprintf(near->caches_count, sizeof(near->caches_count), "%d",
             caches_list(near->caches, sizeof(near->caches)));
    if (!near_describe(near, why, sizeof(why))) {
        near->value = "invalid";
        near->origin = "environment";
        snprintf(near->text, sizeof(near->text), "%s", rcm_last_error());
        return;
    }
    stores_describe(stores, sizeof(stores));
    snprintf(near->text, sizeof(near->text), "%s; %s", why, stores);
}
