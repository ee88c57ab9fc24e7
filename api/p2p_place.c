/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point between two ranks that share a CPU, by sockets: where one of them is at home while
 * that goes on. Apart is the better place as long as the CPUs are near each other: what the one
 * sends and the other takes goes on at the same time, and who computes next keeps nobody waiting.
 * Where they are far from each other, the kernel's copy from one to the other takes longer than
 * both copies on one CPU; and on some machines that changes every few seconds. So the one who may
 * move measures the large messages that it receives, and now and then tries the other place.
 *
 * Where the two share slots of memory it is the size that says it. A small message is there at once
 * if both run at the same time, so they are apart. A larger one had better stay in the cache of one
 * CPU, above all where other ranks do the same. Those that do not fit it are copied faster apart,
 * as long as they take the other CPU from nobody who would use it.
 *
 * Not here: which CPUs these are (group.c), who makes room (visit.c), and going there
 * (base/place.c).
 */
#include "p2p_internal.h"

#define RECONSIDER 3 /* messages after a change of place */
/* Larger ones are not measured: a single call of the kernel may take milliseconds, so that a rank
 * is moved about meanwhile. Apart is right for them nearly always. */
#define MEASURED_MAX ((size_t)4 << 20)
#define BUSY_NS      INT64_C(2000000)
#define BUSY_LONG_NS INT64_C(50000000)

/* By slots of memory: larger messages are together, and so long tell what the small ones between
 * them do. */
#define SLOTS_SMALL ((size_t)16 << 10)
#define TOGETHER_NS INT64_C(20000000)
/* But these are not: with a buffer of each end they fill the cache of a CPU. Still larger ones come
 * from memory anyhow. */
#define SLOTS_FULL_MIN ((size_t)1 << 20)
#define SLOTS_FULL_MAX ((size_t)8 << 20)
/* So many messages to and from one peer, and none of others, make the two a twosome. Who exchanges
 * messages with several waits for all of them, and they for others, so their turns matter more. */
#define TWOSOME 8
/* They go apart after so many meetings at which nobody wanted the other CPU (a blocking call may
 * meet twice). One at which somebody did, or of another size, takes three of them back: he may only
 * have been between two things to wait for, but to go to and fro is dear. */
#define UNHINDERED     8
#define UNHINDERED_MAX 16
#define HINDERED       3

static bool is_too_much(size_t bytes) {
    return bytes >= SLOTS_FULL_MIN && bytes <= SLOTS_FULL_MAX;
}

void rcmi_pair_meet(struct rcmi_p2p *p2p, struct pair *pair, size_t bytes) {
    rcm_comm *comm = p2p->comm;
    struct rcmi_patience *patience = &pair->patience;
    const int64_t now = rcmi_now_ns();
    if (bytes > SLOTS_SMALL) {
        p2p->together_until = now + TOGETHER_NS;
        p2p->unhindered += is_too_much(bytes) && rcmi_comm_host_waits(comm) ? 1 : -HINDERED;
        p2p->unhindered = p2p->unhindered < 0                ? 0
                          : p2p->unhindered > UNHINDERED_MAX ? UNHINDERED_MAX
                                                             : p2p->unhindered;
        p2p->large_apart = is_too_much(bytes) && p2p->unhindered >= UNHINDERED;
    }
    p2p->in_a_row = pair == p2p->met ? p2p->in_a_row + (p2p->in_a_row < TWOSOME) : 0;
    p2p->met = pair;
    patience->apart = now >= p2p->together_until && p2p->in_a_row == TWOSOME;
    pair->parted = patience->apart || (p2p->large_apart && p2p->in_a_row == TWOSOME);
    if (pair->apart >= 0 && pair->parted)
        rcmi_comm_visit(comm, pair->apart, BUSY_NS);
    else if (pair->apart >= 0 && rcmi_place_visits(&comm->place))
        rcmi_comm_visit(comm, comm->place.home, BUSY_NS);
}

void rcmi_pair_place(struct rcmi_p2p *p2p, struct pair *pair, struct rcm_work *work) {
    const bool receives = work->kind == RCMI_WORK_RECV;
    const struct rcmi_channel *channel = receives ? pair->rx : pair->tx;
    struct rcmi_transfer *t = &work->transfer;
    const size_t bytes = receives ? t->capacity : t->total;
    if (channel && shares_slots(channel))
        rcmi_pair_meet(p2p, pair, bytes);
    if (!channel || !kernel_carries(channel) || pair->apart < 0)
        return;
    const bool measured = receives && bytes > EAGER_BARE && bytes <= MEASURED_MAX;
    t->place = measured ? rcmi_faster_way(&pair->places) : pair->places.way;
    if (bytes > MEASURED_MAX)
        t->place = PLACE_APART;
    rcmi_place_visit(&p2p->comm->place,
                     t->place == PLACE_APART ? pair->apart : p2p->comm->place.home,
                     bytes <= MEASURED_MAX ? BUSY_NS : BUSY_LONG_NS);
}

void rcmi_pair_asked(const struct pair *pair, struct rcmi_transfer *t) {
    const bool measured = t->total > EAGER_BARE && t->capacity <= MEASURED_MAX;
    t->asked_ns = pair->apart >= 0 && measured ? rcmi_now_ns() : 0;
}

void rcmi_pair_came(struct pair *pair, const struct rcmi_transfer *t) {
    struct rcmi_faster *places = &pair->places;
    const int before = places->way;
    if (!t->asked_ns || !kernel_carries(pair->rx))
        return;
    rcmi_faster_learn(places, t->place,
                      (float)(rcmi_now_ns() - t->asked_ns) * 1024.0f / (float)t->total);
    /* One message may have been slow for other reasons: its pages were new. */
    if (places->way != before)
        places->left = RECONSIDER;
}
