/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes, and receives of messages that a probe took out. */
#include <stdlib.h>
#include "faces.h"
#include "request.h"

struct MPI_ABI_Message {
    rcm_matched *matched;
    struct rcm_message message;
    MPI_Comm comm;
};

/* One probe: `wait` or not (then ret_flag is NULL), `take` the message out or not. */
int face_probe(struct form *form, int source, int tag, struct MPI_ABI_Comm *comm, bool wait,
               int *ret_flag, MPI_Message *take, MPI_Status *ret_status) {
    struct rcm_message message = RCM_MESSAGE_INIT;
    rcm_matched *matched = NULL;
    const int from = comm_peer(comm, source);
    const uint64_t wanted = comm_tag(tag);
    rcm_status status = RCM_OK;
    if (source == MPI_PROC_NULL) {
        if (take)
            *take = MPI_MESSAGE_NO_PROC;
    } else if (take) {
        status = wait ? rcm_mprobe(comm->comm, from, wanted, NULL, &message, &matched)
                      : rcm_improbe(comm->comm, from, wanted, &message, &matched);
    } else {
        status = wait ? rcm_probe(comm->comm, from, wanted, NULL, &message)
                      : rcm_iprobe(comm->comm, from, wanted, &message);
    }
    if (ret_flag)
        *ret_flag = status == RCM_OK;
    if (status == RCM_PENDING)
        return MPI_SUCCESS;
    if (status != RCM_OK)
        return form_status(form, status);
    if (ret_status && source == MPI_PROC_NULL)
        status_set(ret_status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
    else if (ret_status)
        status_receive(ret_status, &message, comm->peer_first);
    if (!matched)
        return MPI_SUCCESS;
    MPI_Message made = malloc(sizeof *made);
    if (!made)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for a message");
    *made = (struct MPI_ABI_Message){matched, message, form->comm};
    comm_get(form->comm);
    *take = made;
    return MPI_SUCCESS;
}

int face_Mrecv(struct form *form, struct side *side, MPI_Message *place, MPI_Status *ret_status) {
    struct operation local, *operation;
    struct MPI_ABI_Comm *comm;
    MPI_Message message = *place;
    if (message == MPI_MESSAGE_NULL)
        return form_error(form, MPI_ERR_REQUEST, "message is MPI_MESSAGE_NULL");
    const bool is_none = message == MPI_MESSAGE_NO_PROC;
    int code = comm_find(form, is_none ? MPI_COMM_SELF : message->comm, &comm);
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, NULL, side, &operation);
    if (code != MPI_SUCCESS)
        return code;
    operation_receive(operation, is_none ? MPI_PROC_NULL : message->message.source,
                      comm->peer_first);
    *place = MPI_MESSAGE_NULL;
    if (is_none)
        return operation_issued(form, operation, RCM_OK, ret_status);
    struct rcm_call call = RCM_CALL_INIT;
    call.message = &operation->message;
    const struct data *data = &operation->recv;
    const rcm_status status = rcm_mrecv(comm->comm, message->matched, data->address, data->count,
                                        data->dtype, &call, operation_work(form, operation));
    code = operation_issued(form, operation, status, ret_status);
    if (code != MPI_SUCCESS)
        form_hold(form, message->comm);
    comm_put(message->comm);
    free(message);
    return code;
}
