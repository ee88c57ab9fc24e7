/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending, acknowledging and answering the farewell on one link. */
#include "link.h"

void rcmi_link_send_bye(struct rcmi_link *link) {
    if (link->bye_sent || rcmi_link_state(link) != RCMI_LINK_UP ||
        link->peer == link->node->config.rank)
        return;
    link->bye_sent = true;
    rcmi_control_send(link, rcmi_frame_new(RCMI_FRAME_BYE, 0));
}

/* A farewell is acknowledged, and its sender stays until then. Without it, the farewell could be
 * lost: the kernel drops queued bytes if a socket is closed with unread data, for example after a
 * network outage. */
void rcmi_link_bye_acked(struct rcmi_link *link) {
    link->bye_acked = true;
    rcmi_node_check_settled(link->node);
}

void rcmi_link_bye(struct rcmi_link *link) {
    link->bye_received = true;
    rcmi_control_send(link, rcmi_frame_new(RCMI_FRAME_BYE_ACK, 0));
    link->node->unanswered = true;
    rcmi_node_check_settled(link->node);
    rcmi_loop_wake(link->node->loop);
}

bool rcmi_link_answer_bye(struct rcmi_link *link) {
    const struct rcmi_node_config *config = &link->node->config;
    if (!link->bye_received || link->bye_sent || rcmi_link_state(link) != RCMI_LINK_UP)
        return true;
    if (!config->peer_done || !config->peer_done(config->arg, link->peer))
        return false;
    rcmi_link_send_bye(link);
    return true;
}
