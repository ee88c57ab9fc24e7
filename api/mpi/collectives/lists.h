/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of a block for each rank, as the functions of ringcomm.h with _list take them. */
#ifndef LISTS_H
#define LISTS_H

#include "request.h"

/* Blocks of ranks first to first + n - 1. counts without items: each has `count` elements, one
 * behind the other. displs are extents of the type, or bytes if each block has its own type. */
struct blocks {
    const void *buffer;
    MPI_Count count;
    MPI_Datatype type;
    struct array counts, displs;
    const MPI_Datatype *types;
    int first, n;
    bool is_same; /* there is one block, which all these ranks get */
    bool copies;  /* what is sent is a copy, because the result replaces it */
};

/* An entry for each rank of the communicator; those without a block have none. */
struct lists {
    void **send, **recv;
    size_t *send_counts, *recv_counts;
    rcm_dtype dtype;   /* of the elements; without any, of the last empty block */
    bool has_elements; /* a block has some */
    bool in_bytes;     /* counts are bytes, whatever the types are */
};

/* Makes empty lists of nsend and nrecv entries. */
bool lists_make(struct operation *operation, int nsend, int nrecv, struct lists *lists);
void lists_free(struct lists *lists);
/* Binds the blocks of both sides (NULL: none) on a communicator of `size` ranks. After an error all
 * is released. */
int lists_bind(struct form *form, const struct blocks *send, const struct blocks *recv, int size,
               unsigned recv_use, struct operation *operation, struct lists *lists);

#endif
