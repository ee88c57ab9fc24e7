/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: life, and the short way. The protocol is in endpoint.h. */
#include "endpoint_internal.h"

#define BUDGET_MAX    ((size_t)1 << 20) /* of a peer; where there are many */
#define BUDGET_MIN    ((size_t)1 << 14) /* less each, so that all together */
#define BUDGET_TOTAL  ((size_t)1 << 26) /* are this much, up to 4096 ranks */
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

void rcmi_messaging_init(struct rcmi_messaging *messaging, const struct rcmi_protocol *protocol,
                         bool oversubscribed, size_t nranks) {
    *messaging =
        (struct rcmi_messaging){.protocol = protocol,
                                .oversubscribed = oversubscribed,
                                .budget = share_of(BUDGET_TOTAL, nranks, BUDGET_MIN, BUDGET_MAX),
                                .rts_max = share_of(RTS_TOTAL, nranks, RTS_MIN, RTS_MAX),
                                .bare_min = BARE_MIN,
                                .zero_copy_min = ZERO_COPY_MIN,
                                .piece_min = PIECE_MIN};
}

void rcmi_endpoint_init(struct rcmi_endpoint *e, const struct rcmi_messaging *messaging, int peer) {
    *e = (struct rcmi_endpoint){.messaging = messaging, .peer = peer};
    rcmi_transfers_init(&e->outgoing);
    rcmi_transfers_init(&e->answered);
    rcmi_transfers_init(&e->sending);
    rcmi_transfers_init(&e->draining);
    rcmi_transfers_init(&e->receiving);
    rcmi_transfers_init(&e->getting);
    rcmi_transfers_init(&e->copying);
    rcmi_transfers_init(&e->fenced);
    rcmi_endpoint_device_init(e);
}

static void endpoint_close(struct rcmi_endpoint *e) {
    struct rcmi_endpoint_device *device = &e->device;
    if (!rcmi_messaging_is_quiet(e->messaging)) /* given up: slots may be in use */
        e->tx = e->rx = device->tx = device->rx = NULL;
    e->messaging->close(e->tx); /* so that nothing sent without a copy is touched any more */
    e->messaging->close(e->rx);
    e->messaging->close(device->tx);
    e->messaging->close(device->rx);
    e->tx = e->rx = device->tx = device->rx = NULL;
}

void rcmi_endpoint_fini(struct rcmi_endpoint *e) {
    rcmi_keyed_fini(&e->announced);
    endpoint_close(e);
}

rcm_status rcmi_endpoint_open(struct rcmi_endpoint *e) {
    return e->rx
               ? RCM_OK
               : e->messaging->open(e->messaging->open_arg, e->peer, RCMI_MEM_HOST, false, &e->rx);
}

rcm_status rcmi_endpoint_send(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcmi_transfers_append(&e->outgoing, t);
    return rcmi_endpoint_open(e); /* answers come on the other channel */
}

rcm_status rcmi_endpoint_progress(struct rcmi_endpoint *e, bool *moved) {
    rcm_status status = rcmi_endpoint_drain(e, moved);
    if (status == RCM_OK)
        status = rcmi_endpoint_device_drain(e, moved);
    if (status == RCM_OK)
        status = rcmi_endpoint_pump(e, moved);
    return status == RCM_OK ? rcmi_endpoint_device_pump(e, moved) : status;
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

/* Of copies that are not in another list. */
static void copies_cancel(struct rcmi_endpoint *e, rcm_status status) {
    struct rcmi_transfer *t = e->copy_in;
    if (t && !t->rendezvous)
        e->messaging->completed(t, status);
    e->copy_in = e->copy_out = NULL;
    e->device.copy_in = NULL;
    e->device.out_runs = false;
    transfers_cancel(e, &e->copying, status);
}

void rcmi_endpoint_withdraw(struct rcmi_endpoint *e) {
    if (e->posted)
        (void)rcmi_channel_post_receive(e->rx, NULL);
    e->posted = false;
}

void rcmi_endpoint_cancel(struct rcmi_endpoint *e, rcm_status status) {
    rcmi_endpoint_withdraw(e);
    copies_cancel(e, status);
    endpoint_close(e);
    transfers_cancel(e, &e->outgoing, status);
    announced_cancel(e, status);
    transfers_cancel(e, &e->answered, status);
    transfers_cancel(e, &e->sending, status);
    transfers_cancel(e, &e->draining, status);
    transfers_cancel(e, &e->receiving, status);
    transfers_cancel(e, &e->getting, status);
    transfers_cancel(e, &e->fenced, status);
    e->owed = NULL;
    transfers_cancel(e, &e->device.owed, status);
    transfers_cancel(e, &e->device.receiving, status);
    transfers_cancel(e, &e->device.sending, status);
    transfers_cancel(e, &e->device.draining, status);
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

bool rcmi_endpoint_each(struct rcmi_endpoint *e, bool (*visit)(void *arg, struct rcmi_transfer *t),
                        void *arg) {
    const struct rcmi_transfers *const lists[] = {
        &e->answered,       &e->sending,         &e->draining,    &e->outgoing,
        &e->receiving,      &e->getting,         &e->copying,     &e->fenced,
        &e->device.sending, &e->device.draining, &e->device.owed, &e->device.receiving};
    struct announced_visit each = {.visit = visit, .arg = arg};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (!transfers_each(lists[i], visit, arg))
            return false;
    return rcmi_keyed_each(&e->announced, announced_visit, &each) &&
           (!e->copy_in || e->copy_in->rendezvous || visit(arg, e->copy_in));
}

/* ---- The short way ------------------------------------------------------------------------- */

rcm_status rcmi_endpoint_send_now(struct rcmi_endpoint *e, uint64_t tag,
                                  const struct rcmi_mem *mem) {
    if (!e->tx || !e->rx || e->owed || e->device.owed.head ||
        !rcmi_endpoint_may_be_eager(e, tag, mem->len) || travels_bare(e, tag, mem->len) ||
        eager_waits(e, mem->len))
        return RCM_AGAIN;
    /* Its failure is found again, and told, by the next operation. */
    return rcmi_endpoint_put_eager(e, tag, mem) == RCM_OK ? RCM_OK : RCM_AGAIN;
}

/* Its failure, too. */
static void endpoint_give_credit(struct rcmi_endpoint *e) {
    bool moved = false;
    if (e->eager_in >= e->messaging->budget / 4)
        (void)rcmi_endpoint_pump(e, &moved);
}

rcm_status rcmi_endpoint_receive_now(struct rcmi_endpoint *e, uint64_t *tag,
                                     const struct rcmi_mem *mem, size_t *ret_total) {
    struct header header;
    const char *bytes;
    struct rcmi_slot slot;
    if (!e->rx || e->owed || e->device.owed.head)
        return RCM_AGAIN;
    const rcm_status status = rcmi_channel_peek(e->rx, &slot);
    if (status != RCM_OK)
        return status == RCM_AGAIN ? RCM_PENDING : RCM_AGAIN;
    if (!slot.bytes || !eager_open(&slot, &header, &bytes) || header.total > mem->len ||
        (*tag != RCM_ANY_TAG && *tag != header.tag))
        return RCM_AGAIN;
    e->posted = false;
    *tag = header.tag;
    *ret_total = header.total;
    struct rcmi_transfer t = {.mem = *mem, .total = header.total};
    rcmi_receive_bytes(e, &t, bytes, header.total);
    rcmi_channel_release(e->rx);
    e->eager_due += eager_charge(header.total);
    e->eager_in += eager_charge(header.total);
    endpoint_give_credit(e);
    return RCM_OK;
}

bool rcmi_endpoint_shares_memory(const struct rcmi_endpoint *e) {
    return e->rx && shares_slots(e->rx);
}
