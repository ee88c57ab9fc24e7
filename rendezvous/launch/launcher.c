/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of launchers, and the rendezvous of a launch. */
#include "launcher.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "error.h"
#include "url.h"

static const struct rcmi_launcher *const launchers[] = {
    &rcmi_launcher_openmpi,
    &rcmi_launcher_hydra,
    &rcmi_launcher_slurm,
    &rcmi_launcher_pmix,
};

const struct rcmi_launcher *rcmi_launcher_at(size_t i) {
    for (size_t k = 0; k < sizeof launchers / sizeof launchers[0]; k++)
        if (launchers[k]->detect() && i-- == 0)
            return launchers[k];
    return NULL;
}

rcm_status rcmi_launch_meet(struct rcmi_launch *launch, const char *secret, int64_t timeout_ms,
                            rcm_store **ret_store) {
    /* Number of rendezvous of this process. All ranks count alike, so a second rcm_init does not
     * find the store of the first. Relaxed: only a counter. */
    static _Atomic unsigned rounds;
    if (!launch->launcher && launch->rank_0_serves)
        return rcmi_served_open(launch, secret, timeout_ms, ret_store);
    if (!launch->launcher)
        return rcmi_store_open(launch->url, secret, timeout_ms, ret_store);
    unsigned round = atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
    rcm_status status =
        launch->launcher->meet(launch, round, secret, rcmi_deadline_in(timeout_ms), ret_store);
    return status == RCM_OK ? RCM_OK : rcmi_fail_context("meeting by %s", launch->launcher->name);
}
