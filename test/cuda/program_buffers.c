/* SPDX-License-Identifier: BSD-3-Clause */
/* See program_buffers.h. */
#include "program_buffers.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "ranks.h"

static int works(rcmi_cuda_code code, const char *what) {
    int errors = 0;
    CHECK(errors, code == RCMI_CUDA_SUCCESS, "%s: %d", what, code);
    return errors;
}

int program_begin(struct program *p, size_t bytes, unsigned char value) {
    const struct rcmi_cuda *cuda = dlopen("libcuda.so.1", RTLD_NOW) ? rcmi_cuda_there() : NULL;
    *p = (struct program){.cuda = cuda, .bytes = bytes};
    if (!cuda)
        return 1;
    return works(cuda->cuInit(0), "cuInit") +
           works(cuda->cuDevicePrimaryCtxRetain(&p->context, 0), "cuDevicePrimaryCtxRetain") +
           works(cuda->cuCtxPushCurrent(p->context), "cuCtxPushCurrent") +
           works(cuda->cuMemAlloc(&p->in, bytes), "cuMemAlloc") +
           works(cuda->cuMemAlloc(&p->out, bytes), "cuMemAlloc") +
           works(cuda->cuMemsetD8Async(p->in, value, bytes, NULL), "cuMemsetD8Async") +
           works(cuda->cuMemsetD8Async(p->out, value, bytes, NULL), "cuMemsetD8Async") +
           works(cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize");
}

int program_end(const struct program *p) {
    return works(p->cuda->cuMemFree(p->in), "cuMemFree") +
           works(p->cuda->cuMemFree(p->out), "cuMemFree") +
           works(p->cuda->cuDevicePrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
}

size_t program_wrong(const struct program *p, rcmi_cuda_address at, size_t n, unsigned char value) {
    unsigned char *bytes = calloc(1, n);
    size_t wrong = 0;
    if (!bytes || works(p->cuda->cuMemcpyDtoHAsync(bytes, at, n, NULL), "cuMemcpyDtoHAsync") ||
        works(p->cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize"))
        abort();
    for (size_t i = 0; i < n; i++)
        wrong += bytes[i] != value;
    free(bytes);
    return wrong;
}
