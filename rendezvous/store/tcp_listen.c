/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listener of a TCP store. It binds only the address that the URL names, which keeps the store
 * off other networks. Exception: a name that this machine resolves to loopback (Debian writes
 * 127.0.1.1 into /etc/hosts) must be reachable by others, so it binds all addresses.
 */
#include "tcp_listen.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "error.h"
#include "fd.h"
#include "rendezvous.h"
#include "url.h"

static bool address_is_loopback(const struct rcmi_sockaddr *a) {
    if (a->addr.ss_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)&a->addr)->sin_addr.s_addr) >> 24) == 127;
    return a->addr.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&a->addr)->sin6_addr);
}

static bool address_is_any(const struct rcmi_sockaddr *a) {
    if (a->addr.ss_family == AF_INET)
        return ((const struct sockaddr_in *)&a->addr)->sin_addr.s_addr == htonl(INADDR_ANY);
    return a->addr.ss_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&a->addr)->sin6_addr);
}

/* Whether the text means loopback on all machines. */
static bool text_is_loopback(const char *host) {
    struct in_addr v4;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    return strcmp(host, "::1") == 0 || strcasecmp(host, "localhost") == 0;
}

static int address_port(const struct rcmi_sockaddr *a) {
    return ntohs(a->addr.ss_family == AF_INET ? ((const struct sockaddr_in *)&a->addr)->sin_port
                                              : ((const struct sockaddr_in6 *)&a->addr)->sin6_port);
}

static rcm_status listen_fail(const char *host, int port) {
    const struct rcmi_error *error = rcmi_last_error();
    if (error->sys_errno == EADDRINUSE)
        return rcmi_fail(RCM_ERR_SYSTEM, EADDRINUSE,
                         "port %d of %s is in use by another program; stop that program, or choose "
                         "another port (in the URL or MASTER_PORT), or 0 for any free one",
                         port, host && host[0] ? host : "this machine");
    if (error->sys_errno == EACCES)
        return rcmi_fail(RCM_ERR_SYSTEM, EACCES, "port %d needs privileges; choose one above 1023",
                         port);
    return rcmi_fail_context("cannot serve a store at %s:%d", host ? host : "", port);
}

/* The address is another machine's, or its family is missing or disabled here. */
static bool has_no_such_address(int sys_errno) {
    return sys_errno == EADDRNOTAVAIL || sys_errno == EAFNOSUPPORT;
}

/* RCM_ERR_NOT_FOUND: the host names no address of this machine that should be bound alone. */
static rcm_status listen_at_host(const char *host, int port, struct rcmi_sockaddr *addr,
                                 int *ret_fd) {
    for (size_t i = 0;; i++) {
        if (rcmi_resolve(host, (uint16_t)port, i, addr) != RCM_OK)
            return RCM_ERR_NOT_FOUND;
        if (address_is_loopback(addr) && !text_is_loopback(host))
            return RCM_ERR_NOT_FOUND;
        rcm_status status = rcmi_listen(addr, ret_fd);
        if (status == RCM_OK || !has_no_such_address(rcmi_last_error()->sys_errno))
            return status;
    }
}

rcm_status rcmi_store_listen(const char *host, int port, int *ret_fd, int *ret_port) {
    struct rcmi_sockaddr addr;
    rcm_status status = RCM_ERR_NOT_FOUND;
    int fd = -1;

    if (port < 0 || port > 65535)
        return rcmi_fail(RCM_ERR_INVALID, 0, "port %d is not from 0 to 65535", port);
    if (host && host[0])
        status = listen_at_host(host, port, &addr, &fd);
    for (size_t i = 0; status == RCM_ERR_NOT_FOUND && i < 2; i++) {
        /* All addresses: both families with one socket, or IPv4 if there is no IPv6. */
        if (rcmi_resolve(NULL, (uint16_t)port, i, &addr) != RCM_OK)
            break;
        status = rcmi_listen(&addr, &fd);
        if (status != RCM_OK && i == 0 && has_no_such_address(rcmi_last_error()->sys_errno))
            status = RCM_ERR_NOT_FOUND;
    }
    if (status != RCM_OK)
        return listen_fail(host, port);
    *ret_fd = fd;
    *ret_port = address_port(&addr);
    return RCM_OK;
}

/* The name by which other machines may reach this one. */
static void machine_name(char *name, size_t len) {
    if (gethostname(name, len) != 0)
        snprintf(name, len, "localhost");
    name[len - 1] = '\0';
}

rcm_status rcmi_listen_name(int fd, const char *host, struct rcmi_listen_name *ret_name) {
    struct rcmi_sockaddr addr = {.len = sizeof addr.addr};
    char text[RCMI_ADDR_TEXT], machine[200];

    if (getsockname(fd, (struct sockaddr *)&addr.addr, &addr.len) < 0 ||
        (addr.addr.ss_family != AF_INET && addr.addr.ss_family != AF_INET6))
        return rcmi_fail(RCM_ERR_INVALID, errno, "descriptor %d is not a listening TCP socket", fd);
    ret_name->port = address_port(&addr);

    /* "1.2.3.4:567" or "[::1]:567": the host without port and brackets. */
    rcmi_sockaddr_text(&addr, text);
    *strrchr(text, ':') = '\0';
    size_t len = strlen(text);
    bool brackets = text[0] == '[' && text[len - 1] == ']';
    snprintf(ret_name->own_host, sizeof ret_name->own_host, "%.*s", (int)(brackets ? len - 2 : len),
             text + brackets);

    bool any = address_is_any(&addr);
    const char *shown = host && host[0] ? host : ret_name->own_host;
    if (any && (!host || !host[0] || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)) {
        machine_name(machine, sizeof machine);
        shown = machine;
    }
    if (any) /* bound to [::] for both families: IPv6 may be off, or loopback without ::1 */
        snprintf(ret_name->own_host, sizeof ret_name->own_host, "%s",
                 addr.addr.ss_family == AF_INET6 ? "" : "127.0.0.1");
    char *url = rcmi_url_tcp(shown, ret_name->port);
    if (!url)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a URL");
    snprintf(ret_name->url, sizeof ret_name->url, "%s", url);
    free(url);
    return RCM_OK;
}
