/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill -9 of a rank at a random moment during operations on device memory. The other ranks report
 * the killed rank, start no further operation on its memory, and close their imports of it. Memory
 * that they allocate afterwards is not shared, and is free when they free it.
 *
 *     killed_rank_memory RUNS [SEED [WITHIN_MS]]
 *
 * The error must come within WITHIN_MS of the kill (default 20000).
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "stream_bench.h"
#include "emulator_counts.h"

enum { BLOCK = 9001 * 4, AFTERWARDS = 20, SECONDS = 60 };

/* Shared by the processes of a run. */
struct run {
    int victim;
    unsigned after_us; /* delay after the first operation */
    bool late;         /* the delay starts once the planes are up */
    uint64_t seed;
    int64_t within_ms;
    _Atomic int64_t killed_ns;
};
static struct run *run;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* In the victim: a child becomes the rank. rcm_spawn waits for its parent, which exits with 0 if
 * the child was killed. */
static void step_aside(int rank) {
    if (rank != run->victim)
        return;
    const pid_t child = fork();
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    else {
        int status;
        (void)!waitpid(child, &status, 0);
        _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : 1);
    }
}

static void *kill_later(void *arg) {
    (void)arg;
    usleep(run->after_us);
    atomic_store(&run->killed_ns, now_ns());
    kill(getpid(), SIGKILL);
    return NULL;
}

static rcm_status one(struct bench *b, unsigned i) {
    const struct rcm_call call = {.size = sizeof call, .stream = i % 3 ? b->stream : NULL};
    const uint64_t draw = (run->seed + i) * 0x9e3779b97f4a7c15u >> 16;
    b->dtype = RCM_INT32;
    b->count = draw & 1 ? 9001 : 100;
    return bench_operations[draw / 2 % bench_operations_count].call(b, b->in, b->out, &call);
}

/* No access to memory of the dead rank after the error. */
static int check_afterwards(struct bench *b) {
    int errors = 0;
    usleep(20000); /* operations that started before the error end */
    const uint64_t before = emulator_counts().dead;
    for (unsigned i = 0; i < AFTERWARDS; i++)
        CHECK(errors, one(b, i) == RCM_ERR_PEER, "a call afterwards: %s", rcm_last_error());
    usleep(20000);
    CHECK(errors, emulator_counts().dead == before, "%llu accesses to memory of a dead rank",
          (unsigned long long)(emulator_counts().dead - before));
    return errors;
}

/* A block of its own, because it is large. */
static bool is_freed(const struct bench *b, int *errors) {
    enum rcmi_cuda_pointer_attribute name = RCMI_CUDA_POINTER_BUFFER_ID;
    uint64_t before = 0, after = 0;
    void *memory = NULL, *values[] = {&before};
    CHECK(*errors, rcm_mem_alloc_kind(b->comm, RCM_MEM_DEVICE, 8 << 20, &memory) == RCM_OK, "%s",
          rcm_last_error());
    if (!memory)
        return true;
    const rcmi_cuda_address at = (rcmi_cuda_address)(uintptr_t)memory;
    CHECK(*errors, b->cuda->cuPointerGetAttributes(1, &name, values, at) == RCMI_CUDA_SUCCESS,
          "the driver does not find the memory");
    CHECK(*errors, rcm_mem_free(b->comm, memory) == RCM_OK, "%s", rcm_last_error());
    values[0] = &after;
    return b->cuda->cuPointerGetAttributes(1, &name, values, at) != RCMI_CUDA_SUCCESS ||
           after != before;
}

/* Memory exported before the error stays allocated, possibly the first blocks too. Later memory is
 * freed. */
static int check_freed(const struct bench *b) {
    const int64_t end = now_ns() + SECONDS * INT64_C(1000000000);
    int errors = 0;
    bool freed = false;
    while (!(freed = is_freed(b, &errors)) && errors == 0 && now_ns() < end)
        usleep(1000);
    CHECK(errors, freed, "rank %d: no memory is freed after a rank has died", rcm_rank(b->comm));
    return errors;
}

static int check_error(const struct bench *b) {
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    const int64_t ms = (now_ns() - atomic_load(&run->killed_ns)) / 1000000;
    (void)!rcm_comm_error(b->comm, &error);
    CHECK(errors, error.status == RCM_ERR_PEER && error.origin == run->victim, "rank %d: %s",
          rcm_rank(b->comm), error.text);
    CHECK(errors, ms < run->within_ms, "rank %d: named after %lld ms", rcm_rank(b->comm),
          (long long)ms);
    return errors;
}

static rcm_status planes_up(struct bench *b) {
    b->dtype = RCM_INT32;
    b->count = 9001;
    return bench_operations[0].call(b, b->in, b->out, NULL);
}

static int check(rcm_comm *comm, void *arg) {
    struct bench b;
    pthread_t killer;
    int errors = bench_begin(&b, comm, BLOCK);
    rcm_status status = run->late ? planes_up(&b) : RCM_OK;
    (void)arg;
    CHECK(errors, status == RCM_OK, "%s", rcm_last_error());
    if (rcm_rank(comm) == run->victim && pthread_create(&killer, NULL, kill_later, NULL) != 0)
        abort();
    for (unsigned i = 0; status == RCM_OK; i++)
        status = one(&b, i);
    if (status == RCM_ERR_PEER)
        (void)!rcm_barrier(comm, NULL, NULL);
    errors += check_error(&b) + check_afterwards(&b) + check_freed(&b);
    errors += bench_end(&b);
    (void)!rcm_destroy(comm);
    CHECK(errors, emulator_counts().imports == 0, "%llu imports are still open",
          (unsigned long long)emulator_counts().imports);
    return errors;
}

static int one_run(unsigned i, uint64_t seed) {
    const struct ranks ranks = {.n = 2 + (int)((seed >> 8 & 0xff) % 3),
                                .transport = "auto",
                                .timeout_ms = 60000,
                                .keep = true,
                                .before = step_aside};
    char devices[8];
    run->victim = (int)((seed >> 16 & 0xff) % (unsigned)ranks.n);
    run->after_us = (unsigned)(seed >> 24) % 60000;
    run->late = i % 2 == 0;
    run->seed = seed;
    atomic_store(&run->killed_ns, INT64_MAX);
    snprintf(devices, sizeof devices, "%d", seed % 2 ? 1 : 4);
    setenv("FAKECUDA_DEVICES", devices, 1);
    const int errors = ranks_run(&ranks, check, NULL);
    if (errors)
        printf("FAILED: run %u: rank %d of %d is killed after %u us\n", i, run->victim, ranks.n,
               run->after_us);
    return errors;
}

int main(int argc, char **argv) {
    int failed = 0;
    run = mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc < 2 || run == MAP_FAILED)
        return 2;
    setenv("RINGCOMM_SLOT_BYTES", "16384", 0);
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    run->within_ms = argc > 3 ? atoi(argv[3]) : 20000;
    for (unsigned i = 0; i < (unsigned)atoi(argv[1]); i++)
        failed += one_run(i, ((seed + i) * 0x9e3779b97f4a7c15u) >> 16 ^ i) != 0;
    return failed > 0;
}
