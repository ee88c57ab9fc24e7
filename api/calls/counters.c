/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of a communicator. They are counted where the events occur: messages and bytes by
 * the transports' framework (transport/traffic.h), on the status page, where ringcomm-info --live
 * reads them too. Here they are only collected.
 */
#include "counters.h"
#include "entry.h"
#include "error.h"
#include "struct_versions.h"

_Static_assert(RCM_COUNTERS_TRANSPORTS == RCMI_TRANSPORTS_MAX, "a row for each transport");

static struct rcm_traffic traffic_read(const struct rcmi_traffic *traffic, const char *name) {
    return (struct rcm_traffic){
        .transport = name,
        .sent = atomic_load_explicit(&traffic->sent, memory_order_relaxed),
        .sent_bytes = atomic_load_explicit(&traffic->sent_bytes, memory_order_relaxed),
        .received = atomic_load_explicit(&traffic->received, memory_order_relaxed),
        .received_bytes = atomic_load_explicit(&traffic->received_bytes, memory_order_relaxed),
    };
}

static uint64_t time_read(const struct rcmi_trace *trace, const _Atomic uint64_t *time) {
    return (uint64_t)((double)atomic_load_explicit(time, memory_order_relaxed) *
                      rcmi_trace_unit_ns(trace));
}

static void times_read(const struct rcmi_trace *trace, uint32_t row, struct rcm_traffic *traffic) {
    traffic->wait_ns = time_read(trace, &trace->waited[row]);
    traffic->move_ns = time_read(trace, &trace->moved[row]);
}

static void counters_read(const struct rcmi_counted *counted, struct rcm_counters *counters) {
    for (uint32_t i = 0; rcmi_transports[i]; i++) {
        counters->transports[i] =
            traffic_read(&counted->page->traffic[i], rcmi_transports[i]->name);
        if (counted->trace)
            times_read(counted->trace, i, &counters->transports[i]);
        counters->ntransports = i + 1;
    }
    counters->collectives = atomic_load_explicit(&counted->page->called, memory_order_relaxed);
    counters->slot_bytes = rcmi_node_slot_memory(counted->node, counted->epoch);
    counters->plan_bytes = rcmi_exec_memory(counted->exec);
}

rcm_status rcm_comm_counters(rcm_comm *comm, struct rcm_counters *ret_counters) {
    RCMI_ENTRY;
    static const struct rcmi_sized sized = {"ret_counters", "RCM_COUNTERS_INIT",
                                            RCMI_COUNTERS_SIZE_0, sizeof(struct rcm_counters)};
    struct rcm_counters counters = RCM_COUNTERS_INIT;
    struct rcmi_counted counted;
    rcm_status status = rcmi_comm_counted(comm, &counted);
    if (status == RCM_OK && !ret_counters)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "ret_counters is NULL");
    if (status == RCM_OK)
        status = rcmi_struct_out_check(&sized, ret_counters);
    if (status != RCM_OK)
        return status;
    if (counted.page)
        counters_read(&counted, &counters);
    rcmi_struct_out(&sized, &counters, ret_counters);
    return RCM_OK;
}
