/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What counted work (cost.h) takes, in microseconds: one linear model, whose constants are those of
 * a machine. They are built in by CPU family (price.c); the same ones are used on all
 * ranks, as with protocols (protocol.h).
 *
 *      price = hops * hop              of the longest chain
 *            + messages * message      of the busiest rank, or, where ranks share CPUs, of all
 * ranks
 *            + MiB moved * mib           that a CPU runs: ranks_per_cpu times the mean
 *            + MiB added * sum_mib
 *            + MiB through the card of a host * wire_mib
 *
 * No constant is negative and no count falls as vectors grow, so no price does.
 */
#ifndef RCMI_PRICE_H
#define RCMI_PRICE_H

#include "cost.h"
#include "protocol.h"

/* Name, what it is. */
#define RCMI_PRICE_MAP(X)                                                                          \
    X(shm_hop, "us until a message through shared memory has been seen")                           \
    X(shm_message, "us at each end of a message through shared memory")                            \
    X(shm_mib, "us for a MiB that is copied to shared memory, or from there")                      \
    X(loopback_hop, "us until a message through the kernel of one machine has been seen")          \
    X(loopback_message, "us at each end of a message through the kernel of one machine")           \
    X(loopback_mib, "us at each end for a MiB through the kernel of one machine")                  \
    X(network_hop, "us until a message between machines has been seen")                            \
    X(network_message, "us at each end of a message between machines")                             \
    X(network_mib, "us at each end for a MiB between machines")                                    \
    X(wire_mib, "us for a MiB that leaves or enters a machine")                                    \
    X(sum_mib, "us for a MiB that is added")

struct rcmi_rates {
#define RCMI_PRICE_FIELD(name, help) double name;
    RCMI_PRICE_MAP(RCMI_PRICE_FIELD)
#undef RCMI_PRICE_FIELD
};
struct rcmi_prices {
    struct rcmi_rates of[RCMI_SHARINGS];
};

/* The built-in ones of a family. */
const struct rcmi_prices *rcmi_prices_of(enum rcmi_cpu cpu);
/* Those of a shape. */
const struct rcmi_prices *rcmi_shape_prices(const struct rcmi_shape *shape);

/* A price and its parts, in microseconds. */
struct rcmi_price {
    double hops, messages, moved, sums, wire;
};
static inline double rcmi_price_us(const struct rcmi_price *price) {
    return price->hops + price->messages + price->moved + price->sums + price->wire;
}
/* Of a call where the larger buffer of a rank has `bytes`. Uses only what all ranks agreed on. */
struct rcmi_price rcmi_price(const struct rcmi_cost *cost, const struct rcmi_prices *prices,
                             const struct rcmi_shape *shape, size_t bytes);
/* The counts that are multiplied by constants: for fitting them (tools/tune.c). In the order of the
 * map; rcmi_price is the sum of products. */
enum {
#define RCMI_PRICE_INDEX(name, help) RCMI_PRICE_##name,
    RCMI_PRICE_MAP(RCMI_PRICE_INDEX) RCMI_PRICES
#undef RCMI_PRICE_INDEX
};
void rcmi_price_counts(const struct rcmi_cost *cost, const struct rcmi_shape *shape, size_t bytes,
                       double counts[RCMI_PRICES]);

#endif
