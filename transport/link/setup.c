/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Setting up a link: from its control connection until it is up on both sides, or until its
 * transport has declined and the next one is tried.
 *
 *   initiator                               the other side
 *   link_offer  ------ OFFER ------------>  link_accept, link_offer
 *   link_accept <----- OFFER -------------
 *   data sockets ------------------------>  link_attach
 *   link_ready: yes -- READY ------------>  link_ready: yes
 *   up          <----- READY -------------  up
 *
 * A side that has sent READY no longer declines, and it is up once it has received READY as well.
 * Hence neither side is up while the other may still decline. Until then only these frames and
 * heartbeats are sent; frames queued for the peer wait.
 *
 * The diagram shows the host plane. The device plane uses the same frames on a link that is up;
 * there either side may start, and both offer before they accept (device_plane.c).
 *
 * A transport declines by returning RCM_ERR_UNSUPPORTED, with a sentence, from any of these
 * functions. The device plane is also declined on RCM_ERR_NOMEM, _RESOURCE and _SYSTEM. The
 * transport's link state is freed here, and a DECLINE frame carries the sentence to the peer, which
 * frees its own. If the host plane is declined, the control connection is closed too. Then both
 * sides dial with the remaining transports, as for any other link (link.c); a peer that has died is
 * detected there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "link.h"
#include "log.h"

enum { FAILING_MS = 200 };

/* ---- Declining ------------------------------------------------------------------------------- */

static unsigned domain_bit(const struct rcmi_plane *plane) {
    return 1u << (unsigned)(plane->domain - plane->link->node->domains);
}

/* Frees the transport's link state and resets the plane. */
static void setup_undo(struct rcmi_plane *plane) {
    struct rcmi_link *link = plane->link;
    if (!plane->data)
        return;
    rcmi_plane_free(plane);
    plane->offered = plane->accepted = plane->ready = plane->peer_ready = false;
    plane->attached = 0;
    if (!rcmi_plane_is_host(plane))
        return;
    rcmi_conn_drop(link->node, link);
    rcmi_link_forgive(link);
    rcmi_node_set_peer_page(link->node, link->peer, NULL);
    rcmi_node_set_peer_wake(link->node, link->peer, &(struct rcmi_wake){NULL, -1});
}

/* Did the user list transports, instead of "auto"? */
static bool is_demanded(const struct rcmi_link *link) {
    const char *list = link->node->config.transports;
    return list[0] && strcmp(list, "auto") != 0;
}

static void decline_note(struct rcmi_plane *plane, int rank, const char *text) {
    const struct rcmi_link *link = plane->link;
    snprintf(plane->decline, sizeof plane->decline, "rank %d declined it: %.*s", rank,
             RCMI_DECLINE_MAX, text);
    rcmi_log(is_demanded(link) ? RCMI_LOG_WARN : RCMI_LOG_INFO, "no %s to rank %d by %s: %s",
             rcmi_plane_noun(plane), link->peer,
             plane->domain ? rcmi_plane_name(plane) : "any transport", plane->decline);
}

void rcmi_setup_next(struct rcmi_link *link) {
    struct rcmi_plane *plane = rcmi_host_plane(link);
    setup_undo(plane);
    rcmi_control_close(link);
    rcmi_link_forgive(link); /* the stream may have failed since the link was undone */
    rcmi_loop_timer_stop(link->node->loop, &link->timer);
    link->passed_over |= domain_bit(plane);
    plane->state = RCMI_PLANE_NONE;
    free(link->targets);
    link->targets = NULL;
    link->ntargets = link->target = link->rounds = link->retries = link->pause_ms = 0;
    link->redial_until = 0;
    link->failing.status = RCM_OK;
    rcmi_link_set(link, RCMI_LINK_DIALING);
    rcmi_dial_start(link);
}

/* Set-up frames of the host plane overtake frames that wait for the link to be up. The device plane
 * needs no such order. */
static void setup_send(struct rcmi_plane *plane, struct rcmi_frame *frame) {
    rcmi_frame_set_plane(frame, plane->kind);
    if (rcmi_plane_is_host(plane))
        rcmi_control_send_first(plane->link, frame);
    else
        rcmi_control_send(plane->link, frame);
}

void rcmi_setup_send(struct rcmi_plane *plane, enum rcmi_frame_type type, const char *text) {
    const size_t len = strlen(text);
    struct rcmi_frame *frame = rcmi_frame_new(type, len);
    if (!frame) {
        rcmi_link_lose(plane->link);
        return;
    }
    memcpy(rcmi_frame_body(frame), text, len);
    setup_send(plane, frame);
}

/* The host plane is decided only when another transport is up. */
static void setup_declined(struct rcmi_plane *plane) {
    plane->state = RCMI_PLANE_DECLINED;
    setup_undo(plane);
    if (!rcmi_plane_is_host(plane))
        rcmi_plane_decided(plane);
}

void rcmi_setup_decline(struct rcmi_plane *plane) {
    char text[RCMI_DECLINE_MAX + 1];
    snprintf(text, sizeof text, "%s", rcm_last_error());
    decline_note(plane, plane->link->node->config.rank, text);
    plane->state = RCMI_PLANE_DECLINED;
    rcmi_setup_send(plane, RCMI_FRAME_DECLINE, text);
    if (plane->state == RCMI_PLANE_DECLINED)
        setup_declined(plane);
}

void rcmi_setup_fail(struct rcmi_link *link) {
    const struct rcmi_plane *plane = rcmi_host_plane(link);
    if (rcmi_link_state(link) != RCMI_LINK_SETUP || plane->peer_ready) {
        rcmi_link_lose(link);
    } else if (plane->state != RCMI_PLANE_DECLINED && link->failing.status == RCM_OK) {
        link->failing = *rcmi_last_error();
        rcmi_loop_timer(link->node->loop, &link->timer, rcmi_deadline_in(FAILING_MS));
    }
}

/* Is the status a reason to decline? The link works without any plane except the host's. */
static bool setup_declines(const struct rcmi_plane *plane, rcm_status status) {
    const bool refused =
        status == RCM_ERR_NOMEM || status == RCM_ERR_RESOURCE || status == RCM_ERR_SYSTEM;
    return !plane->ready &&
           (status == RCM_ERR_UNSUPPORTED || (refused && !rcmi_plane_is_host(plane)));
}

void rcmi_setup_failed(struct rcmi_plane *plane, rcm_status status) {
    if (setup_declines(plane, status))
        rcmi_setup_decline(plane);
    else
        rcmi_link_lose(plane->link);
}

rcm_status rcmi_setup_on_decline(struct rcmi_plane *plane, const uint8_t *text, size_t len) {
    char sentence[RCMI_DECLINE_MAX + 1];
    if (len > RCMI_DECLINE_MAX || plane->peer_ready)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it declined the link in %zu bytes%s", len,
                         plane->peer_ready ? ", after it had reported that it is ready" : "");
    rcmi_frame_sentence(text, len, sentence);
    const bool first = plane->state != RCMI_PLANE_DECLINED;
    if (first)
        decline_note(plane, plane->link->peer, sentence);
    if (rcmi_plane_is_host(plane))
        rcmi_setup_next(plane->link);
    else if (first)
        setup_declined(plane);
    return RCM_OK;
}

/* ---- Offers ---------------------------------------------------------------------------------- */

static rcm_status setup_claim(struct rcmi_plane *plane, struct rcmi_domain *domain) {
    const struct rcmi_transport *transport = domain->transport;
    plane->data = rcmi_zalloc(transport->link_size);
    if (!plane->data)
        return RCM_ERR_NOMEM;
    plane->domain = domain;
    plane->state = RCMI_PLANE_SETUP;
    return transport->link_init(plane->data, domain->data, plane->link->peer);
}

rcm_status rcmi_setup_claim(struct rcmi_link *link, struct rcmi_domain *domain, bool initiator) {
    link->initiator = initiator;
    link->same_host = domain->transport->same_host;
    rcmi_loop_timer_stop(link->node->loop, &link->timer);
    rcmi_link_set(link, RCMI_LINK_SETUP);
    return setup_claim(rcmi_host_plane(link), domain);
}

void rcmi_setup_offer(struct rcmi_plane *plane) {
    struct rcmi_blob blob = {.len = 0};
    const rcm_status status = plane->domain->transport->link_offer(plane->data, &blob);
    if (status != RCM_OK) {
        rcmi_setup_failed(plane, status);
        return;
    }
    struct rcmi_frame *frame = rcmi_frame_new(RCMI_FRAME_OFFER, blob.len);
    if (!frame) {
        rcmi_link_lose(plane->link);
        return;
    }
    memcpy(rcmi_frame_body(frame), blob.bytes, blob.len);
    frame->nfds = blob.nfds;
    memcpy(frame->fds, blob.fds, sizeof frame->fds);
    plane->offered = true;
    setup_send(plane, frame);
}

void rcmi_setup_begin(struct rcmi_plane *plane, struct rcmi_domain *domain) {
    const rcm_status status = setup_claim(plane, domain);
    if (status == RCM_OK)
        rcmi_setup_offer(plane);
    else
        rcmi_setup_failed(plane, status);
}

/* ---- Connections ----------------------------------------------------------------------------- */

static void plane_timeout(void *arg) {
    struct rcmi_plane *plane = arg;
    if (plane->state != RCMI_PLANE_SETUP || plane->ready)
        return;
    (void)rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "it was not ready within %.0f s",
                    (double)plane->link->node->peer_timeout_ms / 1e3);
    rcmi_setup_decline(plane);
}

static void plane_offered(struct rcmi_plane *plane) {
    struct rcmi_node *node = plane->link->node;
    plane->timer = (struct rcmi_timer){.fire = plane_timeout, .arg = plane};
    rcmi_loop_timer(node->loop, &plane->timer, rcmi_deadline_in(node->peer_timeout_ms));
}

void rcmi_link_eof(struct rcmi_link *link) {
    /* The peer has undone the declined link as well, or has died. */
    if (rcmi_host_plane(link)->state == RCMI_PLANE_DECLINED) {
        rcmi_setup_next(link);
        return;
    }
    (void)rcmi_fail_peer(RCM_ERR_PEER, link->peer, "its connection ended without a farewell");
    rcmi_link_lose(link);
}

bool rcmi_setup_accept(struct rcmi_plane *plane, struct rcmi_blob *blob) {
    const rcm_status status = plane->domain->transport->link_accept(plane->data, blob);
    if (status != RCM_OK) {
        rcmi_setup_failed(plane, status);
        return false;
    }
    plane->accepted = true;
    if (!rcmi_plane_is_host(plane))
        plane_offered(plane);
    return true;
}
