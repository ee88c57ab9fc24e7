/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory kinds: a function table for each.
 *
 *   kind     its addresses                   copies and reductions
 *   host     those of no other kind          are done when a kernel returns (kernels.h)
 *   device   those for which `has` is true   are asynchronous operations (operation.h)
 *
 * The CPU touches host memory only: device memory is never dereferenced, passed to a system call or
 * posted as a receive. Only a transport of the same kind sends or gets it without a copy.
 *
 * Not here: a piece of memory (mem.h), its registrations (transport/channel/allocation.c).
 */
#ifndef RCMI_MEM_KIND_H
#define RCMI_MEM_KIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mem.h"
#include "ringcomm.h"

struct rcmi_operation;
struct rcmi_device; /* defined by the kind */
struct rcmi_device_job;

#define RCMI_PCI_ADDRESS 16 /* bytes, with the NUL */

struct rcmi_mem_row {
    const char *name; /* "device memory" */
    /* The CPU touches it, so copies and reductions are done when a kernel returns (kernels.h). The
     * functions below, except identify, exist only for other kinds. */
    bool at_once;
    /* Is the address of this kind, and on which device? Called for every buffer of every call. Any
     * thread. Fails with an error text if it cannot be determined. */
    rcm_status (*has)(const void *address, bool *ret_has, int *ret_device);
    /* A number for the allocations that contain the bytes: memory freed and allocated anew at the
     * same address has another number. 0: part of it is not allocated. Any thread. */
    rcm_status (*identify)(const void *memory, size_t bytes, uint64_t *ret_identity);
    /* Opens a rank's device, for its operations and memory: by number or UUID; "auto": by the
     * rank's number on its host. Any thread. Each opened reference must be closed once. Fails with
     * an error text if there is no such device, or if it cannot be used. */
    rcm_status (*open)(const char *name, int local_rank, struct rcmi_device **ret_device);
    void (*close)(struct rcmi_device *device);
    /* The PCI address of the device with that number or UUID, in the format of /sys
     * ("0000:3b:00.0"); "": none. Does not open the device. Any thread. */
    rcm_status (*locate)(const char *name, char ret_address[RCMI_PCI_ADDRESS]);
    /* Takes another reference. */
    void (*hold)(struct rcmi_device *device);
    /* The number as in struct rcmi_mem; and a text, "device 0 (GPU-...)". */
    int (*number)(const struct rcmi_device *device);
    const char *(*label)(const struct rcmi_device *device);
    /* Zeroed memory for users, aligned so that peers can map it. */
    rcm_status (*alloc)(struct rcmi_device *device, size_t bytes, void **ret_memory);
    void (*free)(struct rcmi_device *device, void *memory);
    /* Runs job->run on a thread of the kind, where calls of the driver, including alloc and free,
     * may block (kernels/device/device_share.h). Any thread; does not wait. */
    void (*do_job)(struct rcmi_device *device, struct rcmi_device_job *job);
    /* Begins an operation and does not wait. Sources and results may be of this kind or host
     * memory. rcmi_operation_end follows once, on a thread of the kind. The operation touches no
     * memory before operation->after has ended. If that fails, or the owner gives up, it ends
     * without touching memory; see rcmi_operation_may_run. On an error (thread's error set) it did
     * not begin. Any thread. */
    rcm_status (*begin)(struct rcmi_operation *operation);
    /* Begins an operation that touches nothing and ends when the work now enqueued on the stream is
     * done. NULL: the device's legacy default stream. RCM_ERR_INVALID with an error text: the
     * stream is being captured. Does not wait. Any thread, with any current context. */
    rcm_status (*follow)(struct rcmi_operation *operation, void *stream);
    /* Writes a text for the code that an operation ended with. */
    void (*explain)(int code, char *text, size_t cap);
};

/* Adds a kind of memory, once per kind, before calls with such memory. The table entry lives as
 * long as the process. */
void rcmi_mem_kind_add(enum rcmi_mem_kind kind, const struct rcmi_mem_row *row);
/* NULL for a kind that does not exist. */
const struct rcmi_mem_row *rcmi_mem_kind_row(enum rcmi_mem_kind kind);
/* "host memory" */
const char *rcmi_mem_kind_name(enum rcmi_mem_kind kind);
/* *ret_device: for device memory, else 0. On an error, whose text names the address, the kind is
 * unknown and the address must not be used. */
rcm_status rcmi_mem_kind_of(const void *address, enum rcmi_mem_kind *ret_kind, int *ret_device);

/* Like identify, for any memory. Host memory is 0 if it is not mapped, else 1: memory mapped anew
 * cannot be distinguished. */
rcm_status rcmi_mem_identity(const struct rcmi_mem *mem, uint64_t *ret_identity);

/* The number of memory kinds other than host, plus blocks registered by nodes. 0: an address needs
 * no lookup. Relaxed: memory in use was created before, visibly to the thread that uses it. */
extern _Atomic int rcmi_mem_specials;
static inline bool rcmi_mem_any_special(void) {
    return atomic_load_explicit(&rcmi_mem_specials, memory_order_relaxed) > 0;
}

#endif
