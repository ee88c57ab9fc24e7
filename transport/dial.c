/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dialling: from a peer's address to a list of ways to reach it, tried one after the other.
 *
 * A peer listens before its address is published, so a refused connection means that its process
 * is gone, or that this way does not lead to it; when all ways are refused, the peer is lost. A
 * connection that is closed before it was answered means a peer that had too much to do to hear
 * us out, or too many strangers at its door: it is tried again for a while.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "log.h"

enum { RETRY_MS = 20, RETRY_MAX_MS = 320 };

/* Why no transport serves the pair: one clause each. */
struct reasons {
    char text[320];
    size_t len;
};

static void reasons_add(struct reasons *reasons, const char *name, const char *why) {
    size_t room = sizeof reasons->text - reasons->len;
    int len = snprintf(reasons->text + reasons->len, room, "%s%s: %s", reasons->len ? "; " : "",
                       name, why);
    if (len > 0)
        reasons->len += (size_t)len < room ? (size_t)len : room - 1;
}

static bool same_place(const struct rcmi_address *a, const uint64_t where[2]) {
    return a->where[0] == where[0] && a->where[1] == where[1];
}

/* Why not over Unix sockets? NULL if it can be tried. */
static const char *unix_obstacle(const struct rcmi_link *link, const struct rcmi_address *peer) {
    if (strcmp(peer->host_id, link->node->config.host_id) != 0)
        return "the ranks are on different hosts";
    return peer->unix_name[0] ? NULL : "the other rank does not listen on a Unix socket";
}

static void add_unix(struct rcmi_link *link, struct rcmi_domain *domain,
                     const struct rcmi_address *peer) {
    memcpy(link->unix_name, peer->unix_name, sizeof link->unix_name);
    link->targets[link->ntargets++] = (struct rcmi_target){.domain = domain, .same_host = true};
}

/* Addresses of loopback interfaces lead to ourselves unless the peer shares them; then they are
 * the surest. */
static int add_tcp(struct rcmi_link *link, struct rcmi_domain *domain,
                   const struct rcmi_address *peer, bool local, bool loopback) {
    int added = 0;
    for (int i = 0; i < peer->ntcp; i++) {
        if (rcmi_sockaddr_loopback(&peer->tcp[i]) != loopback || (loopback && !local))
            continue;
        link->targets[link->ntargets++] =
            (struct rcmi_target){.domain = domain, .addr = peer->tcp[i]};
        added++;
    }
    return added;
}

static void add_ways(struct rcmi_link *link, struct rcmi_domain *domain,
                     const struct rcmi_address *peer, bool local, struct reasons *reasons) {
    const struct rcmi_transport *transport = domain->transport;
    const char *why = NULL;
    if (!rcmi_list_has(peer->transports, transport->name)) {
        why = "the other rank does not have it";
    } else if (transport->same_host) {
        why = unix_obstacle(link, peer);
        if (!why)
            add_unix(link, domain, peer);
    } else {
        int added = add_tcp(link, domain, peer, local, true);
        added += add_tcp(link, domain, peer, local, false);
        why = added ? NULL : "the other rank published no usable address";
    }
    if (why)
        reasons_add(reasons, transport->name, why);
}

static rcm_status find_ways(struct rcmi_link *link, const struct rcmi_address *peer) {
    struct rcmi_node *node = link->node;
    struct reasons reasons = {.len = 0};
    uint64_t where[2];
    size_t most = RCMI_TRANSPORTS_MAX * (RCMI_ADDRESSES_MAX + 1);
    rcm_status status = rcmi_address_where(where);
    if (status != RCM_OK)
        return status;
    if (peer->job != node->config.job)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "its address is of another job");
    link->targets = rcmi_zalloc(most * sizeof *link->targets);
    if (!link->targets)
        return RCM_ERR_NOMEM;
    for (int i = 0; i < node->ndomains - 1; i++) /* the last is self */
        add_ways(link, &node->domains[i], peer, same_place(peer, where), &reasons);
    if (link->ntargets == 0)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "no transport serves ranks %d and %d (%s)",
                         node->config.rank, link->peer, reasons.text);
    return RCM_OK;
}

void rcmi_dial_start(struct rcmi_link *link) {
    struct rcmi_node *node = link->node;
    struct rcmi_address *address = rcmi_zalloc(sizeof *address);
    const void *blob = NULL;
    size_t len = 0;
    rcm_status status = address ? RCM_OK : RCM_ERR_NOMEM;
    if (status == RCM_OK)
        status = node->config.lookup(node->config.arg, link->peer, &blob, &len);
    if (status == RCM_OK)
        status = rcmi_address_parse(blob, len, address);
    if (status == RCM_OK)
        status = find_ways(link, address);
    free(address);
    link->patience = rcmi_deadline_in(4 * node->peer_timeout_ms);
    if (status == RCM_OK)
        rcmi_dial_continue(link);
    else
        rcmi_link_lose(link);
}

static void dial_later(struct rcmi_link *link, int64_t ms) {
    rcmi_loop_timer(link->node->loop, &link->timer, rcmi_deadline_in(ms));
}

void rcmi_dial_continue(struct rcmi_link *link) {
    int64_t share = link->node->peer_timeout_ms / link->ntargets;
    while (link->target < link->ntargets) {
        bool last = link->target == link->ntargets - 1;
        rcm_status status =
            rcmi_conn_dial(link, RCMI_HELLO_CONTROL, 0, share > 0 ? share : 1, last);
        if (status == RCM_OK)
            return;
        if (status == RCM_AGAIN && !rcmi_deadline_passed(link->patience)) {
            dial_later(link, RETRY_MS);
            return;
        }
        if (status == RCM_AGAIN)
            (void)rcmi_fail(RCM_ERR_TIMEOUT, 0, "it does not accept connections");
        link->target++;
    }
    rcmi_link_lose(link);
}

void rcmi_dial_failed(struct rcmi_link *link, bool ended) {
    if (ended && link->redial_until == 0)
        link->redial_until = rcmi_deadline_in(RCMI_REDIAL_MS);
    if (ended && !rcmi_deadline_passed(link->redial_until)) {
        link->pause_ms = link->pause_ms == 0             ? RETRY_MS
                         : link->pause_ms < RETRY_MAX_MS ? 2 * link->pause_ms
                                                         : RETRY_MAX_MS;
        dial_later(link, link->pause_ms);
        return;
    }
    link->pause_ms = 0;
    link->target++;
    if (link->target < link->ntargets)
        rcmi_log(RCMI_LOG_INFO, "rank %d: %s; trying another way", link->peer, rcm_last_error());
    rcmi_dial_continue(link);
}
