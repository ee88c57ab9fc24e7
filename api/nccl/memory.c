/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the device, and registered buffers. */
#include <stdlib.h>
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

struct registration {
    struct registration *next; /* in the communicator's list */
    void *memory;
    size_t bytes;
};

static void registration_add(struct ncclComm *comm, struct registration *registration) {
    comm_lock();
    registration->next = comm->registrations;
    comm->registrations = registration;
    comm_unlock();
}

/* Removes it from the list; false: the handle is of none. */
static bool registration_take(struct ncclComm *comm, const struct registration *registration) {
    comm_lock();
    struct registration **at = &comm->registrations;
    while (*at && *at != registration)
        at = &(*at)->next;
    const bool found = *at != NULL;
    if (found)
        *at = registration->next;
    comm_unlock();
    return found;
}

void registrations_forget(struct ncclComm *comm) {
    struct registration *registration;
    while ((registration = comm->registrations) != NULL) {
        comm->registrations = registration->next;
        free(registration);
    }
}

void registrations_end(struct ncclComm *comm, rcm_comm *rcm) {
    comm_lock();
    struct registration *registration = comm->registrations;
    comm->registrations = NULL;
    comm_unlock();
    while (registration) {
        struct registration *next = registration->next;
        (void)!rcm_mem_deregister(rcm, registration->memory, registration->bytes);
        free(registration);
        registration = next;
    }
}

/* comm is in use. */
static ncclResult_t buffer_register(struct ncclComm *comm, void *buffer, size_t bytes,
                                    void **handle) {
    struct registration *registration = malloc(sizeof *registration);
    if (!registration)
        return face_fail(ncclSystemError, "ncclCommRegister: no memory");
    const ncclResult_t result =
        face_result(rcm_mem_register(comm->rcm, buffer, bytes), "ncclCommRegister");
    if (result != ncclSuccess) {
        free(registration);
        return result;
    }
    *registration = (struct registration){.memory = buffer, .bytes = bytes};
    registration_add(comm, registration);
    *handle = registration;
    return ncclSuccess;
}

static ncclResult_t buffer_deregister(struct ncclComm *comm, struct registration *registration) {
    if (!registration_take(comm, registration))
        return face_fail(ncclInvalidArgument,
                         "ncclCommDeregister: %p is no handle of this communicator",
                         (void *)registration);
    const ncclResult_t result =
        face_result(rcm_mem_deregister(comm->rcm, registration->memory, registration->bytes),
                    "ncclCommDeregister");
    if (result == ncclSuccess)
        free(registration);
    else
        registration_add(comm, registration);
    return result;
}

NCCL_API(ncclResult_t, ncclCommRegister)
(const ncclComm_t comm, void *buffer, size_t bytes, void **handle) {
    if (!handle)
        return face_fail(ncclInvalidArgument, "ncclCommRegister: handle is NULL");
    ncclResult_t result = comm_enter(comm, 0, __func__);
    if (result != ncclSuccess)
        return result;
    result = buffer_register(comm, buffer, bytes, handle);
    comm_exit(comm);
    return result;
}

/* handle NULL is a no-op. */
NCCL_API(ncclResult_t, ncclCommDeregister)(const ncclComm_t comm, void *handle) {
    ncclResult_t result = comm_enter(comm, 0, __func__);
    if (result != ncclSuccess)
        return result;
    if (handle)
        result = buffer_deregister(comm, handle);
    comm_exit(comm);
    return result;
}
