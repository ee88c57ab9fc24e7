/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing without the signal that some failures of it raise, SIGPIPE and SIGXFSZ: it is blocked
 * meanwhile, and taken back if it came by what we did.
 */
#include "sigpipe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

struct quiet {
    sigset_t signal, before;
    bool was_pending;
};

static void quiet_begin(struct quiet *quiet, int signal) {
    sigset_t pending;
    sigemptyset(&quiet->signal);
    sigaddset(&quiet->signal, signal);
    sigemptyset(&pending);
    sigpending(&pending);
    quiet->was_pending = sigismember(&pending, signal) == 1;
    pthread_sigmask(SIG_BLOCK, &quiet->signal, &quiet->before);
}

/* Keeps errno. */
static void quiet_end(const struct quiet *quiet, bool raised) {
    int saved_errno = errno;
    const struct timespec at_once = {0, 0};
    while (raised && !quiet->was_pending && sigtimedwait(&quiet->signal, NULL, &at_once) < 0 &&
           errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
    errno = saved_errno;
}

ssize_t rcmi_write_nosignal(int fd, const void *buf, size_t len) {
    struct quiet quiet;
    quiet_begin(&quiet, SIGPIPE);
    ssize_t done = write(fd, buf, len);
    quiet_end(&quiet, done < 0 && errno == EPIPE);
    return done;
}

ssize_t rcmi_pwrite_nosignal(int fd, const void *buf, size_t len, int64_t offset) {
    struct quiet quiet;
    quiet_begin(&quiet, SIGXFSZ);
    ssize_t done = pwrite(fd, buf, len, (off_t)offset);
    quiet_end(&quiet, done < 0 && errno == EFBIG);
    return done;
}

int rcmi_fallocate_nosignal(int fd, int64_t offset, int64_t len) {
    struct quiet quiet;
    quiet_begin(&quiet, SIGXFSZ);
    int failed = fallocate(fd, 0, (off_t)offset, (off_t)len);
    quiet_end(&quiet, failed && errno == EFBIG);
    return failed;
}
