/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of unequal length, between the public functions (collective_uneven.c) and a request: the
 * arguments of the forms with _v and _list become a checked table of blocks.
 */
#ifndef RCMI_UNEVEN_H
#define RCMI_UNEVEN_H

#include "request.h"

/* A buffer as passed by the caller. The collective's entry defines this rank's number of blocks. */
struct rcmi_uneven {
    const char *name;     /* "send": in texts its counts are send_counts, or send_count */
    const void *bytes;    /* its beginning; or */
    const void *list;     /* the address of each block: an array of pointers */
    const size_t *counts; /* elements of each block */
    const size_t *displs; /* first element of each; NULL: without gaps */
};

/* Checks everything and makes request->blocks, on rank `rank` of `size`. node: has the registered
 * memory. */
rcm_status rcmi_uneven_make(struct rcmi_request *request, const struct rcmi_uneven *in,
                            const struct rcmi_uneven *out, int rank, int size,
                            struct rcmi_node *node);
/* The same, and binds it as a further stage of a work (work.h), which then owns request->blocks. */
rcm_status rcmi_uneven_stage(rcm_comm *comm, struct rcmi_request *request,
                             const struct rcmi_uneven *in, const struct rcmi_uneven *out,
                             struct rcmi_bind *ret_bind);
/* The same, and issues. */
rcm_status rcmi_uneven_call(rcm_comm *comm, struct rcmi_request *request,
                            const struct rcmi_uneven *in, const struct rcmi_uneven *out,
                            rcm_work **ret_work);

#endif
