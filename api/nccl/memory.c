/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the device, and registered buffers. */
#include <stdlib.h>
#include "nccl_comm.h"
#include "nccl_driver.h"

/* Other processes open whole blocks of this size. */
#define BLOCK_BYTES ((size_t)2 << 20)

ncclResult_t ncclMemAlloc(void **memory, size_t bytes) {
    struct driver_visit visit;
    uint64_t address = 0;
    int device = 0;
    if (!memory || bytes == 0 || bytes > SIZE_MAX - BLOCK_BYTES)
        return face_fail(ncclInvalidArgument, "ncclMemAlloc: ptr is %p and size %zu",
                         (void *)memory, bytes);
    ncclResult_t result = driver_device(&device);
    if (result == ncclSuccess)
        result = driver_enter(device, &visit);
    if (result != ncclSuccess)
        return result;
    result = driver_result(
        visit.driver, "cuMemAlloc",
        visit.driver->cuMemAlloc(&address, (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES));
    driver_leave(&visit);
    *memory = (void *)(uintptr_t)address;
    return result;
}
NCCL_ALSO_P(ncclMemAlloc);

ncclResult_t ncclMemFree(void *memory) {
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    const struct driver *d;
    struct driver_visit visit;
    int device = 0;
    if (!memory)
        return ncclSuccess;
    ncclResult_t result = driver_get(&d);
    if (result == ncclSuccess)
        result = driver_result(d, "cuPointerGetAttribute",
                               d->cuPointerGetAttribute(&device, DRIVER_POINTER_ORDINAL, address));
    if (result == ncclSuccess)
        result = driver_enter(device, &visit);
    if (result != ncclSuccess)
        return result;
    result = driver_result(d, "cuMemFree", d->cuMemFree(address));
    driver_leave(&visit);
    return result;
}
NCCL_ALSO_P(ncclMemFree);

/* ---- Registered buffers ---------------------------------------------------------------------- */

struct registration {
    void *memory;
    size_t bytes;
};

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t bytes, void **handle) {
    if (!handle)
        return face_fail(ncclInvalidArgument, "ncclCommRegister: handle is NULL");
    ncclResult_t result = comm_enter(comm, 0, __func__);
    if (result != ncclSuccess)
        return result;
    struct registration *registration = malloc(sizeof *registration);
    if (!registration)
        result = face_fail(ncclSystemError, "ncclCommRegister: no memory");
    else
        result = face_result(rcm_mem_register(comm->rcm, buffer, bytes), __func__);
    comm_exit(comm);
    if (result == ncclSuccess) {
        *registration = (struct registration){buffer, bytes};
        *handle = registration;
    } else {
        free(registration);
    }
    return result;
}
NCCL_ALSO_P(ncclCommRegister);

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle) {
    struct registration *registration = handle;
    ncclResult_t result = comm_enter(comm, 0, __func__);
    if (result != ncclSuccess || !registration) {
        if (result == ncclSuccess)
            comm_exit(comm);
        return result;
    }
    result = face_result(rcm_mem_deregister(comm->rcm, registration->memory, registration->bytes),
                         __func__);
    comm_exit(comm);
    if (result == ncclSuccess)
        free(registration);
    return result;
}
NCCL_ALSO_P(ncclCommDeregister);
