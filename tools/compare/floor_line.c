/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-way times between two cores: a bare cache line, and 8 and 64 bytes through a channel over
 * shared memory. The sender writes the channel's messages and the receiver reads them, so 64 bytes
 * are one line of payload plus the transport's overhead. The measurements alternate, so that all
 * are taken in the same state of the machine.
 */
#include "floor.h"

#include <string.h>
#include "clock.h"

#define LINE_TRIPS    20000 /* round trips per measurement */
#define CHANNEL_TRIPS 10000
#define LINE_EPOCH    1

/* ---- the cache line -------------------------------------------------------------------------- */

/* Rank 0 writes odd numbers and rank 1 even ones: to one line, or each to its own line. */
static bool line_trips(struct floor_side *side, bool one_line, double *ret_ns) {
    _Atomic uint64_t *const mine = &side->shared->line[one_line ? 0 : side->rank].turn;
    _Atomic uint64_t *const theirs = &side->shared->line[one_line ? 0 : 1 - side->rank].turn;
    uint32_t spins = 0;
    if (side->rank == 0) {
        atomic_store(&side->shared->line[0].turn, 0);
        atomic_store(&side->shared->line[1].turn, 0);
    }
    if (!floor_meet(side))
        return false;
    const int64_t start = rcmi_now_ns();
    for (uint64_t i = 0; i < LINE_TRIPS; i++) {
        /* Each store pairs with the other side's load. */
        if (side->rank == 0)
            atomic_store_explicit(mine, 2 * i + 1, memory_order_release);
        const uint64_t expected = 2 * i + (side->rank == 0 ? 2 : 1);
        while (atomic_load_explicit(theirs, memory_order_acquire) != expected)
            if (floor_hopeless(side, &spins))
                return false;
        if (side->rank == 1)
            atomic_store_explicit(mine, 2 * i + 2, memory_order_release);
    }
    *ret_ns = (double)(rcmi_now_ns() - start) / LINE_TRIPS / 2;
    return floor_meet(side);
}

/* ---- the channel ----------------------------------------------------------------------------- */

struct line_channels {
    struct rcmi_node *node;
    struct rcmi_channel *out, *in;
};

static bool channel_put(struct floor_side *side, struct line_channels *c, const void *bytes,
                        size_t len) {
    uint32_t spins = 0;
    struct rcmi_reserved reserved;
    rcm_status status;
    while ((status = rcmi_channel_reserve(c->out, len, &reserved)) == RCM_AGAIN) {
        rcmi_node_progress(c->node);
        if (floor_hopeless(side, &spins))
            return false;
    }
    if (status != RCM_OK)
        return floor_failed("a channel");
    memcpy(reserved.bytes, bytes, len);
    rcmi_channel_commit(c->out, len, 0);
    return true;
}

static bool channel_get(struct floor_side *side, struct line_channels *c, void *bytes, size_t len) {
    uint32_t spins = 0;
    struct rcmi_slot slot;
    rcm_status status;
    while ((status = rcmi_channel_peek(c->in, &slot)) == RCM_AGAIN) {
        rcmi_node_progress(c->node);
        if (floor_hopeless(side, &spins))
            return false;
    }
    if (status != RCM_OK || slot.len != len)
        return floor_failed("a channel");
    memcpy(bytes, slot.bytes, len);
    rcmi_channel_release(c->in);
    return true;
}

/* Each message is the received one plus 1 in every byte, so that a lost message is detected. */
static bool channel_trips(struct floor_side *side, struct line_channels *c, size_t len,
                          double *ret_ns) {
    unsigned char bytes[64] = {0};
    if (!floor_meet(side))
        return false;
    const int64_t start = rcmi_now_ns();
    for (int i = 0; i < CHANNEL_TRIPS; i++) {
        if (side->rank == 0 && !channel_put(side, c, bytes, len))
            return false;
        if (!channel_get(side, c, bytes, len))
            return false;
        for (size_t at = 0; at < len; at++)
            bytes[at]++;
        if (side->rank == 1 && !channel_put(side, c, bytes, len))
            return false;
    }
    const double ns = (double)(rcmi_now_ns() - start) / CHANNEL_TRIPS / 2;
    const int last = side->rank == 0 ? 2 * CHANNEL_TRIPS : 2 * CHANNEL_TRIPS - 1;
    for (size_t at = 0; at < len; at++)
        if (bytes[at] != (unsigned char)last)
            return floor_failed("a channel delivered wrong bytes");
    *ret_ns = ns;
    return floor_meet(side);
}

static bool channels_open(struct floor_side *side, struct line_channels *c) {
    const int peer = 1 - side->rank;
    uint32_t spins = 0;
    if (!floor_node_open(side->rank, 2, "shm", side->shared->addresses, &c->node) ||
        !floor_meet(side))
        return false;
    if (rcmi_channel_open_writer(c->node, LINE_EPOCH, (uint32_t)side->rank, &peer, 1, &c->out) !=
            RCM_OK ||
        rcmi_channel_open_reader(c->node, LINE_EPOCH, (uint32_t)peer, peer, &c->in) != RCM_OK)
        return floor_failed("a channel does not open");
    while (rcmi_channel_state(c->out) == RCM_AGAIN || rcmi_channel_state(c->in) == RCM_AGAIN) {
        rcmi_node_progress(c->node);
        sched_yield(); /* the loop thread opens them, on this same core */
        if (floor_hopeless(side, &spins))
            return floor_failed("a channel does not open");
    }
    return rcmi_channel_state(c->out) == RCM_OK && rcmi_channel_state(c->in) == RCM_OK
               ? floor_meet(side)
               : floor_failed("a channel does not open");
}

static void channels_close(struct floor_side *side, struct line_channels *c, bool ok) {
    rcmi_channel_close(c->in);
    rcmi_channel_close(c->out);
    if (ok && rcmi_node_farewell(c->node, side->floor->deadline_ns, NULL) != RCM_OK)
        floor_failed("farewell");
    rcmi_node_destroy(c->node);
}

/* ---- sections -------------------------------------------------------------------------------- */

struct line_figures {
    struct floor_series one, two, send8, send64, over;
};

static bool line_side(struct floor_side *side, void *arg) {
    struct line_figures *figures = arg;
    double ns;
    for (int round = -1; round < side->floor->rounds; round++) { /* the first warms up */
        if (!line_trips(side, true, &ns))
            return false;
        if (round >= 0)
            floor_add(&figures->one, ns);
    }
    return true;
}

static bool channel_round(struct floor_side *side, struct line_channels *c,
                          struct line_figures *figures) {
    double one = 0, two = 0, send8 = 0, send64 = 0;
    if (!line_trips(side, true, &one) || !line_trips(side, false, &two) ||
        !channel_trips(side, c, 8, &send8) || !channel_trips(side, c, 64, &send64))
        return false;
    if (!figures)
        return true;
    floor_add(&figures->one, one);
    floor_add(&figures->two, two);
    floor_add(&figures->send8, send8);
    floor_add(&figures->send64, send64);
    floor_add(&figures->over, send64 - (one < two ? one : two));
    return true;
}

static bool channel_side(struct floor_side *side, void *arg) {
    struct line_channels c = {0};
    bool ok = channels_open(side, &c);
    for (int round = -1; ok && round < side->floor->rounds; round++)
        ok = channel_round(side, &c, round < 0 ? NULL : arg);
    channels_close(side, &c, ok);
    return ok;
}

bool floor_line(struct floor *f) {
    static struct line_figures figures;
    if (!floor_pair(f, line_side, &figures))
        return floor_failed("cannot measure the cache line");
    floor_row(f, "cache line", "one line, both write it", 2, 0, "ns", &figures.one);
    return true;
}

bool floor_channel(struct floor *f) {
    static struct line_figures figures;
    if (!floor_pair(f, channel_side, &figures))
        return floor_failed("cannot measure the channel");
    floor_row(f, "cache line", "one line, both write it", 2, 0, "ns", &figures.one);
    floor_row(f, "cache line", "two lines, one writer each", 2, 0, "ns", &figures.two);
    floor_row(f, "shm channel", "one way", 2, 8, "ns", &figures.send8);
    floor_row(f, "shm channel", "one way", 2, 64, "ns", &figures.send64);
    floor_row(f, "shm channel", "above the faster cache line", 2, 64, "ns", &figures.over);
    return true;
}
