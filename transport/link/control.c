/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control streams: frames out, frames in. A frame is {length of body, type, number of descriptors}
 * and a body. The stream is always read, so that neither side ever blocks on it. Until the link is
 * up only the frames of its set-up (setup.c) and heartbeats travel; others wait in link->out.
 *
 * Descriptors travel with the first byte of their frame and arrive no later than its last, in
 * order; they are counted off from a queue as frames are taken.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "internal.h"

struct frame_header {
    uint32_t len;
    uint16_t type;
    uint8_t nfds;
    uint8_t plane; /* OFFER, READY, DECLINE: of which it is; else 0 */
};
_Static_assert(sizeof(struct frame_header) == 8, "no padding on the wire");

enum { BODY_MAX = RCMI_MESSAGE_MAX + 512, FRAME_MAX = sizeof(struct frame_header) + BODY_MAX };

/* ---- Frames ---------------------------------------------------------------------------------- */

struct rcmi_frame *rcmi_frame_new(enum rcmi_frame_type type, size_t len) {
    return rcmi_frame_new_to(type, len, NULL, 0);
}

struct rcmi_frame *rcmi_frame_new_to(enum rcmi_frame_type type, size_t len, const int *to,
                                     int nto) {
    const struct frame_header header = {.len = (uint32_t)len, .type = (uint16_t)type};
    const size_t list_at = (sizeof header + len + sizeof *to - 1) / sizeof *to * sizeof *to;
    const size_t list_bytes = to ? (size_t)nto * sizeof *to : 0;
    struct rcmi_frame *frame = calloc(1, sizeof *frame + list_at + list_bytes);
    if (!frame) {
        (void)rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a control frame of %zu bytes", len);
        return NULL;
    }
    frame->len = sizeof header + len;
    memcpy(frame->bytes, &header, sizeof header);
    if (to) {
        frame->to = memcpy(frame->bytes + list_at, to, list_bytes);
        frame->nto = nto;
    }
    return frame;
}

void *rcmi_frame_body(struct rcmi_frame *frame) {
    return frame->bytes + sizeof(struct frame_header);
}

void rcmi_frame_set_plane(struct rcmi_frame *frame, enum rcmi_mem_kind kind) {
    frame->bytes[offsetof(struct frame_header, plane)] = (uint8_t)kind;
}

void rcmi_frame_sentence(const uint8_t *text, size_t len, char *ret_sentence) {
    for (size_t i = 0; i < len; i++)
        ret_sentence[i] = text[i] < ' ' || text[i] > '~' ? '?' : (char)text[i];
    ret_sentence[len] = '\0';
}

void rcmi_frames_push(struct rcmi_frames *frames, struct rcmi_frame *frame) {
    frame->next = NULL;
    if (frames->tail)
        frames->tail->next = frame;
    else
        frames->head = frame;
    frames->tail = frame;
}

struct rcmi_frame *rcmi_frames_pop(struct rcmi_frames *frames) {
    struct rcmi_frame *frame = frames->head;
    if (!frame)
        return NULL;
    frames->head = frame->next;
    if (!frames->head)
        frames->tail = NULL;
    return frame;
}

void rcmi_frames_clear(struct rcmi_frames *frames) {
    for (struct rcmi_frame *frame; (frame = rcmi_frames_pop(frames));)
        free(frame);
}

void rcmi_blob_close(struct rcmi_blob *blob) {
    for (int i = 0; i < blob->nfds; i++)
        rcmi_fd_close(&blob->fds[i]);
    blob->nfds = 0;
}

/* ---- Out ------------------------------------------------------------------------------------- */

static rcm_status frame_write(const struct rcmi_link *link, struct rcmi_frame *frame) {
    size_t moved = 0;
    if (frame->nfds > 0 && frame->done == 0) {
        /* Whole or not at all. */
        frame->bytes[offsetof(struct frame_header, nfds)] = (uint8_t)frame->nfds;
        rcm_status status =
            rcmi_send_fds(link->control.fd, frame->bytes, frame->len, frame->fds, frame->nfds);
        if (status == RCM_OK)
            frame->done = frame->len;
        return status;
    }
    rcm_status status = rcmi_fd_send(link->control.fd, frame->bytes + frame->done,
                                     frame->len - frame->done, &moved);
    if (status == RCM_OK)
        frame->done += moved;
    return status;
}

static rcm_status control_watch(struct rcmi_link *link, uint32_t events) {
    if (events == link->events)
        return RCM_OK;
    link->events = events;
    return rcmi_loop_change(link->node->loop, &link->control, events);
}

static bool may_carry_all(const struct rcmi_link *link) {
    return rcmi_link_state(link) == RCMI_LINK_UP;
}

/* The frames that may be sent now, and come first. */
static struct rcmi_frames *control_next(struct rcmi_link *link) {
    if (link->first.head)
        return &link->first;
    return link->out.head && may_carry_all(link) ? &link->out : NULL;
}

static uint32_t control_events(struct rcmi_link *link) {
    return EPOLLIN | (control_next(link) ? EPOLLOUT : 0u);
}

void rcmi_control_flush(struct rcmi_link *link) {
    rcm_status status = RCM_OK;
    struct rcmi_frames *frames;
    if (link->control.fd < 0)
        return;
    while (status == RCM_OK && (frames = control_next(link))) {
        struct rcmi_frame *frame = frames->head;
        status = frame_write(link, frame);
        if (status == RCM_OK && frame->done == frame->len) {
            link->out_bytes -= frame->len;
            free(rcmi_frames_pop(frames));
        }
    }
    if (status == RCM_OK || status == RCM_AGAIN)
        status = control_watch(link, control_events(link));
    if (status != RCM_OK)
        /* Later, because we may be inside a callback; the peer may have said farewell first. */
        rcmi_node_link_failed(link->node, link->peer);
    else if (!link->out.head)
        rcmi_node_check_settled(link->node);
}

void rcmi_control_send(struct rcmi_link *link, struct rcmi_frame *frame) {
    enum rcmi_link_state state = rcmi_link_state(link);
    if (!frame) {
        rcmi_node_link_failed(link->node, link->peer);
    } else if (state == RCMI_LINK_LOST || state == RCMI_LINK_ENDED) {
        free(frame);
    } else if (link->peer == link->node->config.rank) {
        rcmi_frames_push(&link->node->loopback, frame);
        rcmi_loop_wake(link->node->loop);
    } else if (link->out_bytes + frame->len > RCMI_QUEUE_MAX) {
        (void)rcmi_fail_peer(RCM_ERR_RESOURCE, link->peer,
                             "it leaves control messages of %zu bytes unread", link->out_bytes);
        rcmi_node_link_failed(link->node, link->peer);
        free(frame);
    } else {
        bool was_empty = !link->out.head;
        link->out_bytes += frame->len;
        rcmi_frames_push(&link->out, frame);
        if (was_empty)
            rcmi_control_flush(link);
    }
}

void rcmi_control_send_first(struct rcmi_link *link, struct rcmi_frame *frame) {
    link->out_bytes += frame->len;
    rcmi_frames_push(&link->first, frame);
    rcmi_control_flush(link);
}

/* ---- In -------------------------------------------------------------------------------------- */

static rcm_status bad_frame(const struct frame_header *header) {
    return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                     "it sent a control frame of type %u with %u bytes and %u descriptors, which "
                     "is not valid now",
                     header->type, header->len, header->nfds);
}

/* Takes the first n descriptors off the queue. */
static rcm_status take_fds(struct rcmi_link *link, int n, struct rcmi_blob *blob) {
    if (n > RCMI_FDS_MAX || n > link->in_nfds)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it announced %d descriptors and sent %d", n,
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

static rcm_status handle_setup(struct rcmi_plane *plane, const struct frame_header *header,
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

static rcm_status handle(struct rcmi_link *link, const struct frame_header *header,
                         const uint8_t *body, struct rcmi_blob *blob) {
    const struct rcmi_node_config *config = &link->node->config;
    const bool up = rcmi_link_state(link) == RCMI_LINK_UP;
    /* The link comes up with the host's plane, then others do. */
    if (header->plane >= RCMI_MEM_KINDS || (header->plane != RCMI_MEM_HOST && !up))
        return bad_frame(header);
    if (header->plane != RCMI_MEM_HOST || !up)
        return handle_setup(&link->planes[header->plane], header, body, blob);
    switch (header->type) {
    case RCMI_FRAME_OPEN:
        return rcmi_channel_on_open(link, body, header->len, blob);
    case RCMI_FRAME_ACK:
        return rcmi_channel_on_ack(link, body, header->len, blob);
    case RCMI_FRAME_CLOSE:
        return rcmi_channel_on_close(link, body, header->len);
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

/* The frame at `bytes`, all of it there. */
static rcm_status take_frame(struct rcmi_link *link, const struct frame_header *header,
                             const uint8_t *body) {
    struct rcmi_blob blob = {.len = 0};
    rcm_status status = take_fds(link, header->nfds, &blob);
    if (status == RCM_OK)
        status = handle(link, header, body, &blob);
    rcmi_blob_close(&blob);
    return status;
}

/* Takes what is complete in the buffer. Callbacks that come back here find the frame they are in
 * still there, so they are turned away; the outer call goes on. */
static rcm_status parse(struct rcmi_link *link) {
    size_t at = 0;
    rcm_status status = RCM_OK;
    if (link->parsing)
        return RCM_OK;
    link->parsing = true;
    while (status == RCM_OK && link->control.fd >= 0) {
        struct frame_header header;
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
    if (link->control.fd >= 0 && control_watch(link, control_events(link)) != RCM_OK)
        rcmi_link_lose(link);
}

/* ---- Life ------------------------------------------------------------------------------------ */

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

static void frames_drop(struct rcmi_link *link, struct rcmi_frames *frames) {
    for (struct rcmi_frame *frame; (frame = rcmi_frames_pop(frames)); free(frame))
        link->out_bytes -= frame->len;
}

void rcmi_control_close(struct rcmi_link *link) {
    rcmi_loop_unwatch(link->node->loop, &link->control);
    rcmi_fd_close(&link->control.fd);
    frames_drop(link, &link->first);
    for (int i = 0; i < link->in_nfds; i++)
        rcmi_fd_close(&link->in_fds[i]);
    link->in_nfds = 0;
    link->in_len = 0;
}

void rcmi_control_stop(struct rcmi_link *link) {
    rcmi_control_close(link);
    frames_drop(link, &link->out);
}

bool rcmi_control_loopback(struct rcmi_node *node) {
    struct rcmi_frames frames = node->loopback;
    struct rcmi_link *link = rcmi_node_link(node, node->config.rank);
    bool any = frames.head != NULL;
    node->loopback = (struct rcmi_frames){NULL, NULL};
    for (struct rcmi_frame *frame; (frame = rcmi_frames_pop(&frames));) {
        struct frame_header header;
        memcpy(&header, frame->bytes, sizeof header);
        if (rcmi_link_state(link) == RCMI_LINK_UP &&
            take_frame(link, &header, rcmi_frame_body(frame)) != RCM_OK)
            rcmi_link_lose(link);
        free(frame);
    }
    return any;
}
