/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pinned copy of a scalar (PreMulSum) when an operation without elements has ended before its
 * stream gets there: the next operation's scalar is not overwritten.
 *
 *     scaled-sums
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "job.h"

enum { FLOATS = 4, LIMIT_MS = 10000 };

static void *at(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

/* Stream 0 waits for flags[0], stream 1 for flags[16]. The first sum is that of no elements. */
static int sums_enqueue(const struct rank *rank, volatile uint32_t *flags, CUdeviceptr two,
                        CUdeviceptr numbers, CUdeviceptr spare) {
    float three = 3;
    ncclRedOp_t op_two, op_three;
    int errors = 0;
    NCCL_OK(errors,
            ncclRedOpCreatePreMulSum(&op_two, at(two), ncclFloat32, ncclScalarDevice, rank->comm));
    NCCL_OK(errors, ncclRedOpCreatePreMulSum(&op_three, &three, ncclFloat32,
                                             ncclScalarHostImmediate, rank->comm));
    for (int i = 0; i < 2; i++)
        launch_gate(rank, rank->streams[i], &flags[16 * i], spare, spare, 4);
    NCCL_OK(errors, ncclAllReduce(at(numbers), at(numbers), 0, ncclFloat32, op_two, rank->comm,
                                  rank->streams[0]));
    usleep(50000); /* the operation may end */
    NCCL_OK(errors, ncclAllReduce(at(numbers), at(numbers), FLOATS, ncclFloat32, op_three,
                                  rank->comm, rank->streams[1]));
    NCCL_OK(errors, ncclRedOpDestroy(op_two, rank->comm));
    NCCL_OK(errors, ncclRedOpDestroy(op_three, rank->comm));
    return errors;
}

static int scaled(struct job *job) {
    const struct rank *rank = &job->ranks[0];
    const float two = 2, ones[FLOATS] = {1, 1, 1, 1};
    float got[FLOATS];
    int errors = 0;
    rank_enter(rank);
    const CUdeviceptr scalar = device_copy(&two, sizeof two);
    const CUdeviceptr numbers = device_copy(ones, sizeof ones);
    const CUdeviceptr spare = device_copy(ones, sizeof ones);
    volatile uint32_t *flags = pinned_new(128);
    errors += sums_enqueue(rank, flags, scalar, numbers, spare);
    for (int i = 0; i < 2; i++) {
        flags[16 * i] = 1;
        CHECK(errors, stream_ends(rank->streams[i], LIMIT_MS), "stream %d hangs: %s", i,
              ncclGetLastError(rank->comm));
    }
    CUDA(cuMemcpyDtoH(got, numbers, sizeof got));
    CHECK(errors, got[0] == 3 && got[FLOATS - 1] == 3, "3 times 1 is %g", (double)got[0]);
    CUDA(cuMemFree(scalar));
    CUDA(cuMemFree(numbers));
    CUDA(cuMemFree(spare));
    CUDA(cuMemFreeHost((void *)(uintptr_t)flags));
    return errors;
}

int main(void) {
    return job_run(1, true, scaled) > 0;
}
