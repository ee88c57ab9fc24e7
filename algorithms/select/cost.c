/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the work of all ranks from an algorithm's messages; see cost.h. */
#include "algorithm.h"

#include <stdlib.h>
#include "error.h"

static void load_message(struct rcmi_load *load, int reach, double messages, double vectors) {
    load->messages[reach] += messages;
    load->moved[reach] += vectors;
}

void rcmi_tally_send(struct rcmi_tally *tally, int from, int to, double messages, double vectors) {
    const int *host_of = tally->shape->host_of;
    const int reach = host_of[from] == host_of[to] ? RCMI_WITHIN : RCMI_BETWEEN;
    load_message(&tally->own[from], reach, messages, vectors);
    load_message(&tally->own[to], reach, messages, vectors);
    if (reach == RCMI_WITHIN)
        return;
    tally->hosts[host_of[from]].leaves += vectors;
    tally->hosts[host_of[to]].enters += vectors;
}

/* Counts one end of spans between hosts. Returns their vectors. */
static double tally_end(struct rcmi_tally *tally, int rank, double times, uint32_t n,
                        double block) {
    const uint32_t packed = n % RCMI_SPAN_MAX == 1 ? n - 1 : n;
    load_message(&tally->own[rank], RCMI_BETWEEN, times * rcmi_spans(n), times * n * block);
    rcmi_tally_local(tally, rank, times * packed * block, 0);
    return times * n * block;
}

void rcmi_tally_leave(struct rcmi_tally *tally, int from, double times, uint32_t n, double block) {
    tally->hosts[tally->shape->host_of[from]].leaves += tally_end(tally, from, times, n, block);
}

void rcmi_tally_enter(struct rcmi_tally *tally, int to, double times, uint32_t n, double block) {
    tally->hosts[tally->shape->host_of[to]].enters += tally_end(tally, to, times, n, block);
}

void rcmi_tally_spans(struct rcmi_tally *tally, int from, int to, uint32_t n, double block) {
    const int *host_of = tally->shape->host_of;
    if (host_of[from] == host_of[to]) {
        rcmi_tally_send(tally, from, to, rcmi_spans(n), n * block);
        return;
    }
    rcmi_tally_leave(tally, from, 1, n, block);
    rcmi_tally_enter(tally, to, 1, n, block);
}

/* The sender accesses it once, like each reader. */
void rcmi_tally_multicast(struct rcmi_tally *tally, int from, double messages, double vectors) {
    struct rcmi_tally_host *host = &tally->hosts[tally->shape->host_of[from]];
    host->messages += messages;
    host->moved += vectors;
}

void rcmi_tally_everyone(struct rcmi_tally *tally, double messages, double vectors) {
    const int p = tally->shape->nranks;
    for (int r = 0; r < p; r++) {
        const double near = tally->hosts[tally->shape->host_of[r]].ranks - 1, far = p - 1 - near;
        load_message(&tally->own[r], RCMI_WITHIN, 2 * near * messages, 2 * near * vectors);
        load_message(&tally->own[r], RCMI_BETWEEN, 2 * far * messages, 2 * far * vectors);
    }
    for (int h = 0; h < tally->shape->nhosts; h++) {
        const double ranks = tally->hosts[h].ranks, through = ranks * (p - ranks) * vectors;
        tally->hosts[h].leaves += through;
        tally->hosts[h].enters += through;
    }
}

/* One of a rank's two ring messages crosses hosts instead of staying within one. */
static void ring_joint(struct rcmi_tally *tally, int rank, double messages, double vectors) {
    load_message(&tally->own[rank], RCMI_WITHIN, -messages, -vectors);
    load_message(&tally->own[rank], RCMI_BETWEEN, messages, vectors);
}

void rcmi_tally_ring(struct rcmi_tally *tally, double messages, double vectors) {
    const struct rcmi_shape *shape = tally->shape;
    for (int r = 0; r < shape->nranks; r++)
        load_message(&tally->own[r], RCMI_WITHIN, 2 * messages, 2 * vectors);
    for (int h = 0; h < shape->nhosts && shape->nhosts > 1; h++) {
        struct rcmi_tally_host *host = &tally->hosts[h];
        ring_joint(tally, host->first, messages, vectors);
        ring_joint(tally, host->last, messages, vectors);
        host->enters += vectors;
        host->leaves += vectors;
    }
}

void rcmi_tally_local(struct rcmi_tally *tally, int rank, double copied, double sums) {
    tally->own[rank].moved[RCMI_WITHIN] += copied;
    tally->own[rank].sums += sums;
}

void rcmi_tally_local_all(struct rcmi_tally *tally, double copied, double sums) {
    for (int r = 0; r < tally->shape->nranks; r++)
        rcmi_tally_local(tally, r, copied, sums);
}

void rcmi_tally_chain(struct rcmi_tally *tally, double vectors) {
    tally->chain = vectors;
}

void rcmi_tally_between(struct rcmi_tally *tally, double hops) {
    tally->between = hops;
}

/* ---- Totals ---------------------------------------------------------------------------------- */

rcm_status rcmi_tally_init(struct rcmi_tally *tally, const struct rcmi_shape *shape) {
    *tally = (struct rcmi_tally){.shape = shape, .between = -1};
    tally->own = calloc((size_t)shape->nranks, sizeof(*tally->own));
    tally->hosts = calloc((size_t)shape->nhosts, sizeof(*tally->hosts));
    if (!tally->own || !tally->hosts) {
        rcmi_tally_free(tally);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to count the work of %d ranks",
                         shape->nranks);
    }
    for (int r = 0; r < shape->nranks; r++) {
        struct rcmi_tally_host *host = &tally->hosts[shape->host_of[r]];
        host->first = host->ranks > 0 ? host->first : r;
        host->last = r;
        host->ranks++;
    }
    return RCM_OK;
}

void rcmi_tally_free(struct rcmi_tally *tally) {
    free(tally->own);
    free(tally->hosts);
}

static double most(double a, double b) {
    return a > b ? a : b;
}

static void load_take(struct rcmi_load *busiest, struct rcmi_load *sum,
                      const struct rcmi_load *own) {
    for (int reach = 0; reach < RCMI_REACHES; reach++) {
        busiest->messages[reach] = most(busiest->messages[reach], own->messages[reach]);
        busiest->moved[reach] = most(busiest->moved[reach], own->moved[reach]);
        sum->messages[reach] += own->messages[reach];
        sum->moved[reach] += own->moved[reach];
    }
    busiest->sums = most(busiest->sums, own->sums);
    sum->sums += own->sums;
}

static void load_divide(struct rcmi_load *load, double n) {
    for (int reach = 0; reach < RCMI_REACHES; reach++) {
        load->messages[reach] /= n;
        load->moved[reach] /= n;
    }
    load->sums /= n;
}

void rcmi_tally_total(struct rcmi_tally *tally, uint32_t hops, struct rcmi_cost *ret_cost) {
    const struct rcmi_shape *shape = tally->shape;
    struct rcmi_cost cost = {.chain = tally->chain};
    for (int r = 0; r < shape->nranks; r++) {
        const struct rcmi_tally_host *host = &tally->hosts[shape->host_of[r]];
        load_message(&tally->own[r], RCMI_WITHIN, host->messages, host->moved);
        load_take(&cost.busiest, &cost.mean, &tally->own[r]);
    }
    for (int h = 0; h < shape->nhosts; h++)
        cost.card = most(cost.card, most(tally->hosts[h].leaves, tally->hosts[h].enters));
    const double far = cost.mean.messages[RCMI_BETWEEN];
    const double all = cost.mean.messages[RCMI_WITHIN] + far;
    const double between = tally->between >= 0 ? tally->between : all > 0 ? hops * far / all : 0;
    cost.hops[RCMI_BETWEEN] = between < hops ? between : hops;
    cost.hops[RCMI_WITHIN] = hops - cost.hops[RCMI_BETWEEN];
    load_divide(&cost.mean, shape->nranks);
    *ret_cost = cost;
}

rcm_status rcmi_cost_count(const struct rcmi_algorithm *algorithm, const struct rcmi_shape *shape,
                           int root, struct rcmi_cost *ret_cost) {
    struct rcmi_tally tally;
    *ret_cost = (struct rcmi_cost){.chain = 0};
    if (shape->nranks == 1)
        return RCM_OK; /* one rank has nothing to choose */
    const rcm_status status = rcmi_tally_init(&tally, shape);
    if (status != RCM_OK)
        return status;
    tally.row = algorithm;
    tally.root = root;
    algorithm->count(&tally);
    const uint32_t rounds = algorithm->formula(algorithm, shape, 0, root).rounds;
    rcmi_tally_total(&tally, rounds, ret_cost);
    rcmi_tally_free(&tally);
    if (!tally.failed && rounds > 0)
        return RCM_OK;
    /* Must fail: with incomplete counts this rank would select differently from the others. */
    return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to count the work of %s", algorithm->name);
}
