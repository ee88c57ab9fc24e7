/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports there are, and which of them a node uses. */
#include <stdio.h>
#include <string.h>
#include "net/net.h"
#include "log.h"
#include "registry.h"
#include "transport_rows.h" /* made by meson.build from its list */

#define TRANSPORT_DECLARE(name) extern const struct rcmi_transport rcmi_transport_##name;
#define TRANSPORT_ENTRY(name)   &rcmi_transport_##name,

RCMI_TRANSPORT_MAP(TRANSPORT_DECLARE)

const struct rcmi_transport *const rcmi_transports[] = {RCMI_TRANSPORT_MAP(TRANSPORT_ENTRY) NULL};

/* Set before the first node, then only read. */
static struct {
    const char *prefix;
    rcmi_row_wrapper wrap;
} wrapped_by;

void rcmi_rows_wrap(const char *prefix, rcmi_row_wrapper wrap) {
    wrapped_by.prefix = prefix;
    wrapped_by.wrap = wrap;
}

static const struct rcmi_transport *registry_find(const char *name, size_t len) {
    const size_t prefix = wrapped_by.wrap ? strlen(wrapped_by.prefix) : 0;
    if (wrapped_by.wrap && len > prefix + 1 && memcmp(name, wrapped_by.prefix, prefix) == 0 &&
        name[prefix] == ':')
        return wrapped_by.wrap(registry_find(name + prefix + 1, len - prefix - 1));
    for (int i = 0; rcmi_transports[i]; i++)
        if (strlen(rcmi_transports[i]->name) == len &&
            memcmp(rcmi_transports[i]->name, name, len) == 0)
            return rcmi_transports[i];
    return NULL;
}

int rcmi_transport_number(const struct rcmi_transport *transport) {
    const char *around = strrchr(transport->name, ':');
    const char *name = around ? around + 1 : transport->name;
    for (int i = 0; rcmi_transports[i]; i++)
        if (strcmp(rcmi_transports[i]->name, name) == 0)
            return i;
    return 0;
}

static bool registry_chosen(const struct rcmi_node *node, const struct rcmi_transport *transport) {
    for (int i = 0; i < node->nrows; i++)
        if (node->rows[i] == transport)
            return true;
    return false;
}

static rcm_status registry_add(struct rcmi_node *node, const struct rcmi_transport *transport) {
    if (transport->loops_back && !node->own_row)
        node->own_row = transport;
    if (transport->loops_back || registry_chosen(node, transport))
        return RCM_OK;
    if (node->nrows == RCMI_TRANSPORTS_MAX)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "more than %d transports", RCMI_TRANSPORTS_MAX);
    node->rows[node->nrows++] = transport;
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

static rcm_status registry_all(struct rcmi_node *node) {
    rcm_status status = RCM_OK;
    for (int i = 0; status == RCM_OK && rcmi_transports[i]; i++)
        status = registry_add(node, rcmi_transports[i]);
    return status;
}

static rcm_status registry_listed(struct rcmi_node *node, const char *list) {
    rcm_status status = RCM_OK;
    for (const char *at = list; status == RCM_OK && *at;) {
        const size_t len = strcspn(at, ",");
        const struct rcmi_transport *transport = registry_find(at, len);
        status = transport ? registry_add(node, transport) : registry_unknown(at, len);
        at += len + (at[len] == ',');
    }
    return status;
}

static void domain_add(struct rcmi_node *node, const struct rcmi_transport *transport) {
    node->domains[node->ndomains++] = (struct rcmi_domain){
        .transport = transport, .number = (uint32_t)rcmi_transport_number(transport)};
    if (transport->channel_size > node->channel_size)
        node->channel_size = transport->channel_size;
}

/* The others learn why not from the address. */
static void domain_leave_out(struct rcmi_node *node, const struct rcmi_transport *transport,
                             const char *reason, bool listed) {
    const size_t used = strlen(node->lacks);
    snprintf(node->lacks + used, sizeof node->lacks - used, "%s%s cannot be used: %s",
             used ? "; " : "", transport->name, reason);
    rcmi_log(listed ? RCMI_LOG_WARN : RCMI_LOG_INFO, "transport %s is not used: %s",
             transport->name, reason);
}

/* What serves this rank with itself: the one that was listed, else the first there is. */
static const struct rcmi_transport *registry_loopback(const struct rcmi_node *node) {
    const struct rcmi_transport *const *row = rcmi_transports;
    while (!node->own_row && !(*row)->loops_back)
        row++;
    return node->own_row ? node->own_row : *row;
}

static void registry_try(struct rcmi_node *node, bool listed) {
    const struct rcmi_need need = {.nranks = node->config.nranks,
                                   .slots = node->config.slots,
                                   .slot_bytes = node->config.slot_bytes,
                                   .slot_memory = node->slot_memory_max,
                                   .starts = true};
    char reason[256];
    for (int i = 0; i < node->nrows; i++) {
        reason[0] = '\0';
        if (node->rows[i]->probe(&need, reason, sizeof reason))
            domain_add(node, node->rows[i]);
        else
            domain_leave_out(node, node->rows[i], reason, listed);
    }
    domain_add(node, registry_loopback(node));
}

static bool registry_shares(const struct rcmi_transport *transport) {
    return transport->same_host && transport->multicast;
}

/* The first of a list of names that is a row of host memory; NULL. */
static const struct rcmi_transport *registry_first(const char *list) {
    for (const char *at = list; *at;) {
        const size_t len = strcspn(at, ",");
        const struct rcmi_transport *transport = registry_find(at, len);
        if (!transport || transport->kind == RCMI_MEM_HOST)
            return transport;
        at += len + (at[len] == ',');
    }
    return NULL;
}

bool rcmi_registry_serves(const char *list, const char *other, bool same_host, bool network) {
    for (const char *at = list; *at;) {
        const size_t len = strcspn(at, ",");
        const struct rcmi_transport *transport = registry_find(at, len);
        if (transport && transport->kind == RCMI_MEM_HOST &&
            rcmi_list_has(other, transport->name) && (transport->same_host ? same_host : network))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

static bool registry_first_shares(const struct rcmi_node *node) {
    int first = 0;
    while (first < node->nrows && node->rows[first]->kind != RCMI_MEM_HOST)
        first++;
    return first < node->nrows && registry_shares(node->rows[first]);
}

bool rcmi_node_wants_sharing(const struct rcmi_node *node) {
    return registry_first_shares(node);
}

const char *rcmi_node_lacks(const struct rcmi_node *node) {
    return node->lacks;
}

size_t rcmi_node_bulk_bytes(const struct rcmi_node *node) {
    const bool shares = registry_first_shares(node);
    uint32_t scale = UINT32_MAX;
    for (int i = 0; i < node->nrows; i++) {
        const struct rcmi_transport *transport = node->rows[i];
        if (transport->kind != RCMI_MEM_HOST || (transport->same_host && shares))
            continue;
        scale = transport->bulk_scale < scale ? transport->bulk_scale : scale;
    }
    return node->config.slot_bytes * (scale == UINT32_MAX ? 1 : scale);
}

rcm_status rcmi_registry_select(struct rcmi_node *node) {
    const char *list = node->config.transports;
    const bool automatic = !list[0] || strcmp(list, "auto") == 0;
    const rcm_status status = automatic ? registry_all(node) : registry_listed(node, list);
    if (status == RCM_OK)
        registry_try(node, !automatic);
    return status;
}

const struct rcmi_transport *rcmi_address_memory(const void *blob, size_t len) {
    struct rcmi_address_rows rows;
    if (rcmi_address_rows(blob, len, &rows) != RCM_OK)
        return NULL;
    const struct rcmi_transport *first = registry_first(rows.transports);
    return first && registry_shares(first) ? first : NULL;
}
