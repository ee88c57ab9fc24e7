/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives. A message carries packed bytes; its tag is that of ringcomm.h. */
#include "buffered.h"
#include "device_memory.h"
#include "faces.h"
#include "request.h"

enum { SELF_BYTES = 64 * 1024 }; /* a blocking send to the own rank up to here need not wait */

int face_send(struct form *form, struct side *side, int dst, int tag, struct MPI_ABI_Comm *comm,
              int mode) {
    struct operation local, *operation;
    int code = operation_bind(form, &local, side, NULL, &operation);
    if (code != MPI_SUCCESS)
        return code;
    if (dst == MPI_PROC_NULL)
        return operation_issued(form, operation, RCM_OK, NULL);
    const struct data *data = &operation->send;
    if (mode == SEND_BUFFERED)
        code = buffered_check(form, data->address, data->bytes);
    if (code != MPI_SUCCESS)
        return operation_drop(form, operation, code);
    rcm_work **work = operation_work(form, operation);
    const int peer = comm_peer(comm, dst);
    const bool copies = form->kind == FORM_NOW && mode == SEND_STANDARD && dst == comm->rank &&
                        !comm->is_inter && data->bytes <= SELF_BYTES &&
                        !memory_is_device(data->address);
    const rcm_status status =
        copies                     ? buffered_copy_free(comm, data, peer, (uint64_t)tag)
        : mode == SEND_BUFFERED    ? buffered_copy(comm, data, peer, (uint64_t)tag)
        : mode == SEND_SYNCHRONOUS ? rcm_ssend(comm->comm, data->address, data->count, data->dtype,
                                               peer, (uint64_t)tag, NULL, work)
                                   : rcm_send(comm->comm, data->address, data->count, data->dtype,
                                              peer, (uint64_t)tag, NULL, work);
    return operation_issued(form, operation, status, NULL);
}

int face_Recv(struct form *form, struct side *side, int src, int tag, struct MPI_ABI_Comm *comm,
              MPI_Status *ret_status) {
    struct operation local, *operation;
    const int code = operation_bind(form, &local, NULL, side, &operation);
    if (code != MPI_SUCCESS)
        return code;
    operation_receive(operation, src, comm->peer_first);
    if (src == MPI_PROC_NULL)
        return operation_issued(form, operation, RCM_OK, ret_status);
    struct rcm_call call = RCM_CALL_INIT;
    call.message = &operation->message;
    call.flags = form->kind == FORM_BEGIN ? RCM_AWAIT_LEFT : 0; /* it may be canceled */
    const struct data *data = &operation->recv;
    const rcm_status status =
        rcm_recv(comm->comm, data->address, data->count, data->dtype, comm_peer(comm, src),
                 comm_tag(tag), &call, operation_work(form, operation));
    return operation_issued(form, operation, status, ret_status);
}

/* The two parts of MPI_Sendrecv. */
struct exchange {
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

int face_Sendrecv(struct form *form, struct side *from, int dst, int send_tag, struct side *to,
                  int src, int recv_tag, struct MPI_ABI_Comm *comm, MPI_Status *ret_status) {
    struct operation local, *operation;
    const struct exchange exchange = {dst, send_tag, src, recv_tag};
    const int code = operation_bind(form, &local, from, to, &operation);
    return code == MPI_SUCCESS ? issue_both(form, &exchange, comm, operation, ret_status) : code;
}

int face_Sendrecv_replace(struct form *form, struct side *side, int dst, int send_tag, int src,
                          int recv_tag, struct MPI_ABI_Comm *comm, MPI_Status *ret_status) {
    struct operation local, *operation;
    const struct exchange exchange = {dst, send_tag, src, recv_tag};
    side->keeps = true;
    int code = operation_bind(form, &local, NULL, side, &operation);
    if (code == MPI_SUCCESS)
        code = operation_copy(form, operation, side);
    return code == MPI_SUCCESS ? issue_both(form, &exchange, comm, operation, ret_status) : code;
}
