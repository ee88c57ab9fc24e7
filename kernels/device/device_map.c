/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps and unmaps memory of a received descriptor at an address of a device (device_import.h). The
 * driver keeps the memory while it is mapped, independent of the descriptor and of the process that
 * allocated it.
 */
#include "device_import.h"
#include "device_internal.h"

static rcm_status map_at(const struct rcmi_device *d, rcmi_cuda_address at, size_t bytes,
                         rcmi_cuda_allocation allocation) {
    const struct rcmi_cuda_access access = {RCMI_CUDA_LOCATION_DEVICE, d->facts.ordinal,
                                            RCMI_CUDA_ACCESS_READ_WRITE};
    rcmi_cuda_code code = d->cuda->cuMemMap(at, bytes, 0, allocation, 0);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuMemMap");
    code = d->cuda->cuMemSetAccess(at, bytes, &access, 1);
    if (code == RCMI_CUDA_SUCCESS)
        return RCM_OK;
    (void)d->cuda->cuMemUnmap(at, bytes);
    return rcmi_cuda_fail(code, "cuMemSetAccess");
}

static rcm_status map_somewhere(const struct rcmi_device *d, size_t bytes,
                                rcmi_cuda_allocation allocation, char **ret_base) {
    rcmi_cuda_address at = 0;
    const rcmi_cuda_code code = d->cuda->cuMemAddressReserve(&at, bytes, 0, 0, 0);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuMemAddressReserve");
    const rcm_status status = map_at(d, at, bytes, allocation);
    if (status != RCM_OK)
        (void)d->cuda->cuMemAddressFree(at, bytes);
    *ret_base = (char *)(uintptr_t)at;
    return status;
}

rcm_status device_map(struct rcmi_device *d, int fd, size_t bytes, char **ret_base) {
    rcmi_cuda_allocation allocation;
    const rcmi_cuda_code code = d->cuda->cuMemImportFromShareableHandle(
        &allocation, (void *)(intptr_t)fd, RCMI_CUDA_HANDLE_DESCRIPTOR);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuMemImportFromShareableHandle");
    const rcm_status status = map_somewhere(d, bytes, allocation, ret_base);
    (void)d->cuda->cuMemRelease(allocation); /* the mapping keeps it */
    return status;
}

bool device_unmap(const struct rcmi_device *d, char *base, size_t bytes) {
    const rcmi_cuda_address at = (rcmi_cuda_address)(uintptr_t)base;
    return d->cuda->cuMemUnmap(at, bytes) == RCMI_CUDA_SUCCESS &&
           d->cuda->cuMemAddressFree(at, bytes) == RCMI_CUDA_SUCCESS;
}
