/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective as the user called it, between the front doors: request.c checks it;
 * collective_bind.c binds it to a plan and buffers; collective.c issues it, and has the doors whose
 * speed counts most; collective_blocks.c has the other ones of equal blocks, collective_uneven.c
 * (with uneven.c) those of unequal ones; persistent.c keeps it for works that start later.
 */
#ifndef RCMI_REQUEST_H
#define RCMI_REQUEST_H

#include "diagnosis_wire.h"
#include "error.h"
#include "exec.h"
#include "ringcomm.h"

struct rcmi_stages;
struct rcmi_template;

/* (What stands beside each other in struct rcmi_called does not here: compilers would compare it at
 * once, and a load of what was just stored in two parts takes long.) */
struct rcmi_request {
    enum rcm_collective collective;
    rcm_dtype dtype;
    const void *in;
    void *out;
    size_t count; /* of a block; of the longest one known, where they are unequal */
    /* Unequal blocks: those of IN, then those of OUT; malloc'd, freed by the issue of the call or
     * by its work. Else NULL. Where all ranks know all counts: elements of all, and a hash. */
    struct rcmi_block *blocks;
    size_t total;
    uint64_t counts_hash;
    const struct rcm_call *call;
    int root;
    rcm_op op;
    enum rcmi_form form;
    struct rcmi_stages *stages; /* further ones, ended in any case: see work.h; NULL */
};

/* What a call's arguments come to, kept because most calls are as the last one was. */
struct rcmi_called {
    const struct rcmi_plan *plan; /* NULL: there was no call yet */
    size_t count, bytes;          /* of a block */
    size_t in_bytes, out_bytes;   /* of this rank's buffers */
    rcm_dtype dtype;
    rcm_op op;
    int root;
    uint64_t hash; /* of what must be equal on all ranks */
};

/* count elements in each of `blocks` blocks. */
rcm_status rcmi_check_vector(size_t count, rcm_dtype dtype, uint32_t blocks);
rcm_status rcmi_check_root(int size, int root);
static inline rcm_status rcmi_check_buffer(const char *name, const void *buffer, size_t count) {
    if (count > 0 && !buffer)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL and count is %zu", name, count);
    return RCM_OK;
}

/* Of which kind the buffers of a bound call are: one, of all that hold anything, which bind->in and
 * bind->out then say. */
rcm_status rcmi_check_kinds(struct rcmi_bind *bind);
/* The same before it is bound, of equal blocks whose values were checked; *ret_mem: one of its
 * buffers that holds anything, if there is one. */
rcm_status rcmi_request_check_kinds(struct rcmi_node *node, const struct rcmi_request *request,
                                    int rank, int size, struct rcmi_mem *ret_mem);
/* This is host memory, where nothing else will do. */
rcm_status rcmi_check_host(const char *name, const void *buffer, size_t bytes);

/* Type, operator and root, as far as the collective has them. */
rcm_status rcmi_request_check_values(const struct rcmi_request *request, int size);
/* That the buffers are there, and apart or as in place: of so many blocks of `block` bytes. */
rcm_status rcmi_request_check_buffers(const struct rcmi_request *request,
                                      const struct rcmi_blocks *in, const struct rcmi_blocks *out,
                                      size_t block);
/* The arguments of any collective of equal blocks, by its row; of a communicator of `size`
 * ranks. */
rcm_status rcmi_request_check(const struct rcmi_request *request, int rank, int size);
/* Checks and issues. */
rcm_status rcmi_request_call(rcm_comm *comm, struct rcmi_request *request, rcm_work **ret_work);
/* Issues, without a try at once, a part of a work; everything was checked. */
rcm_status rcmi_request_submit(rcm_comm *comm, struct rcmi_request *request,
                               struct rcm_work *whole);
/* Adds to a persistent work what a start of it issues; everything was checked. On success the
 * blocks are the work's. */
rcm_status rcmi_request_keep(rcm_comm *comm, const struct rcmi_request *request,
                             struct rcm_work *work);
/* Issues it, as a part of that work; if it cannot, comm fails. */
rcm_status rcmi_request_start(rcm_comm *comm, const struct rcmi_template *template,
                              struct rcm_work *whole);
/* Binds a further stage: a request, checked, with call NULL, whose algorithm is chosen as for a
 * call. Any thread. */
rcm_status rcmi_request_stage(rcm_comm *comm, const struct rcmi_request *request,
                              struct rcmi_bind *ret_bind);

#endif
