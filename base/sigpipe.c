/* SPDX-License-Identifier: BSD-3-Clause */
/* write() without SIGPIPE, for descriptors that are not sockets. */
#include "sigpipe.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

ssize_t rcmi_write_nosignal(int fd, const void *buf, size_t len) {
    sigset_t pipe_set, old_set, pending;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old_set);

    ssize_t done = write(fd, buf, len);

    int saved_errno = errno;
    if (done < 0 && saved_errno == EPIPE && !was_pending) {
        const struct timespec at_once = {0, 0};
        while (sigtimedwait(&pipe_set, NULL, &at_once) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &old_set, NULL);
    errno = saved_errno;
    return done;
}
