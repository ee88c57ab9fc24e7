/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second, independent reading of plans, for testing the verifier: plays the plans of all ranks in
 * one thread, on real vectors, one step of a random lane at a time. Shares no code with the
 * verifier or the executor but the partition rule. An element is the sum modulo 2^64 of what went
 * in, a hash of how it was added up, and a map x -> scale * x + shift made of those of what went
 * in, in order: that depends on the order alone.
 *
 * It is as unkind as the contract of plan.h allows: scratch is one slot long and the same memory in
 * every slice, nobody waits for other lanes between slices, a step marked stable may be sent from
 * the buffer itself and is read as late as the receiver likes, and some rank may be left behind for
 * as long as anybody else can move.
 */
#ifndef TEST_PLAN_INTERPRETER_H
#define TEST_PLAN_INTERPRETER_H

#include "plan.h"

struct play_element {
    uint64_t sum, tree;
    uint64_t scale, shift;
    uint64_t completed; /* so often; 100: and then added to */
};

struct play_options {
    size_t count; /* elements of a block */
    bool uneven;  /* of none to 3 * count instead, each another number */
    bool by_step; /* the order of slices */
    size_t slot;  /* elements of a slot */
    uint32_t slots;
    bool in_place;
    uint64_t seed;
};

enum play_outcome {
    PLAY_DONE,
    PLAY_DEADLOCK,
    PLAY_LENGTH,    /* a message was not as long as its receiver thought */
    PLAY_LEFT_OVER, /* a message was never received */
    PLAY_BARRIER    /* a rank left a barrier before another had entered it */
};

struct player;
/* Plans must have passed the verifier's checks of form and matching. Fails the test otherwise. */
struct player *player_create(const struct rcmi_shape *shape, struct rcmi_plan *const *plans);
void player_free(struct player *player);

enum play_outcome player_play(struct player *player, const struct play_options *options);
/* After PLAY_DONE: OUT of a rank; lives until the next play. */
const struct play_element *player_out(const struct player *player, int rank);
size_t player_out_count(const struct player *player, int rank);
/* After PLAY_DONE: is every result right, on all ranks the same bits, every input unharmed? */
bool player_right(const struct player *player);

#endif
