/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channel ends: created by rcmi_channel_open_*, ended by rcmi_channel_close. opening.c brings them
 * from open to ready; the data operations are the backends'.
 *
 * A closed reader end is freed at once. A closed writer end stays (`closing`) until every reader
 * has closed too, so that committed messages can still be read. Each open of a writer has a serial
 * number, which distinguishes it from a later channel of the same name.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "channel.h"

struct close_frame {
    uint32_t serial;
    uint32_t by_writer;
    uint64_t sent; /* messages that the writer committed; of a reader 0 */
};
_Static_assert(sizeof(struct close_frame) == 16, "no padding on the wire");

/* ---- Before the transport is chosen ---------------------------------------------------------- */

static void none_commit(struct rcmi_channel *channel, size_t len, uint64_t meta) {
    (void)channel;
    (void)len;
    (void)meta;
}

static bool none_completed(struct rcmi_channel *channel, uint64_t number) {
    (void)channel;
    (void)number;
    return true;
}

static void none_release(struct rcmi_channel *channel) {
    (void)channel;
}

/* The operations that do not check the state first, for channels that failed before they were
 * ready. */
static const struct rcmi_transport no_transport = {
    .name = "",
    .commit = none_commit,
    .completed = none_completed,
    .release = none_release,
    .taken = rcmi_always_taken,
    .post_receive = rcmi_no_post_receive,
    .get = rcmi_no_get,
    .help = rcmi_no_help,
};

/* ---- Creating and freeing -------------------------------------------------------------------- */

static bool all_near(const struct rcmi_node *node, const int *ranks, int n) {
    int i = 0;
    while (node->near && i < n && node->near[ranks[i]])
        i++;
    return node->near && i == n;
}

static struct rcmi_channel_end *end_new(struct rcmi_node *node, uint64_t epoch, uint32_t id,
                                        const int *ranks, int nranks) {
    struct rcmi_channel_end *end =
        rcmi_zalloc(sizeof *end + (size_t)nranks * sizeof end->readers[0]);
    struct rcmi_channel *channel = rcmi_zalloc(node->channel_size);
    if (!end || !channel) {
        free(end);
        free(channel);
        return NULL;
    }
    end->channel = channel;
    end->nreaders = nranks;
    for (int i = 0; i < nranks; i++) {
        end->readers[i].rank = ranks[i];
        end->readers[i].end = end;
    }
    channel->transport = &no_transport;
    channel->node = node;
    channel->protocol = all_near(node, ranks, nranks) ? &node->near_protocol : &node->protocol;
    channel->slot_bytes = node->config.slot_bytes;
    channel->slots = node->config.slots;
    channel->epoch = epoch;
    channel->id = id;
    end->kind = id & RCMI_ID_DEVICE ? RCMI_MEM_DEVICE : RCMI_MEM_HOST;
    channel->framework = end;
    atomic_init(&channel->state, RCM_AGAIN);
    atomic_init(&channel->lost_peer, -1);
    atomic_init(&end->last, RCMI_STILL_OPEN);
    return end;
}

static void end_list(struct rcmi_channel_end *end) {
    struct rcmi_node *node = end->channel->node;
    end->next = node->ends;
    if (end->next)
        end->next->prev = end;
    node->ends = end;
}

static void reader_list(struct rcmi_reader *reader, struct rcmi_link *link) {
    reader->next = link->readers;
    if (reader->next)
        reader->next->at = &reader->next;
    reader->at = &link->readers;
    link->readers = reader;
}

static void reader_unlist(struct rcmi_reader *reader) {
    if (!reader->at)
        return;
    *reader->at = reader->next;
    if (reader->next)
        reader->next->at = reader->at;
    reader->at = NULL;
}

static void end_free(struct rcmi_channel_end *end) {
    struct rcmi_node *node = end->channel->node;
    for (int i = 0; i < end->nreaders; i++)
        reader_unlist(&end->readers[i]);
    if (end->prev)
        end->prev->next = end->next;
    else
        node->ends = end->next;
    if (end->next)
        end->next->prev = end->prev;
    if (end->closing)
        node->closing--;
    node->slot_memory -= end->slot_memory;
    if (end->inited)
        end->channel->transport->channel_fini(end->channel);
    free(end->channel);
    free(end);
}

void rcmi_channels_free(struct rcmi_node *node) {
    while (node->ends)
        end_free(node->ends);
}

/* ---- Opening --------------------------------------------------------------------------------- */

struct open_call {
    struct rcmi_node *node;
    uint64_t epoch;
    uint32_t id;
    const int *ranks; /* the readers; for a reader end: the writer */
    int nranks;
    bool is_writer;
    struct rcmi_channel *channel;
    rcm_status status;
    struct rcmi_error error; /* copied from the loop thread to the caller's thread */
};

/* Each reader identifies a channel by (epoch, id, writer): two writer ends of the same name must
 * not have a reader in common. */
static rcm_status end_check_name(const struct rcmi_channel_end *end, const struct rcmi_link *link) {
    const struct rcmi_channel *c = end->channel;
    const struct rcmi_channel_end *other = rcmi_end_named(link, c->epoch, c->id, c->is_writer);
    if (!other)
        return RCM_OK;
    if (other == end)
        return rcmi_fail(RCM_ERR_INVALID, 0, "channel %" PRIu64 ":%u with rank %d as reader twice",
                         c->epoch, c->id, link->peer);
    return rcmi_fail(RCM_ERR_INVALID, 0,
                     "the %s end of channel %" PRIu64 ":%u of rank %d is open already",
                     c->is_writer ? "writing" : "reading", c->epoch, c->id, c->writer);
}

/* Adds the end to the link of each reader; makes missing links. */
static rcm_status end_enter(struct rcmi_channel_end *end) {
    for (int i = 0; i < end->nreaders; i++) {
        struct rcmi_link *link = rcmi_link_need(end->channel->node, end->readers[i].rank);
        if (!link)
            return RCM_ERR_NOMEM;
        const rcm_status status = end_check_name(end, link);
        if (status != RCM_OK)
            return status;
        reader_list(&end->readers[i], link);
        const enum rcmi_link_state state = rcmi_link_state(link);
        if (state == RCMI_LINK_LOST || state == RCMI_LINK_ENDED)
            rcmi_end_fail(end, &link->why);
    }
    return RCM_OK;
}

/* Requests the planes of the channel's kind, for links that are or come up. */
static void end_need_planes(struct rcmi_channel_end *end) {
    const struct rcmi_node *node = end->channel->node;
    for (int i = 0; end->kind != RCMI_MEM_HOST && i < end->nreaders; i++)
        rcmi_plane_need(rcmi_node_link(node, end->readers[i].rank));
}

static rcm_status open_end(struct open_call *open) {
    struct rcmi_channel_end *end =
        end_new(open->node, open->epoch, open->id, open->ranks, open->nranks);
    if (!end)
        return RCM_ERR_NOMEM;
    end->channel->is_writer = open->is_writer;
    end->channel->nreaders = open->nranks;
    end->channel->writer = open->is_writer ? open->node->config.rank : open->ranks[0];
    end_list(end);
    rcm_status status = end_enter(end);
    if (status != RCM_OK) {
        end_free(end);
        return status;
    }
    end_need_planes(end);
    if (open->is_writer)
        rcmi_opening_offer(end);
    else
        rcmi_opening_match(end);
    open->channel = end->channel;
    return RCM_OK;
}

static void open_on_loop(void *arg) {
    struct open_call *open = arg;
    open->status = open_end(open);
    if (open->status != RCM_OK)
        open->error = *rcmi_last_error();
}

static rcm_status channel_open(struct open_call *open, struct rcmi_channel **ret_channel) {
    rcmi_loop_call(open->node->loop, open_on_loop, open);
    if (open->status != RCM_OK) {
        *rcmi_last_error() = open->error;
        return open->status;
    }
    *ret_channel = open->channel;
    return RCM_OK;
}

static rcm_status check_rank(const struct rcmi_node *node, int rank) {
    if (rank < 0 || rank >= node->config.nranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "a channel with rank %d, not 0 to %d", rank,
                         node->config.nranks - 1);
    return RCM_OK;
}

rcm_status rcmi_channel_open_writer(struct rcmi_node *node, uint64_t epoch, uint32_t id,
                                    const int *readers, int nreaders,
                                    struct rcmi_channel **ret_channel) {
    struct open_call open = {.node = node,
                             .epoch = epoch,
                             .id = id,
                             .ranks = readers,
                             .nranks = nreaders,
                             .is_writer = true,
                             .status = RCM_ERR_ABORTED};
    bool multicast = (id & RCMI_ID_MULTICAST) != 0;
    if (nreaders < 1 || nreaders > node->config.nranks || (nreaders > 1 && !multicast))
        return rcmi_fail(RCM_ERR_INVALID, 0, "channel %" PRIu64 ":%u with %d readers", epoch, id,
                         nreaders);
    for (int i = 0; i < nreaders; i++) {
        rcm_status status = check_rank(node, readers[i]);
        if (status != RCM_OK)
            return status;
    }
    return channel_open(&open, ret_channel);
}

rcm_status rcmi_channel_open_reader(struct rcmi_node *node, uint64_t epoch, uint32_t id, int writer,
                                    struct rcmi_channel **ret_channel) {
    struct open_call open = {.node = node,
                             .epoch = epoch,
                             .id = id,
                             .ranks = &writer,
                             .nranks = 1,
                             .status = RCM_ERR_ABORTED};
    rcm_status status = check_rank(node, writer);
    return status == RCM_OK ? channel_open(&open, ret_channel) : status;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

struct weighing {
    const struct rcmi_node *node;
    uint64_t epoch;
    size_t bytes;
};

static void weigh_on_loop(void *arg) {
    struct weighing *weighing = arg;
    for (const struct rcmi_channel_end *end = weighing->node->ends; end; end = end->next)
        if (end->channel->epoch == weighing->epoch)
            weighing->bytes += end->slot_memory;
}

size_t rcmi_node_slot_memory(struct rcmi_node *node, uint64_t epoch) {
    struct weighing weighing = {.node = node, .epoch = epoch};
    rcmi_loop_call(node->loop, weigh_on_loop, &weighing);
    return weighing.bytes;
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void send_close(struct rcmi_link *link, const struct close_frame *close) {
    struct rcmi_frame *frame = rcmi_frame_new(RCMI_FRAME_CLOSE, sizeof *close);
    if (frame)
        memcpy(rcmi_frame_body(frame), close, sizeof *close);
    rcmi_control_send(link, frame);
}

static void send_reader_close(struct rcmi_link *link, uint32_t serial) {
    const struct close_frame close = {.serial = serial};
    send_close(link, &close);
}

static void close_writer(struct rcmi_channel_end *end) {
    struct rcmi_node *node = end->channel->node;
    const struct close_frame close = {
        .serial = end->serial, .by_writer = 1, .sent = end->channel->sent};
    if (end->inited)
        end->channel->transport->writer_close(end->channel);
    if (!end->offered || end->nclosed == end->nreaders) {
        end_free(end);
        return;
    }
    end->closing = true;
    node->closing++;
    /* Sending never loses a link immediately, so the end stays valid. */
    for (int i = 0; i < end->nreaders; i++)
        if (!end->readers[i].closed)
            send_close(rcmi_node_link(node, end->readers[i].rank), &close);
}

static void close_reader(struct rcmi_channel_end *end) {
    struct rcmi_node *node = end->channel->node;
    struct rcmi_link *link = rcmi_node_link(node, end->channel->writer);
    const uint64_t epoch = end->channel->epoch;
    const uint32_t id = end->channel->id;
    const bool offered = end->offered;
    const uint32_t serial = end->serial;
    end_free(end); /* first: once the writer gets the CLOSE, it may reuse the memory */
    if (offered)
        send_reader_close(link, serial);
    /* The writer may have closed and opened another channel of this name. */
    if (rcmi_opening_is_pending(link, epoch, id) && node->config.wanted)
        node->config.wanted(node->config.arg, link->peer, epoch, id);
}

static void close_on_loop(void *arg) {
    struct rcmi_channel *channel = arg;
    if (channel->is_writer)
        close_writer(rcmi_end_of(channel));
    else
        close_reader(rcmi_end_of(channel));
}

void rcmi_channel_close(struct rcmi_channel *channel) {
    if (channel)
        rcmi_loop_call(channel->node->loop, close_on_loop, channel);
}

/* The reader no longer uses the channel. */
static void reader_closed(struct rcmi_reader *reader) {
    struct rcmi_channel_end *end = reader->end;
    end->nclosed += !reader->closed;
    reader->closed = true;
    if (end->closing && end->nclosed == end->nreaders)
        end_free(end);
}

/* The writer commits no more. An open reader end stays until it is closed here: it may contain
 * messages, or they have not arrived. */
static rcm_status writer_closed(struct rcmi_link *link, const struct close_frame *close) {
    struct rcmi_channel_end *end = rcmi_end_read(link, close->serial);
    if (close->sent == RCMI_STILL_OPEN)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it closed a channel after %llu messages",
                         (unsigned long long)close->sent);
    if (rcmi_opening_withdraw(link, close->serial))
        send_reader_close(link, close->serial);
    if (!end)
        return RCM_OK;
    atomic_store_explicit(&end->last, close->sent, memory_order_release);
    rcmi_node_ring(link->node); /* a receive may wait for more */
    return RCM_OK;
}

rcm_status rcmi_channel_on_close(struct rcmi_link *link, const uint8_t *body, size_t len) {
    struct close_frame frame;
    if (len != sizeof frame)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it closed a channel in %zu bytes", len);
    memcpy(&frame, body, sizeof frame);
    if (frame.by_writer)
        return writer_closed(link, &frame);
    struct rcmi_reader *reader = rcmi_reader_of(link, frame.serial);
    if (!reader)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it closed channel %u, which does not exist",
                         frame.serial);
    reader_closed(reader);
    return RCM_OK;
}

/* ---- Links that end -------------------------------------------------------------------------- */

/* A ready reader end whose writer sent a farewell: committed messages can still be read. */
static bool end_outlives(const struct rcmi_channel_end *end, const struct rcmi_link *link) {
    return rcmi_link_state(link) == RCMI_LINK_ENDED && !end->channel->is_writer &&
           atomic_load_explicit(&end->channel->state, memory_order_relaxed) == RCM_OK;
}

void rcmi_channels_link_down(struct rcmi_link *link) {
    struct rcmi_reader *reader = link->readers, *next;
    for (; reader; reader = next) {
        next = reader->next;
        if (!end_outlives(reader->end, link))
            rcmi_end_fail(reader->end, &link->why);
        if (reader->end->channel->is_writer)
            reader_closed(reader);
    }
    rcmi_opening_forget(link);
}
