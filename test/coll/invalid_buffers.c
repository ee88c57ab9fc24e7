/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank passes a buffer that is not mapped, or not writable.
 *
 *     invalid_buffers kernel tcp N   cases that the kernel detects: RCM_ERR_INVALID on all ranks,
 *                                    the calling rank is the origin, and all go on after a shrink
 *     invalid_buffers any shm|tcp N  all cases: RCM_ERR_INVALID, or (within a host always) a signal
 *                                    in the calling process, whose death the others name
 */
#include "ranks.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Signals must stay signals under the address sanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "handle_segv=0:handle_sigbus=0";
}

enum what { SEND, RECV, ROOT, LEAF, SUM_IN, SUM_OUT };

/* A buffer of `bytes` bytes. The first `good` bytes are normal memory, the rest has
 * `protection`. */
static const struct kase {
    const char *name;
    enum what what;
    size_t bytes, good;
    int protection; /* of the rest */
    enum how { BLOCKING, WAIT, POLL } how;
    bool kernel; /* over tcp the kernel detects it in every run */
} cases[] = {
    {"send small", SEND, 1000, 0, PROT_NONE, BLOCKING, false},
    {"send eagerly", SEND, 20000, 0, PROT_NONE, BLOCKING, true},
    {"send eagerly, wait", SEND, 200000, 0, PROT_NONE, WAIT, true},
    {"send eagerly, poll", SEND, 200000, 0, PROT_NONE, POLL, true},
    {"send half eagerly", SEND, 200000, 98304, PROT_NONE, BLOCKING, true},
    {"send half eagerly, poll", SEND, 200000, 98304, PROT_NONE, POLL, true},
    {"send large", SEND, 4 << 20, 0, PROT_NONE, BLOCKING, true},
    {"send large, wait", SEND, 4 << 20, 0, PROT_NONE, WAIT, true},
    {"send large, poll", SEND, 4 << 20, 0, PROT_NONE, POLL, true},
    {"send half large", SEND, 4 << 20, 3 << 20, PROT_NONE, BLOCKING, true},
    {"send half large, poll", SEND, 4 << 20, 3 << 20, PROT_NONE, POLL, true},
    {"receive small", RECV, 1000, 0, PROT_NONE, BLOCKING, false},
    {"receive eagerly", RECV, 20000, 0, PROT_READ, BLOCKING, false},
    {"receive large", RECV, 4 << 20, 0, PROT_NONE, BLOCKING, false},
    {"receive large, read-only", RECV, 4 << 20, 0, PROT_READ, BLOCKING, false},
    {"receive the end", RECV, 4 << 20, 3 << 20, PROT_NONE, POLL, false},
    {"receive half large", RECV, 4 << 20, 131072, PROT_NONE, BLOCKING, true},
    {"receive half large, wait", RECV, 4 << 20, 131072, PROT_READ, WAIT, true},
    {"receive half large, poll", RECV, 4 << 20, 131072, PROT_READ, POLL, true},
    {"root small", ROOT, 1000, 0, PROT_NONE, BLOCKING, false},
    {"root", ROOT, 100000, 0, PROT_NONE, BLOCKING, true},
    {"root, poll", ROOT, 100000, 0, PROT_NONE, POLL, true},
    {"root half", ROOT, 100000, 65536, PROT_NONE, BLOCKING, true},
    {"root large", ROOT, 4 << 20, 0, PROT_NONE, WAIT, true},
    {"root half large", ROOT, 4 << 20, 3 << 20, PROT_NONE, BLOCKING, true},
    {"leaf small", LEAF, 1000, 0, PROT_READ, BLOCKING, false},
    {"leaf large", LEAF, 4 << 20, 0, PROT_READ, BLOCKING, false},
    {"leaf half large", LEAF, 4 << 20, 2 << 20, PROT_NONE, POLL, false},
    {"sum small", SUM_IN, 1000, 0, PROT_NONE, BLOCKING, false},
    {"sum large", SUM_IN, 4 << 20, 0, PROT_NONE, BLOCKING, false},
    {"sum into small", SUM_OUT, 1000, 0, PROT_READ, BLOCKING, false},
    {"sum into large", SUM_OUT, 4 << 20, 2 << 20, PROT_READ, POLL, false},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]), MOST = 4 << 20, AT_ONCE = 8 };

static const char *const operations[] = {"send",      "recv",       "broadcast",
                                         "broadcast", "all_reduce", "all_reduce"};

/* How many ranks named the origin, shared by all processes of a job. In main: one counter per
 * job. */
static _Atomic int *named;
static const char *transport;

static int guilty(const struct kase *kase) {
    return kase->what == SEND || kase->what == ROOT || kase->what == SUM_IN ? 0 : 1;
}

/* ---- One operation --------------------------------------------------------------------------- */

/* Memory for one buffer, with the protection of the case if `bad`. */
static uint8_t *buffer_make(const struct kase *kase, bool bad) {
    uint8_t *memory = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED ||
        (bad && mprotect(memory + kase->good, MOST - kase->good, kase->protection) != 0))
        abort();
    return memory;
}

/* Ends an operation that was begun. */
static rcm_status work_end(rcm_work *work, enum how how) {
    rcm_status status;
    while (how == POLL && (status = rcm_work_status(work)) == RCM_PENDING)
        usleep(100);
    status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    return status;
}

static rcm_status issue(const struct kase *kase, rcm_comm *comm, uint8_t *own, uint8_t *good,
                        rcm_work **ret_work) {
    const int rank = rcm_rank(comm);
    const size_t n = kase->bytes;
    switch (kase->what) {
    case SEND:
    case RECV:
        return rank == 0   ? rcm_send(comm, own, n, RCM_UINT8, 1, 5, NULL, ret_work)
               : rank == 1 ? rcm_recv(comm, own, n, RCM_UINT8, 0, 5, NULL, ret_work)
                           : rcm_barrier(comm, NULL, ret_work);
    case ROOT:
    case LEAF:
        return rcm_broadcast(comm, own, n, RCM_UINT8, 0, NULL, ret_work);
    case SUM_IN:
        return rcm_all_reduce(comm, own, good, n, RCM_UINT8, RCM_SUM, NULL, ret_work);
    default:
        return rcm_all_reduce(comm, good, own, n, RCM_UINT8, RCM_SUM, NULL, ret_work);
    }
}

/* Returns the error that the other ranks get too, in this call or the next one. */
static rcm_status run(const struct kase *kase, rcm_comm *comm) {
    const bool bad = rcm_rank(comm) == guilty(kase);
    uint8_t *own = buffer_make(kase, bad), *good = buffer_make(kase, false);
    rcm_work *work = NULL;
    rcm_status status = issue(kase, comm, own, good, kase->how == BLOCKING ? NULL : &work);
    if (work)
        status = work_end(work, kase->how);
    if (status == RCM_OK && !bad)
        status = rcm_barrier(comm, NULL, NULL);
    munmap(own, MOST);
    munmap(good, MOST);
    return status;
}

/* ---- Afterwards ------------------------------------------------------------------------------ */

/* All ranks report the same error, caused by the guilty rank. */
static int invalid_errors(const struct kase *kase, rcm_comm *comm, rcm_status status) {
    struct rcm_error error = RCM_ERROR_INIT;
    char begin[64];
    int errors = 0;
    const int origin = guilty(kase);
    (void)!rcm_comm_error(comm, &error);
    snprintf(begin, sizeof begin, "rank %d, %s: ", origin, operations[kase->what]);
    CHECK(errors, status == RCM_ERR_INVALID && error.status == status && error.origin == origin,
          "%s, rank %d: %s, %s of rank %d: %s", kase->name, rcm_rank(comm), rcm_status_name(status),
          rcm_status_name(error.status), error.origin, error.text);
    CHECK(errors,
          strncmp(error.text, begin, strlen(begin)) == 0 && strstr(error.text, " bytes at 0x") &&
              strstr(error.text,
                     kase->what == RECV ? "memory that can be written" : "memory that can be read"),
          "%s, rank %d: %s", kase->name, rcm_rank(comm), error.text);
    CHECK(errors, strcmp(error.operation, operations[kase->what]) == 0,
          "%s, rank %d: in operation '%s'", kase->name, rcm_rank(comm), error.operation);
    return errors;
}

/* All ranks take part in the shrink, and their connections work. */
static int go_on(const struct kase *kase, rcm_comm **comm) {
    rcm_comm *next = NULL;
    int32_t one = 1, sum = 0;
    int errors = 0;
    CHECK(errors, rcm_comm_shrink(*comm, NULL, &next) == RCM_OK, "after %s: shrink: %s", kase->name,
          rcm_last_error());
    if (!next)
        return errors;
    CHECK(errors, rcm_size(next) == rcm_size(*comm), "after %s: %d ranks remain", kase->name,
          rcm_size(next));
    CHECK(errors,
          rcm_all_reduce(next, &one, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK &&
              sum == rcm_size(next),
          "after %s: %s", kase->name, rcm_last_error());
    (void)!rcm_destroy(*comm);
    *comm = next;
    return errors;
}

/* The rank that will fail comm waits until all others are ready. */
static int ready_errors(const struct kase *kase, rcm_comm *comm) {
    const int last = guilty(kase);
    uint8_t byte = 0;
    int errors = 0;
    if (rcm_rank(comm) != last) {
        (void)!rcm_send(comm, &byte, 1, RCM_UINT8, last, 6, NULL, NULL);
        return 0;
    }
    for (int r = 0; r < rcm_size(comm); r++)
        if (r != last)
            CHECK(errors, rcm_recv(comm, &byte, 1, RCM_UINT8, r, 6, NULL, NULL) == RCM_OK,
                  "before %s: %s", kase->name, rcm_last_error());
    return errors;
}

static int check_kernel(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    for (int i = 0; i < CASES && errors == 0; i++) {
        if (!cases[i].kernel)
            continue;
        errors += ready_errors(&cases[i], comm);
        errors += invalid_errors(&cases[i], comm, run(&cases[i], comm));
        if (errors == 0)
            errors += go_on(&cases[i], &comm);
    }
    (void)!rcm_destroy(comm);
    return errors;
}

/* ---- Signals --------------------------------------------------------------------------------- */

static int rank_any(int rank, void *arg) {
    const struct kase *kase = arg;
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct rcm_error error = RCM_ERROR_INIT;
    const struct rlimit none = {0, 0};
    rcm_comm *comm;
    options.transport = transport;
    options.timeout_ms = 60000;
    (void)setrlimit(RLIMIT_CORE, &none);
    if (rcm_init(&options, &comm) != RCM_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, rcm_last_error());
        return 1;
    }
    int errors = 0;
    rcm_status status = rcm_barrier(comm, NULL, NULL); /* the others may have left it already */
    if (status == RCM_OK)
        status = run(kase, comm);
    (void)!rcm_comm_error(comm, &error);
    const bool dead = error.status == RCM_ERR_PEER && rank != guilty(kase);
    CHECK(errors, status == RCM_ERR_INVALID || (status == RCM_ERR_PEER && dead), "%s, rank %d: %s",
          kase->name, rank, error.text);
    CHECK(errors, error.origin == guilty(kase), "%s, rank %d: origin is %d: %s", kase->name, rank,
          error.origin, error.text);
    *named += errors == 0;
    (void)!rcm_destroy(comm);
    return errors;
}

static int case_any(const struct kase *kase, int n, bool within) {
    int failed = -1, code = 0, errors = 0;
    *named = 0;
    const rcm_status status =
        rcm_spawn(n, rank_any, (void *)(uintptr_t)kase, 60000, &failed, &code);
    const bool signalled = status == RCM_ERR_PEER && failed == guilty(kase) &&
                           (code == 128 + SIGSEGV || code == 128 + SIGBUS);
    CHECK(errors, signalled || (status == RCM_OK && !within), "%s: rank %d exited with %d",
          kase->name, failed, code);
    CHECK(errors, *named == n - signalled, "%s: %d of %d ranks named the origin", kase->name,
          *named, n - signalled);
    return errors;
}

/* One job per case, at the same time, because jobs mostly wait. */
static int some_any(int from, int to, int n) {
    _Atomic int *all = named;
    int errors = 0, status;
    fflush(NULL);
    for (int i = from; i < to; i++) {
        named = &all[i];
        const pid_t pid = fork();
        if (pid == 0)
            _exit(case_any(&cases[i], n, strcmp(transport, "shm") == 0) != 0);
        errors += pid < 0;
    }
    named = all;
    while (wait(&status) > 0)
        errors += status != 0;
    return errors;
}

int main(int argc, char **argv) {
    named = mmap(NULL, CASES * sizeof *named, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
    if (argc != 4 || named == MAP_FAILED) {
        fprintf(stderr, "usage: invalid_buffers kernel|any TRANSPORT RANKS\n");
        return 2;
    }
    transport = argv[2];
    const struct ranks ranks = {.n = atoi(argv[3]), .transport = transport, .keep = true};
    int errors = 0;
    if (strcmp(argv[1], "kernel") == 0)
        return ranks_run(&ranks, check_kernel, NULL) != 0;
    for (int i = 0; i < CASES; i += AT_ONCE)
        errors += some_any(i, i + AT_ONCE < CASES ? i + AT_ONCE : CASES, ranks.n);
    return errors != 0;
}
