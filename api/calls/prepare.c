/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preparation and query of a collective without calling it: opens its channels (rcm_comm_prepare),
 * and names its algorithm (rcm_comm_algorithm).
 */
#include "error.h"
#include "collective_bind.h"
#include "comm.h"
#include "drive.h"
#include "entry.h"
#include "failure.h"
#include "members.h"

struct prepare {
    rcm_comm *comm;
    const struct rcmi_plan *plan;
    enum rcm_collective collective;
    enum rcmi_mem_kind kind;
    size_t bytes;
};

static rcm_status prepare_look(const struct prepare *prepare, int *ret_peer) {
    return rcmi_exec_prepare(prepare->comm->exec, prepare->plan, prepare->kind, prepare->bytes,
                             ret_peer);
}

/* A lost rank has not left: its loss is reported soon. */
static bool rank_left(const rcm_comm *comm, int rank) {
    struct rcmi_error why;
    return rcmi_comm_rank_left(comm, rank) &&
           (atomic_load_explicit(&comm->left_ns[rank], memory_order_relaxed) != 0 ||
            !rcmi_node_lost(comm->engine->node, comm->world_rank[rank], &why));
}

/* The rank that has left and for which this rank waits, or -1. peer: of rcmi_exec_prepare. Of
 * several readers on this host it is not known which one is missing, so all must have left. */
static int find_left(const rcm_comm *comm, int peer) {
    int last = -1;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank || (peer >= 0 && r != peer) ||
            (peer < 0 && comm->host_of[r] != comm->host_of[comm->rank]))
            continue;
        if (!rank_left(comm, r))
            return -1;
        last = r;
    }
    return last;
}

/* A rank that has left before it opened a channel never will. */
static rcm_status prepare_check_left(const struct prepare *prepare, int peer) {
    const rcm_comm *comm = prepare->comm;
    char who[RCMI_WHO_TEXT];
    const int rank = find_left(comm, peer);
    if (rank < 0)
        return RCM_AGAIN;
    return rcmi_fail_origin(RCM_ERR_PEER, rank,
                            "%s has left without preparing %s, which rank %d waits for",
                            rcmi_members_describe(&comm->members, rank, who),
                            rcmi_collective_name(prepare->collective), comm->rank);
}

/* Looks twice: a rank may have opened the channel and left between the first two looks. */
static rcm_status prepare_check(void *arg) {
    const struct prepare *prepare = arg;
    rcm_status status = rcmi_comm_failure(prepare->comm);
    int peer = -1;
    if (status == RCM_OK)
        status = prepare_look(prepare, &peer);
    if (status != RCM_AGAIN)
        return status;
    const rcm_status left = prepare_check_left(prepare, peer);
    status = left == RCM_AGAIN ? RCM_AGAIN : prepare_look(prepare, &peer);
    return status == RCM_AGAIN ? left : status;
}

/* bytes: of the larger buffer. */
static rcm_status request_of(const rcm_comm *comm, enum rcm_collective collective, size_t bytes,
                             const struct rcm_call *call, struct rcmi_request *ret_request) {
    const struct rcmi_collective *row = rcmi_collective_at((int)collective);
    if (!row)
        return rcmi_fail(RCM_ERR_INVALID, 0, "collective %d does not exist", (int)collective);
    *ret_request = (struct rcmi_request){.collective = collective,
                                         .count = bytes / rcmi_collective_larger(row, comm->size),
                                         .dtype = RCM_UINT8,
                                         .call = call};
    return RCM_OK;
}

/* Opens the device for device memory. */
static rcm_status prepare_kind(rcm_comm *comm, enum rcm_mem_kind kind, rcmi_deadline deadline,
                               enum rcmi_mem_kind *ret_kind) {
    if (kind != RCM_MEM_HOST && kind != RCM_MEM_DEVICE)
        return rcmi_fail(RCM_ERR_INVALID, 0, "kind is %d, not a kind of memory", (int)kind);
    *ret_kind = kind == RCM_MEM_DEVICE ? RCMI_MEM_DEVICE : RCMI_MEM_HOST;
    if (kind == RCM_MEM_HOST)
        return RCM_OK;
    return rcmi_rank_device_open(rcmi_comm_device(comm), deadline);
}

rcm_status rcm_comm_prepare(rcm_comm *comm, enum rcm_collective collective, size_t bytes, int root,
                            const char *algorithm) {
    return rcm_comm_prepare_kind(comm, RCM_MEM_HOST, collective, bytes, root, algorithm);
}

static rcm_status prepare_call(rcm_comm *comm, enum rcm_mem_kind kind,
                               enum rcm_collective collective, size_t bytes, int root,
                               const char *algorithm) {
    RCMI_ENTRY;
    struct rcm_call call = RCM_CALL_INIT;
    struct rcmi_request request = {0};
    struct prepare prepare = {.comm = comm, .collective = collective, .bytes = bytes};
    const struct rcmi_algorithm *chosen;
    const rcmi_deadline deadline = rcmi_deadline_in(comm->timeout_ms);
    call.algorithm = algorithm;
    rcm_status status = rcmi_comm_usable(comm);
    if (status != RCM_OK)
        return rcmi_comm_refuse(comm, RCMI_WORK_COLLECTIVE, status, NULL, NULL);
    status = rcmi_work_may_wait(-1);
    if (status == RCM_OK)
        status = request_of(comm, collective, bytes, &call, &request);
    if (status == RCM_OK)
        status = rcmi_check_root(comm->size, root);
    if (status == RCM_OK)
        status = prepare_kind(comm, kind, deadline, &prepare.kind);
    if (status == RCM_OK)
        status = rcmi_request_algorithm(comm, comm->selection, &request, &chosen);
    if (status == RCM_OK)
        status = rcmi_plan_cache_get(comm->plans, chosen, root, &prepare.plan);
    if (status == RCM_OK)
        status = rcmi_comm_wait_for(comm, prepare_check, &prepare, deadline);
    if (status == RCM_AGAIN)
        status = rcmi_fail(RCM_ERR_TIMEOUT, 0, "not all ranks prepared %s within %.1f s",
                           rcmi_collective_name(collective), (double)comm->timeout_ms / 1000);
    return rcmi_comm_decline(comm, status);
}

rcm_status rcm_comm_prepare_kind(rcm_comm *comm, enum rcm_mem_kind kind,
                                 enum rcm_collective collective, size_t bytes, int root,
                                 const char *algorithm) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, prepare_call(comm, kind, collective, bytes, root, algorithm));
}

const char *rcm_comm_algorithm(rcm_comm *comm, enum rcm_collective collective, size_t bytes) {
    RCMI_ENTRY;
    struct rcmi_request request = {0};
    const struct rcmi_algorithm *algorithm;
    if (rcmi_comm_usable(comm) != RCM_OK ||
        request_of(comm, collective, bytes, NULL, &request) != RCM_OK ||
        rcmi_request_algorithm(comm, comm->selection, &request, &algorithm) != RCM_OK)
        return "";
    return algorithm->name;
}
