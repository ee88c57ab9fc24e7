/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point: send and receive with tags, over one channel per ordered pair of ranks.
 *
 *   sender                                       receiver
 *   small:  EAGER(tag, total, bytes)       -->   matched: copied to the buffer; else kept aside
 *   large:  ANNOUNCE(id, tag, total)       -->   matched: buffer found; else noted
 *                                          <--   READY(id)
 *           DATA(id, bytes) ... DATA(id)   -->   into the buffer
 *                                          <--   CREDIT(bytes): so many eager bytes were taken
 *
 * EAGER and ANNOUNCE go out in the order of the sends, so matching is in order per tag. Everything
 * that arrives can be taken at once, so one message never blocks another: data only come for
 * messages that have a buffer, and what is kept aside is bounded by a budget of bytes per pair
 * (beyond it, small messages are announced too) and by a number of announcements in all. The
 * receiver counts too: who sends more than the budget, or announces without end, is an error. The
 * kind and the id travel in the slot's meta word, so DATA slots hold nothing but data and can be
 * received straight into place.
 *
 * Posted receives and unexpected messages are kept in one list each, in order of arrival, whoever
 * the peer is: a receive from any source is a match without comparing the source.
 */
#include "comm.h"
#include "kernels.h"
#include <stdlib.h>
#include <string.h>

#define EAGER_MAX      ((size_t)8192)
#define BUDGET_MAX     ((size_t)1 << 18) /* of a pair; where there are many pairs */
#define BUDGET_MIN     ((size_t)1 << 14) /* less each, so that all together */
#define BUDGET_TOTAL   ((size_t)1 << 26) /* are this much, up to 4096 ranks */
#define ANNOUNCED_MAX  ((size_t)1 << 20) /* that no receive was posted for */
#define EAGER_OVERHEAD ((size_t)64)
#define LEND_MIN       ((size_t)2048)

enum kind { KIND_EAGER = 1, KIND_ANNOUNCE, KIND_READY, KIND_DATA, KIND_CREDIT };

enum stage { STAGE_NEW, STAGE_ANNOUNCED, STAGE_DATA, STAGE_DRAIN };

struct header {
    uint64_t tag, total;
};

struct list {
    struct rcm_work *head, **end;
};

struct unexpected {
    struct unexpected *next;
    int peer;
    bool announced;
    uint32_t id;
    struct header header;
    char bytes[];
};

struct ready {
    struct ready *next;
    uint32_t id;
};

struct pair {
    struct rcmi_channel *tx, *rx;
    struct list outgoing; /* not yet announced, in order */
    struct list sending;  /* announced or sending */
    struct list receiving;
    struct ready *ready, **ready_end; /* READY messages to be sent */
    uint32_t next_id;
    size_t eager_out; /* eager bytes sent for which no credit came back */
    size_t eager_in;  /* eager bytes taken for which no credit was given */
    size_t eager_due; /* eager bytes arrived for which no credit was given: the peer's eager_out, or
                         less */
    bool expecting, cannot_lend, active;
    _Atomic bool wanted; /* set by the loop thread, taken by the driver (exchange) */
};

struct rcmi_p2p {
    rcm_comm *comm;
    struct pair *pairs;
    int *active, nactive; /* ranks with an open channel */
    _Atomic bool any_wanted;
    struct list posted;
    struct unexpected *unexpected, **unexpected_end;
    size_t announced; /* of those, without their bytes */
    size_t budget;    /* eager bytes of a pair; the same on all ranks */
};

/* ---- Lists --------------------------------------------------------------------------------- */

static void list_init(struct list *list) {
    list->head = NULL;
    list->end = &list->head;
}

static void list_append(struct list *list, struct rcm_work *work) {
    work->next = NULL;
    *list->end = work;
    list->end = &work->next;
}

static void list_remove(struct list *list, struct rcm_work **at) {
    *at = (*at)->next;
    if (!*at)
        list->end = at;
}

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
    list_init(&p2p->posted);
    p2p->unexpected_end = &p2p->unexpected;
    for (size_t r = 0; r < n; r++) {
        struct pair *pair = &p2p->pairs[r];
        list_init(&pair->outgoing);
        list_init(&pair->sending);
        list_init(&pair->receiving);
        pair->ready_end = &pair->ready;
    }
    *ret_p2p = p2p;
    return RCM_OK;
}

static void pair_free(struct pair *pair) {
    while (pair->ready) {
        struct ready *ready = pair->ready;
        pair->ready = ready->next;
        free(ready);
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
    if (!p2p->pairs[peer].active)
        p2p->active[p2p->nactive++] = peer;
    p2p->pairs[peer].active = true;
}

static rcm_status pair_open_tx(struct rcmi_p2p *p2p, int peer) {
    struct pair *pair = &p2p->pairs[peer];
    pair_activate(p2p, peer);
    if (pair->tx)
        return RCM_OK;
    return rcmi_channel_open_writer(p2p->comm->engine->node, p2p->comm->epoch, RCMI_P2P_CHANNEL,
                                    &p2p->comm->world_rank[peer], 1, &pair->tx);
}

static rcm_status pair_open_rx(struct rcmi_p2p *p2p, int peer) {
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
        rcm_status status = pair_open_rx(p2p, r);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

/* Between kind and id stand 24 bits that follow from both, so that a damaged word is noticed. */
static uint64_t meta_of(enum kind kind, uint32_t id) {
    const uint64_t word = (uint64_t)kind << 56 | id;
    return word | word * UINT64_C(0x9e3779b97f4a7c15) >> 40 << 32;
}

/* Sends a message of at most one slot, `len` bytes in two parts. */
static rcm_status pair_put(struct pair *pair, uint64_t meta, const void *head, size_t head_len,
                           const void *body, size_t body_len) {
    void *slot;
    rcm_status status = rcmi_channel_reserve(pair->tx, &slot);
    if (status != RCM_OK)
        return status;
    if (head_len)
        memcpy(slot, head, head_len);
    if (body_len)
        rcmi_copy_streaming((char *)slot + head_len, body, body_len);
    rcmi_channel_commit(pair->tx, head_len + body_len, meta);
    return RCM_OK;
}

/* ---- Sending ------------------------------------------------------------------------------- */

/* What an eager message takes of the budget: what is kept aside of an empty one is not nothing. */
static size_t eager_charge(size_t total) {
    return total + EAGER_OVERHEAD;
}

static bool pair_may_be_eager(const struct rcmi_p2p *p2p, const struct pair *pair, size_t total) {
    return total <= EAGER_MAX && total + sizeof(struct header) <= p2p->comm->slot_bytes &&
           pair->eager_out + eager_charge(total) <= p2p->budget;
}

static rcm_status pair_announce(struct rcmi_p2p *p2p, struct pair *pair, struct rcm_work *work) {
    struct rcmi_transfer *t = &work->transfer;
    const struct header header = {.tag = t->tag, .total = t->total};
    if (pair_may_be_eager(p2p, pair, t->total)) {
        rcm_status status =
            pair_put(pair, meta_of(KIND_EAGER, 0), &header, sizeof(header), t->buffer, t->total);
        if (status != RCM_OK)
            return status;
        pair->eager_out += eager_charge(t->total);
        list_remove(&pair->outgoing, &pair->outgoing.head);
        rcmi_work_complete(work, RCM_OK);
        return RCM_OK;
    }
    rcm_status status =
        pair_put(pair, meta_of(KIND_ANNOUNCE, pair->next_id), &header, sizeof(header), NULL, 0);
    if (status != RCM_OK)
        return status;
    t->id = pair->next_id++;
    t->stage = STAGE_ANNOUNCED;
    list_remove(&pair->outgoing, &pair->outgoing.head);
    list_append(&pair->sending, work);
    return RCM_OK;
}

/* How long the next piece is of a message of which so much is left. Both ends have seen messages on
 * the channel before, so it is ready and its slots have their size. */
static size_t piece_bytes(const struct rcmi_channel *channel, size_t left) {
    return left < channel->slot_bytes ? left : channel->slot_bytes;
}

/* Sends the next piece of a message that the receiver is ready for. */
static rcm_status pair_send_data(struct pair *pair, struct rcmi_transfer *t) {
    const size_t len = piece_bytes(pair->tx, t->total - t->done);
    const uint64_t meta = meta_of(KIND_DATA, t->id);
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (!pair->cannot_lend && len >= LEND_MIN) {
        status = rcmi_channel_lend(pair->tx, t->buffer + t->done, len, meta);
        pair->cannot_lend = status == RCM_ERR_UNSUPPORTED;
    }
    if (status == RCM_ERR_UNSUPPORTED)
        status = pair_put(pair, meta, NULL, 0, t->buffer + t->done, len);
    if (status == RCM_OK)
        t->done += len;
    return status;
}

static rcm_status pair_pump_sends(struct pair *pair, bool *moved) {
    struct rcm_work **at = &pair->sending.head;
    while (*at) {
        struct rcm_work *work = *at;
        struct rcmi_transfer *t = &work->transfer;
        while (t->stage == STAGE_DATA && t->done < t->total) {
            rcm_status status = pair_send_data(pair, t);
            if (status != RCM_OK)
                return status;
            *moved = true;
        }
        if (t->stage == STAGE_DATA)
            t->stage = STAGE_DRAIN;
        if (t->stage == STAGE_DRAIN && rcmi_channel_quiet(pair->tx)) {
            list_remove(&pair->sending, at);
            rcmi_work_complete(work, RCM_OK);
            *moved = true;
        } else {
            at = &work->next;
        }
    }
    return RCM_OK;
}

static rcm_status pair_pump_ready(struct pair *pair, bool *moved) {
    while (pair->ready) {
        struct ready *ready = pair->ready;
        rcm_status status = pair_put(pair, meta_of(KIND_READY, ready->id), NULL, 0, NULL, 0);
        if (status != RCM_OK)
            return status;
        pair->ready = ready->next;
        if (!pair->ready)
            pair->ready_end = &pair->ready;
        free(ready);
        *moved = true;
    }
    return RCM_OK;
}

static rcm_status pair_pump_credit(const struct rcmi_p2p *p2p, struct pair *pair) {
    if (pair->eager_in < p2p->budget / 4)
        return RCM_OK;
    const uint64_t bytes = pair->eager_in;
    rcm_status status = pair_put(pair, meta_of(KIND_CREDIT, 0), &bytes, sizeof(bytes), NULL, 0);
    if (status == RCM_OK) {
        pair->eager_in = 0;
        pair->eager_due -= bytes;
    }
    return status;
}

/* Everything this rank has to tell the other, as far as slots allow. */
static rcm_status pair_pump(struct rcmi_p2p *p2p, int peer, bool *moved) {
    struct pair *pair = &p2p->pairs[peer];
    if (!pair->outgoing.head && !pair->sending.head && !pair->ready &&
        pair->eager_in < p2p->budget / 4)
        return RCM_OK;
    rcm_status status = pair_open_tx(p2p, peer);
    if (status == RCM_OK)
        status = pair_pump_ready(pair, moved);
    if (status == RCM_OK)
        status = pair_pump_credit(p2p, pair);
    while (status == RCM_OK && pair->outgoing.head) {
        status = pair_announce(p2p, pair, pair->outgoing.head);
        if (status == RCM_OK)
            *moved = true;
    }
    if (status == RCM_OK)
        status = pair_pump_sends(pair, moved);
    return status == RCM_AGAIN ? RCM_OK : status;
}

/* ---- Receiving ----------------------------------------------------------------------------- */

static bool matches(const struct rcm_work *work, int peer, uint64_t tag) {
    return work->transfer.peer == peer &&
           (work->transfer.tag == RCM_ANY_TAG || work->transfer.tag == tag);
}

/* Takes the first posted receive that fits, NULL if none does. */
static struct rcm_work *p2p_match_posted(struct rcmi_p2p *p2p, int peer, uint64_t tag) {
    for (struct rcm_work **at = &p2p->posted.head; *at; at = &(*at)->next) {
        struct rcm_work *work = *at;
        if (matches(work, peer, tag)) {
            list_remove(&p2p->posted, at);
            return work;
        }
    }
    return NULL;
}

static void receive_begin(struct rcm_work *work, int peer, const struct header *header) {
    struct rcmi_transfer *t = &work->transfer;
    t->total = header->total;
    t->done = 0;
    work->message.source = peer;
    work->message.tag = header->tag;
    work->message.bytes = t->total;
}

static void receive_end(struct rcm_work *work) {
    const struct rcmi_transfer *t = &work->transfer;
    rcmi_work_complete(work, t->total > t->capacity ? RCM_ERR_TRUNCATED : RCM_OK);
}

/* Puts bytes of a message to their place, as far as the buffer reaches. */
static void receive_bytes(struct rcmi_transfer *t, const char *bytes, size_t len) {
    if (t->done < t->capacity) {
        const size_t room = t->capacity - t->done;
        char *place = t->buffer + t->done;
        if (bytes != place)
            rcmi_copy(place, bytes, len < room ? len : room);
    }
    t->done += len;
}

static void receive_eager(struct rcmi_p2p *p2p, struct rcm_work *work, int peer,
                          const struct header *header, const char *bytes) {
    receive_begin(work, peer, header);
    receive_bytes(&work->transfer, bytes, header->total);
    p2p->pairs[peer].eager_in += eager_charge(header->total);
    receive_end(work);
}

/* Of a message of no bytes no data will come, but its sender waits for READY all the same. */
static rcm_status receive_announced(struct rcmi_p2p *p2p, struct rcm_work *work, int peer,
                                    const struct header *header, uint32_t id) {
    struct pair *pair = &p2p->pairs[peer];
    struct ready *ready = calloc(1, sizeof(*ready));
    receive_begin(work, peer, header);
    work->transfer.id = id;
    if (header->total > 0 || !ready)
        list_append(&pair->receiving, work);
    else
        receive_end(work);
    if (!ready)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to answer rank %d", peer);
    ready->id = id;
    *pair->ready_end = ready;
    pair->ready_end = &ready->next;
    return RCM_OK;
}

/* May what arrives be kept aside? An honest sender never exceeds its budget. */
static rcm_status p2p_check_room(const struct rcmi_p2p *p2p, int peer, bool announced) {
    if (p2p->pairs[peer].eager_due > p2p->budget)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, peer,
                                "rank %d sent %zu bytes of messages unasked, %zu are allowed", peer,
                                p2p->pairs[peer].eager_due, p2p->budget);
    if (announced && p2p->announced >= ANNOUNCED_MAX)
        return rcmi_fail_origin(RCM_ERR_RESOURCE, peer,
                                "rank %d sent one message more than the %zu for which this rank "
                                "has not called rcm_recv yet",
                                peer, p2p->announced);
    return RCM_OK;
}

static rcm_status p2p_keep(struct rcmi_p2p *p2p, int peer, bool announced, uint32_t id,
                           const struct header *header, const char *bytes, size_t len) {
    struct unexpected *message = malloc(sizeof(*message) + len);
    if (!message)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a message of %zu bytes from rank %d", len,
                         peer);
    *message =
        (struct unexpected){.peer = peer, .announced = announced, .id = id, .header = *header};
    memcpy(message->bytes, bytes, len);
    p2p->announced += announced;
    *p2p->unexpected_end = message;
    p2p->unexpected_end = &message->next;
    return RCM_OK;
}

static rcm_status protocol_error(int peer, const char *what, uint64_t value) {
    return rcmi_fail_origin(RCM_ERR_PROTOCOL, peer, "rank %d sent %s (%llu)", peer, what,
                            (unsigned long long)value);
}

/* EAGER and ANNOUNCE. */
static rcm_status handle_arrival(struct rcmi_p2p *p2p, int peer, enum kind kind, uint32_t id,
                                 const struct rcmi_slot *slot) {
    struct header header;
    if (slot->len < sizeof(header))
        return protocol_error(peer, "a message shorter than its header", slot->len);
    memcpy(&header, slot->bytes, sizeof(header));
    const char *bytes = (const char *)slot->bytes + sizeof(header);
    const size_t len = slot->len - sizeof(header);
    if (kind == KIND_EAGER ? header.total != len : len != 0)
        return protocol_error(peer, "a message of another length than announced", header.total);
    if (kind == KIND_EAGER)
        p2p->pairs[peer].eager_due += eager_charge(len);
    struct rcm_work *work = p2p_match_posted(p2p, peer, header.tag);
    rcm_status status = work ? RCM_OK : p2p_check_room(p2p, peer, kind == KIND_ANNOUNCE);
    if (status != RCM_OK)
        return status;
    if (!work)
        return p2p_keep(p2p, peer, kind == KIND_ANNOUNCE, id, &header, bytes, len);
    if (kind == KIND_ANNOUNCE)
        return receive_announced(p2p, work, peer, &header, id);
    receive_eager(p2p, work, peer, &header, bytes);
    return RCM_OK;
}

static rcm_status handle_data(struct rcmi_p2p *p2p, int peer, uint32_t id,
                              const struct rcmi_slot *slot) {
    struct pair *pair = &p2p->pairs[peer];
    for (struct rcm_work **at = &pair->receiving.head; *at; at = &(*at)->next) {
        struct rcm_work *work = *at;
        struct rcmi_transfer *t = &work->transfer;
        if (t->id != id)
            continue;
        if (slot->len != piece_bytes(pair->rx, t->total - t->done))
            return protocol_error(peer, "a piece of another size than announced", slot->len);
        receive_bytes(t, slot->bytes, slot->len);
        if (t->done == t->total) {
            list_remove(&pair->receiving, at);
            receive_end(work);
        }
        return RCM_OK;
    }
    return protocol_error(peer, "data of an unknown message", id);
}

static rcm_status handle_ready(struct rcmi_p2p *p2p, int peer, uint32_t id) {
    for (struct rcm_work *work = p2p->pairs[peer].sending.head; work; work = work->next) {
        if (work->transfer.id == id && work->transfer.stage == STAGE_ANNOUNCED) {
            work->transfer.stage = STAGE_DATA;
            return RCM_OK;
        }
    }
    return protocol_error(peer, "readiness for an unknown message", id);
}

static rcm_status handle_credit(struct rcmi_p2p *p2p, int peer, const struct rcmi_slot *slot) {
    struct pair *pair = &p2p->pairs[peer];
    uint64_t bytes;
    if (slot->len != sizeof(bytes))
        return protocol_error(peer, "a credit of wrong length", slot->len);
    memcpy(&bytes, slot->bytes, sizeof(bytes));
    if (bytes > pair->eager_out)
        return protocol_error(peer, "more credit than was used", bytes);
    pair->eager_out -= bytes;
    return RCM_OK;
}

static rcm_status handle_slot(struct rcmi_p2p *p2p, int peer, const struct rcmi_slot *slot) {
    const uint64_t kind = slot->meta >> 56;
    const uint32_t id = (uint32_t)slot->meta;
    if (slot->meta != meta_of((enum kind)kind, id))
        return protocol_error(peer, "a message with a damaged header", slot->meta);
    switch (kind) {
    case KIND_EAGER:
    case KIND_ANNOUNCE:
        return handle_arrival(p2p, peer, (enum kind)kind, id, slot);
    case KIND_READY:
        return handle_ready(p2p, peer, id);
    case KIND_DATA:
        return handle_data(p2p, peer, id, slot);
    case KIND_CREDIT:
        return handle_credit(p2p, peer, slot);
    default:
        return protocol_error(peer, "a message of unknown kind", kind);
    }
}

/* Lets a socket receive the next piece straight into the buffer it is for, most likely. If another
 * message comes first it lands there too, is taken from there, and the piece overwrites it. */
static void pair_expect(struct pair *pair) {
    const struct rcm_work *work = pair->receiving.head;
    if (pair->expecting || !work)
        return;
    const struct rcmi_transfer *t = &work->transfer;
    const size_t end = t->total < t->capacity ? t->total : t->capacity;
    if (t->done >= end)
        return;
    rcmi_channel_expect(pair->rx, t->buffer + t->done, piece_bytes(pair->rx, end - t->done));
    pair->expecting = true;
}

static rcm_status pair_drain(struct rcmi_p2p *p2p, int peer, bool *moved) {
    struct pair *pair = &p2p->pairs[peer];
    struct rcmi_slot slot;
    rcm_status status;
    if (!pair->rx)
        return RCM_OK;
    while ((status = rcmi_channel_peek(pair->rx, &slot)) == RCM_OK) {
        pair->expecting = false;
        status = handle_slot(p2p, peer, &slot);
        rcmi_channel_release(pair->rx);
        *moved = true;
        if (status != RCM_OK)
            return status;
    }
    if (status == RCM_AGAIN && rcmi_channel_state(pair->rx) == RCM_OK)
        pair_expect(pair);
    return status == RCM_AGAIN ? RCM_OK : status;
}

/* ---- For the driver ------------------------------------------------------------------------ */

/* A new receive: perhaps its message is already here. */
static void p2p_post_receive(struct rcmi_p2p *p2p, struct rcm_work *work) {
    for (struct unexpected **at = &p2p->unexpected; *at; at = &(*at)->next) {
        struct unexpected *message = *at;
        if (!matches(work, message->peer, message->header.tag))
            continue;
        *at = message->next;
        if (!*at)
            p2p->unexpected_end = at;
        rcm_status status = RCM_OK;
        p2p->announced -= message->announced;
        if (message->announced)
            status = receive_announced(p2p, work, message->peer, &message->header, message->id);
        else
            receive_eager(p2p, work, message->peer, &message->header, message->bytes);
        free(message);
        if (status != RCM_OK)
            rcmi_comm_fail(p2p->comm, work);
        return;
    }
    list_append(&p2p->posted, work);
    /* A link, so that the other's death is noticed. */
    if (pair_open_rx(p2p, work->transfer.peer) != RCM_OK)
        rcmi_comm_fail(p2p->comm, work);
}

void rcmi_p2p_post(struct rcmi_p2p *p2p, struct rcm_work *work) {
    const int peer = work->transfer.peer;
    if (work->kind == RCMI_WORK_RECV) {
        p2p_post_receive(p2p, work);
        return;
    }
    list_append(&p2p->pairs[peer].outgoing, work);
    /* Answers come on the other channel. */
    if (pair_open_rx(p2p, peer) != RCM_OK)
        rcmi_comm_fail(p2p->comm, work);
}

rcm_status rcmi_p2p_progress(struct rcmi_p2p *p2p, bool *moved) {
    rcm_status status = p2p_open_wanted(p2p);
    for (int i = 0; status == RCM_OK && i < p2p->nactive; i++) {
        status = pair_drain(p2p, p2p->active[i], moved);
        if (status == RCM_OK)
            status = pair_pump(p2p, p2p->active[i], moved);
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
        if (pair->expecting)
            rcmi_channel_expect(pair->rx, NULL, 0);
        pair->expecting = false;
        rcmi_channel_close(pair->tx); /* so that nothing lent is touched any more */
        rcmi_channel_close(pair->rx);
        pair->tx = pair->rx = NULL;
        list_cancel(&pair->outgoing, status);
        list_cancel(&pair->sending, status);
        list_cancel(&pair->receiving, status);
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
