/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of streams and their execution. */
#include "fake_count.h"
#include "fake_stream.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A wait for a value polls after at most a quarter of its time so far, and every ms. */
#define POLL_MAX_US 1000

struct op *fake_op(enum op_kind kind) {
    struct op *op = calloc(1, sizeof *op);
    op->kind = kind;
    return op;
}

struct op *fake_op_copy(const struct op *op) {
    struct op *c = malloc(sizeof *c);
    *c = *op;
    c->next = NULL;
    if (op->params) {
        c->params = malloc(ptx_param_size(op->fn) + 1);
        memcpy(c->params, op->params, ptx_param_size(op->fn));
    }
    if (op->memops) {
        c->memops = malloc(op->nmemops * sizeof *op->memops);
        memcpy(c->memops, op->memops, op->nmemops * sizeof *op->memops);
    }
    if (op->event)
        fake_take_event(op->event);
    if (op->owned) {
        c->from = c->owned = malloc(op->bytes);
        memcpy(c->owned, op->owned, op->bytes);
    }
    return c;
}

void fake_op_free(struct op *op) {
    if (op->event)
        fake_drop_event(op->event);
    free(op->params);
    free(op->memops);
    free(op->owned);
    free(op);
}

static bool memop_satisfied(const CUstreamBatchMemOpParams *p, bool wide) {
    void *at = fake_host_ptr(p->waitValue.address, wide ? 8 : 4, NULL);
    uint64_t want = wide ? p->waitValue.value64 : p->waitValue.value;
    uint64_t have = wide ? __atomic_load_n((uint64_t *)at, __ATOMIC_ACQUIRE)
                         : __atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE);
    uint64_t ones = wide ? ~0ull : 0xffffffffu;
    switch (p->waitValue.flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return have == want;
    case CU_STREAM_WAIT_VALUE_AND:
        return (have & want) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(have | want) & ones) != 0;
    default: /* GEQ, cyclic */
        return wide ? (int64_t)(have - want) >= 0 : (int32_t)((uint32_t)have - (uint32_t)want) >= 0;
    }
}

static void run_memop(CUcontext ctx, const CUstreamBatchMemOpParams *p) {
    bool wide = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    bool write = p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
                 p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    void *at = fake_host_ptr(p->waitValue.address, wide ? 8 : 4, NULL);
    if (write && wide)
        __atomic_store_n((uint64_t *)at, p->writeValue.value64, __ATOMIC_RELEASE);
    else if (write)
        __atomic_store_n((uint32_t *)at, p->writeValue.value, __ATOMIC_RELEASE);
    else
        for (unsigned us = 1; !memop_satisfied(p, wide) && !ctx->destroyed && !ctx->error;
             us += us < POLL_MAX_US ? us / 4 + 1 : 0)
            usleep(us);
}

/* Kernels may poll the same words. */
static void set_memory(const struct op *op) {
    const uint64_t eight =
        op->width == 4 ? op->value * 0x100000001ull : (uint8_t)op->value * 0x0101010101010101ull;
    size_t n;
    for (uint8_t *to = op->to, *end = to + op->bytes; to < end; to += n) {
        n = (uintptr_t)to % 8 == 0 && end - to >= 8 ? 8 : op->width;
        if (n == 8)
            __atomic_store_n((uint64_t *)to, eight, __ATOMIC_RELAXED);
        else if (n == 4)
            __atomic_store_n((uint32_t *)to, op->value, __ATOMIC_RELAXED);
        else
            __atomic_store_n(to, (uint8_t)op->value, __ATOMIC_RELAXED);
    }
}

static CUresult fault_error(enum ptx_fault fault) {
    return fault == PTX_ILLEGAL_ADDRESS ? CUDA_ERROR_ILLEGAL_ADDRESS
           : fault == PTX_MISALIGNED    ? CUDA_ERROR_MISALIGNED_ADDRESS
           : fault == PTX_DEADLOCK      ? CUDA_ERROR_LAUNCH_TIMEOUT
                                        : CUDA_ERROR_LAUNCH_FAILED;
}

/* FAKECUDA_EXCLUSIVE: processes of a session use a device in turn, one kernel at a time. This is
 * the worst case of a GPU without MPS, for code that must not rely on kernels of two processes
 * running at the same time. Kernels of one process overlap. A session stands for a machine, so that
 * tests can run at the same time. */
static struct {
    pthread_mutex_t lock;
    int fd, running;
} turns[MAX_DEVICES] = {[0 ... MAX_DEVICES - 1] = {PTHREAD_MUTEX_INITIALIZER, -1, 0}};

/* Blocks. The file is unlocked before it is closed, so a child forked meanwhile does not keep the
 * lock. */
static bool lock_turn(int fd, short type) {
    struct flock byte = {.l_type = type, .l_whence = SEEK_SET, .l_start = getsid(0), .l_len = 1};
    int status;
    do
        status = fcntl(fd, F_OFD_SETLKW, &byte);
    while (status < 0 && errno == EINTR);
    return status == 0;
}

static void take_device(int device) {
    char path[80];
    pthread_mutex_lock(&turns[device].lock);
    if (turns[device].running++ == 0) {
        snprintf(path, sizeof path, "/tmp/fakecuda-%d-device%d.lock", (int)getuid(),
                 fake_settings()->physical[device]);
        turns[device].fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (turns[device].fd < 0 || !lock_turn(turns[device].fd, F_WRLCK))
            fake_log("cannot lock %s", path);
    }
    pthread_mutex_unlock(&turns[device].lock);
}

static void give_device(int device) {
    pthread_mutex_lock(&turns[device].lock);
    if (--turns[device].running == 0) {
        (void)lock_turn(turns[device].fd, F_UNLCK);
        close(turns[device].fd);
    }
    pthread_mutex_unlock(&turns[device].lock);
}

static void run_kernel(CUcontext ctx, struct op *op) {
    char why[1024] = "";
    uint64_t insns = 0, moved[PTX_MEMORIES][2] = {{0}};
    op->launch.params = op->params;
    op->launch.warp_insns = &insns;
    op->launch.moved = moved;
    if (fake_settings()->exclusive)
        take_device(ctx->device);
    enum ptx_fault fault = ptx_run(op->fn, &fake_env, &op->launch, why, sizeof why);
    if (fake_settings()->exclusive)
        give_device(ctx->device);
    fake_count_launch(moved);
    if (fake_settings()->trace)
        fake_log("kernel %s done: %llu warp instructions", ptx_function_name(op->fn),
                 (unsigned long long)insns);
    if (!fault || ctx->destroyed)
        return;
    fake_log("kernel fault: %s", why);
    if (fake_settings()->abort_on_fault)
        abort();
    int none = 0;
    atomic_compare_exchange_strong(&ctx->error, &none, (int)fault_error(fault));
}

static _Thread_local CUcontext running;

CUcontext fake_running(void) {
    return running;
}

void fake_run_op(CUcontext ctx, struct op *op) {
    if (ctx->error || ctx->destroyed)
        return;
    running = ctx;
    fake_count_begin();
    switch (op->kind) {
    case OP_KERNEL:
        run_kernel(ctx, op);
        break;
    case OP_COPY:
        fake_count_copy(op->to_address, op->from_address, op->bytes);
        memmove(op->to, op->from, op->bytes);
        break;
    case OP_SET:
        fake_count_set(op->to_address, op->bytes);
        set_memory(op);
        break;
    case OP_MEMOPS:
        for (unsigned i = 0; i < op->nmemops; i++)
            run_memop(ctx, &op->memops[i]);
        break;
    case OP_HOST:
        fake_call_host_fn(op->host_fn, op->host_arg);
        break;
    case OP_STAMP:
        clock_gettime(CLOCK_MONOTONIC, &op->event->when);
        break;
    case OP_FREE:
        fake_free_device(op->to_address);
        break;
    case OP_NOP:
        break;
    }
}
