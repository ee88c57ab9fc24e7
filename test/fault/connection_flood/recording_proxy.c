/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A proxy between a client and a store: it records what the client sends, which starts with the
 * proof of the secret, if there is one.
 */
#include "ringcomm.h"
#include "connection_flood.h"
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct proxy {
    struct flood *flood;
    int listener, store_port;
};

static int loopback(int port, bool listens, int *ret_port) {
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = listens ? bind(fd, (struct sockaddr *)&in, len) || listen(fd, 8)
                         : connect(fd, (struct sockaddr *)&in, len);
    if (failed || getsockname(fd, (struct sockaddr *)&in, &len) != 0) {
        close(fd);
        return -1;
    }
    if (ret_port)
        *ret_port = ntohs(in.sin_port);
    return fd;
}

/* Forwards what has arrived; false at the end. */
static bool pass(struct flood *keep, int from, int to) {
    uint8_t bytes[4096];
    const ssize_t n = recv(from, bytes, sizeof(bytes), 0);
    if (n <= 0 || send(to, bytes, (size_t)n, MSG_NOSIGNAL) != n)
        return false;
    if (keep && keep->recorded_len + (size_t)n <= sizeof(keep->recorded)) {
        memcpy(keep->recorded + keep->recorded_len, bytes, (size_t)n);
        keep->recorded_len += (size_t)n;
    }
    return true;
}

static void *proxy_run(void *arg) {
    struct proxy *go = arg;
    int client = accept(go->listener, NULL, NULL);
    int store = loopback(go->store_port, false, NULL);
    bool open = client >= 0 && store >= 0;
    while (open) {
        struct pollfd both[2] = {{.fd = client, .events = POLLIN}, {.fd = store, .events = POLLIN}};
        if (poll(both, 2, 20000) <= 0)
            break;
        if (both[0].revents)
            open = pass(go->flood, client, store);
        if (open && both[1].revents)
            open = pass(NULL, store, client);
    }
    close(client);
    close(store);
    return NULL;
}

bool flood_record(struct flood *flood, const char *secret) {
    struct proxy go = {.flood = flood};
    rcm_store *server = NULL, *client = NULL;
    pthread_t thread;
    char url[64];
    int port = 0;
    setenv("RINGCOMM_SECRET", secret ? secret : "", 1);
    if (!secret)
        unsetenv("RINGCOMM_SECRET");
    flood->recorded_len = 0;
    if (rcm_store_open("tcp://127.0.0.1:0?server=1", 20000, &server) != RCM_OK)
        return false;
    go.store_port = atoi(strrchr(rcm_store_url(server), ':') + 1);
    go.listener = loopback(0, true, &port);
    snprintf(url, sizeof(url), "tcp://127.0.0.1:%d?server=0", port);
    if (go.listener < 0 || pthread_create(&thread, NULL, proxy_run, &go) != 0)
        abort();
    const bool opened = rcm_store_open(url, 20000, &client) == RCM_OK;
    if (!opened) {
        fprintf(stderr, "through a go-between: %s\n", rcm_last_error());
        shutdown(go.listener, SHUT_RDWR);
    }
    rcm_store_close(client);
    pthread_join(thread, NULL);
    close(go.listener);
    rcm_store_close(server);
    unsetenv("RINGCOMM_SECRET");
    /* A proof has 73 bytes. */
    return opened &&
           (!secret || (flood->recorded_len > 73 && memcmp(flood->recorded, "RCMAUTH1I", 9) == 0));
}
