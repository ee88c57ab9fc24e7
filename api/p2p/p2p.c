/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point: matching. Posted receives and unexpected messages are kept in one list each, in
 * order of arrival, whatever the peer is: a receive from any source is a match without comparing
 * the source.
 */
#include "p2p.h"
#include <stdlib.h>
#include <string.h>

#define RTS_MAX ((size_t)1 << 20) /* that no receive was posted for */

struct unexpected {
    struct unexpected *next;
    struct rcmi_arrival arrival; /* its bytes are here: */
    char bytes[];
};

struct peer {
    struct rcmi_endpoint endpoint;
    bool active;
    _Atomic bool wanted; /* set by the loop thread, taken by the driver (exchange) */
};

struct rcmi_p2p {
    struct rcmi_messaging messaging;
    int nranks;
    struct peer *peers;
    int *active, nactive; /* ranks whose endpoints have something open */
    _Atomic bool any_wanted;
    struct rcmi_transfers posted;
    struct unexpected *unexpected, **unexpected_end;
    size_t rendezvous; /* of those, without their bytes */
};

/* ---- Matching ------------------------------------------------------------------------------ */

static bool matches(const struct rcmi_transfer *t, int peer, uint64_t tag) {
    return t->peer == peer && (t->tag == RCM_ANY_TAG || t->tag == tag);
}

static struct rcmi_transfer *p2p_match(void *arg, int peer, uint64_t tag) {
    struct rcmi_p2p *p2p = arg;
    for (struct rcmi_transfer **at = &p2p->posted.head; *at; at = &(*at)->next) {
        struct rcmi_transfer *t = *at;
        if (matches(t, peer, tag)) {
            rcmi_transfers_remove(&p2p->posted, at);
            return t;
        }
    }
    return NULL;
}

static const struct rcmi_transfer *p2p_next(void *arg, int peer) {
    const struct rcmi_p2p *p2p = arg;
    const struct rcmi_transfer *t = p2p->posted.head;
    return t && t->peer == peer ? t : NULL;
}

static rcm_status p2p_keep(void *arg, const struct rcmi_arrival *arrival) {
    struct rcmi_p2p *p2p = arg;
    const size_t len = arrival->rendezvous ? 0 : arrival->total;
    if (arrival->rendezvous && p2p->rendezvous >= RTS_MAX)
        return rcmi_fail_origin(RCM_ERR_RESOURCE, arrival->peer,
                                "rank %d sent one message more than the %zu for which this rank "
                                "has not called rcm_recv yet",
                                arrival->peer, p2p->rendezvous);
    struct unexpected *message = malloc(sizeof(*message) + len);
    if (!message)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a message of %zu bytes from rank %d", len,
                         arrival->peer);
    *message = (struct unexpected){.arrival = *arrival};
    message->arrival.bytes = message->bytes;
    if (len)
        memcpy(message->bytes, arrival->bytes, len);
    p2p->rendezvous += arrival->rendezvous;
    *p2p->unexpected_end = message;
    p2p->unexpected_end = &message->next;
    return RCM_OK;
}

/* Takes the first message that was kept and that t is for; NULL if there is none. */
static struct unexpected *p2p_take_unexpected(struct rcmi_p2p *p2p, const struct rcmi_transfer *t) {
    struct unexpected **at = &p2p->unexpected;
    while (*at && !matches(t, (*at)->arrival.peer, (*at)->arrival.tag))
        at = &(*at)->next;
    struct unexpected *message = *at;
    if (!message)
        return NULL;
    *at = message->next;
    if (!*at)
        p2p->unexpected_end = at;
    p2p->rendezvous -= message->arrival.rendezvous;
    return message;
}

/* ---- Life ---------------------------------------------------------------------------------- */

rcm_status rcmi_p2p_create(const struct rcmi_messaging *messaging, int nranks,
                           struct rcmi_p2p **ret_p2p) {
    const size_t n = (size_t)nranks;
    struct rcmi_p2p *p2p = calloc(1, sizeof(*p2p));
    if (p2p) {
        p2p->peers = calloc(n, sizeof(*p2p->peers));
        p2p->active = calloc(n, sizeof(*p2p->active));
    }
    if (!p2p || !p2p->peers || !p2p->active) {
        rcmi_p2p_free(p2p);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for point to point among %d ranks", nranks);
    }
    p2p->messaging = *messaging;
    p2p->messaging.arg = p2p;
    p2p->messaging.match = p2p_match;
    p2p->messaging.keep = p2p_keep;
    p2p->messaging.next = p2p_next;
    p2p->nranks = nranks;
    rcmi_transfers_init(&p2p->posted);
    p2p->unexpected_end = &p2p->unexpected;
    for (int r = 0; r < nranks; r++)
        rcmi_endpoint_init(&p2p->peers[r].endpoint, &p2p->messaging, r);
    *ret_p2p = p2p;
    return RCM_OK;
}

void rcmi_p2p_free(struct rcmi_p2p *p2p) {
    if (!p2p)
        return;
    for (int r = 0; r < p2p->nranks; r++)
        rcmi_endpoint_fini(&p2p->peers[r].endpoint);
    while (p2p->unexpected) {
        struct unexpected *message = p2p->unexpected;
        p2p->unexpected = message->next;
        free(message);
    }
    free(p2p->peers);
    free(p2p->active);
    free(p2p);
}

/* ---- For the driver ------------------------------------------------------------------------ */

/* The endpoint of a peer with which there is something to do from now on. */
static struct rcmi_endpoint *p2p_activate(struct rcmi_p2p *p2p, int peer) {
    struct peer *p = &p2p->peers[peer];
    if (!p->active)
        p2p->active[p2p->nactive++] = peer;
    p->active = true;
    return &p->endpoint;
}

rcm_status rcmi_p2p_send(struct rcmi_p2p *p2p, struct rcmi_transfer *t) {
    return rcmi_endpoint_send(p2p_activate(p2p, t->peer), t);
}

rcm_status rcmi_p2p_receive(struct rcmi_p2p *p2p, struct rcmi_transfer *t) {
    struct unexpected *message = p2p_take_unexpected(p2p, t);
    if (!message) {
        rcmi_transfers_append(&p2p->posted, t);
        return rcmi_endpoint_open(p2p_activate(p2p, t->peer));
    }
    const struct rcmi_arrival *arrival = &message->arrival;
    const rcm_status status =
        rcmi_endpoint_receive(&p2p->peers[arrival->peer].endpoint, t, arrival);
    free(message);
    return status;
}

void rcmi_p2p_wanted(struct rcmi_p2p *p2p, int peer) {
    /* Release pairs with the exchanges in p2p_open_wanted. */
    atomic_store_explicit(&p2p->peers[peer].wanted, true, memory_order_release);
    atomic_store_explicit(&p2p->any_wanted, true, memory_order_release);
}

static rcm_status p2p_open_wanted(struct rcmi_p2p *p2p) {
    /* A plain look first: an exchange on every pass would cost an atomic operation. */
    if (!atomic_load_explicit(&p2p->any_wanted, memory_order_relaxed) ||
        !atomic_exchange_explicit(&p2p->any_wanted, false, memory_order_acquire))
        return RCM_OK;
    for (int r = 0; r < p2p->nranks; r++) {
        if (!atomic_exchange_explicit(&p2p->peers[r].wanted, false, memory_order_acquire))
            continue;
        const rcm_status status = rcmi_endpoint_open(p2p_activate(p2p, r));
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

rcm_status rcmi_p2p_progress(struct rcmi_p2p *p2p, bool *moved) {
    rcm_status status = p2p_open_wanted(p2p);
    for (int i = 0; status == RCM_OK && i < p2p->nactive; i++)
        status = rcmi_endpoint_progress(&p2p->peers[p2p->active[i]].endpoint, moved);
    return status;
}

static bool channel_failed_here(const struct rcmi_channel *channel) {
    return channel &&
           atomic_load_explicit(&channel->state, memory_order_relaxed) == RCM_ERR_INVALID;
}

struct rcmi_transfer *rcmi_p2p_at_fault(const struct rcmi_p2p *p2p) {
    for (int i = 0; i < p2p->nactive; i++) {
        const struct rcmi_endpoint *e = &p2p->peers[p2p->active[i]].endpoint;
        if (channel_failed_here(e->tx))
            return e->sending.head ? e->sending.head : e->outgoing.head;
        if (channel_failed_here(e->rx))
            return e->receiving.head ? e->receiving.head : p2p->posted.head;
    }
    return NULL;
}

void rcmi_p2p_cancel(struct rcmi_p2p *p2p, rcm_status status) {
    for (int r = 0; r < p2p->nranks; r++)
        rcmi_endpoint_cancel(&p2p->peers[r].endpoint, status);
    while (p2p->posted.head) {
        struct rcmi_transfer *t = p2p->posted.head;
        p2p->posted.head = t->next;
        p2p->messaging.completed(t, status);
    }
    rcmi_transfers_init(&p2p->posted);
}

void rcmi_p2p_each(struct rcmi_p2p *p2p, bool (*visit)(void *arg, struct rcmi_transfer *t),
                   void *arg) {
    for (struct rcmi_transfer *t = p2p->posted.head; t; t = t->next)
        if (!visit(arg, t))
            return;
    for (int i = 0; i < p2p->nactive; i++)
        if (!rcmi_endpoint_each(&p2p->peers[p2p->active[i]].endpoint, visit, arg))
            return;
}

struct rcmi_endpoint *rcmi_p2p_endpoint(struct rcmi_p2p *p2p, int peer) {
    return &p2p->peers[peer].endpoint;
}

struct rcmi_endpoint *rcmi_p2p_endpoint_for_receive(struct rcmi_p2p *p2p, int peer) {
    return p2p->unexpected ? NULL : &p2p->peers[peer].endpoint;
}
