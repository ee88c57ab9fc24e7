/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public functions of collectives with equal blocks, rcm_reduce and the scans. Not here:
 * rcm_all_reduce, rcm_broadcast, rcm_barrier and the issue of a call (collective.c), and the checks
 * (request.c).
 */
#include "request.h"

/* For a collective without operator or root, these are the same on all ranks. */
static rcm_status call_blocks(enum rcm_collective which, rcm_comm *comm, const void *send,
                              void *recv, size_t count, rcm_dtype dtype, rcm_op op, int root,
                              const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = which,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op,
                                   .root = root,
                                   .call = call};
    return rcmi_request_call(comm, &request, ret_work);
}

rcm_status rcm_reduce(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      rcm_op op, int root, const struct rcm_call *call, rcm_work **ret_work) {
    return call_blocks(RCM_REDUCE, comm, send, recv, count, dtype, op, root, call, ret_work);
}

rcm_status rcm_scatter(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                       int root, const struct rcm_call *call, rcm_work **ret_work) {
    return call_blocks(RCM_SCATTER, comm, send, recv, count, dtype, RCM_SUM, root, call, ret_work);
}

rcm_status rcm_gather(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      int root, const struct rcm_call *call, rcm_work **ret_work) {
    return call_blocks(RCM_GATHER, comm, send, recv, count, dtype, RCM_SUM, root, call, ret_work);
}

rcm_status rcm_all_gather(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work) {
    return call_blocks(RCM_ALL_GATHER, comm, send, recv, count, dtype, RCM_SUM, 0, call, ret_work);
}

rcm_status rcm_reduce_scatter(rcm_comm *comm, const void *send, void *recv, size_t count,
                              rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                              rcm_work **ret_work) {
    return call_blocks(RCM_REDUCE_SCATTER, comm, send, recv, count, dtype, op, 0, call, ret_work);
}

rcm_status rcm_all_to_all(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work) {
    return call_blocks(RCM_ALL_TO_ALL, comm, send, recv, count, dtype, RCM_SUM, 0, call, ret_work);
}

rcm_status rcm_scan(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                    rcm_op op, const struct rcm_call *call, rcm_work **ret_work) {
    return call_blocks(RCM_SCAN, comm, send, recv, count, dtype, op, 0, call, ret_work);
}

rcm_status rcm_exscan(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      rcm_op op, const struct rcm_call *call, rcm_work **ret_work) {
    return call_blocks(RCM_EXSCAN, comm, send, recv, count, dtype, op, 0, call, ret_work);
}
