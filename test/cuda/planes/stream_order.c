/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device buffers between other work on a stream, under the emulator. Before a call, a
 * delayed copy writes its buffers. After it, a copy reads the result. Results have the bits of the
 * same call on host buffers.
 *
 *     stream_order late|found|special|threads
 *     stream_order breach NAME   contract_breaches.h
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../stream_bench.h"
#include "contract_breaches.h"

enum { LARGE = 9001 };

/* ---- A rank --- */

static int check(rcm_comm *comm, void *arg) {
    static const rcm_dtype dtypes[] = {RCM_FLOAT32, RCM_BFLOAT16, RCM_INT32};
    static const size_t counts[] = {LARGE, 1, 1000};
    struct bench b;
    int errors = bench_begin(&b, comm, (size_t)LARGE * 4);
    (void)arg;
    for (size_t i = 0; i < 3 * bench_operations_count && errors == 0; i++) {
        b.dtype = dtypes[(i + i / bench_operations_count) % 3];
        b.count = counts[i / bench_operations_count];
        errors += bench_one(&b, i % bench_operations_count, (unsigned)i);
    }
    return errors + (b.cuda ? bench_end(&b) : 0);
}

/* ---- A stream that is not done by the deadline ----------------------------------------------- */

static void until_released(void *arg) {
    const volatile bool *released = arg;
    while (!*released)
        usleep(1000);
}

/* An operation that follows an unfinished stream never touches memory after its deadline, even when
 * the stream is done. */
static int check_late(rcm_comm *comm, void *arg) {
    static volatile bool released;
    struct bench b;
    int errors = bench_begin(&b, comm, (size_t)LARGE * 4);
    const struct rcm_call call = {.size = sizeof call, .stream = b.stream};
    (void)arg;
    if (errors)
        return errors;
    b.dtype = RCM_INT32;
    b.count = LARGE;
    bench_fill(&b, 1);
    errors += bench_before(&b);
    if (rcm_rank(comm) == 0)
        errors += bench_driver(b.host_function(b.stream, until_released, (void *)&released),
                               "cuLaunchHostFunc");
    rcm_status status = rcm_broadcast(comm, b.in, LARGE, RCM_INT32, 1, &call, NULL);
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    CHECK(errors, status == RCM_ERR_TIMEOUT, "%s: %s", rcm_status_name(status), rcm_last_error());
    released = true;
    errors += bench_driver(b.cuda->cuStreamSynchronize(b.stream), "cuStreamSynchronize");
    usleep(50000); /* for late accesses */
    errors += bench_after(&b, b.in) + bench_compare(&b, "late", "in", b.host_in);
    errors += bench_end(&b);
    (void)!rcm_destroy(comm);
    return errors;
}

/* ---- A driver that is loaded after rcm_init -------------------------------------------------- */

/* A communicator created afterwards recognizes device memory. */
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
    errors += bench_driver(cuda->cuInit(0), "cuInit");
    errors += bench_driver(cuda->cuDevicePrimaryCtxRetain(&context, 0), "context");
    errors += bench_driver(cuda->cuCtxPushCurrent(context), "cuCtxPushCurrent");
    errors += bench_driver(cuda->cuMemAlloc(&memory, sizeof got), "cuMemAlloc");
    errors += bench_driver(cuda->cuMemsetD8Async(memory, 3, sizeof got, NULL), "cuMemsetD8Async");
    if (errors || rcm_comm_duplicate(world, NULL, &comm) != RCM_OK)
        return errors + 1;
    void *buffer = (void *)(uintptr_t)memory;
    CHECK(errors,
          rcm_all_reduce(comm, buffer, buffer, sizeof got, RCM_INT8, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    errors +=
        bench_driver(cuda->cuMemcpyDtoHAsync(got, memory, sizeof got, NULL), "cuMemcpyDtoHAsync");
    errors += bench_driver(cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize");
    for (size_t i = 0; i < sizeof got; i++)
        CHECK(errors, got[i] == 3 * rcm_size(comm), "element %zu is %d", i, got[i]);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    (void)cuda->cuMemFree(memory);
    return errors + bench_driver(cuda->cuDevicePrimaryCtxRelease(0), "context");
}

/* ---- Special stream handles ------------------------------------------------------------------ */

/* Each operation on the legacy stream and on the per-thread stream. */
static int check_special(rcm_comm *comm, void *arg) {
    struct bench b;
    int errors = bench_begin(&b, comm, (size_t)LARGE * 4);
    (void)arg;
    b.dtype = RCM_INT32;
    b.count = 1000;
    for (size_t k = 0; k < bench_operations_count && errors == 0; k++)
        errors += bench_one(&b, k, BENCH_LEGACY) + bench_one(&b, k, BENCH_PER_THREAD);
    return errors + (b.cuda ? bench_end(&b) : 0);
}

static const struct rcm_call per_thread = {.size = sizeof per_thread, .stream = (void *)2};

struct other {
    struct bench *b;
    rcm_work *work;
    int errors;
};

/* This thread's per-thread stream is empty. The call does not wait for the other thread's. */
static void *call_in_another(void *arg) {
    struct other *other = arg;
    struct bench *b = other->b;
    int errors = bench_driver(b->cuda->cuCtxPushCurrent(b->context), "cuCtxPushCurrent");
    CHECK(errors,
          rcm_all_reduce(b->comm, b->in, b->out, LARGE, RCM_INT32, RCM_SUM, &per_thread, NULL) ==
              RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, rcm_work_start(other->work) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_work_wait(other->work, -1) == RCM_OK, "%s", rcm_last_error());
    other->errors = errors;
    return NULL;
}

static int check_threads(rcm_comm *comm, void *arg) {
    static volatile bool released;
    struct rcmi_cuda_stream *const own = (struct rcmi_cuda_stream *)2;
    struct rcm_call persistent = per_thread;
    struct bench b;
    int errors = bench_begin(&b, comm, (size_t)LARGE * 4);
    struct other other = {.b = &b};
    pthread_t thread;
    (void)arg;
    persistent.flags = RCM_PERSISTENT;
    bench_fill(&b, 1);
    b.dtype = RCM_INT32;
    errors += bench_before(&b) + bench_driver(b.cuda->cuStreamSynchronize(b.stream), "stream");
    CHECK(errors,
          rcm_all_reduce(comm, b.in, b.out, LARGE, RCM_INT32, RCM_SUM, &persistent, &other.work) ==
              RCM_OK,
          "%s", rcm_last_error());
    errors +=
        bench_driver(b.host_function(own, until_released, (void *)&released), "cuLaunchHostFunc");
    if (errors || pthread_create(&thread, NULL, call_in_another, &other) != 0)
        return errors + 1;
    (void)pthread_join(thread, NULL);
    errors += other.errors;
    /* In the other thread calls, messages and starts wait for the stream. */
    rcm_work *work = NULL, *sent = NULL;
    CHECK(errors,
          rcm_all_reduce(comm, b.in, b.out, LARGE, RCM_INT32, RCM_SUM, &per_thread, &work) ==
                  RCM_OK &&
              rcm_send(comm, b.in, 8, RCM_INT32, rcm_rank(comm), 1, &per_thread, &sent) == RCM_OK &&
              rcm_work_start(other.work) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors,
          rcm_work_wait(work, 100) == RCM_PENDING && rcm_work_test(sent) == RCM_PENDING &&
              rcm_work_test(other.work) == RCM_PENDING,
          "a call did not wait for the stream");
    released = true;
    CHECK(errors,
          rcm_recv(comm, b.out, 8, RCM_INT32, rcm_rank(comm), 1, &per_thread, NULL) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors,
          rcm_work_wait(work, -1) == RCM_OK && rcm_work_wait(sent, -1) == RCM_OK &&
              rcm_work_wait(other.work, -1) == RCM_OK,
          "%s", rcm_last_error());
    rcm_work_free(work);
    rcm_work_free(sent);
    rcm_work_free(other.work);
    return errors + bench_end(&b);
}

/* ---- Breaches -------------------------------------------------------------------------------- */

/* The check fails with a breach, and passes without. */
static int breach(struct ranks *ranks, const char *name) {
    ranks->before = breach_find(name);
    if (!ranks->before)
        return 2;
    if (!freopen("/dev/null", "w", stderr)) /* hide the expected errors */
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
        ranks.timeout_ms = 5000; /* includes opening the device */
        ranks.keep = true;
        return ranks_run(&ranks, check_late, NULL) ? 1 : 0;
    }
    if (strcmp(argv[1], "special") == 0)
        return ranks_run(&ranks, check_special, NULL) ? 1 : 0;
    if (strcmp(argv[1], "threads") == 0)
        return ranks_run(&ranks, check_threads, NULL) ? 1 : 0;
    if (strcmp(argv[1], "found") == 0)
        return ranks_run(&ranks, check_found, NULL) ? 1 : 0;
    return 2;
}
