/* SPDX-License-Identifier: BSD-3-Clause */
/* The price of counted work, and the built-in constants; see price.h. */
#include "price.h"

#include <stddef.h>

#define MIB 1048576.0
/* Bytes of a chain's pipeline unit: the executor's usual slices within a host; between hosts a
 * quarter of the vector within these limits. */
#define SLICE_WITHIN      65536.0
#define SLICE_BETWEEN_MIN 131072.0
#define SLICE_BETWEEN_MAX 524288.0

/* clang-format off */
static const struct rcmi_prices general = {{
    [RCMI_ROOMY] = {
        .shm_hop = 0.3, .shm_message = 0.03, .shm_mib = 105,
        .loopback_hop = 8, .loopback_message = 6, .loopback_mib = 262,
        .network_hop = 20, .network_message = 6, .network_mib = 131, .wire_mib = 524,
        .sum_mib = 52,
    },
    [RCMI_OVERSUBSCRIBED] = {
        .shm_hop = 1, .shm_message = 0.2, .shm_mib = 105,
        .loopback_hop = 1, .loopback_message = 6, .loopback_mib = 262,
        .network_hop = 20, .network_message = 6, .network_mib = 131, .wire_mib = 524,
        .sum_mib = 52,
    },
}};
/* Measured by ringcomm-tune on a machine with 2 CPUs of EPYC 9005 under other load; roomy is 2
 * ranks. Exception: shm_message of 8 ranks comes from the fastest runs of ringcomm-bench, because
 * other load inflates the cost per message, while it is the round that waits for CPUs. */
static const struct rcmi_prices zen_5 = {{
    [RCMI_ROOMY] = {
        .shm_hop = 0.5, .shm_message = 0.05, .shm_mib = 34,
        .loopback_hop = 4, .loopback_message = 1.2, .loopback_mib = 95,
        .network_hop = 20, .network_message = 6, .network_mib = 131, .wire_mib = 524,
        .sum_mib = 15,
    },
    [RCMI_OVERSUBSCRIBED] = {
        .shm_hop = 5, .shm_message = 0.22, .shm_mib = 62,
        .loopback_hop = 1, .loopback_message = 5, .loopback_mib = 60,
        .network_hop = 20, .network_message = 6, .network_mib = 131, .wire_mib = 524,
        .sum_mib = 20,
    },
}};
/* clang-format on */

const struct rcmi_prices *rcmi_prices_of(enum rcmi_cpu cpu) {
    return cpu == RCMI_CPU_ZEN_5 ? &zen_5 : &general;
}

const struct rcmi_prices *rcmi_shape_prices(const struct rcmi_shape *shape) {
    return shape->prices ? shape->prices : &general;
}

static double most(double a, double b) {
    return a > b ? a : b;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

static double slice_bytes(const struct rcmi_cost *cost, double bytes) {
    if (cost->hops[RCMI_BETWEEN] == 0)
        return SLICE_WITHIN;
    return most(SLICE_BETWEEN_MIN, least(SLICE_BETWEEN_MAX, bytes / 4));
}

/* Bytes that a rank moves, and the additional bytes of a chain until its first slice has arrived at
 * the end. */
struct moved {
    double own[RCMI_REACHES], fill[RCMI_REACHES];
};

static struct moved moved_of(const struct rcmi_cost *cost, double ranks_per_cpu, double bytes) {
    const double hops = cost->hops[RCMI_WITHIN] + cost->hops[RCMI_BETWEEN];
    const double slice = least(bytes, slice_bytes(cost, bytes));
    struct moved moved;
    double own = 0;
    for (int reach = 0; reach < RCMI_REACHES; reach++) {
        const double vectors =
            most(cost->busiest.moved[reach], ranks_per_cpu * cost->mean.moved[reach]);
        own += vectors;
        moved.own[reach] = vectors * bytes;
    }
    const double fill = most(0, 2 * cost->chain - own) * slice;
    for (int reach = 0; reach < RCMI_REACHES; reach++)
        moved.fill[reach] = hops > 0 ? fill * cost->hops[reach] / hops : 0;
    return moved;
}

/* The indices of a reach's rates in the map's order. */
static void reach_rates(const struct rcmi_shape *shape, int reach, int *ret_hop) {
    *ret_hop = reach == RCMI_WITHIN ? RCMI_PRICE_shm_hop
               : shape->loopback    ? RCMI_PRICE_loopback_hop
                                    : RCMI_PRICE_network_hop;
}

void rcmi_price_counts(const struct rcmi_cost *cost, const struct rcmi_shape *shape, size_t bytes,
                       double counts[RCMI_PRICES]) {
    const double share = most(1, shape->ranks_per_cpu), n = (double)bytes;
    const struct moved moved = moved_of(cost, share, n);
    for (int i = 0; i < RCMI_PRICES; i++)
        counts[i] = 0;
    for (int reach = 0; reach < RCMI_REACHES; reach++) {
        const double messages =
            most(cost->busiest.messages[reach], share * cost->mean.messages[reach]);
        int hop;
        reach_rates(shape, reach, &hop);
        counts[hop] = cost->hops[reach];
        counts[hop + 1] = most(messages, moved.own[reach] / SLICE_WITHIN);
        counts[hop + 2] = (moved.own[reach] + moved.fill[reach]) / MIB;
    }
    counts[RCMI_PRICE_sum_mib] = most(cost->busiest.sums, share * cost->mean.sums) * n / MIB;
    counts[RCMI_PRICE_wire_mib] = shape->loopback ? 0 : cost->card * n / MIB;
}

static double part(const double *counts, const double *rates, int i) {
    return counts[i] * rates[i];
}

struct rcmi_price rcmi_price(const struct rcmi_cost *cost, const struct rcmi_prices *prices,
                             const struct rcmi_shape *shape, size_t bytes) {
    const bool shared = shape->ranks_per_cpu > 1;
    const double *rates =
        (const double *)(const void *)&prices->of[shared ? RCMI_OVERSUBSCRIBED : RCMI_ROOMY];
    double counts[RCMI_PRICES];
    struct rcmi_price price = {.sums = 0};
    rcmi_price_counts(cost, shape, bytes, counts);
    for (int reach = 0; reach < RCMI_REACHES; reach++) {
        int hop;
        reach_rates(shape, reach, &hop);
        price.hops += part(counts, rates, hop);
        price.messages += part(counts, rates, hop + 1);
        price.moved += part(counts, rates, hop + 2);
    }
    price.sums = part(counts, rates, RCMI_PRICE_sum_mib);
    price.wire = part(counts, rates, RCMI_PRICE_wire_mib);
    return price;
}

_Static_assert(sizeof(struct rcmi_rates) == RCMI_PRICES * sizeof(double),
               "rates are read as an array");
