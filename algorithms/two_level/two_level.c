/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the two-level algorithms: see two_level.h. */
#include "two_level.h"
#include <stdlib.h>
#include "error.h"

bool rcmi_supports_two_level(const struct rcmi_shape *shape) {
    return shape->nhosts > 1 && shape->nhosts < shape->nranks;
}

static rcm_status level_list(const struct rcmi_shape *shape, struct rcmi_two_level *level) {
    level->first = calloc((size_t)shape->nhosts + 1, sizeof(*level->first));
    if (!level->first)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a list of %d hosts", shape->nhosts);
    for (int r = 0; r < shape->nranks; r++)
        level->first[shape->host_of[r] + 1]++;
    for (int host = 0; host < shape->nhosts; host++)
        level->first[host + 1] += level->first[host];
    return rcmi_ring_order(shape, &level->rank_at);
}

rcm_status rcmi_two_level_make(const struct rcmi_shape *shape, int rank, uint32_t most,
                               struct rcmi_two_level *ret_level) {
    struct rcmi_two_level level = {
        .nhosts = shape->nhosts, .leaders = (int)most, .host = shape->host_of[rank]};
    const rcm_status status = level_list(shape, &level);
    if (status != RCM_OK) {
        free(level.first);
        return status;
    }
    level.size = rcmi_host_size(&level, level.host);
    while (rcmi_host_rank(&level, level.host, level.number) != rank)
        level.number++;
    for (int host = 0; host < level.nhosts; host++) {
        const int size = rcmi_host_size(&level, host);
        level.largest = size > level.largest ? size : level.largest;
        level.leaders = size < level.leaders ? size : level.leaders;
    }
    *ret_level = level;
    return RCM_OK;
}

void rcmi_two_level_free(struct rcmi_two_level *level) {
    free(level->first);
    free(level->rank_at);
}

int rcmi_host_before(const struct rcmi_two_level *level, int back) {
    return (level->host + level->nhosts - back % level->nhosts) % level->nhosts;
}

int rcmi_size_followers(const struct rcmi_two_level *level, int size, int leader) {
    return (size - leader + level->leaders - 1) / level->leaders;
}

int rcmi_host_followers(const struct rcmi_two_level *level, int host, int leader) {
    return rcmi_size_followers(level, rcmi_host_size(level, host), leader);
}

uint32_t rcmi_line_ranks(const struct rcmi_two_level *level, int line) {
    uint32_t n = 0;
    for (int host = 0; host < level->nhosts; host++)
        n += (uint32_t)rcmi_host_followers(level, host, line);
    return n;
}

bool rcmi_host_is_shared(const struct rcmi_two_level *level, int host) {
    return rcmi_host_size(level, host) > 1;
}

struct rcmi_summands rcmi_sum_host(struct rcmi_builder *b, int lane,
                                   const struct rcmi_two_level *level, uint32_t chunk,
                                   struct rcmi_operand from, int but) {
    struct rcmi_summands sum = {.b = b, .lane = lane, .chunk = chunk};
    if (from.where == RCMI_CHANNEL)
        rcmi_summands_add(&sum, from);
    for (int number = 0; number < level->size; number++)
        if (number == level->number)
            rcmi_summands_add(&sum, rcmi_in(chunk));
        else if (number != but)
            rcmi_summands_add(&sum, rcmi_from(b, lane, rcmi_leader_here(level, number), 0));
    return sum;
}

rcm_status rcmi_two_level_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                               int rank, int root, const struct rcmi_two_level_form *form,
                               struct rcmi_plan **ret_plan) {
    struct rcmi_two_level level;
    struct rcmi_builder *b;
    rcm_status status = rcmi_two_level_make(shape, rank, row->parameter, &level);
    if (status != RCM_OK)
        return status;
    const uint32_t parts =
        (uint32_t)((form->by_leaders ? level.leaders : 1) * (form->by_hosts ? level.nhosts : 1));
    /* A leader holds a message from the previous host until it may send to the next one: two slots,
     * see ring.c. */
    status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, parts, 2, &b);
    if (status == RCM_OK) {
        rcmi_plan_stripes(b, level.largest <= 4 ? 2 : 1); /* memory: channels between pairs */
        form->steps(b, &level, rank, root);
        status = rcmi_plan_finish(b, ret_plan);
    }
    rcmi_two_level_free(&level);
    return status;
}

void rcmi_two_level_count(struct rcmi_tally *t,
                          void (*tally)(struct rcmi_tally *t, const struct rcmi_two_level *level)) {
    struct rcmi_two_level level;
    t->failed = rcmi_two_level_make(t->shape, 0, t->row->parameter, &level) != RCM_OK;
    if (t->failed)
        return;
    tally(t, &level);
    rcmi_two_level_free(&level);
}

void rcmi_tally_given(struct rcmi_tally *t, const struct rcmi_two_level *level, int leader,
                      double messages, double vectors, int but) {
    const int host = t->shape->host_of[leader];
    for (int n = 0; n < rcmi_host_size(level, host); n++) {
        const int rank = rcmi_host_rank(level, host, n);
        if (rank != leader && rank != but)
            rcmi_tally_send(t, rank, leader, messages, vectors);
    }
}
