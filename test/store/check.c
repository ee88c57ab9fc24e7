/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void sleep_ms(int ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

char *fresh_path(void) {
    char folder[] = "/tmp/ringcomm-store-XXXXXX", *path;
    assert_non_null(mkdtemp(folder));
    assert_true(asprintf(&path, "%s/file", folder) > 0);
    return path;
}

void remove_path(char *path) {
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    free(path);
}

char *get_text(rcm_store *store, const char *key) {
    void *value;
    size_t len;
    check_ok(rcm_store_get(store, key, 20000, &value, &len));
    assert_int_equal(strlen(value), len);
    return value;
}

int url_port(const char *url) {
    return atoi(strrchr(url, ':') + 1);
}

int raw_connect(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval patience = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

void raw_send(int fd, const void *data, size_t len) {
    const char *p = data;
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n < 0)
            fail_msg("send: %s", strerror(errno));
        p += n;
        len -= (size_t)n;
    }
}

void raw_expect(int fd, const void *data, size_t len) {
    char *got = malloc(len);
    size_t have = 0;
    while (have < len) {
        ssize_t n = recv(fd, got + have, len - have, 0);
        if (n <= 0)
            fail_msg("got %zu of %zu bytes: %s", have, len, n ? strerror(errno) : "end of file");
        have += (size_t)n;
    }
    assert_memory_equal(got, data, len);
    free(got);
}

bool raw_closed_within(int fd, int ms) {
    double until = seconds_now() + ms / 1e3;
    char byte[4096];
    while (seconds_now() < until) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int left = (int)((until - seconds_now()) * 1e3) + 1;
        if (poll(&p, 1, left) > 0 && recv(fd, byte, sizeof byte, 0) <= 0)
            return true;
    }
    return false;
}

bool raw_silent_for(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 0;
}
