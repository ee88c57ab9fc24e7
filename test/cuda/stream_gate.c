/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of the emulated device, blocked by a host function. See ../coll/stream_gate.h. */
#include "stream_gate.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "cuda.h"

struct cuda_gate {
    struct gate gate; /* first */
    const struct rcmi_cuda *cuda;
    struct rcmi_cuda_context *context; /* the primary one */
    atomic_bool open;
};

static void give_up(const char *what, int code) {
    fprintf(stderr, "test/cuda/stream_gate: %s (%d)\n", what, code);
    abort();
}

static void must(int code, const char *what) {
    if (code != 0)
        give_up(what, code);
}

static void until_open(void *arg) {
    struct cuda_gate *gate = arg;
    while (!atomic_load(&gate->open))
        usleep(1000);
}

static void enter(const struct cuda_gate *gate, struct rcmi_cuda_visit *ret_visit) {
    must(rcmi_cuda_enter(gate->cuda, gate->context, ret_visit), "cuCtxPushCurrent");
}

struct gate *gate_new(void) {
    int (*launch)(struct rcmi_cuda_stream * stream, void (*function)(void *arg), void *arg);
    struct cuda_gate *gate = calloc(1, sizeof *gate);
    struct rcmi_cuda_stream *stream;
    struct rcmi_cuda_visit visit;
    *(void **)&launch = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchHostFunc");
    if (!gate || !launch || rcmi_cuda_open(&gate->cuda) != RCM_OK)
        give_up("the driver cannot be opened", 0);
    must(gate->cuda->cuDevicePrimaryCtxRetain(&gate->context, 0), "cuDevicePrimaryCtxRetain");
    enter(gate, &visit);
    must(gate->cuda->cuStreamCreate(&stream, RCMI_CUDA_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(launch(stream, until_open, gate), "cuLaunchHostFunc");
    rcmi_cuda_leave(&visit);
    gate->gate.stream = stream;
    return &gate->gate;
}

void gate_open(struct gate *gate) {
    atomic_store(&((struct cuda_gate *)gate)->open, true);
}

void gate_free(struct gate *opened) {
    struct cuda_gate *gate = (struct cuda_gate *)opened;
    struct rcmi_cuda_visit visit;
    enter(gate, &visit);
    must(gate->cuda->cuStreamSynchronize(opened->stream), "cuStreamSynchronize");
    must(gate->cuda->cuStreamDestroy(opened->stream), "cuStreamDestroy");
    rcmi_cuda_leave(&visit);
    (void)gate->cuda->cuDevicePrimaryCtxRelease(0);
    free(gate);
}
