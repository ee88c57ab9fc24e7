/* SPDX-License-Identifier: BSD-3-Clause */
/* What the algorithm files share; see algorithm.h. */
#include "algorithm.h"
#include <stdlib.h>
#include "error.h"

/* First estimates, of the right order for current servers; a tuning file will replace them. A hop
 * is a flag that crosses from one core to another and wakes a waiting lane. A poll is cheaper: the
 * flags of many peers arrive while the first is waited for. A copy at 10 GB/s reads and writes. */
#define MEMORY_HOP_US        0.3
#define MEMORY_POLL_US       0.05
#define MEMORY_BYTES_PER_US  20e3
#define NETWORK_HOP_US       20.0
#define LOOPBACK_HOP_US      8.0
#define NETWORK_BYTES_PER_US 2e3
/* Of processor time: sending and receiving one small message by sockets, the looks in vain before
 * it, and the changes of tasks between them. */
#define SOCKET_MESSAGE_US 12.0
/* A round in which all ranks of a host wait for each other, in hops: measured beside one message of
 * all to all, with 16 and 32 ranks. */
#define ROUND_HOPS  2.5
#define SLICE_BYTES 65536.0 /* the executor's slots may have another size */

bool rcmi_supports_all(const struct rcmi_shape *shape) {
    return shape->nranks >= 1;
}

bool rcmi_supports_one_host(const struct rcmi_shape *shape) {
    return shape->nhosts == 1;
}

uint32_t rcmi_log2_floor(uint32_t x) {
    uint32_t log = 0;
    while (x >>= 1)
        log++;
    return log;
}

uint32_t rcmi_log2_ceil(uint32_t x) {
    return x <= 1 ? 0 : rcmi_log2_floor(x - 1) + 1;
}

uint32_t rcmi_binomial_first_bit(uint32_t v, uint32_t p) {
    const uint32_t lowest = v == 0 ? UINT32_C(1) << rcmi_log2_ceil(p) : v & (0 - v);
    return lowest >> 1;
}

uint32_t rcmi_binomial_children(uint32_t v, uint32_t p) {
    uint32_t children = 0;
    for (uint32_t bit = rcmi_binomial_first_bit(v, p); bit != 0; bit >>= 1)
        children += v + bit < p;
    return children;
}

/* The first rank after `rank` (before it, if step is -1) on its own host, else on the nearest
 * host in that direction. */
static int ring_neighbour(const struct rcmi_shape *shape, int rank, int step) {
    const int p = shape->nranks;
    int host = shape->host_of[rank];
    int from = rank + step;
    for (int hosts = 0; hosts <= shape->nhosts; hosts++) {
        for (int r = from; r >= 0 && r < p; r += step)
            if (shape->host_of[r] == host)
                return r;
        host = (host + step + shape->nhosts) % shape->nhosts;
        from = step > 0 ? 0 : p - 1;
    }
    return rank;
}

struct rcmi_ring_place rcmi_ring_place_of(const struct rcmi_shape *shape, int rank) {
    const int host = shape->host_of[rank];
    uint32_t place = 0;
    for (int r = 0; r < shape->nranks; r++)
        place += shape->host_of[r] < host || (shape->host_of[r] == host && r < rank);
    return (struct rcmi_ring_place){
        .place = place,
        .prev = ring_neighbour(shape, rank, -1),
        .next = ring_neighbour(shape, rank, +1),
    };
}

rcm_status rcmi_ring_order(const struct rcmi_shape *shape, int **ret_rank_at) {
    int *rank_at = calloc((size_t)shape->nranks, sizeof(*rank_at));
    int *next =
        calloc((size_t)shape->nhosts + 1, sizeof(*next)); /* place of each host's next rank */
    if (!rank_at || !next) {
        free(rank_at);
        free(next);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a ring of %d ranks", shape->nranks);
    }
    for (int r = 0; r < shape->nranks; r++)
        next[shape->host_of[r] + 1]++;
    for (int host = 0; host < shape->nhosts; host++)
        next[host + 1] += next[host];
    for (int r = 0; r < shape->nranks; r++)
        rank_at[next[shape->host_of[r]]++] = r;
    free(next);
    *ret_rank_at = rank_at;
    return RCM_OK;
}

void rcmi_reduce_in_rank_order(struct rcmi_builder *b, int lane, uint32_t chunk, int nranks,
                               int rank, bool multicast, struct rcmi_operand dst, uint32_t out) {
    struct rcmi_operand srcs[RCMI_SOURCES_MAX];
    int n = 0;
    for (int r = 0; r < nranks; r++) {
        if (n == RCMI_SOURCES_MAX) {
            rcmi_reduce(b, lane, chunk, srcs, n, rcmi_scratch(0), RCMI_NO_CHANNEL);
            srcs[0] = rcmi_scratch(0);
            n = 1;
        }
        srcs[n++] = r == rank   ? rcmi_in(chunk)
                    : multicast ? rcmi_from_host(b, lane, r, 0)
                                : rcmi_from(b, lane, r, 0);
    }
    rcmi_reduce(b, lane, chunk, srcs, n, dst, out);
}

uint32_t rcmi_spans(uint32_t n) {
    return (n + RCMI_SPAN_MAX - 1) / RCMI_SPAN_MAX;
}

uint32_t rcmi_span_length(uint32_t n, uint32_t at) {
    return n - at < RCMI_SPAN_MAX ? n - at : RCMI_SPAN_MAX;
}

double rcmi_cost_memory(double hops, double polls, double bytes) {
    return hops * MEMORY_HOP_US + polls * MEMORY_POLL_US + bytes / MEMORY_BYTES_PER_US;
}

double rcmi_cost_network(const struct rcmi_shape *shape, const struct rcmi_cost *cost) {
    const double hop = shape->loopback ? LOOPBACK_HOP_US : NETWORK_HOP_US;
    const double ranks_per_cpu = shape->ranks_per_cpu > 1 ? shape->ranks_per_cpu : 1;
    const double chain = cost->hops * hop + cost->bytes / NETWORK_BYTES_PER_US;
    const double work =
        ranks_per_cpu * (cost->messages * SOCKET_MESSAGE_US + cost->sent / NETWORK_BYTES_PER_US);
    /* Where all ranks share the processors of one machine there is always another one to run while
     * one waits: what must be done in all counts, and the chain only as so many changes of tasks.
     */
    if (shape->loopback && ranks_per_cpu > 1)
        return work + cost->hops * hop / 10;
    /* Of two with equal work the shorter chain is better. */
    return (chain > work ? chain : work) + chain / 10;
}

double rcmi_ranks_per_host(const struct rcmi_shape *shape) {
    return (double)shape->nranks / shape->nhosts;
}

double rcmi_cost_chain(const struct rcmi_shape *shape, size_t bytes, double moves, double leaves) {
    const double p = shape->nranks;
    const double slice = (double)bytes < SLICE_BYTES ? (double)bytes : SLICE_BYTES;
    const double slices = (double)bytes < SLICE_BYTES ? 1 : (double)bytes / SLICE_BYTES;
    const double vector_and_fill = (double)bytes + (p - 2) * slice;
    const struct rcmi_cost cost = {.hops = p - 1,
                                   .bytes = leaves * vector_and_fill,
                                   .messages = (p - 1) / p * slices,
                                   .sent = (p - 1) / p * (double)bytes};
    if (shape->nranks == 1)
        return 0;
    if (shape->nhosts > 1)
        return rcmi_cost_network(shape, &cost);
    return rcmi_cost_memory(p - 1, 0, moves * vector_and_fill);
}

double rcmi_cost_spans(const struct rcmi_shape *shape, size_t bytes, double messages, double copies,
                       double moves) {
    const double p = shape->nranks, sent = (p - 1) / p * (double)bytes;
    const struct rcmi_cost cost = {.hops = messages,
                                   .bytes = rcmi_ranks_per_host(shape) * copies * sent,
                                   .messages = messages,
                                   .sent = copies * sent};
    if (shape->nranks == 1)
        return 0;
    if (shape->nhosts > 1)
        return rcmi_cost_network(shape, &cost);
    return rcmi_cost_memory(ROUND_HOPS * messages, 0, moves * sent);
}
