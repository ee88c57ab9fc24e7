/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which port of the one rank and which of the other a link goes by: a function of what both offer,
 * and of nothing else. Ports match if they have the same link layer and subnet; of those that do,
 * the fastest pair is taken, and of equal ones another for each rank, so that the ranks of a host
 * share its ports.
 */
#ifndef RCMI_VERBS_CHOICE_H
#define RCMI_VERBS_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_PORTS_MAX 4

/* A port as it is offered; on the wire. */
struct verbs_offered {
    uint64_t subnet; /* InfiniBand: the prefix of its GIDs; RoCE: the network of the address */
    uint8_t gid[16];
    uint32_t qp_num;
    uint32_t speed; /* Mbit/s */
    uint16_t lid;
    uint8_t layer; /* IBV_LINK_LAYER_ */
    uint8_t mtu;   /* enum ibv_mtu */
    uint32_t reserved;
};
_Static_assert(sizeof(struct verbs_offered) == 40, "no padding on the wire");

struct verbs_choice {
    int mine, theirs;
};

/* False: none match. spread: a number of this rank. */
bool verbs_choose(const struct verbs_offered *mine, int nmine, const struct verbs_offered *theirs,
                  int ntheirs, unsigned spread, struct verbs_choice *ret_choice);

#endif
