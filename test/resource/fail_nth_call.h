/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the n-th call of a libc function fail.
 *
 * The linker wraps the functions (-Wl,--wrap=malloc) in a program that links the library's folders
 * statically. An LD_PRELOAD library would not do, for three reasons. Only calls of our own code are
 * counted, not those inside libc or a sanitizer, so a number means the same call in the next run.
 * The address sanitizer, which has its own malloc and must be loaded first, needs no special case.
 * The loader needs no preload settings, which a test may not be allowed to make.
 *
 * Calls inside libc (fopen's malloc) cannot fail this way; fopen itself can.
 */
#ifndef TEST_FAIL_NTH_CALL_H
#define TEST_FAIL_NTH_CALL_H

#include <stdbool.h>

/* Name, and up to three errors that end a call (0: none). */
#define FAILING_MAP(X)                                                                             \
    X(malloc, ENOMEM, 0, 0)                                                                        \
    X(calloc, ENOMEM, 0, 0)                                                                        \
    X(realloc, ENOMEM, 0, 0)                                                                       \
    X(aligned_alloc, ENOMEM, 0, 0)                                                                 \
    X(posix_memalign, ENOMEM, 0, 0)                                                                \
    X(strdup, ENOMEM, 0, 0)                                                                        \
    X(asprintf, ENOMEM, 0, 0)                                                                      \
    X(socket, EMFILE, ENFILE, ENOBUFS)                                                             \
    X(bind, EADDRINUSE, ENOMEM, 0)                                                                 \
    X(listen, EADDRINUSE, ENOBUFS, 0)                                                              \
    X(accept4, EMFILE, ENFILE, EINTR)                                                              \
    X(connect, ENETUNREACH, EADDRNOTAVAIL, ECONNREFUSED)                                           \
    X(getsockname, ENOBUFS, 0, 0)                                                                  \
    X(getpeername, ENOBUFS, 0, 0)                                                                  \
    X(getsockopt, ENOBUFS, 0, 0)                                                                   \
    X(setsockopt, ENOMEM, 0, 0)                                                                    \
    X(getaddrinfo, ENOMEM, 0, 0)                                                                   \
    X(getifaddrs, ENOMEM, EMFILE, 0)                                                               \
    X(sendmsg, ENOBUFS, ENOMEM, EINTR)                                                             \
    X(recvmsg, ENOMEM, ENOBUFS, EINTR)                                                             \
    X(send, ENOBUFS, ENOMEM, EINTR)                                                                \
    X(recv, ENOMEM, ENOBUFS, EINTR)                                                                \
    X(read, EIO, EINTR, 0)                                                                         \
    X(write, EINTR, 0, 0)                                                                          \
    X(poll, ENOMEM, EINTR, 0)                                                                      \
    X(epoll_create1, EMFILE, ENFILE, ENOMEM)                                                       \
    X(epoll_ctl, ENOMEM, ENOSPC, 0)                                                                \
    X(epoll_wait, EINTR, 0, 0)                                                                     \
    X(eventfd, EMFILE, ENFILE, ENOMEM)                                                             \
    X(timerfd_create, EMFILE, ENFILE, ENOMEM)                                                      \
    X(timerfd_settime, ENOMEM, 0, 0)                                                               \
    X(memfd_create, EMFILE, ENFILE, ENOMEM)                                                        \
    X(fallocate64, ENOSPC, ENOMEM, EINTR)                                                          \
    X(fcntl64, ENOMEM, EPERM, 0)                                                                   \
    X(mmap64, ENOMEM, ENFILE, 0)                                                                   \
    X(mprotect, ENOMEM, 0, 0)                                                                      \
    X(open64, EMFILE, ENFILE, EINTR)                                                               \
    X(fopen64, EMFILE, ENOMEM, 0)                                                                  \
    X(fstat64, EIO, ENOMEM, 0)                                                                     \
    X(stat64, ENOENT, ENOMEM, 0)                                                                   \
    X(flock, ENOLCK, EINTR, 0)                                                                     \
    X(pread64, EIO, EINTR, 0)                                                                      \
    X(pwrite64, ENOSPC, EIO, EINTR)                                                                \
    X(ftruncate64, EIO, 0, 0)                                                                      \
    X(getrandom, EINTR, EAGAIN, 0)                                                                 \
    X(gethostname, ENAMETOOLONG, 0, 0)                                                             \
    X(sched_getaffinity, EINVAL, 0, 0)                                                             \
    X(pthread_create, EAGAIN, 0, 0)                                                                \
    X(process_vm_readv, EPERM, ENOMEM, EFAULT)                                                     \
    X(pthread_atfork, ENOMEM, 0, 0)

enum failing_function {
#define FAILING_ENUM(name, e0, e1, e2) FAILING_##name,
    FAILING_MAP(FAILING_ENUM)
#undef FAILING_ENUM
        FAILING_FUNCTIONS
};
#define FAILING_ERRORS 3

/* The calls that fail: number `first` of the function, counted from 1; with until_end all later
 * ones, too. */
struct failing_plan {
    int function; /* -1: nothing */
    long first;
    int error;
    bool until_end;
};

const char *failing_name(int function);
/* -1 if there is no such function. */
int failing_find(const char *name);
/* The i-th error of a function; 0 if it has fewer. */
int failing_error(int function, int i);

/* Starts counting and the plan. Call it while there is one thread. */
void failing_begin(const struct failing_plan *plan);
/* Ends the plan and the counting. */
void failing_end(void);

/* Number of calls so far, including the failed ones; number of calls that failed on purpose. */
long failing_calls(int function);
long failing_hits(void);

/* Blocks that our code has allocated since failing_begin and not freed. */
long failing_blocks(void);

#endif
