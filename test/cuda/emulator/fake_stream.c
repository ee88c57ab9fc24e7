/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, events and graphs. Each stream has a thread that runs its operations in order; an
 * operation can wait for a (stream, sequence) pair, which is all that events and the legacy default
 * stream need. One lock guards all queues: this is for tests, not for speed.
 */
#include "fake_count.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

struct capture {
    struct CUgraph_st *graph; /* NULL: the capture has ended */
    CUstreamCaptureMode mode;
    struct CUstream_st *origin;
    unsigned long long id;
    bool invalid;
    pthread_t thread;
    struct capture *next;
    int refs; /* the list of captures, and events recorded in it */
};

struct CUstream_st {
    CUcontext ctx;
    bool non_blocking, legacy, destroyed;
    int priority;
    uint64_t queued, released, done; /* sequence numbers */
    struct hw_queue *hw;             /* NULL: a queue of its own */
    struct op *head, **tail;
    pthread_t thread;
    struct capture *capture;
    bool unjoined;
    struct CUstream_st *next;
};

struct CUevent_st {
    struct CUstream_st *stream; /* NULL: never recorded */
    uint64_t seq;
    unsigned flags;
    struct timespec when;
    struct capture *capture;
    int refs; /* the caller, and queued operations that stamp it */
};

struct CUgraph_st {
    struct op *head, **tail;
    size_t count;
};

struct CUgraphExec_st {
    struct CUgraph_st ops;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct CUstream_st *streams;
static struct CUstream_st *legacy[MAX_DEVICES];
static struct capture *captures;
static unsigned long long next_capture = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- counted objects ------------------------------------------------------------------------ */

static void drop_capture(struct capture *c) {
    if (c && __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(c);
}

/* Makes the event one of capture c (NULL: of none). */
static void set_capture(CUevent e, struct capture *c) {
    if (c)
        __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    drop_capture(e->capture);
    e->capture = c;
}

static CUevent take_event(CUevent e) {
    __atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
    return e;
}

static void drop_event(CUevent e) {
    if (__atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        drop_capture(e->capture);
        free(e);
    }
}

/* ---- operations ----------------------------------------------------------------------------- */

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
        take_event(op->event);
    if (op->owned) {
        c->from = c->owned = malloc(op->bytes);
        memcpy(c->owned, op->owned, op->bytes);
    }
    return c;
}

void fake_op_free(struct op *op) {
    if (op->event)
        drop_event(op->event);
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
             us += us < 50)
            usleep(us);
}

static void set_memory(const struct op *op) {
    uint8_t *to = op->to; /* kernels may look at the same words */
    for (size_t i = 0; i < op->bytes; i += op->width)
        if (op->width == 4)
            __atomic_store_n((uint32_t *)(to + i), op->value, __ATOMIC_RELAXED);
        else
            __atomic_store_n(to + i, (uint8_t)op->value, __ATOMIC_RELAXED);
}

static CUresult fault_error(enum ptx_fault fault) {
    return fault == PTX_ILLEGAL_ADDRESS ? CUDA_ERROR_ILLEGAL_ADDRESS
           : fault == PTX_MISALIGNED    ? CUDA_ERROR_MISALIGNED_ADDRESS
           : fault == PTX_DEADLOCK      ? CUDA_ERROR_LAUNCH_TIMEOUT
                                        : CUDA_ERROR_LAUNCH_FAILED;
}

/* Processes take turns on a device, one kernel at a time: a GPU without MPS at its worst, for code
 * that must not rely on two processes' kernels running at once. Kernels of one process overlap. */
static struct {
    pthread_mutex_t lock;
    int fd, running;
} turns[MAX_DEVICES] = {[0 ... MAX_DEVICES - 1] = {PTHREAD_MUTEX_INITIALIZER, -1, 0}};

static void take_device(int device) {
    char path[80];
    pthread_mutex_lock(&turns[device].lock);
    if (turns[device].running++ == 0) {
        snprintf(path, sizeof path, "/tmp/fakecuda-%d-device%d.lock", (int)getuid(),
                 fake_settings()->physical[device]);
        turns[device].fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (turns[device].fd < 0 || flock(turns[device].fd, LOCK_EX) < 0)
            fake_say("cannot lock %s", path);
    }
    pthread_mutex_unlock(&turns[device].lock);
}

static void give_device(int device) {
    pthread_mutex_lock(&turns[device].lock);
    if (--turns[device].running == 0)
        close(turns[device].fd);
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
        fake_say("kernel %s done: %llu warp instructions", ptx_function_name(op->fn),
                 (unsigned long long)insns);
    if (!fault || ctx->destroyed)
        return;
    fake_say("kernel fault: %s", why);
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

/* ---- the thread of a stream
 * ----------------------------------------------------------------------- */

static void release_op(struct CUstream_st *s, struct op *op) {
    s->released = op->seq;
    if (s->hw)
        op->ticket = ++s->hw->queued;
}

/* FAKECUDA_LAZY: lets the stream's operations up to seq begin, and all that they wait for. */
static void flush_locked(struct CUstream_st *s, uint64_t seq) {
    if (s->released >= seq)
        return;
    for (struct op *op = s->head; op && op->seq <= seq; op = op->next) {
        if (op->seq <= s->released)
            continue;
        for (int i = 0; i < op->nwaits; i++)
            flush_locked(op->waits[i].stream, op->waits[i].seq);
        release_op(s, op);
    }
    pthread_cond_broadcast(&changed);
}

static void wait_locked(struct CUstream_st *s, uint64_t seq) {
    flush_locked(s, seq);
    while (s->done < seq)
        pthread_cond_wait(&changed, &lock);
}

/* May the stream's first operation begin? With hardware queues each is strictly first in, first
 * out: whatever entered the queue before must have ended, of whichever stream it was. */
static bool ready(const struct CUstream_st *s, const struct op *op) {
    if (s->released < op->seq || (s->hw && s->hw->done + 1 != op->ticket))
        return false;
    for (int i = 0; i < op->nwaits; i++)
        if (op->waits[i].stream->done < op->waits[i].seq)
            return false;
    return true;
}

static void jitter(void) {
    unsigned us = fake_settings()->jitter_us;
    static _Atomic uint32_t state = 1;
    if (us)
        usleep((atomic_fetch_add(&state, 0x9e3779b9u) * 2654435761u >> 8) % us);
}

static void *stream_main(void *arg) {
    struct CUstream_st *s = arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!s->head && !s->destroyed)
            pthread_cond_wait(&changed, &lock);
        struct op *op = s->head;
        if (!op)
            break;
        while (!ready(s, op))
            pthread_cond_wait(&changed, &lock);
        s->head = op->next;
        if (!s->head)
            s->tail = &s->head;
        pthread_mutex_unlock(&lock);
        jitter();
        fake_run_op(s->ctx, op);
        pthread_mutex_lock(&lock);
        s->done = op->seq;
        if (s->hw)
            s->hw->done = op->ticket;
        fake_op_free(op);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static struct CUstream_st *new_stream(CUcontext ctx, bool non_blocking, int priority) {
    struct CUstream_st *s = calloc(1, sizeof *s);
    s->ctx = ctx;
    s->non_blocking = non_blocking;
    s->priority = priority;
    s->tail = &s->head;
    if (fake_settings()->queues)
        s->hw = &ctx->hw[ctx->streams_made++ % fake_settings()->queues];
    if (pthread_create(&s->thread, NULL, stream_main, s)) {
        free(s);
        return NULL;
    }
    s->next = streams;
    streams = s;
    return s;
}

static struct CUstream_st *resolve_locked(CUstream stream) {
    if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD)
        return stream;
    CUcontext ctx = fake_current();
    if (!legacy[ctx->device]) {
        legacy[ctx->device] = new_stream(ctx, false, 0);
        legacy[ctx->device]->legacy = true;
    }
    if (legacy[ctx->device]->ctx != ctx)
        legacy[ctx->device]->ctx = ctx;
    return legacy[ctx->device];
}

/* ---- submission
 * ------------------------------------------------------------------------------------- */

static void add_wait(struct op *op, struct CUstream_st *s, uint64_t seq) {
    if (s->done >= seq)
        return;
    if (op->nwaits == MAX_WAITS) {
        fprintf(stderr, "fake_cuda: more than %d waits in one operation\n", MAX_WAITS);
        abort();
    }
    op->waits[op->nwaits].stream = s;
    op->waits[op->nwaits++].seq = seq;
}

/* The legacy stream waits for all blocking streams of its context, and they wait for it. */
static void legacy_waits(struct CUstream_st *s, struct op *op) {
    for (struct CUstream_st *o = streams; o; o = o->next)
        if (o != s && o->ctx == s->ctx && !o->non_blocking && (s->legacy || o->legacy) &&
            !s->non_blocking)
            add_wait(op, o, o->queued);
}

static void queue_locked(struct CUstream_st *s, struct op *op) {
    legacy_waits(s, op);
    op->seq = ++s->queued;
    *s->tail = op;
    s->tail = &op->next;
    if (!fake_settings()->lazy)
        release_op(s, op);
    pthread_cond_broadcast(&changed);
}

static void append_graph(struct CUgraph_st *g, struct op *op) {
    op->nwaits = 0;
    *g->tail = op;
    g->tail = &op->next;
    g->count++;
}

/* The legacy stream would wait for blocking streams of its context that capture: use spoils these
 * captures, a question does not. */
static bool implicit_in_capture(const struct CUstream_st *legacy_stream, bool use) {
    bool found = false;
    for (struct CUstream_st *s = streams; s; s = s->next) {
        if (!s->capture || s->non_blocking || s->ctx != legacy_stream->ctx)
            continue;
        found = true;
        s->capture->invalid |= use;
    }
    return found;
}

static CUresult submit_locked(struct CUstream_st *s, struct op *op) {
    if (s->legacy && implicit_in_capture(s, true)) {
        fake_op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!s->capture) {
        queue_locked(s, op);
        return CUDA_SUCCESS;
    }
    if (s->capture->invalid) {
        fake_op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    s->unjoined = s != s->capture->origin;
    append_graph(s->capture->graph, op);
    return CUDA_SUCCESS;
}

CUresult fake_submit(CUstream stream, struct op *op) {
    pthread_mutex_lock(&lock);
    CUresult r = submit_locked(resolve_locked(stream), op);
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult fake_submit_and_wait(CUstream stream, struct op *op) {
    pthread_mutex_lock(&lock);
    struct CUstream_st *s = resolve_locked(stream);
    CUresult r = submit_locked(s, op);
    if (!r && !s->capture)
        wait_locked(s, s->queued);
    pthread_mutex_unlock(&lock);
    return r ? r : (CUresult)fake_current()->error;
}

CUresult fake_sync_context(CUcontext ctx) {
    pthread_mutex_lock(&lock);
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->ctx == ctx)
            wait_locked(s, s->queued);
    pthread_mutex_unlock(&lock);
    return (CUresult)ctx->error;
}

static bool is_default(CUstream stream) {
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

bool fake_capturing(CUstream stream) {
    return !is_default(stream) && stream->capture;
}

CUcontext fake_stream_context(CUstream stream) {
    return is_default(stream) ? NULL : stream->ctx;
}

CUresult fake_capture_conflict(CUcontext ctx) {
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->ctx == ctx && s->capture) {
            s->capture->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- stream calls
 * -------------------------------------------------------------------------------------- */

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
    ENTER(true);
    if (!out || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    *out = new_stream(fake_current(), flags & CU_STREAM_NON_BLOCKING, priority);
    pthread_mutex_unlock(&lock);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuStreamCreate(CUstream *out, unsigned flags) {
    return cuStreamCreateWithPriority(out, flags, 0);
}

/* Returns at once; the stream's thread ends when its queue is empty. The struct is never freed. */
CUresult CUDAAPI cuStreamDestroy(CUstream s) {
    ENTER(true);
    if (!s || s->destroyed)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    s->destroyed = true;
    flush_locked(s, s->queued);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_detach(s->thread);
    return CUDA_SUCCESS;
}

static CUresult refuse_if_capturing(CUstream s) {
    if (!fake_capturing(s))
        return CUDA_SUCCESS;
    s->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
    ENTER(true);
    CUresult r = refuse_if_capturing(stream);
    if (r)
        return r;
    UNSAFE_IN_CAPTURE;
    pthread_mutex_lock(&lock);
    struct CUstream_st *s = resolve_locked(stream);
    if (s->legacy) /* what blocking streams queued before counts too */
        queue_locked(s, fake_op(OP_NOP));
    wait_locked(s, s->queued);
    pthread_mutex_unlock(&lock);
    return (CUresult)s->ctx->error;
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
    ENTER(true);
    CUresult r = refuse_if_capturing(stream);
    if (r)
        return r;
    UNSAFE_IN_CAPTURE;
    pthread_mutex_lock(&lock);
    struct CUstream_st *s = resolve_locked(stream);
    flush_locked(s, s->queued);
    bool busy = s->done < s->queued;
    pthread_mutex_unlock(&lock);
    return s->ctx->error ? (CUresult)s->ctx->error : busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetFlags(CUstream s, unsigned *flags) {
    ENTER(true);
    *flags = s && s->non_blocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetPriority(CUstream s, int *priority) {
    ENTER(true);
    *priority = s ? s->priority : 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream s, CUcontext *ctx) {
    ENTER(true);
    *ctx = s ? s->ctx : fake_current();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg) {
    ENTER(true);
    struct op *op = fake_op(OP_HOST);
    op->host_fn = fn;
    op->host_arg = arg;
    return fake_submit(stream, op);
}

/* ---- memory operations on streams
 * ----------------------------------------------------------------------- */

static CUresult check_memop(const CUstreamBatchMemOpParams *p) {
    bool wide = false;
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        wide = true; /* fall through */
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: {
        struct mem m;
        bool ok = fake_find(p->waitValue.address, &m) && m.kind != MEM_MANAGED &&
                  p->waitValue.address % (wide ? 8 : 4) == 0 &&
                  fake_is_device(p->waitValue.address, wide ? 8 : 4) &&
                  fake_reachable(fake_current(), p->waitValue.address);
        return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult submit_memops(CUstream stream, unsigned n, const CUstreamBatchMemOpParams *p) {
    if (n == 0 || n > 255)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        CUresult r = check_memop(&p[i]);
        if (r)
            return r;
    }
    struct op *op = fake_op(OP_MEMOPS);
    op->memops = malloc(n * sizeof *p);
    memcpy(op->memops, p, n * sizeof *p);
    op->nmemops = n;
    return fake_submit(stream, op);
}

CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned n, CUstreamBatchMemOpParams *p,
                                    unsigned flags) {
    ENTER(true);
    return flags ? CUDA_ERROR_INVALID_VALUE : submit_memops(stream, n, p);
}

static CUresult one_memop(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr addr,
                          uint64_t value, unsigned flags) {
    CUstreamBatchMemOpParams p;
    memset(&p, 0, sizeof p);
    p.waitValue.operation = type;
    p.waitValue.address = addr;
    p.waitValue.value64 = value;
    p.waitValue.flags = flags;
    return submit_memops(stream, 1, &p);
}

CUresult CUDAAPI cuStreamWriteValue32(CUstream s, CUdeviceptr addr, cuuint32_t value,
                                      unsigned flags) {
    ENTER(true);
    return one_memop(s, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue64(CUstream s, CUdeviceptr addr, cuuint64_t value,
                                      unsigned flags) {
    ENTER(true);
    return one_memop(s, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue32(CUstream s, CUdeviceptr addr, cuuint32_t value,
                                     unsigned flags) {
    ENTER(true);
    return one_memop(s, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue64(CUstream s, CUdeviceptr addr, cuuint64_t value,
                                     unsigned flags) {
    ENTER(true);
    return one_memop(s, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}

/* ---- events
 * ------------------------------------------------------------------------------------------------
 */

CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned flags) {
    ENTER(true);
    *out = calloc(1, sizeof **out);
    (*out)->flags = flags;
    (*out)->refs = 1;
    return CUDA_SUCCESS;
}

/* Never waits: an operation that still has to stamp the event keeps its memory. */
CUresult CUDAAPI cuEventDestroy(CUevent e) {
    ENTER(false);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    drop_event(e);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent e, CUstream stream) {
    ENTER(true);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    struct op *op = fake_op(OP_STAMP);
    op->event = take_event(e);
    pthread_mutex_lock(&lock);
    struct CUstream_st *s = resolve_locked(stream);
    set_capture(e, s->capture);
    CUresult r = CUDA_SUCCESS;
    if (s->capture)
        fake_op_free(op);
    else
        r = submit_locked(s, op);
    e->stream = s;
    e->seq = s->queued;
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent e, CUstream stream, unsigned flags) {
    return flags ? CUDA_ERROR_NOT_SUPPORTED : cuEventRecord(e, stream);
}

/* The event of a capture can neither be queried nor waited for, in any mode of the thread. */
static CUresult refuse_captured(CUevent e) {
    pthread_mutex_lock(&lock);
    bool captured = e->capture != NULL;
    if (captured)
        e->capture->invalid = true;
    pthread_mutex_unlock(&lock);
    return captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventQuery(CUevent e) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = refuse_captured(e);
    if (r)
        return r;
    pthread_mutex_lock(&lock);
    if (e->stream)
        flush_locked(e->stream, e->seq);
    bool busy = e->stream && e->stream->done < e->seq;
    pthread_mutex_unlock(&lock);
    return fake_current()->error ? (CUresult)fake_current()->error
           : busy                ? CUDA_ERROR_NOT_READY
                                 : CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventSynchronize(CUevent e) {
    ENTER(true);
    UNSAFE_IN_CAPTURE;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = refuse_captured(e);
    if (r)
        return r;
    pthread_mutex_lock(&lock);
    if (e->stream)
        wait_locked(e->stream, e->seq);
    pthread_mutex_unlock(&lock);
    return (CUresult)fake_current()->error;
}

CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
    ENTER(true);
    *ms = (float)((double)(b->when.tv_sec - a->when.tv_sec) * 1e3 +
                  (double)(b->when.tv_nsec - a->when.tv_nsec) / 1e6);
    return CUDA_SUCCESS;
}

/* Waiting for an event of a capture draws the stream into that capture. */
static CUresult wait_captured(struct CUstream_st *s, CUevent e) {
    if (s->capture && (!e->capture || !e->capture->graph)) /* of no capture that goes on */
        return s->capture->invalid = true, CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (!e->capture->graph)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (s->capture && s->capture != e->capture)
        return e->capture->invalid = true, CUDA_ERROR_STREAM_CAPTURE_MERGE;
    if (s != e->stream)
        e->stream->unjoined = false;
    if (!s->capture) {
        s->capture = e->capture;
        s->unjoined = true;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent e, unsigned flags) {
    ENTER(true);
    (void)flags;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct CUstream_st *s = resolve_locked(stream);
    if (e->capture || s->capture)
        r = wait_captured(s, e);
    else if (e->stream) {
        struct op *op = fake_op(OP_NOP);
        add_wait(op, e->stream, e->seq);
        queue_locked(s, op);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- capture and graphs
 * -------------------------------------------------------------------------------------- */

/* A GLOBAL capture anywhere, or a THREAD_LOCAL one of this thread, forbids unsafe calls to threads
 * that did not relax their mode. */
CUresult fake_unsafe_in_capture(void) {
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (struct capture *c = captures; c && thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
         c = c->next) {
        bool mine = pthread_equal(c->thread, pthread_self());
        bool global = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                      thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (global || (mine && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED)) {
            c->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    ENTER(false);
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

static struct CUgraph_st *new_graph(void) {
    struct CUgraph_st *g = calloc(1, sizeof *g);
    g->tail = &g->head;
    return g;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode) {
    ENTER(true);
    if (!s || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *c = calloc(1, sizeof *c);
    pthread_mutex_lock(&lock);
    *c = (struct capture){new_graph(), mode, s, next_capture++, false, pthread_self(), captures, 1};
    captures = s->capture = c;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static void free_ops(struct CUgraph_st *g) {
    for (struct op *op = g->head, *next; op; op = next) {
        next = op->next;
        fake_op_free(op);
    }
}

static void drop_graph(struct CUgraph_st *g) {
    free_ops(g);
    free(g);
}

static bool leave_capture(struct capture *c) {
    bool unjoined = false;
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->capture == c) {
            unjoined |= s != c->origin && s->unjoined;
            s->capture = NULL;
            s->unjoined = false;
        }
    for (struct capture **p = &captures; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    return unjoined;
}

/* Gives the graph out, or drops it. Events recorded in the capture may still point to the struct.
 */
static CUresult finish_capture(struct capture *c, bool unjoined, CUgraph *out) {
    CUresult r = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                 : unjoined ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                            : CUDA_SUCCESS;
    *out = r ? NULL : c->graph;
    if (r)
        drop_graph(c->graph);
    c->graph = NULL;
    drop_capture(c);
    return r;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream s, CUgraph *out) {
    ENTER(true);
    if (!s || !s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *c = s->capture;
    if (c->origin != s)
        return c->invalid = true, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    pthread_mutex_lock(&lock);
    bool unjoined = leave_capture(c);
    CUresult r = finish_capture(c, unjoined, out);
    pthread_mutex_unlock(&lock);
    return r;
}

static bool legacy_is_unusable(CUstream s) {
    pthread_mutex_lock(&lock);
    const struct CUstream_st *stream = resolve_locked(s);
    bool unusable = stream->legacy && implicit_in_capture(stream, false);
    pthread_mutex_unlock(&lock);
    return unusable;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
    ENTER(true);
    if (legacy_is_unusable(s))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = !fake_capturing(s)    ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

static CUresult capture_info(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph) {
    CUresult r = cuStreamIsCapturing(s, status);
    if (!r && fake_capturing(s)) {
        if (id)
            *id = s->capture->id;
        if (graph)
            *graph = s->capture->graph;
    }
    return r;
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                           size_t *ndeps) {
    (void)deps;
    if (ndeps)
        *ndeps = 0;
    return capture_info(s, status, id, graph);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                           const CUgraphEdgeData **edges, size_t *ndeps) {
    (void)edges;
    return cuStreamGetCaptureInfo_v2(s, status, id, graph, deps, ndeps);
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                             unsigned long long flags) {
    ENTER(true);
    (void)flags;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec exec = calloc(1, sizeof *exec);
    exec->ops.tail = &exec->ops.head;
    for (struct op *op = graph->head; op; op = op->next)
        append_graph(&exec->ops, fake_op_copy(op));
    *out = exec;
    return CUDA_SUCCESS;
}

/* Nodes run one after the other in capture order, which is one of the orders that CUDA may choose.
 */
CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    ENTER(true);
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct CUstream_st *s = resolve_locked(stream);
    for (struct op *op = exec->ops.head; op && !r; op = op->next)
        r = submit_locked(s, fake_op_copy(op));
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
    ENTER(true);
    (void)nodes;
    *n = graph->count;
    return nodes ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
    ENTER(false);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    drop_graph(graph);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
    ENTER(false);
    free_ops(&exec->ops);
    free(exec);
    return CUDA_SUCCESS;
}
