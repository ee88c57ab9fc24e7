/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether each pair of ranks has a transport, by what the ranks have published of themselves. All
 * look at all pairs, so that all find the same before a link is needed; with a transport between
 * hosts that every rank has, which is the usual case, there is nothing to find.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net/net.h"
#include "registry.h"

static rcm_status rows_read(const struct rcmi_node *node, struct rcmi_address_rows *rows) {
    const struct rcmi_node_config *config = &node->config;
    rcm_status status = RCM_OK;
    for (int r = 0; status == RCM_OK && r < config->nranks; r++) {
        const void *blob = NULL;
        size_t len = 0;
        status = config->lookup(config->arg, r, &blob, &len);
        if (status == RCM_OK)
            status = rcmi_address_rows(blob, len, &rows[r]);
    }
    return status;
}

/* Have all ranks the same transports, one of them between hosts, and addresses of one family? */
static bool all_alike(const struct rcmi_address_rows *rows, int n) {
    unsigned reach = RCMI_REACH_OTHERS;
    if (!rcmi_registry_serves(rows[0].transports, rows[0].transports, false, true))
        return false;
    for (int r = 0; r < n; r++) {
        reach &= rows[r].reach;
        if (strcmp(rows[r].transports, rows[0].transports) != 0)
            return false;
    }
    return reach != 0;
}

static bool may_be_one_stack(const struct rcmi_address_rows *a, const struct rcmi_address_rows *b) {
    return rcmi_where_may_be(a->where, b->where);
}

/* Ranks of one network stack reach all that is listened on there, ranks that do not know theirs
 * perhaps. */
static bool network_serves(const struct rcmi_address_rows *a, const struct rcmi_address_rows *b) {
    return may_be_one_stack(a, b) ? a->reach && b->reach
                                  : (a->reach & b->reach & RCMI_REACH_OTHERS) != 0;
}

static bool pair_is_local(const struct rcmi_node *node, const struct rcmi_address_rows *rows, int a,
                          int b) {
    return strcmp(rows[a].host_id, rows[b].host_id) == 0 && rcmi_node_may_share(node, a, b);
}

static bool pair_served(const struct rcmi_node *node, const struct rcmi_address_rows *rows, int a,
                        int b) {
    return rcmi_registry_serves(rows[a].transports, rows[b].transports,
                                pair_is_local(node, rows, a, b),
                                network_serves(&rows[a], &rows[b]));
}

/* "; on rank 1 shm cannot be used: ..." */
static void explain_lacks(const struct rcmi_address_rows *rows, int rank, char *text, size_t cap) {
    const size_t used = strlen(text);
    if (rows->lacks[0])
        snprintf(text + used, cap - used, "; on rank %d %s", rank, rows->lacks);
}

/* Of two ranks of one host identity, which could share memory by what they published. */
static void explain_unshared(const char *const *why, int a, int b, char *text, size_t cap) {
    snprintf(text, cap, "; %s", why[a] ? why[a] : why[b] ? why[b] : "they cannot share memory");
}

static const char *family_text(unsigned reach) {
    return reach & RCMI_REACH_IPV4 ? "IPv4" : "IPv6";
}

/* Both have addresses, and none of a common family. */
static void explain_families(const struct rcmi_address_rows *a, int rank_a,
                             const struct rcmi_address_rows *b, int rank_b, char *text,
                             size_t cap) {
    const unsigned of_a = a->reach & RCMI_REACH_OTHERS, of_b = b->reach & RCMI_REACH_OTHERS;
    const size_t used = strlen(text);
    if (of_a && of_b && !(of_a & of_b))
        snprintf(text + used, cap - used, "; rank %d has addresses of %s only, rank %d of %s only",
                 rank_a, family_text(of_a), rank_b, family_text(of_b));
}

static rcm_status pair_refuse(const struct rcmi_node *node, const struct rcmi_address_rows *rows,
                              const char *const *unshared, int a, int b) {
    const bool apart = strcmp(rows[a].host_id, rows[b].host_id) != 0;
    char why[2 * RCMI_LACKS_MAX + 80] = "";
    explain_lacks(&rows[a], a, why, sizeof why);
    explain_lacks(&rows[b], b, why, sizeof why);
    explain_families(&rows[a], a, &rows[b], b, why, sizeof why);
    if (!apart && !why[0])
        explain_unshared(unshared, a, b, why, sizeof why);
    const bool unreachable = !(rows[b].reach & RCMI_REACH_OTHERS) && rows[a].reach;
    return rcmi_fail_origin(RCM_ERR_UNSUPPORTED, rows[a].lacks[0] && !unreachable ? a : b,
                            "no transport of RINGCOMM_TRANSPORT=%s serves ranks %d and %d%s%s",
                            node->config.transports, a, b,
                            apart ? ", which are on different hosts" : "", why);
}

static rcm_status pairs_check(const struct rcmi_node *node, const struct rcmi_address_rows *rows,
                              const char *const *why) {
    for (int a = 0; a < node->config.nranks; a++)
        for (int b = a + 1; b < node->config.nranks; b++)
            if (!pair_served(node, rows, a, b))
                return pair_refuse(node, rows, why, a, b);
    return RCM_OK;
}

rcm_status rcmi_node_check_pairs(const struct rcmi_node *node, const char *const *why) {
    struct rcmi_address_rows *rows = rcmi_zalloc((size_t)node->config.nranks * sizeof *rows);
    rcm_status status = rows ? rows_read(node, rows) : RCM_ERR_NOMEM;
    if (status == RCM_OK && !all_alike(rows, node->config.nranks))
        status = pairs_check(node, rows, why);
    free(rows);
    return status;
}
