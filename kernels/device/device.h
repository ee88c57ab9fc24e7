/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices: NVIDIA GPUs as used by this process, and their memory as a memory kind (mem_kind.h).
 *
 *      any thread                         the device's thread
 *        begin(operation) --- queue --->    copies and reductions, concurrent, each on a stream
 *        follow(stream)   --- event --->    polls the event
 *                         <----------- rcmi_operation_end
 *
 * A device is opened once per process, on first use, and shared. Its thread sets it up (the primary
 * context, which the CUDA runtime also uses; streams; pinned slots on the GPU's NUMA node). That
 * thread makes all driver calls that may block, so neither the engine nor a deadline waits for a
 * driver. Calls from the program's own threads use a visit (cuda.h).
 *
 *   device.c         opening, closing; the function table of the memory kind
 *   device_memory.c  memory of users
 *   device_queue.c   submission from any thread to the device's thread
 *   device_facts.c   properties of a device
 *   device_thread.c  setting up, the queue
 *   device_work.c    one operation, in pieces
 *   device_method.c  copies, reductions on the device and on the host
 *   device_kernels.h the kernels in its context
 *   device_follow.c  waiting for the program's streams
 *   device_identity.c  which allocations contain memory
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
    int ordinal; /* among the devices visible to the process */
    char name[96];
    char uuid[48]; /* "GPU-..." or "MIG-..." */
    char bus[RCMI_PCI_ADDRESS];
    char label[80]; /* "device 0 (GPU-...)" */
    int capability; /* 90 is 9.0 */
    int multiprocessors;
    int driver;       /* supported CUDA version; 12040 is 12.4 */
    int compute_mode; /* CUDA's number */
    bool mps, mig;
    int numa; /* NUMA node; -1: unknown */
    size_t bytes;
};

/* Adds device memory as a memory kind if the process has loaded a driver. Loads and initialises
 * nothing; cheap after the first success. False: there is no driver. */
bool rcmi_device_notice(void);
/* The same, but loads the driver; the error text explains why it cannot be used. */
rcm_status rcmi_device_kind_add(void);

/* The number of devices, and the properties of one. Loads and initialises the driver; makes no
 * context. */
rcm_status rcmi_device_count(int *ret_n);
rcm_status rcmi_device_query(int ordinal, struct rcmi_device_facts *ret_facts);
/* Resolves a name: a number, a UUID, or "auto" (also NULL and ""): the local rank modulo the number
 * of devices. "none" is RCM_ERR_UNSUPPORTED with an error text. */
rcm_status rcmi_device_find(const char *name, int local_rank, int *ret_ordinal);
const struct rcmi_device_facts *rcmi_device_facts(const struct rcmi_device *device);

/* As in struct rcmi_mem_row. */
rcm_status rcmi_device_open(const char *name, int local_rank, struct rcmi_device **ret_device);
rcm_status rcmi_device_locate(const char *name, char ret_address[RCMI_PCI_ADDRESS]);
void rcmi_device_close(struct rcmi_device *device);
void rcmi_device_hold(struct rcmi_device *device);

#endif
