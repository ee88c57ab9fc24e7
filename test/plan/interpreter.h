/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second, independent implementation of plans, to test the verifier. It executes the plans of all
 * ranks in one thread, on real vectors, one step of a random lane at a time. It shares only the
 * partition rule with the verifier and the executor.
 *
 * An element has three parts: the sum modulo 2^64 of its contributions, a hash of the order of
 * additions, and a map x -> scale * x + shift. The map is composed of the contributions' maps in
 * order, so it depends only on that order.
 *
 * It is as adverse as the contract of plan.h allows. Scratch is one slot long and the same memory
 * in every slice. No lane waits for other lanes between slices. A stable step may be sent from its
 * buffer, and is read as late as possible. One rank may be delayed as long as any other rank can
 * move.
 */
#ifndef TEST_PLAN_INTERPRETER_H
#define TEST_PLAN_INTERPRETER_H

#include "plan.h"

struct play_element {
    uint64_t sum, tree;
    uint64_t scale, shift;
    uint64_t completed; /* number of completions; 100 is added if it is added to afterwards */
};

struct play_options {
    size_t count; /* elements per block */
    bool uneven;  /* blocks of 0 to 3 * count elements instead, each of another length */
    bool by_step; /* slices in the order of steps */
    size_t slot;  /* elements per slot */
    uint32_t slots;
    bool in_place;
    uint64_t seed;
};

enum play_outcome {
    PLAY_DONE,
    PLAY_DEADLOCK,
    PLAY_LENGTH,    /* a message did not have the length that its receiver expects */
    PLAY_LEFT_OVER, /* a message was never received */
    PLAY_BARRIER    /* a rank left a barrier before another rank entered it */
};

struct player;
/* Plans must have passed the verifier's checks of form and matching. Fails the test on error. */
struct player *player_create(const struct rcmi_shape *shape, struct rcmi_plan *const *plans);
void player_free(struct player *player);

enum play_outcome player_play(struct player *player, const struct play_options *options);
/* After PLAY_DONE: a rank's OUT, valid until the next play. */
const struct play_element *player_out(const struct player *player, int rank);
size_t player_out_count(const struct player *player, int rank);
/* After PLAY_DONE: true if every result is right, with the same bits on all ranks, and every input
 * is unchanged. */
bool player_right(const struct player *player);

#endif
