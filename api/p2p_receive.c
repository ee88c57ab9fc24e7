/* SPDX-License-Identifier: BSD-3-Clause */
/* Point to point, the receiving side: what arrives, and to which receive it belongs. The protocol
 * is in p2p.c. */
#include <stdlib.h>
#include <string.h>
#include "kernels.h"
#include "p2p_internal.h"

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

void rcmi_receive_end(struct rcm_work *work) {
    const struct rcmi_transfer *t = &work->transfer;
    rcmi_work_complete(work, t->total > t->mem.len ? RCM_ERR_TRUNCATED : RCM_OK);
}

/* Copies bytes of a message to user memory, as far as that reaches. A long message would not stay
 * in a cache, but lines that are written there are read first. */
void rcmi_receive_bytes(const struct rcmi_p2p *p2p, struct rcmi_transfer *t, const char *bytes,
                        size_t len) {
    const bool past = rcmi_range_has(p2p->protocol->copy_non_temporal, t->total);
    if (t->done < t->mem.len) {
        const size_t room = t->mem.len - t->done, n = len < room ? len : room;
        char *place = (char *)t->mem.bytes + t->done;
        if (bytes != place)
            rcmi_copy_by(past ? RCMI_NON_TEMPORAL : RCMI_TEMPORAL, place, bytes, n);
    }
    t->done += len;
}

static void receive_eager(struct rcmi_p2p *p2p, struct rcm_work *work, int peer,
                          const struct header *header, const char *bytes) {
    receive_begin(work, peer, header);
    rcmi_receive_bytes(p2p, &work->transfer, bytes, header->total);
    p2p->pairs[peer].eager_in += eager_charge(header->total);
    rcmi_receive_end(work);
}

rcm_status rcmi_pair_owe_cts(struct pair *pair, int peer, uint32_t id) {
    struct cts *cts = calloc(1, sizeof(*cts));
    if (!cts)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to answer rank %d", peer);
    cts->id = id;
    *pair->cts_end = cts;
    pair->cts_end = &cts->next;
    return RCM_OK;
}

static rcm_status receive_rts(struct rcmi_p2p *p2p, struct rcm_work *work, int peer,
                              const struct rts *rts, uint32_t id) {
    struct pair *pair = &p2p->pairs[peer];
    receive_begin(work, peer, &rts->header);
    work->transfer.id = id;
    list_append(&pair->receiving, work);
    if (rcmi_pair_begin_get(pair, &work->transfer, rts->from))
        return RCM_OK;
    return rcmi_pair_owe_cts(pair, peer, id);
}

/* May what arrives be kept aside? An honest sender never exceeds its budget. */
static rcm_status p2p_check_room(const struct rcmi_p2p *p2p, int peer, bool rendezvous) {
    if (p2p->pairs[peer].eager_due > p2p->budget)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, peer,
                                "rank %d sent %zu bytes of eager messages, %zu are allowed", peer,
                                p2p->pairs[peer].eager_due, p2p->budget);
    if (rendezvous && p2p->rendezvous >= RTS_MAX)
        return rcmi_fail_origin(RCM_ERR_RESOURCE, peer,
                                "rank %d sent one message more than the %zu for which this rank "
                                "has not called rcm_recv yet",
                                peer, p2p->rendezvous);
    return RCM_OK;
}

static rcm_status p2p_keep(struct rcmi_p2p *p2p, const struct unexpected *what, const char *bytes,
                           size_t len) {
    struct unexpected *message = malloc(sizeof(*message) + len);
    if (!message)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a message of %zu bytes from rank %d", len,
                         what->peer);
    *message = *what;
    if (len)
        memcpy(message->bytes, bytes, len);
    p2p->rendezvous += what->rendezvous;
    *p2p->unexpected_end = message;
    p2p->unexpected_end = &message->next;
    return RCM_OK;
}

static rcm_status protocol_error(int peer, const char *what, uint64_t value) {
    return rcmi_fail_origin(RCM_ERR_PROTOCOL, peer, "rank %d sent %s (%llu)", peer, what,
                            (unsigned long long)value);
}

/* EAGER and BARE. */
static rcm_status handle_eager(struct rcmi_p2p *p2p, int peer, const struct rcmi_slot *slot) {
    struct header header;
    const char *bytes;
    if (!eager_open(slot, &header, &bytes))
        return protocol_error(peer, "a message of another length than it says", slot->len);
    p2p->pairs[peer].eager_due += eager_charge(header.total);
    struct rcm_work *work = p2p_match_posted(p2p, peer, header.tag);
    if (work) {
        receive_eager(p2p, work, peer, &header, bytes);
        return RCM_OK;
    }
    const struct unexpected what = {.peer = peer, .said = {.header = header}};
    rcm_status status = p2p_check_room(p2p, peer, false);
    return status == RCM_OK ? p2p_keep(p2p, &what, bytes, header.total) : status;
}

static rcm_status handle_rts(struct rcmi_p2p *p2p, int peer, uint32_t id,
                             const struct rcmi_slot *slot) {
    struct rts rts;
    if (slot->len != sizeof(rts))
        return protocol_error(peer, "an RTS of wrong length", slot->len);
    memcpy(&rts, slot->bytes, sizeof(rts));
    struct rcm_work *work = p2p_match_posted(p2p, peer, rts.header.tag);
    if (work)
        return receive_rts(p2p, work, peer, &rts, id);
    const struct unexpected what = {.peer = peer, .rendezvous = true, .id = id, .said = rts};
    rcm_status status = p2p_check_room(p2p, peer, true);
    return status == RCM_OK ? p2p_keep(p2p, &what, NULL, 0) : status;
}

static rcm_status handle_data(struct rcmi_p2p *p2p, int peer, uint32_t id,
                              const struct rcmi_slot *slot) {
    struct pair *pair = &p2p->pairs[peer];
    for (struct rcm_work **at = &pair->receiving.head; *at; at = &(*at)->next) {
        struct rcm_work *work = *at;
        struct rcmi_transfer *t = &work->transfer;
        if (t->id != id || t->from)
            continue;
        if (slot->len != piece_bytes(pair->rx, t->total, t->done))
            return protocol_error(peer, "a piece of another size than its RTS says", slot->len);
        rcmi_receive_bytes(p2p, t, slot->bytes, slot->len);
        if (t->done == t->total) {
            list_remove(&pair->receiving, at);
            rcmi_receive_end(work);
        }
        return RCM_OK;
    }
    return protocol_error(peer, "data of an unknown message", id);
}

static rcm_status handle_cts(struct rcmi_p2p *p2p, int peer, uint32_t id) {
    for (struct rcm_work *work = p2p->pairs[peer].sending.head; work; work = work->next) {
        if (work->transfer.id == id && work->transfer.stage == STAGE_RTS) {
            work->transfer.stage = STAGE_DATA;
            return RCM_OK;
        }
    }
    return protocol_error(peer, "readiness for an unknown message", id);
}

/* It was got. */
static rcm_status handle_ack(struct rcmi_p2p *p2p, int peer, uint32_t id) {
    struct list *sending = &p2p->pairs[peer].sending;
    for (struct rcm_work **at = &sending->head; *at; at = &(*at)->next) {
        struct rcm_work *work = *at;
        if (work->transfer.id != id || work->transfer.stage != STAGE_RTS)
            continue;
        work->transfer.done = work->transfer.total;
        list_remove(sending, at);
        rcmi_work_complete(work, RCM_OK);
        return RCM_OK;
    }
    return protocol_error(peer, "that it has taken an unknown message", id);
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
    if (!slot->bytes)
        return protocol_error(peer, "a message whose bytes are to be got", slot->len);
    const uint64_t kind = slot->meta >> 56;
    const uint32_t id = (uint32_t)slot->meta;
    const uint64_t right =
        kind == KIND_BARE ? meta_of_bare(id, slot->len) : meta_of((enum kind)kind, id);
    if (slot->meta != right)
        return protocol_error(peer, "a message with a damaged header", slot->meta);
    switch (kind) {
    case KIND_EAGER:
    case KIND_BARE:
        return handle_eager(p2p, peer, slot);
    case KIND_RTS:
        return handle_rts(p2p, peer, id, slot);
    case KIND_CTS:
        return handle_cts(p2p, peer, id);
    case KIND_DATA:
        return handle_data(p2p, peer, id, slot);
    case KIND_CREDIT:
        return handle_credit(p2p, peer, slot);
    case KIND_ACK:
        return handle_ack(p2p, peer, id);
    default:
        return protocol_error(peer, "a message of unknown kind", kind);
    }
}

/* Whose data come next from peer, most likely: NULL, or the receive whose pieces are under way, or
 * else the first that waits for a message of peer's that may come bare. */
static const struct rcm_work *pair_next_receive(const struct rcmi_p2p *p2p, int peer) {
    const struct pair *pair = &p2p->pairs[peer];
    if (pair->receiving.head || shares_slots(pair->rx))
        return pair->receiving.head;
    const struct rcm_work *work = p2p->posted.head;
    if (!work || work->transfer.peer != peer || work->transfer.mem.len < BARE_MIN)
        return NULL;
    return work->transfer.tag <= UINT32_MAX || work->transfer.tag == RCM_ANY_TAG ? work : NULL;
}

/* Lets a socket receive what comes next straight into the buffer it is for, most likely. If another
 * message comes before a piece of data it lands there too, is taken from there, and the piece,
 * which has the length of its place, overwrites it. A message that comes bare may be shorter than
 * the buffer: only a bare one that the receive is for goes there, and nothing beyond its end. */
static void pair_post(const struct rcmi_p2p *p2p, int peer) {
    struct pair *pair = &p2p->pairs[peer];
    const struct rcm_work *work = pair->posted ? NULL : pair_next_receive(p2p, peer);
    if (!work)
        return;
    const struct rcmi_transfer *t = &work->transfer;
    if (work != pair->receiving.head) {
        const bool any = t->tag == RCM_ANY_TAG;
        const struct rcmi_posted bare = {
            .mem = t->mem,
            .meta = (uint64_t)KIND_BARE << 56 | (any ? 0 : (uint32_t)t->tag),
            .mask = (uint64_t)UINT8_MAX << 56 | (any ? 0 : UINT32_MAX),
        };
        pair->posted = rcmi_channel_post_receive(pair->rx, &bare);
        return;
    }
    const size_t end = t->total < t->mem.len ? t->total : t->mem.len;
    if (t->from || t->done >= end) /* it is got, or nothing of it goes to the buffer any more */
        return;
    const size_t piece = piece_bytes(pair->rx, t->total, t->done), left = end - t->done;
    const struct rcmi_posted data = {
        .mem = rcmi_mem_part(&t->mem, t->done, piece < left ? piece : left)};
    pair->posted = rcmi_channel_post_receive(pair->rx, &data);
}

rcm_status rcmi_pair_drain(struct rcmi_p2p *p2p, int peer, bool *moved) {
    struct pair *pair = &p2p->pairs[peer];
    struct rcmi_slot slot;
    rcm_status status;
    if (!pair->rx)
        return RCM_OK;
    while ((status = rcmi_channel_peek(pair->rx, &slot)) == RCM_OK) {
        pair->posted = false;
        status = handle_slot(p2p, peer, &slot);
        rcmi_channel_release(pair->rx);
        *moved = true;
        if (status != RCM_OK)
            return status;
    }
    if (status == RCM_AGAIN && rcmi_channel_state(pair->rx) == RCM_OK)
        pair_post(p2p, peer);
    return status == RCM_AGAIN ? RCM_OK : status;
}

/* A new receive: perhaps its message is already here. */
void rcmi_p2p_post_receive(struct rcmi_p2p *p2p, struct rcm_work *work) {
    for (struct unexpected **at = &p2p->unexpected; *at; at = &(*at)->next) {
        struct unexpected *message = *at;
        if (!matches(work, message->peer, message->said.header.tag))
            continue;
        *at = message->next;
        if (!*at)
            p2p->unexpected_end = at;
        rcm_status status = RCM_OK;
        p2p->rendezvous -= message->rendezvous;
        if (message->rendezvous)
            status = receive_rts(p2p, work, message->peer, &message->said, message->id);
        else
            receive_eager(p2p, work, message->peer, &message->said.header, message->bytes);
        free(message);
        if (status != RCM_OK)
            rcmi_comm_fail(p2p->comm, work);
        return;
    }
    list_append(&p2p->posted, work);
    /* A link, so that the other's death is noticed. */
    if (rcmi_pair_open_rx(p2p, work->transfer.peer) != RCM_OK)
        rcmi_comm_fail(p2p->comm, work);
}
