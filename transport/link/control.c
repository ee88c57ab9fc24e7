/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control streams, receiving side. A frame is {length of body, type, number of descriptors} and a
 * body. The stream is always read, so neither side ever blocks on it. Until the link is up, only
 * set-up frames (setup.c) and heartbeats are sent; other frames wait in link->out (control_send.c).
 *
 * Descriptors are attached to the first byte of their frame. They arrive in order, no later than
 * the frame's last byte. They are queued and assigned to frames as frames are parsed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "link.h"

enum { BODY_MAX = RCMI_MESSAGE_MAX + 512, FRAME_MAX = sizeof(struct rcmi_frame_header) + BODY_MAX };

/* ---- Receiving ------------------------------------------------------------------------------- */

static rcm_status bad_frame(const struct rcmi_frame_header *header) {
    return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                     "it sent a control frame of type %u with %u bytes and %u descriptors, which "
                     "is not valid in this state",
                     header->type, header->len, header->nfds);
}

/* Moves the first n descriptors from the queue into the blob. */
static rcm_status take_fds(struct rcmi_link *link, int n, struct rcmi_blob *blob) {
    if (n > RCMI_FDS_MAX || n > link->in_nfds)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it announced %d descriptors but sent %d", n,
                         link->in_nfds);
    memcpy(blob->fds, link->in_fds, (size_t)n * sizeof(int));
    blob->nfds = n;
    link->in_nfds -= n;
    memmove(link->in_fds, link->in_fds + n, (size_t)link->in_nfds * sizeof(int));
    return RCM_OK;
}

static rcm_status handle_offer(struct rcmi_plane *plane, const uint8_t *body, size_t len,
                               struct rcmi_blob *blob) {
    if (len > sizeof blob->bytes)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it sent an offer of %zu bytes", len);
    memcpy(blob->bytes, body, len);
    blob->len = len;
    return rcmi_setup_on_offer(plane, blob);
}

static rcm_status handle_setup(struct rcmi_plane *plane, const struct rcmi_frame_header *header,
                               const uint8_t *body, struct rcmi_blob *blob) {
    switch (header->type) {
    case RCMI_FRAME_OFFER:
        return handle_offer(plane, body, header->len, blob);
    case RCMI_FRAME_READY:
        return header->len == 0 ? rcmi_setup_on_ready(plane) : bad_frame(header);
    case RCMI_FRAME_DECLINE:
        return rcmi_setup_on_decline(plane, body, header->len);
    case RCMI_FRAME_BEAT:
        return header->len == 0 && header->plane == 0 ? RCM_OK : bad_frame(header);
    default:
        return bad_frame(header);
    }
}

static rcm_status handle(struct rcmi_link *link, const struct rcmi_frame_header *header,
                         const uint8_t *body, struct rcmi_blob *blob) {
    const struct rcmi_node_config *config = &link->node->config;
    const bool up = rcmi_link_state(link) == RCMI_LINK_UP;
    /* The link comes up with the host plane; other planes are set up afterwards. */
    if (header->plane >= RCMI_MEM_KINDS || (header->plane != RCMI_MEM_HOST && !up))
        return bad_frame(header);
    if (header->plane != RCMI_MEM_HOST || !up)
        return handle_setup(&link->planes[header->plane], header, body, blob);
    switch (header->type) {
    case RCMI_FRAME_OPEN:
        return link->node->link_above->on_open(link, body, header->len, blob);
    case RCMI_FRAME_ACK:
        return link->node->link_above->on_ack(link, body, header->len, blob);
    case RCMI_FRAME_CLOSE:
        return link->node->link_above->on_close(link, body, header->len);
    case RCMI_FRAME_MESSAGE:
        if (header->len == 0 || header->len > RCMI_MESSAGE_MAX)
            return bad_frame(header);
        if (config->message)
            config->message(config->arg, link->peer, body, header->len);
        return RCM_OK;
    case RCMI_FRAME_BYE:
        rcmi_link_bye(link);
        return RCM_OK;
    case RCMI_FRAME_BYE_ACK:
        if (header->len != 0 || !link->bye_sent)
            return bad_frame(header);
        rcmi_link_bye_acked(link);
        return RCM_OK;
    case RCMI_FRAME_BEAT:
        return header->len == 0 ? RCM_OK : bad_frame(header);
    case RCMI_FRAME_FAILED:
        return rcmi_link_on_failed(link, body, header->len);
    default:
        return bad_frame(header);
    }
}

/* Handles one complete frame. */
static rcm_status take_frame(struct rcmi_link *link, const struct rcmi_frame_header *header,
                             const uint8_t *body) {
    struct rcmi_blob blob = {.len = 0};
    rcm_status status = take_fds(link, header->nfds, &blob);
    if (status == RCM_OK)
        status = handle(link, header, body, &blob);
    rcmi_blob_close(&blob);
    return status;
}

/* Handles the complete frames in the buffer. A nested call from a callback returns at once, because
 * the current frame is still in the buffer; the outer call continues. */
static rcm_status parse(struct rcmi_link *link) {
    size_t at = 0;
    rcm_status status = RCM_OK;
    if (link->parsing)
        return RCM_OK;
    link->parsing = true;
    while (status == RCM_OK && link->control.fd >= 0) {
        struct rcmi_frame_header header;
        if (link->in_len - at < sizeof header)
            break;
        memcpy(&header, link->in + at, sizeof header);
        if (header.len > BODY_MAX) {
            status = bad_frame(&header);
            break;
        }
        if (link->in_len - at < sizeof header + header.len)
            break;
        status = take_frame(link, &header, link->in + at + sizeof header);
        at += sizeof header + header.len;
    }
    if (link->control.fd >= 0 && at > 0) {
        link->in_len -= at;
        memmove(link->in, link->in + at, link->in_len);
    }
    link->parsing = false;
    return status;
}

static rcm_status receive(struct rcmi_link *link) {
    size_t moved = 0;
    int nfds = 0, room = (int)(sizeof link->in_fds / sizeof link->in_fds[0]) - link->in_nfds;
    void *at = link->in + link->in_len;
    size_t len = FRAME_MAX - link->in_len;
    rcm_status status = link->same_host ? rcmi_recv_fds(link->control.fd, at, len, &moved,
                                                        link->in_fds + link->in_nfds, room, &nfds)
                                        : rcmi_fd_read(link->control.fd, at, len, &moved);
    if (status == RCM_OK) {
        link->in_len += moved;
        link->in_nfds += nfds;
    }
    return status;
}

void rcmi_control_drain(struct rcmi_link *link) {
    rcm_status status = RCM_OK;
    while (status == RCM_OK && link->control.fd >= 0 && !link->parsing) {
        status = receive(link);
        if (status == RCM_OK)
            status = parse(link);
    }
    if (link->control.fd < 0 || status == RCM_AGAIN || status == RCM_OK)
        return;
    if (status == RCM_ERR_PEER || rcmi_host_plane(link)->state == RCMI_PLANE_DECLINED)
        rcmi_link_eof(link);
    else
        rcmi_link_lose(link);
}

static void control_ready(void *arg, uint32_t events) {
    struct rcmi_link *link = arg;
    if (events & EPOLLOUT)
        rcmi_control_flush(link);
    if (link->control.fd >= 0 && (events & ~(uint32_t)EPOLLOUT))
        rcmi_control_drain(link);
    if (link->control.fd >= 0 && rcmi_control_watch(link, rcmi_control_events(link)) != RCM_OK)
        rcmi_link_lose(link);
}

/* ---- Start, loopback ------------------------------------------------------------------------- */

rcm_status rcmi_control_start(struct rcmi_link *link) {
    if (!link->in)
        link->in = rcmi_zalloc(FRAME_MAX);
    if (!link->in)
        return RCM_ERR_NOMEM;
    link->control.ready = control_ready;
    link->control.arg = link;
    link->events = EPOLLIN;
    return rcmi_loop_watch(link->node->loop, &link->control, link->events);
}

bool rcmi_control_loopback(struct rcmi_node *node) {
    struct rcmi_frames frames = node->loopback;
    struct rcmi_link *link = rcmi_node_link(node, node->config.rank);
    bool any = frames.head != NULL;
    node->loopback = (struct rcmi_frames){NULL, NULL};
    for (struct rcmi_frame *frame; (frame = rcmi_frames_pop(&frames));) {
        struct rcmi_frame_header header;
        memcpy(&header, frame->bytes, sizeof header);
        if (rcmi_link_state(link) == RCMI_LINK_UP &&
            take_frame(link, &header, rcmi_frame_body(frame)) != RCM_OK)
            rcmi_link_lose(link);
        free(frame);
    }
    return any;
}
