/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that each pair of ranks has a transport, from the published addresses. Every rank checks
 * all pairs, so all reach the same result before a link is needed. If all ranks have a transport
 * between hosts, which is the usual case, the pairs need no check.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net/net.h"
#include "registry.h"

static rcm_status summaries_read(const struct rcmi_node *node, struct rcmi_address_summary *ranks) {
    const struct rcmi_node_config *config = &node->config;
    rcm_status status = RCM_OK;
    for (int r = 0; status == RCM_OK && r < config->nranks; r++) {
        const void *blob = NULL;
        size_t len = 0;
        status = config->lookup(config->arg, r, &blob, &len);
        if (status == RCM_OK)
            status = rcmi_address_summary(blob, len, &ranks[r]);
    }
    return status;
}

/* Do all ranks have the same transports, one of them between hosts, and a common address family? */
static bool all_alike(const struct rcmi_address_summary *ranks, int n) {
    unsigned reach = RCMI_REACH_OTHERS;
    if (!rcmi_registry_serves(ranks[0].transports, ranks[0].transports, false, true))
        return false;
    for (int r = 0; r < n; r++) {
        reach &= ranks[r].reach;
        if (strcmp(ranks[r].transports, ranks[0].transports) != 0)
            return false;
    }
    return reach != 0;
}

static bool may_be_one_stack(const struct rcmi_address_summary *a,
                             const struct rcmi_address_summary *b) {
    return rcmi_where_may_be(a->where, b->where);
}

/* Ranks of one network stack reach each other's listeners. If a rank's network stack is unknown,
 * that is assumed. */
static bool network_serves(const struct rcmi_address_summary *a,
                           const struct rcmi_address_summary *b) {
    return may_be_one_stack(a, b) ? a->reach && b->reach
                                  : (a->reach & b->reach & RCMI_REACH_OTHERS) != 0;
}

static bool pair_is_local(const struct rcmi_node *node, const struct rcmi_address_summary *ranks,
                          int a, int b) {
    return strcmp(ranks[a].host_id, ranks[b].host_id) == 0 && rcmi_node_may_share(node, a, b);
}

static bool pair_served(const struct rcmi_node *node, const struct rcmi_address_summary *ranks,
                        int a, int b) {
    return rcmi_registry_serves(ranks[a].transports, ranks[b].transports,
                                pair_is_local(node, ranks, a, b),
                                network_serves(&ranks[a], &ranks[b]));
}

/* Appends "; on rank 1 shm cannot be used: ..." */
static void explain_lacks(const struct rcmi_address_summary *summary, int rank, char *text,
                          size_t cap) {
    const size_t used = strlen(text);
    if (summary->lacks[0])
        snprintf(text + used, cap - used, "; on rank %d %s", rank, summary->lacks);
}

/* For two ranks of one host identity that could share memory according to their addresses. */
static void explain_unshared(const char *const *why, int a, int b, char *text, size_t cap) {
    snprintf(text, cap, "; %s", why[a] ? why[a] : why[b] ? why[b] : "they cannot share memory");
}

static const char *family_text(unsigned reach) {
    return reach & RCMI_REACH_IPV4 ? "IPv4" : "IPv6";
}

/* Both ranks have addresses, but of different families. */
static void explain_families(const struct rcmi_address_summary *a, int rank_a,
                             const struct rcmi_address_summary *b, int rank_b, char *text,
                             size_t cap) {
    const unsigned of_a = a->reach & RCMI_REACH_OTHERS, of_b = b->reach & RCMI_REACH_OTHERS;
    const size_t used = strlen(text);
    if (of_a && of_b && !(of_a & of_b))
        snprintf(text + used, cap - used, "; rank %d has addresses of %s only, rank %d of %s only",
                 rank_a, family_text(of_a), rank_b, family_text(of_b));
}

static rcm_status pair_refuse(const struct rcmi_node *node,
                              const struct rcmi_address_summary *ranks, const char *const *unshared,
                              int a, int b) {
    const bool apart = strcmp(ranks[a].host_id, ranks[b].host_id) != 0;
    char why[2 * RCMI_LACKS_MAX + 80] = "";
    explain_lacks(&ranks[a], a, why, sizeof why);
    explain_lacks(&ranks[b], b, why, sizeof why);
    explain_families(&ranks[a], a, &ranks[b], b, why, sizeof why);
    if (!apart && !why[0])
        explain_unshared(unshared, a, b, why, sizeof why);
    const bool unreachable = !(ranks[b].reach & RCMI_REACH_OTHERS) && ranks[a].reach;
    return rcmi_fail_origin(RCM_ERR_UNSUPPORTED, ranks[a].lacks[0] && !unreachable ? a : b,
                            "no transport of RINGCOMM_TRANSPORT=%s serves ranks %d and %d%s%s",
                            node->config.transports, a, b,
                            apart ? ", which are on different hosts" : "", why);
}

static rcm_status pairs_check(const struct rcmi_node *node,
                              const struct rcmi_address_summary *ranks, const char *const *why) {
    for (int a = 0; a < node->config.nranks; a++)
        for (int b = a + 1; b < node->config.nranks; b++)
            if (!pair_served(node, ranks, a, b))
                return pair_refuse(node, ranks, why, a, b);
    return RCM_OK;
}

rcm_status rcmi_node_check_pairs(const struct rcmi_node *node, const char *const *why) {
    struct rcmi_address_summary *ranks = rcmi_zalloc((size_t)node->config.nranks * sizeof *ranks);
    rcm_status status = ranks ? summaries_read(node, ranks) : RCM_ERR_NOMEM;
    if (status == RCM_OK && !all_alike(ranks, node->config.nranks))
        status = pairs_check(node, ranks, why);
    free(ranks);
    return status;
}
