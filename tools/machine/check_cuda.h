/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of ringcomm-info --check cuda: devices (check_cuda.c), the network devices
 * near them (check_cuda_near.c), their operations (check_cuda_work.c), and memory between processes
 * (check_cuda_ipc.c, check_cuda_pairs.c). */
#ifndef RINGCOMM_TOOLS_CHECK_CUDA_H
#define RINGCOMM_TOOLS_CHECK_CUDA_H

#include "check_frame.h"
#include "device.h"

/* The network devices that share the most bridges with the PCI device `bus` ("0000:3b:00.0"), as
 * "mlx5_0, mlx5_1 (same NUMA node)"; "none". */
void check_cuda_nearest(const char *bus, int numa, char *text, size_t cap);

/* "device 0"; valid until the next call. */
const char *check_cuda_name(const struct rcmi_device_facts *facts);

/* The only device to check (check_device); -1: all devices. */
rcm_status check_cuda_chosen(int *ret_ordinal);

/* Calls test with each device to check. */
void check_cuda_each(struct check_out *out,
                     void (*test)(struct check_out *out, const struct rcmi_device_facts *facts));

void check_cuda_kernels(struct check_out *out);
void check_cuda_order(struct check_out *out);
void check_cuda_copies(struct check_out *out);
void check_cuda_ipc(struct check_out *out);
void check_cuda_pairs(struct check_out *out);

#endif
