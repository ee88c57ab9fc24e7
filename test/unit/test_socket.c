/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, listening, accepting and connecting: IPv4, IPv6 if the machine has it, abstract
 * Unix. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "check.h"
#include "fd.h"

static void check_flags(int fd) {
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
}

static void check_nodelay(int fd) {
    int on = 0;
    socklen_t len = sizeof on;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    assert_true(on);
}

static uint16_t port_of(const struct rcmi_sockaddr *addr) {
    struct sockaddr_in in4;
    struct sockaddr_in6 in6;
    if (addr->addr.ss_family == AF_INET) {
        memcpy(&in4, &addr->addr, sizeof in4);
        return ntohs(in4.sin_port);
    }
    memcpy(&in6, &addr->addr, sizeof in6);
    return ntohs(in6.sin6_port);
}

/* Exchanges bytes between a listener and a descriptor that connects to it. */
static void check_talk(int listener, int client) {
    int server = -1;
    char byte = 0;
    rcmi_deadline deadline = rcmi_deadline_in(10000);
    check_ok(rcmi_fd_poll(client, POLLOUT, deadline));
    check_ok(rcmi_connect_result(client));
    check_ok(rcmi_fd_poll(listener, POLLIN, deadline));
    check_ok(rcmi_accept(listener, &server));
    check_flags(server);
    check_flags(client);
    check_ok(rcmi_fd_write_full(client, "c", 1, deadline));
    check_ok(rcmi_fd_read_full(server, &byte, 1, deadline));
    assert_int_equal(byte, 'c');
    check_ok(rcmi_fd_write_full(server, "s", 1, deadline));
    check_ok(rcmi_fd_read_full(client, &byte, 1, deadline));
    assert_int_equal(byte, 's');
    check_status(RCM_AGAIN, rcmi_accept(listener, &server));
    rcmi_fd_close(&server);
}

/* On a loopback address: a listener, a client, and no connection once the listener is closed. */
static void check_inet(const char *host, const char *text_format) {
    struct rcmi_sockaddr addr;
    int listener = -1, client = -1, none = -1;
    char text[RCMI_ADDR_TEXT], expected[RCMI_ADDR_TEXT];
    check_ok(rcmi_resolve(host, 0, 0, &addr));
    check_ok(rcmi_listen(&addr, &listener));
    check_flags(listener);
    assert_true(port_of(&addr) != 0);
    snprintf(expected, sizeof expected, text_format, (int)port_of(&addr));
    assert_string_equal(rcmi_sockaddr_text(&addr, text), expected);
    check_status(RCM_AGAIN, rcmi_accept(listener, &none));
    assert_int_equal(none, -1);

    struct rcmi_sockaddr again;
    check_ok(rcmi_resolve(host, port_of(&addr), 0, &again));
    check_ok(rcmi_connect_start(&again, &client));
    check_nodelay(client);
    check_talk(listener, client);
    int second = -1;
    rcm_status busy = rcmi_listen(&again, &second); /* the port is taken */
    check_status(RCM_ERR_SYSTEM, busy);
    check_error_names(expected);
    assert_int_equal(second, -1);
    rcmi_fd_close(&client);
    rcmi_fd_close(&listener);

    rcm_status refused = rcmi_connect_start(&again, &client);
    if (refused == RCM_OK) {
        check_ok(rcmi_fd_poll(client, POLLOUT, rcmi_deadline_in(10000)));
        refused = rcmi_connect_result(client);
    }
    check_status(RCM_ERR_PEER, refused);
    rcmi_fd_close(&client);
}

static void test_ipv4(void **state) {
    (void)state;
    check_inet("127.0.0.1", "127.0.0.1:%d");
}

/* True if this machine has an IPv6 loopback address. */
static bool ipv6_there(void) {
    struct rcmi_sockaddr addr;
    int fd = -1;
    bool there = rcmi_resolve("::1", 0, 0, &addr) == RCM_OK && rcmi_listen(&addr, &fd) == RCM_OK;
    rcmi_fd_close(&fd);
    return there;
}

static void test_ipv6(void **state) {
    (void)state;
    if (!ipv6_there())
        skip();
    check_inet("::1", "[::1]:%d");
    check_inet("[::1]", "[::1]:%d");
}

/* The any-address accepts IPv4 clients, and IPv6 clients if the machine has IPv6. */
static void test_any(void **state) {
    (void)state;
    struct rcmi_sockaddr any, to;
    int listener = -1, client = -1;
    check_ok(rcmi_resolve("", 0, 0, &any));
    check_ok(rcmi_listen(&any, &listener));
    check_ok(rcmi_resolve("127.0.0.1", port_of(&any), 0, &to));
    check_ok(rcmi_connect_start(&to, &client));
    check_talk(listener, client);
    rcmi_fd_close(&client);
    if (ipv6_there()) {
        check_ok(rcmi_resolve("::1", port_of(&any), 0, &to));
        check_ok(rcmi_connect_start(&to, &client));
        check_talk(listener, client);
        rcmi_fd_close(&client);
    }
    rcmi_fd_close(&listener);
    size_t last = 0;
    while (last < 10 && rcmi_resolve(NULL, 5, last, &any) == RCM_OK)
        last++;
    assert_true(last == 1 || last == 2);
    check_status(RCM_ERR_NOT_FOUND, rcmi_resolve(NULL, 5, last, &any));
    check_ok(rcmi_resolve(NULL, 5, last - 1, &any));
    assert_int_equal(any.addr.ss_family, AF_INET);
}

static void test_resolve(void **state) {
    (void)state;
    struct rcmi_sockaddr addr;
    char text[RCMI_ADDR_TEXT], longest[400];
    check_ok(rcmi_resolve("10.1.2.3", 567, 0, &addr));
    assert_string_equal(rcmi_sockaddr_text(&addr, text), "10.1.2.3:567");
    check_status(RCM_ERR_NOT_FOUND, rcmi_resolve("10.1.2.3", 567, 1, &addr));
    check_error_names("10.1.2.3");
    check_ok(rcmi_resolve("localhost", 80, 0, &addr));
    assert_int_equal(port_of(&addr), 80);
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    check_status(RCM_ERR_INVALID, rcmi_resolve(longest, 1, 0, &addr));
    memset(&addr, 0, sizeof addr);
    assert_non_null(rcmi_sockaddr_text(&addr, text)); /* not an address, but still printable */
    assert_true(strlen(text) > 0);
}

/* A socket that connects to a port without listener may connect to itself. That is not a
 * connection. */
static void test_connected_to_itself(void **state) {
    (void)state;
    struct rcmi_sockaddr addr;
    check_ok(rcmi_resolve("127.0.0.1", 0, 0, &addr));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr.addr, addr.len), 0);
    addr.len = sizeof addr.addr;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr.addr, &addr.len), 0);
    (void)connect(fd, (struct sockaddr *)&addr.addr, addr.len);
    check_ok(rcmi_fd_poll(fd, POLLOUT, rcmi_deadline_in(10000)));
    check_status(RCM_ERR_PEER, rcmi_connect_result(fd));
    rcmi_fd_close(&fd);
}

/* A listener with a full backlog: further connects wait. */
static void test_not_connected_yet(void **state) {
    (void)state;
    struct rcmi_sockaddr addr;
    int fds[8], listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check_ok(rcmi_resolve("127.0.0.1", 0, 0, &addr));
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr.addr, addr.len), 0);
    assert_int_equal(listen(listener, 0), 0);
    addr.len = sizeof addr.addr;
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr.addr, &addr.len), 0);
    for (int i = 0; i < 8; i++)
        check_ok(rcmi_connect_start(&addr, &fds[i]));
    check_status(RCM_AGAIN, rcmi_connect_result(fds[7]));
    for (int i = 0; i < 8; i++)
        rcmi_fd_close(&fds[i]);
    rcmi_fd_close(&listener);
    check_status(RCM_ERR_SYSTEM, rcmi_connect_result(-1));
}

/* The connection was reset after it was made. The socket's error can be read only once. */
static void test_connection_reset(void **state) {
    (void)state;
    struct rcmi_sockaddr addr;
    const struct linger at_once = {.l_onoff = 1};
    int listener, client, server = -1, error;
    socklen_t len = sizeof error;
    check_ok(rcmi_resolve("127.0.0.1", 0, 0, &addr));
    check_ok(rcmi_listen(&addr, &listener));
    check_ok(rcmi_connect_start(&addr, &client));
    check_ok(rcmi_fd_poll(listener, POLLIN, rcmi_deadline_in(10000)));
    check_ok(rcmi_accept(listener, &server));
    setsockopt(server, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    rcmi_fd_close(&server);
    check_ok(rcmi_fd_poll(client, POLLIN, rcmi_deadline_in(10000)));
    assert_int_equal(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &len), 0);
    check_status(RCM_ERR_PEER, rcmi_connect_result(client));
    rcmi_fd_close(&client);
    rcmi_fd_close(&listener);
}

static void test_unix(void **state) {
    (void)state;
    char name[64], longest[102];
    int listener = -1, client = -1, second = -1;
    snprintf(name, sizeof name, "ringcomm-unit-%d", (int)getpid());
    check_status(RCM_ERR_PEER, rcmi_connect_start_unix(name, &client));
    check_error_names(name);
    check_ok(rcmi_listen_unix(name, &listener));
    check_flags(listener);
    check_status(RCM_ERR_SYSTEM, rcmi_listen_unix(name, &second));
    assert_int_equal(access(name, F_OK), -1);
    check_ok(rcmi_connect_start_unix(name, &client));
    check_talk(listener, client);
    rcmi_fd_close(&client);
    rcmi_fd_close(&listener);
    check_status(RCM_ERR_PEER, rcmi_connect_start_unix(name, &client));

    memset(longest, 'n', sizeof longest);
    longest[101] = '\0';
    check_status(RCM_ERR_INVALID, rcmi_listen_unix(longest, &listener));
    check_status(RCM_ERR_INVALID, rcmi_connect_start_unix("", &client));
    longest[100] = '\0';
    check_ok(rcmi_listen_unix(longest, &listener));
    rcmi_fd_close(&listener);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ipv4),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_any),
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_connected_to_itself),
        cmocka_unit_test(test_not_connected_yet),
        cmocka_unit_test(test_connection_reset),
        cmocka_unit_test(test_unix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
