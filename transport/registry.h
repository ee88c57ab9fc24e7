/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transports a node uses. */
#ifndef RCMI_REGISTRY_H
#define RCMI_REGISTRY_H

#include "node.h"

/* Fills node->domains with what works of the configured list; no domain is initialised yet. */
rcm_status rcmi_registry_select(struct rcmi_node *node);
/* Is there a transport in both lists of names for ranks that share a host, or reach each other over
 * the network, or both? */
bool rcmi_registry_serves(const char *list, const char *other, bool same_host, bool network);

#endif
