/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paper binding (compiled, not run): a verbs transport on iWARP, which has neither immediates nor
 * RNR retries. The slot is written with an RDMA write, then a small send tells of it; RC order
 * makes the data visible before the send completes at the receiver. The receiver's posted receives
 * are the channel's credits, so a send never finds none posted (iWARP would end the connection).
 * What it shows: reserve hands out registered staging memory, commit posts both, release returns
 * the credit, nothing else is asked for.
 */
#include "row.h"

/* Stands for struct ibv_qp and its calls. */
struct queue_pair;
int qp_post_write(struct queue_pair *qp, const void *local, uint32_t lkey, uint64_t remote,
                  uint32_t rkey, size_t len);
int qp_post_send(struct queue_pair *qp, const void *inline_bytes, size_t len);
int qp_post_receive(struct queue_pair *qp, void *bytes, size_t len);

struct notice { /* the small send */
    uint32_t channel, slot;
    uint64_t len, meta;
};

struct iwarp_channel {
    struct rcmi_channel head;
    struct queue_pair *qp;
    char *staging, *slots; /* writer's registered memory; reader's, written by the peer */
    uint32_t lkey, rkey;
    uint64_t remote;
    struct notice *arrived; /* filled by progress, from the completion queue */
    uint64_t sent, credits; /* writer: messages so far; allowed so far */
    uint64_t seen, taken;   /* reader */
};

extern const struct rcmi_transport iwarp_transport;

static rcm_status iwarp_reserve(struct rcmi_channel *channel, size_t len,
                                struct rcmi_reserved *ret_reserved) {
    struct iwarp_channel *c = (struct iwarp_channel *)channel;
    if (c->sent == c->credits)
        return RCM_AGAIN;
    (void)len;
    *ret_reserved = (struct rcmi_reserved){.bytes = c->staging + (c->sent % channel->slots) *
                                                                     channel->slot_bytes};
    return RCM_OK;
}

static void iwarp_commit(struct rcmi_channel *channel, size_t len, uint64_t meta) {
    struct iwarp_channel *c = (struct iwarp_channel *)channel;
    const uint32_t slot = (uint32_t)(c->sent % channel->slots);
    const struct notice notice = {.channel = channel->id, .slot = slot, .len = len, .meta = meta};
    const size_t offset = slot * channel->slot_bytes;
    if (len)
        qp_post_write(c->qp, c->staging + offset, c->lkey, c->remote + offset, c->rkey, len);
    qp_post_send(c->qp, &notice, sizeof(notice));
    c->sent++;
}

static rcm_status iwarp_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                                       uint64_t meta, bool may_get) {
    (void)channel, (void)mem, (void)meta, (void)may_get;
    return RCM_ERR_UNSUPPORTED; /* until the memory is registered */
}

static bool iwarp_completed(struct rcmi_channel *channel, uint64_t number) {
    (void)channel, (void)number;
    return true;
}

static rcm_status iwarp_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot) {
    struct iwarp_channel *c = (struct iwarp_channel *)channel;
    if (c->taken == c->seen)
        return RCM_AGAIN;
    const struct notice *notice = &c->arrived[c->taken % channel->slots];
    if (notice->len > channel->slot_bytes || notice->slot != c->taken % channel->slots)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, channel->writer, "a notice that cannot be");
    ret_slot->bytes = c->slots + notice->slot * channel->slot_bytes;
    ret_slot->len = notice->len;
    ret_slot->meta = notice->meta;
    return RCM_OK;
}

static void iwarp_release(struct rcmi_channel *channel) {
    struct iwarp_channel *c = (struct iwarp_channel *)channel;
    const uint64_t credit = ++c->taken;
    qp_post_receive(c->qp, NULL, sizeof(struct notice)); /* first the receive, then the credit */
    qp_post_send(c->qp, &credit, sizeof(credit));
}

/* rdma_cm makes the connection by itself: link_offer and link_accept carry its address, the side
 * that dialled the link connects and, as iWARP wants it, sends first. */
static rcm_status iwarp_link_offer(void *link, struct rcmi_blob *ret_offer) {
    (void)link;
    ret_offer->len = 0;
    return RCM_OK;
}

/* Only the slots that this paper is about; the others are as in transport/shm/shm.c. */
const struct rcmi_transport iwarp_transport = {
    .name = "verbs",
    .channel_size = sizeof(struct iwarp_channel),
    .link_offer = iwarp_link_offer,
    .reserve = iwarp_reserve,
    .commit = iwarp_commit,
    .send_zero_copy = iwarp_send_zero_copy,
    .completed = iwarp_completed,
    .taken = rcmi_always_taken,
    .peek = iwarp_peek,
    .release = iwarp_release,
    .post_receive = rcmi_no_post_receive, /* the peer writes where the slot is */
    .get = rcmi_no_get,
    .help = rcmi_no_help,
};
