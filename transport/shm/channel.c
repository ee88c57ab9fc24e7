/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels over shared memory: a queue (channel/fifo.h) in a range of the writer's segment. The
 * writer writes headers and slots, and each reader writes its own counters. Each side rings the
 * other's doorbell, which costs a fence and a load while no rank sleeps.
 */
#include "shm.h"

#include <stdlib.h>
#include <sys/mman.h>

static struct shm_channel *shm_of(struct rcmi_channel *channel) {
    return (struct shm_channel *)channel;
}

/* ---- Writer ---------------------------------------------------------------------------------- */

/* The doorbells to ring after a commit. */
static rcm_status writer_wakes(struct shm_channel *shm, void *const *links, int nreaders) {
    const struct shm_link *first = links[0];
    shm->wake = (struct rcmi_wake){.doorbell = &first->head->doorbell, .eventfd = first->eventfd};
    shm->link = nreaders == 1 ? links[0] : NULL;
    if (nreaders == 1)
        return RCM_OK;
    shm->wakes = rcmi_zalloc((size_t)nreaders * sizeof *shm->wakes);
    if (!shm->wakes)
        return RCM_ERR_NOMEM;
    for (int r = 0; r < nreaders; r++) {
        const struct shm_link *link = links[r];
        shm->wakes[r] =
            (struct rcmi_wake){.doorbell = &link->head->doorbell, .eventfd = link->eventfd};
    }
    return RCM_OK;
}

rcm_status shm_writer_init(struct rcmi_channel *channel, void *const *links, int nreaders) {
    struct shm_channel *shm = shm_of(channel);
    struct shm_domain *domain = ((const struct shm_link *)links[0])->domain;
    struct rcmi_fifo_shape shape = rcmi_fifo_shape(channel->slot_bytes, channel->slots, nreaders);
    rcm_status status = writer_wakes(shm, links, nreaders);
    if (status == RCM_OK)
        status = shm_range_take(domain, &shape, &shm->at, &shm->len);
    if (status != RCM_OK)
        return status;
    shm->domain = domain;
    shm->sent = rcmi_zalloc(channel->slots * sizeof *shm->sent);
    if (!shm->sent)
        return RCM_ERR_NOMEM;
    status = shm_range_map(domain->memfd, shm->at, shm->len, &shm->memory);
    if (status != RCM_OK)
        return status;
    rcmi_fifo_clear(shm->memory, &shape);
    rcmi_fifo_writer_init(&shm->fifo.writer, shm->memory, &shape);
    shm->number = ++domain->channels;
    if (shape.open) /* read after the offer has arrived */
        atomic_store_explicit(rcmi_fifo_open(shm->memory, &shape), shm->number,
                              memory_order_release);
    return RCM_OK;
}

rcm_status shm_writer_offer(struct rcmi_channel *channel, int r, struct rcmi_blob *ret_offer) {
    const struct shm_channel *shm = shm_of(channel);
    const struct shm_offer offer = {.at = shm->at,
                                    .len = shm->len,
                                    .nreaders = (uint32_t)channel->nreaders,
                                    .reader = (uint32_t)r,
                                    .number = shm->number};
    memcpy(ret_offer->bytes, &offer, sizeof offer);
    ret_offer->len = sizeof offer;
    return RCM_OK;
}

rcm_status shm_writer_attach(struct rcmi_channel *channel, int r, struct rcmi_blob *answer) {
    (void)channel;
    (void)r;
    (void)answer; /* empty */
    return RCM_OK;
}

/* ---- Reader ---------------------------------------------------------------------------------- */

rcm_status shm_reader_init(struct rcmi_channel *channel, void *arg) {
    struct shm_channel *shm = shm_of(channel);
    struct shm_link *link = arg;
    shm->wake = (struct rcmi_wake){.doorbell = &link->head->doorbell, .eventfd = link->eventfd};
    shm->link = link;
    shm->posted = rcmi_zalloc(channel->slots * sizeof *shm->posted);
    return shm->posted ? RCM_OK : RCM_ERR_NOMEM;
}

static rcm_status check_offer(const struct shm_channel *shm, const struct rcmi_blob *blob,
                              const struct rcmi_fifo_shape *shape, struct shm_offer *ret_offer) {
    const struct rcmi_channel *channel = &shm->base;
    struct shm_offer offer = {.at = 0};
    size_t size = 0;
    if (blob->len == sizeof offer && blob->nfds == 0)
        memcpy(&offer, blob->bytes, sizeof offer);
    rcm_status status = rcmi_memfd_size(shm->link->memfd, &size);
    if (status != RCM_OK || offer.at < SHM_HEAD_BYTES || offer.len < shape->total ||
        offer.len > size || offer.at > size - offer.len ||
        offer.nreaders != (uint32_t)channel->nreaders || offer.reader >= offer.nreaders)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "an offer of shared slots, reader %u of %u in %llu bytes, is not valid",
                         offer.reader, offer.nreaders, (unsigned long long)offer.len);
    *ret_offer = offer;
    return RCM_OK;
}

rcm_status shm_reader_accept(struct rcmi_channel *channel, struct rcmi_blob *blob,
                             struct rcmi_blob *ret_answer) {
    struct shm_channel *shm = shm_of(channel);
    struct rcmi_fifo_shape shape =
        rcmi_fifo_shape(channel->slot_bytes, channel->slots, channel->nreaders);
    struct shm_offer offer = {.at = 0};
    rcm_status status = check_offer(shm, blob, &shape, &offer);
    if (status == RCM_OK)
        status = shm_range_map(shm->link->memfd, offer.at, offer.len, &shm->memory);
    if (status != RCM_OK)
        return status;
    shm->len = offer.len;
    shm->number = offer.number;
    rcmi_fifo_reader_init(&shm->fifo.reader, shm->memory, &shape, (int)offer.reader);
    ret_answer->len = 0;
    return RCM_OK;
}

/* Messages sent mapped are in memory of the node, which outlives the channel. Memory that a reader
 * gets belongs to the user and is returned now; the reader sees that the channel is closed. */
void shm_writer_close(struct rcmi_channel *channel) {
    const struct rcmi_fifo_writer *writer = &shm_of(channel)->fifo.writer;
    _Atomic uint64_t *open = writer->base ? rcmi_fifo_open(writer->base, &writer->shape) : NULL;
    /* Partner: the loads in shm_read. */
    if (open)
        atomic_store(open, 0);
}

/* For both ends. */
void shm_channel_fini(struct rcmi_channel *channel) {
    struct shm_channel *shm = shm_of(channel);
    shm_get_fini(shm);
    if (shm->link)
        shm_window_drop(shm->link, &shm->window);
    if (shm->memory)
        munmap(shm->memory, shm->len);
    if (shm->domain)
        shm_range_give(shm->domain, shm->at, shm->len);
    free(shm->wakes);
    free(shm->posted);
    free(shm->sent);
}

/* ---- Data ------------------------------------------------------------------------------------ */

rcm_status shm_peer_fault(int rank) {
    rcmi_last_error()->origin = rank;
    rcmi_last_error()->of_world = true;
    return rcmi_fail_context("rank %d", rank);
}

/* One fence for all readers; then each reader's armed bits are checked. */
static void ring_all(const struct shm_channel *shm) {
    /* Partner: the fence in rcmi_doorbell_arm. */
    atomic_thread_fence(memory_order_seq_cst);
    for (int r = 0; r < shm->base.nreaders; r++) {
        /* Ordered by the fence above. */
        if (atomic_load_explicit(&shm->wakes[r].doorbell->armed, memory_order_relaxed))
            rcmi_doorbell_ring(shm->wakes[r].doorbell, shm->wakes[r].eventfd);
    }
}

void shm_publish(const struct shm_channel *shm) {
    if (shm->wakes)
        ring_all(shm);
    else
        rcmi_doorbell_ring(shm->wake.doorbell, shm->wake.eventfd);
}

rcm_status shm_reserve(struct rcmi_channel *channel, size_t len,
                       struct rcmi_reserved *ret_reserved) {
    struct shm_channel *shm = shm_of(channel);
    const bool non_temporal = rcmi_range_has(channel->protocol->slot_non_temporal, len);
    *ret_reserved =
        (struct rcmi_reserved){.stores = non_temporal ? RCMI_NON_TEMPORAL : RCMI_TEMPORAL};
    shm->put = NULL;
    const rcm_status status = rcmi_fifo_reserve(&shm->fifo.writer, len, &ret_reserved->bytes);
    if (status != RCM_OK)
        return shm_writer_status(shm, status);
    shm->put = len < SHM_PUT_MIN ? NULL : shm_posted_find(shm, len);
    if (shm->put)
        *ret_reserved = (struct rcmi_reserved){.bytes = shm->put, .posted = true};
    else if (shm_slot_is_hole(shm, len) && shm_slots_make(shm, shm->fifo.writer.index) != RCM_OK)
        return shm_peer_fault(rcmi_node_rank(channel->node));
    return RCM_OK;
}

void shm_commit(struct rcmi_channel *channel, size_t len, uint64_t meta) {
    struct shm_channel *shm = shm_of(channel);
    if (shm->put)
        rcmi_fifo_publish(&shm->fifo.writer, len | RCMI_FIFO_PUT, meta);
    else
        rcmi_fifo_commit(&shm->fifo.writer, len, meta);
    shm->put = NULL;
    shm_publish(shm);
}

rcm_status shm_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot) {
    struct rcmi_fifo_reader *reader = &shm_of(channel)->fifo.reader;
    uint64_t len = 0;
    rcm_status status = rcmi_fifo_peek(reader, &len);
    if (status == RCM_OK && len & RCMI_FIFO_FLAGS)
        status = shm_peek_elsewhere(shm_of(channel), len, ret_slot);
    else if (status == RCM_OK)
        ret_slot->bytes = rcmi_fifo_payload(reader, len);
    if (status != RCM_OK)
        return status < 0 ? shm_peer_fault(channel->writer) : status;
    ret_slot->len = len & ~RCMI_FIFO_FLAGS;
    const bool replies = ret_slot->len > RCMI_TINY && rcmi_fifo_in_slot(reader);
    ret_slot->reply = replies && channel->nreaders == 1 ? rcmi_fifo_payload(reader, len) : NULL;
    ret_slot->meta = reader->header->meta;
    return RCM_OK;
}

bool shm_taken(struct rcmi_channel *channel, int reader, uint64_t number) {
    return rcmi_fifo_taken_by(&shm_of(channel)->fifo.writer, reader, number);
}

void shm_release(struct rcmi_channel *channel) {
    struct shm_channel *shm = shm_of(channel);
    rcmi_fifo_release(&shm->fifo.reader);
    rcmi_doorbell_ring(shm->wake.doorbell, shm->wake.eventfd);
}
