/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/chaos/: a row around another row, which delays, spoils or cuts what that carries, for
 * tests. This is what its files share; the registry is handed the wrapper (rcmi_backends_wrap,
 * ../backend.h).
 *
 *   writer --> inner row ~~~> inner row's peek --> [delay | fault] --> reader
 *
 *   chaos.c    the wrapped rows; domains; what the loop thread does (timer, closing connections)
 *   channel.c  what happens to messages on their way to a reader
 *   orders.c   RINGCOMM_CHAOS: what shall go wrong
 *
 * A wrapped row is a copy of the inner transport's row in which a few slots are replaced, so every
 * other slot is the inner transport's own function, called with its own state: the state of a
 * domain and of a channel is the inner one's with ours behind it, that of a link is the inner
 * one's. Everything goes wrong on the reader's side, between the inner transport's peek and the
 * reader's.
 *
 * It is a library of its own, which tests and tools link; libringcomm.so does not have it. In these
 * programs, too, "auto" never takes it: every rank names it (RINGCOMM_TRANSPORT=chaos:tcp) with the
 * faults (RINGCOMM_CHAOS), and a warning says that it is there.
 *
 * Not for: faults of memory, descriptors and hosts (test/resource/, test/hosts/), and processes
 * that die (test/fault/); a rank with itself, whose row has no link to disturb.
 */
#ifndef RCMI_CHAOS_H
#define RCMI_CHAOS_H

#include <pthread.h>
#include <stdatomic.h>
#include "../backend.h"

enum chaos_fault {
    CHAOS_NONE,
    CHAOS_CORRUPT, /* one bit of a message's meta or length is wrong */
    CHAOS_SHORT,   /* a message is shorter than it was */
    CHAOS_CUT,     /* the data plane of a link fails */
    CHAOS_CLOSE,   /* the control connection of a link ends, as both sides see */
    CHAOS_ISOLATE, /* all links of the rank fail */
    CHAOS_STALL,   /* nothing from one peer arrives any more */
};

struct chaos_orders {
    uint64_t seed;
    uint64_t delay_us; /* the longest delay of a message */
    uint64_t often;    /* how many messages of a hundred are delayed */
    enum chaos_fault fault;
    int rank;       /* where the fault happens */
    uint64_t after; /* when a channel has carried so many messages */
};

/* From the text of RINGCOMM_CHAOS, for a job of nranks. */
rcm_status chaos_orders_parse(const char *text, int nranks, struct chaos_orders *ret_orders);
/* A number that depends on nothing but the seed and the arguments. */
uint64_t chaos_draw(const struct chaos_orders *orders, uint64_t a, uint64_t b, uint64_t c);

/* A wrapped row. */
struct chaos_transport {
    struct rcmi_transport row; /* first: channel->transport points here */
    const struct rcmi_transport *inner;
    size_t channel_at; /* our part of a channel's state */
    char name[16], description[160];
};

#define CHAOS_DOMAIN_AT 4096 /* our part of a domain's state; inner ones are smaller */

struct chaos_domain {
    struct rcmi_node *node;
    const struct chaos_transport *transport;
    struct chaos_orders orders;
    bool made;
    int timer; /* a timerfd: any thread can start it */
    struct rcmi_watch watch;
    pthread_mutex_t lock; /* of timer_at and the start of the timer */
    rcmi_deadline timer_at;
    /* Set by the reader that meets the fault, once. Relaxed: nothing is read by its order. */
    _Atomic bool struck;
    _Atomic int stalled;   /* peer, -1; relaxed as well */
    _Atomic int to_strike; /* peer, -1; the loop thread takes it after the timer fired */
};

/* Behind the inner state of a reader. */
struct chaos_end {
    struct chaos_domain *domain;
    struct rcmi_slot slot; /* the message that the inner transport showed */
    bool held;             /* there is one */
    bool shown;            /* the reader has seen it */
    rcmi_deadline due;     /* when it may be shown */
    uint64_t number;       /* of the message, from 1 */
    const void *posted;    /* the reader's hint that the inner transport knows */
    void *copy;            /* a slot, for a message whose posted memory was withdrawn */
};

static inline const struct chaos_transport *chaos_of(const struct rcmi_channel *channel) {
    return (const struct chaos_transport *)channel->transport;
}

/* chaos.c */
struct chaos_domain *chaos_domain_find(const struct rcmi_channel *channel);
/* The doorbell rings at that time, or a little earlier. Any thread. */
void chaos_ring_at(struct chaos_domain *domain, rcmi_deadline at);

/* channel.c */
rcm_status chaos_reader_init(struct rcmi_channel *channel, void *link);
void chaos_channel_fini(struct rcmi_channel *channel);
rcm_status chaos_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot);
void chaos_release(struct rcmi_channel *channel);
bool chaos_post_receive(struct rcmi_channel *channel, const struct rcmi_posted *posted);

#endif
