/* SPDX-License-Identifier: BSD-3-Clause */
/* The front doors of the scans. What is checked is in request.c, what becomes of a call in
 * collective.c. */
#include "request.h"

static rcm_status scan(enum rcm_collective which, rcm_comm *comm, const void *send, void *recv,
                       size_t count, rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                       rcm_work **ret_work) {
    struct rcmi_request request = {.collective = which,
                                   .in = send,
                                   .out = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op,
                                   .call = call};
    return rcmi_request_call(comm, &request, ret_work);
}

rcm_status rcm_scan(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                    rcm_op op, const struct rcm_call *call, rcm_work **ret_work) {
    return scan(RCM_SCAN, comm, send, recv, count, dtype, op, call, ret_work);
}

rcm_status rcm_exscan(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      rcm_op op, const struct rcm_call *call, rcm_work **ret_work) {
    return scan(RCM_EXSCAN, comm, send, recv, count, dtype, op, call, ret_work);
}
