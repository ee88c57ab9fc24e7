/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of the device, which peers read where it lies. Before it may be freed all peers
 * have closed it.
 */
#include <stdlib.h>
#include "cuda_ipc.h"
#include "log.h"

static struct ipc_channel *ipc_of(struct rcmi_channel *channel) {
    return (struct ipc_channel *)channel;
}

/* Memory that cannot be exported is copied to slots instead: once is enough to hear of it. */
static rcm_status do_without(const struct rcmi_mem *mem) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&told))
        rcmi_log(RCMI_LOG_WARN,
                 "registered device memory is copied before ranks of this host read it: %s (%zu "
                 "bytes; said once)",
                 rcm_last_error(), mem->len);
    return RCM_OK;
}

rcm_status ipc_memory_register(void *arg, const struct rcmi_mem *mem, void **ret_own) {
    struct ipc_domain *domain = arg;
    struct rcmi_device *device = rcmi_node_device(domain->node);
    if (!device || mem->kind != RCMI_MEM_DEVICE ||
        rcmi_device_facts(device)->ordinal != mem->device)
        return RCM_OK;
    struct ipc_registered *registered = rcmi_zalloc(sizeof *registered);
    if (!registered)
        return RCM_ERR_NOMEM;
    registered->domain = domain;
    if (rcmi_export_make(device, mem->bytes, mem->len, &registered->export) != RCM_OK) {
        free(registered);
        return do_without(mem);
    }
    registered->at = (size_t)((uintptr_t)mem->bytes - (uintptr_t)registered->export.handle.base);
    *ret_own = registered;
    return RCM_OK;
}

bool ipc_memory_unregister(void *arg, void *own, rcmi_deadline deadline) {
    struct ipc_domain *domain = arg;
    struct ipc_registered *registered = own;
    if (!registered)
        return true;
    const bool back = ipc_take_back(domain, registered->export.handle.buffer, deadline);
    if (!back)
        rcmi_log(RCMI_LOG_INFO,
                 "a rank that has ended, or does not answer, may have device memory at %#llx open",
                 (unsigned long long)registered->export.handle.base);
    free(registered);
    return back;
}

rcm_status ipc_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                              uint64_t meta, bool may_get) {
    struct ipc_channel *ipc = ipc_of(channel);
    size_t at = 0;
    const struct ipc_registered *registered = rcmi_registration_of(mem, channel->transport, &at);
    if (!registered || mem->len > (may_get ? RCMI_GET_MAX : channel->slot_bytes))
        return RCM_ERR_UNSUPPORTED; /* no sentence: the caller copies instead */
    const rcm_status status = ipc_room(ipc);
    if (status == RCM_OK)
        ipc_publish(ipc, &registered->export.handle, registered->at + at, mem->len, meta);
    return status;
}

bool ipc_completed(struct rcmi_channel *channel, uint64_t number) {
    struct ipc_channel *ipc = ipc_of(channel);
    if (number > ipc->completed && rcmi_fifo_taken(&ipc->fifo.writer, number))
        ipc->completed = number;
    return number <= ipc->completed;
}
