/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of libnccl.so.2 on the CUDA emulator, each also with a communicator of ringcomm.h over host
 * memory for reference. A job's ranks are processes, or all are ranks of one thread.
 */
#ifndef TEST_NCCL_JOB_H
#define TEST_NCCL_JOB_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include "nccl_abi.h"
#include "ranks.h"
#include "ringcomm.h"

#define RANKS_MAX 5
enum { STREAMS = 3 };

struct rank {
    rcm_comm *host; /* reference */
    ncclComm_t comm;
    int rank, device;
    CUcontext context;
    CUstream streams[STREAMS];
    CUmodule module;
    CUfunction gate, move;
};

struct job {
    int n;      /* ranks */
    int nlocal; /* of this process */
    struct rank ranks[RANKS_MAX];
};

/* Runs fn with a job of n ranks; as many communicators as ranks exist. Returns the errors found. */
int job_run(int n, bool one_thread, int (*fn)(struct job *job));
/* Without communicators of NCCL: fn makes and ends them. */
int job_run_bare(int n, bool one_thread, int (*fn)(struct job *job));
/* Processes of which some may be killed (SIGKILL), which is no error. fn ends with _exit. */
int job_run_survivors(int n, int (*fn)(struct job *job));
/* The same id on all ranks of the job. */
ncclUniqueId job_id(const struct job *job);
/* A new communicator of NCCL for each rank. Returns the errors found. */
int job_make_communicators(struct job *job);
/* All ranks are here. */
void job_barrier(const struct job *job);

/* Calls of the thread are for this rank's device until the next one. */
void rank_enter(const struct rank *rank);
/* Device memory, filled with copies of bytes. The caller frees it: cuMemFree. */
CUdeviceptr device_copy(const void *bytes, size_t len);
/* Waits for the stream; false: it has not ended after ms. */
bool stream_ends(CUstream stream, int ms);

/* Kernels. gate: waits until *flag, in pinned memory, is not 0; then copies len bytes. move: copies
 * len bytes. */
void launch_gate(const struct rank *rank, CUstream stream, const volatile uint32_t *flag,
                 CUdeviceptr to, CUdeviceptr from, uint32_t len);
void launch_move(const struct rank *rank, CUstream stream, CUdeviceptr to, CUdeviceptr from,
                 uint32_t len);
/* Pinned memory of the current context, zeroed. Freed by cuMemFreeHost. */
void *pinned_new(size_t len);

void must_cuda(CUresult code, const char *what);
#define CUDA(call) must_cuda(call, #call)
/* The text of a result, for messages. */
const char *nccl_text(ncclResult_t result);
int64_t now_ms(void);

#define NCCL_OK(errors, call)                                                                      \
    do {                                                                                           \
        const ncclResult_t got_ = (call);                                                          \
        CHECK(errors, got_ == ncclSuccess, "%s: %s", #call, nccl_text(got_));                      \
    } while (0)

#endif
