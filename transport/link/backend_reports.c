/* SPDX-License-Identifier: BSD-3-Clause */
/* What backends report about links, on any thread. The loop thread processes it (plane_failure.c,
 * link.c). */
#include <sys/socket.h>
#include "link.h"

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

void rcmi_node_link_changed(struct rcmi_node *node, int peer) {
    pthread_mutex_lock(&node->lock);
    struct rcmi_link *link = rcmi_node_link(node, peer);
    if (link && !link->changed) {
        link->changed = true;
        link->changed_next = node->changed_links;
        node->changed_links = link;
    }
    pthread_mutex_unlock(&node->lock);
    rcmi_loop_wake(node->loop);
}

void rcmi_node_hang_up(struct rcmi_node *node, int peer) {
    const struct rcmi_link *link = rcmi_node_link(node, peer);
    if (link && link->control.fd >= 0)
        (void)shutdown(link->control.fd, SHUT_RDWR);
}
