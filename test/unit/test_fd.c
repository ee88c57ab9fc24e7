/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading, writing, polling; descriptors passed over sockets; shared memory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>
#include "check.h"
#include "error.h"
#include "fd.h"

static void pair_open(int ret_ends[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ret_ends),
                     0);
}

static void pair_close(int ends[2]) {
    rcmi_fd_close(&ends[0]);
    rcmi_fd_close(&ends[1]);
}

static int fds_open(void) {
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* ---- Read and write -------------------------------------------------------------------------- */

static void test_close(void **state) {
    (void)state;
    int fd = dup(STDERR_FILENO);
    assert_true(fd >= 0);
    errno = EDOM;
    int copy = fd;
    rcmi_fd_close(&fd);
    assert_int_equal(fd, -1);
    rcmi_fd_close(&fd);
    assert_int_equal(errno, EDOM);
    assert_int_equal(fcntl(copy, F_GETFD), -1);
}

static void test_read_write(void **state) {
    (void)state;
    int ends[2];
    char buf[16];
    size_t len = 99;
    pair_open(ends);
    check_status(RCM_AGAIN, rcmi_fd_read(ends[0], buf, sizeof buf, &len));
    assert_int_equal(len, 99);
    check_ok(rcmi_fd_write(ends[1], "hello", 5, &len));
    assert_int_equal(len, 5);
    check_ok(rcmi_fd_read(ends[0], buf, sizeof buf, &len));
    assert_int_equal(len, 5);
    assert_memory_equal(buf, "hello", 5);
    check_ok(rcmi_fd_read(ends[0], buf, 0, &len));
    assert_int_equal(len, 0);
    check_ok(rcmi_fd_write(ends[0], buf, 0, &len));
    assert_int_equal(len, 0);
    pair_close(ends);
    check_status(RCM_ERR_SYSTEM, rcmi_fd_read(-1, buf, 1, &len));
}

/* SIGPIPE has its default action here, so raising it would end the program. */
static void check_gone(int reader, int writer, int *other) {
    char byte = 0;
    size_t len;
    rcmi_fd_close(other);
    if (reader >= 0)
        check_status(RCM_ERR_PEER, rcmi_fd_read(reader, &byte, 1, &len));
    if (writer >= 0) {
        check_status(RCM_ERR_PEER, rcmi_fd_write(writer, &byte, 1, &len));
        check_status(RCM_ERR_PEER, rcmi_fd_write_full(writer, &byte, 1, rcmi_deadline_in(1000)));
        check_error_names("after 0 of 1");
    }
}

static void test_peer_gone(void **state) {
    (void)state;
    int ends[2];
    sigset_t before, after, pending;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    pair_open(ends);
    check_gone(ends[0], ends[0], &ends[1]);
    pair_close(ends);
    assert_int_equal(pipe(ends), 0);
    check_gone(-1, ends[1], &ends[0]);
    pair_close(ends);
    assert_int_equal(pipe(ends), 0);
    check_gone(ends[0], -1, &ends[1]);
    pair_close(ends);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGPIPE), sigismember(&after, SIGPIPE));
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGPIPE), 0);
}

enum { BIG = 1 << 20 };

static void *drain(void *arg) {
    int fd = *(int *)arg;
    unsigned char *data = malloc(BIG);
    if (data && rcmi_fd_read_full(fd, data, BIG, rcmi_deadline_in(20000)) == RCM_OK) {
        size_t i = 0;
        while (i < BIG && data[i] == (unsigned char)(i * 7 / 3))
            i++;
        if (i == BIG)
            *(int *)arg = -2;
    }
    free(data);
    return NULL;
}

static void on_alarm(int signal) {
    (void)signal;
}

/* More bytes than the socket holds, while a timer interrupts every system call it can. */
static void test_full_through_signals(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm}, old; /* no SA_RESTART */
    struct itimerval often = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
    int ends[2];
    pair_open(ends);
    unsigned char *data = malloc(BIG);
    assert_non_null(data);
    for (size_t i = 0; i < BIG; i++)
        data[i] = (unsigned char)(i * 7 / 3);
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t thread;
    int reader = ends[0];
    int made = pthread_create(&thread, NULL, drain, &reader);
    rcm_status status = RCM_ERR_INTERNAL;
    if (made == 0) {
        status = rcmi_fd_write_full(ends[1], data, BIG, rcmi_deadline_in(20000));
        pthread_join(thread, NULL);
    }
    rcm_status polled = rcmi_fd_poll(ends[0], POLLIN, rcmi_deadline_in(30));
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_int_equal(made, 0);
    check_ok(status);
    assert_int_equal(reader, -2);
    check_status(RCM_ERR_TIMEOUT, polled);
    free(data);
    pair_close(ends);
}

static void test_deadlines(void **state) {
    (void)state;
    int ends[2];
    char buf[10];
    pair_open(ends);
    check_ok(rcmi_fd_poll(ends[0], POLLOUT, rcmi_deadline_in(0)));
    int64_t start = rcmi_now_ns();
    check_status(RCM_ERR_TIMEOUT, rcmi_fd_poll(ends[0], POLLIN, rcmi_deadline_in(40)));
    assert_true(rcmi_now_ns() - start >= 40000000);
    size_t len;
    check_ok(rcmi_fd_write(ends[1], "abc", 3, &len));
    check_ok(rcmi_fd_poll(ends[0], POLLIN, rcmi_deadline_in(0)));
    check_status(RCM_ERR_TIMEOUT, rcmi_fd_read_full(ends[0], buf, 10, rcmi_deadline_in(20)));
    check_error_names("after 3 of 10 bytes");
    char *big = calloc(1, BIG);
    assert_non_null(big);
    check_status(RCM_ERR_TIMEOUT, rcmi_fd_write_full(ends[1], big, BIG, rcmi_deadline_in(20)));
    free(big);
    pair_close(ends);
    check_status(RCM_ERR_SYSTEM, rcmi_fd_poll(1000000, POLLIN, rcmi_deadline_in(1000)));
}

/* ---- Passing descriptors --------------------------------------------------------------------- */

static void test_pass_fds(void **state) {
    (void)state;
    int ends[2], memory, got[4] = {-1, -1, -1, -1}, nfds = -1;
    char buf[16];
    size_t len;
    void *mine, *theirs;
    int before = fds_open();
    pair_open(ends);
    check_status(RCM_AGAIN, rcmi_recv_fds(ends[1], buf, sizeof buf, &len, got, 4, &nfds));
    check_ok(rcmi_memfd_create("unit", 4096, &memory));
    check_ok(rcmi_memfd_map(memory, 4096, &mine));
    check_ok(rcmi_send_fds(ends[0], "map", 3, &memory, 1));
    rcmi_fd_close(&memory);
    check_ok(rcmi_recv_fds(ends[1], buf, sizeof buf, &len, got, 4, &nfds));
    assert_int_equal(len, 3);
    assert_memory_equal(buf, "map", 3);
    assert_int_equal(nfds, 1);
    assert_int_equal(fcntl(got[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    check_ok(rcmi_memfd_size(got[0], &len));
    assert_int_equal(len, 4096);
    check_ok(rcmi_memfd_map(got[0], len, &theirs));
    memcpy(mine, "shared", 7);
    assert_string_equal(theirs, "shared");
    munmap(mine, 4096);
    munmap(theirs, 4096);
    rcmi_fd_close(&got[0]);

    /* four at once, none at all, and separate messages */
    int four[4] = {ends[0], ends[1], STDERR_FILENO, ends[0]};
    check_ok(rcmi_send_fds(ends[0], "4", 1, four, 4));
    check_ok(rcmi_send_fds(ends[0], "0", 1, NULL, 0));
    check_ok(rcmi_recv_fds(ends[1], buf, 1, &len, got, 4, &nfds));
    assert_int_equal(nfds, 4);
    for (int i = 0; i < 4; i++)
        rcmi_fd_close(&got[i]);
    check_ok(rcmi_recv_fds(ends[1], buf, sizeof buf, &len, got, 4, &nfds));
    assert_int_equal(nfds, 0);
    assert_int_equal(buf[0], '0');
    rcmi_fd_close(&ends[0]);
    check_status(RCM_ERR_PEER, rcmi_recv_fds(ends[1], buf, sizeof buf, &len, got, 4, &nfds));
    rcmi_fd_close(&ends[1]);
    assert_int_equal(fds_open(), before);
}

/* More descriptors than the receiver accepts: rejected, and none stays open. */
static void test_pass_too_many(void **state) {
    (void)state;
    int ends[2], got[4], nfds;
    char buf[16];
    size_t len;
    pair_open(ends);
    int four[4] = {ends[0], ends[1], ends[0], ends[1]};
    int before = fds_open();
    for (int max = 0; max < 4; max++) {
        check_ok(rcmi_send_fds(ends[0], "x", 1, four, 4));
        check_status(RCM_ERR_PROTOCOL,
                     rcmi_recv_fds(ends[1], buf, sizeof buf, &len, got, max, &nfds));
        assert_int_equal(fds_open(), before);
    }
    check_status(RCM_ERR_INVALID, rcmi_send_fds(ends[0], "x", 0, four, 1));
    check_status(RCM_ERR_INVALID, rcmi_send_fds(ends[0], "x", 1, four, 5));
    check_status(RCM_ERR_INVALID, rcmi_send_fds(ends[0], buf, 5000, four, 1));
    pair_close(ends);
}

/* This process may not open all of the received descriptors. The sender is not reported as the
 * cause. */
static void test_pass_without_room(void **state) {
    (void)state;
    int ends[2], got[4], nfds;
    char buf[16];
    size_t len;
    struct rlimit before, low;
    pair_open(ends);
    int four[4] = {ends[0], ends[1], ends[0], ends[1]};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int more = 0; more < 4; more++) {
        int open = fds_open(), first = dup(0);
        close(first);
        low = before;
        low.rlim_cur = (rlim_t)(first + more);
        check_ok(rcmi_send_fds(ends[0], "x", 1, four, 4));
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        rcm_status status = rcmi_recv_fds(ends[1], buf, sizeof buf, &len, got, 4, &nfds);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        check_status(RCM_ERR_RESOURCE, status);
        assert_int_equal(fds_open(), open);
    }
    pair_close(ends);
}

/* Until the socket is full: each message arrives whole with its descriptor, or not at all. */
static void test_pass_until_full(void **state) {
    (void)state;
    static char message[4096], back[4096];
    int ends[2], sent = 0, got, nfds;
    size_t len;
    pair_open(ends);
    memset(message, 'm', sizeof message);
    rcm_status status;
    while ((status = rcmi_send_fds(ends[0], message, sizeof message, &ends[0], 1)) == RCM_OK &&
           sent < 10000)
        sent++;
    check_status(RCM_AGAIN, status);
    assert_true(sent > 3);
    for (int i = 0; i < sent; i++) {
        check_ok(rcmi_recv_fds(ends[1], back, sizeof back, &len, &got, 1, &nfds));
        assert_int_equal(len, sizeof back);
        assert_int_equal(nfds, 1);
        rcmi_fd_close(&got);
    }
    check_status(RCM_AGAIN, rcmi_recv_fds(ends[1], back, sizeof back, &len, &got, 1, &nfds));
    pair_close(ends);
}

/* ---- Shared memory --------------------------------------------------------------------------- */

static void test_memfd(void **state) {
    (void)state;
    int fd;
    size_t len = 0;
    void *base, *larger;
    check_ok(rcmi_memfd_create("unit", 10000, &fd));
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    check_ok(rcmi_memfd_size(fd, &len));
    assert_int_equal(len, 10000);
    check_ok(rcmi_memfd_map(fd, 10000, &base));
    memset(base, 'x', 10000);

    assert_int_equal(ftruncate(fd, 5000), -1); /* sealed */
    assert_int_equal(errno, EPERM);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), -1);

    check_ok(rcmi_memfd_grow(fd, 10000, 100000));
    check_ok(rcmi_memfd_size(fd, &len));
    assert_int_equal(len, 100000);
    check_ok(rcmi_memfd_map(fd, 100000, &larger));
    assert_int_equal(((char *)larger)[9999], 'x');
    memset(larger, 'y', 100000);
    assert_int_equal(((char *)base)[0], 'y');
    check_status(RCM_ERR_INVALID, rcmi_memfd_grow(fd, 100000, 1));
    munmap(base, 10000);
    munmap(larger, 100000);
    rcmi_fd_close(&fd);
}

static void test_memfd_unsealed(void **state) {
    (void)state;
    size_t len = 7;
    int fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    check_status(RCM_ERR_PROTOCOL, rcmi_memfd_size(fd, &len));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    check_ok(rcmi_memfd_size(fd, &len));
    assert_int_equal(len, 4096);
    rcmi_fd_close(&fd);
    int ends[2];
    pair_open(ends);
    check_status(RCM_ERR_PROTOCOL, rcmi_memfd_size(ends[0], &len)); /* not a memory file */
    pair_close(ends);
    check_status(RCM_ERR_PROTOCOL, rcmi_memfd_size(-1, &len));
}

static void test_memfd_too_large(void **state) {
    (void)state;
    int fd = -7, before = fds_open();
    check_status(RCM_ERR_INVALID, rcmi_memfd_create("unit", 0, &fd));
    check_status(RCM_ERR_INVALID, rcmi_memfd_create("unit", SIZE_MAX, &fd));
    check_status(RCM_ERR_RESOURCE, rcmi_memfd_create("unit", (size_t)1 << 55, &fd));
    check_error_names("36028797018963968");
    assert_int_equal(fd, -7);
    assert_int_equal(fds_open(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close),           cmocka_unit_test(test_read_write),
        cmocka_unit_test(test_peer_gone),       cmocka_unit_test(test_full_through_signals),
        cmocka_unit_test(test_deadlines),       cmocka_unit_test(test_pass_fds),
        cmocka_unit_test(test_pass_too_many),   cmocka_unit_test(test_pass_without_room),
        cmocka_unit_test(test_pass_until_full), cmocka_unit_test(test_memfd),
        cmocka_unit_test(test_memfd_unsealed),  cmocka_unit_test(test_memfd_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
