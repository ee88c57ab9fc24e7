/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives. A message carries packed bytes; its tag is that of ringcomm.h. */
#include "buffered.h"
#include "device_memory.h"
#include "faces.h"
#include "request.h"

enum { SELF_BYTES = 64 * 1024 }; /* a blocking send to the own rank up to here need not wait */

/* How a send is done. */
enum mode { MODE_STANDARD, MODE_SYNCHRONOUS, MODE_BUFFERED };

static int send_message(struct form *form, const struct side *side, int dst, int tag,
                        MPI_Comm handle, enum mode mode) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    int code = comm_find_peer(form, handle, dst, tag, false, &comm);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, side, NULL, &operation);
    if (code != MPI_SUCCESS)
        return code;
    if (dst == MPI_PROC_NULL)
        return operation_issued(form, operation, RCM_OK, NULL);
    const struct data *data = &operation->send;
    if (mode == MODE_BUFFERED)
        code = buffered_check(form, data->address, data->bytes);
    if (code != MPI_SUCCESS)
        return operation_drop(form, operation, code);
    rcm_work **work = operation_work(form, operation);
    if (form->kind == FORM_NOW && mode == MODE_STANDARD && dst == comm->rank && !comm->is_inter &&
        data->bytes <= SELF_BYTES && !memory_is_device(data->address))
        return operation_issued(form, operation,
                                buffered_copy_free(comm, data, comm_peer(comm, dst), (uint64_t)tag),
                                NULL);
    dst = comm_peer(comm, dst);
    const rcm_status status = mode == MODE_BUFFERED ? buffered_copy(comm, data, dst, (uint64_t)tag)
                              : mode == MODE_SYNCHRONOUS
                                  ? rcm_ssend(comm->comm, data->address, data->count, data->dtype,
                                              dst, (uint64_t)tag, NULL, work)
                                  : rcm_send(comm->comm, data->address, data->count, data->dtype,
                                             dst, (uint64_t)tag, NULL, work);
    return operation_issued(form, operation, status, NULL);
}

int face_Send(struct form *form, const void *buffer, MPI_Count count, MPI_Datatype type, int dst,
              int tag, MPI_Comm comm) {
    const struct side side = {buffer, count, type, 1, false};
    return send_message(form, &side, dst, tag, comm, MODE_STANDARD);
}

int face_Ssend(struct form *form, const void *buffer, MPI_Count count, MPI_Datatype type, int dst,
               int tag, MPI_Comm comm) {
    const struct side side = {buffer, count, type, 1, false};
    return send_message(form, &side, dst, tag, comm, MODE_SYNCHRONOUS);
}

int face_Bsend(struct form *form, const void *buffer, MPI_Count count, MPI_Datatype type, int dst,
               int tag, MPI_Comm comm) {
    const struct side side = {buffer, count, type, 1, false};
    return send_message(form, &side, dst, tag, comm, MODE_BUFFERED);
}

int face_Recv(struct form *form, void *buffer, MPI_Count count, MPI_Datatype type, int src, int tag,
              MPI_Comm handle, MPI_Status *ret_status) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    const struct side side = {buffer, count, type, 1, false};
    int code = comm_find_peer(form, handle, src, tag, true, &comm);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, NULL, &side, &operation);
    if (code != MPI_SUCCESS)
        return code;
    operation_receive(operation, src, comm->peer_first);
    if (src == MPI_PROC_NULL)
        return operation_issued(form, operation, RCM_OK, ret_status);
    struct rcm_call call = RCM_CALL_INIT;
    call.message = &operation->message;
    const struct data *data = &operation->recv;
    const rcm_status status =
        rcm_recv(comm->comm, data->address, data->count, data->dtype, comm_peer(comm, src),
                 comm_tag(tag), &call, operation_work(form, operation));
    return operation_issued(form, operation, status, ret_status);
}

/* The two parts of MPI_Sendrecv. */
struct exchange {
    MPI_Comm comm;
    int dst, send_tag, src, recv_tag;
};

/* Issues both parts, or the one whose peer is not MPI_PROC_NULL. */
static int issue_both(struct form *form, const struct exchange *exchange,
                      const struct MPI_ABI_Comm *comm, struct operation *operation,
                      MPI_Status *ret_status) {
    const struct data *send = &operation->send, *recv = &operation->recv;
    struct rcm_transfer transfers[2];
    size_t n = 0;
    operation_receive(operation, exchange->src, comm->peer_first);
    if (exchange->src != MPI_PROC_NULL)
        transfers[n++] = (struct rcm_transfer){.kind = RCM_TRANSFER_RECV,
                                               .peer = comm_peer(comm, exchange->src),
                                               .buffer = recv->address,
                                               .count = recv->count,
                                               .tag = comm_tag(exchange->recv_tag),
                                               .dtype = recv->dtype,
                                               .message = &operation->message};
    if (exchange->dst != MPI_PROC_NULL)
        transfers[n++] = (struct rcm_transfer){.kind = RCM_TRANSFER_SEND,
                                               .peer = comm_peer(comm, exchange->dst),
                                               .buffer = send->address,
                                               .count = send->count,
                                               .tag = comm_tag(exchange->send_tag),
                                               .dtype = send->dtype};
    const rcm_status status =
        n ? rcm_batch(comm->comm, transfers, n, NULL, operation_work(form, operation)) : RCM_OK;
    return operation_issued(form, operation, status, ret_status);
}

static int find_both(struct form *form, const struct exchange *exchange,
                     struct MPI_ABI_Comm **ret_comm) {
    const int code =
        comm_find_peer(form, exchange->comm, exchange->dst, exchange->send_tag, false, ret_comm);
    return code != MPI_SUCCESS ? code
                               : comm_find_peer(form, exchange->comm, exchange->src,
                                                exchange->recv_tag, true, ret_comm);
}

int face_Sendrecv(struct form *form, const void *send, MPI_Count send_count, MPI_Datatype send_type,
                  int dst, int send_tag, void *recv, MPI_Count recv_count, MPI_Datatype recv_type,
                  int src, int recv_tag, MPI_Comm handle, MPI_Status *ret_status) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    const struct exchange exchange = {handle, dst, send_tag, src, recv_tag};
    const struct side from = {send, send_count, send_type, 1, false};
    const struct side to = {recv, recv_count, recv_type, 1, false};
    int code = find_both(form, &exchange, &comm);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, &from, &to, &operation);
    return code == MPI_SUCCESS ? issue_both(form, &exchange, comm, operation, ret_status) : code;
}

int face_Sendrecv_replace(struct form *form, void *buffer, MPI_Count count, MPI_Datatype type,
                          int dst, int send_tag, int src, int recv_tag, MPI_Comm handle,
                          MPI_Status *ret_status) {
    struct MPI_ABI_Comm *comm;
    struct operation local, *operation;
    const struct exchange exchange = {handle, dst, send_tag, src, recv_tag};
    const struct side side = {buffer, count, type, 1, true};
    int code = find_both(form, &exchange, &comm);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, NULL, &side, &operation);
    if (code == MPI_SUCCESS)
        code = operation_copy(form, operation, &operation->recv);
    if (code != MPI_SUCCESS)
        return code;
    operation->send = operation->recv;
    operation->send.packed = NULL;
    operation->send.address = operation->temporary;
    return issue_both(form, &exchange, comm, operation, ret_status);
}
