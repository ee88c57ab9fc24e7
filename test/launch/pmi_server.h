/* SPDX-License-Identifier: BSD-3-Clause */
/* A process manager for tests: serves PMI-1 to n clients over socketpairs, from one thread. */
#ifndef PMI_SERVER_H
#define PMI_SERVER_H

#include <pthread.h>

#define PMI_CLIENTS 8
#define PMI_KEYS    16

/* A fault of the server: it happens at the request `at`. */
struct pmi_fault {
    const char *at;     /* "barrier_in"; NULL: no fault */
    const char *answer; /* sent instead, "\1" standing for a NUL; NULL: is silent from then on;
                           "": closes every connection */
};

struct pmi_server {
    int n;
    int server_fd[PMI_CLIENTS], client_fd[PMI_CLIENTS];
    struct pmi_fault fault;
    const char *vallen_max; /* "1024" */
    pthread_t thread;
    int waiting, keys, finalized; /* finalized: read it after pmi_server_stop */
    char key[PMI_KEYS][65], value[PMI_KEYS][1025];
    char line[PMI_CLIENTS][4096];
    size_t have[PMI_CLIENTS];
};

/* Opens the sockets first, so that children can be forked before there is a thread. */
void pmi_server_open(struct pmi_server *s, int n, struct pmi_fault fault);
void pmi_server_start(struct pmi_server *s);
/* Waits until all clients have closed their ends; the caller's copies are closed. */
void pmi_server_stop(struct pmi_server *s);

#endif
