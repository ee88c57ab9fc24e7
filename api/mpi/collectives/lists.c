/* SPDX-License-Identifier: BSD-3-Clause */
/* See lists.h. Every block is bound on its own. */
#include "lists.h"
#include <stdlib.h>

void lists_free(struct lists *lists) {
    free(lists->send);
    free(lists->send_counts);
    *lists = (struct lists){0};
}

bool lists_make(struct operation *operation, int nsend, int nrecv, struct lists *lists) {
    const size_t n = (size_t)(nsend + nrecv);
    lists->send = calloc(n + 1, sizeof *lists->send);
    lists->send_counts = calloc(n + 1, sizeof *lists->send_counts);
    operation->blocks = calloc(n + 1, sizeof *operation->blocks);
    if (!lists->send || !lists->send_counts || !operation->blocks)
        return false;
    lists->recv = lists->send + nsend;
    lists->recv_counts = lists->send_counts + nsend;
    operation->nsend = nsend;
    operation->nblocks = nsend + nrecv;
    return true;
}

/* Binds block i as data number `at` of the operation. */
static int bind_block(struct form *form, const struct blocks *blocks, int i, unsigned use, int at,
                      struct operation *operation, struct lists *lists) {
    struct MPI_ABI_Datatype *type;
    struct data *data = &operation->blocks[at];
    const MPI_Datatype handle = blocks->types ? blocks->types[i] : blocks->type;
    const MPI_Count count = blocks->counts.items ? array_at(blocks->counts, i) : blocks->count;
    const MPI_Count displ = blocks->displs.items ? array_at(blocks->displs, i) : count * i;
    if (count == 0 && blocks->types)
        return MPI_SUCCESS;
    int code = type_find_used(form, handle, &type);
    if (code != MPI_SUCCESS)
        return code;
    const void *memory = AT(blocks->buffer, displ * (blocks->types ? 1 : type->extent));
    code = blocks->copies ? data_copy(form, memory, count, handle, data)
                          : data_bind(form, memory, count, handle, use, data);
    if (code != MPI_SUCCESS)
        return code;
    lists->send[at] = data->bytes ? data->address : NULL;
    lists->send_counts[at] = lists->in_bytes ? data->bytes : data->count;
    if (lists->in_bytes)
        lists->dtype = RCM_UINT8;
    else if (data->count || !lists->has_elements)
        lists->dtype = data->dtype;
    lists->has_elements |= data->count > 0;
    return MPI_SUCCESS;
}

/* Binds one side, whose entries begin at `at`. */
static int bind_blocks(struct form *form, const struct blocks *blocks, unsigned use, int at,
                       struct operation *operation, struct lists *lists) {
    int code = MPI_SUCCESS;
    lists->in_bytes |= blocks->types != NULL;
    for (int i = 0; code == MPI_SUCCESS && i < blocks->n; i++) {
        const int place = at + blocks->first + i;
        if (i == 0 || !blocks->is_same) {
            code = bind_block(form, blocks, i, use, place, operation, lists);
        } else {
            lists->send[place] = lists->send[place - 1];
            lists->send_counts[place] = lists->send_counts[place - 1];
        }
    }
    return code;
}

int lists_bind(struct form *form, const struct blocks *send, const struct blocks *recv, int size,
               unsigned recv_use, struct operation *operation, struct lists *lists) {
    int code = MPI_SUCCESS;
    lists->dtype = RCM_UINT8;
    if (!lists_make(operation, send ? size : 0, recv ? size : 0, lists))
        code = form_error(form, MPI_ERR_NO_MEM, "no memory for lists of %d blocks", size);
    if (code == MPI_SUCCESS && send)
        code = bind_blocks(form, send, DATA_IN, 0, operation, lists);
    if (code == MPI_SUCCESS && recv)
        code = bind_blocks(form, recv, recv_use, operation->nsend, operation, lists);
    if (code == MPI_SUCCESS)
        return code;
    lists_free(lists);
    return operation_drop(form, operation, code);
}
