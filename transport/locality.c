/* SPDX-License-Identifier: BSD-3-Clause */
/* See locality.h. */
#include "locality.h"

#include <string.h>
#include "error.h"

static bool is_subset(const uint8_t *cpus, const uint8_t *of) {
    bool any = false;
    for (int byte = 0; byte < RCMI_CPU_BYTES; byte++) {
        if (cpus[byte] & ~of[byte])
            return false;
        any = any || cpus[byte];
    }
    return any;
}

static int cpu_first(const uint8_t *cpus) {
    for (int cpu = 0; cpu < RCMI_CPU_BYTES * 8; cpu++)
        if (cpus[cpu / 8] >> cpu % 8 & 1)
            return cpu;
    return -1;
}

static enum rcmi_locality_source caches_judge(const struct rcmi_locality_facts *facts,
                                              uint8_t *ret_sharers) {
    if (facts->is_virtual)
        return RCMI_LOCALITY_GUEST;
    if (!rcmi_cache_sharers(facts->cpus, RCMI_CPU_BYTES, ret_sharers))
        return RCMI_LOCALITY_NO_CACHES;
    return is_subset(facts->cpus, ret_sharers) ? RCMI_LOCALITY_CACHE : RCMI_LOCALITY_SEVERAL_CACHES;
}

static const char *const choices[] = {
    [RCMI_NEAR_AUTO] = "auto", [RCMI_NEAR_NONE] = "0", [RCMI_NEAR_ALL] = "1"};

bool rcmi_near_choice_read(const char *text, size_t len, enum rcmi_near_choice *ret_choice) {
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        if (strlen(choices[i]) == len && memcmp(choices[i], text, len) == 0) {
            *ret_choice = (enum rcmi_near_choice)i;
            return true;
        }
    return false;
}

const char *rcmi_near_choice_text(enum rcmi_near_choice choice) {
    return choices[choice];
}

rcm_status rcmi_locality_find(const struct rcmi_locality_facts *facts,
                              struct rcmi_locality *ret_locality) {
    struct rcmi_locality locality = {.source = RCMI_LOCALITY_SETTING, .cache_cpu = -1};
    enum rcmi_near_choice choice;
    if (!rcmi_near_choice_read(facts->setting, strlen(facts->setting), &choice))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "RINGCOMM_NEAR=%s is not auto, 0 or 1", facts->setting);
    if (choice == RCMI_NEAR_AUTO) {
        choice = facts->tuned;
        locality.source = RCMI_LOCALITY_TUNING;
    }
    if (choice == RCMI_NEAR_AUTO)
        locality.source = caches_judge(facts, locality.sharers);
    locality.near_all = choice == RCMI_NEAR_ALL;
    if (locality.source == RCMI_LOCALITY_CACHE)
        locality.cache_cpu = cpu_first(locality.sharers);
    else
        memset(locality.sharers, 0, sizeof locality.sharers);
    *ret_locality = locality;
    return RCM_OK;
}

bool rcmi_locality_is_near(const struct rcmi_locality *locality, const uint8_t *cpus) {
    return locality->near_all || is_subset(cpus, locality->sharers);
}

const char *rcmi_locality_text(enum rcmi_locality_source source) {
    static const char *const texts[] = {
#define RCMI_LOCALITY_TEXT(name, text) text,
        RCMI_LOCALITY_MAP(RCMI_LOCALITY_TEXT)
#undef RCMI_LOCALITY_TEXT
    };
    return source < RCMI_LOCALITY_SOURCES ? texts[source] : "unknown";
}
