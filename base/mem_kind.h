/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kinds of memory: a row of a table for each.
 *
 *   kind     which addresses are of it     copies and reductions
 *   host     those of no other kind        are done when a kernel returns (kernels.h)
 *   device   those that its row has        begin, and finish later (operation.h)
 *
 * The CPU touches host memory only: device memory is never dereferenced, given to a system call or
 * posted as a receive. Only a transport of its own kind sends or gets it without a copy.
 *
 * Not here: a piece of memory (mem.h), and what transports know of it
 * (transport/channel/allocation.c).
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
struct rcmi_device; /* the row's */
struct rcmi_device_job;

#define RCMI_PCI_ADDRESS 16 /* bytes of one, with its end */

struct rcmi_mem_row {
    const char *name; /* "device memory" */
    /* The CPU touches it, so copies and reductions are done when a kernel returns (kernels.h). What
     * stands below, but for identify, is of kinds that it does not touch. */
    bool at_once;
    /* Is it an address of this kind, and of which device? For every buffer of every call. Any
     * thread. An error, in words for the user: it cannot be told. */
    rcm_status (*has)(const void *address, bool *ret_has, int *ret_device);
    /* A number of the allocations that the bytes lie in: memory that was freed and allocated anew
     * at the same address has another one. 0: part of it is not allocated. Any thread. */
    rcm_status (*identify)(const void *memory, size_t bytes, uint64_t *ret_identity);
    /* The device of a rank, which its operations and its memory are of: the one of that number or
     * UUID; "auto": the one that the rank's number on its host leads to. Any thread; what is given
     * out is given back once. An error, in words for the user: there is none, or it cannot be used.
     */
    rcm_status (*open)(const char *name, int local_rank, struct rcmi_device **ret_device);
    void (*close)(struct rcmi_device *device);
    /* The PCI address of the device of that number or UUID, as /sys has it ("0000:3b:00.0"); "": it
     * has none. It is not opened. Any thread. */
    rcm_status (*locate)(const char *name, char ret_address[RCMI_PCI_ADDRESS]);
    /* It is given out once more. */
    void (*hold)(struct rcmi_device *device);
    /* As in struct rcmi_mem; and for people, "device 0 (GPU-...)". */
    int (*number)(const struct rcmi_device *device);
    const char *(*label)(const struct rcmi_device *device);
    /* Memory for users, zeroed. It has the alignment that peers need to map it. */
    rcm_status (*alloc)(struct rcmi_device *device, size_t bytes, void **ret_memory);
    void (*free)(struct rcmi_device *device, void *memory);
    /* Has job->run called on a thread of the kind's own, where calls of the driver, alloc and free
     * included, may last (kernels/device/device_share.h). Any thread; does not wait. */
    void (*do_job)(struct rcmi_device *device, struct rcmi_device_job *job);
    /* Begins an operation, whose sources and results may be of this kind or any host memory, and
     * does not wait; rcmi_operation_end follows, once, on a thread of the kind's own. It touches no
     * memory before operation->after has ended, and ends without having touched any if that fails
     * or the owner gives up, see rcmi_operation_may_run. An error, with the thread's error set: it
     * did not begin. Any thread. */
    rcm_status (*begin)(struct rcmi_operation *operation);
    /* Begins an operation that touches nothing: it ends when what is enqueued on the stream now is
     * done. NULL: the device's legacy default stream. RCM_ERR_INVALID, with a sentence: the stream
     * is being captured. Does not wait. Any thread, with whatever context is current there. */
    rcm_status (*follow)(struct rcmi_operation *operation, void *stream);
    /* Words for the code that an operation ended with. */
    void (*explain)(int code, char *text, size_t cap);
};

/* From now on there is memory of this kind. The row lives as long as the process; one for a kind.
 * Before calls with such memory. */
void rcmi_mem_kind_add(enum rcmi_mem_kind kind, const struct rcmi_mem_row *row);
/* NULL for a kind that there is none of. */
const struct rcmi_mem_row *rcmi_mem_kind_row(enum rcmi_mem_kind kind);
/* "host memory" */
const char *rcmi_mem_kind_name(enum rcmi_mem_kind kind);
/* *ret_device: of device memory, else 0. An error, with a sentence that names the address: it
 * cannot be told, and the address must not be used. */
rcm_status rcmi_mem_kind_of(const void *address, enum rcmi_mem_kind *ret_kind, int *ret_device);

/* As identify, for any memory. Of host memory only what is not mapped is 0: what was mapped anew is
 * not told apart. */
rcm_status rcmi_mem_identity(const struct rcmi_mem *mem, uint64_t *ret_identity);

/* Of how much memory more is known than its address: kinds beside host memory, and blocks that
 * nodes have registered. Relaxed: memory that is used was made before, in the sight of the thread
 * that uses it. */
extern _Atomic int rcmi_mem_specials;
static inline bool rcmi_mem_any_special(void) {
    return atomic_load_explicit(&rcmi_mem_specials, memory_order_relaxed) > 0;
}

#endif
