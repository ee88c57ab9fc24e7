/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device buffers between other work on a stream, under the emulator: before a call
 * its buffers are written by a copy that comes late, and after it a copy takes what it left. The
 * results have the bits of the same call on host buffers.
 *     order TRANSPORT RANKS HOSTS NAME=VALUE...      with these settings of the emulator; HOSTS are
 *                                                    simulated ones, 0 none, -1: ranks are threads
 *     order late | found | breach NAME               see below
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cuda.h"
#include "planted.h"
#include "ranks.h"
#ifdef HAS_VERBS
#include "../verbs/provider.h"
#endif

enum { RANKS_MAX = 8, LARGE = 9001 };

/* The emulator's, beside what the library uses. */
typedef int (*launch_host)(struct rcmi_cuda_stream *stream, void (*fn)(void *arg), void *arg);

/* One operation on one set of buffers. */
struct bench {
    rcm_comm *comm;
    const struct rcmi_cuda *cuda;
    struct rcmi_cuda_context *context;
    int device;
    struct rcmi_cuda_stream *stream, *side;
    launch_host host_function;
    rcm_dtype dtype;
    size_t count, bytes; /* of a buffer of blocks of all ranks */
    char *fresh, *host_in, *host_out, *taken;
    char *in, *out; /* on the device */
};

/* ---- Operations ------------------------------------------------------------------------------ */

typedef rcm_status (*operation)(const struct bench *b, void *in, void *out,
                                const struct rcm_call *call);

static rcm_status all_reduce(const struct bench *b, void *in, void *out,
                             const struct rcm_call *call) {
    return rcm_all_reduce(b->comm, in, out, b->count, b->dtype, RCM_SUM, call, NULL);
}

static rcm_status all_reduce_in_place(const struct bench *b, void *in, void *out,
                                      const struct rcm_call *call) {
    (void)out;
    return rcm_all_reduce(b->comm, in, in, b->count, b->dtype, RCM_MAX, call, NULL);
}

static rcm_status broadcast(const struct bench *b, void *in, void *out,
                            const struct rcm_call *call) {
    (void)out;
    return rcm_broadcast(b->comm, in, b->count, b->dtype, rcm_size(b->comm) - 1, call, NULL);
}

static rcm_status reduce(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_reduce(b->comm, in, out, b->count, b->dtype, RCM_SUM, 0, call, NULL);
}

static rcm_status reduce_scatter(const struct bench *b, void *in, void *out,
                                 const struct rcm_call *call) {
    return rcm_reduce_scatter(b->comm, in, out, b->count, b->dtype, RCM_SUM, call, NULL);
}

static rcm_status all_gather(const struct bench *b, void *in, void *out,
                             const struct rcm_call *call) {
    return rcm_all_gather(b->comm, in, out, b->count, b->dtype, call, NULL);
}

static rcm_status gather(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_gather(b->comm, in, out, b->count, b->dtype, 0, call, NULL);
}

static rcm_status scatter(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_scatter(b->comm, in, out, b->count, b->dtype, 0, call, NULL);
}

static rcm_status all_to_all(const struct bench *b, void *in, void *out,
                             const struct rcm_call *call) {
    return rcm_all_to_all(b->comm, in, out, b->count, b->dtype, call, NULL);
}

static rcm_status scan(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_scan(b->comm, in, out, b->count, b->dtype, RCM_SUM, call, NULL);
}

static rcm_status exscan(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    return rcm_exscan(b->comm, in, out, b->count, b->dtype, RCM_SUM, call, NULL);
}

/* Blocks of unequal lengths, each of something: a rank that has nothing waits for no stream. */
static rcm_status all_gather_v(const struct bench *b, void *in, void *out,
                               const struct rcm_call *call) {
    size_t counts[RANKS_MAX];
    const size_t part = b->count / RANKS_MAX + 1;
    for (int r = 0; r < rcm_size(b->comm); r++)
        counts[r] = part * (size_t)(r + 1);
    return rcm_all_gather_v(b->comm, in, counts[rcm_rank(b->comm)], out, counts, NULL, b->dtype,
                            call, NULL);
}

static rcm_status sendrecv(const struct bench *b, void *in, void *out,
                           const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    return rcm_sendrecv(b->comm, in, b->count, (rank + 1) % p, 7, out, b->count, (rank + p - 1) % p,
                        7, b->dtype, call, NULL);
}

static rcm_status batch(const struct bench *b, void *in, void *out, const struct rcm_call *call) {
    const int p = rcm_size(b->comm), rank = rcm_rank(b->comm);
    const struct rcm_transfer transfers[] = {{.kind = RCM_TRANSFER_SEND,
                                              .peer = (rank + 1) % p,
                                              .buffer = in,
                                              .count = b->count,
                                              .dtype = b->dtype,
                                              .tag = 1},
                                             {.kind = RCM_TRANSFER_RECV,
                                              .peer = (rank + p - 1) % p,
                                              .buffer = out,
                                              .count = b->count,
                                              .dtype = b->dtype,
                                              .tag = 1}};
    return rcm_batch(b->comm, transfers, 2, call, NULL);
}

static const struct {
    const char *name;
    operation call;
} operations[] = {
    {"all_reduce", all_reduce},
    {"all_reduce in place", all_reduce_in_place},
    {"broadcast", broadcast},
    {"reduce", reduce},
    {"reduce_scatter", reduce_scatter},
    {"all_gather", all_gather},
    {"gather", gather},
    {"scatter", scatter},
    {"all_to_all", all_to_all},
    {"scan", scan},
    {"exscan", exscan},
    {"all_gather_v", all_gather_v},
    {"sendrecv", sendrecv},
    {"batch", batch},
};
enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

/* ---- One case -------------------------------------------------------------------------------- */

/* Values whose sums are rounded, in any type of up to 4 bytes; of floats none is infinite. */
static void fill(const struct bench *b, unsigned salt) {
    uint32_t state = salt * 2654435761u + (uint32_t)rcm_rank(b->comm) * 40503u + 1;
    for (size_t i = 0; i < b->bytes; i++) {
        state = state * 1664525u + 1013904223u;
        b->fresh[i] = (char)(state >> 24);
    }
    for (size_t i = 0; b->dtype == RCM_FLOAT32 && i < b->bytes / 4; i++)
        ((float *)(void *)b->fresh)[i] = (float)(int8_t)b->fresh[4 * i] / 7.0f;
    for (size_t i = 0; b->dtype == RCM_BFLOAT16 && i < b->bytes / 2; i++)
        ((uint16_t *)(void *)b->fresh)[i] = (uint16_t)(0x3f00 + (b->fresh[2 * i] & 0xff));
    memcpy(b->host_in, b->fresh, b->bytes);
    memset(b->host_out, 0x55, b->bytes);
}

static void late(void *arg) {
    usleep(*(const useconds_t *)arg);
}

static int driver(int code, const char *what) {
    if (code != 0)
        fprintf(stderr, "%s: %d\n", what, code);
    return code != 0;
}

/* The buffers hold nonsense until the copies that are enqueued have run. */
static int before(const struct bench *b) {
    static useconds_t wait = 300;
    const rcmi_cuda_address in = (rcmi_cuda_address)(uintptr_t)b->in;
    const rcmi_cuda_address out = (rcmi_cuda_address)(uintptr_t)b->out;
    int errors = driver(b->cuda->cuMemsetD8Async(in, 0x33, b->bytes, b->stream), "cuMemsetD8Async");
    errors += driver(b->host_function(b->stream, late, &wait), "cuLaunchHostFunc");
    errors += driver(b->cuda->cuMemcpyHtoDAsync(in, b->fresh, b->bytes, b->stream), "copy");
    return errors + driver(b->cuda->cuMemsetD8Async(out, 0x55, b->bytes, b->stream), "set");
}

/* Another stream sees the result: it is there for all. */
static int after(const struct bench *b, const char *from) {
    int errors = driver(
        b->cuda->cuMemcpyDtoHAsync(b->taken, (rcmi_cuda_address)(uintptr_t)from, b->bytes, b->side),
        "cuMemcpyDtoHAsync");
    return errors + driver(b->cuda->cuStreamSynchronize(b->side), "cuStreamSynchronize");
}

static int compare(const struct bench *b, const char *name, const char *which, const char *want) {
    int errors = 0;
    for (size_t i = 0; i < b->bytes && errors == 0; i++)
        CHECK(errors, b->taken[i] == want[i],
              "%s of %zu %s, rank %d: byte %zu of %s is 0x%02x, of host buffers 0x%02x", name,
              b->count, rcm_dtype_name(b->dtype), rcm_rank(b->comm), i, which,
              (unsigned char)b->taken[i], (unsigned char)want[i]);
    return errors;
}

static int one(const struct bench *b, size_t k, unsigned salt) {
    const struct rcm_call call = {.size = sizeof call, .stream = salt % 3 ? b->stream : NULL};
    int errors = 0;
    fill(b, salt);
    struct bench on = *b;
    on.stream = call.stream; /* NULL: the legacy default stream */
    errors += before(&on);
    CHECK(errors, operations[k].call(b, b->in, b->out, &call) == RCM_OK, "%s: %s",
          operations[k].name, rcm_last_error());
    CHECK(errors, operations[k].call(b, b->host_in, b->host_out, NULL) == RCM_OK, "%s: %s",
          operations[k].name, rcm_last_error());
    errors += after(b, b->out);
    errors += compare(b, operations[k].name, "out", b->host_out);
    errors += after(b, b->in);
    return errors + compare(b, operations[k].name, "in", b->host_in);
}

/* ---- A rank ---------------------------------------------------------------------------------- */

static void *memory(size_t bytes) {
    void *new = malloc(bytes);
    if (!new)
        abort();
    return new;
}

static int bench_begin(struct bench *b, rcm_comm *comm) {
    void *in = NULL, *out = NULL;
    int devices = 1;
    *b = (struct bench){.comm = comm, .bytes = (size_t)LARGE * 4 * (size_t)rcm_size(comm)};
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
    errors += driver(b->cuda->cuDeviceGetCount(&devices), "cuDeviceGetCount");
    b->device = rcm_local_rank(comm) % devices;
    errors += driver(b->cuda->cuDevicePrimaryCtxRetain(&b->context, b->device), "context");
    errors += driver(b->cuda->cuCtxPushCurrent(b->context), "cuCtxPushCurrent");
    errors += driver(b->cuda->cuStreamCreate(&b->stream, 0), "cuStreamCreate");
    return errors +
           driver(b->cuda->cuStreamCreate(&b->side, RCMI_CUDA_STREAM_NON_BLOCKING), "side");
}

static int bench_end(const struct bench *b) {
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

static int check(rcm_comm *comm, void *arg) {
    static const rcm_dtype dtypes[] = {RCM_FLOAT32, RCM_BFLOAT16, RCM_INT32};
    static const size_t counts[] = {LARGE, 1, 1000};
    struct bench b;
    int errors = bench_begin(&b, comm);
    (void)arg;
    for (unsigned i = 0; i < 3 * OPERATIONS && errors == 0; i++) {
        b.dtype = dtypes[(i + i / OPERATIONS) % 3];
        b.count = counts[i / OPERATIONS];
        errors += one(&b, i % OPERATIONS, i);
    }
    return errors + (b.cuda ? bench_end(&b) : 0);
}

/* ---- A stream that is not done by the deadline ----------------------------------------------- */

static void until_told(void *arg) {
    const volatile bool *told = arg;
    while (!*told)
        usleep(1000);
}

/* What comes after it never touches memory, also when it is done at last. */
static int check_late(rcm_comm *comm, void *arg) {
    static volatile bool told;
    struct bench b;
    int errors = bench_begin(&b, comm);
    const struct rcm_call call = {.size = sizeof call, .stream = b.stream};
    (void)arg;
    if (errors)
        return errors;
    b.dtype = RCM_INT32;
    b.count = LARGE;
    fill(&b, 1);
    errors += before(&b);
    if (rcm_rank(comm) == 0)
        errors += driver(b.host_function(b.stream, until_told, (void *)&told), "cuLaunchHostFunc");
    rcm_status status = broadcast(&b, b.in, NULL, &call); /* rank 1's */
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    CHECK(errors, status == RCM_ERR_TIMEOUT, "%s: %s", rcm_status_name(status), rcm_last_error());
    told = true;
    errors += driver(b.cuda->cuStreamSynchronize(b.stream), "cuStreamSynchronize");
    usleep(50000); /* for what would be late */
    errors += after(&b, b.in) + compare(&b, "late", "in", b.host_in);
    errors += bench_end(&b);
    (void)!rcm_destroy(comm);
    return errors;
}

/* ---- A driver that is loaded after rcm_init -------------------------------------------------- */

/* A communicator that is made then takes the memory for what it is. */
static int check_found(rcm_comm *world, void *arg) {
    struct rcmi_cuda_context *context = NULL;
    rcmi_cuda_address memory = 0;
    rcm_comm *comm = NULL;
    signed char got[8] = {0};
    int errors = 0;
    (void)arg;
    const struct rcmi_cuda *cuda =
        dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) ? rcmi_cuda_there() : NULL;
    if (!cuda)
        return 1;
    errors += driver(cuda->cuInit(0), "cuInit");
    errors += driver(cuda->cuDevicePrimaryCtxRetain(&context, 0), "context");
    errors += driver(cuda->cuCtxPushCurrent(context), "cuCtxPushCurrent");
    errors += driver(cuda->cuMemAlloc(&memory, sizeof got), "cuMemAlloc");
    errors += driver(cuda->cuMemsetD8Async(memory, 3, sizeof got, NULL), "cuMemsetD8Async");
    if (errors || rcm_comm_duplicate(world, NULL, &comm) != RCM_OK)
        return errors + 1;
    void *buffer = (void *)(uintptr_t)memory;
    CHECK(errors,
          rcm_all_reduce(comm, buffer, buffer, sizeof got, RCM_INT8, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    errors += driver(cuda->cuMemcpyDtoHAsync(got, memory, sizeof got, NULL), "cuMemcpyDtoHAsync");
    errors += driver(cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize");
    for (size_t i = 0; i < sizeof got; i++)
        CHECK(errors, got[i] == 3 * rcm_size(comm), "element %zu is %d", i, got[i]);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    (void)cuda->cuMemFree(memory);
    return errors + driver(cuda->cuDevicePrimaryCtxRelease(0), "context");
}

/* ---- RDMA devices that are played, which only threads of this process see ------------------- */

static void play(const struct ranks *ranks, bool begins) {
#ifdef HAS_VERBS
    const struct provider_setup setup = {.seed = 5, .devices = 2, .inline_max = 220};
    if (strcmp(ranks->transport, "verbs") == 0 && begins)
        provider_install(&setup);
    else if (strcmp(ranks->transport, "verbs") == 0)
        provider_remove();
#else
    (void)ranks;
    (void)begins;
#endif
}

/* ---- Breaches -------------------------------------------------------------------------------- */

/* With one planted the check fails; without, the same check passes. */
static int breach(struct ranks *ranks, const char *name) {
    ranks->before = planted_find(name);
    if (!ranks->before)
        return 2;
    if (!freopen("/dev/null", "w", stderr)) /* what is wrong is no matter */
        return 2;
    return ranks_run(ranks, check, NULL) ? 0 : 1;
}

int main(int argc, char **argv) {
    struct ranks ranks = {.n = 2, .transport = "shm", .timeout_ms = 20000};
    if (argc < 2)
        return 2;
    setenv("RINGCOMM_SLOT_BYTES", "16384", 0);
    if (strcmp(argv[1], "breach") == 0 && argc > 2)
        return breach(&ranks, argv[2]);
    if (strcmp(argv[1], "late") == 0) {
        ranks.timeout_ms = 700;
        ranks.keep = true;
        return ranks_run(&ranks, check_late, NULL) ? 1 : 0;
    }
    if (strcmp(argv[1], "found") == 0)
        return ranks_run(&ranks, check_found, NULL) ? 1 : 0;
    for (int i = 4; i < argc; i++)
        putenv(argv[i]);
    if (argc < 4)
        return 2;
    ranks.transport = argv[1];
    ranks.n = atoi(argv[2]);
    ranks.hosts = atoi(argv[3]);
    ranks.threads = ranks.hosts < 0;
    ranks.hosts = ranks.threads ? 0 : ranks.hosts;
    play(&ranks, true);
    const int errors = ranks_run(&ranks, check, NULL);
    play(&ranks, false);
    return errors ? 1 : 0;
}
