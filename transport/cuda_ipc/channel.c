/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels: the headers and counters of the queue of channel/fifo.h, in a range of the writer's
 * memory file. The slots are in the writer's arena and are allocated with the first message. No
 * function here touches a payload: reserve and peek return addresses for operations, which have
 * ended before commit and release are called.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "cuda_ipc.h"

static struct ipc_channel *ipc_of(struct rcmi_channel *channel) {
    return (struct ipc_channel *)channel;
}

static size_t round_up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

/* A queue without payload slots: every message is a mapped one. */
static struct rcmi_fifo_shape shape_of(const struct rcmi_channel *channel) {
    struct rcmi_fifo_shape shape = rcmi_fifo_shape(0, channel->slots, channel->nreaders);
    if (shape.longest_mapped < channel->slot_bytes)
        shape.longest_mapped = channel->slot_bytes;
    return shape;
}

/* ---- Writer ---------------------------------------------------------------------------------- */

static rcm_status headers_map(struct ipc_channel *ipc, int memfd) {
    void *memory = mmap(NULL, ipc->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memfd,
                        (off_t)ipc->at);
    if (memory == MAP_FAILED)
        return rcmi_fail(rcmi_status_of_errno(errno), errno,
                         "cannot map %zu bytes of shared memory", ipc->len);
    ipc->memory = memory;
    return RCM_OK;
}

static rcm_status headers_take(struct ipc_domain *domain, struct ipc_channel *ipc, size_t len) {
    if (!rcmi_ranges_take(&domain->ranges, len, &ipc->at)) {
        const rcm_status status = rcmi_memfd_grow(domain->memfd, domain->size, domain->size + len);
        if (status != RCM_OK)
            return rcmi_fail_context("headers of a channel");
        ipc->at = domain->size;
        domain->size += len;
    }
    ipc->domain = domain;
    ipc->len = len;
    return headers_map(ipc, domain->memfd);
}

/* Enters the channel into the link of each reader, for ipc_link_flushed. */
static rcm_status readers_enter(struct ipc_channel *ipc, void *const *links, int nreaders) {
    ipc->readers = rcmi_zalloc((size_t)nreaders * sizeof *ipc->readers);
    if (!ipc->readers)
        return RCM_ERR_NOMEM;
    for (int r = 0; r < nreaders; r++) {
        struct ipc_reader *reader = &ipc->readers[r];
        struct ipc_link *link = links[r];
        *reader = (struct ipc_reader){.next = link->readers,
                                      .here = &link->readers,
                                      .channel = ipc,
                                      .link = link,
                                      .number = r};
        if (reader->next)
            reader->next->here = &reader->next;
        link->readers = reader;
    }
    return RCM_OK;
}

static void readers_leave(struct ipc_channel *ipc) {
    for (int r = 0; ipc->readers && r < ipc->base.nreaders; r++) {
        const struct ipc_reader *reader = &ipc->readers[r];
        *reader->here = reader->next;
        if (reader->next)
            reader->next->here = reader->here;
    }
    free(ipc->readers);
}

rcm_status ipc_writer_init(struct rcmi_channel *channel, void *const *links, int nreaders) {
    struct ipc_channel *ipc = ipc_of(channel);
    struct ipc_domain *domain = ((const struct ipc_link *)links[0])->domain;
    const struct rcmi_fifo_shape shape = shape_of(channel);
    ipc->stride = round_up(channel->slot_bytes, IPC_ALIGN);
    ipc->slots_len = channel->slots * ipc->stride;
    const rcm_status status = headers_take(domain, ipc, round_up(shape.total, domain->page));
    if (status != RCM_OK)
        return status;
    rcmi_fifo_clear(ipc->memory, &shape);
    rcmi_fifo_writer_init(&ipc->fifo.writer, ipc->memory, &shape);
    return readers_enter(ipc, links, nreaders);
}

rcm_status ipc_writer_offer(struct rcmi_channel *channel, int r, struct rcmi_blob *ret_offer) {
    const struct ipc_channel *ipc = ipc_of(channel);
    const struct ipc_offer offer = {.at = ipc->at,
                                    .len = ipc->len,
                                    .nreaders = (uint32_t)channel->nreaders,
                                    .reader = (uint32_t)r};
    memcpy(ret_offer->bytes, &offer, sizeof offer);
    ret_offer->len = sizeof offer;
    ret_offer->fds[0] = ipc->domain->memfd;
    ret_offer->nfds = 1;
    return RCM_OK;
}

rcm_status ipc_writer_attach(struct rcmi_channel *channel, int r, struct rcmi_blob *answer) {
    (void)channel;
    (void)r;
    (void)answer; /* empty */
    return RCM_OK;
}

/* Nothing to do: the arena and registered memory outlive the channel. */
void ipc_writer_close(struct rcmi_channel *channel) {
    (void)channel;
}

/* ---- Reader ---------------------------------------------------------------------------------- */

rcm_status ipc_reader_init(struct rcmi_channel *channel, void *arg) {
    struct ipc_channel *ipc = ipc_of(channel);
    struct ipc_link *link = arg;
    ipc->link = link;
    ipc->next = link->read;
    ipc->here = &link->read;
    if (ipc->next)
        ipc->next->here = &ipc->next;
    link->read = ipc;
    return RCM_OK;
}

static void unread_end(struct ipc_channel *ipc) {
    if (atomic_exchange(&ipc->unread, false))
        ipc_peer_unread(ipc->link->peer, -1);
}

static void reader_leave(struct ipc_channel *ipc) {
    *ipc->here = ipc->next;
    if (ipc->next)
        ipc->next->here = ipc->here;
    unread_end(ipc);
}

/* The reading thread releases a message and then checks whether the link is down. The loop thread
 * marks the link as down and then checks what was released. Whichever checks last sees both. */
static void unread_look(struct ipc_channel *ipc) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&ipc->unread) && !rcmi_fifo_unread(&ipc->fifo.reader))
        unread_end(ipc);
}

void ipc_channels_link_down(const struct ipc_link *link) {
    for (struct ipc_channel *ipc = link->read; ipc; ipc = ipc->next) {
        if (atomic_load_explicit(&ipc->base.state, memory_order_relaxed) != RCM_OK ||
            atomic_load(&ipc->unread))
            continue;
        ipc_peer_unread(link->peer, 1);
        atomic_store(&ipc->unread, true);
        unread_look(ipc);
    }
}

static rcm_status offer_check(const struct rcmi_blob *blob, const struct rcmi_fifo_shape *shape,
                              struct ipc_offer *ret_offer) {
    size_t size = 0;
    if (blob->len == sizeof *ret_offer && blob->nfds == 1 &&
        rcmi_memfd_size(blob->fds[0], &size) == RCM_OK) {
        memcpy(ret_offer, blob->bytes, sizeof *ret_offer);
        if (ret_offer->len >= shape->total && ret_offer->len <= size &&
            ret_offer->at <= size - ret_offer->len &&
            ret_offer->nreaders == (uint32_t)shape->nreaders &&
            ret_offer->reader < ret_offer->nreaders)
            return RCM_OK;
    }
    return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                     "an offer of a channel of device memory, in %zu bytes with %d descriptors, is "
                     "not valid",
                     blob->len, blob->nfds);
}

rcm_status ipc_reader_accept(struct rcmi_channel *channel, struct rcmi_blob *blob,
                             struct rcmi_blob *ret_answer) {
    struct ipc_channel *ipc = ipc_of(channel);
    const struct rcmi_fifo_shape shape = shape_of(channel);
    struct ipc_offer offer;
    rcm_status status = offer_check(blob, &shape, &offer);
    if (status != RCM_OK)
        return status;
    ipc->at = (size_t)offer.at;
    ipc->len = (size_t)offer.len;
    status = headers_map(ipc, blob->fds[0]);
    if (status != RCM_OK)
        return status;
    rcmi_fifo_reader_init(&ipc->fifo.reader, ipc->memory, &shape, (int)offer.reader);
    ret_answer->len = 0;
    return RCM_OK;
}

/* For both ends. */
void ipc_channel_fini(struct rcmi_channel *channel) {
    struct ipc_channel *ipc = ipc_of(channel);
    readers_leave(ipc);
    if (ipc->import)
        rcmi_import_put(ipc->import);
    if (ipc->link)
        reader_leave(ipc);
    if (ipc->memory)
        munmap(ipc->memory, ipc->len);
    if (ipc->domain && ipc->len)
        rcmi_ranges_give(&ipc->domain->ranges, ipc->at, ipc->len);
    if (ipc->chunk)
        ipc_arena_give(ipc->domain, ipc->chunk, ipc->slots_at, ipc->slots_len);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static rcm_status peer_fault(int rank) {
    rcmi_last_error()->origin = rank;
    rcmi_last_error()->of_world = true;
    return rcmi_fail_context("rank %d", rank);
}

static rcm_status own_fault(const struct ipc_channel *ipc) {
    return peer_fault(rcmi_node_rank(ipc->base.node));
}

/* Blames the writer, or this rank. */
static rcm_status peek_fault(const struct ipc_channel *ipc, rcm_status status) {
    const bool theirs = status == RCM_ERR_PEER || status == RCM_ERR_PROTOCOL;
    return theirs ? peer_fault(ipc->base.writer) : own_fault(ipc);
}

/* Invalid counters are attributed to the reader, unless there are several. */
rcm_status ipc_room(struct ipc_channel *ipc) {
    const rcm_status status = rcmi_fifo_room(&ipc->fifo.writer);
    return status < 0 && ipc->base.nreaders == 1 ? peer_fault(ipc->readers[0].link->peer->rank)
                                                 : status;
}

/* Allocates memory for the slots, once. */
static rcm_status slots_take(struct ipc_channel *ipc) {
    if (ipc->chunk)
        return RCM_OK;
    const rcm_status status =
        ipc_arena_take(ipc->domain, ipc->slots_len, &ipc->chunk, &ipc->slots_at);
    return status < 0 ? own_fault(ipc) : status;
}

rcm_status ipc_reserve(struct rcmi_channel *channel, size_t len, struct rcmi_reserved *ret) {
    struct ipc_channel *ipc = ipc_of(channel);
    rcm_status status = ipc_room(ipc);
    (void)len;
    if (status == RCM_OK)
        status = slots_take(ipc);
    if (status != RCM_OK)
        return status;
    const size_t at = ipc->slots_at + ipc->fifo.writer.index * ipc->stride;
    *ret = (struct rcmi_reserved){.bytes = (char *)(uintptr_t)ipc->chunk->export.handle.base + at,
                                  .stores = RCMI_TEMPORAL};
    return RCM_OK;
}

static void link_ring(const struct ipc_link *link) {
    rcmi_doorbell_ring(link->wake.doorbell, link->wake.eventfd);
}

void ipc_publish(struct ipc_channel *ipc, const struct rcmi_device_handle *handle, uint64_t at,
                 uint64_t len, uint64_t meta) {
    const struct ipc_location location = {.handle = *handle, .at = at};
    struct rcmi_fifo_writer *writer = &ipc->fifo.writer;
    memcpy(writer->header->bytes, &location, sizeof location);
    rcmi_fifo_publish(writer, len | RCMI_FIFO_MAPPED, meta);
    atomic_store_explicit(&ipc->published, writer->produced, memory_order_relaxed);
    for (int r = 0; r < ipc->base.nreaders; r++)
        link_ring(ipc->readers[r].link);
}

void ipc_commit(struct rcmi_channel *channel, size_t len, uint64_t meta) {
    struct ipc_channel *ipc = ipc_of(channel);
    const size_t at = ipc->slots_at + ipc->fifo.writer.index * ipc->stride;
    ipc_publish(ipc, &ipc->chunk->export.handle, at, len, meta);
}

/* If the driver does not open the memory, the exporting process may just have died; then that is
 * the error to report. So the open is retried once the process has answered a ping, and the second
 * result counts. */
static rcm_status location_open(struct ipc_channel *ipc, const struct ipc_location *location,
                                size_t len) {
    struct ipc_peer *peer = ipc->link->peer;
    const bool again = ipc->ping != 0;
    rcm_status status = again ? ipc_peer_inquire(peer, &ipc->ping) : RCM_OK;
    if (status != RCM_OK)
        return status;
    status = rcmi_imports_get(peer->imports, &location->handle, location->at, len, &ipc->import,
                              &ipc->bytes);
    if (status == RCM_AGAIN)
        return status;
    if (status < 0 && status != RCM_ERR_PROTOCOL && !again) {
        status = ipc_peer_inquire(peer, &ipc->ping);
        return status == RCM_OK ? RCM_AGAIN : status;
    }
    ipc->ping = 0;
    return status;
}

/* Opens the message's memory. Later peeks of the same message reuse it. */
static rcm_status peek_open(struct ipc_channel *ipc, uint64_t len) {
    struct ipc_location location;
    if ((len & RCMI_FIFO_FLAGS) != RCMI_FIFO_MAPPED)
        return rcmi_fifo_broken(&ipc->fifo.reader, ipc->fifo.reader.consumed + 1, len);
    memcpy(&location, ipc->fifo.reader.header->bytes, sizeof location);
    return location_open(ipc, &location, (size_t)(len & ~RCMI_FIFO_FLAGS));
}

rcm_status ipc_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot) {
    struct ipc_channel *ipc = ipc_of(channel);
    struct rcmi_fifo_reader *reader = &ipc->fifo.reader;
    uint64_t len = reader->len;
    rcm_status status = RCM_OK;
    if (!ipc->import) {
        status = rcmi_fifo_peek(reader, &len);
        if (status == RCM_OK)
            status = peek_open(ipc, len);
    }
    if (status != RCM_OK)
        return status < 0 ? peek_fault(ipc, status) : status;
    *ret_slot = (struct rcmi_slot){
        .bytes = ipc->bytes, .len = (size_t)(len & ~RCMI_FIFO_FLAGS), .meta = reader->header->meta};
    return RCM_OK;
}

void ipc_release(struct rcmi_channel *channel) {
    struct ipc_channel *ipc = ipc_of(channel);
    rcmi_import_put(ipc->import);
    ipc->import = NULL;
    rcmi_fifo_release(&ipc->fifo.reader);
    link_ring(ipc->link);
    unread_look(ipc);
}

bool ipc_taken(struct rcmi_channel *channel, int reader, uint64_t number) {
    return rcmi_fifo_taken_by(&ipc_of(channel)->fifo.writer, reader, number);
}
