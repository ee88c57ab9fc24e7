/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building plans. The builder collects the steps of each lane and creates a channel on first use;
 * builder_finish.c makes a plan of them. It stores mistakes of an emitter (a channel end used by
 * two lanes, a chunk that does not exist) and lack of memory; rcmi_plan_finish returns them.
 * Whether the finished plans of all ranks are correct is the verifier's task.
 */
#include "builder.h"

#include <stdlib.h>
#include <string.h>
#include "error.h"

static void builder_fail(struct rcmi_builder *b, const char *what, long value) {
    if (b->status == RCM_OK)
        b->status = rcmi_fail(RCM_ERR_INTERNAL, 0, "the plan of %s (%s) for rank %d of %d %s %ld",
                              rcmi_collective_name(b->head.collective), b->head.algorithm,
                              b->head.rank, b->head.nranks, what, value);
}

/* Grows the array for one more item; false: no memory. */
static bool builder_grow(struct rcmi_builder *b, void **array, uint32_t *capacity, uint32_t used,
                         size_t item_bytes) {
    if (used < *capacity)
        return true;
    const uint32_t wanted = *capacity ? *capacity * 2 : 16;
    void *grown = realloc(*array, wanted * item_bytes);
    if (!grown) {
        b->status =
            rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a plan of %s (%s) for %d ranks",
                      rcmi_collective_name(b->head.collective), b->head.algorithm, b->head.nranks);
        return false;
    }
    *array = grown;
    *capacity = wanted;
    return true;
}

static rcm_status begin_check(const struct rcmi_collective *row, const char *algorithm,
                              const struct rcmi_shape *shape, int rank, int root, uint32_t parts,
                              uint32_t min_slots) {
    if (rank < 0 || rank >= shape->nranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "rank %d is not in 0..%d", rank, shape->nranks - 1);
    if (root < 0 || root >= shape->nranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "root %d is not in 0..%d", root, shape->nranks - 1);
    if (row && rcmi_collective_total(row, shape->nranks) > UINT32_MAX / (parts ? parts : 1))
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "a plan of %s in %u parts for %d ranks", row->name,
                         parts, shape->nranks);
    if (parts == 0 || min_slots == 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "a plan of %s with %u parts and %u slots", algorithm,
                         parts, min_slots);
    return RCM_OK;
}

/* FNV-1a. */
static uint64_t name_hash(const char *name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    while (*name)
        hash = (hash ^ (uint8_t)*name++) * UINT64_C(0x100000001b3);
    return hash;
}

rcm_status rcmi_plan_begin(const char *algorithm, enum rcm_collective collective,
                           const struct rcmi_shape *shape, int rank, int root, uint32_t parts,
                           uint32_t min_slots, struct rcmi_builder **ret_builder) {
    const struct rcmi_collective *row = rcmi_collective_at((int)collective);
    const rcm_status status = begin_check(row, algorithm, shape, rank, root, parts, min_slots);
    if (status != RCM_OK)
        return status;
    if (!row)
        return rcmi_fail(RCM_ERR_INVALID, 0, "collective %d does not exist", (int)collective);
    struct rcmi_builder *b = calloc(1, sizeof(*b));
    if (!b)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a plan of %s", algorithm);
    b->shape = shape;
    b->head = (struct rcmi_plan){
        .collective = collective,
        .algorithm = algorithm,
        .name_hash = name_hash(algorithm),
        .nranks = shape->nranks,
        .rank = rank,
        .root = root,
        .nchunks = (uint32_t)rcmi_collective_total(row, shape->nranks) * parts,
        .parts = parts,
        .in = rcmi_collective_in(row, shape->nranks, rank, root),
        .out = rcmi_collective_out(row, shape->nranks, rank, root),
        .larger = rcmi_collective_larger(row, shape->nranks),
        .longest_span = 1,
        .min_slots = min_slots,
        .stripes = RCMI_STRIPES,
    };
    *ret_builder = b;
    return RCM_OK;
}

void rcmi_plan_stripes(struct rcmi_builder *b, uint32_t stripes) {
    b->head.stripes = stripes;
}

void rcmi_plan_whole(struct rcmi_builder *b) {
    b->head.whole = true;
}

void rcmi_plan_halves(struct rcmi_builder *b) {
    b->head.halves = true;
}

void rcmi_plan_late_in_place(struct rcmi_builder *b) {
    b->head.late_in_place = true;
}

void rcmi_plan_gets(struct rcmi_builder *b, enum rcmi_gets gets) {
    b->head.gets = (uint8_t)gets;
}

void rcmi_plan_spans(struct rcmi_builder *b, uint32_t longest) {
    b->head.longest_span = longest;
    if (longest == 0 || longest > RCMI_SPAN_MAX)
        builder_fail(b, "may not have spans of", (long)longest);
}

/* ---- Operands and channels ------------------------------------------------------------------ */

struct rcmi_operand rcmi_in(uint32_t position) {
    return (struct rcmi_operand){.where = RCMI_IN, .index = position};
}

struct rcmi_operand rcmi_out(uint32_t position) {
    return (struct rcmi_operand){.where = RCMI_OUT, .index = position};
}

struct rcmi_operand rcmi_scratch(uint32_t i) {
    return (struct rcmi_operand){.where = RCMI_SCRATCH, .index = i};
}

struct rcmi_operand rcmi_nowhere(void) {
    return (struct rcmi_operand){.where = RCMI_NOWHERE};
}

/* The first bucket for a channel. The lane is not part of the key. */
static uint32_t channel_bucket(const struct rcmi_builder *b, const struct rcmi_plan_channel *key) {
    uint64_t x = (uint64_t)(uint32_t)key->peer << 8 | (uint64_t)key->number << 2 |
                 (uint64_t)key->multicast << 1 | (uint64_t)key->outgoing;
    x *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(x >> 32) & (b->nbuckets - 1);
}

static bool channel_same(const struct rcmi_plan_channel *a, const struct rcmi_plan_channel *b) {
    return a->outgoing == b->outgoing && a->multicast == b->multicast && a->peer == b->peer &&
           a->number == b->number;
}

/* The bucket that holds key's channel, or the free bucket for it. */
static uint32_t *channel_find(struct rcmi_builder *b, const struct rcmi_plan_channel *key) {
    uint32_t at = channel_bucket(b, key);
    while (b->buckets[at] != 0 && !channel_same(&b->channels[b->buckets[at] - 1], key))
        at = (at + 1) & (b->nbuckets - 1);
    return &b->buckets[at];
}

static bool channel_rehash(struct rcmi_builder *b) {
    if (b->head.nchannels * 2 < b->nbuckets)
        return true;
    uint32_t *old = b->buckets;
    const uint32_t old_nbuckets = b->nbuckets;
    b->buckets = NULL;
    uint32_t capacity = old_nbuckets;
    if (!builder_grow(b, (void **)&b->buckets, &capacity, capacity, sizeof(*b->buckets))) {
        b->buckets = old;
        return false;
    }
    memset(b->buckets, 0, capacity * sizeof(*b->buckets));
    b->nbuckets = capacity;
    for (uint32_t i = 0; i < b->head.nchannels; i++)
        *channel_find(b, &b->channels[i]) = i + 1;
    free(old);
    return true;
}

static uint32_t channel_get(struct rcmi_builder *b, const struct rcmi_plan_channel *key) {
    if (b->status != RCM_OK || !channel_rehash(b))
        return RCMI_NO_CHANNEL;
    uint32_t *bucket = channel_find(b, key);
    if (*bucket == 0) {
        if (!builder_grow(b, (void **)&b->channels, &b->channel_capacity, b->head.nchannels,
                          sizeof(*b->channels)))
            return RCMI_NO_CHANNEL;
        b->channels[b->head.nchannels++] = *key;
        *bucket = b->head.nchannels;
    } else if (b->channels[*bucket - 1].lane != key->lane) {
        builder_fail(b, "uses one channel end from two lanes; its peer is", key->peer);
    }
    return *bucket - 1;
}

static bool channel_check(struct rcmi_builder *b, int lane, int peer, int number) {
    if (lane < 0 || lane >= RCMI_LANES_MAX)
        builder_fail(b, "has no lane", lane);
    else if (peer < 0 || peer >= b->head.nranks || peer == b->head.rank)
        builder_fail(b, "cannot have a channel with rank", peer);
    else if (number < 0 || number >= RCMI_CHANNEL_NUMBERS)
        builder_fail(b, "has no channel number", number);
    return b->status == RCM_OK;
}

static struct rcmi_operand channel_operand(uint32_t index) {
    return index == RCMI_NO_CHANNEL ? rcmi_nowhere()
                                    : (struct rcmi_operand){.where = RCMI_CHANNEL, .index = index};
}

struct rcmi_operand rcmi_from(struct rcmi_builder *b, int lane, int peer, int number) {
    if (!channel_check(b, lane, peer, number))
        return rcmi_nowhere();
    return channel_operand(channel_get(b, &(struct rcmi_plan_channel){.peer = peer,
                                                                      .number = (uint16_t)number,
                                                                      .lane = (uint16_t)lane}));
}

struct rcmi_operand rcmi_from_host(struct rcmi_builder *b, int lane, int writer, int number) {
    if (!channel_check(b, lane, writer, number))
        return rcmi_nowhere();
    if (b->shape->host_of[writer] != b->shape->host_of[b->head.rank])
        builder_fail(b, "reads the multicast of another host's rank", writer);
    return channel_operand(channel_get(b, &(struct rcmi_plan_channel){.multicast = true,
                                                                      .peer = writer,
                                                                      .number = (uint16_t)number,
                                                                      .lane = (uint16_t)lane}));
}

uint32_t rcmi_to(struct rcmi_builder *b, int lane, int peer, int number) {
    if (!channel_check(b, lane, peer, number))
        return RCMI_NO_CHANNEL;
    return channel_get(
        b, &(struct rcmi_plan_channel){
               .outgoing = true, .peer = peer, .number = (uint16_t)number, .lane = (uint16_t)lane});
}

uint32_t rcmi_to_host(struct rcmi_builder *b, int lane, int number) {
    const int other = b->head.rank == 0 ? 1 : 0; /* there must be another rank */
    if (!channel_check(b, lane, other, number))
        return RCMI_NO_CHANNEL;
    return channel_get(b, &(struct rcmi_plan_channel){.outgoing = true,
                                                      .multicast = true,
                                                      .peer = -1,
                                                      .number = (uint16_t)number,
                                                      .lane = (uint16_t)lane});
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static bool operand_check(struct rcmi_builder *b, struct rcmi_operand operand) {
    if ((operand.where == RCMI_IN || operand.where == RCMI_OUT) &&
        operand.index >= rcmi_plan_chunks(&b->head, operand.where))
        builder_fail(b, "has no chunk", (long)operand.index);
    if (operand.where == RCMI_SCRATCH && operand.index >= b->head.nscratch)
        b->head.nscratch = operand.index + 1;
    return b->status == RCM_OK;
}

static bool step_check(struct rcmi_builder *b, int lane, uint32_t chunk, int nsrcs) {
    if (b->status != RCM_OK)
        return false;
    if (lane < 0 || lane >= RCMI_LANES_MAX)
        builder_fail(b, "has no lane", lane);
    else if (chunk >= b->head.nchunks)
        builder_fail(b, "has no chunk", (long)chunk);
    else if (nsrcs < 0 || nsrcs > RCMI_SOURCES_MAX)
        builder_fail(b, "reduces too many sources in one step:", nsrcs);
    return b->status == RCM_OK;
}

static bool operands_add(struct rcmi_builder *b, const struct rcmi_operand *srcs, int nsrcs) {
    for (int i = 0; i < nsrcs; i++) {
        if (!operand_check(b, srcs[i]) ||
            !builder_grow(b, (void **)&b->operands, &b->operand_capacity, b->head.noperands,
                          sizeof(*b->operands)))
            return false;
        b->operands[b->head.noperands++] = srcs[i];
    }
    return true;
}

static void step_add(struct rcmi_builder *b, int lane, uint8_t op, uint32_t chunk,
                     const struct rcmi_operand *srcs, int nsrcs, struct rcmi_operand dst,
                     uint32_t out) {
    if (!step_check(b, lane, chunk, nsrcs))
        return;
    struct rcmi_lane_steps *to = &b->lanes[lane];
    const uint32_t first_src = b->head.noperands;
    if (!operand_check(b, dst) || !operands_add(b, srcs, nsrcs) ||
        !builder_grow(b, (void **)&to->steps, &to->capacity, to->nsteps, sizeof(*to->steps)))
        return;
    to->steps[to->nsteps++] = (struct rcmi_step){
        .op = op,
        .nsrcs = (uint8_t)nsrcs,
        .chunk = chunk,
        .nchunks = 1,
        .list = RCMI_NO_LIST,
        .first_src = first_src,
        .dst = dst,
        .out = out,
        .answer = RCMI_NO_CHANNEL,
    };
    b->head.nsteps++;
    if (b->head.nlanes <= (uint32_t)lane)
        b->head.nlanes = (uint32_t)lane + 1;
}

void rcmi_send(struct rcmi_builder *b, int lane, uint32_t chunk, struct rcmi_operand src,
               uint32_t out) {
    step_add(b, lane, RCMI_STEP_SEND, chunk, &src, 1, rcmi_nowhere(), out);
}

void rcmi_recv(struct rcmi_builder *b, int lane, uint32_t chunk, struct rcmi_operand from,
               struct rcmi_operand dst) {
    step_add(b, lane, RCMI_STEP_RECV, chunk, &from, 1, dst, RCMI_NO_CHANNEL);
}

void rcmi_copy_chunk(struct rcmi_builder *b, int lane, uint32_t chunk, struct rcmi_operand src,
                     struct rcmi_operand dst) {
    step_add(b, lane, RCMI_STEP_COPY, chunk, &src, 1, dst, RCMI_NO_CHANNEL);
}

void rcmi_reduce(struct rcmi_builder *b, int lane, uint32_t chunk, const struct rcmi_operand *srcs,
                 int nsrcs, struct rcmi_operand dst, uint32_t out) {
    uint8_t op = RCMI_STEP_REDUCE_N;
    if (nsrcs == 2 && (srcs[0].where == RCMI_CHANNEL) != (srcs[1].where == RCMI_CHANNEL))
        op = out == RCMI_NO_CHANNEL ? RCMI_STEP_RECV_REDUCE : RCMI_STEP_RECV_REDUCE_SEND;
    step_add(b, lane, op, chunk, srcs, nsrcs, dst, out);
}

void rcmi_recv_copy_send(struct rcmi_builder *b, int lane, uint32_t chunk, struct rcmi_operand from,
                         struct rcmi_operand dst, uint32_t out) {
    step_add(b, lane, RCMI_STEP_RECV_COPY_SEND, chunk, &from, 1, dst, out);
}

/* NULL: the lane is empty, or an earlier call failed. */
static struct rcmi_step *last_step(struct rcmi_builder *b, int lane) {
    if (b->status == RCM_OK && (lane < 0 || lane >= RCMI_LANES_MAX || b->lanes[lane].nsteps == 0))
        builder_fail(b, "changes the last step of an empty lane,", lane);
    return b->status == RCM_OK ? &b->lanes[lane].steps[b->lanes[lane].nsteps - 1] : NULL;
}

/* Checks the rest of a span; the first chunk was checked when the step was added. */
static void span_check(struct rcmi_builder *b, const struct rcmi_step *step,
                       struct rcmi_operand first) {
    const bool listed = step->list != RCMI_NO_LIST;
    if ((first.where == RCMI_IN || first.where == RCMI_OUT) &&
        step->nchunks > rcmi_plan_chunks(&b->head, first.where))
        builder_fail(b, "has a buffer without room for a span of", (long)step->nchunks);
    for (uint32_t i = listed ? 0 : step->nchunks - 1; i < step->nchunks; i++)
        (void)operand_check(b, rcmi_span_operand(&b->head, step, first, i));
}

/* Makes the last step of the lane a span of n chunks. NULL: a mistake, now or earlier. */
static struct rcmi_step *span_begin(struct rcmi_builder *b, int lane, uint32_t n) {
    struct rcmi_step *step = last_step(b, lane);
    if (step && (n == 0 || n > b->head.longest_span))
        builder_fail(b, "has no spans of", (long)n);
    if (b->status != RCM_OK)
        return NULL;
    step->nchunks = n;
    return step;
}

static void span_end(struct rcmi_builder *b, const struct rcmi_step *step) {
    span_check(b, step, step->dst);
    for (uint32_t i = 0; i < step->nsrcs; i++)
        span_check(b, step, b->operands[step->first_src + i]);
}

void rcmi_span_of(struct rcmi_builder *b, int lane, uint32_t n) {
    const struct rcmi_step *step = span_begin(b, lane, n);
    if (step)
        span_end(b, step);
}

void rcmi_span_list(struct rcmi_builder *b, int lane, const struct rcmi_listed *list, uint32_t n) {
    struct rcmi_step *step = span_begin(b, lane, n);
    if (!step)
        return;
    if (list[0].chunk != step->chunk)
        builder_fail(b, "has a list that does not begin with its step's chunk but with",
                     (long)list[0].chunk);
    step->list = b->head.nlisted;
    for (uint32_t i = 0; i < n; i++) {
        if (!builder_grow(b, (void **)&b->head.listed, &b->listed_capacity, b->head.nlisted,
                          sizeof(*b->head.listed)))
            return;
        b->head.listed[b->head.nlisted++] = list[i];
    }
    span_end(b, step);
}

void rcmi_stable_in_place(struct rcmi_builder *b, int lane) {
    struct rcmi_step *step = last_step(b, lane);
    if (step)
        step->stable_in_place = true;
}

void rcmi_completes(struct rcmi_builder *b, int lane) {
    struct rcmi_step *step = last_step(b, lane);
    if (step)
        step->completes = true;
}

void rcmi_answers(struct rcmi_builder *b, int lane, uint32_t channel) {
    struct rcmi_step *step = last_step(b, lane);
    if (step)
        step->answer = channel;
}

void rcmi_signal(struct rcmi_builder *b, int lane, uint32_t out) {
    step_add(b, lane, RCMI_STEP_SIGNAL, 0, NULL, 0, rcmi_nowhere(), out);
}

void rcmi_wait(struct rcmi_builder *b, int lane, struct rcmi_operand from) {
    step_add(b, lane, RCMI_STEP_WAIT, 0, &from, 1, rcmi_nowhere(), RCMI_NO_CHANNEL);
}
