/* SPDX-License-Identifier: BSD-3-Clause */
/* See near.h. */
#include "near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cpu.h"
#include "engine.h"
#include "error.h"
#include "log.h"
#include "settings.h"

static bool is_subset(const uint8_t *cpus, const uint8_t *of) {
    bool any = false;
    for (int byte = 0; byte < RCMI_CPU_BYTES; byte++) {
        if (cpus[byte] & ~of[byte])
            return false;
        any = any || cpus[byte];
    }
    return any;
}

/* Which ranks of the host are near, and why. BY_CPUS: those that run on *ret_sharers. */
enum verdict { ALL_NEAR, ALL_FAR, BY_CPUS };
static enum verdict near_judge(const struct rcmi_engine *engine, const char *setting,
                               uint8_t *ret_sharers, const char **ret_why) {
    const uint8_t *own = engine->cpus[engine->rank].bytes;
    *ret_why = "set by RINGCOMM_NEAR";
    if (strcmp(setting, "auto") != 0)
        return strcmp(setting, "1") == 0 ? ALL_NEAR : ALL_FAR;
    *ret_why = "a virtual machine does not show which cache a CPU uses";
    if (rcmi_cpu_is_virtual())
        return ALL_FAR;
    *ret_why = "the system describes no caches";
    if (!rcmi_cache_sharers(own, RCMI_CPU_BYTES, ret_sharers))
        return ALL_FAR;
    *ret_why = "this rank's CPUs use several last-level caches";
    if (!is_subset(own, ret_sharers))
        return ALL_FAR;
    *ret_why = "by the last-level cache of their CPUs";
    return BY_CPUS;
}

rcm_status rcmi_engine_find_near(const struct rcmi_engine *engine) {
    const char *setting = rcmi_setting("RINGCOMM_NEAR"), *why;
    uint8_t sharers[RCMI_CPU_BYTES];
    int local = 0, found = 0;
    if (strcmp(setting, "auto") != 0 && strcmp(setting, "0") != 0 && strcmp(setting, "1") != 0)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "RINGCOMM_NEAR=%s is not auto, 0 or 1", setting);
    bool *near = calloc((size_t)engine->nranks, sizeof *near);
    if (!near)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", engine->nranks);
    const enum verdict verdict = near_judge(engine, setting, sharers, &why);
    for (int r = 0; r < engine->nranks; r++) {
        if (r == engine->rank || !rcmi_book_one_host(engine->book, engine->rank, r))
            continue;
        local++;
        near[r] = verdict == ALL_NEAR ||
                  (verdict == BY_CPUS && is_subset(engine->cpus[r].bytes, sharers));
        found += near[r];
    }
    if (local > 0)
        rcmi_log(RCMI_LOG_INFO, "%d of %d other ranks of this host are near (%s)", found, local,
                 why);
    const rcm_status status = rcmi_node_set_near(engine->node, near);
    free(near);
    return status;
}
