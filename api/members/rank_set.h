/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of ranks of a communicator, as control messages contain it. */
#ifndef RCMI_RANK_SET_H
#define RCMI_RANK_SET_H

#include <stdbool.h>
#include <stdint.h>

/* Leaves space for the rest of a control message of 4096 bytes. */
#define RCMI_RANK_SET_BYTES 3492
#define RCMI_RANK_SET_MAX   (RCMI_RANK_SET_BYTES * 8)

struct rcmi_rank_set {
    uint32_t nranks; /* of the communicator, at most RCMI_RANK_SET_MAX; 0: no set */
    uint8_t bits[RCMI_RANK_SET_BYTES]; /* lowest bit of the first byte first; 0 beyond nranks */
};

static inline bool rcmi_rank_set_has(const struct rcmi_rank_set *set, uint32_t rank) {
    return rank < set->nranks && set->bits[rank / 8] >> rank % 8 & 1;
}

/* Ignores a rank beyond nranks. */
static inline void rcmi_rank_set_add(struct rcmi_rank_set *set, uint32_t rank) {
    if (rank < set->nranks)
        set->bits[rank / 8] |= (uint8_t)(1u << rank % 8);
}

#endif
