/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device buffers between other work on a stream: before a call its buffers are
 * written by a copy that comes late, and after it a copy takes what it left. The results have the
 * bits of the same call on host buffers.
 */
#ifndef TEST_CUDA_STREAM_BENCH_H
#define TEST_CUDA_STREAM_BENCH_H

#include <stdint.h>
#include <stdlib.h>
#include "cuda.h"
#include "ranks.h"

enum { BENCH_RANKS_MAX = 8 };

/* The emulator's, beside what the library uses. */
typedef int (*bench_launch_host)(struct rcmi_cuda_stream *stream, void (*fn)(void *arg), void *arg);

/* One operation on one set of buffers. */
struct bench {
    rcm_comm *comm;
    const struct rcmi_cuda *cuda;
    struct rcmi_cuda_context *context;
    int device;
    struct rcmi_cuda_stream *stream, *side;
    bench_launch_host host_function;
    rcm_dtype dtype;
    size_t count, bytes; /* of a buffer of blocks of all ranks */
    char *fresh, *host_in, *host_out, *taken;
    char *in, *out; /* on the device */
};

/* The rank's device, streams and buffers of `block` bytes for each rank; errors. */
int bench_begin(struct bench *b, rcm_comm *comm, size_t block);
int bench_end(const struct bench *b);
/* One of bench_operations, of b->count elements of b->dtype, on b->in and b->out; errors. salt: of
 * its values, and of the stream: these are the special ones by their handles. */
enum { BENCH_LEGACY = 2, BENCH_PER_THREAD = 4 };
int bench_one(const struct bench *b, size_t operation, unsigned salt);
/* Parts of it: what the buffers hold before, the copies that write them and take the result. */
void bench_fill(const struct bench *b, unsigned salt);
int bench_before(const struct bench *b);
int bench_after(const struct bench *b, const char *from);
int bench_compare(const struct bench *b, const char *name, const char *which, const char *want);
/* An error if the driver's code is one. */
int bench_driver(int code, const char *what);

/* bench_operations.c */
struct bench_operation {
    const char *name;
    rcm_status (*call)(const struct bench *b, void *in, void *out, const struct rcm_call *call);
    bool reduces;
};
extern const struct bench_operation bench_operations[];
extern const size_t bench_operations_count;

#endif
