/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading, writing and polling descriptors. socket.c makes sockets, memfd.c shared memory. */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include "entry.h"
#include "error.h"
#include "sigpipe.h"

/* ---- Sockets closed in a forked child ------------------------------------------------------ */

#define OWNED_MAX 65536 /* higher descriptors are not tracked */

/* A bit per descriptor. Relaxed: one thread owns a descriptor from creation to closing. A
 * concurrent fork by another thread sees the bit, or counts as earlier. */
static _Atomic uint64_t owned[OWNED_MAX / 64];

static void close_owned(void) {
    for (int word = 0; word < OWNED_MAX / 64; word++) {
        uint64_t bits = atomic_exchange_explicit(&owned[word], 0, memory_order_relaxed);
        for (; bits; bits &= bits - 1)
            close(word * 64 + __builtin_ctzll(bits));
    }
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, close_owned);
}

void rcmi_fd_own(int fd) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    if (fd >= 0 && fd < OWNED_MAX)
        atomic_fetch_or_explicit(&owned[fd / 64], UINT64_C(1) << fd % 64, memory_order_relaxed);
}

static void disown(int fd) {
    if (fd < OWNED_MAX)
        atomic_fetch_and_explicit(&owned[fd / 64], ~(UINT64_C(1) << fd % 64), memory_order_relaxed);
}

int rcmi_fd_high(int fd) {
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return high;
}

FILE *rcmi_fopen(const char *path) {
    int fd = rcmi_fd_high(open(path, O_RDONLY | O_CLOEXEC));
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file)
        rcmi_fd_close(&fd);
    return file;
}

DIR *rcmi_opendir(const char *path) {
    int fd = rcmi_fd_high(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        rcmi_fd_close(&fd);
    return dir;
}

static _Thread_local bool distrusted;

bool rcmi_fd_distrust(bool distrust) {
    const bool before = distrusted;
    distrusted = distrust;
    return before;
}

bool rcmi_fd_distrusted(void) {
    return distrusted;
}

void rcmi_fd_close(int *fd) {
    if (*fd < 0)
        return;
    RCMI_ENTRY;
    int saved_errno = errno;
    disown(*fd);
    if (!distrusted)
        close(*fd); /* not retried on EINTR: on Linux the descriptor is closed anyway */
    *fd = -1;
    errno = saved_errno;
}

int rcmi_fd_unidentified(void) {
    enum { SHARE = 8, LEAST = 8, MOST = 1024 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / SHARE < LEAST)
        return LEAST;
    return limit.rlim_cur / SHARE > MOST ? MOST : (int)(limit.rlim_cur / SHARE);
}

rcm_status rcmi_fd_try(const char *what, int wanted) {
    enum { MOST = 256 };
    /* Serialised: ranks that are threads would take each other's descriptors. */
    static pthread_mutex_t trying = PTHREAD_MUTEX_INITIALIZER;
    rcm_status status = RCM_OK;
    int fds[MOST], n = 0;
    wanted = wanted < MOST ? wanted : MOST;
    pthread_mutex_lock(&trying);
    fds[0] = rcmi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (fds[0] >= 0)
        for (n = 1; n < wanted && (fds[n] = fcntl(fds[0], F_DUPFD_CLOEXEC, 3)) >= 0;)
            n++;
    if (n < wanted)
        status = rcmi_fail(RCM_ERR_RESOURCE, errno, "%s need %d descriptors, but only %d are free",
                           what, wanted, n);
    while (n > 0)
        rcmi_fd_close(&fds[--n]);
    pthread_mutex_unlock(&trying);
    return status;
}

/* A connection that the kernel timed out (keepalive, user timeout) has lost its peer; it is not a
 * deadline of the library. */
static rcm_status fd_fail(int fd, int sys_errno, const char *verb) {
    rcm_status status = sys_errno == ETIMEDOUT ? RCM_ERR_PEER : rcmi_status_of_errno(sys_errno);
    char stall[RCMI_STALL_TEXT] = "";
    if (sys_errno == ETIMEDOUT)
        rcmi_socket_describe_stall(fd, stall);
    return rcmi_fail(status, sys_errno, "cannot %s descriptor %d%s", verb, fd, stall);
}

static ssize_t fd_read_once(int fd, void *buf, size_t len) {
    ssize_t done = recv(fd, buf, len, MSG_DONTWAIT);
    if (done < 0 && errno == ENOTSOCK)
        done = read(fd, buf, len);
    return done;
}

static ssize_t fd_send_once(int fd, const void *buf, size_t len) {
    return send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t fd_write_once(int fd, const void *buf, size_t len) {
    ssize_t done = fd_send_once(fd, buf, len);
    if (done < 0 && errno == ENOTSOCK)
        done = rcmi_write_nosignal(fd, buf, len);
    return done;
}

rcm_status rcmi_fd_read(int fd, void *buf, size_t len, size_t *ret_len) {
    ssize_t done = 0;
    while (len > 0 && (done = fd_read_once(fd, buf, len)) < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return RCM_AGAIN;
        if (errno != EINTR)
            return fd_fail(fd, errno, "read from");
    }
    if (done == 0 && len > 0)
        return rcmi_fail(RCM_ERR_PEER, 0, "the other side closed the connection (descriptor %d)",
                         fd);
    *ret_len = (size_t)done;
    return RCM_OK;
}

static rcm_status fd_write_with(ssize_t (*once)(int fd, const void *buf, size_t len), int fd,
                                const void *buf, size_t len, size_t *ret_len) {
    ssize_t done = 0;
    while (len > 0 && (done = once(fd, buf, len)) < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return RCM_AGAIN;
        if (errno != EINTR)
            return fd_fail(fd, errno, "write to");
    }
    *ret_len = (size_t)done;
    return RCM_OK;
}

rcm_status rcmi_fd_write(int fd, const void *buf, size_t len, size_t *ret_len) {
    return fd_write_with(fd_write_once, fd, buf, len, ret_len);
}

rcm_status rcmi_fd_send(int fd, const void *buf, size_t len, size_t *ret_len) {
    return fd_write_with(fd_send_once, fd, buf, len, ret_len);
}

rcm_status rcmi_fd_poll(int fd, short events, rcmi_deadline deadline) {
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = events};
        int ready = poll(&entry, 1, rcmi_deadline_left_ms(deadline));
        if (ready < 0 && errno != EINTR)
            return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot poll descriptor %d", fd);
        if (ready > 0 && (entry.revents & POLLNVAL))
            return rcmi_fail(RCM_ERR_SYSTEM, EBADF, "cannot poll descriptor %d", fd);
        if (ready > 0)
            return RCM_OK; /* also POLLERR and POLLHUP: the next read or write reports the cause */
        if (rcmi_deadline_passed(deadline)) {
            char stall[RCMI_STALL_TEXT];
            rcmi_socket_describe_stall(fd, stall);
            return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                             "the deadline passed before descriptor %d was %s%s", fd,
                             events & POLLIN ? "readable" : "writable", stall);
        }
    }
}

rcm_status rcmi_fd_read_full(int fd, void *buf, size_t len, rcmi_deadline deadline) {
    size_t have = 0;
    while (have < len) {
        size_t got = 0;
        rcm_status status = rcmi_fd_read(fd, (char *)buf + have, len - have, &got);
        if (status == RCM_AGAIN)
            status = rcmi_fd_poll(fd, POLLIN, deadline);
        if (status != RCM_OK)
            return rcmi_fail_context("after %zu of %zu bytes", have, len);
        have += got;
    }
    return RCM_OK;
}

rcm_status rcmi_fd_write_full(int fd, const void *buf, size_t len, rcmi_deadline deadline) {
    size_t have = 0;
    while (have < len) {
        size_t got = 0;
        rcm_status status = rcmi_fd_write(fd, (const char *)buf + have, len - have, &got);
        if (status == RCM_AGAIN)
            status = rcmi_fd_poll(fd, POLLOUT, deadline);
        if (status != RCM_OK)
            return rcmi_fail_context("after %zu of %zu bytes", have, len);
        have += got;
    }
    return RCM_OK;
}
