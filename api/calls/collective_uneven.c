/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public functions of collectives whose blocks each have their own length. With _v they are in
 * one buffer, with _list each at its own address. Ranks may mix both forms of one collective. Not
 * here: the checks (uneven.c).
 */
#include "uneven.h"

/* ---- In one buffer --------------------------------------------------------------------------- */

rcm_status rcm_scatter_v(rcm_comm *comm, const void *send, const size_t *send_counts,
                         const size_t *send_displs, void *recv, size_t recv_count, rcm_dtype dtype,
                         int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_SCATTER_V, .dtype = dtype, .op = RCM_SUM, .root = root, .call = call};
    const struct rcmi_uneven in = {
        .name = "send", .bytes = send, .counts = send_counts, .displs = send_displs};
    const struct rcmi_uneven out = {.name = "recv", .bytes = recv, .counts = &recv_count};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}

rcm_status rcm_gather_v(rcm_comm *comm, const void *send, size_t send_count, void *recv,
                        const size_t *recv_counts, const size_t *recv_displs, rcm_dtype dtype,
                        int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_GATHER_V, .dtype = dtype, .op = RCM_SUM, .root = root, .call = call};
    const struct rcmi_uneven in = {.name = "send", .bytes = send, .counts = &send_count};
    const struct rcmi_uneven out = {
        .name = "recv", .bytes = recv, .counts = recv_counts, .displs = recv_displs};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}

rcm_status rcm_all_gather_v(rcm_comm *comm, const void *send, size_t send_count, void *recv,
                            const size_t *recv_counts, const size_t *recv_displs, rcm_dtype dtype,
                            const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_ALL_GATHER_V, .dtype = dtype, .op = RCM_SUM, .call = call};
    const struct rcmi_uneven in = {.name = "send", .bytes = send, .counts = &send_count};
    const struct rcmi_uneven out = {
        .name = "recv", .bytes = recv, .counts = recv_counts, .displs = recv_displs};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}

rcm_status rcm_reduce_scatter_v(rcm_comm *comm, const void *send, const size_t *send_counts,
                                const size_t *send_displs, void *recv, size_t recv_count,
                                rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_REDUCE_SCATTER_V, .dtype = dtype, .op = op, .call = call};
    const struct rcmi_uneven in = {
        .name = "send", .bytes = send, .counts = send_counts, .displs = send_displs};
    const struct rcmi_uneven out = {.name = "recv", .bytes = recv, .counts = &recv_count};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}

rcm_status rcm_all_to_all_v(rcm_comm *comm, const void *send, const size_t *send_counts,
                            const size_t *send_displs, void *recv, const size_t *recv_counts,
                            const size_t *recv_displs, rcm_dtype dtype, const struct rcm_call *call,
                            rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_ALL_TO_ALL_V, .dtype = dtype, .op = RCM_SUM, .call = call};
    const struct rcmi_uneven in = {
        .name = "send", .bytes = send, .counts = send_counts, .displs = send_displs};
    const struct rcmi_uneven out = {
        .name = "recv", .bytes = recv, .counts = recv_counts, .displs = recv_displs};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}

/* ---- Each at its own address ----------------------------------------------------------------- */

rcm_status rcm_scatter_list(rcm_comm *comm, const void *const *send, const size_t *send_counts,
                            void *recv, size_t recv_count, rcm_dtype dtype, int root,
                            const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_SCATTER_V, .dtype = dtype, .op = RCM_SUM, .root = root, .call = call};
    const struct rcmi_uneven in = {.name = "send", .list = send, .counts = send_counts};
    const struct rcmi_uneven out = {.name = "recv", .bytes = recv, .counts = &recv_count};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}

rcm_status rcm_gather_list(rcm_comm *comm, const void *send, size_t send_count, void *const *recv,
                           const size_t *recv_counts, rcm_dtype dtype, int root,
                           const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_GATHER_V, .dtype = dtype, .op = RCM_SUM, .root = root, .call = call};
    const struct rcmi_uneven in = {.name = "send", .bytes = send, .counts = &send_count};
    const struct rcmi_uneven out = {.name = "recv", .list = recv, .counts = recv_counts};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}

rcm_status rcm_all_gather_list(rcm_comm *comm, const void *send, size_t send_count,
                               void *const *recv, const size_t *recv_counts, rcm_dtype dtype,
                               const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_ALL_GATHER_V, .dtype = dtype, .op = RCM_SUM, .call = call};
    const struct rcmi_uneven in = {.name = "send", .bytes = send, .counts = &send_count};
    const struct rcmi_uneven out = {.name = "recv", .list = recv, .counts = recv_counts};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}

rcm_status rcm_reduce_scatter_list(rcm_comm *comm, const void *const *send,
                                   const size_t *send_counts, void *recv, size_t recv_count,
                                   rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                   rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_REDUCE_SCATTER_V, .dtype = dtype, .op = op, .call = call};
    const struct rcmi_uneven in = {.name = "send", .list = send, .counts = send_counts};
    const struct rcmi_uneven out = {.name = "recv", .bytes = recv, .counts = &recv_count};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}

rcm_status rcm_all_to_all_list(rcm_comm *comm, const void *const *send, const size_t *send_counts,
                               void *const *recv, const size_t *recv_counts, rcm_dtype dtype,
                               const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {
        .collective = RCM_ALL_TO_ALL_V, .dtype = dtype, .op = RCM_SUM, .call = call};
    const struct rcmi_uneven in = {.name = "send", .list = send, .counts = send_counts};
    const struct rcmi_uneven out = {.name = "recv", .list = recv, .counts = recv_counts};
    return rcmi_uneven_call(comm, &request, &in, &out, ret_work);
}
