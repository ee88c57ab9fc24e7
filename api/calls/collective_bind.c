/* SPDX-License-Identifier: BSD-3-Clause */
/* See collective_bind.h. */
#include "collective_bind.h"
#include "comm.h"
#include <stdlib.h>
#include "diagnosis.h"
#include "operator.h"
#include "work.h"

/* ---- Values that must be equal on all ranks -------------------------------------------------- */

/* The operator in a form that is the same on all ranks. */
static uint64_t request_op(const struct rcmi_request *r) {
    return rcmi_op_is_created(r->op) ? (uint32_t)rcmi_operator_hash(r->op) : (uint64_t)r->op;
}

/* Hash of the values that must be equal on all ranks. */
static uint64_t request_hash(const struct rcmi_request *r, const struct rcmi_plan *plan) {
    uint64_t hash = rcmi_hash_mix(plan->name_hash, (uint64_t)r->collective << 3 | r->form);
    hash = rcmi_hash_mix(hash, (uint64_t)r->dtype << 32 | request_op(r));
    hash = rcmi_hash_mix(hash, r->blocks ? r->counts_hash : r->count);
    return rcmi_hash_mix(hash, (uint64_t)r->root);
}

/* ---- Algorithm and plan ---------------------------------------------------------------------- */

/* Bytes of the larger buffer of a rank, as far as all ranks have that; else 0. */
static size_t request_bytes(const rcm_comm *comm, const struct rcmi_request *r) {
    const struct rcmi_collective *row = rcmi_collective_at((int)r->collective);
    const size_t even = r->count * rcmi_collective_larger(row, comm->size);
    return (row->counts == RCMI_COUNTS_SAME ? even : r->total) * rcm_dtype_size(r->dtype);
}

/* ---- Elements and slots ---------------------------------------------------------------------- */

/* Bytes of an element that no slice may cut; 1: elements are short, or not reduced. */
static size_t request_element(const struct rcmi_request *r) {
    const bool reduces = rcmi_collective_at((int)r->collective)->reduces;
    return reduces && r->dtype > RCM_OPAQUE ? rcm_dtype_size(r->dtype) : 1;
}

static rcm_status request_check_element(const rcm_comm *comm, const struct rcmi_request *r) {
    if (request_element(r) <= comm->slot_bytes)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "%s of %s: an element is longer than a slot of %zu bytes, and reductions do "
                     "not divide elements. Raise RINGCOMM_SLOT_BYTES",
                     rcmi_collective_name(r->collective), rcm_dtype_name(r->dtype),
                     comm->slot_bytes);
}

static uint32_t request_needs(const rcm_comm *comm, const struct rcmi_request *r) {
    const bool fit = rcmi_spans_fit(request_element(r), comm->slot_bytes, comm->size);
    return (rcmi_operator_commutes(r->op) ? 0 : RCMI_NEEDS_ORDER) |
           (fit ? 0 : (uint32_t)RCMI_NEEDS_NO_SPANS);
}

/* For a named algorithm. */
static rcm_status request_check_needs(const rcm_comm *comm, const struct rcmi_request *r,
                                      uint32_t needs, const struct rcmi_algorithm *algorithm) {
    if (needs & RCMI_NEEDS_NO_SPANS && algorithm->spans)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "%s algorithm %s sends elements of several ranks in one slot, and slots "
                         "of %zu bytes cannot hold as many of %s. Raise RINGCOMM_SLOT_BYTES, "
                         "or use another algorithm",
                         rcmi_collective_name(r->collective), algorithm->name, comm->slot_bytes,
                         rcm_dtype_name(r->dtype));
    return needs & RCMI_NEEDS_ORDER ? rcmi_algorithm_check_order(algorithm, rcm_op_name(r->op))
                                    : RCM_OK;
}

rcm_status rcmi_request_algorithm(rcm_comm *comm, struct rcmi_selection *selection,
                                  const struct rcmi_request *r,
                                  const struct rcmi_algorithm **ret_algorithm) {
    const size_t bytes = request_bytes(comm, r);
    const uint32_t needs = request_needs(comm, r);
    rcm_status status = request_check_element(comm, r);
    if (status == RCM_OK && r->call && r->call->algorithm)
        status =
            rcmi_algorithm_find(r->collective, r->call->algorithm, &comm->shape, ret_algorithm);
    else if (status == RCM_OK)
        *ret_algorithm = rcmi_choices_find(&comm->choices, r->collective, bytes, needs);
    if (status == RCM_OK && !*ret_algorithm)
        return rcmi_algorithm_select(selection, r->collective, bytes, needs, ret_algorithm);
    return status == RCM_OK ? request_check_needs(comm, r, needs, *ret_algorithm) : status;
}

static struct rcmi_called called_make(const struct rcmi_request *r, const struct rcmi_plan *plan) {
    return (struct rcmi_called){.plan = plan,
                                .count = r->count,
                                .bytes = r->count * rcm_dtype_size(r->dtype),
                                .in_bytes = plan->in.n * r->count * rcm_dtype_size(r->dtype),
                                .out_bytes = plan->out.n * r->count * rcm_dtype_size(r->dtype),
                                .dtype = r->dtype,
                                .op = r->op,
                                .form = r->form,
                                .root = r->root,
                                .hash = request_hash(r, plan)};
}

/* Holds the operator of a call until the next one; by then its work, or its run, holds it. */
static rcm_status request_hold(rcm_comm *comm, const struct rcmi_request *r) {
    const rcm_status status = rcmi_operator_hold(r->op);
    if (status != RCM_OK || !rcmi_op_is_created(r->op))
        return status;
    rcmi_operator_drop(comm->held);
    comm->held = r->op;
    return RCM_OK;
}

rcm_status rcmi_request_resolve(rcm_comm *comm, const struct rcmi_request *r,
                                struct rcmi_called *ret_called) {
    const struct rcmi_algorithm *algorithm;
    const struct rcmi_plan *plan;
    rcm_status status = request_hold(comm, r);
    if (status == RCM_OK)
        status = rcmi_request_algorithm(comm, comm->selection, r, &algorithm);
    if (status == RCM_OK)
        status = rcmi_plan_cache_get(comm->plans, algorithm, r->root, &plan);
    if (status != RCM_OK)
        return status;
    *ret_called = called_make(r, plan);
    const bool repeats = r->form == RCMI_FORM_PLAIN || r->form == RCMI_FORM_ASYNC;
    if (repeats && !r->blocks && !(r->call && r->call->algorithm) &&
        !rcmi_op_is_created(r->op)) /* a created one may be freed */
        comm->called[r->collective] = *ret_called;
    return RCM_OK;
}

/* ---- Buffers --------------------------------------------------------------------------------- */

rcm_status rcmi_bind_know(rcm_comm *comm, struct rcmi_bind *bind) {
    rcm_status status = RCM_OK;
    if (!rcmi_bind_is_uneven(bind)) { /* else known since the table of blocks was made */
        status = rcmi_node_mem(comm->engine->node, bind->in.bytes, bind->in.len, &bind->in);
        if (status == RCM_OK)
            status = rcmi_node_mem(comm->engine->node, bind->out.bytes, bind->out.len, &bind->out);
    }
    return status == RCM_OK ? rcmi_check_kinds(bind) : status;
}

/* Sets the fence of a call's operations. */
static rcm_status bind_follow(rcm_comm *comm, struct rcmi_stream stream, struct rcmi_bind *bind) {
    const struct rcmi_mem *mem = bind->in.len > 0 ? &bind->in : &bind->out;
    return rcmi_stream_follow(&comm->engine->device, stream, mem, &bind->after);
}

/* Makes the record of a call with any memory kind. If only pairs of ranks have the counts, a rank
 * without elements has no kind either: then the kind is in messages, not in the hash. */
uint64_t rcmi_bind_record(rcm_comm *comm, uint64_t hash, const struct rcmi_bind *bind) {
    if (bind->in.kind == RCMI_MEM_HOST)
        return rcmi_record_call(&comm->history, comm->epoch, comm->sequence, hash);
    if (rcmi_collective_at((int)bind->collective)->counts == RCMI_COUNTS_PAIR)
        return rcmi_record_call(&comm->history, comm->epoch, comm->sequence, hash) |
               RCMI_META_DEVICE;
    return rcmi_record_call(&comm->history, comm->epoch, comm->sequence,
                            rcmi_hash_mix(hash, (uint64_t)bind->in.kind));
}

void rcmi_bind_blocks(const struct rcmi_block *blocks, struct rcmi_bind *bind) {
    const uint32_t nin = bind->plan->in.n, nout = bind->plan->out.n;
    bind->blocks = blocks;
    bind->in = nin > 0 ? blocks[0].mem : blocks[nin].mem;
    bind->out = nout > 0 ? blocks[nin].mem : bind->in;
}

rcm_status rcmi_request_record_special(rcm_comm *comm, const struct rcmi_request *r,
                                       const struct rcmi_called *called,
                                       struct rcmi_bind *ret_bind) {
    rcmi_request_bind(r, called, 0, ret_bind);
    rcm_status status = rcmi_bind_know(comm, ret_bind);
    if (status == RCM_OK)
        status = bind_follow(comm, rcmi_stream_of(r->call, rcm_comm_timeout(comm)), ret_bind);
    if (status != RCM_OK)
        return status;
    comm->sequence++;
    ret_bind->meta = rcmi_bind_record(comm, called->hash, ret_bind);
    const struct rcmi_call_entry entry = {comm->sequence,
                                          rcmi_call_form(r->form, ret_bind->in.kind), ret_bind};
    rcmi_call_log_add(comm->call_log, &entry);
    return RCM_OK;
}

rcm_status rcmi_request_stage(rcm_comm *comm, const struct rcmi_request *r,
                              struct rcmi_bind *ret_bind) {
    const struct rcmi_algorithm *algorithm;
    const struct rcmi_plan *plan;
    rcm_status status = rcmi_request_algorithm(comm, comm->stage_selection, r, &algorithm);
    if (status == RCM_OK)
        status = rcmi_plan_cache_get(comm->plans, algorithm, r->root, &plan);
    if (status != RCM_OK)
        return status;
    const struct rcmi_called called = called_make(r, plan);
    rcmi_request_bind(r, &called, called.hash, ret_bind);
    return rcmi_bind_know(comm, ret_bind);
}

rcm_status rcmi_request_decline(rcm_comm *comm, const struct rcmi_request *r, rcm_status status) {
    free(r->blocks);
    if (r->stages)
        r->stages->end(r->stages, status);
    return rcmi_comm_decline(comm, status);
}
