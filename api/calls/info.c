/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries of transports, constants and algorithms. Settings: base/settings/settings.c. */
#include "entry.h"
#include "error.h"
#include "plan.h"
#include "settings.h"
#include "struct_versions.h"
#include "transport.h"
#include "tuning.h"

/* Needs of two ranks with this process's settings; rcm_init rejects invalid ones. */
static struct rcmi_need info_need(void) {
    int64_t slots = 4, slot_bytes = 128 << 10, memory = INT64_MAX;
    (void)!rcmi_setting_int("RINGCOMM_SLOTS", 2, 1024, &slots);
    (void)!rcmi_setting_slot_bytes(2, &slot_bytes);
    (void)!rcmi_setting_size("RINGCOMM_SLOT_MEMORY", 1 << 20, INT64_MAX, &memory);
    return (struct rcmi_need){.nranks = 2,
                              .slots = (uint32_t)slots,
                              .slot_bytes = (size_t)slot_bytes,
                              .slot_memory = (size_t)memory};
}

static rcm_status transport_at(size_t i, struct rcm_transport_info *ret_info) {
    RCMI_ENTRY;
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
    const struct rcmi_need need = info_need();
    ret_info->usable = rcmi_transports[i]->probe(&need, reason, sizeof(reason));
    ret_info->reason = reason;
    return RCM_OK;
}

rcm_status rcm_transport_at(size_t i, struct rcm_transport_info *ret_info) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, transport_at(i, ret_info));
}

rcm_status rcm_protocol_at(size_t i, struct rcm_protocol_info *ret_info) {
    RCMI_ENTRY;
    static const struct rcmi_sized sized = {"ret_info", "RCM_PROTOCOL_INFO_INIT",
                                            RCMI_PROTOCOL_SIZE_0, sizeof(struct rcm_protocol_info)};
    static _Thread_local struct rcmi_protocol_item item;
    if (!ret_info)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_info is NULL");
    rcm_status status = rcmi_struct_out_check(&sized, ret_info);
    if (status == RCM_OK)
        status = rcmi_tuning_item(i, &item);
    if (status != RCM_OK)
        return status;
    const struct rcm_protocol_info info = {.size = sizeof(info),
                                           .name = item.name,
                                           .value = item.value,
                                           .default_value = item.built_in,
                                           .origin = item.origin,
                                           .help = item.help};
    rcmi_struct_out(&sized, &info, ret_info);
    return RCM_OK;
}

rcm_status rcm_algorithm_at(enum rcm_collective collective, size_t i,
                            struct rcm_algorithm_info *ret_info) {
    if (!ret_info)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_info is NULL");
    for (const struct rcmi_algorithm *const *at = rcmi_algorithms; *at; at++) {
        if (!rcmi_algorithm_does(*at, collective) || i-- > 0)
            continue;
        ret_info->name = (*at)->name;
        ret_info->description = (*at)->description;
        return RCM_OK;
    }
    return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "no further algorithm for %s",
                     rcmi_collective_name(collective));
}
