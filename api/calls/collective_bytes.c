/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public functions of collectives with bytes of unknown lengths. They have two stages (work.h):
 * first the lengths are sent, then memory for the result is allocated, and the bytes are sent.
 *
 *      broadcast_bytes    broadcast of a length      broadcast
 *      scatter_bytes      scatter of lengths         scatter_v
 *      gather_bytes       gather of lengths          gather_v
 *      all_gather_bytes   all_gather of lengths      all_gather_v
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "failure.h"
#include "memory_check.h"
#include "uneven.h"
#include "work.h"

struct exchange {
    struct rcmi_stages stages; /* first member */
    enum rcm_collective data;  /* the second stage */
    int root, rank, size;
    const void *send;
    size_t sends;      /* bytes of send */
    const void **list; /* of the root of a scatter, a copy; else NULL */
    uint64_t own;      /* length that this rank sends or, in a scatter, receives */
    bool receives;
    struct rcm_bytes **ret_bytes, *result;
    size_t *counts;     /* of the blocks of the result, or of a root's list */
    uint64_t lengths[]; /* of all ranks, if this rank sends or receives them */
};

/* ---- The result ------------------------------------------------------------------------------ */

/* Allocates one block of memory: the struct, n + 1 offsets, the bytes. */
static struct rcm_bytes *bytes_new(size_t n, size_t total, size_t **ret_offsets) {
    const size_t head = (sizeof(struct rcm_bytes) + (n + 1) * sizeof(size_t) + 15) / 16 * 16;
    const bool room = total < SIZE_MAX - head && rcmi_memory_check(head + total) == RCM_OK;
    struct rcm_bytes *bytes = room ? malloc(head + total) : NULL;
    if (!bytes)
        return NULL;
    *ret_offsets = (size_t *)(void *)(bytes + 1);
    *bytes =
        (struct rcm_bytes){.n = n, .offsets = *ret_offsets, .data = (unsigned char *)bytes + head};
    return bytes;
}

/* The rank that sends block i of n; a single block is the root's. */
static int block_sender(const struct exchange *x, size_t i, size_t n) {
    return n == 1 && x->data != RCM_GATHER_V && x->data != RCM_ALL_GATHER_V ? x->root : (int)i;
}

/* No memory for n blocks: names the rank that sends the longest. */
static rcm_status result_fail(const struct exchange *x, const uint64_t *lengths, size_t n,
                              uint64_t total) {
    size_t longest = 0;
    for (size_t i = 1; i < n; i++)
        if (lengths[i] > lengths[longest])
            longest = i;
    const int rank = block_sender(x, longest, n);
    return rcmi_fail_origin(RCM_ERR_NOMEM, rank,
                            "no memory to receive %llu bytes, %llu of them from rank %d",
                            (unsigned long long)total, (unsigned long long)lengths[longest], rank);
}

/* Allocates memory for n blocks of these lengths, which other ranks sent. */
static rcm_status exchange_result(struct exchange *x, const uint64_t *lengths, size_t n) {
    size_t total = 0, *offsets;
    for (size_t i = 0; i < n; i++) {
        if (lengths[i] > SIZE_MAX / 2 - total)
            return rcmi_fail_origin(RCM_ERR_NOMEM, block_sender(x, i, n),
                                    "%llu bytes from rank %d, and %zu before them, are more than "
                                    "memory can hold",
                                    (unsigned long long)lengths[i], block_sender(x, i, n), total);
        total += (size_t)lengths[i];
    }
    x->result = bytes_new(n, total, &offsets);
    if (!x->result)
        return result_fail(x, lengths, n, total);
    offsets[0] = 0;
    for (size_t i = 0; i < n; i++)
        offsets[i + 1] = offsets[i] + (size_t)lengths[i];
    return RCM_OK;
}

/* ---- The second stage ------------------------------------------------------------------------ */

static rcm_status bind_broadcast(const struct exchange *x, rcm_comm *comm,
                                 struct rcmi_bind *ret_bind) {
    void *buffer = x->receives ? (void *)x->result->data : (void *)x->send;
    const struct rcmi_request request = {.collective = RCM_BROADCAST,
                                         .in = buffer,
                                         .out = buffer,
                                         .count = (size_t)x->own,
                                         .dtype = RCM_UINT8,
                                         .op = RCM_SUM,
                                         .root = x->root};
    return rcmi_request_stage(comm, &request, ret_bind);
}

static rcm_status bind_blocks(const struct exchange *x, rcm_comm *comm,
                              struct rcmi_bind *ret_bind) {
    const size_t own = (size_t)x->own;
    const bool scatters = x->data == RCM_SCATTER_V;
    struct rcmi_request request = {
        .collective = x->data, .dtype = RCM_UINT8, .op = RCM_SUM, .root = x->root};
    const struct rcmi_uneven in = {
        .name = "send", .bytes = x->send, .list = x->list, .counts = scatters ? x->counts : &own};
    const struct rcmi_uneven out = {.name = "recv",
                                    .bytes = x->result ? x->result->data : NULL,
                                    .counts = scatters ? &own : x->counts};
    return rcmi_uneven_stage(comm, &request, &in, &out, ret_bind);
}

static rcm_status exchange_next(struct rcmi_stages *stages, rcm_comm *comm,
                                struct rcmi_bind *ret_bind, bool *ret_last) {
    struct exchange *x = (struct exchange *)(void *)stages;
    const bool one = x->data == RCM_BROADCAST || x->data == RCM_SCATTER_V;
    rcm_status status = RCM_OK;
    *ret_last = true;
    if (x->receives)
        status = exchange_result(x, one ? &x->own : x->lengths, one ? 1 : (size_t)x->size);
    for (int r = 0; r < x->size && status == RCM_OK; r++)
        x->counts[r] = (size_t)x->lengths[r];
    if (status == RCM_OK)
        status = x->data == RCM_BROADCAST ? bind_broadcast(x, comm, ret_bind)
                                          : bind_blocks(x, comm, ret_bind);
    return status == RCM_OK ? RCM_AGAIN : status;
}

static void exchange_end(struct rcmi_stages *stages, rcm_status status) {
    struct exchange *x = (struct exchange *)(void *)stages;
    if (status == RCM_OK)
        *x->ret_bytes = x->result;
    else
        free(x->result);
    free(x->counts);
    free(x->list);
    free(x);
}

static bool span_touches(const void *bytes, size_t len, uintptr_t begin, uintptr_t end) {
    return len > 0 && (uintptr_t)bytes < end && (uintptr_t)bytes + len > begin;
}

static bool exchange_touches(const struct rcmi_stages *stages, uintptr_t begin, uintptr_t end) {
    const struct exchange *x = (const struct exchange *)(const void *)stages;
    if (x->send && span_touches(x->send, x->sends, begin, end))
        return true;
    for (int r = 0; x->list && r < x->size; r++)
        if (span_touches(x->list[r], (size_t)x->lengths[r], begin, end))
            return true;
    return false;
}

/* ---- The first stage ------------------------------------------------------------------------- */

static rcm_status exchange_new(rcm_comm *comm, enum rcm_collective data, int root,
                               struct rcm_bytes **ret_bytes, struct exchange **ret_exchange) {
    if (!ret_bytes)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_bytes is NULL");
    *ret_bytes = NULL;
    if (!comm)
        return rcmi_fail(RCM_ERR_INVALID, 0, "comm is NULL");
    const size_t n = (size_t)rcm_size(comm);
    struct exchange *x = calloc(1, sizeof(*x) + n * sizeof(x->lengths[0]));
    size_t *counts = calloc(n, sizeof(*counts));
    if (!x || !counts) {
        free(x);
        free(counts);
        return rcmi_comm_decline(
            comm, rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the lengths of %zu ranks", n));
    }
    *x = (struct exchange){.stages = {exchange_next, exchange_end, exchange_touches},
                           .data = data,
                           .root = root,
                           .rank = rcm_rank(comm),
                           .size = (int)n,
                           .ret_bytes = ret_bytes,
                           .counts = counts};
    *ret_exchange = x;
    return RCM_OK;
}

/* Issues the exchange of the lengths, and the second stage. */
static rcm_status exchange_call(rcm_comm *comm, struct exchange *x, enum rcm_collective collective,
                                const void *in, void *out, const struct rcm_call *call,
                                rcm_work **ret_work) {
    struct rcmi_request request = {.collective = collective,
                                   .in = in,
                                   .out = out,
                                   .count = 1,
                                   .dtype = RCM_INT64,
                                   .op = RCM_SUM,
                                   .root = x->root,
                                   .call = call,
                                   .form = RCMI_FORM_BYTES,
                                   .stages = &x->stages};
    return rcmi_request_call(comm, &request, ret_work);
}

static rcm_status exchange_refuse(rcm_comm *comm, struct exchange *x, const struct rcm_call *call,
                                  rcm_status status) {
    exchange_end(&x->stages, status);
    return rcmi_call_out(comm, call, rcmi_comm_decline(comm, status));
}

/* Checks and stores the buffer that this rank sends. */
static rcm_status exchange_send(struct exchange *x, const void *send, size_t bytes) {
    x->send = send;
    x->sends = bytes;
    x->own = bytes;
    rcm_status status = rcmi_check_vector(bytes, RCM_UINT8, 1);
    if (status == RCM_OK)
        status = rcmi_check_buffer("send", send, bytes);
    return status == RCM_OK ? rcmi_check_host("send", send, bytes) : status;
}

/* ---- Public functions ------------------------------------------------------------------------ */

rcm_status rcm_broadcast_bytes(rcm_comm *comm, const void *send, size_t bytes, int root,
                               struct rcm_bytes **ret_bytes, const struct rcm_call *call,
                               rcm_work **ret_work) {
    struct exchange *x = NULL;
    rcm_status status = exchange_new(comm, RCM_BROADCAST, root, ret_bytes, &x);
    if (status != RCM_OK)
        return rcmi_call_out(comm, call, status);
    x->receives = x->rank != root;
    if (!x->receives)
        status = exchange_send(x, send, bytes);
    return status == RCM_OK
               ? exchange_call(comm, x, RCM_BROADCAST, &x->own, &x->own, call, ret_work)
               : exchange_refuse(comm, x, call, status);
}

/* On the root. */
static rcm_status scatter_lengths(struct exchange *x, const void *const *send,
                                  const size_t *bytes) {
    if (!send || !bytes)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", send ? "bytes" : "send");
    x->list = malloc((size_t)x->size * sizeof(x->list[0]));
    if (!x->list)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the blocks of %d ranks", x->size);
    size_t total = 0;
    for (int r = 0; r < x->size; r++) {
        if (bytes[r] > SIZE_MAX / 2 - total)
            return rcmi_fail(RCM_ERR_INVALID, 0,
                             "bytes[%d] %zu, and %zu before it, are more than memory can hold", r,
                             bytes[r], total);
        total += bytes[r];
        if (bytes[r] > 0 && !send[r])
            return rcmi_fail(RCM_ERR_INVALID, 0, "send[%d] is NULL and bytes[%d] is %zu", r, r,
                             bytes[r]);
        char name[32];
        snprintf(name, sizeof name, "send[%d]", r);
        const rcm_status status = rcmi_check_host(name, send[r], bytes[r]);
        if (status != RCM_OK)
            return status;
        x->list[r] = send[r];
        x->lengths[r] = bytes[r];
    }
    return RCM_OK;
}

rcm_status rcm_scatter_bytes(rcm_comm *comm, const void *const *send, const size_t *bytes, int root,
                             struct rcm_bytes **ret_bytes, const struct rcm_call *call,
                             rcm_work **ret_work) {
    struct exchange *x = NULL;
    rcm_status status = exchange_new(comm, RCM_SCATTER_V, root, ret_bytes, &x);
    if (status != RCM_OK)
        return rcmi_call_out(comm, call, status);
    x->receives = true;
    if (x->rank == root)
        status = scatter_lengths(x, send, bytes);
    if (status != RCM_OK)
        return exchange_refuse(comm, x, call, status);
    return exchange_call(comm, x, RCM_SCATTER, x->lengths, &x->own, call, ret_work);
}

rcm_status rcm_gather_bytes(rcm_comm *comm, const void *send, size_t bytes, int root,
                            struct rcm_bytes **ret_bytes, const struct rcm_call *call,
                            rcm_work **ret_work) {
    struct exchange *x = NULL;
    rcm_status status = exchange_new(comm, RCM_GATHER_V, root, ret_bytes, &x);
    if (status != RCM_OK)
        return rcmi_call_out(comm, call, status);
    x->receives = x->rank == root;
    status = exchange_send(x, send, bytes);
    return status == RCM_OK
               ? exchange_call(comm, x, RCM_GATHER, &x->own, x->lengths, call, ret_work)
               : exchange_refuse(comm, x, call, status);
}

rcm_status rcm_all_gather_bytes(rcm_comm *comm, const void *send, size_t bytes,
                                struct rcm_bytes **ret_bytes, const struct rcm_call *call,
                                rcm_work **ret_work) {
    struct exchange *x = NULL;
    rcm_status status = exchange_new(comm, RCM_ALL_GATHER_V, 0, ret_bytes, &x);
    if (status != RCM_OK)
        return rcmi_call_out(comm, call, status);
    x->receives = true;
    status = exchange_send(x, send, bytes);
    return status == RCM_OK
               ? exchange_call(comm, x, RCM_ALL_GATHER, &x->own, x->lengths, call, ret_work)
               : exchange_refuse(comm, x, call, status);
}
