/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device buffers between other work on a stream. Before a call, a delayed copy writes
 * its buffers. After it, a copy reads the result. Results have the bits of the same call on host
 * buffers.
 */
#ifndef TEST_CUDA_STREAM_BENCH_H
#define TEST_CUDA_STREAM_BENCH_H

#include <stdint.h>
#include <stdlib.h>
#include "cuda.h"
#include "ranks.h"

enum { BENCH_RANKS_MAX = 8 };

/* cuLaunchHostFunc, which the library does not use. */
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
    size_t count, bytes; /* of a buffer with blocks of all ranks */
    char *fresh, *host_in, *host_out, *taken;
    char *in, *out; /* on the device */
};

/* Creates the rank's streams and its buffers of `block` bytes per rank. Returns the number of
 * errors. */
int bench_begin(struct bench *b, rcm_comm *comm, size_t block);
int bench_end(const struct bench *b);
/* Runs bench_operations[operation] with b->count elements of b->dtype on b->in and b->out. Returns
 * the number of errors. salt selects the values and the stream; these salts select the special
 * stream handles. */
enum { BENCH_LEGACY = 2, BENCH_PER_THREAD = 4 };
int bench_one(const struct bench *b, size_t operation, unsigned salt);
/* The steps of bench_one: fill buffers, enqueue the copies before, the copy after, compare. */
void bench_fill(const struct bench *b, unsigned salt);
int bench_before(const struct bench *b);
int bench_after(const struct bench *b, const char *from);
int bench_compare(const struct bench *b, const char *name, const char *which, const char *want);
/* Returns 1 and prints the code if it is an error. */
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
