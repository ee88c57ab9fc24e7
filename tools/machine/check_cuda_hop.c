/* SPDX-License-Identifier: BSD-3-Clause */
/* Hops between two ranks; see check_cuda_hop.h. */
#include "check_cuda_hop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../common.h"
#include "cuda.h"

enum { SMALL = 8, SMALLS = 50, LARGE = 16 << 20, LARGES = 3 };

struct hopper {
    rcm_comm *comm;
    int rank;
    void *buffers[2];    /* on the device, one per root */
    unsigned char *host; /* of the same length */
    const struct rcmi_cuda *cuda;
    struct check_cuda_hop *hop;
};

/* ---- Bytes --------------------------------------------------------------------------------- */

static unsigned char byte_of(int root, size_t n, size_t at) {
    return (unsigned char)(at * 13 + at / 509 + (size_t)root * 3 + n * 101 + 1);
}

static rcm_status copied(const struct hopper *h, rcmi_cuda_code code) {
    if (code == RCMI_CUDA_SUCCESS)
        code = h->cuda->cuStreamSynchronize(NULL);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "cuMemcpyAsync");
}

static rcm_status fill(const struct hopper *h, size_t n) {
    for (size_t i = 0; i < n; i++)
        h->host[i] = byte_of(h->rank, n, i);
    return copied(h, h->cuda->cuMemcpyHtoDAsync((rcmi_cuda_address)(uintptr_t)h->buffers[h->rank],
                                                h->host, n, NULL));
}

static rcm_status count_wrong(const struct hopper *h, size_t n) {
    const int root = !h->rank;
    const rcm_status status =
        copied(h, h->cuda->cuMemcpyDtoHAsync(
                      h->host, (rcmi_cuda_address)(uintptr_t)h->buffers[root], n, NULL));
    for (size_t i = 0; status == RCM_OK && i < n; i++)
        h->hop->wrong[h->rank] += h->host[i] != byte_of(root, n, i);
    return status;
}

/* ---- Hops ---------------------------------------------------------------------------------- */

static rcm_status both_ways(const struct hopper *h, size_t n) {
    rcm_status status = rcm_broadcast(h->comm, h->buffers[0], n, RCM_UINT8, 0, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_broadcast(h->comm, h->buffers[1], n, RCM_UINT8, 1, NULL, NULL);
    return status;
}

/* Runs `times` round trips, after an unmeasured one that opens the memory. *ret_ns: time of one
 * hop. */
static rcm_status hops(const struct hopper *h, size_t n, int times, double *ret_ns) {
    rcm_status status = fill(h, n);
    if (status == RCM_OK)
        status = both_ways(h, n);
    if (status == RCM_OK)
        status = count_wrong(h, n);
    if (status == RCM_OK)
        status = rcm_barrier(h->comm, NULL, NULL);
    const int64_t began = tool_now_ns();
    for (int i = 0; status == RCM_OK && i < times; i++)
        status = both_ways(h, n);
    *ret_ns = (double)(tool_now_ns() - began) / (2.0 * times);
    return status == RCM_OK ? count_wrong(h, n) : status;
}

static void store_result(const struct hopper *h, double small, double large) {
    if (h->rank != 0)
        return;
    snprintf(h->hop->transport, sizeof(h->hop->transport), "%s", rcm_comm_transport(h->comm, 1));
    h->hop->us = small / 1e3;
    h->hop->gbps = large > 0 ? LARGE / large : 0;
}

/* ---- Set-up -------------------------------------------------------------------------------- */

static rcm_status buffers_get(struct hopper *h) {
    rcm_status status = RCM_OK;
    for (int i = 0; status == RCM_OK && i < 2; i++)
        status = rcm_mem_alloc_kind(h->comm, RCM_MEM_DEVICE, LARGE, &h->buffers[i]);
    h->host = malloc(LARGE);
    return h->host ? status : RCM_ERR_NOMEM;
}

/* Makes the device's primary context current; the library uses the same context. */
static rcm_status driver_begin(struct hopper *h, int device) {
    struct rcmi_cuda_context *context;
    const rcm_status status = rcmi_cuda_open(&h->cuda);
    if (status != RCM_OK)
        return status;
    rcmi_cuda_code code = h->cuda->cuDevicePrimaryCtxRetain(&context, device);
    if (code == RCMI_CUDA_SUCCESS)
        code = h->cuda->cuCtxPushCurrent(context);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "cuDevicePrimaryCtxRetain");
}

static rcm_status hop_run(struct hopper *h, int device) {
    double small = 0, large = 0;
    rcm_status status = buffers_get(h);
    if (status == RCM_OK)
        status = driver_begin(h, device);
    if (status == RCM_OK)
        status = hops(h, SMALL, SMALLS, &small);
    if (status == RCM_OK)
        status = hops(h, LARGE, LARGES, &large);
    if (status == RCM_OK)
        store_result(h, small, large);
    return status;
}

rcm_status check_cuda_hop(int rank, int device, struct check_cuda_hop *hop) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct hopper h = {.rank = rank, .hop = hop};
    char number[16];
    snprintf(number, sizeof(number), "%d", device);
    options.device = number;
    options.timeout_ms = HOP_PATIENCE_MS;
    rcm_status status = rcm_init(&options, &h.comm);
    if (status == RCM_OK)
        status = hop_run(&h, device);
    free(h.host);
    return status == RCM_OK ? rcm_destroy(h.comm) : status;
}
