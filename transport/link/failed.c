/* SPDX-License-Identifier: BSD-3-Clause */
/* Links that fail while their control streams work: a data plane says so, on any thread; the loop
 * thread tells the peer why, and loses the link. What the loss of a link is: link.c. */
#include <errno.h>
#include <string.h>
#include "internal.h"

void rcmi_node_link_failed(struct rcmi_node *node, int peer) {
    struct rcmi_link *link = rcmi_node_link(node, peer);
    if (!link)
        return;
    pthread_mutex_lock(&node->lock);
    if (!link->failed) {
        link->failed = true;
        link->failure = *rcmi_last_error();
        link->failed_next = node->failed;
        node->failed = link;
    }
    pthread_mutex_unlock(&node->lock);
    rcmi_loop_wake(node->loop);
}

void rcmi_link_forgive(struct rcmi_link *link) {
    struct rcmi_node *node = link->node;
    pthread_mutex_lock(&node->lock);
    struct rcmi_link **at = &node->failed;
    while (*at && *at != link)
        at = &(*at)->failed_next;
    if (*at)
        *at = link->failed_next;
    link->failed = false;
    pthread_mutex_unlock(&node->lock);
}

void rcmi_node_isolate(struct rcmi_node *node, const char *why) {
    for (int peer = 0; peer < node->config.nranks; peer++) {
        if (peer == node->config.rank)
            continue;
        (void)rcmi_link_need(node, peer);
        (void)rcmi_fail_peer(RCM_ERR_PEER, peer, "%s", why);
        rcmi_node_link_failed(node, peer);
    }
}

/* And was not forgiven meanwhile. */
static bool link_has_failed(struct rcmi_link *link) {
    pthread_mutex_lock(&link->node->lock);
    const bool failed = link->failed;
    pthread_mutex_unlock(&link->node->lock);
    return failed;
}

/* The peer may have noticed nothing yet, and its own link ends with this one. It is told why, if
 * the stream still takes that. */
static void link_tell(struct rcmi_link *link) {
    const size_t len = strnlen(link->failure.text, RCMI_FAILED_MAX);
    if (rcmi_link_state(link) != RCMI_LINK_UP || link->control.fd < 0)
        return;
    struct rcmi_frame *frame = rcmi_frame_new(RCMI_FRAME_FAILED, len);
    if (!frame)
        return;
    memcpy(rcmi_frame_body(frame), link->failure.text, len);
    rcmi_control_send(link, frame);
}

rcm_status rcmi_link_on_failed(struct rcmi_link *link, const uint8_t *text, size_t len) {
    char sentence[RCMI_FAILED_MAX + 1];
    if (len > RCMI_FAILED_MAX)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it said in %zu bytes why the link ended", len);
    rcmi_frame_sentence(text, len, sentence);
    (void)rcmi_fail_peer(RCM_ERR_PEER, link->peer, "it ended the link: %s", sentence);
    rcmi_link_lose(link);
    return RCM_OK;
}

/* The kernel gave up a connection to a host that it still hears. */
static void link_explain(struct rcmi_link *link) {
    if (link->failure.sys_errno != ETIMEDOUT || !rcmi_link_is_heard(link))
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
        /* A data socket that ends may be known here before the farewell that was sent earlier. */
        rcmi_control_drain(link);
        if (!link_has_failed(link))
            continue;
        link_explain(link);
        link_tell(link);
        *rcmi_last_error() = link->failure;
        rcmi_setup_fail(link);
    }
    return any;
}
