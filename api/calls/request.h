/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective with its arguments, shared by the files of public functions. request.c checks it;
 * collective_bind.c binds it to a plan and buffers; collective.c issues it, and has the functions
 * whose speed counts most. collective_blocks.c has the others with equal blocks, and
 * collective_uneven.c (with uneven.c) those with unequal ones. persistent.c stores it for works
 * that start later.
 */
#ifndef RCMI_REQUEST_H
#define RCMI_REQUEST_H

#include "diagnosis_wire.h"
#include "error.h"
#include "exec.h"
#include "ringcomm.h"

struct rcmi_stages;
struct rcmi_template;

/* (Fields that are adjacent in struct rcmi_called are separate here. Otherwise compilers would
 * compare them with one load, which is slow right after two stores.) */
struct rcmi_request {
    enum rcm_collective collective;
    rcm_dtype dtype;
    const void *in;
    void *out;
    size_t count; /* of a block; of the longest known one, if unequal */
    /* Unequal blocks: those of IN, then those of OUT; from malloc, freed by the issue of the call
     * or by its work. Else NULL. If all ranks have all counts: total elements, and a hash. */
    struct rcmi_block *blocks;
    size_t total;
    uint64_t counts_hash;
    const struct rcm_call *call;
    int root;
    rcm_op op;
    enum rcmi_form form;
    struct rcmi_stages *stages; /* further stages, ended in any case: see work.h; NULL */
};

/* Values derived from a call's arguments, kept because most calls repeat the last one. */
struct rcmi_called {
    const struct rcmi_plan *plan; /* NULL: no call yet */
    size_t count, bytes;          /* of a block */
    size_t in_bytes, out_bytes;   /* of this rank's buffers */
    rcm_dtype dtype;
    rcm_op op;
    enum rcmi_form form;
    int root;
    uint64_t hash; /* of the values that must be equal on all ranks */
};

/* Checks count elements in each of `blocks` blocks. */
rcm_status rcmi_check_vector(size_t count, rcm_dtype dtype, uint32_t blocks);
rcm_status rcmi_check_root(int size, int root);
static inline rcm_status rcmi_check_buffer(const char *name, const void *buffer, size_t count) {
    if (count > 0 && !buffer)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL and count is %zu", name, count);
    return RCM_OK;
}

/* Checks that all nonempty buffers of a bound call have one kind, and stores it in bind->in and
 * bind->out. */
rcm_status rcmi_check_kinds(struct rcmi_bind *bind);
/* The same before binding, for equal blocks whose values were checked. *ret_mem: one of its
 * nonempty buffers, if there is one. */
rcm_status rcmi_request_check_kinds(struct rcmi_node *node, const struct rcmi_request *request,
                                    int rank, int size, struct rcmi_mem *ret_mem);
/* Checks that the buffer is host memory, where no other is supported. */
rcm_status rcmi_check_host(const char *name, const void *buffer, size_t bytes);

/* Checks type, operator and root, as far as the collective has them. */
rcm_status rcmi_request_check_values(const struct rcmi_request *request, int size);
/* Checks that the buffers are not NULL, and do not overlap except in place. in, out: numbers of
 * blocks; block: bytes of each. */
rcm_status rcmi_request_check_buffers(const struct rcmi_request *request,
                                      const struct rcmi_blocks *in, const struct rcmi_blocks *out,
                                      size_t block);
/* Checks the arguments of any collective with equal blocks, by its entry, for `size` ranks. */
rcm_status rcmi_request_check(const struct rcmi_request *request, int rank, int size);
/* Checks and issues. */
rcm_status rcmi_request_call(rcm_comm *comm, struct rcmi_request *request, rcm_work **ret_work);
/* Issues a checked request as a part of a work, without driving it. */
rcm_status rcmi_request_submit(rcm_comm *comm, struct rcmi_request *request,
                               struct rcm_work *whole);
/* Adds a checked request to a persistent work, for each start. On success the work owns the
 * blocks. */
rcm_status rcmi_request_keep(rcm_comm *comm, const struct rcmi_request *request,
                             struct rcm_work *work);
/* Issues it, as a part of that work; if it cannot, comm fails. */
rcm_status rcmi_request_start(rcm_comm *comm, const struct rcmi_template *template,
                              struct rcm_work *whole);
/* Binds a further stage: a checked request with call NULL, whose algorithm is chosen as for a call.
 * Any thread. */
rcm_status rcmi_request_stage(rcm_comm *comm, const struct rcmi_request *request,
                              struct rcmi_bind *ret_bind);

#endif
