/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that do not travel through slots. Their header is published as usual. In addition it
 * contains:
 *
 *   mapped   the location of the payload in a block of the writer's segment (blocks.c): the reader
 *            reads it there and releases the message afterwards
 *   put      nothing: the writer found memory that the reader had posted for this message, and
 *            wrote the payload to that location in the reader's segment
 *   get      the address of the payload in the writer's process: the reader gets it (get.c)
 *
 * Values from the other side are read once and checked before use.
 */
#include "shm.h"

static struct shm_channel *shm_of(struct rcmi_channel *channel) {
    return (struct shm_channel *)channel;
}

/* ---- Writer ---------------------------------------------------------------------------------- */

/* Stores the slot occupied by a message that is to be got, for get_help.c. */
static void get_note(struct shm_channel *shm, const struct rcmi_mem *mem) {
    const struct rcmi_fifo_writer *writer = &shm->fifo.writer;
    shm->sent[writer->index] = (struct shm_sent){
        .number = writer->produced + 1, .bytes = mem->bytes, .len = mem->len, .slot = writer->slot};
}

rcm_status shm_writer_status(const struct shm_channel *shm, rcm_status status) {
    return status < 0 && shm->link ? shm_peer_fault(shm->link->peer) : status;
}

rcm_status shm_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                              uint64_t meta, bool may_get) {
    struct shm_channel *shm = shm_of(channel);
    struct rcmi_fifo_writer *writer = &shm->fifo.writer;
    uint64_t how = RCMI_FIFO_MAPPED;
    struct shm_location location;
    if (mem->len > (may_get ? RCMI_GET_MAX : channel->slot_bytes))
        return RCM_ERR_UNSUPPORTED; /* no sentence: the caller copies instead */
    if (!shm_memory_locate(channel, mem, &location)) {
        if (!may_get || !shm->link)
            return RCM_ERR_UNSUPPORTED;
        how = RCMI_FIFO_GET;
    }
    const rcm_status status = rcmi_fifo_room(writer);
    if (status != RCM_OK)
        return shm_writer_status(shm, status);
    if (how == RCMI_FIFO_GET) {
        const uint64_t remote = (uint64_t)(uintptr_t)mem->bytes;
        get_note(shm, mem);
        memcpy(writer->header->bytes, &remote, sizeof remote);
    } else {
        memcpy(writer->header->bytes, &location, sizeof location);
    }
    rcmi_fifo_publish(writer, mem->len | how, meta);
    shm->put = NULL;
    shm_publish(shm);
    return RCM_OK;
}

/* Have all readers released these messages? Readers that are gone never do: their channel has
 * failed with an error. */
bool shm_completed(struct rcmi_channel *channel, uint64_t number) {
    struct shm_channel *shm = shm_of(channel);
    if (number > shm->completed && rcmi_fifo_taken(&shm->fifo.writer, number))
        shm->completed = number;
    return number <= shm->completed;
}

void *shm_posted_find(struct shm_channel *shm, size_t len) {
    struct rcmi_fifo_writer *writer = &shm->fifo.writer;
    struct rcmi_fifo_posted *posted =
        rcmi_fifo_posted(writer->base, &writer->shape, writer->produced + 1);
    struct shm_location location;
    void *bytes = NULL;
    if (!shm->link || !posted)
        return NULL;
    /* Pairs with the release store in shm_post_receive. */
    if (atomic_load_explicit(&posted->seq, memory_order_acquire) != writer->produced + 1 ||
        *(const volatile uint64_t *)&posted->cap < len)
        return NULL;
    memcpy(&location, posted->location, sizeof location);
    /* An invalid location is ignored: the reader then finds the message in its slot. */
    if (shm_window_find(shm->link, &location, len, &shm->window, &bytes) != RCM_OK)
        return NULL;
    return bytes;
}

/* ---- Reader ---------------------------------------------------------------------------------- */

static void posted_withdraw(struct shm_channel *shm) {
    struct rcmi_fifo_reader *reader = &shm->fifo.reader;
    if (shm->nposted == 0)
        return;
    for (uint64_t i = 0; i < reader->shape.slots; i++)
        atomic_store_explicit(&rcmi_fifo_posted(reader->base, &reader->shape, i)->seq, 0,
                              memory_order_relaxed);
    shm->nposted = 0;
}

bool shm_post_receive(struct rcmi_channel *channel, const struct rcmi_posted *posted) {
    struct shm_channel *shm = shm_of(channel);
    struct rcmi_fifo_reader *reader = &shm->fifo.reader;
    struct shm_location where;
    if (!posted) {
        posted_withdraw(shm);
        return false;
    }
    const uint64_t number = reader->consumed + 1 + posted->ahead;
    struct rcmi_fifo_posted *line = rcmi_fifo_posted(reader->base, &reader->shape, number);
    if (!line || posted->ahead >= reader->shape.slots || posted->mask ||
        !shm_memory_locate(channel, &posted->mem, &where))
        return false;
    shm->posted[number % reader->shape.slots] =
        (struct shm_posted){.number = number, .cap = posted->mem.len, .bytes = posted->mem.bytes};
    shm->nposted++;
    memcpy(line->location, &where, sizeof where);
    line->cap = posted->mem.len;
    /* Pairs with the acquire load in shm_posted_find. */
    atomic_store_explicit(&line->seq, number, memory_order_release);
    return true;
}

static rcm_status mapped_peek(struct shm_channel *shm, size_t len, const void **ret_bytes) {
    struct shm_location location;
    void *at = NULL;
    memcpy(&location, shm->fifo.reader.header->bytes, sizeof location);
    const rcm_status status = shm_window_find(shm->link, &location, len, &shm->window, &at);
    *ret_bytes = at;
    return status;
}

rcm_status shm_peek_elsewhere(struct shm_channel *shm, uint64_t len, struct rcmi_slot *ret_slot) {
    const struct rcmi_fifo_reader *reader = &shm->fifo.reader;
    const uint64_t number = reader->consumed + 1;
    const struct shm_posted *posted = &shm->posted[number % reader->shape.slots];
    switch (len & RCMI_FIFO_FLAGS) {
    case RCMI_FIFO_PUT:
        if (posted->number != number || (len & ~RCMI_FIFO_FLAGS) > posted->cap)
            break;
        ret_slot->bytes = posted->bytes;
        return RCM_OK;
    case RCMI_FIFO_MAPPED:
        return mapped_peek(shm, (size_t)(len & ~RCMI_FIFO_FLAGS), &ret_slot->bytes);
    case RCMI_FIFO_GET:
        if (reader->shape.nreaders != 1)
            break;
        ret_slot->bytes = NULL;
        memcpy(&ret_slot->remote, reader->header->bytes, sizeof ret_slot->remote);
        return RCM_OK;
    default:
        break;
    }
    return rcmi_fifo_broken(reader, number, len);
}
