/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices: NVIDIA's GPUs as this process uses them, and their memory as a kind (mem_kind.h).
 *
 *      any thread                         the device's thread
 *        begin(operation) --- queue --->    copies and reductions, some at a time, each on a stream
 *        follow(stream)   --- event --->    looks when the event has come
 *                         <----------- rcmi_operation_end
 *
 * A device is opened once in a process, when it is first needed, and shared. Its thread has set it
 * up (the primary context, which is also that of the CUDA runtime; streams; pinned slots on the
 * GPU's NUMA node) and makes all calls of the driver that may last, so that neither the engine nor
 * a deadline waits for a driver. What the program's own thread does to the driver is done in a
 * visit (cuda.h).
 *
 *   device.c         opening, closing; the row of the table of kinds
 *   device_memory.c  memory of users
 *   device_queue.c   what any thread gives to the device's
 *   device_facts.c   what is known of a device
 *   device_thread.c  setting up, the queue
 *   device_work.c    one operation, in pieces
 *   device_method.c  copies, and reductions there and here
 *   device_kernels.h the kernels in its context
 *   device_follow.c  streams of the program's
 *   device_identity.c  which allocations memory lies in
 *
 * Not here: the driver's functions (cuda.h).
 */
#ifndef RCMI_DEVICE_H
#define RCMI_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include "cuda.h"
#include "mem_kind.h"

struct rcmi_device_facts {
    int ordinal; /* among those that the process sees */
    char name[96];
    char uuid[48]; /* "GPU-..." or "MIG-..." */
    char bus[RCMI_PCI_ADDRESS];
    char label[80]; /* "device 0 (GPU-...)" */
    int capability; /* 90 is 9.0 */
    int multiprocessors;
    int driver;       /* the version of CUDA that it serves, 12040 is 12.4 */
    int compute_mode; /* CUDA's number */
    bool mps, mig;
    int numa; /* node of the host; -1: not known */
    size_t bytes;
};

/* From now on device memory is a kind of memory, if there is a driver in the process already. Loads
 * and initialises nothing; cheap once it is so. False: there is none. */
bool rcmi_device_notice(void);
/* The same if the driver has to be loaded; an error says why it cannot be used. */
rcm_status rcmi_device_kind_add(void);

/* How many there are, and what each is; the driver is loaded and initialised, and no context is
 * made. */
rcm_status rcmi_device_count(int *ret_n);
rcm_status rcmi_device_ask(int ordinal, struct rcmi_device_facts *ret_facts);
/* Which one a name means: a number, a UUID, or "auto" (also NULL and ""): the local rank modulo how
 * many there are. "none" is RCM_ERR_UNSUPPORTED, with a sentence. */
rcm_status rcmi_device_find(const char *name, int local_rank, int *ret_ordinal);
const struct rcmi_device_facts *rcmi_device_facts(const struct rcmi_device *device);

/* As in struct rcmi_mem_row. */
rcm_status rcmi_device_open(const char *name, int local_rank, struct rcmi_device **ret_device);
rcm_status rcmi_device_locate(const char *name, char ret_address[RCMI_PCI_ADDRESS]);
void rcmi_device_close(struct rcmi_device *device);
void rcmi_device_hold(struct rcmi_device *device);

#endif
