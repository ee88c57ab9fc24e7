/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library can say of itself: transports and algorithms. Settings: base/settings.c. */
#include "comm.h"

rcm_status rcm_transport_at(size_t i, struct rcm_transport_info *ret_info) {
    static _Thread_local char reason[256];
    size_t n = 0;
    while (rcmi_transports[n])
        n++;
    if (!ret_info)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_info is NULL");
    if (i >= n)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "there are %zu transports", n);
    reason[0] = '\0';
    ret_info->name = rcmi_transports[i]->name;
    ret_info->usable = rcmi_transports[i]->probe(reason, sizeof(reason));
    ret_info->reason = reason;
    return RCM_OK;
}

rcm_status rcm_algorithm_at(enum rcm_collective collective, size_t i,
                            struct rcm_algorithm_info *ret_info) {
    if (!ret_info)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_info is NULL");
    for (const struct rcmi_algorithm *const *at = rcmi_algorithms; *at; at++) {
        if ((*at)->collective != collective || i-- > 0)
            continue;
        ret_info->name = (*at)->name;
        ret_info->description = (*at)->description;
        return RCM_OK;
    }
    return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "no further algorithm for %s",
                     rcmi_collective_name(collective));
}
