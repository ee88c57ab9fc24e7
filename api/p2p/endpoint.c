/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: creation and end, and the fast path. The protocol is in endpoint.h. */
#include "endpoint_internal.h"

#define BUDGET_MAX    ((size_t)1 << 20) /* of a peer; with many peers */
#define BUDGET_MIN    ((size_t)1 << 14) /* less for each, so that the total */
#define BUDGET_TOTAL  ((size_t)1 << 26) /* is this, up to 4096 ranks */
#define RTS_TOTAL     ((size_t)1 << 20) /* likewise, up to 1024 ranks */
#define RTS_MAX       ((size_t)1 << 16)
#define RTS_MIN       ((size_t)1 << 10)
#define BARE_MIN      ((size_t)8192)
#define ZERO_COPY_MIN ((size_t)2048)
#define PIECE_MIN     ((size_t)16384)

static size_t share_of(size_t total, size_t nranks, size_t least, size_t most) {
    const size_t share = total / nranks;
    return share > most ? most : share < least ? least : share;
}

void rcmi_messaging_init(struct rcmi_messaging *messaging, bool oversubscribed, size_t nranks) {
    *messaging =
        (struct rcmi_messaging){.oversubscribed = oversubscribed,
                                .budget = share_of(BUDGET_TOTAL, nranks, BUDGET_MIN, BUDGET_MAX),
                                .rts_max = share_of(RTS_TOTAL, nranks, RTS_MIN, RTS_MAX),
                                .bare_min = BARE_MIN,
                                .zero_copy_min = ZERO_COPY_MIN,
                                .piece_min = PIECE_MIN};
}

void rcmi_endpoint_init(struct rcmi_endpoint *e, const struct rcmi_messaging *messaging, int peer) {
    *e = (struct rcmi_endpoint){.messaging = messaging, .peer = peer};
    rcmi_transfers_init(&e->outgoing);
    rcmi_transfers_init(&e->waiting);
    rcmi_transfers_init(&e->getting);
    rcmi_transfers_init(&e->copying);
    for (int kind = 0; kind < RCMI_MEM_KINDS; kind++)
        rcmi_flow_init(&e->flows[kind], (enum rcmi_mem_kind)kind);
}

/* After it no memory sent without a copy is touched any more. Slots of a flow that was given up may
 * be in use, and stay. */
static void flow_close(const struct rcmi_endpoint *e, struct rcmi_flow *flow) {
    if (rcmi_messaging_is_quiet(e->messaging)) {
        e->messaging->close(flow->tx);
        e->messaging->close(flow->rx);
    }
    flow->tx = flow->rx = NULL;
}

static void endpoint_close(struct rcmi_endpoint *e) {
    for (int kind = 0; kind < RCMI_MEM_KINDS; kind++)
        flow_close(e, &e->flows[kind]);
}

void rcmi_endpoint_fini(struct rcmi_endpoint *e) {
    rcmi_keyed_fini(&e->announced);
    endpoint_close(e);
}

rcm_status rcmi_endpoint_open(struct rcmi_endpoint *e) {
    return rcmi_flow_open(e, &e->main, false);
}

rcm_status rcmi_endpoint_send(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcmi_transfers_append(&e->outgoing, t);
    return rcmi_endpoint_open(e); /* answers come on the other channel */
}

rcm_status rcmi_endpoint_progress(struct rcmi_endpoint *e, bool *moved) {
    rcm_status status = rcmi_endpoint_drain(e, moved);
    for (int kind = 0; kind < RCMI_MEM_KINDS && status == RCM_OK; kind++)
        if (&e->flows[kind] != &e->main)
            status = rcmi_flow_drain(e, &e->flows[kind], moved);
    if (status == RCM_OK)
        status = rcmi_endpoint_pump(e, moved);
    for (int kind = 0; kind < RCMI_MEM_KINDS && status == RCM_OK; kind++)
        if (&e->flows[kind] != &e->main)
            status = rcmi_flow_pump(e, &e->flows[kind], moved);
    return status;
}

static void transfers_cancel(const struct rcmi_endpoint *e, struct rcmi_transfers *list,
                             rcm_status status) {
    while (list->head) {
        struct rcmi_transfer *t = list->head;
        list->head = t->next;
        e->messaging->completed(t, status);
    }
    rcmi_transfers_init(list);
}

static void announced_cancel(struct rcmi_endpoint *e, rcm_status status) {
    struct rcmi_keyed_item *item;
    while ((item = rcmi_keyed_any(&e->announced))) {
        rcmi_keyed_remove(&e->announced, item);
        e->messaging->completed(rcmi_transfer_of(item), status);
    }
}

static void flow_cancel(const struct rcmi_endpoint *e, struct rcmi_flow *flow, rcm_status status) {
    struct rcmi_transfer *t = flow->emptying;
    if (t && !t->rendezvous) /* it is in no list */
        e->messaging->completed(t, status);
    flow->filling = flow->emptying = NULL;
    transfers_cancel(e, &flow->owed, status);
    transfers_cancel(e, &flow->receiving, status);
    transfers_cancel(e, &flow->sending, status);
    transfers_cancel(e, &flow->draining, status);
}

enum rcmi_rest rcmi_endpoint_rest(const struct rcmi_endpoint *e) {
    enum rcmi_rest rest = e->main.rx ? rcmi_channel_rest(e->main.rx) : RCMI_REST_UNKNOWN;
    for (int kind = 0; kind < RCMI_MEM_KINDS; kind++)
        if (&e->flows[kind] != &e->main && e->flows[kind].rx)
            rest = rcmi_rest_add(rest, rcmi_channel_rest(e->flows[kind].rx));
    return rest;
}

void rcmi_endpoint_withdraw(struct rcmi_endpoint *e) {
    if (e->posted)
        (void)rcmi_channel_post_receive(e->main.rx, NULL);
    e->posted = false;
}

void rcmi_endpoint_cancel(struct rcmi_endpoint *e, rcm_status status) {
    rcmi_endpoint_withdraw(e);
    endpoint_close(e);
    for (int kind = 0; kind < RCMI_MEM_KINDS; kind++)
        flow_cancel(e, &e->flows[kind], status);
    transfers_cancel(e, &e->outgoing, status);
    announced_cancel(e, status);
    transfers_cancel(e, &e->waiting, status);
    transfers_cancel(e, &e->getting, status);
    transfers_cancel(e, &e->copying, status);
}

static bool transfers_each(const struct rcmi_transfers *list,
                           bool (*visit)(void *arg, struct rcmi_transfer *t), void *arg) {
    for (struct rcmi_transfer *t = list->head; t; t = t->next)
        if (!visit(arg, t))
            return false;
    return true;
}

struct announced_visit {
    bool (*visit)(void *arg, struct rcmi_transfer *t);
    void *arg;
};

static bool announced_visit(void *arg, struct rcmi_keyed_item *item) {
    const struct announced_visit *each = arg;
    return each->visit(each->arg, rcmi_transfer_of(item));
}

static bool flow_each(const struct rcmi_flow *flow,
                      bool (*visit)(void *arg, struct rcmi_transfer *t), void *arg) {
    struct rcmi_transfer *t = flow->emptying;
    return transfers_each(&flow->sending, visit, arg) &&
           transfers_each(&flow->draining, visit, arg) && transfers_each(&flow->owed, visit, arg) &&
           transfers_each(&flow->receiving, visit, arg) && (!t || t->rendezvous || visit(arg, t));
}

bool rcmi_endpoint_each(struct rcmi_endpoint *e, bool (*visit)(void *arg, struct rcmi_transfer *t),
                        void *arg) {
    struct announced_visit each = {.visit = visit, .arg = arg};
    for (int kind = 0; kind < RCMI_MEM_KINDS; kind++)
        if (!flow_each(&e->flows[kind], visit, arg))
            return false;
    return transfers_each(&e->waiting, visit, arg) && transfers_each(&e->outgoing, visit, arg) &&
           transfers_each(&e->getting, visit, arg) && transfers_each(&e->copying, visit, arg) &&
           rcmi_keyed_each(&e->announced, announced_visit, &each);
}

bool rcmi_endpoint_copies(const struct rcmi_endpoint *e) {
    for (int kind = 0; kind < RCMI_MEM_KINDS; kind++)
        if (e->flows[kind].filling || e->flows[kind].emptying)
            return true;
    return e->copying.head;
}

/* ---- The fast path --------------------------------------------------------------------------- */

rcm_status rcmi_endpoint_send_now(struct rcmi_endpoint *e, uint64_t tag, uint8_t dtype,
                                  const struct rcmi_mem *mem) {
    if (!e->main.tx || !e->main.rx || rcmi_endpoint_owes(e) ||
        !rcmi_endpoint_may_be_eager(e, tag, mem->len) || travels_bare(e, tag, mem->len) ||
        eager_waits(e, mem->len))
        return RCM_AGAIN;
    /* The next operation finds a failure again, and reports it. */
    return rcmi_endpoint_put_eager(e, NULL, tag, dtype, mem) == RCM_OK ? RCM_OK : RCM_AGAIN;
}

/* The next operation also finds a failure of this one. */
static void endpoint_give_credit(struct rcmi_endpoint *e) {
    bool moved = false;
    if (e->eager_in >= e->messaging->budget / 4)
        (void)rcmi_endpoint_pump(e, &moved);
}

rcm_status rcmi_endpoint_receive_now(struct rcmi_endpoint *e, uint64_t tag, uint8_t dtype,
                                     const struct rcmi_mem *mem, struct rcm_message *ret_message) {
    struct header header;
    const char *bytes;
    struct rcmi_slot slot;
    if (!e->main.rx || rcmi_endpoint_owes(e))
        return RCM_AGAIN;
    const rcm_status status = rcmi_channel_peek(e->main.rx, &slot);
    if (status != RCM_OK)
        return status == RCM_AGAIN ? RCM_PENDING : RCM_AGAIN;
    if (!slot.bytes || !eager_open(&slot, &header, &bytes) || header.total > mem->len ||
        (tag != RCM_ANY_TAG && tag != header.tag))
        return RCM_AGAIN;
    const uint8_t came = dtype_of(slot.meta);
    if (came != dtype && header.total > 0 && rcmi_dtypes_differ(came, dtype, header.total))
        return RCM_AGAIN;
    e->posted = false;
    if (ret_message) {
        ret_message->tag = header.tag;
        ret_message->bytes = header.total;
        ret_message->dtype = came;
    }
    struct rcmi_transfer t = {.mem = *mem, .total = header.total};
    (void)rcmi_flow_take(e, &e->main, &t, bytes, header.total); /* host memory: complete at once */
    rcmi_channel_release(e->main.rx);
    e->eager_due += eager_charge(header.total);
    e->eager_in += eager_charge(header.total);
    endpoint_give_credit(e);
    return RCM_OK;
}

bool rcmi_endpoint_shares_memory(const struct rcmi_endpoint *e) {
    return e->main.rx && shares_slots(e->main.rx);
}
