/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the port of each rank for a link. The choice depends only on both offers, so both ends
 * compute the same. Candidates are ports of one link layer and subnet (one rail, if each rail has
 * its own subnet). The fastest pair wins; among equally fast pairs, the one nearest to both ranks'
 * data (locality.h); among equally near ones, a different one for each rank of a host, so that
 * ranks share the ports.
 *
 *   speed comes first: a fast port at the other socket moves more than a slow one near by
 *
 * A link-local RoCE address does not identify a network. For these, the n-th such port of one rank
 * is assumed to be connected to the n-th of the other, as rails are cabled.
 */
#ifndef RCMI_VERBS_PORT_CHOICE_H
#define RCMI_VERBS_PORT_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_PORTS_MAX 8 /* limited by RCMI_BLOB_MAX */

/* A port that is not used. */
#define VERBS_LAYER_NONE 0
/* A port that supports iWARP but not RoCE; libibverbs uses this number for no link layer. */
#define VERBS_LAYER_IWARP 100

/* A port in an offer; on the wire. */
struct verbs_offered {
    uint8_t gid[16];
    uint32_t qp_num; /* 0: no queue pair on this port */
    uint16_t speed;  /* in 100 Mbit/s */
    union {
        uint16_t lid;      /* InfiniBand */
        uint16_t tcp_port; /* iWARP: the port's listener */
    };
    uint8_t layer;    /* IBV_LINK_LAYER_, or VERBS_LAYER_IWARP */
    uint8_t mtu;      /* enum ibv_mtu */
    uint8_t ipv4;     /* prefix length of an IPv4 address; 0: not IPv4 */
    uint8_t distance; /* from the rank's data, see locality.h */
};
_Static_assert(sizeof(struct verbs_offered) == 28, "no padding on the wire");

/* One rank's offer. */
struct verbs_side {
    const struct verbs_offered *ports;
    int nports;
    unsigned spread; /* differs between the ranks of a host */
};

struct verbs_choice {
    int dialler, other; /* indices of their ports */
};

/* The network of a port's address: InfiniBand's prefix, or the IPv4 network and its length. */
uint64_t verbs_subnet(const struct verbs_offered *port);

/* False: the two sides have no ports in a common subnet. */
bool verbs_choose(const struct verbs_side *dialler, const struct verbs_side *other,
                  struct verbs_choice *ret_choice);

#endif
