/* SPDX-License-Identifier: BSD-3-Clause */
/* See stream_bench.h. */
#include "stream_bench.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Turns bytes into values of the type. Floats become finite, and their sums are rounded. */
static void make_valid(const struct bench *b) {
    const bool f4 = b->dtype == RCM_FLOAT32 || b->dtype == RCM_COMPLEX64;
    const bool f8 = b->dtype == RCM_FLOAT64 || b->dtype == RCM_COMPLEX128;
    const bool f2 = b->dtype == RCM_BFLOAT16 || b->dtype == RCM_FLOAT16;
    const int mask = b->dtype == RCM_BOOL                                           ? 1
                     : b->dtype == RCM_FLOAT8_E4M3FN || b->dtype == RCM_FLOAT8_E5M2 ? 0x3f
                                                                                    : 0xff;
    for (size_t i = 0; f4 && i < b->bytes / 4; i++)
        ((float *)(void *)b->fresh)[i] = (float)(int8_t)b->fresh[4 * i] / 7.0f;
    for (size_t i = 0; f8 && i < b->bytes / 8; i++)
        ((double *)(void *)b->fresh)[i] = (double)(int8_t)b->fresh[8 * i] / 7.0;
    for (size_t i = 0; f2 && i < b->bytes / 2; i++)
        ((uint16_t *)(void *)b->fresh)[i] = (uint16_t)(0x3f00 + (b->fresh[2 * i] & 0xff));
    for (size_t i = 0; mask != 0xff && i < b->bytes; i++)
        b->fresh[i] = (char)(b->fresh[i] & mask);
}

void bench_fill(const struct bench *b, unsigned salt) {
    uint32_t state = salt * 2654435761u + (uint32_t)rcm_rank(b->comm) * 40503u + 1;
    for (size_t i = 0; i < b->bytes; i++) {
        state = state * 1664525u + 1013904223u;
        b->fresh[i] = (char)(state >> 24);
    }
    make_valid(b);
    memcpy(b->host_in, b->fresh, b->bytes);
    memset(b->host_out, 0x55, b->bytes);
}

static void late(void *arg) {
    usleep(*(const useconds_t *)arg);
}

int bench_driver(int code, const char *what) {
    if (code != 0)
        fprintf(stderr, "%s: %d\n", what, code);
    return code != 0;
}

/* The buffers hold other data until the enqueued copies have run. */
int bench_before(const struct bench *b) {
    static useconds_t wait = 300;
    const rcmi_cuda_address in = (rcmi_cuda_address)(uintptr_t)b->in;
    const rcmi_cuda_address out = (rcmi_cuda_address)(uintptr_t)b->out;
    int errors =
        bench_driver(b->cuda->cuMemsetD8Async(in, 0x33, b->bytes, b->stream), "cuMemsetD8Async");
    errors += bench_driver(b->host_function(b->stream, late, &wait), "cuLaunchHostFunc");
    errors += bench_driver(b->cuda->cuMemcpyHtoDAsync(in, b->fresh, b->bytes, b->stream), "copy");
    return errors + bench_driver(b->cuda->cuMemsetD8Async(out, 0x55, b->bytes, b->stream), "set");
}

/* Another stream copies the result, so it must be complete. */
int bench_after(const struct bench *b, const char *from) {
    int errors = bench_driver(
        b->cuda->cuMemcpyDtoHAsync(b->taken, (rcmi_cuda_address)(uintptr_t)from, b->bytes, b->side),
        "cuMemcpyDtoHAsync");
    return errors + bench_driver(b->cuda->cuStreamSynchronize(b->side), "cuStreamSynchronize");
}

int bench_compare(const struct bench *b, const char *name, const char *which, const char *want) {
    int errors = 0;
    for (size_t i = 0; i < b->bytes && errors == 0; i++)
        CHECK(errors, b->taken[i] == want[i],
              "%s of %zu %s, rank %d: byte %zu of %s is 0x%02x, of host buffers 0x%02x", name,
              b->count, rcm_dtype_name(b->dtype), rcm_rank(b->comm), i, which,
              (unsigned char)b->taken[i], (unsigned char)want[i]);
    return errors;
}

int bench_one(const struct bench *b, size_t k, unsigned salt) {
    /* The bench's stream twice, and the special handles: NULL, the legacy and the per-thread
     * default stream. */
    void *const streams[] = {NULL, b->stream, (void *)1, b->stream, (void *)2};
    const struct rcm_call call = {.size = sizeof call, .stream = streams[salt % 5]};
    int errors = 0;
    bench_fill(b, salt);
    struct bench on = *b;
    on.stream = call.stream;
    errors += bench_before(&on);
    CHECK(errors, bench_operations[k].call(b, b->in, b->out, &call) == RCM_OK, "%s: %s",
          bench_operations[k].name, rcm_last_error());
    CHECK(errors, bench_operations[k].call(b, b->host_in, b->host_out, NULL) == RCM_OK, "%s: %s",
          bench_operations[k].name, rcm_last_error());
    errors += bench_after(b, b->out);
    errors += bench_compare(b, bench_operations[k].name, "out", b->host_out);
    errors += bench_after(b, b->in);
    return errors + bench_compare(b, bench_operations[k].name, "in", b->host_in);
}

static void *memory(size_t bytes) {
    void *new = malloc(bytes);
    if (!new)
        abort();
    return new;
}

int bench_begin(struct bench *b, rcm_comm *comm, size_t block) {
    void *in = NULL, *out = NULL;
    int devices = 1;
    *b = (struct bench){.comm = comm, .bytes = block * (size_t)rcm_size(comm)};
    b->fresh = memory(b->bytes);
    b->host_in = memory(b->bytes);
    b->host_out = memory(b->bytes);
    b->taken = memory(b->bytes);
    int errors = 0;
    CHECK(errors,
          rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, b->bytes, &in) == RCM_OK &&
              rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, b->bytes, &out) == RCM_OK,
          "%s", rcm_last_error());
    b->in = in;
    b->out = out;
    b->cuda = rcmi_cuda_there();
    *(void **)&b->host_function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchHostFunc");
    if (errors || !b->cuda || !b->host_function)
        return errors + 1;
    errors += bench_driver(b->cuda->cuDeviceGetCount(&devices), "cuDeviceGetCount");
    b->device = rcm_local_rank(comm) % devices;
    errors += bench_driver(b->cuda->cuDevicePrimaryCtxRetain(&b->context, b->device), "context");
    errors += bench_driver(b->cuda->cuCtxPushCurrent(b->context), "cuCtxPushCurrent");
    errors += bench_driver(b->cuda->cuStreamCreate(&b->stream, 0), "cuStreamCreate");
    return errors +
           bench_driver(b->cuda->cuStreamCreate(&b->side, RCMI_CUDA_STREAM_NON_BLOCKING), "side");
}

int bench_end(const struct bench *b) {
    int errors = 0;
    (void)b->cuda->cuStreamDestroy(b->stream);
    (void)b->cuda->cuStreamDestroy(b->side);
    CHECK(errors, rcm_mem_free(b->comm, b->in) == RCM_OK && rcm_mem_free(b->comm, b->out) == RCM_OK,
          "%s", rcm_last_error());
    (void)b->cuda->cuDevicePrimaryCtxRelease(b->device);
    free(b->fresh);
    free(b->host_in);
    free(b->host_out);
    free(b->taken);
    return errors;
}
