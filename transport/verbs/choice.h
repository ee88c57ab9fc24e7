/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which port of the one rank and which of the other a link goes by: a function of what both offer,
 * and of nothing else, so that both ends compute the same. Of ports of one link layer and subnet
 * (one rail, where each has its own) the fastest pair is taken, of equally fast ones the one
 * nearest to where both ranks have their data (place.h), and of equally near ones another for each
 * rank of a host, so that these share its ports.
 *
 *   speed comes first: a fast port at the other socket moves more than a slow one near by
 *
 * RoCE by link-local addresses says nothing of its network. There the first such port of one rank
 * is taken to be where the first one of the other is, and so on, as rails are cabled.
 */
#ifndef RCMI_VERBS_CHOICE_H
#define RCMI_VERBS_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_PORTS_MAX 8 /* what is offered fits RCMI_BLOB_MAX */

/* Of a port that is not used. */
#define VERBS_LAYER_NONE 0
/* Of ports that understand iWARP, and not RoCE; a number that libibverbs has for no link layer. */
#define VERBS_LAYER_IWARP 100

/* A port as it is offered; on the wire. */
struct verbs_offered {
    uint8_t gid[16];
    uint32_t qp_num; /* 0: there is none of this port */
    uint16_t speed;  /* of 100 Mbit/s */
    union {
        uint16_t lid;      /* InfiniBand */
        uint16_t tcp_port; /* iWARP: at which the port listens */
    };
    uint8_t layer;    /* IBV_LINK_LAYER_, or VERBS_LAYER_IWARP */
    uint8_t mtu;      /* enum ibv_mtu */
    uint8_t ipv4;     /* the address is IPv4's, in a network of so many bits; 0: it is not */
    uint8_t distance; /* of place.h, from the rank */
};
_Static_assert(sizeof(struct verbs_offered) == 28, "no padding on the wire");

/* What one rank offers. */
struct verbs_side {
    const struct verbs_offered *ports;
    int nports;
    unsigned spread; /* another number for each rank of a host */
};

struct verbs_choice {
    int dialler, other; /* indices of their ports */
};

/* The network of a port's address: InfiniBand's prefix, or the IPv4 network and its length. */
uint64_t verbs_subnet(const struct verbs_offered *port);

/* False: no port of one is in a subnet of the other's. */
bool verbs_choose(const struct verbs_side *dialler, const struct verbs_side *other,
                  struct verbs_choice *ret_choice);

#endif
