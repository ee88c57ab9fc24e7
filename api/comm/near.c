/* SPDX-License-Identifier: BSD-3-Clause */
/* See near.h. */
#include "near.h"

#include <stdlib.h>
#include "engine.h"
#include "error.h"
#include "locality.h"
#include "log.h"
#include "settings.h"
#include "status_page.h"

/* Marks the near ranks; returns the number of other ranks of this host. */
static int near_mark(const struct rcmi_engine *engine, const struct rcmi_locality *locality,
                     bool *near, int *ret_found) {
    int local = 0;
    *ret_found = 0;
    for (int r = 0; r < engine->nranks; r++) {
        if (r == engine->rank || !rcmi_book_one_host(engine->book, engine->rank, r))
            continue;
        local++;
        near[r] = rcmi_locality_is_near(locality, engine->cpus[r].bytes);
        *ret_found += near[r];
    }
    return local;
}

rcm_status rcmi_engine_find_near(const struct rcmi_engine *engine,
                                 struct rcmi_page_near *ret_near) {
    const struct rcmi_locality_facts facts = {.setting = rcmi_setting("RINGCOMM_NEAR"),
                                              .tuned = engine->tuning.near,
                                              .is_virtual = rcmi_cpu_is_virtual(),
                                              .cpus = engine->cpus[engine->rank].bytes};
    struct rcmi_locality locality;
    int found;
    rcm_status status = rcmi_locality_find(&facts, &locality);
    if (status != RCM_OK)
        return status;
    bool *near = calloc((size_t)engine->nranks, sizeof *near);
    if (!near)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", engine->nranks);
    const int local = near_mark(engine, &locality, near, &found);
    if (local > 0)
        rcmi_log(RCMI_LOG_INFO, "%d of %d other ranks of this host are near (%s)", found, local,
                 rcmi_locality_text(locality.source));
    *ret_near = (struct rcmi_page_near){
        .source = locality.source, .cache_cpu = locality.cache_cpu, .ranks = found};
    status = rcmi_node_set_near(engine->node, near);
    free(near);
    return status;
}
