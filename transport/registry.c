/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports there are, and which of them a node uses. */
#include <stdio.h>
#include <string.h>
#include "internal.h"
#include "log.h"

const struct rcmi_transport *const rcmi_transports[] = {
    &rcmi_transport_self,
    &rcmi_transport_shm,
    &rcmi_transport_tcp,
    NULL,
};

static const struct rcmi_transport *registry_find(const char *name, size_t len) {
    static const char chaos[] = "chaos:";
    const size_t prefix = sizeof chaos - 1;
    if (len > prefix && memcmp(name, chaos, prefix) == 0)
        return rcmi_chaos_wrap(registry_find(name + prefix, len - prefix));
    for (int i = 0; rcmi_transports[i]; i++)
        if (strlen(rcmi_transports[i]->name) == len &&
            memcmp(rcmi_transports[i]->name, name, len) == 0)
            return rcmi_transports[i];
    return NULL;
}

static bool registry_chosen(const struct rcmi_node *node, const struct rcmi_transport *transport) {
    for (int i = 0; i < node->ndomains; i++)
        if (node->domains[i].transport == transport)
            return true;
    return false;
}

static rcm_status registry_add(struct rcmi_node *node, const struct rcmi_transport *transport) {
    if (registry_chosen(node, transport))
        return RCM_OK;
    if (node->ndomains == RCMI_TRANSPORTS_MAX)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "more than %d transports", RCMI_TRANSPORTS_MAX);
    node->domains[node->ndomains++].transport = transport;
    if (transport->channel_size > node->channel_size)
        node->channel_size = transport->channel_size;
    return RCM_OK;
}

static rcm_status registry_unknown(const char *name, size_t len) {
    char known[128] = "";
    for (int i = 0; rcmi_transports[i]; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                 rcmi_transports[i]->name);
    }
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "RINGCOMM_TRANSPORT: there is no transport '%.*s', only auto and %s",
                     (int)(len < 40 ? len : 40), name, known);
}

/* All that work here. */
static rcm_status registry_auto(struct rcmi_node *node) {
    char reason[256] = "";
    rcm_status status = RCM_OK;
    for (int i = 0; status == RCM_OK && rcmi_transports[i]; i++) {
        if (rcmi_transports[i] == &rcmi_transport_self)
            continue;
        if (rcmi_transports[i]->probe(reason, sizeof reason))
            status = registry_add(node, rcmi_transports[i]);
        else
            rcmi_log(RCMI_LOG_INFO, "transport %s is not used: %s", rcmi_transports[i]->name,
                     reason);
    }
    return status;
}

/* Those listed, which must work. */
static rcm_status registry_listed(struct rcmi_node *node, const char *list) {
    char reason[256] = "";
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ",");
        const struct rcmi_transport *transport = registry_find(at, len);
        if (!transport)
            return registry_unknown(at, len);
        if (!transport->probe(reason, sizeof reason))
            return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "transport %s cannot be used: %s",
                             transport->name, reason);
        if (transport != &rcmi_transport_self && registry_add(node, transport) != RCM_OK)
            return RCM_ERR_CONFIG;
        at += len + (at[len] == ',');
    }
    return RCM_OK;
}

static bool registry_shares(const struct rcmi_transport *transport) {
    return transport->same_host && transport->multicast;
}

const struct rcmi_transport *rcmi_registry_memory(const char *list) {
    const struct rcmi_transport *first = registry_find(list, strcspn(list, ","));
    return first && registry_shares(first) ? first : NULL;
}

size_t rcmi_node_bulk_bytes(const struct rcmi_node *node) {
    const bool shares = registry_shares(node->domains[0].transport);
    uint32_t scale = UINT32_MAX;
    for (int i = 0; i < node->ndomains; i++) {
        const struct rcmi_transport *transport = node->domains[i].transport;
        if (transport == &rcmi_transport_self || (transport->same_host && shares))
            continue;
        scale = transport->bulk_scale < scale ? transport->bulk_scale : scale;
    }
    return node->config.slot_bytes * (scale == UINT32_MAX ? 1 : scale);
}

rcm_status rcmi_registry_select(struct rcmi_node *node) {
    const char *list = node->config.transports;
    bool automatic = !list[0] || strcmp(list, "auto") == 0;
    rcm_status status = automatic ? registry_auto(node) : registry_listed(node, list);
    return status == RCM_OK ? registry_add(node, &rcmi_transport_self) : status;
}
