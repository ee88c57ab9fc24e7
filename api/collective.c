/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives' front doors: arguments are checked here, once, and the call gets its record
 * (meta), the hash by which ranks notice that they called different things. What happens then is
 * the plan's.
 */
#include "comm.h"
#include <string.h>

/* A call as the user made it. */
struct request {
    enum rcm_collective collective;
    const void *in;
    void *out;
    size_t count;
    rcm_dtype dtype;
    rcm_op op;
    int root;
    bool parting; /* the barrier of rcm_destroy */
    const struct rcm_call *call;
};

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* The call's record: what must be equal on all ranks above, the operation's number below. The hash
 * goes over all calls so far: where a call differed and yet was complete on a rank (each its own
 * root of a broadcast), the next one differs too. */
static uint64_t request_meta(rcm_comm *comm, const struct request *r,
                             const struct rcmi_plan *plan) {
    uint64_t hash = mix(comm->history ^ comm->epoch, (uint64_t)r->collective << 1 | r->parting);
    hash = mix(hash, (uint64_t)r->dtype << 32 | (uint64_t)r->op);
    hash = mix(hash, r->count);
    hash = mix(hash, (uint64_t)r->root);
    hash = mix(hash, plan->name_hash);
    comm->history = hash;
    return (hash & UINT64_C(0x7fffffff00000000)) | (uint32_t)comm->sequence;
}

static rcm_status check_buffer(const char *name, const void *buffer, size_t count) {
    if (count > 0 && !buffer)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL and count is %zu", name, count);
    return RCM_OK;
}

static rcm_status check_vector(size_t count, rcm_dtype dtype) {
    const size_t size = rcm_dtype_size(dtype);
    if (size == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is no type", (int)dtype);
    if (count > SIZE_MAX / 2 / size)
        return rcmi_fail(RCM_ERR_INVALID, 0, "count %zu of %s is more than memory can hold", count,
                         rcm_dtype_name(dtype));
    return RCM_OK;
}

static rcm_status check_overlap(const void *send, const void *recv, size_t bytes) {
    const uintptr_t a = (uintptr_t)send, b = (uintptr_t)recv;
    if (a != b && a < b + bytes && b < a + bytes)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "send %p and recv %p overlap without being equal (%zu bytes each)", send,
                         recv, bytes);
    return RCM_OK;
}

/* By name if the call or the settings say one, else by cost. */
static rcm_status request_algorithm(rcm_comm *comm, const struct request *r,
                                    const struct rcmi_algorithm **ret_algorithm) {
    const char *name = r->call ? r->call->algorithm : NULL;
    if (!name)
        name = comm->forced[r->collective];
    if (name)
        return rcmi_algorithm_find(r->collective, name, &comm->shape, ret_algorithm);
    const size_t bytes = r->count * rcm_dtype_size(r->dtype);
    if (!comm->chosen[r->collective].algorithm || comm->chosen[r->collective].bytes != bytes) {
        comm->chosen[r->collective].algorithm =
            rcmi_algorithm_select(r->collective, &comm->shape, bytes);
        comm->chosen[r->collective].bytes = bytes;
    }
    *ret_algorithm = comm->chosen[r->collective].algorithm;
    return RCM_OK;
}

static rcm_status request_issue(rcm_comm *comm, const struct request *r, rcm_work **ret_work) {
    const struct rcmi_algorithm *algorithm;
    const struct rcmi_plan *plan;
    struct rcm_work *work;
    rcm_status status = rcmi_call_check(r->call);
    if (status == RCM_OK)
        status = request_algorithm(comm, r, &algorithm);
    if (status == RCM_OK)
        status = rcmi_plan_cache_get(comm->plans, algorithm, r->root, &plan);
    if (status == RCM_OK)
        status = rcmi_work_new(comm, RCMI_WORK_COLLECTIVE, ret_work == NULL, r->call, &work);
    if (status != RCM_OK)
        return rcmi_comm_decline(comm, status);
    work->collective = r->collective;
    work->parting = r->parting;
    work->sequence = ++comm->sequence;
    work->bind = (struct rcmi_bind){.plan = plan,
                                    .in = r->in,
                                    .out = r->out,
                                    .count = r->count,
                                    .dtype = r->dtype,
                                    .op = r->op,
                                    .meta = request_meta(comm, r, plan)};
    rcmi_records_add(comm->records, work);
    return rcmi_work_issue(comm, work, ret_work);
}

rcm_status rcm_all_reduce(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                          rcm_work **ret_work) {
    rcm_status status = rcmi_comm_usable(comm);
    if (status == RCM_OK)
        status = check_vector(count, dtype);
    if (status == RCM_OK && strcmp(rcm_op_name(op), "?") == 0)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "op %d is no operator", (int)op);
    if (status == RCM_OK)
        status = check_buffer("send", send, count);
    if (status == RCM_OK)
        status = check_buffer("recv", recv, count);
    if (status == RCM_OK)
        status = check_overlap(send, recv, count * rcm_dtype_size(dtype));
    if (status != RCM_OK)
        return status;
    const struct request request = {.collective = RCM_ALL_REDUCE,
                                    .in = send,
                                    .out = recv,
                                    .count = count,
                                    .dtype = dtype,
                                    .op = op,
                                    .call = call};
    return request_issue(comm, &request, ret_work);
}

rcm_status rcm_broadcast(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype, int root,
                         const struct rcm_call *call, rcm_work **ret_work) {
    rcm_status status = rcmi_comm_usable(comm);
    if (status == RCM_OK)
        status = check_vector(count, dtype);
    if (status == RCM_OK && (root < 0 || root >= comm->size))
        status =
            rcmi_fail(RCM_ERR_INVALID, 0, "root %d is not a rank of 0..%d", root, comm->size - 1);
    if (status == RCM_OK)
        status = check_buffer("buffer", buffer, count);
    if (status != RCM_OK)
        return status;
    const struct request request = {.collective = RCM_BROADCAST,
                                    .in = buffer,
                                    .out = buffer,
                                    .count = count,
                                    .dtype = dtype,
                                    .op = RCM_SUM,
                                    .root = root,
                                    .call = call};
    return request_issue(comm, &request, ret_work);
}

rcm_status rcm_barrier(rcm_comm *comm, const struct rcm_call *call, rcm_work **ret_work) {
    rcm_status status = rcmi_comm_usable(comm);
    if (status != RCM_OK)
        return status;
    const struct request request = {
        .collective = RCM_BARRIER, .dtype = RCM_UINT8, .op = RCM_SUM, .call = call};
    return request_issue(comm, &request, ret_work);
}

rcm_status rcmi_barrier_parting(rcm_comm *comm) {
    const struct request request = {
        .collective = RCM_BARRIER, .dtype = RCM_UINT8, .op = RCM_SUM, .parting = true};
    rcm_status status = rcmi_comm_usable(comm);
    return status == RCM_OK ? request_issue(comm, &request, NULL) : status;
}

/* ---- Preparing ----------------------------------------------------------------------------- */

struct prepare {
    rcm_comm *comm;
    const struct rcmi_plan *plan;
    size_t bytes;
};

static rcm_status prepare_check(void *arg) {
    const struct prepare *prepare = arg;
    rcm_status failed = rcmi_comm_failure(prepare->comm);
    return failed != RCM_OK ? failed
                            : rcmi_exec_prepare(prepare->comm->exec, prepare->plan, prepare->bytes);
}

static rcm_status request_of(enum rcm_collective collective, size_t bytes,
                             const struct rcm_call *call, struct request *ret_request) {
    if (collective < RCM_ALL_REDUCE || collective > RCM_BARRIER)
        return rcmi_fail(RCM_ERR_INVALID, 0, "collective %d is none", (int)collective);
    *ret_request = (struct request){
        .collective = collective, .count = bytes, .dtype = RCM_UINT8, .call = call};
    return RCM_OK;
}

rcm_status rcm_comm_prepare(rcm_comm *comm, enum rcm_collective collective, size_t bytes, int root,
                            const char *algorithm) {
    struct rcm_call call = RCM_CALL_INIT;
    struct request request = {0};
    struct prepare prepare = {.comm = comm, .bytes = bytes};
    const struct rcmi_algorithm *chosen;
    call.algorithm = algorithm;
    rcm_status status = rcmi_comm_usable(comm);
    if (status == RCM_OK)
        status = request_of(collective, bytes, &call, &request);
    if (status == RCM_OK && (root < 0 || root >= comm->size))
        status =
            rcmi_fail(RCM_ERR_INVALID, 0, "root %d is not a rank of 0..%d", root, comm->size - 1);
    if (status == RCM_OK)
        status = request_algorithm(comm, &request, &chosen);
    if (status == RCM_OK)
        status = rcmi_plan_cache_get(comm->plans, chosen, root, &prepare.plan);
    if (status == RCM_OK)
        status =
            rcmi_comm_wait_for(comm, prepare_check, &prepare, rcmi_deadline_in(comm->timeout_ms));
    if (status == RCM_AGAIN)
        status = rcmi_fail(RCM_ERR_TIMEOUT, 0, "not all ranks prepared %s within %.1f s",
                           rcmi_collective_name(collective), (double)comm->timeout_ms / 1000);
    return rcmi_comm_decline(comm, status);
}

const char *rcm_comm_algorithm(rcm_comm *comm, enum rcm_collective collective, size_t bytes) {
    struct request request = {0};
    const struct rcmi_algorithm *algorithm;
    if (rcmi_comm_usable(comm) != RCM_OK ||
        request_of(collective, bytes, NULL, &request) != RCM_OK ||
        request_algorithm(comm, &request, &algorithm) != RCM_OK)
        return "";
    return algorithm->name;
}
