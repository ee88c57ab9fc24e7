/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes and sets of plans, for the tests of plans. */
#ifndef TEST_PLAN_SHAPES_H
#define TEST_PLAN_SHAPES_H

#include "../sanitized.h" /* sanitized builds use smaller ranges */
#include "plan.h"

#define TEST_RANKS_MAX 10000

struct test_shape {
    struct rcmi_shape shape;
    int host_of[TEST_RANKS_MAX];
};

/* All on one host. */
struct rcmi_shape *test_shape_one_host(struct test_shape *s, int nranks);
/* Rank r on host r % nhosts. */
struct rcmi_shape *test_shape_dealt(struct test_shape *s, int nranks, int nhosts);
/* Consecutive hosts of 1, 2, 3... ranks. */
struct rcmi_shape *test_shape_uneven(struct test_shape *s, int nranks);

/* The plan of one rank, and the plans of all. Fails the test on error. */
struct rcmi_plan *test_plan_emit(const struct rcmi_algorithm *algorithm,
                                 const struct rcmi_shape *shape, int rank, int root);
struct rcmi_plan **test_plans_emit(const struct rcmi_algorithm *algorithm,
                                   const struct rcmi_shape *shape, int root);
/* True if the plans and their guarantees are the same on one host. Then the test of one host covers
 * them. */
bool test_plans_as_on_one_host(const struct rcmi_algorithm *algorithm,
                               const struct rcmi_shape *shape, struct rcmi_plan **plans);
void test_plans_free(struct rcmi_plan **plans, int nranks);

/* `root` if the collective has a root, else 0. */
int test_root(const struct rcmi_algorithm *algorithm, int root);

const struct rcmi_algorithm *test_algorithm(enum rcm_collective collective, const char *name);

/* The least that is known of the blocks in the collectives that the algorithm serves. */
enum rcmi_counts test_counts(const struct rcmi_algorithm *algorithm);
/* Verifies out of place, and in place if allowed. RCM_OK if both pass. */
rcm_status test_plans_verify(const struct rcmi_shape *shape, struct rcmi_plan **plans,
                             const struct rcmi_algorithm *formula, enum rcmi_counts counts);

#endif
