/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does a process still listen at a peer's address? Used for a peer whose link has ended. The peer
 * may have died, or the two may only be unable to reach each other. A rank that continues without
 * the peer must distinguish the two. The kernel completes the connection for a process that
 * listens, even a stopped one; no data is sent. The link cannot be made again: a link has one life.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

/* RCM_OK: a process listens there. */
static rcm_status probe_finish(int fd, rcmi_deadline deadline) {
    rcm_status status;
    while ((status = rcmi_connect_result(fd)) == RCM_AGAIN)
        if (rcmi_fd_poll(fd, POLLOUT, deadline) != RCM_OK)
            break;
    rcmi_fd_close(&fd);
    return status;
}

static rcm_status probe_unix(const char *name, rcmi_deadline deadline) {
    int fd = -1;
    const rcm_status status = rcmi_connect_start_unix(name, &fd);
    if (status == RCM_AGAIN) /* its accept queue is full, so it listens */
        return RCM_OK;
    return status == RCM_OK ? probe_finish(fd, deadline) : status;
}

/* Strength of the evidence: connected; unknown; refused; no such address. */
static int probe_weight(rcm_status status) {
    return status == RCM_OK ? 3 : status == RCM_ERR_PEER ? 1 : status == RCM_ERR_NOT_FOUND ? 0 : 2;
}

static rcm_status probe_both(rcm_status a, rcm_status b) {
    return probe_weight(a) >= probe_weight(b) ? a : b;
}

static rcm_status probe_tcp(const struct rcmi_address *address, bool local,
                            rcmi_deadline deadline) {
    rcm_status status = RCM_ERR_NOT_FOUND;
    for (int i = 0; i < address->ntcp && status != RCM_OK; i++) {
        int fd = -1;
        /* A loopback address leads to ourselves unless the peer shares our network namespace. */
        if (rcmi_sockaddr_loopback(&address->tcp[i]) && !local)
            continue;
        /* Each address gets its share of the time, because one of them may not answer. */
        const int64_t now = rcmi_now_ns();
        const rcmi_deadline share = now + (deadline - now) / (address->ntcp - i);
        rcm_status one = rcmi_connect_start(&address->tcp[i], &fd);
        if (one == RCM_OK)
            one = probe_finish(fd, share);
        status = probe_both(status, one);
    }
    return status;
}

rcm_status rcmi_node_probe(const struct rcmi_node *node, int peer, rcmi_deadline deadline) {
    const struct rcmi_node_config *config = &node->config;
    struct rcmi_address *address = rcmi_zalloc(sizeof *address);
    const void *blob = NULL;
    uint64_t where[2];
    size_t len = 0;
    rcm_status status = address ? config->lookup(config->arg, peer, &blob, &len) : RCM_ERR_NOMEM;
    if (status == RCM_OK)
        status = rcmi_address_parse(blob, len, address);
    if (status == RCM_OK) {
        rcmi_address_where(where);
        const bool local = rcmi_where_is(address->where, where);
        status = RCM_ERR_NOT_FOUND;
        if (strcmp(address->host_id, config->host_id) == 0 && address->unix_name[0])
            status = probe_unix(address->unix_name, deadline);
        if (status != RCM_OK)
            status = probe_both(status, probe_tcp(address, local, deadline));
    }
    free(address);
    return status;
}
