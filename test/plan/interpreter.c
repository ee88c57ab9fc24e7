/* SPDX-License-Identifier: BSD-3-Clause */
/* A second, independent implementation of plans. See interpreter.h. */
#include "interpreter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct message {
    size_t length;
    const struct play_element **from; /* per chunk: in data, or in the sender's buffer */
    struct play_element *data;
};

struct channel {
    int writer, reader; /* reader -1: multicast */
    uint16_t number;
    uint32_t nreaders;
    uint64_t published;
    uint64_t *released;       /* per reader */
    struct message *messages; /* the slots */
};

/* A rank's end of a channel. */
struct end {
    struct channel *channel;
    uint32_t reader; /* index of the reader */
};

struct lane {
    int rank;
    uint32_t first, nsteps, pc;
    size_t slice;
    bool done;
};

struct rank {
    const struct rcmi_plan *plan;
    struct end *ends;
    struct play_element *in, *out; /* point into the two below; in place into one of them */
    struct play_element *own_in, *own_out, *scratch;
    size_t *offsets[2]; /* elements before each position of IN and OUT, and the total */
    uint32_t lanes_left;
    bool started;
};

struct player {
    const struct rcmi_shape *shape;
    struct rank *ranks;
    struct channel *channels;
    uint32_t nchannels;
    struct lane *lanes;
    uint32_t nlanes;
    struct play_options options;
    size_t nslices;
    uint64_t random;
    int slow; /* the delayed rank, -1: none */
    bool barrier_broken, length_wrong;
    size_t largest; /* elements of the largest buffer */
    struct {
        size_t largest, slot;
        uint32_t slots;
    } room; /* size of the allocated memory */
};

static uint64_t player_random(struct player *p) {
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return p->random;
}

static void *zeroed(size_t n, size_t size) {
    void *memory = calloc(n ? n : 1, size);
    assert_non_null(memory);
    return memory;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static uint64_t scramble(uint64_t x) {
    x = (x ^ x >> 33) * UINT64_C(0xFF51AFD7ED558CCD);
    x = (x ^ x >> 33) * UINT64_C(0xC4CEB9FE1A85EC53);
    return x ^ x >> 33;
}

static struct play_element leaf(int rank, size_t i) {
    const uint64_t x = scramble(((uint64_t)rank << 40) + i + 1);
    return (struct play_element){.sum = x, .tree = scramble(x + 7), .scale = x | 1, .shift = ~x};
}

static struct play_element poison(int rank, size_t i) {
    const uint64_t x = ((uint64_t)(rank + 100000) << 40) + i;
    return (struct play_element){.sum = x, .tree = ~x, .scale = 1, .shift = x};
}

static struct play_element combine(struct play_element a, struct play_element b) {
    return (struct play_element){.sum = a.sum + b.sum,
                                 .tree = scramble(a.tree * 5 + scramble(b.tree + 11)),
                                 .scale = a.scale * b.scale,
                                 .shift = a.scale * b.shift + a.shift,
                                 .completed = a.completed || b.completed ? 100 : 0};
}

/* ---- Creation -------------------------------------------------------------------------------- */

static struct channel *channel_find(struct player *p, int writer, int reader, uint16_t number) {
    for (uint32_t i = 0; i < p->nchannels; i++)
        if (p->channels[i].writer == writer && p->channels[i].reader == reader &&
            p->channels[i].number == number)
            return &p->channels[i];
    fail_msg("no channel from %d to %d", writer, reader);
    return NULL;
}

static void player_connect(struct player *p) {
    for (int r = 0; r < p->shape->nranks; r++) {
        const struct rcmi_plan *plan = p->ranks[r].plan;
        for (uint32_t i = 0; i < plan->nchannels; i++)
            if (plan->channels[i].outgoing)
                p->channels[p->nchannels++] = (struct channel){
                    .writer = r,
                    .reader = plan->channels[i].multicast ? -1 : plan->channels[i].peer,
                    .number = plan->channels[i].number};
    }
    for (int r = 0; r < p->shape->nranks; r++) {
        const struct rcmi_plan *plan = p->ranks[r].plan;
        p->ranks[r].ends = zeroed(plan->nchannels, sizeof(struct end));
        for (uint32_t i = 0; i < plan->nchannels; i++) {
            const struct rcmi_plan_channel *c = &plan->channels[i];
            const int to = c->multicast ? -1 : c->outgoing ? c->peer : r;
            struct end *end = &p->ranks[r].ends[i];
            end->channel = channel_find(p, c->outgoing ? r : c->peer, to, c->number);
            if (!c->outgoing)
                end->reader = end->channel->nreaders++;
        }
    }
    for (uint32_t i = 0; i < p->nchannels; i++)
        p->channels[i].released = zeroed(p->channels[i].nreaders, sizeof(uint64_t));
}

struct player *player_create(const struct rcmi_shape *shape, struct rcmi_plan *const *plans) {
    struct player *p = zeroed(1, sizeof(*p));
    uint32_t nchannels = 0;
    p->shape = shape;
    p->ranks = zeroed((size_t)shape->nranks, sizeof(*p->ranks));
    for (int r = 0; r < shape->nranks; r++) {
        p->ranks[r].plan = plans[r];
        for (int out = 0; out < 2; out++)
            p->ranks[r].offsets[out] = zeroed((size_t)shape->nranks + 1, sizeof(size_t));
        nchannels += plans[r]->nchannels;
        p->nlanes += plans[r]->nlanes;
    }
    p->channels = zeroed(nchannels, sizeof(*p->channels));
    p->lanes = zeroed(p->nlanes, sizeof(*p->lanes));
    p->nlanes = 0;
    for (int r = 0; r < shape->nranks; r++)
        for (uint32_t i = 0; i < plans[r]->nlanes; i++)
            p->lanes[p->nlanes++] = (struct lane){.rank = r,
                                                  .first = plans[r]->lanes[i].first_step,
                                                  .nsteps = plans[r]->lanes[i].nsteps};
    player_connect(p);
    return p;
}

static void player_release_memory(struct player *p) {
    for (uint32_t i = 0; i < p->nchannels; i++) {
        for (uint32_t k = 0; p->channels[i].messages && k < p->room.slots; k++)
            free(p->channels[i].messages[k].data), free(p->channels[i].messages[k].from);
        free(p->channels[i].messages);
        p->channels[i].messages = NULL;
    }
    for (int r = 0; r < p->shape->nranks; r++) {
        free(p->ranks[r].own_in);
        free(p->ranks[r].own_out);
        free(p->ranks[r].scratch);
    }
}

void player_free(struct player *p) {
    player_release_memory(p);
    for (uint32_t i = 0; i < p->nchannels; i++)
        free(p->channels[i].released);
    for (int r = 0; r < p->shape->nranks; r++) {
        free(p->ranks[r].ends);
        free(p->ranks[r].offsets[0]);
        free(p->ranks[r].offsets[1]);
    }
    free(p->channels);
    free(p->lanes);
    free(p->ranks);
    free(p);
}

/* ---- Definitions of collectives -------------------------------------------------------------- */

static bool blocks_are_many(enum rcm_collective collective) {
    return collective == RCM_SCATTER || collective == RCM_GATHER || collective == RCM_ALL_GATHER ||
           collective == RCM_REDUCE_SCATTER || collective == RCM_ALL_TO_ALL ||
           collective == RCM_ALL_TO_ALL_V;
}

static size_t block_count(const struct player *p, size_t block) {
    if (!p->options.uneven)
        return p->options.count;
    return (size_t)(scramble(p->options.seed * 1000003 + block) % (3 * p->options.count + 1));
}

/* The block at a position of a rank's IN or OUT. */
static size_t block_at(const struct player *p, int r, bool out, size_t position) {
    const size_t ranks = (size_t)p->shape->nranks, own = (size_t)r;
    switch (p->ranks[r].plan->collective) {
    case RCM_GATHER:
    case RCM_ALL_GATHER:
        return out ? position : own;
    case RCM_SCATTER:
    case RCM_REDUCE_SCATTER:
        return out ? own : position;
    case RCM_ALL_TO_ALL:
    case RCM_ALL_TO_ALL_V:
        return out ? position * ranks + own : own * ranks + position;
    default:
        return 0;
    }
}

/* Number of blocks in a buffer, if the rank has it. */
static size_t buffer_blocks(const struct player *p, bool out) {
    const enum rcm_collective collective = p->ranks[0].plan->collective;
    const bool one = out ? collective == RCM_SCATTER || collective == RCM_REDUCE_SCATTER
                         : collective == RCM_GATHER || collective == RCM_ALL_GATHER;
    return blocks_are_many(collective) && !one ? (size_t)p->shape->nranks : 1;
}

/* Elements before a position of a rank's buffer. */
static size_t buffer_offset(const struct player *p, int r, bool out, size_t position) {
    return p->ranks[r].offsets[out][position];
}

static void offsets_make(const struct player *p, int r, bool out) {
    size_t *offsets = p->ranks[r].offsets[out];
    for (size_t i = 0; i < buffer_blocks(p, out); i++)
        offsets[i + 1] = offsets[i] + block_count(p, block_at(p, r, out, i));
}

static size_t buffer_count(const struct player *p, int r, bool out) {
    return buffer_offset(p, r, out, buffer_blocks(p, out));
}

/* Elements of the largest buffer. */
static size_t buffer_max(const struct player *p) {
    size_t most = 0;
    for (int r = 0; r < p->shape->nranks; r++)
        for (int out = 0; out < 2; out++)
            most = buffer_count(p, r, out) > most ? buffer_count(p, r, out) : most;
    return most;
}

static size_t in_count(const struct player *p, int r) {
    const struct rcmi_plan *plan = p->ranks[r].plan;
    const bool at_root = plan->collective == RCM_BROADCAST || plan->collective == RCM_SCATTER;
    return at_root && plan->root != r ? 0 : buffer_count(p, r, false);
}

static size_t out_count(const struct player *p, int r) {
    const struct rcmi_plan *plan = p->ranks[r].plan;
    const bool at_root = plan->collective == RCM_REDUCE || plan->collective == RCM_GATHER;
    const bool none = plan->collective == RCM_EXSCAN && r == 0;
    return none || (at_root && plan->root != r) ? 0 : buffer_count(p, r, true);
}

/* In place, the smaller buffer is the rank's block of the larger one. */
static void rank_place(const struct player *p, int r) {
    struct rank *rank = &p->ranks[r];
    rank->in = rank->own_in;
    rank->out = rank->own_out;
    if (!p->options.in_place)
        return;
    if (rank->plan->collective == RCM_GATHER || rank->plan->collective == RCM_ALL_GATHER)
        rank->in = rank->own_out + buffer_offset(p, r, true, (size_t)r);
    else if (rank->plan->collective == RCM_SCATTER || rank->plan->collective == RCM_REDUCE_SCATTER)
        rank->out = rank->own_in + buffer_offset(p, r, false, (size_t)r);
    else
        rank->out = rank->own_in;
}

/* The position in the rank's OUT of element *i, which becomes its index in its block. */
static size_t position_of(const struct player *p, int r, size_t *i) {
    size_t position = 0;
    if (!p->options.uneven) {
        position = *i / p->options.count;
        *i %= p->options.count;
        return position;
    }
    while (*i >= buffer_offset(p, r, true, position + 1))
        position++;
    *i -= buffer_offset(p, r, true, position);
    return position;
}

/* The source of an element of the rank's OUT. For reductions, the element of all ranks. */
static size_t source_of(const struct player *p, int r, size_t i, int *ret_rank) {
    const struct rcmi_plan *plan = p->ranks[r].plan;
    const size_t position = position_of(p, r, &i);
    *ret_rank = -1;
    switch (plan->collective) {
    case RCM_BROADCAST:
        *ret_rank = plan->root;
        return i;
    case RCM_SCATTER:
        *ret_rank = plan->root;
        return buffer_offset(p, plan->root, false, (size_t)r) + i;
    case RCM_GATHER:
    case RCM_ALL_GATHER:
        *ret_rank = (int)position;
        return i;
    case RCM_ALL_TO_ALL:
    case RCM_ALL_TO_ALL_V:
        *ret_rank = (int)position;
        return buffer_offset(p, (int)position, false, (size_t)r) + i;
    case RCM_REDUCE_SCATTER:
        return buffer_offset(p, r, false, (size_t)r) + i;
    default:
        return i;
    }
}

/* ---- Reset ----------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void message_make(const struct player *p, struct message *message) {
    const size_t span = p->ranks[0].plan->longest_span;
    message->data = zeroed(p->room.slot * span, sizeof(*message->data));
    message->from = zeroed(span, sizeof(*message->from));
}

/* Memory only grows. */
static void player_get_memory(struct player *p) {
    const struct play_options *o = &p->options;
    for (int r = 0; r < p->shape->nranks; r++)
        for (int out = 0; out < 2; out++)
            offsets_make(p, r, out);
    p->largest = buffer_max(p);
    if (p->ranks[0].own_in && p->room.largest >= p->largest && p->room.slot >= o->slot &&
        p->room.slots >= o->slots)
        return;
    player_release_memory(p);
    p->room.largest = larger(p->room.largest, p->largest);
    p->room.slot = larger(p->room.slot, o->slot);
    p->room.slots = (uint32_t)larger(p->room.slots, o->slots);
    for (uint32_t i = 0; i < p->nchannels; i++) {
        p->channels[i].messages = zeroed(p->room.slots, sizeof(struct message));
        for (uint32_t k = 0; k < p->room.slots; k++)
            message_make(p, &p->channels[i].messages[k]);
    }
    for (int r = 0; r < p->shape->nranks; r++) {
        p->ranks[r].own_in = zeroed(p->room.largest, sizeof(struct play_element));
        p->ranks[r].own_out = zeroed(p->room.largest, sizeof(struct play_element));
        p->ranks[r].scratch =
            zeroed(p->room.slot * p->ranks[r].plan->nscratch, sizeof(struct play_element));
    }
}

/* The number of slices of the longest chunk. */
static size_t slices_of(const struct player *p) {
    const struct rcmi_plan *plan = p->ranks[0].plan;
    size_t count = 0;
    for (uint32_t block = 0; block < plan->nchunks / plan->parts; block++)
        count = block_count(p, block) > count ? block_count(p, block) : count;
    const size_t longest = rcmi_chunk_max(count, 8, plan->parts);
    return longest == 0 ? 1 : (longest + p->options.slot - 1) / p->options.slot;
}

static void player_reset(struct player *p, const struct play_options *options) {
    p->options = *options;
    p->random = scramble(options->seed + 1) | 1;
    p->slow = player_random(p) % 3 ? -1 : (int)(player_random(p) % (uint64_t)p->shape->nranks);
    p->barrier_broken = p->length_wrong = false;
    player_get_memory(p);
    for (int r = 0; r < p->shape->nranks; r++) {
        struct rank *rank = &p->ranks[r];
        rank->started = false;
        rank->lanes_left = rank->plan->nlanes;
        rank_place(p, r);
        for (size_t i = 0; i < p->largest; i++)
            rank->own_out[i] = rank->own_in[i] = poison(r, i);
        for (size_t i = 0; i < in_count(p, r); i++)
            rank->in[i] = leaf(r, i);
    }
    for (uint32_t i = 0; i < p->nchannels; i++) {
        p->channels[i].published = 0;
        memset(p->channels[i].released, 0, p->channels[i].nreaders * sizeof(uint64_t));
    }
    for (uint32_t i = 0; i < p->nlanes; i++)
        p->lanes[i].pc = 0, p->lanes[i].slice = 0, p->lanes[i].done = false;
    p->nslices = options->by_step ? 1 : slices_of(p);
}

/* ---- One step -------------------------------------------------------------------------------- */

static bool channel_has_message(const struct end *end) {
    return end->channel->published > end->channel->released[end->reader];
}

static bool channel_has_room(const struct player *p, const struct channel *channel) {
    for (uint32_t i = 0; i < channel->nreaders; i++)
        if (channel->published - channel->released[i] >= p->options.slots)
            return false;
    return true;
}

static bool step_ready(const struct player *p, const struct rank *rank,
                       const struct rcmi_step *step) {
    for (uint32_t i = 0; i < step->nsrcs; i++) {
        const struct rcmi_operand *src = &rank->plan->operands[step->first_src + i];
        if (src->where == RCMI_CHANNEL && !channel_has_message(&rank->ends[src->index]))
            return false;
    }
    return step->out == RCMI_NO_CHANNEL || channel_has_room(p, rank->ends[step->out].channel);
}

/* The range of part `part` of a block that a slice moves, and its start in the block. */
static size_t slice_range(const struct player *p, size_t block, uint32_t part, size_t slice,
                          size_t *ret_first) {
    size_t first, count;
    rcmi_chunk_range(block_count(p, block), 8, p->ranks[0].plan->parts, part, &first, &count);
    const size_t skip = slice * p->options.slot;
    *ret_first = first + skip;
    if (skip >= count)
        return 0;
    return count - skip < p->options.slot ? count - skip : p->options.slot;
}

static struct play_element *buffer_at(const struct player *p, const struct rank *rank,
                                      struct rcmi_operand operand, size_t slice) {
    const int r = rank->plan->rank;
    const bool out = operand.where == RCMI_OUT;
    const size_t position = operand.index / rank->plan->parts;
    size_t first;
    if (operand.where == RCMI_SCRATCH)
        return rank->scratch + operand.index * p->options.slot;
    slice_range(p, block_at(p, r, out, position), operand.index % rank->plan->parts, slice, &first);
    return (out ? rank->out : rank->in) + buffer_offset(p, r, out, position) + first;
}

/* The position of a chunk in IN or OUT. */
static uint32_t listed_position(const struct rcmi_plan *plan, uint8_t where, uint32_t chunk) {
    const struct rcmi_blocks *blocks = where == RCMI_IN ? &plan->in : &plan->out;
    return (chunk / plan->parts - blocks->first) / blocks->stride * plan->parts +
           chunk % plan->parts;
}

/* The operand of chunk i of a step's span in one of its buffers. */
static struct rcmi_operand span_operand(const struct player *p, const struct rank *rank,
                                        const struct rcmi_step *step, struct rcmi_operand first,
                                        uint32_t i) {
    const struct rcmi_listed *listed =
        step->list == RCMI_NO_LIST ? NULL : &rank->plan->listed[step->list + i];
    if (listed && first.where == RCMI_SCRATCH)
        first.index += listed->scratch;
    else if (listed)
        first.index = listed_position(rank->plan, first.where, listed->chunk);
    else
        first.index += i;
    if (first.where == RCMI_IN || first.where == RCMI_OUT)
        first.index %=
            (uint32_t)buffer_blocks(p, first.where == RCMI_OUT) * p->ranks[0].plan->parts;
    return first;
}

/* The elements of chunk i of its span that a step moves in a slice. */
static size_t step_length(const struct player *p, const struct rank *rank,
                          const struct rcmi_step *step, uint32_t i, size_t slice) {
    const struct rcmi_plan *plan = rank->plan;
    const uint32_t chunk = step->list == RCMI_NO_LIST ? (step->chunk + i) % plan->nchunks
                                                      : plan->listed[step->list + i].chunk;
    size_t first;
    if (step->op == RCMI_STEP_SIGNAL || step->op == RCMI_STEP_WAIT)
        return 0;
    return slice_range(p, chunk / plan->parts, chunk % plan->parts, slice, &first);
}

static const struct message *message_at(const struct player *p, const struct end *end) {
    return &end->channel->messages[end->channel->released[end->reader] % p->options.slots];
}

/* Of all chunks. Received messages must have the total length. */
static void step_lengths(struct player *p, const struct rank *rank, const struct rcmi_step *step,
                         size_t slice, size_t *lengths) {
    size_t length = 0;
    for (uint32_t i = 0; i < step->nchunks; i++)
        length += lengths[i] = step_length(p, rank, step, i, slice);
    for (uint32_t k = 0; k < step->nsrcs; k++) {
        const struct rcmi_operand *src = &rank->plan->operands[step->first_src + k];
        if (src->where == RCMI_CHANNEL && message_at(p, &rank->ends[src->index])->length != length)
            p->length_wrong = true;
    }
}

static void step_compute(const struct player *p, const struct rank *rank,
                         const struct rcmi_step *step, uint32_t i, size_t slice, size_t length,
                         struct play_element *result) {
    for (uint32_t k = 0; k < step->nsrcs; k++) {
        const struct rcmi_operand first = rank->plan->operands[step->first_src + k];
        const struct play_element *src =
            first.where == RCMI_CHANNEL
                ? message_at(p, &rank->ends[first.index])->from[i]
                : buffer_at(p, rank, span_operand(p, rank, step, first, i), slice);
        for (size_t e = 0; e < length; e++)
            result[e] = k == 0 ? src[e] : combine(result[e], src[e]);
    }
    for (size_t e = 0; e < length; e++)
        result[e].completed += step->completes;
}

/* The buffer that this message is sent from, or NULL. Stable and lasting messages are sent from
 * their buffer at random. */
static const struct rcmi_operand *sent_from(struct player *p, const struct rank *rank,
                                            const struct rcmi_step *step) {
    const bool stable = p->options.in_place ? step->stable_in_place : step->stable;
    if (step->op == RCMI_STEP_SEND && stable && player_random(p) % 2)
        return &rank->plan->operands[step->first_src];
    return step->lasting && player_random(p) % 2 ? &step->dst : NULL;
}

static void message_add(const struct player *p, const struct rank *rank,
                        const struct rcmi_step *step, struct message *message,
                        const struct rcmi_operand *from, uint32_t i, size_t slice, size_t length,
                        const struct play_element *result) {
    message->from[i] = message->data + message->length;
    if (from)
        message->from[i] = buffer_at(p, rank, span_operand(p, rank, step, *from, i), slice);
    else
        memcpy(message->data + message->length, result, length * sizeof(*result));
    message->length += length;
}

static void step_do(struct player *p, const struct rank *rank, const struct rcmi_step *step,
                    size_t slice) {
    struct play_element result[64]; /* slots in tests are small */
    size_t lengths[RCMI_SPAN_MAX];
    struct message *message = NULL;
    const struct rcmi_operand *from = NULL;
    step_lengths(p, rank, step, slice, lengths);
    if (p->length_wrong)
        return;
    if (step->out != RCMI_NO_CHANNEL) {
        struct channel *channel = rank->ends[step->out].channel;
        message = &channel->messages[channel->published++ % p->options.slots];
        message->length = 0;
        from = sent_from(p, rank, step);
    }
    for (uint32_t i = 0; i < step->nchunks; i++) {
        const size_t length = lengths[i];
        step_compute(p, rank, step, i, slice, length, result);
        if (step->dst.where != RCMI_NOWHERE && length > 0)
            memcpy(buffer_at(p, rank, span_operand(p, rank, step, step->dst, i), slice), result,
                   length * sizeof(*result));
        if (message)
            message_add(p, rank, step, message, from, i, slice, length, result);
    }
    for (uint32_t k = 0; k < step->nsrcs; k++) {
        const struct rcmi_operand *src = &rank->plan->operands[step->first_src + k];
        if (src->where == RCMI_CHANNEL)
            rank->ends[src->index].channel->released[rank->ends[src->index].reader]++;
    }
}

/* ---- Execution ------------------------------------------------------------------------------- */

static void rank_end(struct player *p, const struct rank *rank) {
    for (int r = 0; r < p->shape->nranks; r++)
        if (rank->plan->collective == RCM_BARRIER && !p->ranks[r].started)
            p->barrier_broken = true;
}

/* True if the step has more slices. */
static bool step_goes_on(const struct player *p, const struct rank *rank,
                         const struct rcmi_step *step, size_t slice) {
    size_t more = 0;
    for (uint32_t i = 0; p->options.by_step && i < step->nchunks; i++)
        more += step_length(p, rank, step, i, slice + 1);
    return more > 0;
}

/* Starts the rank or does one step of the lane; false if it cannot move. */
static bool lane_move(struct player *p, struct lane *lane) {
    struct rank *rank = &p->ranks[lane->rank];
    if (lane->done)
        return false;
    if (!rank->started) {
        rank->started = true;
        return true;
    }
    if (lane->pc < lane->nsteps) {
        const struct rcmi_step *step = &rank->plan->steps[lane->first + lane->pc];
        if (!step_ready(p, rank, step))
            return false;
        step_do(p, rank, step, lane->slice);
        if (step_goes_on(p, rank, step, lane->slice)) {
            lane->slice++;
            return true;
        }
        lane->slice = p->options.by_step ? 0 : lane->slice;
        lane->pc++;
    }
    if (lane->pc >= lane->nsteps) {
        lane->pc = 0;
        lane->done = ++lane->slice == p->nslices;
        if (lane->done && --rank->lanes_left == 0)
            rank_end(p, rank);
    }
    return true;
}

/* Moves any lane that can move, starting at a random one. The slow rank's lanes move only if no
 * other can. */
static bool player_move(struct player *p) {
    const uint32_t start = (uint32_t)(player_random(p) % p->nlanes);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < p->nlanes; i++) {
            struct lane *lane = &p->lanes[(start + i) % p->nlanes];
            if ((lane->rank == p->slow) == pass && lane_move(p, lane))
                return true;
        }
    return false;
}

enum play_outcome player_play(struct player *p, const struct play_options *options) {
    assert_in_range(options->slot, 1, 64);
    player_reset(p, options);
    while (p->nlanes > 0 && !p->length_wrong && player_move(p))
        continue;
    if (p->length_wrong)
        return PLAY_LENGTH;
    for (int r = 0; r < p->shape->nranks; r++)
        if (p->ranks[r].lanes_left > 0)
            return PLAY_DEADLOCK;
    for (uint32_t i = 0; i < p->nchannels; i++)
        for (uint32_t k = 0; k < p->channels[i].nreaders; k++)
            if (p->channels[i].released[k] != p->channels[i].published)
                return PLAY_LEFT_OVER;
    return p->barrier_broken ? PLAY_BARRIER : PLAY_DONE;
}

const struct play_element *player_out(const struct player *p, int rank) {
    return p->ranks[rank].out;
}

/* The result over the first n ranks' elements, in order. */
static bool prefix_right(struct play_element out, size_t at, int n) {
    struct play_element want = leaf(0, at);
    for (int q = 1; q < n; q++)
        want = combine(want, leaf(q, at));
    return out.sum == want.sum && out.scale == want.scale && out.shift == want.shift &&
           out.completed == 0;
}

static bool element_right(const struct player *p, int r, size_t i) {
    const struct play_element out = p->ranks[r].out[i];
    int rank;
    const size_t at = source_of(p, r, i, &rank);
    if (rank >= 0)
        return out.sum == leaf(rank, at).sum && out.tree == leaf(rank, at).tree;
    const enum rcm_collective collective = p->ranks[r].plan->collective;
    if (collective == RCM_SCAN || collective == RCM_EXSCAN)
        return prefix_right(out, at, collective == RCM_SCAN ? r + 1 : r);
    uint64_t sum = 0;
    for (int q = 0; q < p->shape->nranks; q++)
        sum += leaf(q, at).sum;
    const bool same = collective != RCM_ALL_REDUCE || out.tree == p->ranks[0].out[i].tree;
    return out.sum == sum && same && out.completed == 1;
}

/* The rank's input is unchanged, and so is memory outside the output. */
static bool rank_unharmed(const struct player *p, int r) {
    const struct rank *rank = &p->ranks[r];
    for (size_t i = 0; i < in_count(p, r) && !p->options.in_place; i++)
        if (rank->in[i].tree != leaf(r, i).tree)
            return false;
    for (size_t i = out_count(p, r); i < p->largest && !p->options.in_place; i++)
        if (rank->own_out[i].tree != poison(r, i).tree)
            return false;
    return true;
}

bool player_right(const struct player *p) {
    if (p->ranks[0].plan->collective == RCM_BARRIER)
        return true; /* PLAY_DONE is sufficient */
    for (int r = 0; r < p->shape->nranks; r++) {
        for (size_t i = 0; i < out_count(p, r); i++)
            if (!element_right(p, r, i))
                return false;
        if (!rank_unharmed(p, r))
            return false;
    }
    return true;
}

size_t player_out_count(const struct player *p, int rank) {
    return out_count(p, rank);
}
