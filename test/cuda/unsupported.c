/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unsupported uses of device memory, under the emulator: the error contains the reason, and the
 * communicator still works.
 *
 *     unsupported WORDS NAME=VALUE...   with these settings a rank has no device, for that reason
 *     unsupported                       a stream that is being captured: the capture goes on
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cuda.h"
#include "ranks.h"

static int check_works(rcm_comm *comm, int mine, int *ret_sum) {
    int errors = 0;
    CHECK(errors, rcm_all_reduce(comm, &mine, ret_sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    return errors;
}

static int check_device(rcm_comm *comm, void *arg) {
    const char *words = arg;
    void *memory = NULL;
    int errors = 0, refused = 0;
    const rcm_status status = rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, 4096, &memory);
    CHECK(errors, status == RCM_OK || strstr(rcm_last_error(), words), "%s: %s",
          rcm_status_name(status), rcm_last_error());
    errors += check_works(comm, status != RCM_OK, &refused);
    CHECK(errors, refused > 0, "no rank was refused a device");
    CHECK(errors, rcm_mem_free(comm, memory) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* ---- Captures -------------------------------------------------------------------------------- */

static void *function(const char *name) {
    void *found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
    if (!found)
        abort();
    return found;
}

static int issue_all(rcm_comm *comm, int32_t *memory, const struct rcm_call *call) {
    const struct rcm_part part = {memory, memory, 8, RCM_INT32};
    const int peer = (rcm_rank(comm) + 1) % rcm_size(comm);
    const rcm_status got[] = {
        rcm_all_reduce(comm, memory, memory, 8, RCM_INT32, RCM_SUM, call, NULL),
        rcm_coalesced(comm, RCM_ALL_REDUCE, &part, 1, RCM_SUM, 0, call, NULL),
        rcm_send(comm, memory, 8, RCM_INT32, peer, 1, call, NULL),
        rcm_sendrecv(comm, memory, 8, peer, 1, memory + 8, 8, peer, 1, RCM_INT32, call, NULL)};
    int errors = 0;
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++)
        CHECK(errors, got[i] == RCM_ERR_INVALID, "call %zu: %s", i, rcm_status_name(got[i]));
    CHECK(errors, strstr(rcm_last_error(), "being captured"), "%s", rcm_last_error());
    return errors;
}

static int check_capture(rcm_comm *comm, void *arg) {
    int (*begin)(struct rcmi_cuda_stream *, int), (*end)(struct rcmi_cuda_stream *, void **);
    struct rcmi_cuda_context *context = NULL;
    struct rcm_call call = RCM_CALL_INIT;
    struct rcmi_cuda_stream *stream = NULL;
    void *memory = NULL, *graph = NULL;
    int errors = 0, sum = 0;
    (void)arg;
    CHECK(errors, rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, 4096, &memory) == RCM_OK, "%s",
          rcm_last_error());
    const struct rcmi_cuda *cuda = rcmi_cuda_there();
    if (errors || !cuda)
        return errors + 1;
    *(void **)&begin = function("cuStreamBeginCapture_v2");
    *(void **)&end = function("cuStreamEndCapture");
    CHECK(errors,
          cuda->cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
              cuda->cuCtxPushCurrent(context) == 0 && cuda->cuStreamCreate(&stream, 1) == 0,
          "no stream");
    for (int mode = 0; mode < 3 && errors == 0; mode++) {
        CHECK(errors, begin(stream, mode) == 0, "no capture");
        call.stream = stream;
        errors += issue_all(comm, memory, &call);
        CHECK(errors, end(stream, &graph) == 0 && graph, "the capture of mode %d was invalidated",
              mode);
        graph = NULL;
    }
    CHECK(errors,
          rcm_all_reduce(comm, memory, memory, 8, RCM_INT32, RCM_SUM, &call, NULL) == RCM_OK,
          "after it: %s", rcm_last_error());
    (void)cuda->cuStreamDestroy(stream);
    (void)cuda->cuDevicePrimaryCtxRelease(0);
    return errors + check_works(comm, 1, &sum);
}

int main(int argc, char **argv) {
    struct ranks ranks = {.n = 2, .transport = "shm", .timeout_ms = 20000};
    for (int i = 2; i < argc; i++)
        putenv(argv[i]);
    return ranks_run(&ranks, argc > 1 ? check_device : check_capture, argc > 1 ? argv[1] : NULL)
               ? 1
               : 0;
}
