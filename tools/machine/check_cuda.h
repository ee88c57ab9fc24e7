/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of ringcomm-info --check cuda: what is there (check_cuda.c), what is near it
 * (check_cuda_near.c), what it does (check_cuda_work.c), and what goes between processes
 * (check_cuda_ipc.c, check_cuda_pairs.c). */
#ifndef RINGCOMM_TOOLS_CHECK_CUDA_H
#define RINGCOMM_TOOLS_CHECK_CUDA_H

#include "check_frame.h"
#include "device.h"

/* The network devices that share the most bridges with the PCI device `bus` ("0000:3b:00.0"), as
 * "mlx5_0, mlx5_1 (same NUMA node)"; "none". */
void check_cuda_nearest(const char *bus, int numa, char *text, size_t cap);

/* "device 0"; of the last call. */
const char *check_cuda_name(const struct rcmi_device_facts *facts);

/* The only device that is to be looked at (check_device); -1: all are. */
rcm_status check_cuda_chosen(int *ret_ordinal);

/* Calls test with each device that is to be looked at. */
void check_cuda_each(struct check_out *out,
                     void (*test)(struct check_out *out, const struct rcmi_device_facts *facts));

void check_cuda_kernels(struct check_out *out);
void check_cuda_order(struct check_out *out);
void check_cuda_copies(struct check_out *out);
void check_cuda_ipc(struct check_out *out);
void check_cuda_pairs(struct check_out *out);

#endif
