/* SPDX-License-Identifier: BSD-3-Clause */
/* See job.h. */
#include "job.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "processor_delay.h"

/* Each thread copies every 32nd byte. */
static const char ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry move(.param .u64 to, .param .u64 from, .param .u32 len) {\n"
    "  .reg .b64 %rd<8>; .reg .b32 %r<4>; .reg .b16 %rs<2>; .reg .pred %p<2>;\n"
    "  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from]; ld.param.u32 %r1, [len];\n"
    "  mov.u32 %r2, %tid.x;\n"
    "loop:\n"
    "  setp.ge.u32 %p1, %r2, %r1;\n"
    "  @%p1 bra end;\n"
    "  cvt.u64.u32 %rd3, %r2; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;\n"
    "  ld.global.u8 %rs1, [%rd5];\n"
    "  st.global.u8 [%rd4], %rs1;\n"
    "  add.u32 %r2, %r2, 32;\n"
    "  bra loop;\n"
    "end:\n"
    "  ret;\n}\n"
    ".visible .entry gate(.param .u64 flag, .param .u64 to, .param .u64 from, .param .u32 len) {\n"
    "  .reg .b64 %rd<8>; .reg .b32 %r<5>; .reg .b16 %rs<2>; .reg .pred %p<2>;\n"
    "  ld.param.u64 %rd6, [flag]; ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];\n"
    "  ld.param.u32 %r1, [len];\n"
    "closed:\n"
    "  ld.volatile.global.u32 %r3, [%rd6];\n"
    "  setp.eq.u32 %p1, %r3, 0;\n"
    "  @%p1 bra closed;\n"
    "  mov.u32 %r2, %tid.x;\n"
    "loop:\n"
    "  setp.ge.u32 %p1, %r2, %r1;\n"
    "  @%p1 bra end;\n"
    "  cvt.u64.u32 %rd3, %r2; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;\n"
    "  ld.global.u8 %rs1, [%rd5];\n"
    "  st.global.u8 [%rd4], %rs1;\n"
    "  add.u32 %r2, %r2, 32;\n"
    "  bra loop;\n"
    "end:\n"
    "  ret;\n}\n";

void must_cuda(CUresult code, const char *what) {
    const char *name = "?";
    if (code == CUDA_SUCCESS)
        return;
    (void)cuGetErrorName(code, &name);
    fprintf(stderr, "test/nccl: %s: %s\n", what, name);
    abort();
}

static void must(rcm_status status, const char *what) {
    if (status == RCM_OK)
        return;
    fprintf(stderr, "test/nccl: %s: %s\n", what, rcm_last_error());
    abort();
}

const char *nccl_text(ncclResult_t result) {
    static _Thread_local char text[1024];
    snprintf(text, sizeof text, "%d, %s; last error: %s", (int)result, ncclGetErrorString(result),
             ncclGetLastError(NULL));
    return text;
}

int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Devices --------------------------------------------------------------------------------- */

void rank_enter(const struct rank *rank) {
    CUDA(cuCtxSetCurrent(rank->context));
}

static void rank_open_device(struct rank *rank) {
    int n;
    CUDA(cuInit(0));
    CUDA(cuDeviceGetCount(&n));
    rank->device = rank->rank % n;
    CUDA(cuDevicePrimaryCtxRetain(&rank->context, rank->device));
    rank_enter(rank);
    for (int i = 0; i < STREAMS; i++)
        CUDA(cuStreamCreate(&rank->streams[i], CU_STREAM_NON_BLOCKING));
    CUDA(cuModuleLoadData(&rank->module, ptx));
    CUDA(cuModuleGetFunction(&rank->gate, rank->module, "gate"));
    CUDA(cuModuleGetFunction(&rank->move, rank->module, "move"));
}

CUdeviceptr device_copy(const void *bytes, size_t len) {
    CUdeviceptr memory;
    CUDA(cuMemAlloc(&memory, len > 0 ? len : 1));
    if (len > 0)
        CUDA(cuMemcpyHtoD(memory, bytes, len));
    return memory;
}

bool stream_ends(CUstream stream, int ms) {
    for (int i = 0; i <= ms; i++) {
        const CUresult code = cuStreamQuery(stream);
        if (code != CUDA_ERROR_NOT_READY) {
            CUDA(code);
            return true;
        }
        usleep(1000);
    }
    return false;
}

void *pinned_new(size_t len) {
    void *memory;
    CUDA(cuMemHostAlloc(&memory, len, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memset(memory, 0, len);
    return memory;
}

void launch_gate(const struct rank *rank, CUstream stream, const volatile uint32_t *flag,
                 CUdeviceptr to, CUdeviceptr from, uint32_t len) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)flag;
    void *parameters[] = {&at, &to, &from, &len};
    CUDA(cuLaunchKernel(rank->gate, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

void launch_move(const struct rank *rank, CUstream stream, CUdeviceptr to, CUdeviceptr from,
                 uint32_t len) {
    void *parameters[] = {&to, &from, &len};
    CUDA(cuLaunchKernel(rank->move, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

ncclUniqueId job_id(const struct job *job) {
    ncclUniqueId id;
    if (job->ranks[0].rank == 0 && ncclGetUniqueId(&id) != ncclSuccess)
        abort();
    if (job->nlocal < job->n)
        must(rcm_broadcast(job->ranks[0].host, &id, sizeof id, RCM_UINT8, 0, NULL, NULL), "id");
    return id;
}

void job_barrier(const struct job *job) {
    if (job->nlocal < job->n)
        must(rcm_barrier(job->ranks[0].host, NULL, NULL), "barrier");
}

int job_make_communicators(struct job *job) {
    const ncclUniqueId id = job_id(job);
    int errors = 0;
    NCCL_OK(errors, ncclGroupStart());
    for (int i = 0; i < job->nlocal; i++) {
        rank_enter(&job->ranks[i]);
        NCCL_OK(errors, ncclCommInitRank(&job->ranks[i].comm, job->n, id, job->ranks[i].rank));
    }
    NCCL_OK(errors, ncclGroupEnd());
    return errors;
}

static int with_communicators(struct job *job, int (*fn)(struct job *job)) {
    int errors = job_make_communicators(job);
    if (errors == 0)
        errors += fn(job);
    for (int i = 0; i < job->nlocal; i++)
        if (job->ranks[i].comm)
            NCCL_OK(errors, ncclCommDestroy(job->ranks[i].comm));
    return errors;
}

struct start {
    int n;
    bool bare;
    int (*fn)(struct job *job);
};

static int job_of(const struct start *start, struct job *job) {
    for (int i = 0; i < job->nlocal; i++)
        rank_open_device(&job->ranks[i]);
    const int errors = start->bare ? start->fn(job) : with_communicators(job, start->fn);
    for (int i = 0; i < job->nlocal && errors == 0; i++) {
        rank_enter(&job->ranks[i]);
        CUDA(cuModuleUnload(job->ranks[i].module));
    }
    return errors;
}

static int process_main(int rank, void *arg) {
    const struct start *start = arg;
    struct job job = {.n = start->n, .nlocal = 1};
    job.ranks[0].rank = rank;
    delays_join(rank);
    must(rcm_init(NULL, &job.ranks[0].host), "rcm_init");
    int errors = job_of(start, &job);
    if (errors == 0)
        must(rcm_destroy(job.ranks[0].host), "rcm_destroy");
    return errors > 100 ? 100 : errors;
}

static void survivor_main(const struct start *start, int rank, const char *url) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct job job = {.n = start->n, .nlocal = 1};
    options.url = url;
    options.rank = job.ranks[0].rank = rank;
    options.world_size = start->n;
    delays_join(rank);
    must(rcm_init(&options, &job.ranks[0].host), "rcm_init");
    _exit(job_of(start, &job) > 0);
}

int job_run_survivors(int n, int (*fn)(struct job *job)) {
    const struct start start = {.n = n, .fn = fn};
    char path[] = "/tmp/nccl-ranks-XXXXXX", url[64];
    const int file = mkstemp(path);
    int errors = file < 0, status;
    delays_share();
    snprintf(url, sizeof url, "file://%s?world_size=%d", path, n);
    for (int rank = 0; rank < n; rank++) {
        const pid_t pid = fork();
        if (pid == 0)
            survivor_main(&start, rank, url);
        errors += pid < 0;
    }
    while (wait(&status) > 0)
        errors += status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(file);
    unlink(path);
    return errors;
}

static int one_thread_main(const struct start *start) {
    struct job job = {.n = start->n, .nlocal = start->n};
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_init_request *requests[RANKS_MAX];
    must(rcm_store_open("hash:", 1000, &options.store), "store");
    options.world_size = start->n;
    for (options.rank = 0; options.rank < start->n; options.rank++)
        must(rcm_init_begin(&options, &requests[options.rank]), "rcm_init_begin");
    for (int r = 0; r < start->n; r++) {
        job.ranks[r].rank = r;
        must(rcm_init_wait(requests[r], -1, &job.ranks[r].host), "rcm_init_wait");
        rcm_init_cancel(requests[r]);
    }
    const int errors = job_of(start, &job);
    for (int r = 0; r < start->n; r++)
        must(rcm_leave(job.ranks[r].host), "rcm_leave");
    rcm_store_close(options.store);
    return errors;
}

static int run(struct start start, bool one_thread) {
    int failed, status;
    if (one_thread)
        return one_thread_main(&start);
    delays_share();
    if (rcm_spawn(start.n, process_main, &start, 240000, &failed, &status) == RCM_OK)
        return 0;
    fprintf(stderr, "%d processes: %s (rank %d, exit %d)\n", start.n, rcm_last_error(), failed,
            status);
    return 1;
}

int job_run(int n, bool one_thread, int (*fn)(struct job *job)) {
    return run((struct start){.n = n, .fn = fn}, one_thread);
}

int job_run_bare(int n, bool one_thread, int (*fn)(struct job *job)) {
    return run((struct start){.n = n, .fn = fn, .bare = true}, one_thread);
}
