/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/self/: messages of a rank to itself, by a queue (channel/fifo.h) on the heap. No
 * connection exists: offers and answers go through the node's own list and never over a wire, so
 * they may hold pointers. Zero-copy memory is passed to the reader in place.
 *
 *   writer --> headers, slots on the heap; or the user's memory --> reader
 *
 * This is the smallest backend: copy it to start a new one. Not for: ranks that are threads of one
 * process, which have separate nodes (shm/, tcp/).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "../backend.h"
#include "../channel/fifo.h"

struct self_domain {
    struct rcmi_node *node;
};

struct self_link {
    struct self_domain *domain;
};

struct self_channel {
    struct rcmi_channel base;
    union {
        struct rcmi_fifo_writer writer;
        struct rcmi_fifo_reader reader;
    } fifo;
    void *memory; /* the writer's */
};

static struct self_channel *self_of(struct rcmi_channel *channel) {
    return (struct self_channel *)channel;
}

static bool self_probe(const struct rcmi_need *need, char *reason, size_t cap) {
    (void)need;
    snprintf(reason, cap, "always works");
    return true;
}

static rcm_status self_domain_init(void *domain, struct rcmi_node *node) {
    ((struct self_domain *)domain)->node = node;
    return RCM_OK;
}

static void self_domain_fini(void *domain) {
    (void)domain;
}

static bool self_progress(void *domain) {
    (void)domain;
    return false;
}

static void self_arm(void *domain) {
    (void)domain;
}

static bool self_attend(void *domain, int *ret_fd) {
    (void)domain;
    *ret_fd = -1;
    return true;
}

/* ---- Links ----------------------------------------------------------------------------------- */

static rcm_status self_link_init(void *link, void *domain, int peer) {
    (void)peer;
    ((struct self_link *)link)->domain = domain;
    return RCM_OK;
}

static rcm_status self_link_offer(void *link, struct rcmi_blob *ret_offer) {
    (void)link;
    ret_offer->len = 0;
    return RCM_OK;
}

static rcm_status self_link_accept(void *link, struct rcmi_blob *offer) {
    (void)link;
    (void)offer;
    return RCM_OK;
}

static rcm_status self_link_attach(void *link, int i, int fd) {
    (void)link;
    rcmi_fd_close(&fd);
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "data connection %d of a rank to itself", i);
}

static void self_link_nothing(void *link) {
    (void)link;
}

/* ---- Channels -------------------------------------------------------------------------------- */

static rcm_status self_writer_init(struct rcmi_channel *channel, void *const *links, int nreaders) {
    struct self_channel *self = self_of(channel);
    struct rcmi_fifo_shape shape = rcmi_fifo_shape(channel->slot_bytes, channel->slots, nreaders);
    (void)links;
    self->memory = rcmi_pages_map(shape.total);
    if (!self->memory)
        return RCM_ERR_NOMEM;
    rcmi_fifo_writer_init(&self->fifo.writer, self->memory, &shape);
    self->fifo.writer.ahead = 0; /* the reader's cache is the writer's */
    return RCM_OK;
}

static rcm_status self_writer_offer(struct rcmi_channel *channel, int r,
                                    struct rcmi_blob *ret_offer) {
    (void)r; /* always 0: a rank is at most one reader of its own channel */
    memcpy(ret_offer->bytes, &self_of(channel)->memory, sizeof(void *));
    ret_offer->len = sizeof(void *);
    return RCM_OK;
}

static rcm_status self_writer_attach(struct rcmi_channel *channel, int r,
                                     struct rcmi_blob *answer) {
    (void)channel;
    (void)r;
    (void)answer;
    return RCM_OK;
}

static rcm_status self_reader_init(struct rcmi_channel *channel, void *link) {
    (void)channel;
    (void)link;
    return RCM_OK;
}

static rcm_status self_reader_accept(struct rcmi_channel *channel, struct rcmi_blob *offer,
                                     struct rcmi_blob *ret_answer) {
    struct rcmi_fifo_shape shape = rcmi_fifo_shape(channel->slot_bytes, channel->slots, 1);
    void *memory;
    memcpy(&memory, offer->bytes, sizeof memory);
    rcmi_fifo_reader_init(&self_of(channel)->fifo.reader, memory, &shape, 0);
    ret_answer->len = 0;
    return RCM_OK;
}

/* The writer is closed: messages still in the user's memory are copied to their slots and sent from
 * there. A message that the reader has peeked stays where it was until it is released; the same
 * user owns both ends. */
static void self_writer_close(struct rcmi_channel *channel) {
    struct self_channel *self = self_of(channel);
    struct rcmi_fifo_writer *writer = &self->fifo.writer;
    if (!self->memory) /* writer_init failed */
        return;
    /* Pair with the release stores in rcmi_fifo_release. */
    const uint64_t taken =
        atomic_load_explicit(rcmi_fifo_counter(self->memory, 0), memory_order_acquire);
    const uint64_t emptied =
        atomic_load_explicit(rcmi_fifo_emptied(self->memory, 0), memory_order_acquire);
    uint64_t filled = writer->filled;
    for (uint64_t number = writer->produced; number-- > taken;) {
        struct rcmi_fifo_header *header = rcmi_fifo_header(self->memory, &writer->shape, number);
        if (!rcmi_fifo_fills(header->len))
            continue;
        /* A released slot may have been reused. */
        if (filled-- == emptied)
            break;
        if (!(header->len & RCMI_FIFO_MAPPED))
            continue;
        void *slot =
            rcmi_fifo_slot(self->memory, &writer->shape, (uint32_t)(filled % writer->shape.slots));
        const void *bytes;
        memcpy(&bytes, header->bytes, sizeof bytes);
        if (header->len & ~RCMI_FIFO_MAPPED)
            memcpy(slot, bytes, header->len & ~RCMI_FIFO_MAPPED);
        memcpy(header->bytes, &slot, sizeof slot);
    }
}

static void self_channel_fini(struct rcmi_channel *channel) {
    struct self_channel *self = self_of(channel);
    if (self->memory)
        munmap(self->memory, self->fifo.writer.shape.total);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static rcm_status self_reserve(struct rcmi_channel *channel, size_t len,
                               struct rcmi_reserved *ret_reserved) {
    (void)len; /* always the same place: both sides have one cache */
    *ret_reserved = (struct rcmi_reserved){.stores = RCMI_TEMPORAL};
    return rcmi_fifo_reserve(&self_of(channel)->fifo.writer, channel->slot_bytes,
                             &ret_reserved->bytes);
}

static void self_commit(struct rcmi_channel *channel, size_t len, uint64_t meta) {
    rcmi_fifo_commit(&self_of(channel)->fifo.writer, len, meta);
    rcmi_node_ring(channel->node);
}

static rcm_status self_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                                      uint64_t meta, bool may_get) {
    (void)may_get;
    if (mem->len > channel->slot_bytes)
        return RCM_ERR_UNSUPPORTED;
    struct self_channel *self = self_of(channel);
    rcm_status status = rcmi_fifo_room(&self->fifo.writer);
    if (status != RCM_OK)
        return status;
    memcpy(self->fifo.writer.header->bytes, &mem->bytes, sizeof mem->bytes);
    rcmi_fifo_publish(&self->fifo.writer, mem->len | RCMI_FIFO_MAPPED, meta);
    rcmi_node_ring(channel->node);
    return RCM_OK;
}

static bool self_completed(struct rcmi_channel *channel, uint64_t number) {
    return rcmi_fifo_taken(&self_of(channel)->fifo.writer, number);
}

static bool self_taken(struct rcmi_channel *channel, int reader, uint64_t number) {
    return rcmi_fifo_taken_by(&self_of(channel)->fifo.writer, reader, number);
}

static rcm_status self_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot) {
    struct rcmi_fifo_reader *reader = &self_of(channel)->fifo.reader;
    uint64_t len = 0;
    rcm_status status = rcmi_fifo_peek(reader, &len);
    if (status == RCM_OK && len & (RCMI_FIFO_PUT | RCMI_FIFO_GET))
        status = rcmi_fifo_broken(reader, reader->consumed + 1, len);
    if (status != RCM_OK)
        return status;
    if (len & RCMI_FIFO_MAPPED)
        memcpy(&ret_slot->bytes, reader->header->bytes, sizeof ret_slot->bytes);
    else
        ret_slot->bytes = rcmi_fifo_payload(reader, len);
    ret_slot->len = len & ~RCMI_FIFO_MAPPED;
    ret_slot->meta = reader->header->meta;
    return RCM_OK;
}

static void self_release(struct rcmi_channel *channel) {
    rcmi_fifo_release(&self_of(channel)->fifo.reader);
    rcmi_node_ring(channel->node);
}

const struct rcmi_transport rcmi_transport_self = {
    .name = "self",
    .description = "a rank with itself: slots on the heap, zero-copy sends",
    .bulk_scale = 1,
    .loops_back = true,
    .same_host = true,
    .domain_size = sizeof(struct self_domain),
    .link_size = sizeof(struct self_link),
    .channel_size = sizeof(struct self_channel),
    .probe = self_probe,
    .domain_init = self_domain_init,
    .domain_fini = self_domain_fini,
    .progress = self_progress,
    .arm = self_arm,
    .attend = self_attend,
    .memory_take = rcmi_no_memory_take,
    .memory_give = rcmi_no_memory_give,
    .memory_register = rcmi_no_memory_register,
    .memory_unregister = rcmi_no_memory_unregister,
    .link_init = self_link_init,
    .link_offer = self_link_offer,
    .link_accept = self_link_accept,
    .link_attach = self_link_attach,
    .link_ready = rcmi_ready_at_once,
    .link_flushed = rcmi_always_flushed,
    .link_down = self_link_nothing,
    .link_fini = self_link_nothing,
    .writer_init = self_writer_init,
    .writer_offer = self_writer_offer,
    .writer_attach = self_writer_attach,
    .reader_init = self_reader_init,
    .reader_accept = self_reader_accept,
    .writer_close = self_writer_close,
    .channel_fini = self_channel_fini,
    .reserve = self_reserve,
    .commit = self_commit,
    .send_zero_copy = self_send_zero_copy,
    .completed = self_completed,
    .taken = self_taken,
    .peek = self_peek,
    .release = self_release,
    .post_receive = rcmi_no_post_receive,
    .get = rcmi_no_get,
    .help = rcmi_no_help,
};
