/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heartbeats detect a dead host or a cut network: neither sends anything, so they must be probed.
 * Every fifth of RINGCOMM_PEER_TIMEOUT the loop thread reads, for each control stream, when the
 * kernel last received a packet from the other host. If that is too long ago it sends a probe (a
 * BEAT frame). If nothing has arrived for the whole timeout (silence.c decides) the link is lost on
 * this side; the other side decides by its own clock. Data traffic and data sockets are not
 * considered.
 *
 * Any packet of the connection counts as a sign of life, also a bare acknowledgement. Therefore a
 * process that is stopped, in a debugger or swapped out is not lost: its kernel answers, on the
 * same host and across hosts alike. Operations wait for it until their deadline, and the error
 * names it. The death of a process is detected by the end of its connections, not by silence.
 * Streams between processes of one host (Unix sockets) need no heartbeat.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include "link.h"

#define MS INT64_C(1000000)

static int64_t node_patience_ns(const struct rcmi_node *node) {
    return node->peer_timeout_ms * MS;
}

static int64_t beat_interval_ns(const struct rcmi_node *node) {
    return rcmi_silence_interval(node_patience_ns(node));
}

static bool link_beats(const struct rcmi_link *link, const struct rcmi_node *node) {
    const enum rcmi_link_state state = rcmi_link_state(link);
    return link->peer != node->config.rank && !link->same_host && link->control.fd >= 0 &&
           (state == RCMI_LINK_UP || state == RCMI_LINK_SETUP);
}

/* When the kernel last received a packet from the other host on the control stream. */
static int64_t link_last_received_ns(const struct rcmi_link *link, int64_t now) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (getsockopt(link->control.fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return now;
    uint32_t ms = info.tcpi_last_ack_recv < info.tcpi_last_data_recv ? info.tcpi_last_ack_recv
                                                                     : info.tcpi_last_data_recv;
    return now - ms * MS;
}

bool rcmi_link_is_alive(const struct rcmi_link *link) {
    const int64_t now = rcmi_now_ns();
    return link_beats(link, link->node) &&
           now - link_last_received_ns(link, now) < 2 * beat_interval_ns(link->node);
}

/* Sends a probe, unless queued frames already serve as one. */
static void link_probe(struct rcmi_link *link) {
    const bool up = rcmi_link_state(link) == RCMI_LINK_UP;
    if (link->first.head || (up && link->out.head))
        return;
    struct rcmi_frame *frame = rcmi_frame_new(RCMI_FRAME_BEAT, 0);
    if (up || !frame)
        rcmi_control_send(link, frame);
    else
        rcmi_control_send_first(link, frame);
}

static void link_lose_silent(struct rcmi_link *link, int64_t silence) {
    (void)rcmi_fail_peer(RCM_ERR_PEER, link->peer,
                         "no sign of life from its host for %.1f s (RINGCOMM_PEER_TIMEOUT is "
                         "%.0f s): the host is down, or the network to it is cut",
                         (double)silence / 1e9, (double)link->node->peer_timeout_ms / 1e3);
    rcmi_link_lose(link);
}

/* Returns when to look at this link again. */
static int64_t link_beat(struct rcmi_link *link, int64_t now) {
    const int64_t received = link_last_received_ns(link, now);
    const enum rcmi_silence_step step =
        rcmi_silence_look(&link->silence, now, received, node_patience_ns(link->node));
    if (step == RCMI_SILENCE_PROBE)
        link_probe(link);
    else if (step == RCMI_SILENCE_LOST)
        link_lose_silent(link, now - received);
    return link->silence.look_at;
}

static void node_beat(void *arg) {
    struct rcmi_node *node = arg;
    const int64_t now = rcmi_now_ns();
    int64_t next = now + beat_interval_ns(node);
    bool any = false;
    for (int i = 0; i < node->config.nranks && !node->closed; i++) {
        struct rcmi_link *link = rcmi_node_link(node, i);
        if (!link || !link_beats(link, node))
            continue;
        const int64_t at = link_beat(link, now);
        any = true;
        if (at > now && at < next)
            next = at;
    }
    if (any && !node->closed)
        rcmi_loop_timer(node->loop, &node->beat, next);
}

void rcmi_heartbeat_start(struct rcmi_link *link) {
    struct rcmi_node *node = link->node;
    if (!link_beats(link, node) || node->beat.active)
        return;
    node->beat.fire = node_beat;
    node->beat.arg = node;
    rcmi_loop_timer(node->loop, &node->beat, rcmi_now_ns() + beat_interval_ns(node));
}

void rcmi_heartbeat_stop(struct rcmi_node *node) {
    rcmi_loop_timer_stop(node->loop, &node->beat);
}
