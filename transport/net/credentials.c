/* SPDX-License-Identifier: BSD-3-Clause */
/* The identity of the process at the other end of a connection, as the kernel reports it. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include "net.h"

bool rcmi_unidentified_is_of_other(const struct rcmi_node *node, int fd, unsigned *ret_user) {
    struct ucred process;
    socklen_t len = sizeof process;
    /* No credentials (a socket pair in a test): accepted. */
    if (node->config.secret || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &process, &len) != 0)
        return false;
    *ret_user = process.uid;
    return process.uid != geteuid() && process.uid != 0;
}

bool rcmi_unidentified_is_foreign(const struct rcmi_conn *conn) {
    unsigned user;
    return conn->same_host && rcmi_unidentified_is_of_other(conn->node, conn->watch.fd, &user);
}

void rcmi_unidentified_name(const struct rcmi_conn *conn, char text[RCMI_ADDR_TEXT]) {
    struct rcmi_sockaddr peer = {.len = sizeof peer.addr};
    struct ucred process;
    socklen_t len = sizeof process;
    if (conn->same_host && getsockopt(conn->watch.fd, SOL_SOCKET, SO_PEERCRED, &process, &len) == 0)
        snprintf(text, RCMI_ADDR_TEXT, "process %d of user %u on this host", (int)process.pid,
                 (unsigned)process.uid);
    else if (getpeername(conn->watch.fd, (struct sockaddr *)&peer.addr, &peer.len) == 0 &&
             (peer.addr.ss_family == AF_INET || peer.addr.ss_family == AF_INET6))
        rcmi_sockaddr_text(&peer, text);
    else
        snprintf(text, RCMI_ADDR_TEXT, "a peer that has disconnected");
}
