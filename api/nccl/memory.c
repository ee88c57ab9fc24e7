/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the device, and registered buffers. */
#include "nccl_comm.h"
#include "nccl_driver.h"

/* Other processes open whole blocks of this size. */
#define BLOCK_BYTES ((size_t)2 << 20)

NCCL_API(ncclResult_t, ncclMemAlloc)(void **memory, size_t bytes) {
    int device = 0, visit;
    if (!memory || bytes == 0 || bytes > SIZE_MAX - BLOCK_BYTES)
        return face_fail(ncclInvalidArgument, "ncclMemAlloc: ptr is %p and size %zu",
                         (void *)memory, bytes);
    *memory = NULL;
    ncclResult_t result = driver_device(&device);
    if (result == ncclSuccess)
        result = driver_enter(device, &visit);
    if (result != ncclSuccess)
        return result;
    result = DRIVER(cuMemAlloc, memory, (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES);
    driver_leave(visit);
    return result;
}

NCCL_API(ncclResult_t, ncclMemFree)(void *memory) {
    int device = 0, visit;
    if (!memory)
        return ncclSuccess;
    ncclResult_t result = driver_load();
    if (result == ncclSuccess)
        result = DRIVER(cuPointerGetAttribute, &device, DRIVER_POINTER_ORDINAL, memory);
    if (result == ncclSuccess)
        result = driver_enter(device, &visit);
    if (result != ncclSuccess)
        return result;
    result = DRIVER(cuMemFree, memory);
    driver_leave(visit);
    return result;
}

/* ---- Registered buffers ---------------------------------------------------------------------- */

void registrations_end(struct ncclComm *comm, rcm_comm *rcm) {
    comm_lock();
    struct object *registrations = comm->registrations;
    comm->registrations = NULL;
    comm_unlock();
    for (const struct object *o = registrations; o; o = o->next)
        (void)!rcm_mem_deregister(rcm, o->memory, o->bytes);
    objects_free(&registrations);
}

NCCL_API(ncclResult_t, ncclCommRegister)
(const ncclComm_t comm, void *buffer, size_t bytes, void **handle) {
    const struct object registration = {.memory = buffer, .bytes = bytes};
    int number = 0;
    if (!handle)
        return face_fail(ncclInvalidArgument, "ncclCommRegister: handle is NULL");
    ncclResult_t result = comm_enter(comm, COMM_ANY, __func__);
    if (result != ncclSuccess)
        return result;
    result = face_result(rcm_mem_register(comm->rcm, buffer, bytes), __func__);
    const bool registered = result == ncclSuccess;
    comm_lock();
    if (registered)
        result = object_add(&comm->registrations, registration, &number, __func__);
    comm_unlock();
    if (registered && result != ncclSuccess)
        (void)!rcm_mem_deregister(comm->rcm, buffer, bytes);
    *handle = (void *)(intptr_t)number;
    comm_exit(comm);
    return result;
}

/* handle NULL is a no-op. */
NCCL_API(ncclResult_t, ncclCommDeregister)(const ncclComm_t comm, void *handle) {
    ncclResult_t result = comm_enter(comm, COMM_ANY, __func__);
    if (result != ncclSuccess)
        return result;
    comm_lock();
    const struct object *at = *object_find(&comm->registrations, (intptr_t)handle);
    const struct object o = at ? *at : (struct object){0};
    const bool found = object_remove(&comm->registrations, (intptr_t)handle);
    comm_unlock();
    if (found)
        result = face_result(rcm_mem_deregister(comm->rcm, o.memory, o.bytes), __func__);
    else if (handle)
        result = face_fail(ncclInvalidArgument,
                           "ncclCommDeregister: %p is no handle of this communicator", handle);
    comm_exit(comm);
    return result;
}
