/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of a collective's arguments before anything is sent. The collective's entry
 * (algorithms/plan/collectives.h) defines the buffers of each rank, their lengths, and the meaning
 * of "in place".
 */
#include "request.h"
#include <stdio.h>
#include <string.h>
#include "collectives.h"
#include "mem_kind.h"
#include "operator.h"
#include "transport.h"

rcm_status rcmi_check_vector(size_t count, rcm_dtype dtype, uint32_t blocks) {
    const size_t size = rcm_dtype_size(dtype);
    if (size == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "dtype %d is no type", (int)dtype);
    if (count > SIZE_MAX / 2 / size / blocks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "count %zu of %s is more than memory can hold", count,
                         rcm_dtype_name(dtype));
    return RCM_OK;
}

rcm_status rcmi_check_root(int size, int root) {
    if (root < 0 || root >= size)
        return rcmi_fail(RCM_ERR_INVALID, 0, "root %d is not a rank of 0..%d", root, size - 1);
    return RCM_OK;
}

/* A buffer of this rank. */
struct buffer {
    const void *bytes;
    size_t len;
};

/* In place means that the smaller buffer is the rank's block of the larger one. */
static rcm_status check_overlap(const struct buffer *send, const struct buffer *recv,
                                intptr_t distance) {
    const uintptr_t a = (uintptr_t)send->bytes, b = (uintptr_t)recv->bytes;
    if (send->len == 0 || recv->len == 0 || (intptr_t)(a - b) == distance)
        return RCM_OK;
    if (a < b + recv->len && b < a + send->len)
        return rcmi_fail(
            RCM_ERR_INVALID, 0,
            "send %p (%zu bytes) and recv %p (%zu bytes) overlap, but are not in place",
            send->bytes, send->len, recv->bytes, recv->len);
    return RCM_OK;
}

rcm_status rcmi_request_check_buffers(const struct rcmi_request *r, const struct rcmi_blocks *in,
                                      const struct rcmi_blocks *out, size_t block) {
    const struct buffer send = {r->in, in->n * block}, recv = {r->out, out->n * block};
    rcm_status status = rcmi_check_buffer("send", r->in, in->n * r->count);
    if (status == RCM_OK)
        status = rcmi_check_buffer("recv", r->out, out->n * r->count);
    if (status == RCM_OK)
        status =
            check_overlap(&send, &recv, ((intptr_t)in->at - (intptr_t)out->at) * (intptr_t)block);
    return status;
}

/* ---- Kinds of memory ------------------------------------------------------------------------- */

/* The first nonempty buffer, or block, of a call; NULL: none. */
struct first {
    const struct rcmi_mem *mem;
    enum rcmi_mem_kind kind; /* its kind; host memory if there is none */
    int device;
    char name[48]; /* "send", "block 3 of recv" */
};

static rcm_status first_check(struct first *first, const struct rcmi_mem *mem, const char *name) {
    if (mem->len == 0)
        return RCM_OK;
    if (!first->mem) {
        first->mem = mem;
        first->kind = mem->kind;
        first->device = mem->device;
        snprintf(first->name, sizeof first->name, "%s", name);
    }
    if (mem->kind == first->kind && mem->device == first->device)
        return RCM_OK;
    if (mem->kind == first->kind)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s %p is memory of device %d, but %s %p of device %d",
                         first->name, first->mem->bytes, first->device, name, mem->bytes,
                         mem->device);
    return rcmi_fail(RCM_ERR_INVALID, 0, "%s %p is %s, but %s %p is %s", first->name,
                     first->mem->bytes, rcmi_mem_kind_name(first->kind), name, mem->bytes,
                     rcmi_mem_kind_name(mem->kind));
}

static rcm_status pair_check(struct first *first, const struct rcmi_mem *send,
                             const struct rcmi_mem *recv) {
    const rcm_status status = first_check(first, send, "send");
    return status == RCM_OK ? first_check(first, recv, "recv") : status;
}

static rcm_status blocks_check(struct first *first, const struct rcmi_bind *bind) {
    const uint32_t in = bind->plan->in.n, all = in + bind->plan->out.n;
    rcm_status status = RCM_OK;
    for (uint32_t i = 0; i < all && status == RCM_OK; i++) {
        char name[48];
        snprintf(name, sizeof name, "block %u of %s", i < in ? i : i - in,
                 i < in ? "send" : "recv");
        status = first_check(first, &bind->blocks[i].mem, name);
    }
    return status;
}

/* The CPU calls a function of the program, so its memory must be the CPU's. */
static rcm_status function_check(const struct first *first, rcm_op op) {
    if (rcmi_mem_kind_row(first->kind)->at_once || !rcmi_operator_is_function(op))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "%s is a function of the program's, which the CPU calls, but %s %p is %s",
                     rcm_op_name(op), first->name, first->mem->bytes,
                     rcmi_mem_kind_name(first->kind));
}

rcm_status rcmi_check_kinds(struct rcmi_bind *bind) {
    struct first first = {.mem = NULL};
    const rcm_status status = rcmi_bind_is_uneven(bind) ? blocks_check(&first, bind)
                                                        : pair_check(&first, &bind->in, &bind->out);
    bind->in.kind = bind->out.kind = first.kind;
    bind->in.device = bind->out.device = first.device;
    return status == RCM_OK ? function_check(&first, bind->op) : status;
}

rcm_status rcmi_request_check_kinds(struct rcmi_node *node, const struct rcmi_request *r, int rank,
                                    int size, struct rcmi_mem *ret_mem) {
    const struct rcmi_collective *collective = rcmi_collective_at((int)r->collective);
    const size_t block = r->count * rcm_dtype_size(r->dtype);
    const struct buffer in = {r->in, rcmi_collective_in(collective, size, rank, r->root).n * block};
    const struct buffer out = {r->out,
                               rcmi_collective_out(collective, size, rank, r->root).n * block};
    struct rcmi_mem send, recv;
    struct first first = {.mem = NULL};
    rcm_status status = rcmi_node_mem(node, in.bytes, in.len, &send);
    if (status == RCM_OK)
        status = rcmi_node_mem(node, out.bytes, out.len, &recv);
    if (status != RCM_OK)
        return status;
    *ret_mem = in.len > 0 ? send : recv;
    status = pair_check(&first, &send, &recv);
    return status == RCM_OK ? function_check(&first, r->op) : status;
}

rcm_status rcmi_check_host(const char *name, const void *buffer, size_t bytes) {
    enum rcmi_mem_kind kind;
    int device;
    const rcm_status status = rcmi_mem_kind_of(buffer, &kind, &device);
    if (status != RCM_OK || bytes == 0 || rcmi_mem_kind_row(kind)->at_once)
        return status;
    return rcmi_fail(RCM_ERR_INVALID, 0, "%s %p is %s, but what is received is host memory", name,
                     buffer, rcmi_mem_kind_name(kind));
}

/* ---- Values and buffers ---------------------------------------------------------------------- */

rcm_status rcmi_request_check_values(const struct rcmi_request *r, int size) {
    const struct rcmi_collective *collective = rcmi_collective_at((int)r->collective);
    rcm_status status = rcmi_check_vector(0, r->dtype, 1);
    if (status == RCM_OK && collective->reduces)
        status = rcmi_collective_check_op(collective, r->op, r->dtype);
    if (status == RCM_OK && rcmi_collective_is_rooted(collective))
        status = rcmi_check_root(size, r->root);
    return status;
}

rcm_status rcmi_request_check(const struct rcmi_request *r, int rank, int size) {
    const struct rcmi_collective *collective = rcmi_collective_at((int)r->collective);
    rcm_status status =
        rcmi_check_vector(r->count, r->dtype, rcmi_collective_larger(collective, size));
    if (status == RCM_OK)
        status = rcmi_request_check_values(r, size);
    if (status != RCM_OK)
        return status;
    const struct rcmi_blocks in = rcmi_collective_in(collective, size, rank, r->root);
    const struct rcmi_blocks out = rcmi_collective_out(collective, size, rank, r->root);
    return rcmi_request_check_buffers(r, &in, &out, r->count * rcm_dtype_size(r->dtype));
}
