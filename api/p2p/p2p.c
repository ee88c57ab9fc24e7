/* SPDX-License-Identifier: BSD-3-Clause */
/* Point to point: endpoints, and matching (matching.h). */
#include "p2p.h"
#include "matching.h"
#include <stdlib.h>

struct peer {
    struct rcmi_endpoint endpoint;
    bool active;
    /* Set by the loop thread, taken by the driver (exchange); then the next such peer. */
    _Atomic bool wanted;
    struct peer *next_wanted;
};

struct rcmi_p2p {
    struct rcmi_messaging messaging;
    int nranks;
    struct peer *peers;
    int *active, nactive; /* ranks whose endpoints are in use */
    int turn;             /* which of them is visited first */
    struct peer *_Atomic wanted;
    bool all_open; /* channels from all peers are open */
    struct rcmi_matching matching;
    struct rcmi_operations operations;
    struct rcmi_transfers probes;
};

/* ---- Callbacks of endpoints ------------------------------------------------------------------ */

static struct rcmi_transfer *p2p_match(void *arg, int peer, uint64_t tag) {
    struct rcmi_p2p *p2p = arg;
    return rcmi_matching_take_receive(&p2p->matching, peer, tag);
}

static const struct rcmi_transfer *p2p_next(void *arg, int peer) {
    const struct rcmi_p2p *p2p = arg;
    const struct rcmi_transfer *t = p2p->matching.posted.head;
    return t && t->peer == peer ? t : NULL;
}

static rcm_status p2p_keep(void *arg, const struct rcmi_arrival *arrival) {
    struct rcmi_p2p *p2p = arg;
    return rcmi_matching_keep(&p2p->matching, arrival);
}

/* ---- Creation and end ------------------------------------------------------------------------ */

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
    p2p->operations = (struct rcmi_operations){
        .device = messaging->device, .wake = messaging->wake, .arg = messaging->wake_arg};
    p2p->messaging.operations = &p2p->operations;
    p2p->messaging.arg = p2p;
    p2p->messaging.match = p2p_match;
    p2p->messaging.keep = p2p_keep;
    p2p->messaging.next = p2p_next;
    p2p->nranks = nranks;
    rcmi_matching_init(&p2p->matching);
    rcmi_transfers_init(&p2p->probes);
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
    rcmi_matching_fini(&p2p->matching);
    rcmi_messaging_settle(&p2p->messaging);
    free(p2p->peers);
    free(p2p->active);
    free(p2p);
}

/* ---- Driver ---------------------------------------------------------------------------------- */

/* The endpoint of a peer, which is visited from now on. */
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

/* Opens channels from all possible senders, so that the death of each is detected. */
static rcm_status p2p_open(struct rcmi_p2p *p2p, int peer) {
    rcm_status status = RCM_OK;
    if (peer != RCM_ANY_SOURCE)
        return rcmi_endpoint_open(p2p_activate(p2p, peer));
    for (int r = 0; status == RCM_OK && !p2p->all_open && r < p2p->nranks; r++)
        status = rcmi_endpoint_open(p2p_activate(p2p, r));
    p2p->all_open = status == RCM_OK;
    return status;
}

/* Delivers a message, whose memory the endpoint then owns. */
static rcm_status p2p_deliver(struct rcmi_p2p *p2p, struct rcmi_transfer *t,
                              struct rcmi_unexpected *message) {
    t->message = NULL;
    return rcmi_endpoint_receive(&p2p->peers[message->arrival.peer].endpoint, t, &message->arrival,
                                 message);
}

static rcm_status p2p_receive_aside(struct rcmi_p2p *p2p, struct rcmi_transfer *t) {
    struct rcmi_unexpected *message = rcmi_matching_take_aside(&p2p->matching, t->message);
    if (message)
        return p2p_deliver(p2p, t, message);
    rcmi_fail(RCM_ERR_INVALID, 0,
              "matched %p is not a message of this communicator, or was received before",
              t->message);
    p2p->messaging.completed(t, RCM_ERR_INVALID);
    return RCM_OK;
}

rcm_status rcmi_p2p_receive(struct rcmi_p2p *p2p, struct rcmi_transfer *t) {
    if (t->message)
        return p2p_receive_aside(p2p, t);
    struct rcmi_unexpected *message = rcmi_matching_find(&p2p->matching, t->peer, t->tag);
    if (!message) {
        rcmi_matching_post(&p2p->matching, t);
        return p2p_open(p2p, t->peer);
    }
    rcmi_matching_take(&p2p->matching, message);
    return p2p_deliver(p2p, t, message);
}

rcm_status rcmi_p2p_probe(struct rcmi_p2p *p2p, struct rcmi_transfer *t) {
    rcmi_transfers_append(&p2p->probes, t);
    return p2p_open(p2p, t->peer);
}

static void p2p_take_back(struct rcmi_p2p *p2p, struct rcmi_transfer *t, const char *why) {
    if (t->peer != RCM_ANY_SOURCE)
        rcmi_endpoint_withdraw(&p2p->peers[t->peer].endpoint);
    rcmi_matching_unpost(&p2p->matching, t);
    rcmi_fail(RCM_ERR_CANCELED, 0, "%s", why);
    p2p->messaging.completed(t, RCM_ERR_CANCELED);
}

bool rcmi_p2p_take_back(struct rcmi_p2p *p2p, struct rcmi_transfer *t) {
    if (t->order == 0)
        return false;
    p2p_take_back(p2p, t, "it was canceled before a message came");
    return true;
}

void rcmi_p2p_drop_receives(struct rcmi_p2p *p2p, const char *why) {
    while (p2p->matching.posted.head)
        p2p_take_back(p2p, p2p->matching.posted.head, why);
}

void rcmi_p2p_wanted(struct rcmi_p2p *p2p, int peer) {
    struct peer *p = &p2p->peers[peer];
    if (atomic_exchange_explicit(&p->wanted, true, memory_order_acquire))
        return;
    p->next_wanted = atomic_load_explicit(&p2p->wanted, memory_order_relaxed);
    /* Release pairs with the exchange in p2p_open_wanted. */
    while (!atomic_compare_exchange_weak_explicit(&p2p->wanted, &p->next_wanted, p,
                                                  memory_order_release, memory_order_relaxed))
        continue;
}

bool rcmi_p2p_is_wanted(const struct rcmi_p2p *p2p) {
    return atomic_load_explicit(&p2p->wanted, memory_order_relaxed) != NULL;
}

static rcm_status p2p_open_wanted(struct rcmi_p2p *p2p) {
    rcm_status status = RCM_OK;
    /* A plain look first: an exchange on every pass would cost an atomic operation. */
    if (!rcmi_p2p_is_wanted(p2p))
        return RCM_OK;
    struct peer *p = atomic_exchange_explicit(&p2p->wanted, NULL, memory_order_acquire);
    while (p && status == RCM_OK) {
        struct peer *next = p->next_wanted;
        /* From now on it may be added again. */
        atomic_store_explicit(&p->wanted, false, memory_order_release);
        status = rcmi_endpoint_open(p2p_activate(p2p, p->endpoint.peer));
        p = next;
    }
    return status;
}

static rcm_status p2p_progress_active(struct rcmi_p2p *p2p, int from, int to, bool *moved) {
    rcm_status status = RCM_OK;
    for (int i = from; status == RCM_OK && i < to; i++)
        status = rcmi_endpoint_progress(&p2p->peers[p2p->active[i]].endpoint, moved);
    return status;
}

static void probe_end(struct rcmi_p2p *p2p, struct rcmi_transfer *t, rcm_status status) {
    rcmi_transfers_remove(&p2p->probes, t);
    p2p->messaging.completed(t, status);
}

static void probe_found(struct rcmi_p2p *p2p, struct rcmi_transfer *t,
                        struct rcmi_unexpected *message) {
    t->peer = message->arrival.peer;
    t->tag = message->arrival.tag;
    t->total = message->arrival.total;
    t->came = message->arrival.dtype;
    if (t->probe & RCMI_PROBE_TAKE) {
        rcmi_matching_set_aside(&p2p->matching, message);
        t->message = message;
    }
    probe_end(p2p, t, RCM_OK);
}

static void p2p_progress_probes(struct rcmi_p2p *p2p, bool *moved) {
    for (struct rcmi_transfer *t = p2p->probes.head, *next; t; t = next) {
        struct rcmi_unexpected *message = rcmi_matching_find(&p2p->matching, t->peer, t->tag);
        next = t->next;
        *moved = *moved || message;
        if (message)
            probe_found(p2p, t, message);
        else if (t->probe & RCMI_PROBE_ONCE)
            probe_end(p2p, t, RCM_AGAIN);
    }
}

/* The first peer rotates: a receive of any source may find messages of all. */
rcm_status rcmi_p2p_progress(struct rcmi_p2p *p2p, bool *moved) {
    rcm_status status = p2p_open_wanted(p2p);
    const int n = p2p->nactive, first = p2p->turn < n ? p2p->turn : 0;
    p2p->turn = first + 1;
    if (status == RCM_OK)
        status = p2p_progress_active(p2p, first, n, moved);
    if (status == RCM_OK)
        status = p2p_progress_active(p2p, 0, first, moved);
    if (status == RCM_OK)
        p2p_progress_probes(p2p, moved);
    return status;
}

static bool channel_failed_here(const struct rcmi_channel *channel) {
    return channel &&
           atomic_load_explicit(&channel->state, memory_order_relaxed) == RCM_ERR_INVALID;
}

struct rcmi_transfer *rcmi_p2p_at_fault(const struct rcmi_p2p *p2p) {
    for (int i = 0; i < p2p->nactive; i++) {
        const struct rcmi_endpoint *e = &p2p->peers[p2p->active[i]].endpoint;
        if (channel_failed_here(e->main.tx))
            return e->main.draining.head  ? e->main.draining.head
                   : e->main.sending.head ? e->main.sending.head
                                          : e->outgoing.head;
        if (channel_failed_here(e->main.rx))
            return e->main.receiving.head ? e->main.receiving.head : p2p->matching.posted.head;
    }
    return NULL;
}

void rcmi_p2p_cancel(struct rcmi_p2p *p2p, rcm_status status) {
    for (int r = 0; r < p2p->nranks; r++)
        rcmi_endpoint_cancel(&p2p->peers[r].endpoint, status);
    struct rcmi_transfer *t;
    while ((t = p2p->matching.posted.head)) {
        rcmi_matching_unpost(&p2p->matching, t);
        p2p->messaging.completed(t, status);
    }
    while ((t = p2p->probes.head))
        probe_end(p2p, t, status);
}

bool rcmi_p2p_quiesce(struct rcmi_p2p *p2p) {
    rcmi_messaging_give_up(&p2p->messaging);
    return rcmi_messaging_is_quiet(&p2p->messaging);
}

void rcmi_p2p_each(struct rcmi_p2p *p2p, bool (*visit)(void *arg, struct rcmi_transfer *t),
                   void *arg) {
    const struct rcmi_transfers *const lists[] = {&p2p->matching.posted, &p2p->probes};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (struct rcmi_transfer *t = lists[i]->head; t; t = t->next)
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
    return p2p->matching.messages.n > 0 ? NULL : &p2p->peers[peer].endpoint;
}
