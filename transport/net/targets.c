/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns a peer's address into the list of connection targets and, when all of them failed, builds
 * the error text that lists them. dial.c tries them.
 *
 * Order: same-host transports; addresses in a network of one of this host's interfaces; the rest.
 * Loopback addresses are left out unless the peer shares our network namespace; then they come
 * first. Addresses that this host has itself are left out (container bridges are 172.17.0.1
 * everywhere). If one rank's network namespace is unknown (no /proc), nothing is left out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

/* State of the search, and why no transport serves the pair: one clause each. */
struct search {
    struct rcmi_link *link;
    const struct rcmi_address *peer;
    bool local; /* same network namespace */
    bool perhaps_local;
    struct rcmi_interface *own;
    int nown;
    char reasons[320];
    size_t len;
};

static void search_explain(struct search *search, const char *name, const char *why) {
    size_t room = sizeof search->reasons - search->len;
    int len = snprintf(search->reasons + search->len, room, "%s%s: %s", search->len ? "; " : "",
                       name, why);
    if (len > 0)
        search->len += (size_t)len < room ? (size_t)len : room - 1;
}

/* Why Unix sockets cannot be used; NULL if they can. */
static const char *unix_obstacle(const struct rcmi_link *link, const struct rcmi_address *peer) {
    if (strcmp(peer->host_id, link->node->config.host_id) != 0)
        return "the ranks are on different hosts";
    if (!rcmi_node_may_share(link->node, link->node->config.rank, link->peer))
        return "the ranks cannot share memory";
    return peer->unix_name[0] ? NULL : "the other rank does not listen on a Unix socket";
}

static void add_unix(struct search *search, struct rcmi_domain *domain) {
    struct rcmi_link *link = search->link;
    memcpy(link->unix_name, search->peer->unix_name, sizeof link->unix_name);
    link->targets[link->ntargets++] = (struct rcmi_target){.domain = domain, .same_host = true};
}

/* Addresses are added in this order; -1: never. */
enum { TURN_LOOPBACK, TURN_NEAR, TURN_FAR, TURNS };

static int address_turn(const struct search *search, const struct rcmi_sockaddr *addr) {
    if (rcmi_sockaddr_loopback(addr))
        return search->local ? TURN_LOOPBACK : search->perhaps_local ? TURN_FAR : -1;
    for (int i = 0; i < search->nown && !search->perhaps_local; i++)
        if (rcmi_interface_is(&search->own[i], addr))
            return -1;
    for (int i = 0; i < search->nown; i++)
        if (rcmi_interface_reaches(&search->own[i], addr))
            return TURN_NEAR;
    return TURN_FAR;
}

static int add_tcp(struct search *search, struct rcmi_domain *domain) {
    struct rcmi_link *link = search->link;
    const struct rcmi_address *peer = search->peer;
    int added = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < peer->ntcp; i++) {
            if (address_turn(search, &peer->tcp[i]) != turn)
                continue;
            struct rcmi_target *target = &link->targets[link->ntargets++];
            *target = (struct rcmi_target){.domain = domain, .addr = peer->tcp[i]};
            memcpy(target->iface, peer->iface[i], sizeof target->iface);
            added++;
        }
    }
    return added;
}

static void add_targets(struct search *search, struct rcmi_domain *domain) {
    const struct rcmi_transport *transport = domain->transport;
    const struct rcmi_link *link = search->link;
    const char *why = NULL;
    if (transport->kind != RCMI_MEM_HOST) /* uses a link that is up (device_plane.c) */
        return;
    if (link->passed_over >> (domain - link->node->domains) & 1) {
        why = link->planes[RCMI_MEM_HOST].decline;
    } else if (!rcmi_list_has(search->peer->transports, transport->name)) {
        why = "the other rank does not have it";
    } else if (transport->same_host) {
        why = unix_obstacle(search->link, search->peer);
        if (!why)
            add_unix(search, domain);
    } else if (!add_tcp(search, domain)) {
        why = "the other rank published no usable address";
    }
    if (why)
        search_explain(search, transport->name, why);
}

static rcm_status search_begin(struct search *search) {
    struct rcmi_node *node = search->link->node;
    const struct rcmi_address *peer = search->peer;
    uint64_t where[2];
    if (peer->job != node->config.job)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "its address belongs to another job");
    rcmi_address_where(where);
    search->local = rcmi_where_is(peer->where, where);
    search->perhaps_local = rcmi_where_may_be(peer->where, where);
    return rcmi_interfaces("", &search->own, &search->nown);
}

rcm_status rcmi_targets_find(struct rcmi_link *link, const struct rcmi_address *peer) {
    struct rcmi_node *node = link->node;
    struct search search = {.link = link, .peer = peer};
    const size_t most = (size_t)node->ndomains * ((size_t)peer->ntcp + 1);
    rcm_status status = search_begin(&search);
    if (status != RCM_OK)
        return status;
    link->targets = rcmi_zalloc(most * sizeof *link->targets);
    for (int i = 0; link->targets && i < node->ndomains - 1; i++) /* the last loops back */
        add_targets(&search, &node->domains[i]);
    free(search.own);
    if (!link->targets)
        return RCM_ERR_NOMEM;
    if (link->ntargets == 0)
        return rcmi_fail(RCM_ERR_SYSTEM, 0, "no transport serves ranks %d and %d (%s)",
                         node->config.rank, link->peer, search.reasons);
    return RCM_OK;
}

/* ---- When they do not work ------------------------------------------------------------------- */

/* A wrong setting, or a temporary network failure. */
static bool is_unreachable(int sys_errno) {
    return sys_errno == EHOSTUNREACH || sys_errno == ENETUNREACH || sys_errno == ENETDOWN ||
           sys_errno == EHOSTDOWN;
}

void rcmi_targets_note(struct rcmi_link *link) {
    struct rcmi_target *target = &link->targets[link->target];
    const struct rcmi_error *error = rcmi_last_error();
    target->patient = error->status == RCM_ERR_TIMEOUT || is_unreachable(error->sys_errno);
    target->refused = error->sys_errno == ECONNREFUSED && !target->same_host &&
                      !rcmi_sockaddr_loopback(&target->addr);
    snprintf(target->why, sizeof target->why, "%.95s",
             error->sys_errno ? strerror(error->sys_errno) : error->text);
    if (target->same_host)
        memcpy(link->detour, target->why, sizeof link->detour);
}

static size_t append(char *text, size_t cap, size_t used, const char *more) {
    const int len = snprintf(text + used, cap - used, "%s", more);
    return len < 0 || (size_t)len >= cap - used ? cap - 1 : used + (size_t)len;
}

/* "10.0.0.2:4711 (eth0): No route to host" */
static void describe(const struct rcmi_target *target, char *text, size_t cap) {
    char addr[RCMI_ADDR_TEXT] = "its Unix socket";
    if (!target->same_host)
        rcmi_sockaddr_text(&target->addr, addr);
    snprintf(text, cap, "%s%s%s%s: %s", addr, target->iface[0] ? " (" : "", target->iface,
             target->iface[0] ? ")" : "", target->why);
}

static const char *peer_hostname(const struct rcmi_link *link) {
    const struct rcmi_node_config *config = &link->node->config;
    const char *hostname = NULL;
    const void *blob = NULL;
    size_t len = 0;
    int pid = 0;
    if (config->lookup(config->arg, link->peer, &blob, &len) == RCM_OK &&
        rcmi_address_process(blob, len, &pid, &hostname) == RCM_OK)
        return hostname;
    return "that host";
}

void rcmi_targets_explain(const struct rcmi_link *link) {
    const struct rcmi_error last = *rcmi_last_error();
    char text[300] = "", one[200], remedy[160] = "";
    size_t used = 0;
    bool all_refused = true, silent = false;
    /* These errors matter more than the list: a process answered, or resources are short here. */
    if (last.status == RCM_ERR_AUTH || last.status == RCM_ERR_PROTOCOL ||
        last.status == RCM_ERR_MISMATCH || last.status == RCM_ERR_RESOURCE ||
        last.status == RCM_ERR_NOMEM)
        return;
    for (int i = 0; i < link->ntargets; i++) {
        const struct rcmi_target *target = &link->targets[i];
        if (!target->why[0])
            continue;
        all_refused = all_refused && strcmp(target->why, strerror(ECONNREFUSED)) == 0;
        silent = silent || target->patient;
        describe(target, one, sizeof one);
        used = append(text, sizeof text, used, used ? "; " : "");
        used = append(text, sizeof text, used, one);
    }
    if (all_refused)
        snprintf(remedy, sizeof remedy, "; no process listens there any more");
    else if (silent)
        snprintf(remedy, sizeof remedy,
                 "; RINGCOMM_IFACE on %.64s must name an interface that other hosts reach",
                 peer_hostname(link));
    (void)rcmi_fail_peer(last.status, last.origin, "cannot connect to %s%s", text, remedy);
    rcmi_last_error()->sys_errno = last.sys_errno;
}
