/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transports a node uses. */
#ifndef RCMI_REGISTRY_H
#define RCMI_REGISTRY_H

#include "node.h"

/* Fills node->domains with the configured transports that work here. Initialises no domain. */
rcm_status rcmi_registry_select(struct rcmi_node *node);
/* Is there a transport in both lists that serves ranks of one host (same_host), or ranks that reach
 * each other over the network (network)? */
bool rcmi_registry_serves(const char *list, const char *other, bool same_host, bool network);

#endif
