/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of users on a device: see device.h. */
#include "device_internal.h"
#include "error.h"
#include "log.h"

static rcm_status memory_get(struct rcmi_device *d, size_t bytes, rcmi_cuda_address *ret) {
    const size_t whole = (bytes + DEVICE_ROUND - 1) / DEVICE_ROUND * DEVICE_ROUND;
    rcmi_cuda_code code = d->cuda->cuMemAlloc(ret, whole ? whole : DEVICE_ROUND);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuMemAlloc");
    code = d->cuda->cuMemsetD8Async(*ret, 0, whole, d->side);
    if (code == RCMI_CUDA_SUCCESS)
        code = d->cuda->cuStreamSynchronize(d->side);
    if (code == RCMI_CUDA_SUCCESS)
        return RCM_OK;
    (void)d->cuda->cuMemFree(*ret);
    return rcmi_cuda_fail(code, "cuMemsetD8Async");
}

rcm_status device_memory_alloc(struct rcmi_device *d, size_t bytes, void **ret_memory) {
    struct rcmi_cuda_visit visit;
    rcmi_cuda_address memory;
    if (bytes > SIZE_MAX / 2)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "%zu bytes exceed the memory of %s", bytes,
                         d->facts.label);
    const rcmi_cuda_code code = rcmi_cuda_enter(d->cuda, d->context, &visit);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuCtxPushCurrent");
    const rcm_status status = memory_get(d, bytes, &memory);
    rcmi_cuda_leave(&visit);
    if (status != RCM_OK)
        return rcmi_fail_context("%zu bytes of %s", bytes, d->facts.label);
    *ret_memory = (void *)(uintptr_t)memory;
    return RCM_OK;
}

void device_memory_free(struct rcmi_device *d, void *memory) {
    struct rcmi_cuda_visit visit;
    if (!memory || rcmi_cuda_forked() ||
        rcmi_cuda_enter(d->cuda, d->context, &visit) != RCMI_CUDA_SUCCESS)
        return;
    const rcmi_cuda_code code = d->cuda->cuMemFree((rcmi_cuda_address)(uintptr_t)memory);
    rcmi_cuda_leave(&visit);
    if (code != RCMI_CUDA_SUCCESS)
        rcmi_log(RCMI_LOG_INFO, "cuMemFree of %p returned %d", memory, code);
}
