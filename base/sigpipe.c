/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes without SIGPIPE and SIGXFSZ: blocks the signal meanwhile, and discards it if this write
 * raised it.
 */
#include "sigpipe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

struct quiet {
    sigset_t before, pending;
};

static void quiet_begin(struct quiet *quiet) {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGPIPE);
    sigaddset(&both, SIGXFSZ);
    sigemptyset(&quiet->pending);
    sigpending(&quiet->pending);
    pthread_sigmask(SIG_BLOCK, &both, &quiet->before);
}

static void signal_discard(int signal) {
    const struct timespec at_once = {0, 0};
    sigset_t raised;
    sigemptyset(&raised);
    sigaddset(&raised, signal);
    while (sigtimedwait(&raised, NULL, &at_once) < 0 && errno == EINTR)
        ;
}

/* Keeps errno, which identifies the raised signal. */
static void quiet_end(const struct quiet *quiet, bool failed) {
    const int saved_errno = errno;
    const int raised = !failed                ? 0
                       : saved_errno == EPIPE ? SIGPIPE
                       : saved_errno == EFBIG ? SIGXFSZ
                                              : 0;
    if (raised && sigismember(&quiet->pending, raised) != 1)
        signal_discard(raised);
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
    errno = saved_errno;
}

ssize_t rcmi_write_nosignal(int fd, const void *buf, size_t len) {
    struct quiet quiet;
    quiet_begin(&quiet);
    ssize_t done = write(fd, buf, len);
    quiet_end(&quiet, done < 0);
    return done;
}

ssize_t rcmi_pwrite_nosignal(int fd, const void *buf, size_t len, int64_t offset) {
    struct quiet quiet;
    quiet_begin(&quiet);
    ssize_t done = pwrite(fd, buf, len, (off_t)offset);
    quiet_end(&quiet, done < 0);
    return done;
}

int rcmi_fallocate_nosignal(int fd, int64_t offset, int64_t len) {
    struct quiet quiet;
    quiet_begin(&quiet);
    int failed = fallocate(fd, 0, (off_t)offset, (off_t)len);
    quiet_end(&quiet, failed);
    return failed;
}
