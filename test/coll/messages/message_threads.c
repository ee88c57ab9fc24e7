/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from several threads of each rank, by every kind of send and receive at the same time,
 * while the rank's own thread runs collectives. Thread t of a rank sends to thread t of the next
 * rank, with its own tags. The order per thread is checked. See messages.c.
 */
#include "messages.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 60, LONG = 30000, TAG = 1000 };

struct worker {
    rcm_comm *comm;
    int number, errors;
    pthread_t thread;
};

/* The number of ints in each round: small messages and rendezvous messages. */
static size_t count_of(int k) {
    return k % 10 == 9 ? LONG : (size_t)k % 5 + 1;
}

static int send_round(const struct worker *w, int k, int *out, rcm_work **ret_work) {
    const int n = rcm_size(w->comm), next = (rcm_rank(w->comm) + 1) % n;
    const uint64_t tag = TAG + (uint64_t)w->number;
    const size_t count = count_of(k);
    int errors = 0;
    for (size_t i = 0; i < count; i++)
        out[i] = k * 100 + w->number;
    CHECK(errors, rcm_isend(w->comm, out, count, RCM_INT32, next, tag, ret_work) == RCM_OK, "%s",
          rcm_last_error());
    return errors;
}

/* One of five kinds of receive. */
static rcm_status receive_round(const struct worker *w, int k, int *in) {
    const int n = rcm_size(w->comm), prev = (rcm_rank(w->comm) + n - 1) % n;
    const uint64_t tag = TAG + (uint64_t)w->number;
    struct rcm_message message = RCM_MESSAGE_INIT;
    rcm_matched *matched = NULL;
    rcm_work *work = NULL;
    rcm_status status = RCM_PENDING;
    switch (k % 5) {
    case 0:
        return rcm_recv(w->comm, in, LONG, RCM_INT32, prev, tag, NULL, NULL);
    case 1:
        status = rcm_irecv(w->comm, in, LONG, RCM_INT32, RCM_ANY_SOURCE, tag, &work);
        status = status == RCM_OK ? rcm_work_wait(work, -1) : status;
        rcm_work_free(work);
        return status;
    case 2:
        status = rcm_mprobe(w->comm, RCM_ANY_SOURCE, tag, NULL, &message, &matched);
        return status == RCM_OK
                   ? rcm_mrecv(w->comm, matched, in, message.bytes / 4, RCM_INT32, NULL, NULL)
                   : status;
    case 3:
        while (status == RCM_PENDING)
            status = rcm_iprobe(w->comm, prev, tag, &message);
        return status == RCM_OK
                   ? rcm_recv(w->comm, in, message.bytes / 4, RCM_INT32, prev, tag, NULL, NULL)
                   : status;
    default:
        status = rcm_irecv(w->comm, in, LONG, RCM_INT32, prev, tag, &work);
        if (status == RCM_OK)
            status = rcm_work_cancel(work);
        if (status >= RCM_OK)
            status = rcm_work_wait(work, -1);
        rcm_work_free(work);
        return status == RCM_ERR_CANCELED
                   ? rcm_recv(w->comm, in, LONG, RCM_INT32, prev, tag, NULL, NULL)
                   : status;
    }
}

static void *work(void *arg) {
    struct worker *w = arg;
    int *out = calloc(LONG, sizeof *out), *in = calloc(LONG, sizeof *in);
    for (int k = 0; k < ROUNDS && w->errors == 0; k++) {
        rcm_work *sent = NULL;
        const size_t last = count_of(k) - 1;
        in[0] = in[last] = -1;
        w->errors += send_round(w, k, out, &sent);
        CHECK(w->errors, receive_round(w, k, in) == RCM_OK, "thread %d round %d: %s", w->number, k,
              rcm_last_error());
        CHECK(w->errors, in[0] == k * 100 + w->number && in[last] == in[0],
              "thread %d round %d: %d, %d", w->number, k, in[0], in[last]);
        CHECK(w->errors, rcm_work_wait(sent, -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(sent);
    }
    free(out);
    free(in);
    return NULL;
}

static int collectives(rcm_comm *comm) {
    int errors = 0;
    for (int k = 0; k < ROUNDS / 2; k++) {
        int value = rcm_rank(comm) + k, max = -1;
        CHECK(errors,
              rcm_all_reduce(comm, &value, &max, 1, RCM_INT32, RCM_MAX, NULL, NULL) == RCM_OK &&
                  max == rcm_size(comm) - 1 + k,
              "all_reduce %d: %d: %s", k, max, rcm_last_error());
    }
    return errors;
}

int check_threads(rcm_comm *comm) {
    struct worker workers[THREADS];
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){.comm = comm, .number = t};
        if (pthread_create(&workers[t].thread, NULL, work, &workers[t]) != 0)
            abort();
    }
    int errors = collectives(comm);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        errors += workers[t].errors;
    }
    return errors;
}
