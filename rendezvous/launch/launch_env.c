/* SPDX-License-Identifier: BSD-3-Clause */
/* How launchers' variables are read: see launcher.h. */
#include <stdio.h>
#include <stdlib.h>
#include "error.h"
#include "launcher.h"
#include "url.h"

const char *rcmi_env(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

const char *rcmi_env_either(const char *name, const char *other) {
    return !rcmi_env(name) && rcmi_env(other) ? other : name;
}

rcm_status rcmi_env_number(const char *name, int min, int max, int *ret_value) {
    int64_t number;
    if (rcmi_parse_number(getenv(name), min, max, &number) != RCM_OK)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s=%.100s is not a number from %d to %d", name,
                         getenv(name), min, max);
    *ret_value = (int)number;
    return RCM_OK;
}

rcm_status rcmi_env_optional(const char *name, int min, int max, int *ret_value) {
    return rcmi_env(name) ? rcmi_env_number(name, min, max, ret_value) : RCM_OK;
}

rcm_status rcmi_says_read(const char *launcher, struct rcmi_launcher_says *says) {
    const char *missing = !rcmi_env(says->rank_name)   ? says->rank_name
                          : !rcmi_env(says->size_name) ? says->size_name
                                                       : NULL;
    if (missing) {
        const char *other = missing == says->rank_name ? says->size_name : says->rank_name;
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "%s is not set although %s=%.100s (of %s) is; set RINGCOMM_RANK and "
                         "RINGCOMM_WORLD_SIZE to say it outright",
                         missing, other, rcmi_env(other) ? rcmi_env(other) : "", launcher);
    }
    rcm_status status = rcmi_env_number(says->rank_name, 0, RCMI_MAX_RANKS - 1, &says->rank);
    if (status == RCM_OK)
        status = rcmi_env_number(says->size_name, 1, RCMI_MAX_RANKS, &says->size);
    if (status == RCM_OK)
        status = rcmi_env_optional(says->local_rank_name, 0, RCMI_MAX_RANKS - 1, &says->local_rank);
    if (status == RCM_OK && says->local_size_name)
        status = rcmi_env_optional(says->local_size_name, 1, RCMI_MAX_RANKS, &says->local_size);
    return status;
}

void rcmi_says_job(const char *name, struct rcmi_launcher_says *says) {
    if (!rcmi_env(name))
        return;
    says->job_name = name;
    snprintf(says->job, sizeof says->job, "%s", rcmi_env(name));
}
