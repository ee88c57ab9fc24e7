/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens device memory of another process with the driver's functions alone. If that fails, device
 * memory goes through the host; so a failure is a fact and no problem. See check_cuda.h;
 * check_cuda_pairs.c checks the same through the library.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check_cuda.h"
#include "../common.h"
#include "error.h"

enum { BYTES = 1 << 20 };

struct offer {
    struct rcmi_cuda_ipc handle;
    rcmi_cuda_address address;
};

/* Opens the driver and makes a primary context current. */
static rcm_status driver_begin(const struct rcmi_cuda **ret_cuda) {
    struct rcmi_cuda_context *context;
    int ordinal;
    rcm_status status = rcmi_cuda_open(ret_cuda);
    if (status == RCM_OK)
        status = check_cuda_chosen(&ordinal);
    if (status != RCM_OK)
        return status;
    rcmi_cuda_code code =
        (*ret_cuda)->cuDevicePrimaryCtxRetain(&context, ordinal < 0 ? 0 : ordinal);
    if (code == RCMI_CUDA_SUCCESS)
        code = (*ret_cuda)->cuCtxPushCurrent(context);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "cuDevicePrimaryCtxRetain");
}

static rcm_status offer_make(struct offer *offer) {
    const struct rcmi_cuda *cuda;
    const rcm_status status = driver_begin(&cuda);
    if (status != RCM_OK)
        return status;
    rcmi_cuda_code code = cuda->cuMemAlloc(&offer->address, 2 * BYTES);
    if (code == RCMI_CUDA_SUCCESS)
        code = cuda->cuMemsetD8Async(offer->address, 0x5c, 2 * BYTES, NULL);
    if (code == RCMI_CUDA_SUCCESS)
        code = cuda->cuStreamSynchronize(NULL);
    if (code == RCMI_CUDA_SUCCESS)
        code = cuda->cuIpcGetMemHandle(&offer->handle, offer->address);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "cuIpcGetMemHandle");
}

static rcm_status bytes_check(const struct rcmi_cuda *cuda, rcmi_cuda_address address) {
    static unsigned char bytes[BYTES];
    rcmi_cuda_code code = cuda->cuMemcpyDtoHAsync(bytes, address, BYTES, NULL);
    if (code == RCMI_CUDA_SUCCESS)
        code = cuda->cuStreamSynchronize(NULL);
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuMemcpyDtoHAsync");
    if (bytes[0] != 0x5c || memcmp(bytes, bytes + 1, BYTES - 1) != 0)
        return rcmi_fail(RCM_ERR_SYSTEM, 0, "the opened memory has wrong bytes");
    return RCM_OK;
}

static rcm_status offer_take(const struct offer *offer, double *ret_us) {
    const struct rcmi_cuda *cuda;
    rcmi_cuda_address address;
    rcm_status status = driver_begin(&cuda);
    if (status != RCM_OK)
        return status;
    const int64_t began = tool_now_ns();
    const rcmi_cuda_code code =
        cuda->cuIpcOpenMemHandle(&address, offer->handle, RCMI_CUDA_IPC_LAZY_PEER_ACCESS);
    *ret_us = (double)(tool_now_ns() - began) / 1e3;
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuIpcOpenMemHandle");
    status = bytes_check(cuda, address);
    (void)cuda->cuIpcCloseMemHandle(address);
    return status;
}

/* Runs in the process that opens. It was forked before the parent used the driver, which does not
 * work after a fork. */
static void opener(struct check_out *out, int from) {
    struct offer offer;
    double us;
    if (read(from, &offer, sizeof(offer)) != (ssize_t)sizeof(offer))
        return;
    if (offer_take(&offer, &us) == RCM_OK)
        check_fact(out, "", "memory of another", "opened in %.0f us, right", us);
    else
        check_fact(out, "", "memory of another", "cannot be opened: %s", rcm_last_error());
}

void check_cuda_ipc(struct check_out *out) {
    struct offer offer;
    int fds[2];
    const pid_t pid = pipe(fds) == 0 ? fork() : -1;
    if (pid == 0) {
        close(fds[1]);
        opener(out, fds[0]);
        _exit(0);
    }
    if (pid < 0)
        return;
    close(fds[0]);
    if (offer_make(&offer) != RCM_OK)
        check_fact(out, "", "memory for another", "cannot be offered: %s", rcm_last_error());
    else if (write(fds[1], &offer, sizeof(offer)) != (ssize_t)sizeof(offer))
        check_fact(out, "", "memory for another", "the other process has ended");
    close(fds[1]);
    (void)waitpid(pid, NULL, 0);
}
