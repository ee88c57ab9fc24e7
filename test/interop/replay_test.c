/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays recorded conversations with torch: torch's client with our server, and our client with a
 * server that sends what torch's sent. record_torch.py made the captures, which needs torch; this
 * test does not.
 *
 *   replay_test CAPTURE...       replays them
 *   replay_test --talk PORT      the calls of our client, for record_torch.py
 */
#include "../store/check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include "rendezvous.h"

#define CONNECTIONS_MAX 8
#define LINE_BYTES      65536
#define LOOK_MS         10 /* interval at which a wait checks again: never reached here */

/* ---- Captures ------------------------------------------------------------------------------ */

struct event {
    char what; /* + connected, > client sends, < server sends, - server closes */
    int connection;
    unsigned char *data;
    size_t len;
};

struct capture {
    struct event *events;
    size_t count;
};

static unsigned hex_digit(char c) {
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void event_read(const char *line, struct event *event) {
    static char hex[LINE_BYTES];
    hex[0] = '\0';
    if (sscanf(line, "%c %d %65535s", &event->what, &event->connection, hex) < 2 ||
        event->connection < 1 || event->connection >= CONNECTIONS_MAX)
        fail_msg("not a line of a capture: %s", line);
    event->len = strlen(hex) / 2;
    event->data = malloc(event->len + 1);
    for (size_t i = 0; i < event->len; i++)
        event->data[i] = (unsigned char)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
}

static struct capture capture_read(const char *path) {
    static char line[LINE_BYTES + 32];
    struct capture capture = {0};
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("cannot read %s", path);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#')
            continue;
        capture.events = realloc(capture.events, (capture.count + 1) * sizeof *capture.events);
        event_read(line, &capture.events[capture.count++]);
    }
    fclose(f);
    assert_true(capture.count > 0);
    return capture;
}

static void capture_free(struct capture *capture) {
    for (size_t i = 0; i < capture->count; i++)
        free(capture->events[i].data);
    free(capture->events);
}

/* ---- torch's client, our server ------------------------------------------------------------ */

static void client_replay(const struct capture *capture) {
    rcm_store *store;
    int fds[CONNECTIONS_MAX] = {0};
    check_ok(rcm_store_open("tcp://127.0.0.1:0?server=1", 0, &store));
    for (size_t i = 0; i < capture->count; i++) {
        const struct event *e = &capture->events[i];
        int *fd = &fds[e->connection];
        if (e->what == '+')
            *fd = raw_connect(url_port(rcm_store_url(store)));
        else if (e->what == '>')
            raw_send(*fd, e->data, e->len);
        else if (e->what == '<')
            raw_expect(*fd, e->data, e->len);
    }
    char *text = get_text(store, "key"); /* an ordinary key for our server */
    assert_string_equal(text, "value");
    free(text);
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        if (fds[i] > 0)
            close(fds[i]);
    rcm_store_close(store);
}

/* ---- Our client, torch's server ------------------------------------------------------------ */

struct player {
    const struct capture *capture;
    int listen_fd;
    size_t at; /* events that were as recorded */
};

/* Whether the client sends exactly this event. */
static bool receives_event(int fd, const struct event *e) {
    unsigned char *got = malloc(e->len + 1);
    bool same =
        recv(fd, got, e->len, MSG_WAITALL) == (ssize_t)e->len && memcmp(got, e->data, e->len) == 0;
    free(got);
    return same;
}

static void *player_main(void *arg) {
    struct player *p = arg;
    int fds[CONNECTIONS_MAX];
    memset(fds, -1, sizeof fds);
    for (bool good = true; good && p->at < p->capture->count; p->at += good) {
        const struct event *e = &p->capture->events[p->at];
        int *fd = &fds[e->connection];
        if (e->what == '+') {
            *fd = accept(p->listen_fd, NULL, NULL);
            good = *fd >= 0;
        } else if (e->what == '>') {
            good = receives_event(*fd, e);
        } else if (e->what == '<') {
            good = send(*fd, e->data, e->len, MSG_NOSIGNAL) == (ssize_t)e->len;
        } else if (*fd >= 0) {
            close(*fd);
            *fd = -1;
        }
    }
    close(p->listen_fd); /* closes everything: the client must not wait */
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return NULL;
}

static void compare(rcm_store *store, const char *expected, const char *desired, rcm_status want,
                    const char *value, int swapped) {
    void *got;
    size_t len;
    int did;
    rcm_status status = rcm_store_compare_set(store, "c", expected, strlen(expected), desired,
                                              strlen(desired), &did, &got, &len);
    check_status(want, status);
    if (status != RCM_OK)
        return;
    assert_string_equal(got, value);
    assert_int_equal(did, swapped);
    free(got);
}

/* The operations that every torch has. Newer ones, such as append, are left out. */
static void talk(int port) {
    const char *const keys[] = {"key", "n"}, *const never = "never";
    char url[64], *text;
    rcm_store *store;
    void *data;
    size_t len, count;
    int64_t sum;
    int deleted;
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d?server=0", port);
    check_ok(rcm_store_open(url, 20000, &store));
    check_ok(rcm_store_count(store, &count));
    assert_int_equal(count, 0);
    check_ok(rcm_store_set(store, "key", "value", 5));
    text = get_text(store, "key");
    assert_string_equal(text, "value");
    free(text);
    check_ok(rcm_store_add(store, "n", 5, &sum));
    check_ok(rcm_store_add(store, "n", -7, &sum));
    assert_int_equal(sum, -2);
    compare(store, "x", "y", RCM_ERR_NOT_FOUND, NULL, 0);
    compare(store, "", "one", RCM_OK, "one", 1);
    compare(store, "zwei", "two", RCM_OK, "one", 0);
    compare(store, "one", "two", RCM_OK, "two", 1);
    check_ok(rcm_store_wait(store, keys, 2, 10000));
    check_status(RCM_ERR_TIMEOUT, rcm_store_wait(store, &never, 1, LOOK_MS / 2));
    check_status(RCM_ERR_NOT_FOUND, rcm_store_try_get(store, "never", &data, &len));
    check_ok(rcm_store_delete(store, "key", &deleted));
    assert_int_equal(deleted, 1);
    check_ok(rcm_store_delete(store, "key", &deleted));
    assert_int_equal(deleted, 0);
    check_ok(rcm_store_count(store, &count));
    assert_int_equal(count, 2);
    rcm_store_close(store);
}

static void server_replay(const struct capture *capture) {
    struct player player = {.capture = capture};
    pthread_t thread;
    int port;
    check_ok(rcmi_store_listen("127.0.0.1", 0, &player.listen_fd, &port));
    assert_int_equal(fcntl(player.listen_fd, F_SETFL, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, player_main, &player), 0);
    talk(port);
    pthread_join(thread, NULL);
    if (player.at != capture->count)
        fail_msg("our client differs from when it was recorded at event %zu of %zu", player.at + 1,
                 capture->count);
}

/* ---- All ----------------------------------------------------------------------------------- */

static void replay(void **state) {
    const char *path = *state, *kind = strrchr(path, '-');
    struct capture capture = capture_read(path);
    if (kind && strcmp(kind, "-client") == 0)
        client_replay(&capture);
    else
        server_replay(&capture);
    capture_free(&capture);
}

int main(int argc, char **argv) {
    struct CMUnitTest tests[16] = {{0}};
    if (argc == 3 && strcmp(argv[1], "--talk") == 0) {
        talk(atoi(argv[2]));
        return 0;
    }
    for (int i = 1; i < argc && i <= 16; i++) {
        const char *slash = strrchr(argv[i], '/');
        tests[i - 1] = (struct CMUnitTest){
            .name = slash ? slash + 1 : argv[i], .test_func = replay, .initial_state = argv[i]};
    }
    return _cmocka_run_group_tests("replay", tests, (size_t)(argc - 1), NULL, NULL);
}
