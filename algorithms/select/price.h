/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time of counted work (cost.h) in microseconds, by one linear model. The constants describe a
 * machine: built in per CPU family (price.c), overridden by the file of RINGCOMM_TUNING. Rank 0's
 * constants apply to the whole job, as for protocols (protocol.h).
 *
 *      price = hops * hop
 *            + messages * message
 *            + moved * mib
 *            + added * sum_mib
 *            + wire * wire_mib
 *
 *      hops      messages of the longest chain
 *      messages  of the busiest rank; of all ranks if ranks share CPUs
 *      moved     MiB that one CPU copies: ranks_per_cpu times the mean of the ranks
 *      added     MiB that are added
 *      wire      MiB through the network card of a host
 *
 * No constant is negative and no count falls as vectors grow, so no price does.
 */
#ifndef RCMI_PRICE_H
#define RCMI_PRICE_H

#include "cost.h"
#include "assignments.h"
#include "protocol.h"

/* Name, description. */
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

/* The built-in prices of a CPU family. */
const struct rcmi_prices *rcmi_prices_of(enum rcmi_cpu cpu);
/* The prices of a shape. */
const struct rcmi_prices *rcmi_shape_prices(const struct rcmi_shape *shape);

/* A price by component, in microseconds. */
struct rcmi_price {
    double hops, messages, moved, sums, wire;
};
static inline double rcmi_price_us(const struct rcmi_price *price) {
    return price->hops + price->messages + price->moved + price->sums + price->wire;
}
/* The price of a call if the larger buffer of a rank has `bytes`. Uses only values that all ranks
 * agreed on. */
struct rcmi_price rcmi_price(const struct rcmi_cost *cost, const struct rcmi_prices *prices,
                             const struct rcmi_shape *shape, size_t bytes);
/* The counts that the constants multiply, in the order of the map, for fitting the constants
 * (tools/tune/tune.c). rcmi_price is the sum of the products. */
enum {
#define RCMI_PRICE_INDEX(name, help) RCMI_PRICE_##name,
    RCMI_PRICE_MAP(RCMI_PRICE_INDEX) RCMI_PRICES
#undef RCMI_PRICE_INDEX
};
void rcmi_price_counts(const struct rcmi_cost *cost, const struct rcmi_shape *shape, size_t bytes,
                       double counts[RCMI_PRICES]);

/* ---- Text ------------------------------------------------------------------------------------ */

/* Takes NAME=US, NAME.roomy=US or NAME.oversubscribed=US; US has up to three decimals.
 * RCM_ERR_NOT_FOUND for an unknown name; RCM_ERR_CONFIG with an error text. */
rcm_status rcmi_prices_take(const struct rcmi_item *item, const char *origin,
                            struct rcmi_prices *prices);
/* Constant i, numbered by name and then by sharing: "shm_hop.roomy", and its value. Returns its
 * description; NULL past the last. */
#define RCMI_PRICE_TEXT 24
const char *rcmi_prices_at(const struct rcmi_prices *prices, size_t i,
                           char name[RCMI_PROTOCOL_NAME], char value[RCMI_PRICE_TEXT]);
/* Writes all constants as text that rcmi_prices_take can read. */
#define RCMI_PRICES_TEXT (RCMI_PRICES * RCMI_SHARINGS * (RCMI_PROTOCOL_NAME + RCMI_PRICE_TEXT))
void rcmi_prices_write(const struct rcmi_prices *prices, char text[RCMI_PRICES_TEXT]);

#endif
