/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of unequal length, between the front doors (collective_uneven.c) and a request: what the
 * forms with _v and _list were given becomes a table of blocks, checked.
 */
#ifndef RCMI_UNEVEN_H
#define RCMI_UNEVEN_H

#include "request.h"

/* A buffer as the user gave it. The collective's row says how many blocks this rank has of it. */
struct rcmi_uneven {
    const char *name;  /* "send": its counts are send_counts in texts, or send_count if it is one */
    const void *bytes; /* its beginning; or */
    const void *list;  /* the address of each block: an array of pointers */
    const size_t *counts; /* elements of each block */
    const size_t *displs; /* where each begins, in elements; NULL: one after the other */
};

/* Checks everything and makes request->blocks, on rank `rank` of `size`; node: which memory is
 * registered. */
rcm_status rcmi_uneven_make(struct rcmi_request *request, const struct rcmi_uneven *in,
                            const struct rcmi_uneven *out, int rank, int size,
                            struct rcmi_node *node);
/* The same, and binds it as a further stage of a work (work.h), whose request->blocks then are. */
rcm_status rcmi_uneven_stage(rcm_comm *comm, struct rcmi_request *request,
                             const struct rcmi_uneven *in, const struct rcmi_uneven *out,
                             struct rcmi_bind *ret_bind);
/* The same, and issues. */
rcm_status rcmi_uneven_call(rcm_comm *comm, struct rcmi_request *request,
                            const struct rcmi_uneven *in, const struct rcmi_uneven *out,
                            rcm_work **ret_work);

#endif
