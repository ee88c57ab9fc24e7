/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The channel ends of an executor. Each is opened when a plan first needs it. A hash table finds it
 * again, because a plan may have as many channels as there are ranks.
 */
#include "exec_internal.h"
#include <stdlib.h>

bool rcmi_exec_is_spread(const struct rcmi_exec *exec) {
    return exec->config.shape->nhosts > 1 &&
           exec->config.shape->nhosts == exec->config.shape->nranks;
}

struct name {
    struct rcmi_plan_channel channel;
    enum rcmi_mem_kind kind;
};

/* ---- Opening --------------------------------------------------------------------------------- */

/* World ranks of the other ranks on this rank's host. Caller frees. */
static int *exec_host_peers(const struct rcmi_exec *exec, int *ret_count) {
    const struct rcmi_shape *shape = exec->config.shape;
    int *peers = calloc((size_t)shape->nranks, sizeof(*peers));
    *ret_count = 0;
    for (int r = 0; peers && r < shape->nranks; r++)
        if (r != exec->config.rank && shape->host_of[r] == shape->host_of[exec->config.rank])
            peers[(*ret_count)++] = exec->config.world_rank[r];
    return peers;
}

static rcm_status end_open_writer(const struct rcmi_exec *exec, struct rcmi_end *end, uint32_t id) {
    if (!end->multicast)
        return rcmi_channel_open_writer(exec->config.node, exec->config.epoch, id,
                                        &exec->config.world_rank[end->peer], 1, &end->channel);
    int npeers;
    int *peers = exec_host_peers(exec, &npeers);
    if (!peers)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a list of ranks");
    rcm_status status = rcmi_channel_open_writer(exec->config.node, exec->config.epoch, id, peers,
                                                 npeers, &end->channel);
    free(peers);
    return status;
}

static uint32_t end_id(const struct rcmi_exec *exec, const struct rcmi_end *end) {
    return end->number | (end->multicast ? RCMI_ID_MULTICAST : 0) |
           (end->kind == RCMI_MEM_DEVICE ? RCMI_ID_DEVICE : 0) |
           (rcmi_exec_is_spread(exec) ? RCMI_ID_BULK : 0);
}

static rcm_status end_open(struct rcmi_exec *exec, const struct name *name,
                           struct rcmi_end **ret_end) {
    const struct rcmi_plan_channel *channel = &name->channel;
    struct rcmi_end *end = calloc(1, sizeof(*end));
    if (!end)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a channel");
    end->peer = channel->peer;
    end->number = channel->number;
    end->outgoing = channel->outgoing;
    end->multicast = channel->multicast;
    end->kind = name->kind;
    end->kept = calloc(exec->config.slots, sizeof(*end->kept));
    if (!end->kept) {
        free(end);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a channel");
    }
    const uint32_t id = end_id(exec, end);
    rcm_status status;
    if (end->outgoing)
        status = end_open_writer(exec, end, id);
    else
        status = rcmi_channel_open_reader(exec->config.node, exec->config.epoch, id,
                                          exec->config.world_rank[end->peer], &end->channel);
    if (status != RCM_OK) {
        free(end->kept);
        free(end);
        return status;
    }
    rcmi_channel_count(end->channel, exec->config.traffic);
    *ret_end = end;
    return RCM_OK;
}

/* ---- Finding --------------------------------------------------------------------------------- */

static bool end_is(const struct rcmi_end *end, const struct name *name) {
    const struct rcmi_plan_channel *channel = &name->channel;
    return end->peer == channel->peer && end->number == channel->number &&
           end->outgoing == channel->outgoing && end->multicast == channel->multicast &&
           end->kind == name->kind;
}

/* Open addressing: the bucket of the channel's end, or the free bucket for it. */
static struct rcmi_end **end_bucket(struct rcmi_end **buckets, uint32_t nbuckets,
                                    const struct name *name) {
    const struct rcmi_plan_channel *channel = &name->channel;
    const uint64_t word = (uint64_t)(uint32_t)channel->peer << 32 | (uint64_t)channel->number << 3 |
                          (uint64_t)name->kind << 2 | (uint64_t)channel->multicast << 1 |
                          (uint64_t)channel->outgoing;
    uint32_t at = (uint32_t)(word * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (nbuckets - 1);
    while (buckets[at] && !end_is(buckets[at], name))
        at = (at + 1) & (nbuckets - 1);
    return &buckets[at];
}

/* Half of the buckets stay free. */
static rcm_status ends_grow(struct rcmi_exec *exec) {
    const uint32_t n = exec->nbuckets ? 2 * exec->nbuckets : 16;
    if (2 * exec->nends < exec->nbuckets)
        return RCM_OK;
    struct rcmi_end **buckets = calloc(n, sizeof(struct rcmi_end *));
    if (!buckets)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %u channels", n / 2);
    for (uint32_t i = 0; i < exec->nbuckets; i++) {
        const struct rcmi_end *end = exec->ends[i];
        if (!end)
            continue;
        const struct name name = {.channel = {.peer = end->peer,
                                              .number = end->number,
                                              .outgoing = end->outgoing,
                                              .multicast = end->multicast},
                                  .kind = end->kind};
        *end_bucket(buckets, n, &name) = exec->ends[i];
    }
    free(exec->ends);
    exec->ends = buckets;
    exec->nbuckets = n;
    return RCM_OK;
}

static struct name name_in(const struct rcmi_plan_channel *in_plan, uint32_t stripe,
                           enum rcmi_mem_kind kind) {
    struct name name = {*in_plan, kind};
    name.channel.number = (uint16_t)(name.channel.number + stripe * RCMI_CHANNEL_NUMBERS);
    return name;
}

rcm_status rcmi_exec_end(struct rcmi_exec *exec, const struct rcmi_plan_channel *in_plan,
                         uint32_t stripe, enum rcmi_mem_kind kind, struct rcmi_end **ret_end) {
    const struct name name = name_in(in_plan, stripe, kind);
    rcm_status status = ends_grow(exec);
    if (status != RCM_OK)
        return status;
    struct rcmi_end **bucket = end_bucket(exec->ends, exec->nbuckets, &name);
    if (!*bucket) {
        status = end_open(exec, &name, bucket);
        exec->nends += status == RCM_OK;
    }
    *ret_end = *bucket;
    return status;
}

bool rcmi_exec_has_end(const struct rcmi_exec *exec, const struct rcmi_plan_channel *in_plan,
                       uint32_t stripe, enum rcmi_mem_kind kind) {
    const struct name name = name_in(in_plan, stripe, kind);
    return exec->nbuckets > 0 && *end_bucket(exec->ends, exec->nbuckets, &name);
}

static void close_all(void *arg) {
    struct rcmi_exec *exec = arg;
    for (uint32_t i = 0; i < exec->nbuckets; i++) {
        struct rcmi_end *end = exec->ends[i];
        if (!end)
            continue;
        rcmi_channel_close(end->channel);
        free(end->kept);
        free(end);
    }
    free(exec->ends);
    exec->ends = NULL;
    exec->nbuckets = exec->nends = 0;
}

void rcmi_exec_close_channels(struct rcmi_exec *exec) {
    if (exec->nbuckets > 0)
        rcmi_loop_call(rcmi_node_loop(exec->config.node), close_all, exec); /* one call for all */
}
