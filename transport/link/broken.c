/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a node whose descriptors other code of the process has closed (closefrom, a close
 * too many): it says so, and all its links end. Their numbers may belong to others by now, so from
 * then on the loop thread closes none of them and writes to none (rcmi_fd_distrust); what is still
 * the node's stays open until the process ends. Peers see the end of the connections.
 *
 * It is found out by the loop, which looks once a second, or as soon as a link fails.
 */
#include <errno.h>
#include "link.h"

void rcmi_node_break(struct rcmi_node *node) {
    node->broken = true;
    (void)rcmi_fd_distrust(true);
    (void)rcmi_fail(RCM_ERR_SYSTEM, EBADF,
                    "descriptors of this process were closed that belong to the library, by "
                    "closefrom() or close(): rank %d cannot go on",
                    node->config.rank);
    const struct rcmi_error why = *rcmi_last_error();
    if (node->config.broken)
        node->config.broken(node->config.arg, &why);
    rcmi_heartbeat_stop(node);
    rcmi_conn_drop(node, NULL);
    for (int i = 0; i < node->config.nranks; i++) {
        struct rcmi_link *link = rcmi_node_link(node, i);
        *rcmi_last_error() = why;
        if (link)
            rcmi_link_lose(link);
    }
    rcmi_node_ring(node);
}
