/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream sockets: addresses, listening, accepting, connecting. Passing descriptors over Unix
 * sockets. Nothing here waits, except rcmi_resolve for the resolver. */
#include "fd.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>
#include "error.h"

enum { MAX_FDS = 4, MAX_FDS_BYTES = 4096, MAX_UNIX_NAME = 100 };

static const int socket_flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

/* ---- Addresses ----------------------------------------------------------------------------- */

const char *rcmi_sockaddr_text(const struct rcmi_sockaddr *addr, char text[RCMI_ADDR_TEXT]) {
    char host[64], port[8];
    int saved_errno = errno;
    if (getnameinfo((const struct sockaddr *)&addr->addr, addr->len, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(text, RCMI_ADDR_TEXT, "(address of family %d)", (int)addr->addr.ss_family);
    else if (addr->addr.ss_family == AF_INET6)
        snprintf(text, RCMI_ADDR_TEXT, "[%s]:%s", host, port);
    else
        snprintf(text, RCMI_ADDR_TEXT, "%s:%s", host, port);
    errno = saved_errno;
    return text;
}

static bool ipv6_usable(void) {
    int fd = rcmi_fd_high(socket(AF_INET6, socket_flags, 0));
    bool usable = fd >= 0;
    rcmi_fd_close(&fd);
    return usable;
}

/* The 0th address is dual-stack if there is IPv6, the next one IPv4 only. */
static rcm_status resolve_any(uint16_t port, size_t i, struct rcmi_sockaddr *ret_addr) {
    struct sockaddr_in6 any6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    size_t with6 = ipv6_usable() ? 1 : 0;
    if (i > with6)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "any-address number %zu does not exist", i);
    memset(ret_addr, 0, sizeof *ret_addr);
    if (i < with6) {
        memcpy(&ret_addr->addr, &any6, sizeof any6);
        ret_addr->len = sizeof any6;
    } else {
        memcpy(&ret_addr->addr, &any4, sizeof any4);
        ret_addr->len = sizeof any4;
    }
    return RCM_OK;
}

static rcm_status resolve_fail(const char *host, int code, int sys_errno) {
    if (code == EAI_SYSTEM)
        return rcmi_fail(rcmi_status_of_errno(sys_errno), sys_errno, "cannot resolve host '%s'",
                         host);
    rcm_status status = RCM_ERR_SYSTEM;
    if (code == EAI_NONAME || code == EAI_NODATA || code == EAI_ADDRFAMILY)
        status = RCM_ERR_NOT_FOUND;
    else if (code == EAI_MEMORY)
        status = RCM_ERR_NOMEM;
    return rcmi_fail(status, 0, "cannot resolve host '%s': %s", host, gai_strerror(code));
}

rcm_status rcmi_resolve(const char *host, uint16_t port, size_t i, struct rcmi_sockaddr *ret_addr) {
    if (!host || !*host)
        return resolve_any(port, i, ret_addr);
    char name[256], service[8];
    size_t len = strlen(host);
    bool bracketed = host[0] == '[' && host[len - 1] == ']'; /* as URLs write IPv6 */
    if (len >= sizeof name)
        return rcmi_fail(RCM_ERR_INVALID, 0, "a host name of %zu bytes is too long", len);
    snprintf(name, sizeof name, "%.*s", (int)(bracketed ? len - 2 : len), host + bracketed);
    snprintf(service, sizeof service, "%u", (unsigned)port);

    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int code = getaddrinfo(name, service, &hints, &list);
    if (code != 0)
        return resolve_fail(name, code, errno);
    const struct addrinfo *entry = list;
    for (size_t skip = i; entry && skip > 0; skip--)
        entry = entry->ai_next;
    rcm_status status = RCM_OK;
    if (entry && entry->ai_addrlen <= sizeof ret_addr->addr) {
        memset(ret_addr, 0, sizeof *ret_addr);
        memcpy(&ret_addr->addr, entry->ai_addr, entry->ai_addrlen);
        ret_addr->len = entry->ai_addrlen;
    } else {
        status = rcmi_fail(RCM_ERR_NOT_FOUND, 0, "host '%s' has only %zu addresses", name, i);
    }
    freeaddrinfo(list);
    return status;
}

static rcm_status unix_address(const char *name, struct sockaddr_un *ret_addr, socklen_t *ret_len) {
    size_t len = strlen(name);
    if (len == 0 || len > MAX_UNIX_NAME)
        return rcmi_fail(RCM_ERR_INVALID, 0, "a Unix socket name has %zu bytes. Use 1 to %d", len,
                         MAX_UNIX_NAME);
    memset(ret_addr, 0, sizeof *ret_addr);
    ret_addr->sun_family = AF_UNIX;
    memcpy(ret_addr->sun_path + 1, name, len); /* sun_path[0] == 0: abstract */
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    return RCM_OK;
}

/* ---- Listening ----------------------------------------------------------------------------- */

rcm_status rcmi_listen(struct rcmi_sockaddr *addr, int *ret_fd) {
    char text[RCMI_ADDR_TEXT];
    const int on = 1, off = 0;
    int fd = rcmi_fd_high(socket(addr->addr.ss_family, socket_flags, 0));
    if (fd < 0)
        goto fail;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        goto fail;
    if (addr->addr.ss_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0)
        goto fail;
    if (bind(fd, (const struct sockaddr *)&addr->addr, addr->len) != 0)
        goto fail;
    if (listen(fd, INT_MAX) != 0) /* the kernel limits it to net.core.somaxconn */
        goto fail;
    struct rcmi_sockaddr bound = {.len = sizeof bound.addr};
    if (getsockname(fd, (struct sockaddr *)&bound.addr, &bound.len) != 0)
        goto fail;
    *addr = bound;
    rcmi_fd_own(fd);
    *ret_fd = fd;
    return RCM_OK;
fail:
    rcmi_fd_close(&fd); /* keeps errno, like rcmi_sockaddr_text */
    return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot listen on %s",
                     rcmi_sockaddr_text(addr, text));
}

rcm_status rcmi_listen_unix(const char *name, int *ret_fd) {
    struct sockaddr_un addr;
    socklen_t len = 0;
    rcm_status status = unix_address(name, &addr, &len);
    if (status != RCM_OK)
        return status;
    int fd = rcmi_fd_high(socket(AF_UNIX, socket_flags, 0));
    if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, len) != 0 || listen(fd, INT_MAX) != 0) {
        status = rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot listen on Unix socket '%s'",
                           name);
        rcmi_fd_close(&fd);
        return status;
    }
    rcmi_fd_own(fd);
    *ret_fd = fd;
    return RCM_OK;
}

/* Firewalls and NATs drop a connection that is idle for some minutes: 240 s is the shortest common
 * limit. As many probes as the kernel allows may stay unanswered: RINGCOMM_PEER_TIMEOUT decides
 * elsewhere how long to wait for a silent host. */
enum { KEEPALIVE_IDLE_S = 60, KEEPALIVE_PAUSE_S = 120, KEEPALIVE_PROBES = 127 };

void rcmi_socket_prepare(int fd) {
    const int on = 1, idle = KEEPALIVE_IDLE_S, pause = KEEPALIVE_PAUSE_S, probes = KEEPALIVE_PROBES;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        return; /* a Unix socket: no delay, and no firewall between the ends */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* since Linux 6.15; older kernels reject it */
#endif

/* Pauses between attempts double from the first to the longest. After 15 unanswered attempts
 * (net.ipv4.tcp_retries2) the kernel gives up the connection. */
enum { PAUSE_FIRST_MS = 200, PAUSE_LEAST_MS = 1000, PAUSE_MOST_MS = 120000, ATTEMPTS = 15 };

/* How long the kernel retries if no pause is longer than `longest`. */
static int64_t kernel_patience_ms(int64_t longest) {
    int64_t pause = PAUSE_FIRST_MS, sum = 0;
    for (int i = 0; i <= ATTEMPTS; i++) {
        sum += pause < longest ? pause : longest;
        pause *= 2;
    }
    return sum;
}

void rcmi_socket_resend_soon(int fd, int64_t patience_ms) {
    const int on = 1;
    int longest = PAUSE_LEAST_MS;
    while (longest < PAUSE_MOST_MS && kernel_patience_ms(longest) < patience_ms + patience_ms / 10)
        longest += PAUSE_FIRST_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &longest, sizeof longest);
    /* With few packets in flight, the first six attempts do not back off. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
}

/* Does accept() report a connection that died in the queue? The next one may be fine. */
static bool accept_may_retry(int sys_errno) {
    switch (sys_errno) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
        return true;
    default:
        return false;
    }
}

rcm_status rcmi_accept(int listen_fd, int *ret_fd) {
    int fd;
    do
        fd = rcmi_fd_high(accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    while (fd < 0 && accept_may_retry(errno));
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return RCM_AGAIN;
    if (fd < 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno,
                         "cannot accept a connection on descriptor %d", listen_fd);
    rcmi_socket_prepare(fd);
    rcmi_fd_own(fd);
    *ret_fd = fd;
    return RCM_OK;
}

/* ---- Connecting ---------------------------------------------------------------------------- */

rcm_status rcmi_connect_start(const struct rcmi_sockaddr *addr, int *ret_fd) {
    char text[RCMI_ADDR_TEXT];
    int fd = rcmi_fd_high(socket(addr->addr.ss_family, socket_flags, 0));
    if (fd >= 0)
        rcmi_socket_prepare(fd);
    if (fd < 0 || (connect(fd, (const struct sockaddr *)&addr->addr, addr->len) != 0 &&
                   errno != EINPROGRESS && errno != EINTR)) {
        rcm_status status = rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot connect to %s",
                                      rcmi_sockaddr_text(addr, text));
        rcmi_fd_close(&fd);
        return status;
    }
    rcmi_fd_own(fd);
    *ret_fd = fd;
    return RCM_OK;
}

rcm_status rcmi_connect_start_unix(const char *name, int *ret_fd) {
    struct sockaddr_un addr;
    socklen_t len = 0;
    rcm_status status = unix_address(name, &addr, &len);
    if (status != RCM_OK)
        return status;
    int fd = rcmi_fd_high(socket(AF_UNIX, socket_flags, 0));
    int failed = fd < 0;
    while (!failed && connect(fd, (const struct sockaddr *)&addr, len) != 0) {
        if (errno != EINTR) /* an interrupted Unix connect has not begun */
            failed = 1;
    }
    if (failed) {
        status = fd >= 0 && errno == EAGAIN ? RCM_AGAIN /* the listener's queue is full */
                                            : rcmi_fail(rcmi_status_of_errno(errno), errno,
                                                        "cannot connect to Unix socket '%s'", name);
        rcmi_fd_close(&fd);
        return status;
    }
    rcmi_fd_own(fd);
    *ret_fd = fd;
    return RCM_OK;
}

/* Detects self-connection: a connection to a free local port can by chance get that port as its own
 * and connect to itself. There is no listener. */
static bool connected_to_itself(const struct rcmi_sockaddr *peer, int fd) {
    struct rcmi_sockaddr own = {.len = sizeof own.addr};
    if (peer->addr.ss_family != AF_INET && peer->addr.ss_family != AF_INET6)
        return false;
    return getsockname(fd, (struct sockaddr *)&own.addr, &own.len) == 0 && own.len == peer->len &&
           memcmp(&own.addr, &peer->addr, own.len) == 0;
}

/* Distinguishes a socket that is still connecting from one whose peer has hung up. */
static bool has_hung_up(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR));
}

rcm_status rcmi_connect_result(int fd) {
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    struct rcmi_sockaddr peer = {.len = sizeof peer.addr};
    if (error == 0 && getpeername(fd, (struct sockaddr *)&peer.addr, &peer.len) != 0) {
        if (errno == ENOTCONN && !has_hung_up(fd))
            return RCM_AGAIN;
        error = errno == ENOTCONN ? ECONNRESET : errno;
    }
    if (error == 0 && connected_to_itself(&peer, fd))
        error = ECONNREFUSED;
    if (error != 0)
        return rcmi_fail(rcmi_status_of_errno(error), error, "the connection failed");
    return RCM_OK;
}

/* ---- Passing descriptors ------------------------------------------------------------------- */

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(MAX_FDS * sizeof(int))];
};

rcm_status rcmi_send_fds(int sock, const void *buf, size_t len, const int *fds, int nfds) {
    if (len == 0 || len > MAX_FDS_BYTES || nfds < 0 || nfds > MAX_FDS)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "cannot send a message of %zu bytes and %d descriptors", len, nfds);
    union control control;
    memset(&control, 0, sizeof control);
    struct iovec vec = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct msghdr msg = {.msg_iov = &vec, .msg_iovlen = 1};
    size_t fd_bytes = (size_t)nfds * sizeof(int);
    if (nfds > 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(fd_bytes);
        struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fd_bytes);
        memcpy(CMSG_DATA(head), fds, fd_bytes);
    }
    ssize_t done;
    do
        done = sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (done < 0 && errno == EINTR);
    if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return RCM_AGAIN;
    if (done < 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno,
                         "cannot send %d descriptors over descriptor %d", nfds, sock);
    if ((size_t)done != len) /* Linux queues messages of this size whole or not at all */
        return rcmi_fail(RCM_ERR_SYSTEM, 0, "only %zd of %zu bytes of a message were sent", done,
                         len);
    return RCM_OK;
}

/* Takes the descriptors out of msg: all, or none if there are more than max_fds or some were lost.
 * The kernel creates as many as the process limit and the buffer (MAX_FDS) allow, and flags a
 * truncated list. */
static rcm_status control_take(struct msghdr *msg, int *ret_fds, int max_fds, int *ret_nfds) {
    int count = 0, made = 0;
    bool fits = !(msg->msg_flags & MSG_CTRUNC), refused = false;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(msg); head; head = CMSG_NXTHDR(msg, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            made++;
            fd = rcmi_fd_high(fd);
            refused |= fd < 0;
            if (fd < 0) {
                fits = false;
            } else if (count < max_fds) {
                ret_fds[count++] = fd;
            } else {
                fits = false;
                rcmi_fd_close(&fd);
            }
        }
    }
    for (int i = 0; !fits && i < count; i++)
        rcmi_fd_close(&ret_fds[i]);
    *ret_nfds = fits ? count : 0;
    if (fits)
        return RCM_OK;
    if (refused || ((msg->msg_flags & MSG_CTRUNC) && made < MAX_FDS))
        return rcmi_fail(RCM_ERR_RESOURCE, EMFILE, "cannot receive a descriptor from a peer");
    return rcmi_fail(RCM_ERR_PROTOCOL, 0, "a message has more than %d descriptors", max_fds);
}

rcm_status rcmi_recv_fds(int sock, void *buf, size_t len, size_t *ret_len, int *ret_fds,
                         int max_fds, int *ret_nfds) {
    union control control;
    struct iovec vec = {.iov_base = buf, .iov_len = len};
    struct msghdr msg = {.msg_iov = &vec,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof control.space};
    ssize_t done;
    do
        done = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (done < 0 && errno == EINTR);
    if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return RCM_AGAIN;
    if (done < 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno,
                         "cannot receive descriptors from descriptor %d", sock);
    rcm_status status = control_take(&msg, ret_fds, max_fds, ret_nfds);
    if (status != RCM_OK)
        return status;
    if (done == 0)
        return rcmi_fail(RCM_ERR_PEER, 0, "the other side closed the connection (descriptor %d)",
                         sock);
    *ret_len = (size_t)done;
    return RCM_OK;
}
