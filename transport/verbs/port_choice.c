/* SPDX-License-Identifier: BSD-3-Clause */
#include "port_choice.h"
#include <arpa/inet.h>
#include <string.h>

enum { LAYER_ETHERNET = 2 }; /* IBV_LINK_LAYER_ETHERNET, without including that header */

uint64_t verbs_subnet(const struct verbs_offered *port) {
    uint64_t half;
    uint32_t address;
    if (port->ipv4 == 0) {
        memcpy(&half, port->gid, sizeof half);
        return half;
    }
    memcpy(&address, port->gid + 12, sizeof address);
    const uint32_t mask = port->ipv4 < 32 ? UINT32_MAX << (32 - port->ipv4) : UINT32_MAX;
    return (uint64_t)port->ipv4 << 32 | (ntohl(address) & mask);
}

/* An Ethernet port whose only address is derived from its MAC address. All such addresses share
 * fe80::/64, whatever network they are connected to. */
static bool is_link_local(const struct verbs_offered *port) {
    return port->layer == LAYER_ETHERNET && port->ipv4 == 0 && port->gid[0] == 0xfe &&
           (port->gid[1] & 0xc0) == 0x80;
}

/* The index of the port among its side's link-local ports; 0 for other ports. */
static int rail_of(const struct verbs_side *side, int i) {
    int rail = 0;
    for (int k = 0; k < i && is_link_local(&side->ports[i]); k++)
        rail += is_link_local(&side->ports[k]);
    return rail;
}

static bool ports_match(const struct verbs_side *x, int i, const struct verbs_side *y, int k) {
    const struct verbs_offered *a = &x->ports[i], *b = &y->ports[k];
    return a->layer != VERBS_LAYER_NONE && a->layer == b->layer && a->ipv4 == b->ipv4 &&
           verbs_subnet(a) == verbs_subnet(b) && rail_of(x, i) == rail_of(y, k);
}

/* Lower is better: speed of the slower port first, then the distance of the data from both. */
static uint32_t pair_cost(const struct verbs_offered *a, const struct verbs_offered *b) {
    const uint32_t speed = a->speed < b->speed ? a->speed : b->speed;
    return (UINT16_MAX - speed) << 16 | ((uint32_t)a->distance + b->distance);
}

/* The n-th set bit, modulo the number of set bits. */
static int bit_of(unsigned bits, unsigned n) {
    for (n %= (unsigned)__builtin_popcount(bits); n > 0; n--)
        bits &= bits - 1;
    return __builtin_ctz(bits);
}

bool verbs_choose(const struct verbs_side *dialler, const struct verbs_side *other,
                  struct verbs_choice *ret_choice) {
    unsigned with[VERBS_PORTS_MAX] = {0}, first = 0; /* bit sets: ports of the best pairs */
    uint32_t best = UINT32_MAX;
    for (int i = 0; i < dialler->nports; i++)
        for (int k = 0; k < other->nports; k++) {
            const struct verbs_offered *a = &dialler->ports[i], *b = &other->ports[k];
            const uint32_t cost = pair_cost(a, b);
            if (!ports_match(dialler, i, other, k) || cost > best)
                continue;
            if (cost < best)
                memset(with, 0, sizeof with);
            first = (cost < best ? 0 : first) | 1u << i;
            best = cost;
            with[i] |= 1u << k;
        }
    if (first == 0)
        return false;
    ret_choice->dialler = bit_of(first, dialler->spread);
    ret_choice->other = bit_of(with[ret_choice->dialler], other->spread);
    return true;
}
