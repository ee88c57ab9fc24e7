/* SPDX-License-Identifier: BSD-3-Clause */
/* See uneven.h. */
#include "uneven.h"
#include <stdio.h>
#include <stdlib.h>
#include "collectives.h"
#include "transport.h"

/* One of the two buffers: the arguments, its blocks by the collective's entry, and the table. */
struct side {
    const struct rcmi_uneven *given;
    struct rcmi_blocks is;
    struct rcmi_block *blocks;
    const char *plural; /* "s" if each block has a count */
};

/* Writes "recv_counts[3]" or "recv_count". */
static const char *count_name(const struct side *side, uint32_t i, char text[64]) {
    if (side->plural[0])
        snprintf(text, 64, "%s_counts[%u]", side->given->name, i);
    else
        snprintf(text, 64, "%s_count", side->given->name);
    return text;
}

/* ---- Making a table -------------------------------------------------------------------------- */

/* Adds; false: memory cannot hold that many. */
static bool elements_add(size_t *sum, size_t count, size_t most) {
    if (*sum > most || count > most - *sum)
        return false;
    *sum += count;
    return true;
}

static rcm_status block_address(const struct side *side, uint32_t i, size_t first, size_t size,
                                const void **ret_address) {
    const size_t count = side->given->counts[i];
    char text[64];
    if (side->given->list)
        *ret_address = ((const void *const *)side->given->list)[i];
    else
        *ret_address = side->given->bytes ? (const char *)side->given->bytes + first * size : NULL;
    if (count == 0 || *ret_address)
        return RCM_OK;
    if (side->given->list)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s[%u] is NULL and %s is %zu", side->given->name, i,
                         count_name(side, i, text), count);
    return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL and %s is %zu", side->given->name,
                     count_name(side, i, text), count);
}

static rcm_status side_fill(const struct side *side, struct rcmi_node *node, rcm_dtype dtype) {
    const size_t size = rcm_dtype_size(dtype), most = SIZE_MAX / 2 / size;
    const struct rcmi_uneven *given = side->given;
    size_t packed = 0;
    char text[64];
    for (uint32_t i = 0; i < side->is.n; i++) {
        size_t end = given->displs ? given->displs[i] : packed;
        const size_t first = end;
        const void *address;
        if (!elements_add(&packed, given->counts[i], most) ||
            !elements_add(&end, given->counts[i], most))
            return rcmi_fail(RCM_ERR_INVALID, 0,
                             "%s %zu of %s, from element %zu on, is more than memory can hold",
                             count_name(side, i, text), given->counts[i], rcm_dtype_name(dtype),
                             first);
        side->blocks[i].count = given->counts[i];
        rcm_status status = block_address(side, i, first, size, &address);
        if (status == RCM_OK)
            status = rcmi_node_mem(node, address, given->counts[i] * size, &side->blocks[i].mem);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

static rcm_status side_check(const struct side *side) {
    if (side->is.n == 0)
        return RCM_OK;
    if (!side->given->counts)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s_counts is NULL", side->given->name);
    return RCM_OK;
}

/* ---- Both sides ------------------------------------------------------------------------------ */

static bool blocks_overlap(const struct rcmi_block *a, const struct rcmi_block *b) {
    const uintptr_t first = (uintptr_t)a->mem.bytes, second = (uintptr_t)b->mem.bytes;
    return a->count > 0 && b->count > 0 && first < second + b->mem.len &&
           second < first + a->mem.len;
}

static rcm_status overlap_fail(const struct side *in, uint32_t i, const struct side *out,
                               uint32_t k, const struct rcmi_collective *row) {
    return rcmi_fail(row->apart ? RCM_ERR_UNSUPPORTED : RCM_ERR_INVALID, 0,
                     "block %u of %s and block %u of %s overlap%s%s", i, in->given->name, k,
                     out->given->name, row->apart ? ": no in-place form exists for " : "",
                     row->apart ? row->name : ", but are not in place");
}

/* If both buffers have several blocks, only those of the same number are compared. */
static rcm_status sides_check_overlap(const struct side *in, const struct side *out,
                                      const struct rcmi_collective *row) {
    const uint32_t most = in->is.n > out->is.n ? in->is.n : out->is.n;
    for (uint32_t n = 0; n < most && in->is.n > 0 && out->is.n > 0; n++) {
        const uint32_t i = in->is.n == 1 ? 0 : n, k = out->is.n == 1 ? 0 : n;
        const struct rcmi_block *a = &in->blocks[i], *b = &out->blocks[k];
        const bool in_place =
            !row->apart && i == out->is.at && k == in->is.at && a->mem.bytes == b->mem.bytes;
        if (!in_place && blocks_overlap(a, b))
            return overlap_fail(in, i, out, k, row);
    }
    return RCM_OK;
}

/* This rank's block in both buffers must have one count. */
static rcm_status sides_check_own(const struct side *in, const struct side *out, int rank) {
    const uint32_t i = in->is.n == 1 ? 0 : (uint32_t)rank, k = out->is.n == 1 ? 0 : (uint32_t)rank;
    char a[64], b[64];
    if (in->is.n == 0 || out->is.n == 0 || in->blocks[i].count == out->blocks[k].count)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_INVALID, 0, "%s is %zu and %s is %zu, but both are of the same block",
                     count_name(in, i, a), in->blocks[i].count, count_name(out, k, b),
                     out->blocks[k].count);
}

static uint64_t counts_hash(const struct side *side) {
    uint64_t hash = side->is.n;
    for (uint32_t i = 0; i < side->is.n; i++) {
        hash = (hash ^ side->blocks[i].count) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Sets the request's lengths: of the longest block that this rank has, and, if all ranks have all
 * lengths, of all together. */
static void request_measure(struct rcmi_request *r, const struct side *in, const struct side *out,
                            const struct rcmi_collective *row) {
    const struct side *larger = in->is.n > out->is.n ? in : out;
    for (uint32_t i = 0; i < in->is.n; i++)
        r->count = in->blocks[i].count > r->count ? in->blocks[i].count : r->count;
    for (uint32_t i = 0; i < out->is.n; i++)
        r->count = out->blocks[i].count > r->count ? out->blocks[i].count : r->count;
    if (row->counts != RCMI_COUNTS_ALL)
        return;
    for (uint32_t i = 0; i < larger->is.n; i++)
        r->total += larger->blocks[i].count;
    r->counts_hash = counts_hash(larger);
}

static rcm_status sides_fill(struct rcmi_request *r, struct side *in, struct side *out, int rank,
                             struct rcmi_node *node) {
    const struct rcmi_collective *row = rcmi_collective_at((int)r->collective);
    rcm_status status = side_fill(in, node, r->dtype);
    if (status == RCM_OK)
        status = side_fill(out, node, r->dtype);
    if (status == RCM_OK)
        status = sides_check_own(in, out, rank);
    if (status == RCM_OK)
        status = sides_check_overlap(in, out, row);
    if (status == RCM_OK)
        request_measure(r, in, out, row);
    return status;
}

static rcm_status sides_allocate(struct rcmi_request *r, struct side *in, struct side *out) {
    rcm_status status = side_check(in);
    if (status == RCM_OK)
        status = side_check(out);
    if (status != RCM_OK)
        return status;
    const uint32_t n = in->is.n + out->is.n;
    r->blocks = malloc(n * sizeof(*r->blocks));
    if (!r->blocks)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %u blocks", n);
    in->blocks = r->blocks;
    out->blocks = r->blocks + in->is.n;
    return RCM_OK;
}

rcm_status rcmi_uneven_make(struct rcmi_request *r, const struct rcmi_uneven *in,
                            const struct rcmi_uneven *out, int rank, int size,
                            struct rcmi_node *node) {
    const struct rcmi_collective *row = rcmi_collective_at((int)r->collective);
    rcm_status status = rcmi_request_check_values(r, size);
    if (status != RCM_OK)
        return status;
    struct side from = {.given = in,
                        .is = rcmi_collective_in(row, size, rank, r->root),
                        .plural = row->in == RCMI_BLOCKS_OWN ? "" : "s"};
    struct side to = {.given = out,
                      .is = rcmi_collective_out(row, size, rank, r->root),
                      .plural = row->out == RCMI_BLOCKS_OWN ? "" : "s"};
    status = sides_allocate(r, &from, &to);
    if (status == RCM_OK)
        status = sides_fill(r, &from, &to, rank, node);
    if (status != RCM_OK) {
        free(r->blocks);
        r->blocks = NULL;
    }
    return status;
}
