/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening: the ends of a channel find each other over the control streams. The writer waits until
 * all links are up and their planes of the channel's kind of memory are up or declined. Then it
 * chooses the planes and sends an OPEN to each reader, with the backend's offer. The OPEN waits
 * there (`pending`) until the reader opens too. The reader answers with an ACK and is ready; the
 * writer is ready when all readers have answered. An ACK may instead contain an error, and then
 * both ends fail.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "channel.h"

struct open_frame {
    uint64_t epoch, slot_bytes;
    uint32_t serial, id, nreaders, reader, slots, plane; /* enum rcmi_mem_kind */
    /* The offer's bytes follow. */
};
_Static_assert(sizeof(struct open_frame) == 40, "no padding on the wire");

struct ack_frame {
    uint32_t serial;
    int32_t status;
    /* The answer's bytes follow, or the error text. */
};

struct rcmi_pending {
    struct rcmi_pending *next;
    struct open_frame open;
    struct rcmi_blob blob;
    int nfds; /* descriptors received */
};

/* ---- The writer ------------------------------------------------------------------------------ */

/* Why the link does not use a Unix socket, as far as this side knows. Follows the transport's name
 * in the text. */
static void explain_detour(const struct rcmi_link *link, char *text, size_t cap) {
    text[0] = '\0';
    if (link->same_host)
        return;
    if (link->detour[0])
        snprintf(text, cap, ", because its Unix socket does not work: %s", link->detour);
    else if (!link->initiator)
        snprintf(text, cap, ", by which it connected to rank %d and may have logged why",
                 rcmi_node_rank(link->node));
}

static const struct rcmi_domain *host_domain(const struct rcmi_link *link) {
    return link->planes[RCMI_MEM_HOST].domain;
}

/* Why a link that is up cannot carry the end; the text follows "rank 3". NULL: it can. */
static const char *reader_fault(const struct rcmi_channel_end *end, const struct rcmi_link *link) {
    const struct rcmi_link *first = rcmi_node_link(link->node, end->readers[0].rank);
    if (host_domain(link) != host_domain(first))
        return "is reached by another transport than the first reader";
    if (end->nreaders > 1 && !host_domain(link)->transport->multicast)
        return "is reached by a transport without multicast";
    return NULL;
}

static void end_fail_by(struct rcmi_channel_end *end, const struct rcmi_link *link,
                        const char *fault) {
    char detour[200];
    explain_detour(link, detour, sizeof detour);
    (void)rcmi_fail_peer(RCM_ERR_SYSTEM, link->peer,
                         "channel %" PRIu64 ":%u has %d readers, and rank %d %s (%s%s)",
                         end->channel->epoch, end->channel->id, end->nreaders, link->peer, fault,
                         host_domain(link)->transport->name, detour);
    rcmi_end_fail(end, rcmi_last_error());
}

/* Are all links up? Fails the end if they cannot carry it. A link that was up is not checked again,
 * because a link that goes down fails its ends. */
static bool links_are_up(struct rcmi_channel_end *end) {
    for (; end->nup < end->nreaders; end->nup++) {
        const struct rcmi_link *link =
            rcmi_node_link(end->channel->node, end->readers[end->nup].rank);
        if (!link || rcmi_link_state(link) != RCMI_LINK_UP)
            return false;
        const char *fault = reader_fault(end, link);
        if (fault) {
            end_fail_by(end, link, fault);
            return false;
        }
    }
    return true;
}

/* Chooses the planes. False: not decided yet. The planes of its kind are used if they are up and
 * have one transport for all readers, else the host planes. Planes that were up are not checked
 * again here, either. */
static bool planes_are_decided(struct rcmi_channel_end *end) {
    const struct rcmi_node *node = end->channel->node;
    const struct rcmi_plane *first = &rcmi_node_link(node, end->readers[0].rank)->planes[end->kind];
    for (; end->kind != RCMI_MEM_HOST && end->nplanes < end->nreaders; end->nplanes++) {
        const struct rcmi_plane *plane =
            &rcmi_node_link(node, end->readers[end->nplanes].rank)->planes[end->kind];
        if (plane->state == RCMI_PLANE_NONE || plane->state == RCMI_PLANE_SETUP)
            return false;
        if (plane->state != RCMI_PLANE_UP || plane->domain != first->domain ||
            (end->nreaders > 1 && !plane->domain->transport->multicast))
            end->kind = RCMI_MEM_HOST;
    }
    return true;
}

static size_t slot_bytes_of(const struct rcmi_channel *channel,
                            const struct rcmi_transport *transport) {
    const uint32_t bulk = channel->id & RCMI_ID_BULK ? transport->bulk_scale : 1;
    const uint32_t device = channel->id & RCMI_ID_DEVICE ? RCMI_DEVICE_SLOT_SCALE : 1;
    return channel->node->config.slot_bytes * (bulk > device ? bulk : device);
}

/* Readers of a same-host transport map the writer's slots. The extra size of bulk slots is rarely
 * touched, so it is counted only if slots are pinned. */
static size_t slot_memory_of(const struct rcmi_channel *channel,
                             const struct rcmi_transport *transport) {
    if (transport->same_host && !channel->is_writer)
        return 0;
    return channel->slots * (transport->pinned_slots ? slot_bytes_of(channel, transport)
                                                     : channel->node->config.slot_bytes);
}

/* Sets the channel's transport, and counts the memory of the end's slots. */
static rcm_status end_begin(struct rcmi_channel_end *end, const struct rcmi_domain *domain) {
    const struct rcmi_transport *transport = domain->transport;
    struct rcmi_channel *channel = end->channel;
    struct rcmi_node *node = channel->node;
    const size_t bytes = slot_memory_of(channel, transport);
    if (bytes > node->slot_memory_max - node->slot_memory)
        return rcmi_fail(RCM_ERR_RESOURCE, 0,
                         "the slots of all channels use %zu bytes, one more channel needs %zu, and "
                         "RINGCOMM_SLOT_MEMORY allows %zu",
                         node->slot_memory, bytes, node->slot_memory_max);
    node->slot_memory += bytes;
    end->slot_memory = bytes;
    channel->transport = transport;
    channel->transport_number = domain->number;
    end->inited = true;
    return RCM_OK;
}

static rcm_status writer_init(struct rcmi_channel_end *end) {
    struct rcmi_node *node = end->channel->node;
    const struct rcmi_link *first = rcmi_node_link(node, end->readers[0].rank);
    void **links = rcmi_zalloc((size_t)end->nreaders * sizeof *links);
    if (!links)
        return RCM_ERR_NOMEM;
    for (int i = 0; i < end->nreaders; i++)
        links[i] = rcmi_node_link(node, end->readers[i].rank)->planes[end->kind].data;
    const struct rcmi_domain *domain = first->planes[end->kind].domain;
    end->channel->slot_bytes = slot_bytes_of(end->channel, domain->transport);
    rcm_status status = end_begin(end, domain);
    if (status == RCM_OK)
        status = end->channel->transport->writer_init(end->channel, links, end->nreaders);
    free(links);
    return status;
}

/* Makes the OPEN for reader number r. */
static rcm_status writer_open_frame(struct rcmi_channel_end *end, int r,
                                    struct rcmi_frame **ret_frame) {
    const struct rcmi_channel *channel = end->channel;
    const struct open_frame open = {
        .serial = end->serial,
        .epoch = channel->epoch,
        .id = channel->id,
        .nreaders = (uint32_t)end->nreaders,
        .reader = (uint32_t)r,
        .slots = channel->slots,
        .slot_bytes = channel->slot_bytes,
        .plane = (uint32_t)end->kind,
    };
    struct rcmi_blob blob = {.len = 0};
    rcm_status status = channel->transport->writer_offer(end->channel, r, &blob);
    if (status != RCM_OK)
        return status;
    struct rcmi_frame *frame = rcmi_frame_new(RCMI_FRAME_OPEN, sizeof open + blob.len);
    if (!frame)
        return RCM_ERR_NOMEM;
    memcpy(rcmi_frame_body(frame), &open, sizeof open);
    memcpy((uint8_t *)rcmi_frame_body(frame) + sizeof open, blob.bytes, blob.len);
    frame->nfds = blob.nfds;
    memcpy(frame->fds, blob.fds, sizeof frame->fds);
    *ret_frame = frame;
    return RCM_OK;
}

void rcmi_opening_offer(struct rcmi_channel_end *end) {
    struct rcmi_node *node = end->channel->node;
    struct rcmi_frames frames = {NULL, NULL};
    if (end->offered ||
        atomic_load_explicit(&end->channel->state, memory_order_relaxed) != RCM_AGAIN ||
        !links_are_up(end) || !planes_are_decided(end))
        return;
    if (++node->serial == 0)
        node->serial = 1;
    end->serial = node->serial;
    rcm_status status = writer_init(end);
    for (int r = 0; status == RCM_OK && r < end->nreaders; r++) {
        struct rcmi_frame *frame = NULL;
        status = writer_open_frame(end, r, &frame);
        if (status == RCM_OK)
            rcmi_frames_push(&frames, frame);
    }
    if (status != RCM_OK) {
        rcmi_frames_clear(&frames);
        rcmi_end_fail(end, rcmi_last_error());
        return;
    }
    end->offered = true;
    for (int r = 0; r < end->nreaders; r++)
        rcmi_control_send(rcmi_node_link(node, end->readers[r].rank), rcmi_frames_pop(&frames));
}

void rcmi_channels_link_up(struct rcmi_link *link) {
    for (struct rcmi_reader *reader = link->readers; reader; reader = reader->next)
        if (reader->end->channel->is_writer)
            rcmi_opening_offer(reader->end);
}

/* The reader's ACK contains an error. */
static void writer_refused(struct rcmi_channel_end *end, const struct rcmi_link *link, int status,
                           const uint8_t *text, size_t len) {
    char sentence[RCMI_BLOB_MAX + 1];
    rcmi_frame_sentence(text, len < RCMI_BLOB_MAX ? len : RCMI_BLOB_MAX, sentence);
    bool known = status < 0 && status >= RCM_ERR_INTERNAL;
    (void)rcmi_fail_peer(known ? (rcm_status)status : RCM_ERR_PROTOCOL, link->peer,
                         "rank %d could not open channel %" PRIu64 ":%u: %s", link->peer,
                         end->channel->epoch, end->channel->id, sentence);
    rcmi_end_fail(end, rcmi_last_error());
}

rcm_status rcmi_channel_on_ack(struct rcmi_link *link, const uint8_t *body, size_t len,
                               struct rcmi_blob *blob) {
    struct ack_frame ack = {.serial = 0};
    if (len >= sizeof ack && len <= sizeof ack + sizeof blob->bytes)
        memcpy(&ack, body, sizeof ack);
    struct rcmi_reader *reader = rcmi_reader_of(link, ack.serial);
    if (!reader || reader->acked || reader->closed)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it answered channel %u, which awaits no answer",
                         ack.serial);
    struct rcmi_channel_end *end = reader->end;
    reader->acked = true;
    end->nacked++;
    if (ack.status != RCM_OK) {
        writer_refused(end, link, ack.status, body + sizeof ack, len - sizeof ack);
        return RCM_OK;
    }
    blob->len = len - sizeof ack;
    memcpy(blob->bytes, body + sizeof ack, blob->len);
    if (end->channel->transport->writer_attach(end->channel, (int)(reader - end->readers), blob) !=
        RCM_OK)
        rcmi_end_fail(end, rcmi_last_error());
    else if (end->nacked == end->nreaders)
        rcmi_end_ready(end);
    return RCM_OK;
}

/* ---- The reader ------------------------------------------------------------------------------ */

static rcm_status check_slots(const struct rcmi_channel *channel, const struct open_frame *open) {
    if (open->slot_bytes == channel->slot_bytes && open->slots == channel->slots)
        return RCM_OK;
    return rcmi_fail_peer(RCM_ERR_MISMATCH, channel->writer,
                          "rank %d has channels of %u slots of %llu bytes, rank %d of %u slots "
                          "of %zu bytes: the settings must be equal",
                          channel->writer, open->slots, (unsigned long long)open->slot_bytes,
                          rcmi_node_rank(channel->node), channel->slots, channel->slot_bytes);
}

static rcm_status reader_take(struct rcmi_channel_end *end, const struct rcmi_link *link,
                              struct rcmi_pending *pending, struct rcmi_blob *answer) {
    struct rcmi_channel *channel = end->channel;
    const struct rcmi_plane *plane = &link->planes[pending->open.plane];
    channel->slot_bytes = slot_bytes_of(channel, plane->domain->transport);
    rcm_status status = check_slots(channel, &pending->open);
    if (status != RCM_OK)
        return status;
    status = end_begin(end, plane->domain);
    if (status != RCM_OK)
        return status;
    channel->nreaders = (int)pending->open.nreaders;
    status = channel->transport->reader_init(channel, plane->data);
    if (status == RCM_OK)
        status = channel->transport->reader_accept(channel, &pending->blob, answer);
    return status;
}

static struct rcmi_frame *ack_frame(uint32_t serial, rcm_status status,
                                    const struct rcmi_blob *answer) {
    const struct ack_frame ack = {.serial = serial, .status = status};
    const char *text = rcmi_last_error()->text;
    size_t len = status == RCM_OK ? answer->len : strnlen(text, RCMI_BLOB_MAX);
    struct rcmi_frame *frame = rcmi_frame_new(RCMI_FRAME_ACK, sizeof ack + len);
    if (!frame)
        return NULL;
    memcpy(rcmi_frame_body(frame), &ack, sizeof ack);
    memcpy((uint8_t *)rcmi_frame_body(frame) + sizeof ack,
           status == RCM_OK ? (const void *)answer->bytes : text, len);
    if (status == RCM_OK) {
        frame->nfds = answer->nfds;
        memcpy(frame->fds, answer->fds, sizeof frame->fds);
    }
    return frame;
}

/* Both sides have opened: accepts the offer and sends the ACK. */
static void reader_accept(struct rcmi_channel_end *end, struct rcmi_link *link,
                          struct rcmi_pending *pending) {
    struct rcmi_blob answer = {.len = 0};
    end->serial = pending->open.serial;
    end->offered = true;
    end->readers[0].acked = true;
    rcm_status status = reader_take(end, link, pending, &answer);
    struct rcmi_frame *frame = ack_frame(end->serial, status, &answer);
    if (status == RCM_OK) {
        rcmi_end_ready(end);
    } else {
        rcmi_last_error()->origin = end->channel->writer;
        rcmi_last_error()->of_world = true;
        rcmi_end_fail(end, rcmi_last_error());
    }
    rcmi_control_send(link, frame);
}

/* ---- Pending --------------------------------------------------------------------------------- */

static void pending_free(struct rcmi_link *link, struct rcmi_pending **at) {
    struct rcmi_pending *pending = *at;
    *at = pending->next;
    link->npending--;
    link->node->pending_fds -= pending->nfds;
    rcmi_blob_close(&pending->blob);
    free(pending);
}

static struct rcmi_pending **pending_find(struct rcmi_link *link, uint64_t epoch, uint32_t id) {
    struct rcmi_pending **at = &link->pending;
    while (*at && ((*at)->open.epoch != epoch || (*at)->open.id != id))
        at = &(*at)->next;
    return at;
}

bool rcmi_opening_is_pending(const struct rcmi_link *link, uint64_t epoch, uint32_t id) {
    for (const struct rcmi_pending *p = link->pending; p; p = p->next)
        if (p->open.epoch == epoch && p->open.id == id)
            return true;
    return false;
}

void rcmi_opening_forget(struct rcmi_link *link) {
    while (link->pending)
        pending_free(link, &link->pending);
}

void rcmi_opening_match(struct rcmi_channel_end *end) {
    struct rcmi_link *link = rcmi_node_link(end->channel->node, end->channel->writer);
    struct rcmi_pending **at = pending_find(link, end->channel->epoch, end->channel->id);
    if (!*at)
        return;
    reader_accept(end, link, *at);
    /* The link may have been lost meanwhile, which frees the pending OPEN. */
    at = pending_find(link, end->channel->epoch, end->channel->id);
    if (*at && (*at)->open.serial == end->serial)
        pending_free(link, at);
}

bool rcmi_opening_withdraw(struct rcmi_link *link, uint32_t serial) {
    struct rcmi_pending **at = &link->pending;
    while (*at && (*at)->open.serial != serial)
        at = &(*at)->next;
    if (!*at)
        return false;
    pending_free(link, at);
    return true;
}

/* Is the frame's plane valid? A plane that is up at the writer is up here. */
static bool plane_is_right(const struct rcmi_link *link, const struct open_frame *open) {
    if (open->plane == RCMI_MEM_HOST)
        return true;
    return open->plane == RCMI_MEM_DEVICE && open->id & RCMI_ID_DEVICE &&
           link->planes[RCMI_MEM_DEVICE].state == RCMI_PLANE_UP;
}

static rcm_status pending_new(const struct rcmi_link *link, const uint8_t *body, size_t len,
                              struct rcmi_blob *blob, struct rcmi_pending **ret_pending) {
    struct open_frame open = {.serial = 0};
    if (len >= sizeof open && len <= sizeof open + sizeof blob->bytes)
        memcpy(&open, body, sizeof open);
    bool multicast = (open.id & RCMI_ID_MULTICAST) != 0;
    if (open.serial == 0 || !plane_is_right(link, &open) || open.nreaders < 1 ||
        open.reader >= open.nreaders || open.nreaders > (uint32_t)link->node->config.nranks ||
        (open.nreaders > 1 && !multicast))
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "it opened channel %" PRIu64
                         ":%u for reader %u of %u in %zu bytes, which is not "
                         "valid",
                         open.epoch, open.id, open.reader, open.nreaders, len);
    if (link->npending >= RCMI_PENDING_MAX)
        return rcmi_fail(RCM_ERR_RESOURCE, 0,
                         "it opened more than %d channels that rank %d has not opened yet",
                         RCMI_PENDING_MAX, link->node->config.rank);
    if (blob->nfds > RCMI_PENDING_FDS * link->node->max_unidentified - link->node->pending_fds)
        return rcmi_fail(RCM_ERR_RESOURCE, 0,
                         "it opened channels that rank %d has not opened yet, and those of all "
                         "ranks hold %d descriptors already",
                         link->node->config.rank, link->node->pending_fds);
    struct rcmi_pending *pending = rcmi_zalloc(sizeof *pending);
    if (!pending)
        return RCM_ERR_NOMEM;
    pending->nfds = blob->nfds;
    link->node->pending_fds += blob->nfds;
    pending->open = open;
    pending->blob = *blob;
    pending->blob.len = len - sizeof open;
    memcpy(pending->blob.bytes, body + sizeof open, pending->blob.len);
    blob->nfds = 0; /* owned by pending now */
    *ret_pending = pending;
    return RCM_OK;
}

rcm_status rcmi_channel_on_open(struct rcmi_link *link, const uint8_t *body, size_t len,
                                struct rcmi_blob *blob) {
    const struct rcmi_node_config *config = &link->node->config;
    struct rcmi_pending *pending = NULL, **at = &link->pending;
    rcm_status status = pending_new(link, body, len, blob, &pending);
    if (status != RCM_OK)
        return status;
    const uint64_t epoch = pending->open.epoch;
    const uint32_t id = pending->open.id;
    while (*at)
        at = &(*at)->next;
    *at = pending;
    link->npending++;
    struct rcmi_channel_end *end = rcmi_end_named(link, epoch, id, false);
    if (end && !end->offered)
        rcmi_opening_match(end);
    else if (!end && config->wanted)
        config->wanted(config->arg, link->peer, epoch, id);
    return RCM_OK;
}
