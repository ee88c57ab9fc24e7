/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods to create a child process that has a copy of this process's memory. */
#ifndef TEST_CHILDREN_H
#define TEST_CHILDREN_H

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* _Fork and clone run no atfork handlers. In its own PID namespace a child may have its parent's
 * pid. Without the right to create a namespace, CHILD_NAMESPACE is the same as CHILD_CLONE. */
enum child_way { CHILD_FORK, CHILD_PLAIN_FORK, CHILD_CLONE, CHILD_NAMESPACE, CHILD_WAYS };

static const char *const child_way_names[] = {"fork", "_Fork", "clone", "clone in a PID namespace"};

extern pid_t _Fork(void) __attribute__((weak)); /* glibc 2.34 */

static inline pid_t child_clone(unsigned long flags) {
    return (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

static inline pid_t child_make(enum child_way way) {
    pid_t pid;
    switch (way) {
    case CHILD_PLAIN_FORK:
        return _Fork ? _Fork() : child_clone(0);
    case CHILD_CLONE:
        return child_clone(0);
    case CHILD_NAMESPACE:
        pid = child_clone(CLONE_NEWPID);
        return pid >= 0 ? pid : child_clone(0);
    default:
        return fork();
    }
}

#endif
