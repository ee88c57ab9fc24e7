/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory kinds in public calls (base/mem_kind.h), with a kind that has only addresses. Unsupported
 * combinations are rejected before anything is sent, with both kinds in the error.
 *
 *     memory_kinds TRANSPORT RANKS
 */
#include "error.h"
#include "mem_kind.h"
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 64 };

static int64_t device[N], host[N];

static rcm_status has(const void *address, bool *ret_has, int *ret_device) {
    *ret_device = 0;
    *ret_has = (const char *)address >= (const char *)device &&
               (const char *)address < (const char *)(device + N);
    return RCM_OK;
}

static rcm_status begin(struct rcmi_operation *operation) {
    (void)operation;
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "no operation may begin");
}

static void explain(int code, char *text, size_t cap) {
    snprintf(text, cap, "%d", code);
}

static const struct rcmi_mem_row row = {
    .name = "device memory", .has = has, .begin = begin, .explain = explain};

static int refused(const char *what, rcm_status status, rcm_status want, const char *words) {
    int errors = 0;
    CHECK(errors, status == want && strstr(rcm_last_error(), words), "%s: %s (%s), not %s", what,
          rcm_status_name(status), rcm_last_error(), words);
    return errors;
}

#define MIXED(call, words) refused(#call, call, RCM_ERR_INVALID, words)

/* Two buffers of one call. */
static int check_pairs(rcm_comm *comm) {
    static const char to_device[] = "host memory, but recv", to_host[] = "device memory, but recv";
    const int root = rcm_rank(comm);
    int errors =
        MIXED(rcm_all_reduce(comm, host, device, 2, RCM_INT64, RCM_SUM, NULL, NULL), to_device);
    errors += MIXED(rcm_all_reduce(comm, device, host, 2, RCM_INT64, RCM_SUM, NULL, NULL), to_host);
    errors +=
        MIXED(rcm_reduce(comm, device, host, 2, RCM_INT64, RCM_SUM, root, NULL, NULL), to_host);
    errors += MIXED(rcm_scatter(comm, device, host, 2, RCM_INT64, root, NULL, NULL), to_host);
    errors += MIXED(rcm_gather(comm, host, device, 2, RCM_INT64, root, NULL, NULL), to_device);
    errors += MIXED(rcm_all_gather(comm, device, host, 2, RCM_INT64, NULL, NULL), to_host);
    errors +=
        MIXED(rcm_reduce_scatter(comm, host, device, 2, RCM_INT64, RCM_SUM, NULL, NULL), to_device);
    errors += MIXED(rcm_all_to_all(comm, device, host, 2, RCM_INT64, NULL, NULL), to_host);
    errors += MIXED(rcm_scan(comm, device, host, 2, RCM_INT64, RCM_SUM, NULL, NULL), to_host);
    if (root > 0)
        errors +=
            MIXED(rcm_exscan(comm, host, device, 2, RCM_INT64, RCM_SUM, NULL, NULL), to_device);
    return errors;
}

/* One of many blocks is of another kind. An empty block has no kind. */
static int check_blocks(rcm_comm *comm) {
    const int p = rcm_size(comm), rank = rcm_rank(comm);
    size_t counts[N], none[N] = {0};
    const void *send[N];
    void *recv[N];
    int errors = 0;
    for (int r = 0; r < p; r++) {
        counts[r] = 1;
        send[r] = host + r;
        recv[r] = r == p - 1 ? (void *)(device + r) : (void *)(host + N / 2 + r);
    }
    errors += MIXED(rcm_scatter_v(comm, device, counts, NULL, host, 1, RCM_INT64, rank, NULL, NULL),
                    "of recv");
    errors += MIXED(rcm_gather_v(comm, host, 1, device, counts, NULL, RCM_INT64, rank, NULL, NULL),
                    "is host memory, but block 0 of recv");
    errors += MIXED(rcm_all_gather_v(comm, host, 1, device, counts, NULL, RCM_INT64, NULL, NULL),
                    "block 0 of send");
    errors += MIXED(
        rcm_reduce_scatter_v(comm, device, counts, NULL, host, 1, RCM_INT64, RCM_SUM, NULL, NULL),
        "device memory, but block 0 of recv");
    errors += MIXED(
        rcm_all_to_all_v(comm, device, counts, NULL, host, counts, NULL, RCM_INT64, NULL, NULL),
        "block 0 of send");
    errors += MIXED(rcm_all_to_all_list(comm, send, counts, recv, counts, RCM_INT64, NULL, NULL),
                    "of recv");
    CHECK(errors,
          rcm_all_gather_v(comm, device, 0, host, none, NULL, RCM_INT64, NULL, NULL) == RCM_OK,
          "blocks of no elements: %s", rcm_last_error());
    return errors;
}

/* Calls that accept only host memory. */
static int check_host_only(rcm_comm *comm) {
    const void *list[N];
    size_t bytes[N];
    struct rcm_bytes *result = NULL;
    const int rank = rcm_rank(comm);
    int errors = 0;
    for (int r = 0; r < rcm_size(comm); r++) {
        list[r] = device;
        bytes[r] = 8;
    }
    errors += MIXED(rcm_broadcast_bytes(comm, device, 8, rank, &result, NULL, NULL),
                    "is device memory, but what is received is host memory");
    errors += MIXED(rcm_scatter_bytes(comm, list, bytes, rank, &result, NULL, NULL), "send[0] ");
    errors += MIXED(rcm_gather_bytes(comm, device, 8, 0, &result, NULL, NULL), "send ");
    errors += MIXED(rcm_all_gather_bytes(comm, device, 8, &result, NULL, NULL), "send ");
    errors += refused("reduce_local", rcm_reduce_local(host, device, 1, RCM_INT64, RCM_SUM),
                      RCM_ERR_UNSUPPORTED, "inout ");
    errors += refused("reduce_local", rcm_reduce_local(device, host, 1, RCM_INT64, RCM_SUM),
                      RCM_ERR_UNSUPPORTED, "in ");
    return errors;
}

/* All parts are checked before one is issued. */
static int check_parts(rcm_comm *comm) {
    const struct rcm_part parts[] = {{host, host, 2, RCM_INT64}, {host, device, 2, RCM_INT64}};
    return MIXED(rcm_coalesced(comm, RCM_ALL_REDUCE, parts, 2, RCM_SUM, 0, NULL, NULL), "parts[1]");
}

static int check(rcm_comm *comm, void *arg) {
    int errors = check_pairs(comm);
    (void)arg;
    errors += check_blocks(comm);
    errors += check_host_only(comm);
    errors += check_parts(comm);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    struct ranks ranks = {.n = atoi(argv[2]), .transport = argv[1]};
    rcmi_mem_kind_add(RCMI_MEM_DEVICE, &row);
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
