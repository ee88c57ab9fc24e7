/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a link, whether lost or after a farewell, and its reason. */
#include <stdio.h>
#include <string.h>
#include "link.h"
#include "log.h"

enum { REST_MAX = 10000 };

/* "rank 3 (pid 123 on host h): text" */
static void link_set_why(struct rcmi_link *link, const struct rcmi_error *cause) {
    const struct rcmi_node_config *config = &link->node->config;
    const void *blob = NULL;
    const char *hostname = "?";
    size_t len = 0;
    int pid = 0;
    link->why = *cause;
    link->why.origin = link->peer;
    link->why.of_world = true;
    if (cause->status == RCM_ERR_TIMEOUT)
        link->why.status = RCM_ERR_PEER;
    if (link->peer != config->rank &&
        config->lookup(config->arg, link->peer, &blob, &len) == RCM_OK &&
        rcmi_address_process(blob, len, &pid, &hostname) == RCM_OK)
        snprintf(link->why.text, sizeof link->why.text, "rank %d (pid %d on %.64s): %.400s",
                 link->peer, pid, hostname, cause->text);
    else
        snprintf(link->why.text, sizeof link->why.text, "rank %d: %.480s", link->peer, cause->text);
}

const char *rcmi_link_reason(const struct rcmi_link *link) {
    const char *text = strstr(link->why.text, ": ");
    return text ? text + 2 : link->why.text;
}

/* Ends the link in state ENDED or LOST; the reason is link->why. */
static void link_end(struct rcmi_link *link, enum rcmi_link_state state) {
    struct rcmi_node *node = link->node;
    if (state == RCMI_LINK_LOST)
        rcmi_conn_refuse(link, rcmi_link_reason(link));
    rcmi_conn_drop(node, link);
    rcmi_loop_timer_stop(node->loop, &link->timer);
    rcmi_control_stop(link);
    rcmi_link_set(link, state);
    node->link_above->link_down(link);
    rcmi_planes_down(link);
    if (state == RCMI_LINK_LOST) {
        link->lost_next = node->lost;
        node->lost = link;
        rcmi_loop_wake(node->loop);
    }
    rcmi_node_ring(node);
    rcmi_node_check_settled(node);
}

static bool link_is_over(const struct rcmi_link *link) {
    enum rcmi_link_state state = rcmi_link_state(link);
    return state == RCMI_LINK_ENDED || state == RCMI_LINK_LOST;
}

/* Receives what the peer sent before its farewell and is still in sockets or queues. It is less
 * than all slots, so the loop ends. */
static void link_take_rest(const struct rcmi_link *link) {
    bool any = true;
    (void)rcmi_planes_flushed(link);
    for (int i = 0; i < REST_MAX && any; i++)
        any = rcmi_planes_progress(link);
}

void rcmi_link_lose(struct rcmi_link *link) {
    struct rcmi_error cause = *rcmi_last_error();
    if (link_is_over(link))
        return;
    if (!link->node->broken && !rcmi_loop_is_whole(link->node->loop))
        return; /* closed descriptors caused it: rcmi_node_break follows and ends all links */
    if (link->bye_received) {
        cause = (struct rcmi_error){.status = RCM_ERR_PEER, .text = "it has left"};
        link_take_rest(link);
    }
    link_set_why(link, &cause);
    rcmi_log(RCMI_LOG_DEBUG, "link ended: %s", link->why.text);
    link_end(link, link->bye_received ? RCMI_LINK_ENDED : RCMI_LINK_LOST);
}

void rcmi_link_give_up(struct rcmi_link *link) {
    enum rcmi_link_state state = rcmi_link_state(link);
    const struct rcmi_error cause = {.status = RCM_ERR_PEER, .text = "this rank is leaving"};
    if (state != RCMI_LINK_DIALING && state != RCMI_LINK_WAITING)
        return;
    link_set_why(link, &cause);
    link_end(link, RCMI_LINK_ENDED);
}

bool rcmi_links_report_lost(struct rcmi_node *node) {
    bool any = node->lost != NULL;
    while (node->lost && !node->closed) {
        struct rcmi_link *link = node->lost;
        node->lost = link->lost_next;
        if (node->config.peer_lost)
            node->config.peer_lost(node->config.arg, link->peer, &link->why);
    }
    if (any)
        rcmi_node_check_settled(node);
    return any;
}

rcm_status rcmi_link_on_failed(struct rcmi_link *link, const uint8_t *text, size_t len) {
    char sentence[RCMI_FAILED_MAX + 1];
    if (len > RCMI_FAILED_MAX)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it sent %zu bytes as the reason of the link's end",
                         len);
    rcmi_frame_sentence(text, len, sentence);
    (void)rcmi_fail_peer(RCM_ERR_PEER, link->peer, "it ended the link: %s", sentence);
    rcmi_link_lose(link);
    return RCM_OK;
}
