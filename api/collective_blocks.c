/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The front doors of the collectives that move blocks, and of rcm_reduce. Not here: rcm_all_reduce,
 * rcm_broadcast, rcm_barrier and what becomes of a call (collective.c), what is checked
 * (request.c).
 */
#include "request.h"

rcm_status rcm_reduce(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      rcm_op op, int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_REDUCE,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op,
                                   .root = root,
                                   .call = call};
    return rcmi_request_call(comm, &request, ret_work);
}

rcm_status rcm_scatter(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                       int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_SCATTER,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .root = root,
                                   .call = call};
    return rcmi_request_call(comm, &request, ret_work);
}

rcm_status rcm_gather(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_GATHER,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .root = root,
                                   .call = call};
    return rcmi_request_call(comm, &request, ret_work);
}

rcm_status rcm_all_gather(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_ALL_GATHER,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .call = call};
    return rcmi_request_call(comm, &request, ret_work);
}

rcm_status rcm_reduce_scatter(rcm_comm *comm, const void *send, void *recv, size_t count,
                              rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                              rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_REDUCE_SCATTER,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op,
                                   .call = call};
    return rcmi_request_call(comm, &request, ret_work);
}

rcm_status rcm_all_to_all(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_ALL_TO_ALL,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .call = call};
    return rcmi_request_call(comm, &request, ret_work);
}
