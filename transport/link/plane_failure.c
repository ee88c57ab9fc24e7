/* SPDX-License-Identifier: BSD-3-Clause */
/* Links that fail while their control streams work. A backend reports the failure on any thread
 * (backend_reports.c); the loop thread sends the reason to the peer and ends the link (link_end.c).
 */
#include <errno.h>
#include <string.h>
#include "link.h"

void rcmi_node_isolate(struct rcmi_node *node, const char *why) {
    for (int peer = 0; peer < node->config.nranks; peer++) {
        if (peer == node->config.rank)
            continue;
        (void)rcmi_link_need(node, peer);
        (void)rcmi_fail_peer(RCM_ERR_PEER, peer, "%s", why);
        rcmi_node_link_failed(node, peer);
    }
}

/* False if the failure was forgiven in the meantime (rcmi_link_forgive). */
static bool link_has_failed(struct rcmi_link *link) {
    pthread_mutex_lock(&link->node->lock);
    const bool failed = link->failed;
    pthread_mutex_unlock(&link->node->lock);
    return failed;
}

/* Sends the reason to the peer, if the stream still accepts it. The peer may have noticed nothing
 * yet, and its link ends with this one. */
static void link_send_failure(struct rcmi_link *link) {
    const size_t len = strnlen(link->failure.text, RCMI_FAILED_MAX);
    if (rcmi_link_state(link) != RCMI_LINK_UP || link->control.fd < 0)
        return;
    struct rcmi_frame *frame = rcmi_frame_new(RCMI_FRAME_FAILED, len);
    if (!frame)
        return;
    memcpy(rcmi_frame_body(frame), link->failure.text, len);
    rcmi_control_send(link, frame);
}

/* The data connection timed out, but the host still answers on the control stream. */
static void link_explain(struct rcmi_link *link) {
    if (link->failure.sys_errno != ETIMEDOUT || !rcmi_link_is_alive(link))
        return;
    *rcmi_last_error() = link->failure;
    (void)rcmi_fail_context("short messages pass, long ones do not");
    link->failure = *rcmi_last_error();
}

bool rcmi_links_take_failed(struct rcmi_node *node) {
    pthread_mutex_lock(&node->lock);
    struct rcmi_link *link = node->failed;
    node->failed = NULL;
    pthread_mutex_unlock(&node->lock);
    const bool any = link != NULL;
    for (struct rcmi_link *next; link; link = next) {
        next = link->failed_next;
        /* The end of a data socket may be seen before the farewell that the peer sent earlier. */
        rcmi_control_drain(link);
        if (!link_has_failed(link))
            continue;
        link_explain(link);
        link_send_failure(link);
        *rcmi_last_error() = link->failure;
        rcmi_setup_fail(link);
    }
    return any;
}
