/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices, their operations and streams: device.c [CASE]. Each case runs in a process of its own
 * with its own emulator settings (test/fakes/cuda/README.md).
 */
#include "device.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "case.h"
#include "clock.h"
#include "cuda.h"
#include "error.h"
#include "operation.h"

/* ---- Operations ------------------------------------------------------------------------------ */

static struct rcmi_device *device;
static const struct rcmi_mem_row *row;
static struct rcmi_operations owner;

static void wake_none(void *arg) {
    (void)arg;
}

static void begin_device(void) {
    must(rcmi_device_open("auto", 0, &device));
    row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
    owner = (struct rcmi_operations){.device = &device, .wake = wake_none};
}

static void end_device(void) {
    if (!rcmi_operations_quiet(&owner))
        die("operations remain");
    rcmi_device_close(device);
}

static struct rcmi_operation operation(size_t bytes) {
    return (struct rcmi_operation){.bytes = bytes,
                                   .dtype = RCM_UINT8,
                                   .op = RCM_SUM,
                                   .context.divisor = 1,
                                   .kind = RCMI_MEM_DEVICE,
                                   .all = &owner};
}

static rcm_status await(const struct rcmi_operation *o) {
    const rcmi_deadline deadline = rcmi_deadline_in(20000);
    rcm_status status;
    while ((status = rcmi_operation_look(o)) == RCM_AGAIN)
        if (rcmi_deadline_passed(deadline))
            die("an operation does not end");
    return status;
}

static rcm_status run(struct rcmi_operation *o) {
    const rcm_status status = rcmi_operation_begin(o);
    return status == RCM_OK ? await(o) : status;
}

static void *device_memory(size_t bytes) {
    void *memory;
    must(row->alloc(device, bytes, &memory));
    return memory;
}

static rcm_status copy(void *to, const void *from, size_t bytes) {
    struct rcmi_operation o = operation(bytes);
    o.results[0] = to;
    o.srcs[0] = from;
    o.nresults = o.nsrcs = 1;
    return run(&o);
}

static unsigned char *pattern(size_t bytes, unsigned seed) {
    unsigned char *memory = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
    return memory;
}

/* Host to device to device to host, the whole buffer and some bytes within. */
static void case_copies(const char *argument) {
    const size_t sizes[] = {1, 4096, 2 << 20, (5 << 20) + 3};
    (void)argument;
    begin_device();
    char *a = device_memory(6 << 20), *b = device_memory(6 << 20);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const size_t bytes = sizes[s];
        unsigned char *out = pattern(bytes, (unsigned)s), *in = calloc(bytes, 1);
        must(copy(a + 7, out, bytes));
        must(copy(b + 1, a + 7, bytes));
        must(copy(in, b + 1, bytes));
        if (memcmp(in, out, bytes) != 0)
            die("%zu bytes differ after the copies", bytes);
        free(out);
        free(in);
    }
    row->free(device, a);
    row->free(device, b);
    end_device();
}

/* Sources alternate between device and host. The result replaces the first source, and is also on
 * the host. Floats, whose bits depend on the order. */
static void reduce_mixed(int nsrcs, size_t count, rcm_op op) {
    const size_t bytes = count * sizeof(float);
    struct rcmi_operation o = operation(bytes);
    const void *parts[RCMI_REDUCE_MAX];
    float *expected = malloc(bytes), *result = malloc(bytes), *back = malloc(bytes);
    o.dtype = RCM_FLOAT32;
    o.op = op;
    o.reduces = true;
    o.nsrcs = (uint32_t)nsrcs;
    for (int i = 0; i < nsrcs; i++) {
        float *part = malloc(bytes);
        for (size_t k = 0; k < count; k++)
            part[k] = (float)((k * 7 + (size_t)i * 13) % 101) * 0.37f - 11;
        parts[i] = part;
        o.srcs[i] = part;
        if (i % 2 == 0) {
            o.srcs[i] = device_memory(bytes);
            must(copy((void *)o.srcs[i], part, bytes));
        }
    }
    o.results[0] = (void *)o.srcs[0];
    o.results[1] = result;
    o.nresults = 2;
    rcmi_reduction_find(RCM_FLOAT32, op)->reduce(expected, parts, nsrcs, count, &o.context);
    must(run(&o));
    must(copy(back, o.srcs[0], bytes));
    if (memcmp(expected, result, bytes) != 0 || memcmp(expected, back, bytes) != 0)
        die("a reduction of %d sources of %zu bytes has other bits than the CPU's", nsrcs, bytes);
    for (int i = 0; i < nsrcs; i++) {
        if (i % 2 == 0)
            row->free(device, (void *)o.srcs[i]);
        free((void *)parts[i]);
    }
    free(expected);
    free(result);
    free(back);
}

static void case_reductions(const char *argument) {
    (void)argument;
    begin_device();
    reduce_mixed(2, 5, RCM_SUM);
    reduce_mixed(3, 1000, RCM_MAX);
    reduce_mixed(16, 700, RCM_PROD);
    reduce_mixed(2, 700001, RCM_SUM);
    end_device();
}

/* Many operations at the same time. They end in any order, each with its own bytes. */
static void case_many(const char *argument) {
    enum { N = 40, BYTES = 30000 };
    static struct rcmi_operation all[N];
    (void)argument;
    begin_device();
    unsigned char *out = pattern((size_t)N * BYTES, 5), *in = calloc(N, BYTES);
    char *there = device_memory((size_t)N * BYTES);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            char *mine = there + (size_t)i * BYTES;
            all[i] = operation(BYTES);
            all[i].nsrcs = all[i].nresults = 1;
            all[i].srcs[0] = round ? (void *)mine : (void *)(out + (size_t)i * BYTES);
            all[i].results[0] = round ? (void *)(in + (size_t)i * BYTES) : (void *)mine;
            must(rcmi_operation_begin(&all[i]));
        }
        for (int i = 0; i < N; i++)
            must(await(&all[i]));
    }
    if (memcmp(out, in, (size_t)N * BYTES) != 0)
        die("bytes are in the wrong place");
    row->free(device, there);
    free(out);
    free(in);
    end_device();
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void *driver(const char *name) {
    void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
    if (!symbol)
        die("no %s", name);
    return symbol;
}

static void drive(int code, const char *what) {
    if (code != 0)
        die("%s answers %d", what, code);
}
#define DRIVE(call) drive(call, #call)

static const struct rcmi_cuda *cuda;
static struct rcmi_cuda_context *program_context(void) {
    struct rcmi_cuda_context *context;
    must(rcmi_cuda_open(&cuda));
    DRIVE(cuda->cuDevicePrimaryCtxRetain(&context, 0));
    DRIVE(cuda->cuCtxPushCurrent(context));
    return context;
}

/* A host function on the program's stream delays the operations that follow it, and no others. */
static _Atomic bool go;
static void hold(void *arg) {
    (void)arg;
    while (!go)
        usleep(100);
}

static void hold_a_while(void *arg) {
    (void)arg;
    usleep(300000);
}

static void follow_one(void *stream) {
    int (*launch)(void *, void (*)(void *), void *);
    void *symbol = driver("cuLaunchHostFunc");
    unsigned char *out = pattern(100, 3), in[100] = {0};
    memcpy(&launch, &symbol, sizeof launch);
    void *there = device_memory(100);
    go = false;
    drive(launch(stream, hold, NULL), "cuLaunchHostFunc");
    struct rcmi_operation fence = operation(0), late = operation(100);
    must(rcmi_operation_follow(&fence, stream));
    late.nsrcs = late.nresults = 1;
    late.srcs[0] = out;
    late.results[0] = there;
    late.after = &fence;
    must(rcmi_operation_begin(&late));
    must(copy(in, there, 100)); /* not delayed, and runs before `late` */
    if (memcmp(in, out, 100) == 0 || rcmi_operation_look(&fence) != RCM_AGAIN ||
        rcmi_operation_look(&late) != RCM_AGAIN)
        die("an operation did not wait for the stream that it follows");
    go = true;
    must(await(&fence));
    must(await(&late));
    must(copy(in, there, 100));
    if (memcmp(in, out, 100) != 0)
        die("an operation did not run after the stream that it follows");
    row->free(device, there);
    free(out);
}

static void case_follow(const char *argument) {
    struct rcmi_cuda_stream *stream, *blocking;
    (void)argument;
    program_context();
    begin_device();
    DRIVE(cuda->cuStreamCreate(&stream, RCMI_CUDA_STREAM_NON_BLOCKING));
    DRIVE(cuda->cuStreamCreate(&blocking, 0));
    follow_one(stream);
    follow_one(blocking);
    follow_one(NULL);
    end_device();
}

/* Operations that follow an unfinished stream are dropped when the device is closed. */
static void case_dropped(const char *argument) {
    (void)argument;
    program_context();
    begin_device();
    int (*launch)(void *, void (*)(void *), void *);
    void *symbol = driver("cuLaunchHostFunc");
    struct rcmi_cuda_stream *stream;
    memcpy(&launch, &symbol, sizeof launch);
    DRIVE(cuda->cuStreamCreate(&stream, RCMI_CUDA_STREAM_NON_BLOCKING));
    drive(launch(stream, hold_a_while, NULL), "cuLaunchHostFunc");
    struct rcmi_operation fence = operation(0);
    must(rcmi_operation_follow(&fence, stream));
    rcmi_device_close(device);
    expect(RCM_ERR_CANCELED, "on the stream of device memory failed: the device was closed",
           rcmi_operation_look(&fence));
    DRIVE(cuda->cuStreamSynchronize(stream));
}

/* A stream being captured is rejected. The library's other calls do not disturb the capture. */
static void case_capture(const char *argument) {
    int (*capture)(void *, int), (*end)(void *, void **), (*drop)(void *);
    void *symbol = driver("cuStreamBeginCapture_v2"), *graph;
    struct rcmi_cuda_stream *stream;
    const int mode = atoi(argument);
    memcpy(&capture, &symbol, sizeof capture);
    symbol = driver("cuStreamEndCapture");
    memcpy(&end, &symbol, sizeof end);
    symbol = driver("cuGraphDestroy");
    memcpy(&drop, &symbol, sizeof drop);
    program_context();
    begin_device();
    void *there = device_memory(64);
    DRIVE(cuda->cuStreamCreate(&stream, 0));
    DRIVE(capture(stream, mode));
    struct rcmi_operation fence = operation(0);
    expect(RCM_ERR_INVALID, "captured", rcmi_operation_follow(&fence, stream));
    expect(RCM_ERR_INVALID, "captured", rcmi_operation_follow(&fence, NULL));
    must(copy(there, "0123456789", 10));
    void *more = device_memory(64);
    DRIVE(end(stream, &graph));
    DRIVE(drop(graph));
    row->free(device, more);
    row->free(device, there);
    end_device();
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static void case_context(const char *argument) {
    int (*create)(struct rcmi_cuda_context **, unsigned, int);
    void *symbol = driver("cuCtxCreate_v2");
    struct rcmi_cuda_context *other, *current;
    struct rcmi_cuda_stream *stream;
    rcmi_cuda_address memory;
    char bytes[16];
    (void)argument;
    memcpy(&create, &symbol, sizeof create);
    begin_device();
    must(rcmi_cuda_open(&cuda));
    DRIVE(create(&other, 0, 0));
    DRIVE(cuda->cuMemAlloc(&memory, 4096));
    DRIVE(cuda->cuStreamCreate(&stream, 0));
    expect(RCM_ERR_INVALID, "primary", copy(bytes, (void *)(uintptr_t)memory, 16));
    struct rcmi_operation fence = operation(0);
    expect(RCM_ERR_INVALID, "primary", rcmi_operation_follow(&fence, stream));
    void *there = device_memory(10);
    must(copy(bytes, there, 10));
    row->free(device, there);
    DRIVE(cuda->cuCtxGetCurrent(&current));
    if (current != other)
        die("the program's context is not its current one any more");
    end_device();
}

static void case_two_devices(const char *argument) {
    struct rcmi_device *second, *named, *again;
    void *memory;
    char bytes[16];
    bool has;
    char address[RCMI_PCI_ADDRESS];
    int ordinal;
    (void)argument;
    begin_device();
    must(rcmi_device_open("auto", 3, &second));
    must(rcmi_device_open(rcmi_device_facts(second)->uuid, 0, &named));
    must(rcmi_device_open("1", 0, &again));
    if (second == device || named != second || again != second)
        die("device names resolve to other devices");
    must(row->alloc(second, 10, &memory));
    must(row->has(memory, &has, &ordinal));
    if (!has || ordinal != 1)
        die("memory of device 1 is of device %d", ordinal);
    expect(RCM_ERR_INVALID, "another device", copy(bytes, memory, 10));
    expect(RCM_ERR_INVALID, "'2' is not one of the 2", rcmi_device_open("2", 0, &again));
    expect(RCM_ERR_INVALID, "'GPU-x'", rcmi_device_open("GPU-x", 0, &again));
    must(row->locate("1", address));
    if (strcmp(address, rcmi_device_facts(second)->bus) != 0)
        die("device 1 is at %s, and found at %s", rcmi_device_facts(second)->bus, address);
    must(row->locate(rcmi_device_facts(device)->uuid, address));
    if (strcmp(address, rcmi_device_facts(device)->bus) != 0)
        die("device 0 is found at %s", address);
    expect(RCM_ERR_INVALID, "'2' is not one of the 2", row->locate("2", address));
    row->free(second, memory);
    for (int i = 0; i < 3; i++)
        rcmi_device_close(second);
    end_device();
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static const struct test_case cases[] = {
    {"copies", "", "", case_copies},
    {"copies", "FAKECUDA_LAZY=1", "", case_copies},
    {"copies", "FAKECUDA_FAIL=cuPointerGetAttributes:1:1", "", case_copies}, /* host memory */
    {"copies", "FAKECUDA_QUEUES=1", "", case_copies},
    {"reductions", "", "", case_reductions},
    {"reductions", "FAKECUDA_LAZY=1 FAKECUDA_JITTER=200", "", case_reductions},
    {"many", "FAKECUDA_JITTER=300", "", case_many},
    {"many", "FAKECUDA_LAZY=1", "", case_many},
    {"follow", "", "", case_follow},
    {"follow", "FAKECUDA_LAZY=1", "", case_follow},
    {"follow", "FAKECUDA_HOSTFN=delay,serial", "", case_follow},
    {"dropped", "", "", case_dropped},
    {"capture", "", "0", case_capture},
    {"capture", "", "1", case_capture},
    {"capture", "", "2", case_capture},
    {"context", "", "", case_context},
    {"two devices", "FAKECUDA_DEVICES=2", "", case_two_devices},
    {"two devices", "FAKECUDA_MIG=1", "", case_two_devices},
};

int main(int argc, char **argv) {
    return cases_run(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
