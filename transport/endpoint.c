/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: life, and the short way. The protocol is in endpoint.h. */
#include <stdlib.h>
#include "endpoint_internal.h"

#define BUDGET_MAX    ((size_t)1 << 20) /* of a peer; where there are many */
#define BUDGET_MIN    ((size_t)1 << 14) /* less each, so that all together */
#define BUDGET_TOTAL  ((size_t)1 << 26) /* are this much, up to 4096 ranks */
#define BARE_MIN      ((size_t)8192)
#define ZERO_COPY_MIN ((size_t)2048)
#define PIECE_MIN     ((size_t)16384)

static size_t budget_of(size_t nranks) {
    const size_t share = BUDGET_TOTAL / nranks;
    return share > BUDGET_MAX ? BUDGET_MAX : share < BUDGET_MIN ? BUDGET_MIN : share;
}

void rcmi_messaging_init(struct rcmi_messaging *messaging, const struct rcmi_protocol *protocol,
                         bool oversubscribed, size_t nranks) {
    *messaging = (struct rcmi_messaging){.protocol = protocol,
                                         .oversubscribed = oversubscribed,
                                         .budget = budget_of(nranks),
                                         .bare_min = BARE_MIN,
                                         .zero_copy_min = ZERO_COPY_MIN,
                                         .piece_min = PIECE_MIN};
}

void rcmi_endpoint_init(struct rcmi_endpoint *e, const struct rcmi_messaging *messaging, int peer) {
    *e = (struct rcmi_endpoint){.messaging = messaging, .peer = peer};
    rcmi_transfers_init(&e->outgoing);
    rcmi_transfers_init(&e->sending);
    rcmi_transfers_init(&e->receiving);
    e->cts_end = &e->cts;
}

static void endpoint_close(struct rcmi_endpoint *e) {
    e->messaging->close(e->tx); /* so that nothing sent without a copy is touched any more */
    e->messaging->close(e->rx);
    e->tx = e->rx = NULL;
}

void rcmi_endpoint_fini(struct rcmi_endpoint *e) {
    while (e->cts) {
        struct rcmi_cts *cts = e->cts;
        e->cts = cts->next;
        free(cts);
    }
    endpoint_close(e);
}

rcm_status rcmi_endpoint_open(struct rcmi_endpoint *e) {
    return e->rx ? RCM_OK : e->messaging->open(e->messaging->open_arg, e->peer, false, &e->rx);
}

rcm_status rcmi_endpoint_send(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcmi_transfers_append(&e->outgoing, t);
    return rcmi_endpoint_open(e); /* answers come on the other channel */
}

rcm_status rcmi_endpoint_progress(struct rcmi_endpoint *e, bool *moved) {
    const rcm_status status = rcmi_endpoint_drain(e, moved);
    return status == RCM_OK ? rcmi_endpoint_pump(e, moved) : status;
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

void rcmi_endpoint_cancel(struct rcmi_endpoint *e, rcm_status status) {
    if (e->posted)
        (void)rcmi_channel_post_receive(e->rx, NULL);
    e->posted = false;
    endpoint_close(e);
    transfers_cancel(e, &e->outgoing, status);
    transfers_cancel(e, &e->sending, status);
    transfers_cancel(e, &e->receiving, status);
    e->getting = 0;
}

static bool transfers_each(const struct rcmi_transfers *list,
                           bool (*visit)(void *arg, struct rcmi_transfer *t), void *arg) {
    for (struct rcmi_transfer *t = list->head; t; t = t->next)
        if (!visit(arg, t))
            return false;
    return true;
}

bool rcmi_endpoint_each(struct rcmi_endpoint *e, bool (*visit)(void *arg, struct rcmi_transfer *t),
                        void *arg) {
    return transfers_each(&e->outgoing, visit, arg) && transfers_each(&e->sending, visit, arg) &&
           transfers_each(&e->receiving, visit, arg);
}

/* ---- The short way ------------------------------------------------------------------------- */

rcm_status rcmi_endpoint_send_now(struct rcmi_endpoint *e, uint64_t tag,
                                  const struct rcmi_mem *mem) {
    if (!e->tx || !e->rx || e->cts || !rcmi_endpoint_may_be_eager(e, tag, mem->len) ||
        travels_bare(e, tag, mem->len) || eager_waits(e, mem->len))
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

rcm_status rcmi_endpoint_receive_now(struct rcmi_endpoint *e, uint64_t tag,
                                     const struct rcmi_mem *mem) {
    struct header header;
    const char *bytes;
    struct rcmi_slot slot;
    if (!e->rx || e->cts)
        return RCM_AGAIN;
    const rcm_status status = rcmi_channel_peek(e->rx, &slot);
    if (status != RCM_OK)
        return status == RCM_AGAIN ? RCM_PENDING : RCM_AGAIN;
    if (!slot.bytes || !eager_open(&slot, &header, &bytes) || header.total > mem->len ||
        (tag != RCM_ANY_TAG && tag != header.tag))
        return RCM_AGAIN;
    e->posted = false;
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
