/* SPDX-License-Identifier: BSD-3-Clause */
/* The wrappers. The linker sends calls of NAME to __wrap_NAME, and __real_NAME to libc. */
#include "fail_nth_call.h"
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

static const char *const names[] = {
#define NAME(name, e0, e1, e2) #name,
    FAILING_MAP(NAME)
#undef NAME
};
static const int errors[][FAILING_ERRORS] = {
#define ERRORS(name, e0, e1, e2) {e0, e1, e2},
    FAILING_MAP(ERRORS)
#undef ERRORS
};

/* Set while there is one thread, except `active`, which ends the plan. */
static struct failing_plan plan = {.function = -1};
/* Plain counters, read after the threads have ended; they order nothing. */
static _Atomic long calls[FAILING_FUNCTIONS];
static _Atomic long hits, blocks;
static _Atomic bool active;

const char *failing_name(int function) {
    return names[function];
}

int failing_find(const char *name) {
    for (int i = 0; i < FAILING_FUNCTIONS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

int failing_error(int function, int i) {
    return i < FAILING_ERRORS ? errors[function][i] : 0;
}

void failing_begin(const struct failing_plan *with) {
    plan = *with;
    for (int i = 0; i < FAILING_FUNCTIONS; i++)
        atomic_store(&calls[i], 0);
    atomic_store(&hits, 0);
    atomic_store(&blocks, 0);
    atomic_store(&active, true);
}

void failing_end(void) {
    atomic_store(&active, false);
}

long failing_calls(int function) {
    return atomic_load(&calls[function]);
}

long failing_hits(void) {
    return atomic_load(&hits);
}

long failing_blocks(void) {
    return atomic_load(&blocks);
}

/* Counts a call; true with errno set if it shall fail. */
static bool fails(int function) {
    if (!atomic_load_explicit(&active, memory_order_relaxed))
        return false;
    long number = atomic_fetch_add_explicit(&calls[function], 1, memory_order_relaxed) + 1;
    if (function != plan.function || number < plan.first ||
        (number > plan.first && !plan.until_end))
        return false;
    atomic_fetch_add_explicit(&hits, 1, memory_order_relaxed);
    errno = plan.error;
    return true;
}

static void *allocated(void *block) {
    if (block && atomic_load_explicit(&active, memory_order_relaxed))
        atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
    return block;
}

/* ---- Memory -------------------------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **ret, size_t align, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **ret, size_t align, size_t size);
char *__wrap_strdup(const char *text);
int __wrap_asprintf(char **ret, const char *format, ...) __attribute__((format(printf, 2, 3)));
void __wrap_free(void *block);

void *__wrap_malloc(size_t size) {
    return fails(FAILING_malloc) ? NULL : allocated(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size) {
    return fails(FAILING_calloc) ? NULL : allocated(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size) {
    if (fails(FAILING_realloc))
        return NULL;
    void *block = __real_realloc(old, size);
    return old ? block : allocated(block);
}

void *__wrap_aligned_alloc(size_t align, size_t size) {
    return fails(FAILING_aligned_alloc) ? NULL : allocated(__real_aligned_alloc(align, size));
}

int __wrap_posix_memalign(void **ret, size_t align, size_t size) {
    if (fails(FAILING_posix_memalign))
        return errno;
    int error = __real_posix_memalign(ret, align, size);
    if (error == 0)
        (void)allocated(*ret);
    return error;
}

char *__wrap_strdup(const char *text) {
    return fails(FAILING_strdup) ? NULL : allocated(__real_strdup(text));
}

int __wrap_asprintf(char **ret, const char *format, ...) {
    va_list args;
    if (fails(FAILING_asprintf)) {
        *ret = (char *)1; /* must not be used after a failure */
        return -1;
    }
    va_start(args, format);
    int len = vasprintf(ret, format, args);
    va_end(args);
    if (len >= 0)
        (void)allocated(*ret);
    return len;
}

void __wrap_free(void *block) {
    if (block && atomic_load_explicit(&active, memory_order_relaxed))
        atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
    __real_free(block);
}

/* ---- Everything else ----------------------------------------------------------------------- */

/* result, name, what it returns on failure, parameters, arguments */
#define WRAP(result, name, bad, parameters, arguments)                                             \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters {                                                              \
        return fails(FAILING_##name) ? (bad) : __real_##name arguments;                            \
    }

WRAP(int, socket, -1, (int family, int type, int protocol), (family, type, protocol))
WRAP(int, bind, -1, (int fd, const struct sockaddr *a, socklen_t len), (fd, a, len))
WRAP(int, listen, -1, (int fd, int backlog), (fd, backlog))
WRAP(int, accept4, -1, (int fd, struct sockaddr *a, socklen_t *len, int flags), (fd, a, len, flags))
WRAP(int, connect, -1, (int fd, const struct sockaddr *a, socklen_t len), (fd, a, len))
WRAP(int, getsockname, -1, (int fd, struct sockaddr *a, socklen_t *len), (fd, a, len))
WRAP(int, getpeername, -1, (int fd, struct sockaddr *a, socklen_t *len), (fd, a, len))
WRAP(int, getsockopt, -1, (int fd, int level, int name, void *value, socklen_t *len),
     (fd, level, name, value, len))
WRAP(int, setsockopt, -1, (int fd, int level, int name, const void *value, socklen_t len),
     (fd, level, name, value, len))
WRAP(int, getaddrinfo, EAI_MEMORY,
     (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret),
     (host, service, hints, ret))
WRAP(int, getifaddrs, -1, (struct ifaddrs * *ret), (ret))
WRAP(ssize_t, sendmsg, -1, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
WRAP(ssize_t, recvmsg, -1, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
WRAP(ssize_t, send, -1, (int fd, const void *data, size_t len, int flags), (fd, data, len, flags))
WRAP(ssize_t, recv, -1, (int fd, void *data, size_t len, int flags), (fd, data, len, flags))
WRAP(ssize_t, read, -1, (int fd, void *data, size_t len), (fd, data, len))
WRAP(ssize_t, write, -1, (int fd, const void *data, size_t len), (fd, data, len))
WRAP(int, poll, -1, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout))
WRAP(int, epoll_create1, -1, (int flags), (flags))
WRAP(int, epoll_wait, -1, (int set, struct epoll_event *events, int n, int timeout),
     (set, events, n, timeout))
WRAP(int, eventfd, -1, (unsigned count, int flags), (count, flags))
WRAP(int, timerfd_create, -1, (int clock, int flags), (clock, flags))
WRAP(int, timerfd_settime, -1,
     (int fd, int flags, const struct itimerspec *at, struct itimerspec *old), (fd, flags, at, old))
WRAP(int, memfd_create, -1, (const char *label, unsigned flags), (label, flags))
WRAP(int, fallocate64, -1, (int fd, int mode, off64_t from, off64_t len), (fd, mode, from, len))
WRAP(void *, mmap64, MAP_FAILED,
     (void *at, size_t len, int protection, int flags, int fd, off64_t from),
     (at, len, protection, flags, fd, from))
WRAP(int, mprotect, -1, (void *at, size_t len, int protection), (at, len, protection))
WRAP(FILE *, fopen64, NULL, (const char *path, const char *mode), (path, mode))
WRAP(int, fstat64, -1, (int fd, struct stat64 *ret), (fd, ret))
WRAP(int, stat64, -1, (const char *path, struct stat64 *ret), (path, ret))
WRAP(int, flock, -1, (int fd, int how), (fd, how))
WRAP(ssize_t, pread64, -1, (int fd, void *data, size_t len, off64_t at), (fd, data, len, at))
WRAP(ssize_t, pwrite64, -1, (int fd, const void *data, size_t len, off64_t at), (fd, data, len, at))
WRAP(ssize_t, process_vm_readv, -1,
     (pid_t pid, const struct iovec *to, unsigned long nto, const struct iovec *at,
      unsigned long nat, unsigned long flags),
     (pid, to, nto, at, nat, flags))
WRAP(int, ftruncate64, -1, (int fd, off64_t len), (fd, len))
WRAP(ssize_t, getrandom, -1, (void *data, size_t len, unsigned flags), (data, len, flags))
WRAP(int, gethostname, -1, (char *name, size_t len), (name, len))
WRAP(int, sched_getaffinity, -1, (pid_t pid, size_t len, cpu_set_t *set), (pid, len, set))
WRAP(int, pthread_create, errno,
     (pthread_t * ret, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (ret, attr, fn, arg))
WRAP(int, pthread_atfork, errno, (void (*prepare)(void), void (*parent)(void), void (*child)(void)),
     (prepare, parent, child))

/* Removing a descriptor from the set needs no resource. */
int __real_epoll_ctl(int set, int verb, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int set, int verb, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int set, int verb, int fd, struct epoll_event *event) {
    if (verb != EPOLL_CTL_DEL && fails(FAILING_epoll_ctl))
        return -1;
    return __real_epoll_ctl(set, verb, fd, event);
}

/* Functions with a variable number of arguments: the wrapper forwards one more, present or not. */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_fcntl64(int fd, int verb, ...);
int __wrap_fcntl64(int fd, int verb, ...);

int __wrap_open64(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, unsigned) : 0;
    va_end(args);
    return fails(FAILING_open64) ? -1 : __real_open64(path, flags, mode);
}

int __wrap_fcntl64(int fd, int verb, ...) {
    va_list args;
    va_start(args, verb);
    long arg = va_arg(args, long); /* an int, a pointer, or a value that is not read */
    va_end(args);
    return fails(FAILING_fcntl64) ? -1 : __real_fcntl64(fd, verb, arg);
}
