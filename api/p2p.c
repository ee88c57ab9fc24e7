/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point: send and receive with tags, over one channel per ordered pair of ranks.
 *
 *   sender                                       receiver
 *   small:  EAGER(tag, total, bytes)       -->   matched: copied to the buffer; else kept aside
 *           BARE(tag; bytes)               -->   the same without a header: its tag is its id
 *   large:  RTS(id, tag, total)            -->   matched: buffer found; else noted
 *                                          <--   CTS(id)
 *           DATA(id, bytes) ... DATA(id)   -->   into the buffer
 *                                          <--   CREDIT(bytes): so many eager bytes were taken
 *   large within a machine, or of no bytes:
 *           RTS(id, tag, total, from)      -->   matched: copied from there (p2p_get.c)
 *                                          <--   ACK(id)
 *
 * EAGER, BARE and RTS go out in the order of the sends, so matching is in order per tag.
 * Everything that arrives can be taken at once, so one message never blocks another: data only come
 * for messages that have a buffer, and what is kept aside is bounded by a budget of bytes per pair
 * (beyond it, small messages go by rendezvous too) and by a number of RTS in all. The receiver
 * counts too: more eager bytes than the budget, or RTS without end, are an error. The
 * kind and the id travel in the slot's meta word, so DATA slots hold nothing but data and can be
 * received straight into place.
 *
 * What is small is said by constants (transport/protocol.h, p2p_internal.h). A blocking call with
 * nothing else under way needs no work for a small message (p2p_direct.c).
 *
 * Posted receives and unexpected messages are kept in one list each, in order of arrival, whoever
 * the peer is: a receive from any source is a match without comparing the source.
 */
#include "p2p_internal.h"
#include <stdlib.h>
#include <string.h>

/* ---- Life ---------------------------------------------------------------------------------- */

static size_t budget_of(size_t nranks) {
    const size_t share = BUDGET_TOTAL / nranks;
    return share > BUDGET_MAX ? BUDGET_MAX : share < BUDGET_MIN ? BUDGET_MIN : share;
}

rcm_status rcmi_p2p_create(rcm_comm *comm, struct rcmi_p2p **ret_p2p) {
    struct rcmi_p2p *p2p = calloc(1, sizeof(*p2p));
    const size_t n = (size_t)comm->size;
    if (p2p) {
        p2p->pairs = calloc(n, sizeof(*p2p->pairs));
        p2p->active = calloc(n, sizeof(*p2p->active));
    }
    if (!p2p || !p2p->pairs || !p2p->active) {
        rcmi_p2p_free(p2p);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for point to point among %d ranks",
                         comm->size);
    }
    p2p->comm = comm;
    p2p->budget = budget_of(n);
    p2p->protocol = rcmi_node_protocol(comm->engine->node);
    list_init(&p2p->posted);
    p2p->unexpected_end = &p2p->unexpected;
    for (size_t r = 0; r < n; r++) {
        struct pair *pair = &p2p->pairs[r];
        list_init(&pair->outgoing);
        list_init(&pair->sending);
        list_init(&pair->receiving);
        pair->cts_end = &pair->cts;
    }
    *ret_p2p = p2p;
    return RCM_OK;
}

static void pair_free(struct pair *pair) {
    while (pair->cts) {
        struct cts *cts = pair->cts;
        pair->cts = cts->next;
        free(cts);
    }
    rcmi_channel_close(pair->tx);
    rcmi_channel_close(pair->rx);
}

void rcmi_p2p_free(struct rcmi_p2p *p2p) {
    if (!p2p)
        return;
    for (int r = 0; p2p->comm && r < p2p->comm->size; r++)
        pair_free(&p2p->pairs[r]);
    while (p2p->unexpected) {
        struct unexpected *message = p2p->unexpected;
        p2p->unexpected = message->next;
        free(message);
    }
    free(p2p->pairs);
    free(p2p->active);
    free(p2p);
}

/* ---- Channels ------------------------------------------------------------------------------ */

static void pair_activate(struct rcmi_p2p *p2p, int peer) {
    struct pair *pair = &p2p->pairs[peer];
    if (pair->active)
        return;
    p2p->active[p2p->nactive++] = peer;
    pair->active = true;
}

rcm_status rcmi_pair_open_tx(struct rcmi_p2p *p2p, int peer) {
    struct pair *pair = &p2p->pairs[peer];
    pair_activate(p2p, peer);
    if (pair->tx)
        return RCM_OK;
    return rcmi_channel_open_writer(p2p->comm->engine->node, p2p->comm->epoch, RCMI_P2P_CHANNEL,
                                    &p2p->comm->world_rank[peer], 1, &pair->tx);
}

rcm_status rcmi_pair_open_rx(struct rcmi_p2p *p2p, int peer) {
    struct pair *pair = &p2p->pairs[peer];
    pair_activate(p2p, peer);
    if (pair->rx)
        return RCM_OK;
    return rcmi_channel_open_reader(p2p->comm->engine->node, p2p->comm->epoch, RCMI_P2P_CHANNEL,
                                    p2p->comm->world_rank[peer], &pair->rx);
}

void rcmi_p2p_wanted(struct rcmi_p2p *p2p, int peer) {
    /* Release pairs with the exchanges in p2p_open_wanted. */
    atomic_store_explicit(&p2p->pairs[peer].wanted, true, memory_order_release);
    atomic_store_explicit(&p2p->any_wanted, true, memory_order_release);
}

static rcm_status p2p_open_wanted(struct rcmi_p2p *p2p) {
    /* A plain look first: an exchange on every pass would cost an atomic operation. */
    if (!atomic_load_explicit(&p2p->any_wanted, memory_order_relaxed) ||
        !atomic_exchange_explicit(&p2p->any_wanted, false, memory_order_acquire))
        return RCM_OK;
    for (int r = 0; r < p2p->comm->size; r++) {
        if (!atomic_exchange_explicit(&p2p->pairs[r].wanted, false, memory_order_acquire))
            continue;
        rcm_status status = rcmi_pair_open_rx(p2p, r);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

/* ---- For the driver ------------------------------------------------------------------------ */

void rcmi_p2p_post(struct rcmi_p2p *p2p, struct rcm_work *work) {
    const int peer = work->transfer.peer;
    if (work->kind == RCMI_WORK_RECV) {
        rcmi_p2p_post_receive(p2p, work);
        return;
    }
    list_append(&p2p->pairs[peer].outgoing, work);
    /* Answers come on the other channel. */
    if (rcmi_pair_open_rx(p2p, peer) != RCM_OK)
        rcmi_comm_fail(p2p->comm, work);
}

rcm_status rcmi_p2p_progress(struct rcmi_p2p *p2p, bool *moved) {
    rcm_status status = p2p_open_wanted(p2p);
    for (int i = 0; status == RCM_OK && i < p2p->nactive; i++) {
        status = rcmi_pair_drain(p2p, p2p->active[i], moved);
        if (status == RCM_OK)
            status = rcmi_pair_pump(p2p, p2p->active[i], moved);
    }
    return status;
}

static void list_cancel(struct list *list, rcm_status status) {
    while (list->head) {
        struct rcm_work *work = list->head;
        list->head = work->next;
        rcmi_work_complete(work, status);
    }
    list_init(list);
}

void rcmi_p2p_cancel(struct rcmi_p2p *p2p, rcm_status status) {
    for (int r = 0; r < p2p->comm->size; r++) {
        struct pair *pair = &p2p->pairs[r];
        if (pair->posted)
            (void)rcmi_channel_post_receive(pair->rx, NULL);
        pair->posted = false;
        rcmi_channel_close(pair->tx); /* so that nothing sent without a copy is touched any more */
        rcmi_channel_close(pair->rx);
        pair->tx = pair->rx = NULL;
        list_cancel(&pair->outgoing, status);
        list_cancel(&pair->sending, status);
        list_cancel(&pair->receiving, status);
        pair->getting = 0;
    }
    list_cancel(&p2p->posted, status);
}

static bool list_each(struct list *list, bool (*visit)(void *arg, struct rcm_work *work),
                      void *arg) {
    for (struct rcm_work *work = list->head; work; work = work->next)
        if (!visit(arg, work))
            return false;
    return true;
}

void rcmi_p2p_each(struct rcmi_p2p *p2p, bool (*visit)(void *arg, struct rcm_work *work),
                   void *arg) {
    if (!list_each(&p2p->posted, visit, arg))
        return;
    for (int i = 0; i < p2p->nactive; i++) {
        struct pair *pair = &p2p->pairs[p2p->active[i]];
        if (!list_each(&pair->outgoing, visit, arg) || !list_each(&pair->sending, visit, arg) ||
            !list_each(&pair->receiving, visit, arg))
            return;
    }
}
