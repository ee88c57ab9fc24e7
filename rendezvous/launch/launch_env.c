/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads launchers' variables; see launcher.h. */
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

rcm_status rcmi_launcher_info_read(const char *launcher, struct rcmi_launcher_info *info) {
    const char *missing = !rcmi_env(info->rank_name)   ? info->rank_name
                          : !rcmi_env(info->size_name) ? info->size_name
                                                       : NULL;
    if (missing) {
        const char *other = missing == info->rank_name ? info->size_name : info->rank_name;
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "%s is not set although %s=%.100s (of %s) is; set both, or set "
                         "RINGCOMM_RANK and RINGCOMM_WORLD_SIZE",
                         missing, other, rcmi_env(other) ? rcmi_env(other) : "", launcher);
    }
    rcm_status status = rcmi_env_number(info->rank_name, 0, RCMI_MAX_RANKS - 1, &info->rank);
    if (status == RCM_OK)
        status = rcmi_env_number(info->size_name, 1, RCMI_MAX_RANKS, &info->size);
    if (status == RCM_OK)
        status = rcmi_env_optional(info->local_rank_name, 0, RCMI_MAX_RANKS - 1, &info->local_rank);
    if (status == RCM_OK && info->local_size_name)
        status = rcmi_env_optional(info->local_size_name, 1, RCMI_MAX_RANKS, &info->local_size);
    return status;
}

void rcmi_launcher_info_job(const char *name, struct rcmi_launcher_info *info) {
    if (!rcmi_env(name))
        return;
    info->job_name = name;
    snprintf(info->job, sizeof info->job, "%s", rcmi_env(name));
}
