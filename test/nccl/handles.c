/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every function that takes a communicator, with a handle in every state: it returns the expected
 * class of result, its error names the function, and nothing is used after its end (in a build with
 * a sanitizer).
 *
 *     handles [no-device]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "job.h"

enum { REUSES = 64 };

static CUdeviceptr memory;
static CUstream stream;

static void *at(void) {
    return (void *)(uintptr_t)memory;
}

/* ---- Functions ------------------------------------------------------------------------------- */

static ncclResult_t all_reduce(ncclComm_t comm) {
    return ncclAllReduce(at(), at(), 1, ncclInt32, ncclSum, comm, stream);
}

/* In a group only ncclInvalidArgument comes from the call itself. */
static ncclResult_t grouped_send(ncclComm_t comm) {
    (void)ncclGroupStart();
    (void)ncclSend(at(), 1, ncclInt32, 0, comm, stream);
    return ncclGroupEnd();
}

static void abort_new(ncclComm_t comm) {
    if (comm)
        (void)ncclCommAbort(comm);
}

static ncclResult_t split(ncclComm_t comm) {
    ncclComm_t part = NULL;
    const ncclResult_t result = ncclCommSplit(comm, 0, 0, &part, NULL);
    abort_new(part);
    return result;
}

static ncclResult_t shrink(ncclComm_t comm) {
    ncclComm_t rest = NULL;
    const ncclResult_t result = ncclCommShrink(comm, NULL, 0, &rest, NULL, 0);
    abort_new(rest);
    return result;
}

static ncclResult_t revoke_now(ncclComm_t comm) {
    return ncclCommRevoke(comm, 0);
}

static ncclResult_t async_error(ncclComm_t comm) {
    ncclResult_t state;
    return ncclCommGetAsyncError(comm, &state);
}

static ncclResult_t count(ncclComm_t comm) {
    int n;
    return ncclCommCount(comm, &n);
}

static ncclResult_t device(ncclComm_t comm) {
    int number;
    return ncclCommCuDevice(comm, &number);
}

static ncclResult_t user_rank(ncclComm_t comm) {
    int rank;
    return ncclCommUserRank(comm, &rank);
}

static ncclResult_t create_operator(ncclComm_t comm) {
    float two = 2;
    ncclRedOp_t op;
    const ncclResult_t result =
        ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32, ncclScalarHostImmediate, comm);
    return result == ncclSuccess ? ncclRedOpDestroy(op, comm) : result;
}

static ncclResult_t destroy_operator(ncclComm_t comm) {
    return ncclRedOpDestroy((ncclRedOp_t)77, comm);
}

/* Its handle ends with the communicator. */
static ncclResult_t register_memory(ncclComm_t comm) {
    void *handle;
    return ncclCommRegister(comm, at(), 4, &handle);
}

static ncclResult_t deregister_memory(ncclComm_t comm) {
    int none;
    return ncclCommDeregister(comm, &none);
}

/* ---- States ---------------------------------------------------------------------------------- */

static ncclComm_t none(void) {
    return NULL;
}

static ncclComm_t never(void) {
    static char other[4096];
    return (ncclComm_t)(void *)other;
}

static ncclComm_t ready(void) {
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) {
        fprintf(stderr, "a communicator: %s\n", ncclGetLastError(NULL));
        abort();
    }
    return comm;
}

static ncclComm_t after(ncclResult_t (*call)(ncclComm_t comm)) {
    const ncclComm_t comm = ready();
    if (call(comm) != ncclSuccess)
        abort();
    return comm;
}

static ncclComm_t aborted(void) {
    return after(ncclCommAbort);
}

static ncclComm_t destroyed(void) {
    return after(ncclCommDestroy);
}

static ncclComm_t finalized(void) {
    return after(ncclCommFinalize);
}

static ncclComm_t revoked(void) {
    return after(revoke_now);
}

/* Another rank never comes. */
static ncclComm_t making(void) {
    ncclConfig_t config = {
        .size = sizeof config, .magic = NCCL_MAGIC, .version = NCCL_NUMBER, .blocking = 0};
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    if (ncclGetUniqueId(&id) != ncclSuccess ||
        ncclCommInitRankConfig(&comm, 2, id, 0, &config) != ncclInProgress)
        abort();
    return comm;
}

/* The same in a group. */
static ncclComm_t making_in_group(void) {
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 2, id, 0) != ncclSuccess)
        abort();
    return comm;
}

/* The group failed, so what it was making ended. */
static ncclComm_t failed(void) {
    (void)ncclGroupStart();
    const ncclComm_t comm = making_in_group();
    (void)ncclCommFinalize(NULL);
    (void)ncclGroupEnd();
    return comm;
}

static const struct state {
    const char *name;
    ncclComm_t (*make)(void);
    bool lives;
} states[] = {{"NULL", none, false},          {"no communicator", never, false},
              {"aborted", aborted, false},    {"destroyed", destroyed, false},
              {"finalized", finalized, true}, {"revoked", revoked, true},
              {"being made", making, true},   {"failed", failed, true}};
enum { STATES = sizeof states / sizeof states[0] };

/* ---- Results --------------------------------------------------------------------------------- */

/* Expected in each state: S success, I ncclInvalidArgument with the function's name, R
 * ncclRemoteError with any text, * any. */
static const struct function {
    const char *name;
    ncclResult_t (*call)(ncclComm_t comm);
    const char *expected;
} functions[] = {
    {"ncclAllReduce", all_reduce, "IIII IRIR"},
    {"ncclSend", grouped_send, "IIII IRIR"},
    {"ncclCommSplit", split, "IIII IRIR"},
    {"ncclCommShrink", shrink, "IIII ISIR"},
    {"ncclCommRevoke", revoke_now, "IIII ISII"},
    {"ncclCommGetAsyncError", async_error, "IIII SSSS"},
    {"ncclCommCount", count, "IIII SSII"},
    {"ncclCommCuDevice", device, "IIII SSII"},
    {"ncclCommUserRank", user_rank, "IIII SSII"},
    {"ncclRedOpCreatePreMulSum", create_operator, "IIII ISIR"},
    {"ncclRedOpDestroy", destroy_operator, "IIII IIII"},
    {"ncclCommRegister", register_memory, "IIII I*IR"},
    {"ncclCommDeregister", deregister_memory, "IIII IIIR"},
    {"ncclCommFinalize", ncclCommFinalize, "IIII ISIR"},
    {"ncclCommDestroy", ncclCommDestroy, "SIII SSSS"},
    {"ncclCommAbort", ncclCommAbort, "SIII SSSS"},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static int call_check(const struct function *f, const struct state *state, ncclComm_t comm) {
    const ptrdiff_t i = state - states;
    const char expected = f->expected[i + (i >= STATES / 2)];
    const ncclResult_t result = f->call(comm);
    const char *text = ncclGetLastError(NULL);
    int errors = 0;
    CHECK(errors,
          expected == '*' || (expected == 'S' && result == ncclSuccess) ||
              (expected == 'R' && result == ncclRemoteError) ||
              (expected == 'I' && result == ncclInvalidArgument &&
               strncmp(text, f->name, strlen(f->name)) == 0),
          "%s, %s: %d, not %c: %s", f->name, state->name, (int)result, expected, text);
    (void)ncclGetLastError(comm);
    return errors;
}

/* All functions use one handle that is dead, before its memory is another communicator's. */
static int dead_check(const struct state *state) {
    const ncclComm_t comm = state->make();
    int errors = 0;
    for (int i = 0; i < FUNCTIONS; i++)
        errors += call_check(&functions[i], state, comm);
    return errors;
}

static int live_check(const struct state *state) {
    int errors = 0;
    for (int i = 0; i < FUNCTIONS; i++) {
        const ncclComm_t comm = state->make();
        errors += call_check(&functions[i], state, comm);
        (void)ncclCommAbort(comm); /* a dead handle is checked by then */
    }
    return errors;
}

/* The communicator ends between a call of a group and the end of the group. */
static int group_check(ncclResult_t (*end)(ncclComm_t comm)) {
    const ncclComm_t comm = ready();
    int errors = 0;
    NCCL_OK(errors, ncclGroupStart());
    NCCL_OK(errors, all_reduce(comm));
    NCCL_OK(errors, end(comm));
    const ncclResult_t result = ncclGroupEnd();
    CHECK(errors, result == ncclInvalidArgument, "a group: %d", (int)result);
    return errors;
}

/* A communicator is aborted within the group that makes it, and a later one has its address. */
static int group_reused(void) {
    ncclComm_t comms[REUSES] = {NULL};
    int errors = 0, n = 0;
    NCCL_OK(errors, ncclGroupStart());
    const ncclComm_t first = making_in_group();
    NCCL_OK(errors, ncclCommAbort(first));
    do
        comms[n] = ready();
    while (comms[n++] != first && n < REUSES);
    const ncclResult_t result = ncclGroupEnd();
    CHECK(errors, result == ncclRemoteError, "a group, %d communicators later: %d", n, (int)result);
    for (int i = 0; i < n; i++)
        NCCL_OK(errors, ncclCommAbort(comms[i]));
    return errors;
}

/* A communicator of a group that failed was aborted before: the text is the first error's. */
static int group_failed(void) {
    int errors = 0;
    NCCL_OK(errors, ncclGroupStart());
    const ncclComm_t comm = making_in_group();
    (void)ncclCommFinalize(NULL);
    NCCL_OK(errors, ncclCommAbort(comm));
    const ncclResult_t result = ncclGroupEnd();
    CHECK(errors,
          result == ncclInvalidArgument && strstr(ncclGetLastError(NULL), "ncclCommFinalize: comm"),
          "a group: %s", nccl_text(result));
    return errors;
}

/* An error of a message names its call, also after a collective. */
static int group_named(void) {
    static char host[4];
    const ncclComm_t comm = ready();
    int errors = 0;
    NCCL_OK(errors, ncclGroupStart());
    NCCL_OK(errors, all_reduce(comm));
    NCCL_OK(errors, ncclSend(host, 4, ncclInt8, 0, comm, stream));
    const ncclResult_t result = ncclGroupEnd();
    CHECK(errors, result != ncclSuccess && strncmp(ncclGetLastError(NULL), "ncclSend: ", 10) == 0,
          "a message from host memory: %s", nccl_text(result));
    NCCL_OK(errors, ncclCommAbort(comm));
    return errors;
}

static int all(struct job *job) {
    int errors = 0;
    rank_enter(&job->ranks[0]);
    stream = job->ranks[0].streams[0];
    memory = device_copy("1234", 4);
    for (int i = 0; i < STATES; i++)
        errors += states[i].lives ? live_check(&states[i]) : dead_check(&states[i]);
    errors += group_check(ncclCommAbort);
    errors += group_check(ncclCommDestroy);
    errors += group_reused();
    errors += group_failed() + group_named();
    CHECK(errors, stream_ends(stream, 10000), "the stream hangs");
    CUDA(cuMemFree(memory));
    return errors;
}

/* The handle is NULL after an error, also one of the driver. */
static int no_device(void) {
    ncclUniqueId id = {{0}};
    ncclComm_t comm = never();
    int errors = 0;
    const ncclResult_t result = ncclCommInitRank(&comm, 1, id, 0);
    CHECK(errors, result != ncclSuccess && !comm, "%p: %s", (void *)comm, nccl_text(result));
    return errors;
}

int main(int argc, char **argv) {
    if (argc > 1)
        return strcmp(argv[1], "no-device") == 0 ? no_device() > 0 : 2;
    return job_run_bare(1, true, all) > 0;
}
