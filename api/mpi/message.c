/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives. A message carries packed bytes; its tag is that of ringcomm.h. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "buffered.h"
#include "faces.h"
#include "request.h"

enum { SELF_BYTES = 64 * 1024 }; /* a blocking send to the own rank up to here need not wait */

static uint64_t receive_tag(int tag) {
    return tag == MPI_ANY_TAG ? RCM_ANY_TAG : (uint64_t)tag;
}

static int check_tag(struct form *form, int tag, bool any) {
    if (tag >= 0 || (any && tag == MPI_ANY_TAG))
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_TAG, "the tag is %d, but tags are 0 to %d", tag, INT_MAX);
}

/* What the three modes of a send share. */
struct send_call {
    const void *buffer;
    MPI_Count count;
    MPI_Datatype type;
    int dst, tag;
    MPI_Comm comm;
};

static int send_message(struct form *form, const struct send_call *call, bool synchronous) {
    struct MPI_ABI_Comm *comm;
    struct operation local;
    int code = comm_find_peer(form, call->comm, call->dst, false, &comm);
    if (code == MPI_SUCCESS)
        code = check_tag(form, call->tag, false);
    if (code != MPI_SUCCESS)
        return code;
    struct operation *operation = operation_begin(form, &local);
    if (!operation)
        return form->code;
    code = data_bind(form, call->buffer, call->count, call->type, DATA_IN, &operation->send);
    if (code != MPI_SUCCESS)
        return operation_drop(form, operation, code);
    if (call->dst == MPI_PROC_NULL)
        return operation_issued(form, operation, RCM_OK, NULL);
    const struct data *data = &operation->send;
    if (form->kind == FORM_NOW && !synchronous && call->dst == comm->rank &&
        data->bytes <= SELF_BYTES)
        return operation_issued(form, operation,
                                buffered_copy(comm, data, call->dst, (uint64_t)call->tag), NULL);
    rcm_work **work = operation_work(form, operation);
    const rcm_status status = synchronous
                                  ? rcm_ssend(comm->comm, data->address, data->count, data->dtype,
                                              call->dst, (uint64_t)call->tag, NULL, work)
                                  : rcm_send(comm->comm, data->address, data->count, data->dtype,
                                             call->dst, (uint64_t)call->tag, NULL, work);
    return operation_issued(form, operation, status, NULL);
}

int face_Send(struct form *form, const void *buffer, MPI_Count count, MPI_Datatype type, int dst,
              int tag, MPI_Comm comm) {
    return send_message(form, &(struct send_call){buffer, count, type, dst, tag, comm}, false);
}

int face_Ssend(struct form *form, const void *buffer, MPI_Count count, MPI_Datatype type, int dst,
               int tag, MPI_Comm comm) {
    return send_message(form, &(struct send_call){buffer, count, type, dst, tag, comm}, true);
}

int face_Bsend(struct form *form, const void *buffer, MPI_Count count, MPI_Datatype type, int dst,
               int tag, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    struct operation local;
    int code = comm_find_peer(form, handle, dst, false, &comm);
    if (code == MPI_SUCCESS)
        code = check_tag(form, tag, false);
    if (code != MPI_SUCCESS)
        return code;
    struct operation *operation = operation_begin(form, &local);
    if (!operation)
        return form->code;
    code = data_bind(form, buffer, count, type, DATA_IN, &operation->send);
    if (code == MPI_SUCCESS && dst != MPI_PROC_NULL)
        code = buffered_check(form, operation->send.bytes);
    if (code != MPI_SUCCESS)
        return operation_drop(form, operation, code);
    const rcm_status status =
        dst == MPI_PROC_NULL ? RCM_OK : buffered_copy(comm, &operation->send, dst, (uint64_t)tag);
    return operation_issued(form, operation, status, NULL);
}

int face_Recv(struct form *form, void *buffer, MPI_Count count, MPI_Datatype type, int src, int tag,
              MPI_Comm handle, MPI_Status *ret_status) {
    struct MPI_ABI_Comm *comm;
    struct operation local;
    int code = comm_find_peer(form, handle, src, true, &comm);
    if (code == MPI_SUCCESS)
        code = check_tag(form, tag, true);
    if (code != MPI_SUCCESS)
        return code;
    struct operation *operation = operation_begin(form, &local);
    if (!operation)
        return form->code;
    code = data_bind(form, buffer, count, type, DATA_OUT, &operation->recv);
    if (code != MPI_SUCCESS)
        return operation_drop(form, operation, code);
    operation->is_receive = true;
    operation->source = src;
    if (src == MPI_PROC_NULL)
        return operation_issued(form, operation, RCM_OK, ret_status);
    struct rcm_call call = RCM_CALL_INIT;
    call.message = &operation->message;
    const struct data *data = &operation->recv;
    const rcm_status status = rcm_recv(comm->comm, data->address, data->count, data->dtype,
                                       src == MPI_ANY_SOURCE ? RCM_ANY_SOURCE : src,
                                       receive_tag(tag), &call, operation_work(form, operation));
    return operation_issued(form, operation, status, ret_status);
}

/* Issues both parts, or the one whose peer is not MPI_PROC_NULL. */
static rcm_status issue_both(struct MPI_ABI_Comm *comm, struct operation *operation, int dst,
                             int send_tag, int src, int recv_tag, rcm_work **work) {
    const struct data *send = &operation->send, *recv = &operation->recv;
    struct rcm_transfer transfers[2];
    size_t n = 0;
    if (src != MPI_PROC_NULL)
        transfers[n++] = (struct rcm_transfer){.kind = RCM_TRANSFER_RECV,
                                               .peer = src == MPI_ANY_SOURCE ? RCM_ANY_SOURCE : src,
                                               .buffer = recv->address,
                                               .count = recv->count,
                                               .tag = receive_tag(recv_tag),
                                               .dtype = recv->dtype,
                                               .message = &operation->message};
    if (dst != MPI_PROC_NULL)
        transfers[n++] = (struct rcm_transfer){.kind = RCM_TRANSFER_SEND,
                                               .peer = dst,
                                               .buffer = send->address,
                                               .count = send->count,
                                               .tag = (uint64_t)send_tag,
                                               .dtype = send->dtype};
    return n ? rcm_batch(comm->comm, transfers, n, NULL, work) : RCM_OK;
}

int face_Sendrecv(struct form *form, const void *send, MPI_Count send_count, MPI_Datatype send_type,
                  int dst, int send_tag, void *recv, MPI_Count recv_count, MPI_Datatype recv_type,
                  int src, int recv_tag, MPI_Comm handle, MPI_Status *ret_status) {
    struct MPI_ABI_Comm *comm;
    struct operation local;
    int code = comm_find_peer(form, handle, dst, false, &comm);
    if (code == MPI_SUCCESS)
        code = comm_find_peer(form, handle, src, true, &comm);
    if (code == MPI_SUCCESS)
        code = check_tag(form, send_tag, false);
    if (code == MPI_SUCCESS)
        code = check_tag(form, recv_tag, true);
    if (code != MPI_SUCCESS)
        return code;
    struct operation *operation = operation_begin(form, &local);
    if (!operation)
        return form->code;
    code = data_bind(form, send, send_count, send_type, DATA_IN, &operation->send);
    if (code == MPI_SUCCESS)
        code = data_bind(form, recv, recv_count, recv_type, DATA_OUT, &operation->recv);
    if (code != MPI_SUCCESS)
        return operation_drop(form, operation, code);
    operation->is_receive = true;
    operation->source = src;
    const rcm_status status =
        issue_both(comm, operation, dst, send_tag, src, recv_tag, operation_work(form, operation));
    return operation_issued(form, operation, status, ret_status);
}

int face_Sendrecv_replace(struct form *form, void *buffer, MPI_Count count, MPI_Datatype type,
                          int dst, int send_tag, int src, int recv_tag, MPI_Comm handle,
                          MPI_Status *ret_status) {
    struct MPI_ABI_Comm *comm;
    struct operation local;
    int code = comm_find_peer(form, handle, dst, false, &comm);
    if (code == MPI_SUCCESS)
        code = comm_find_peer(form, handle, src, true, &comm);
    if (code != MPI_SUCCESS)
        return code;
    struct operation *operation = operation_begin(form, &local);
    if (!operation)
        return form->code;
    code = data_bind(form, buffer, count, type, DATA_IN | DATA_OUT, &operation->recv);
    if (code != MPI_SUCCESS)
        return operation_drop(form, operation, code);
    operation->send = operation->recv;
    operation->send.packed = NULL;
    operation->temporary = malloc(operation->recv.bytes + 1);
    if (!operation->temporary)
        return operation_drop(form, operation,
                              form_error(form, MPI_ERR_NO_MEM, "no memory for a copy"));
    if (operation->recv.bytes)
        memcpy(operation->temporary, operation->recv.address, operation->recv.bytes);
    operation->send.address = operation->temporary;
    operation->is_receive = true;
    operation->source = src;
    const rcm_status status =
        issue_both(comm, operation, dst, send_tag, src, recv_tag, operation_work(form, operation));
    return operation_issued(form, operation, status, ret_status);
}
