/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of all algorithms. A new algorithm adds its file and one line here, next to the others
 * of its collective. Among equally cheap algorithms, the earlier line wins.
 */
#include "plan.h"

#define ALGORITHM_MAP(X)                                                                           \
    X(rcmi_one_shot)                                                                               \
    X(rcmi_two_shot)                                                                               \
    X(rcmi_recursive_doubling)                                                                     \
    X(rcmi_binomial_all_reduce)                                                                    \
    X(rcmi_two_level_all_reduce)                                                                   \
    X(rcmi_ring)                                                                                   \
    X(rcmi_double_tree_all_reduce)                                                                 \
    X(rcmi_halving_doubling)                                                                       \
    X(rcmi_circulant_all_reduce)                                                                   \
    X(rcmi_flat_broadcast)                                                                         \
    X(rcmi_binomial)                                                                               \
    X(rcmi_chain)                                                                                  \
    X(rcmi_double_tree_broadcast)                                                                  \
    X(rcmi_direct_broadcast)                                                                       \
    X(rcmi_two_level_broadcast)                                                                    \
    X(rcmi_flat_barrier)                                                                           \
    X(rcmi_dissemination)                                                                          \
    X(rcmi_binomial_barrier)                                                                       \
    X(rcmi_two_level_barrier)                                                                      \
    X(rcmi_direct_reduce)                                                                          \
    X(rcmi_binomial_reduce)                                                                        \
    X(rcmi_two_shot_reduce)                                                                        \
    X(rcmi_chain_reduce)                                                                           \
    X(rcmi_double_tree_reduce)                                                                     \
    X(rcmi_two_level_reduce)                                                                       \
    X(rcmi_direct_scatter)                                                                         \
    X(rcmi_binomial_scatter)                                                                       \
    X(rcmi_direct_gather)                                                                          \
    X(rcmi_binomial_gather)                                                                        \
    X(rcmi_flat_all_gather)                                                                        \
    X(rcmi_bruck)                                                                                  \
    X(rcmi_ring_all_gather)                                                                        \
    X(rcmi_direct_all_gather)                                                                      \
    X(rcmi_two_level_all_gather)                                                                   \
    X(rcmi_direct_reduce_scatter)                                                                  \
    X(rcmi_circulant)                                                                              \
    X(rcmi_ring_reduce_scatter)                                                                    \
    X(rcmi_chain_reduce_scatter)                                                                   \
    X(rcmi_two_level_reduce_scatter)                                                               \
    X(rcmi_pairwise)                                                                               \
    X(rcmi_pairwise_8)                                                                             \
    X(rcmi_bruck_all_to_all)                                                                       \
    X(rcmi_bruck_all_to_all_4)                                                                     \
    X(rcmi_bruck_all_to_all_8)                                                                     \
    X(rcmi_two_level_all_to_all)                                                                   \
    X(rcmi_two_level_all_to_all_1)                                                                 \
    X(rcmi_direct_all_to_all)                                                                      \
    X(rcmi_direct_scan)                                                                            \
    X(rcmi_chain_scan)                                                                             \
    X(rcmi_recursive_doubling_scan)                                                                \
    X(rcmi_direct_exscan)                                                                          \
    X(rcmi_chain_exscan)                                                                           \
    X(rcmi_recursive_doubling_exscan)

#define ALGORITHM_DECLARE(name) extern const struct rcmi_algorithm name;
#define ALGORITHM_ENTRY(name)   &name,

ALGORITHM_MAP(ALGORITHM_DECLARE)

const struct rcmi_algorithm *const rcmi_algorithms[] = {ALGORITHM_MAP(ALGORITHM_ENTRY) NULL};
