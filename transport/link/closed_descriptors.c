/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a node whose descriptors were closed by other code of the process (closefrom, a double
 * close). The node reports the error and all its links end. The descriptor numbers may belong to
 * others by now, so the loop thread neither closes them nor writes to them any more
 * (rcmi_fd_distrust). Descriptors that the node still owns stay open until the process ends. Peers
 * see the end of the connections.
 *
 * The loop detects it: it checks once per second, and when a link fails.
 */
#include <errno.h>
#include "link.h"

void rcmi_node_break(struct rcmi_node *node) {
    node->broken = true;
    (void)rcmi_fd_distrust(true);
    (void)rcmi_fail(RCM_ERR_SYSTEM, EBADF,
                    "descriptors of this process that belong to the library were closed by "
                    "closefrom() or close(): rank %d cannot continue",
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
