/* SPDX-License-Identifier: BSD-3-Clause */
/* Hands established connections from net/ to their links: the table rcmi_links_for_net. */
#include "link.h"

static void connected_control(struct rcmi_link *link, int fd) {
    struct rcmi_node *node = link->node;
    link->control.fd = fd;
    if (!link->same_host)
        rcmi_socket_resend_soon(fd, node->peer_timeout_ms);
    rcmi_loop_timer(node->loop, &link->timer, rcmi_deadline_in(4 * node->peer_timeout_ms));
    if (rcmi_control_start(link) != RCM_OK) {
        rcmi_link_lose(link);
        return;
    }
    rcmi_heartbeat_start(link);
    if (link->initiator)
        rcmi_setup_offer(rcmi_host_plane(link));
}

static void connected_data(struct rcmi_link *link, int index, int fd) {
    const uint64_t bit = (uint64_t)1 << index;
    struct rcmi_plane *plane = rcmi_host_plane(link);
    if (plane->attached & bit || plane->state == RCMI_PLANE_DECLINED) {
        rcmi_fd_close(&fd);
        return;
    }
    const rcm_status status = plane->domain->transport->link_attach(plane->data, index, fd);
    if (status != RCM_OK) {
        rcmi_setup_failed(plane, status);
        return;
    }
    plane->attached |= bit;
    rcmi_setup_check(plane);
}

static void link_connected(struct rcmi_link *link, const struct rcmi_hello *hello, int fd,
                           bool initiator) {
    const bool control = hello->kind == RCMI_HELLO_CONTROL;
    const enum rcmi_link_state state = rcmi_link_state(link);
    if (control && initiator && (state == RCMI_LINK_DIALING || state == RCMI_LINK_WAITING) &&
        rcmi_setup_claim(link, link->targets[link->target].domain, true) != RCM_OK)
        rcmi_link_lose(link);
    if (rcmi_link_state(link) != RCMI_LINK_SETUP)
        rcmi_fd_close(&fd);
    else if (control)
        connected_control(link, fd);
    else
        connected_data(link, hello->index, fd);
}

const struct rcmi_net_above rcmi_links_for_net = {
    .is_peer = rcmi_link_is_peer,
    .judge = rcmi_link_judge,
    .busy = rcmi_link_busy,
    .connected = link_connected,
    .failed = rcmi_link_conn_failed,
    .lose = rcmi_link_lose,
};
