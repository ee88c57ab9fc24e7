/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/chaos/: fault injection. A wrapper around another backend that delays, corrupts or cuts
 * its traffic, for tests. This header is shared by its files; the wrapper is registered by
 * rcmi_backends_wrap (backend.h).
 *
 *   writer --> inner backend ~~~> inner backend's peek --> [delay | fault] --> reader
 *
 *   chaos.c    the wrapped backends; domains; the loop thread's part (timer, closing connections)
 *   channel.c  messages on their way to a reader
 *   orders.c   RINGCOMM_CHAOS: which faults to inject
 *
 * A wrapped backend is a copy of the inner backend's function table in which a few functions are
 * replaced; all others are called with the inner backend's own state. The states of a domain and a
 * channel are the inner ones followed by ours; a link's state is the inner one. All faults are
 * injected on the reader's side, between the inner backend's peek and the reader.
 *
 * It is a separate library that tests and tools link; libringcomm.so does not contain it. Even in
 * these programs "auto" never selects it: every rank sets RINGCOMM_TRANSPORT=chaos:tcp and the
 * faults (RINGCOMM_CHAOS), and a warning is logged.
 *
 * Not for: faults of memory, descriptors and hosts (test/resource/, test/hosts/), and processes
 * that die (test/fault/); a rank with itself, whose backend has no link to disturb.
 */
#ifndef RCMI_CHAOS_H
#define RCMI_CHAOS_H

#include <pthread.h>
#include <stdatomic.h>
#include "../backend.h"

enum chaos_fault {
    CHAOS_NONE,
    CHAOS_CORRUPT, /* flips one bit of a message's meta or length */
    CHAOS_SHORT,   /* shortens a message */
    CHAOS_CUT,     /* fails the data plane of a link */
    CHAOS_CLOSE,   /* closes the control connection of a link, on both sides */
    CHAOS_ISOLATE, /* fails all links of the rank */
    CHAOS_STALL,   /* nothing from one peer arrives any more */
};

struct chaos_orders {
    uint64_t seed;
    uint64_t delay_us; /* maximum delay of a message, in us */
    uint64_t often;    /* percentage of messages that are delayed */
    enum chaos_fault fault;
    int rank;       /* where the fault is injected */
    uint64_t after; /* after this many messages of a channel */
};

/* Parses the text of RINGCOMM_CHAOS, for a job of nranks. */
rcm_status chaos_orders_parse(const char *text, int nranks, struct chaos_orders *ret_orders);
/* A pseudo-random number that depends only on the seed and the arguments. */
uint64_t chaos_draw(const struct chaos_orders *orders, uint64_t a, uint64_t b, uint64_t c);

/* A wrapped backend. */
struct chaos_transport {
    struct rcmi_transport backend; /* first: channel->transport points here */
    const struct rcmi_transport *inner;
    size_t channel_at; /* offset of our part of a channel's state */
    char name[16], description[160];
};

#define CHAOS_DOMAIN_AT 4096 /* offset of our part of a domain's state; inner ones are smaller */

struct chaos_domain {
    struct rcmi_node *node;
    const struct chaos_transport *transport;
    struct chaos_orders orders;
    bool made;
    int timer; /* a timerfd: any thread can start it */
    struct rcmi_watch watch;
    pthread_mutex_t lock; /* guards timer_at and the start of the timer */
    rcmi_deadline timer_at;
    /* Set by the reader that injects the fault, once. Relaxed: it orders no other data. */
    _Atomic bool struck;
    _Atomic int stalled;   /* peer, -1: none; relaxed as well */
    _Atomic int to_strike; /* peer, -1: none; the loop thread takes it when the timer fired */
};

/* Follows the inner state of a reader. */
struct chaos_end {
    struct chaos_domain *domain;
    struct rcmi_slot slot; /* the message returned by the inner peek */
    bool held;             /* slot is valid */
    bool shown;            /* the reader has peeked it */
    rcmi_deadline due;     /* when it may be shown */
    uint64_t number;       /* of the message, from 1 */
    const void *posted;    /* the reader's hint that was passed to the inner backend */
    void *copy;            /* a slot, for a message whose posted memory was withdrawn */
};

static inline const struct chaos_transport *chaos_of(const struct rcmi_channel *channel) {
    return (const struct chaos_transport *)channel->transport;
}

/* chaos.c */
struct chaos_domain *chaos_domain_find(const struct rcmi_channel *channel);
/* Makes the doorbell ring at that time, or slightly earlier. Any thread. */
void chaos_ring_at(struct chaos_domain *domain, rcmi_deadline at);

/* channel.c */
rcm_status chaos_reader_init(struct rcmi_channel *channel, void *link);
void chaos_channel_fini(struct rcmi_channel *channel);
rcm_status chaos_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot);
void chaos_release(struct rcmi_channel *channel);
bool chaos_post_receive(struct rcmi_channel *channel, const struct rcmi_posted *posted);

#endif
