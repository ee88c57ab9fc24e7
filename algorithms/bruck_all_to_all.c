/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all by Bruck, Ho, Kipnis, Upfal and Weathersby (1997), with a radix. Block i of a rank is
 * for the rank i after it. It travels that distance digit by digit: in the round of a digit place,
 * all blocks whose digit there is d move d times the unit of that place, in one message. The
 * receiving rank stores them as its own blocks of the same numbers.
 *
 *      p = 5, radix 2     blocks that move         to rank +
 *      unit 1             1 3                      1
 *      unit 2             2 3                      2
 *      unit 4             4                        4
 *
 *      p = 5, radix 4     1; 2; 3                  1; 2; 3       three messages at a time
 *      unit 4             4                        4
 *
 * Blocks in transit are in scratch, at their numbers. Blocks that start in a later round, in a
 * message with others, are first copied there. So in place, nothing of IN is overwritten before it
 * was sent. Blocks that arrive before the last round are copied to OUT at the end. The blocks of a
 * message form a listed span (plan.h), or several for more than RCMI_SPAN_MAX blocks.
 *
 * Cost: with radix r, ceil(log_r p) rounds of up to r - 1 messages. A block is sent once per
 * nonzero digit of its number: with radix 2 on average half of ceil(log2 p) times. Good for small
 * blocks; the smaller the block, the lower the best radix.
 */
#include "algorithm.h"

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* A digit place of the block numbers 0..p-1: its unit is a power of the radix. */
struct digit_place {
    uint32_t p, radix, unit;
};

static uint32_t first_block(const struct digit_place *place, uint32_t digit) {
    return digit * place->unit;
}

/* The next block with the same digit; p or more: none. */
static uint32_t next_block(const struct digit_place *place, uint32_t i) {
    const uint32_t next = i + 1;
    return next % place->unit == 0 ? next + (place->radix - 1) * place->unit : next;
}

static uint32_t count_blocks(const struct digit_place *place, uint32_t digit) {
    const uint32_t cycle = place->unit * place->radix, rest = place->p % cycle;
    const uint32_t first = first_block(place, digit);
    const uint32_t more = rest <= first ? 0 : rest - first;
    return place->p / cycle * place->unit + (more < place->unit ? more : place->unit);
}

static uint32_t mod(uint32_t x, uint32_t p) {
    return x >= p ? x - p : x;
}

/* The chunk that is a rank's block i before the round of this place. The block has moved by its
 * lower digits already. */
static uint32_t chunk_at(const struct digit_place *place, uint32_t rank, uint32_t i) {
    const uint32_t source = mod(rank + place->p - i % place->unit, place->p);
    return source * place->p + mod(source + i, place->p);
}

/* Lists the blocks of a span that `rank` has, from *at on; advances *at behind them. */
static uint32_t span_list(const struct digit_place *place, uint32_t rank, uint32_t *at,
                          struct rcmi_listed *list) {
    uint32_t n = 0;
    for (; *at < place->p && n < RCMI_SPAN_MAX; *at = next_block(place, *at))
        list[n++] = (struct rcmi_listed){.chunk = chunk_at(place, rank, *at), .scratch = *at};
    return n;
}

/* Are all blocks of the span still unsent? Then they are sent from IN. */
static bool span_sets_out(const struct digit_place *place, const struct rcmi_listed *list,
                          uint32_t n) {
    uint32_t k = 0;
    while (k < n && list[k].scratch % place->unit == 0)
        k++;
    return k == n;
}

static void send_span(struct rcmi_builder *b, const struct digit_place *place, uint32_t rank,
                      uint32_t digit, uint32_t at) {
    struct rcmi_listed list[RCMI_SPAN_MAX];
    const uint32_t n = span_list(place, rank, &at, list);
    const uint32_t to = mod(rank + first_block(place, digit), place->p);
    const bool in = span_sets_out(place, list, n);
    rcmi_send(b, 0, list[0].chunk, in ? rcmi_in(list[0].chunk % place->p) : rcmi_scratch(0),
              rcmi_to(b, 0, (int)to, 0));
    rcmi_span_list(b, 0, list, n);
}

static void receive_span(struct rcmi_builder *b, const struct digit_place *place, uint32_t rank,
                         uint32_t digit, uint32_t at) {
    struct rcmi_listed list[RCMI_SPAN_MAX];
    const uint32_t from = mod(rank + place->p - first_block(place, digit), place->p);
    const uint32_t n = span_list(place, from, &at, list);
    const bool last = place->unit * place->radix >= place->p;
    const uint32_t source = list[0].chunk / place->p;
    rcmi_recv(b, 0, list[0].chunk, rcmi_from(b, 0, (int)from, 0),
              last ? rcmi_out(source) : rcmi_scratch(0));
    rcmi_span_list(b, 0, list, n);
}

/* Message k of each digit: all are sent before the first receive. */
static bool round_messages(struct rcmi_builder *b, const struct digit_place *place, uint32_t rank,
                           uint32_t *at) {
    bool any = false;
    for (uint32_t d = 1; d < place->radix; d++)
        if (at[d] < place->p)
            send_span(b, place, rank, d, at[d]);
    for (uint32_t d = 1; d < place->radix; d++) {
        if (at[d] >= place->p)
            continue;
        receive_span(b, place, rank, d, at[d]);
        for (uint32_t n = 0; n < RCMI_SPAN_MAX && at[d] < place->p; n++)
            at[d] = next_block(place, at[d]);
        any = any || at[d] < place->p;
    }
    return any;
}

#define RADIX_MAX 8

static void round_steps(struct rcmi_builder *b, const struct digit_place *place, uint32_t rank) {
    uint32_t at[RADIX_MAX];
    for (uint32_t d = 1; d < place->radix; d++)
        at[d] = first_block(place, d);
    while (round_messages(b, place, rank, at))
        continue;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Blocks that one step copies: from this rank's IN into scratch, or from scratch to its OUT. */
struct copies {
    struct rcmi_builder *b;
    uint32_t p;
    bool out;
    uint32_t most; /* in one step */
    uint32_t n;
    struct rcmi_listed list[RCMI_SPAN_MAX];
};

static void copies_flush(struct copies *c) {
    if (c->n == 0)
        return;
    const uint32_t first = c->list[0].chunk;
    rcmi_copy_chunk(c->b, 0, first, c->out ? rcmi_scratch(0) : rcmi_in(first % c->p),
                    c->out ? rcmi_out(first / c->p) : rcmi_scratch(0));
    rcmi_span_list(c->b, 0, c->list, c->n);
    c->n = 0;
}

static void copies_add(struct copies *c, uint32_t chunk, uint32_t block) {
    c->list[c->n++] = (struct rcmi_listed){.chunk = chunk, .scratch = block};
    if (c->n == c->most)
        copies_flush(c);
}

/* Copies the blocks that this round sends together with received ones. */
static void copy_in(struct copies *c, const struct digit_place *place, uint32_t rank) {
    for (uint32_t d = 1; d < place->radix; d++) {
        for (uint32_t at = first_block(place, d); at < place->p;) {
            struct rcmi_listed list[RCMI_SPAN_MAX];
            const uint32_t n = span_list(place, rank, &at, list);
            const bool in = span_sets_out(place, list, n);
            for (uint32_t k = 0; k < n && !in; k++)
                if (list[k].scratch % place->unit == 0)
                    copies_add(c, list[k].chunk, list[k].scratch);
        }
    }
}

static uint32_t last_unit(uint32_t p, uint32_t radix) {
    uint32_t unit = 1;
    while (unit * radix < p)
        unit *= radix;
    return unit;
}

static uint32_t longest_message(uint32_t p, uint32_t radix) {
    uint32_t longest = 1;
    for (struct digit_place place = {p, radix, 1}; place.unit < p; place.unit *= radix) {
        const uint32_t n = count_blocks(&place, 1); /* no digit has more */
        longest = n > longest ? n : longest;
    }
    return rcmi_span_length(longest, 0);
}

static void bruck_steps(struct rcmi_builder *b, uint32_t p, uint32_t radix, uint32_t rank) {
    const uint32_t most = longest_message(p, radix);
    struct copies in = {.b = b, .p = p, .most = most};
    struct copies out = {.b = b, .p = p, .most = most, .out = true};
    rcmi_plan_spans(b, most);
    for (struct digit_place place = {p, radix, radix}; place.unit < p; place.unit *= radix)
        copy_in(&in, &place, rank);
    copies_flush(&in);
    for (struct digit_place place = {p, radix, 1}; place.unit < p; place.unit *= radix)
        round_steps(b, &place, rank);
    const uint32_t last = last_unit(p, radix);
    for (uint32_t i = 1; i < last; i++)
        copies_add(&out, mod(rank + p - i, p) * p + rank, i);
    copies_flush(&out);
}

static rcm_status bruck_emit(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                             int rank, int root, struct rcmi_plan **ret_plan) {
    const uint32_t p = (uint32_t)shape->nranks, r = (uint32_t)rank;
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin(row->name, row->collective, shape, rank, root, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_late_in_place(b);
    rcmi_copy_chunk(b, 0, r * p + r, rcmi_in(r), rcmi_out(r));
    bruck_steps(b, p, row->parameter, r);
    return rcmi_plan_finish(b, ret_plan);
}

/* ---- Formula and count ----------------------------------------------------------------------- */

/* Totals over all rounds: messages in a row, messages of a rank, and their blocks. */
struct totals {
    uint32_t rounds, messages;
    uint64_t blocks;
};

static struct totals bruck_totals(uint32_t p, uint32_t radix) {
    struct totals totals = {0};
    for (struct digit_place place = {p, radix, 1}; place.unit < p; place.unit *= radix) {
        totals.rounds += rcmi_spans(count_blocks(&place, 1)); /* no digit has more */
        for (uint32_t d = 1; d < radix; d++) {
            const uint32_t n = count_blocks(&place, d);
            totals.messages += rcmi_spans(n);
            totals.blocks += n;
        }
    }
    return totals;
}

static struct rcmi_formula bruck_formula(const struct rcmi_algorithm *row,
                                         const struct rcmi_shape *shape, int rank, int root) {
    const struct totals totals = bruck_totals((uint32_t)shape->nranks, row->parameter);
    (void)rank;
    (void)root;
    return (struct rcmi_formula){.rounds = totals.rounds, .chunks_sent = totals.blocks};
}

/* The rank's own block, blocks that wait in scratch for their round, and blocks that arrive in
 * scratch. */
static uint32_t blocks_copied(uint32_t p, uint32_t radix) {
    uint32_t copied = last_unit(p, radix);
    for (struct digit_place place = {p, radix, radix}; place.unit < p; place.unit *= radix) {
        for (uint32_t d = 1; d < radix; d++) {
            for (uint32_t at = first_block(&place, d); at < p;) {
                struct rcmi_listed list[RCMI_SPAN_MAX];
                const uint32_t n = span_list(&place, 0, &at, list);
                const bool in = span_sets_out(&place, list, n);
                for (uint32_t k = 0; k < n && !in; k++)
                    copied += list[k].scratch % place.unit == 0;
            }
        }
    }
    return copied;
}

static void bruck_count(struct rcmi_tally *t) {
    const uint32_t p = (uint32_t)t->shape->nranks, radix = t->row->parameter;
    for (struct digit_place place = {p, radix, 1}; place.unit < p; place.unit *= radix)
        for (uint32_t d = 1; d < radix; d++)
            for (uint32_t r = 0, n = count_blocks(&place, d); r < p && n > 0; r++)
                rcmi_tally_spans(t, (int)r, (int)mod(r + first_block(&place, d), p), n, 1.0 / p);
    rcmi_tally_local_all(t, (double)blocks_copied(p, radix) / p, 0);
}

#define BRUCK(number, text)                                                                        \
    {                                                                                              \
        .name = text, .collective = RCM_ALL_TO_ALL, .parameter = number,                           \
        .description = "moves blocks by one digit of their distance per round, radix " #number     \
                       "; for small blocks and many ranks, any hosts",                             \
        .supports = rcmi_supports_all, .emit = bruck_emit, .formula = bruck_formula,               \
        .count = bruck_count,                                                                      \
    }

const struct rcmi_algorithm rcmi_bruck_all_to_all = BRUCK(2, "bruck");
const struct rcmi_algorithm rcmi_bruck_all_to_all_4 = BRUCK(4, "bruck_4");
const struct rcmi_algorithm rcmi_bruck_all_to_all_8 = BRUCK(8, "bruck_8");
