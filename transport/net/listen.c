/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listening sockets of a node. An abstract Unix name if a same-host transport is enabled. TCP
 * if another transport is enabled: one dual-stack socket, or one socket per address of
 * RINGCOMM_IFACE.
 *
 * If the store's server has a loopback address, there is also one socket per address: most likely
 * all ranks are on this host, and all but loopback is closed once that is certain
 * (rcmi_listen_narrow). It is not certain earlier, because a tunnel may lead to the store from
 * other hosts.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "net.h"
#include "log.h"
#include "ports.h"

enum { ACCEPT_PAUSE_MS = 100, ACCEPT_BATCH = 64, LOG_QUIET_MS = 10000 };

/* Most likely out of descriptors. The listener would stay readable, so it is not watched for
 * ACCEPT_PAUSE_MS. */
static void listener_pause(struct rcmi_listener *listener) {
    if (rcmi_deadline_passed(listener->log_quiet_until)) {
        listener->log_quiet_until = rcmi_deadline_in(LOG_QUIET_MS);
        rcmi_log(RCMI_LOG_WARN, "%s; peers have to wait (is ulimit -n too low?)", rcm_last_error());
    }
    rcmi_loop_unwatch(listener->node->loop, &listener->watch);
    rcmi_loop_timer(listener->node->loop, &listener->timer, rcmi_deadline_in(ACCEPT_PAUSE_MS));
}

static void listener_resume(void *arg) {
    struct rcmi_listener *listener = arg;
    if (rcmi_loop_watch(listener->node->loop, &listener->watch, EPOLLIN) != RCM_OK)
        rcmi_loop_timer(listener->node->loop, &listener->timer, rcmi_deadline_in(ACCEPT_PAUSE_MS));
}

static void listener_ready(void *arg, uint32_t events) {
    struct rcmi_listener *listener = arg;
    (void)events;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        int fd = -1;
        rcm_status status = rcmi_accept(listener->watch.fd, &fd);
        if (status == RCM_AGAIN)
            return;
        if (status == RCM_ERR_RESOURCE && rcmi_unidentified_drop(listener->node))
            continue;
        if (status != RCM_OK) {
            listener_pause(listener);
            return;
        }
        rcmi_conn_accepted(listener->node, fd, listener->same_host);
    }
}

static rcm_status listener_add(struct rcmi_node *node, int fd, bool same_host, bool loopback) {
    struct rcmi_listener *listener = &node->listeners[node->nlisteners++];
    *listener = (struct rcmi_listener){
        .node = node,
        .watch = {.fd = fd, .ready = listener_ready, .arg = listener},
        .timer = {.fire = listener_resume, .arg = listener},
        .same_host = same_host,
        .loopback = loopback,
    };
    return rcmi_loop_watch(node->loop, &listener->watch, EPOLLIN);
}

static rcm_status listen_unix(struct rcmi_node *node, struct rcmi_address *address) {
    uint64_t random[2];
    int fd = -1;
    rcm_status status = rcmi_random(random, sizeof random);
    if (status != RCM_OK)
        return status;
    /* Every process of this host may read the name, so it does not contain the job's number. */
    snprintf(address->unix_name, sizeof address->unix_name, "ringcomm-%d-%016" PRIx64 "%016" PRIx64,
             node->config.rank, random[0], random[1]);
    status = rcmi_listen_unix(address->unix_name, &fd);
    return status == RCM_OK ? listener_add(node, fd, true, false) : status;
}

/* Listens on addr at the first free port of the configured range; sets addr's port. */
static rcm_status listen_tcp_addr(struct rcmi_node *node, struct rcmi_sockaddr *addr) {
    int low = 0, high = 0, fd = -1;
    rcm_status status = rcmi_ports_parse(node->config.ports, &low, &high);
    if (status != RCM_OK)
        return status;
    for (int port = low; port <= high; port++) {
        struct rcmi_sockaddr bound = *addr;
        rcmi_sockaddr_set_port(&bound, (uint16_t)port);
        status = rcmi_listen(&bound, &fd);
        if (status == RCM_OK) {
            *addr = bound;
            return listener_add(node, fd, false, rcmi_sockaddr_loopback(addr));
        }
        if (rcmi_last_error()->sys_errno != EADDRINUSE)
            return status;
    }
    return rcmi_ports_fail_used(node->config.ports);
}

/* One socket for all addresses: dual-stack, or IPv4 only on a host without IPv6. */
static rcm_status listen_any(struct rcmi_node *node, struct rcmi_sockaddr *ret_any) {
    rcm_status status = rcmi_resolve("", 0, 0, ret_any);
    if (status != RCM_OK)
        return status;
    status = listen_tcp_addr(node, ret_any);
    const int error = status == RCM_OK ? 0 : rcmi_last_error()->sys_errno;
    if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) {
        const struct rcmi_error first = *rcmi_last_error();
        if (rcmi_resolve("", 0, 1, ret_any) == RCM_OK)
            return listen_tcp_addr(node, ret_any);
        *rcmi_last_error() = first;
    }
    return status;
}

static void address_add(struct rcmi_address *address, const struct rcmi_interface *interface,
                        uint16_t port) {
    const int i = address->ntcp++;
    address->tcp[i] = interface->addr;
    rcmi_sockaddr_set_port(&address->tcp[i], port);
    memcpy(address->iface[i], interface->name, RCMI_IFACE_MAX);
}

static rcm_status listen_tcp_any(struct rcmi_node *node, const struct rcmi_interface *interfaces,
                                 int count, struct rcmi_address *address) {
    struct rcmi_sockaddr any = {.len = 0};
    rcm_status status = listen_any(node, &any);
    for (int i = 0; status == RCM_OK && i < count && address->ntcp < RCMI_ADDRESSES_MAX; i++)
        if (interfaces[i].addr.addr.ss_family == AF_INET || any.addr.ss_family == AF_INET6)
            address_add(address, &interfaces[i], rcmi_sockaddr_port(&any));
    return status;
}

/* Listens on each interface that matches `loopback`, in order, until the listeners are used up.
 * chosen: set by RINGCOMM_IFACE, so every failure is an error. Otherwise unavailable addresses (an
 * IPv6 address that is not ready yet) are skipped. */
static rcm_status listen_tcp_each(struct rcmi_node *node, const struct rcmi_interface *interfaces,
                                  int count, bool chosen, bool loopback,
                                  struct rcmi_address *address) {
    rcm_status status = RCM_OK;
    for (int i = 0; status == RCM_OK && i < count && node->nlisteners < RCMI_LISTENERS_MAX; i++) {
        struct rcmi_sockaddr bound = interfaces[i].addr;
        if (!chosen && rcmi_sockaddr_loopback(&bound) != loopback)
            continue;
        status = listen_tcp_addr(node, &bound);
        if (status == RCM_OK)
            address_add(address, &interfaces[i], rcmi_sockaddr_port(&bound));
        else if (!chosen && rcmi_last_error()->sys_errno == EADDRNOTAVAIL)
            status = RCM_OK;
        if (!chosen && loopback && address->ntcp > 0)
            break; /* one loopback address serves all ranks of this host */
    }
    return status;
}

static bool store_is_at_home(const struct rcmi_node *node) {
    return node->config.store.len > 0 && rcmi_sockaddr_loopback(&node->config.store);
}

static rcm_status listen_tcp(struct rcmi_node *node, struct rcmi_address *address) {
    struct rcmi_interface *interfaces = NULL;
    const bool chosen = node->config.iface[0] != '\0';
    int count = 0;
    rcm_status status = rcmi_interfaces(node->config.iface, &interfaces, &count);
    if (status != RCM_OK)
        return status;
    rcmi_interfaces_prefer(interfaces, count, &node->config.store);
    node->at_home = !chosen && store_is_at_home(node);
    if (count == 0)
        rcmi_log(RCMI_LOG_INFO, "no network interface is up: no TCP");
    else if (!chosen && !node->at_home)
        status = listen_tcp_any(node, interfaces, count, address);
    else
        status = listen_tcp_each(node, interfaces, count, chosen, true, address);
    if (status == RCM_OK && node->at_home)
        status = listen_tcp_each(node, interfaces, count, false, false, address);
    free(interfaces);
    return status;
}

/* Read by pairs.c. Placed before the other reasons, because the end of the text may be cut. */
static void explain_no_address(struct rcmi_address *address) {
    char why[90], others[RCMI_LACKS_MAX];
    for (int i = 0; i < address->ntcp; i++)
        if (!rcmi_sockaddr_loopback(&address->tcp[i]))
            return;
    rcmi_interfaces_explain(why, sizeof why);
    memcpy(others, address->lacks, sizeof others);
    snprintf(address->lacks, sizeof address->lacks,
             "there is no address that other hosts can reach: %s", why);
    const size_t used = strlen(address->lacks);
    if (others[0])
        snprintf(address->lacks + used, sizeof address->lacks - used, "; %s", others);
}

rcm_status rcmi_listen_open(struct rcmi_node *node, struct rcmi_address *address) {
    bool same_host = false, remote = false;
    rcm_status status = RCM_OK;
    for (int i = 0; i < node->ndomains - 1; i++) {             /* the last loops back */
        if (node->domains[i].transport->kind != RCMI_MEM_HOST) /* uses the host plane's link */
            continue;
        same_host = same_host || node->domains[i].transport->same_host;
        remote = remote || !node->domains[i].transport->same_host;
    }
    if (same_host)
        status = listen_unix(node, address);
    if (status == RCM_OK && remote)
        status = listen_tcp(node, address);
    if (status == RCM_OK && remote)
        explain_no_address(address);
    return status;
}

static void listener_close(struct rcmi_listener *listener) {
    rcmi_loop_unwatch(listener->node->loop, &listener->watch);
    rcmi_loop_timer_stop(listener->node->loop, &listener->timer);
    rcmi_fd_close(&listener->watch.fd);
}

/* Do all ranks share this network namespace? */
static bool all_are_here(const struct rcmi_node *node) {
    const struct rcmi_node_config *config = &node->config;
    struct rcmi_address_summary own, peer;
    const void *blob = NULL;
    size_t len = 0;
    if (rcmi_address_summary(node->address, node->address_len, &own) != RCM_OK)
        return false;
    for (int r = 0; r < config->nranks; r++)
        if (config->lookup(config->arg, r, &blob, &len) != RCM_OK ||
            rcmi_address_summary(blob, len, &peer) != RCM_OK ||
            !rcmi_where_is(peer.where, own.where) || !(peer.reach & RCMI_REACH_LOOPBACK))
            return false;
    return true;
}

void rcmi_listen_narrow(struct rcmi_node *node) {
    if (!node->at_home || !all_are_here(node))
        return;
    for (int i = 0; i < node->nlisteners; i++)
        if (!node->listeners[i].same_host && !node->listeners[i].loopback)
            listener_close(&node->listeners[i]);
}

void rcmi_listen_close(struct rcmi_node *node) {
    for (int i = 0; i < node->nlisteners; i++)
        listener_close(&node->listeners[i]);
    node->nlisteners = 0;
}
