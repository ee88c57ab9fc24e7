/* SPDX-License-Identifier: BSD-3-Clause */
#include "pmi_server.h"
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void send_line(struct pmi_server *s, int i, const char *text) {
    char bytes[16384];
    size_t len = strlen(text);
    assert(len < sizeof bytes);
    for (size_t k = 0; k <= len; k++)
        bytes[k] = text[k] == '\1' ? '\0' : text[k];
    for (size_t k = 0; k < len;) { /* in two parts, as sockets may deliver it */
        size_t part = k == 0 && len > 5 ? 5 : len - k;
        ssize_t n = send(s->server_fd[i], bytes + k, part, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        k += (size_t)n;
    }
}

static void hang_up(struct pmi_server *s, int i) {
    if (s->server_fd[i] >= 0)
        close(s->server_fd[i]);
    s->server_fd[i] = -1;
}

/* The value of name= in a line, without the following blank. */
static void field(const char *line, const char *name, char *value, size_t cap) {
    const char *at = strstr(line, name);
    value[0] = '\0';
    if (at)
        snprintf(value, cap, "%.*s", (int)strcspn(at + strlen(name), " "), at + strlen(name));
}

static void put(struct pmi_server *s, int i, const char *line) {
    if (s->keys == PMI_KEYS) {
        send_line(s, i, "cmd=put_result rc=-1 msg=full\n");
        return;
    }
    field(line, " key=", s->key[s->keys], sizeof s->key[0]);
    field(line, " value=", s->value[s->keys], sizeof s->value[0]);
    s->keys++;
    send_line(s, i, "cmd=put_result rc=0 msg=success\n");
}

static void get(struct pmi_server *s, int i, const char *line) {
    char key[65], answer[1200];
    field(line, " key=", key, sizeof key);
    for (int k = s->keys - 1; k >= 0; k--)
        if (strcmp(s->key[k], key) == 0) {
            snprintf(answer, sizeof answer, "cmd=get_result rc=0 msg=success value=%s\n",
                     s->value[k]);
            send_line(s, i, answer);
            return;
        }
    send_line(s, i, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
}

static void barrier(struct pmi_server *s) {
    if (++s->waiting < s->n)
        return;
    s->waiting = 0;
    for (int i = 0; i < s->n; i++)
        send_line(s, i, "cmd=barrier_out\n");
}

static void fail_as_told(struct pmi_server *s, int i) {
    if (!s->fault.answer)
        return;
    if (s->fault.answer[0]) {
        send_line(s, i, s->fault.answer);
        return;
    }
    for (int k = 0; k < s->n; k++)
        hang_up(s, k);
}

static void command(struct pmi_server *s, int i, const char *line) {
    char cmd[32], answer[200];
    field(line, "cmd=", cmd, sizeof cmd);
    if (strcmp(cmd, "finalize") == 0)
        s->finalized++;
    if (s->fault.at && strcmp(cmd, s->fault.at) == 0) {
        fail_as_told(s, i);
    } else if (strcmp(cmd, "init") == 0) {
        send_line(s, i, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    } else if (strcmp(cmd, "get_maxes") == 0) {
        snprintf(answer, sizeof answer, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=%s\n",
                 s->vallen_max);
        send_line(s, i, answer);
    } else if (strcmp(cmd, "get_my_kvsname") == 0) {
        send_line(s, i, "cmd=my_kvsname kvsname=kvs_1_0\n");
    } else if (strcmp(cmd, "put") == 0) {
        put(s, i, line);
    } else if (strcmp(cmd, "get") == 0) {
        get(s, i, line);
    } else if (strcmp(cmd, "barrier_in") == 0) {
        barrier(s);
    } else if (strcmp(cmd, "finalize") == 0) {
        send_line(s, i, "cmd=finalize_ack\n");
        hang_up(s, i);
    } else {
        send_line(s, i, "cmd=unknown\n");
    }
}

static void lines(struct pmi_server *s, int i) {
    size_t *have = &s->have[i];
    char *line = s->line[i], *end;
    ssize_t n = recv(s->server_fd[i], line + *have, sizeof s->line[i] - 1 - *have, 0);
    if (n <= 0) {
        hang_up(s, i);
        return;
    }
    *have += (size_t)n;
    line[*have] = '\0';
    while (s->server_fd[i] >= 0 && (end = strchr(line, '\n'))) {
        *end = '\0';
        command(s, i, line);
        *have -= (size_t)(end + 1 - line);
        memmove(line, end + 1, *have + 1);
    }
}

static void *serve(void *arg) {
    struct pmi_server *s = arg;
    for (;;) {
        struct pollfd fds[PMI_CLIENTS];
        int open = 0;
        for (int i = 0; i < s->n; i++) {
            fds[i] = (struct pollfd){.fd = s->server_fd[i], .events = POLLIN};
            open += s->server_fd[i] >= 0;
        }
        if (!open || poll(fds, (nfds_t)s->n, 30000) <= 0)
            return NULL;
        for (int i = 0; i < s->n; i++)
            if (s->server_fd[i] >= 0 && fds[i].revents)
                lines(s, i);
    }
}

void pmi_server_open(struct pmi_server *s, int n, struct pmi_fault fault) {
    memset(s, 0, sizeof *s);
    s->n = n;
    s->fault = fault;
    s->vallen_max = "1024";
    for (int i = 0; i < n; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            abort();
        s->server_fd[i] = pair[0];
        s->client_fd[i] = pair[1];
    }
}

void pmi_server_start(struct pmi_server *s) {
    if (pthread_create(&s->thread, NULL, serve, s) != 0)
        abort();
}

void pmi_server_stop(struct pmi_server *s) {
    for (int i = 0; i < s->n; i++)
        close(s->client_fd[i]);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < s->n; i++)
        hang_up(s, i);
}
