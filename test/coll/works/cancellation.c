/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pthread_cancel of a thread in a blocking call: the call ends normally, the thread is canceled
 * after it, and the communicator still works.
 *
 *     cancellation TRANSPORT
 *
 * Rank 0 makes each call in a new thread, which is canceled before rank 1 calls.
 */
#include "../ranks.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { CANCEL_MS = 60, TAG = 9 };

/* How many calls rank 0 has canceled. Shared, so that rank 1 can follow. */
static _Atomic int *canceled;

static void sleep_ms(int ms) {
    const struct timespec t = {.tv_nsec = ms * 1000000L};
    nanosleep(&t, NULL);
}

/* ---- Calls that wait for the other rank ------------------------------------------------------ */

struct waiter {
    rcm_comm *comm, *made;
    const struct call_row *row;
    rcm_status status;
    _Atomic bool returned;
};

struct call_row {
    const char *name;
    rcm_status (*first)(struct waiter *w);  /* by rank 0's thread */
    rcm_status (*second)(struct waiter *w); /* by rank 1; NULL: the same */
};

static rcm_status call_all_reduce(struct waiter *w) {
    int32_t x = 1, sum;
    const rcm_status status = rcm_all_reduce(w->comm, &x, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL);
    return status == RCM_OK && sum != 2 ? RCM_ERR_INTERNAL : status;
}

static rcm_status call_large(struct waiter *w) {
    enum { N = 1 << 20 };
    float *x = calloc(N, sizeof *x);
    const rcm_status status = rcm_all_reduce(w->comm, x, x, N, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    free(x);
    return status;
}

static rcm_status call_barrier(struct waiter *w) {
    return rcm_barrier(w->comm, NULL, NULL);
}

static rcm_status call_wait(struct waiter *w) {
    rcm_work *work;
    rcm_status status = rcm_barrier(w->comm, NULL, &work);
    if (status != RCM_OK)
        return status;
    status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    return status;
}

static rcm_status call_wait_all(struct waiter *w) {
    rcm_work *works[2] = {NULL};
    rcm_status status = rcm_barrier(w->comm, NULL, &works[0]);
    if (status == RCM_OK)
        status = rcm_work_wait_all(works, 2, -1);
    rcm_work_free(works[0]);
    return status;
}

static rcm_status call_recv(struct waiter *w) {
    int32_t x;
    return rcm_recv(w->comm, &x, 1, RCM_INT32, 1, TAG, NULL, NULL);
}

static rcm_status call_probe(struct waiter *w) {
    struct rcm_message message = RCM_MESSAGE_INIT;
    const rcm_status status = rcm_probe(w->comm, 1, TAG, NULL, &message);
    return status == RCM_OK ? call_recv(w) : status;
}

static rcm_status call_send(struct waiter *w) {
    const int32_t x = 3;
    return rcm_send(w->comm, &x, 1, RCM_INT32, 0, TAG, NULL, NULL);
}

static rcm_status call_duplicate(struct waiter *w) {
    return rcm_comm_duplicate(w->comm, NULL, &w->made);
}

static rcm_status call_destroy(struct waiter *w) {
    rcm_comm *comm = w->comm;
    return rcm_destroy(comm);
}

static rcm_status call_shrink(struct waiter *w) {
    return rcm_comm_shrink(w->comm, NULL, &w->made);
}

static const struct call_row rows[] = {
    {"all_reduce", call_all_reduce, NULL},
    {"all_reduce of 4 MiB", call_large, NULL},
    {"barrier", call_barrier, NULL},
    {"rcm_work_wait", call_wait, NULL},
    {"rcm_work_wait_all", call_wait_all, NULL},
    {"recv", call_recv, call_send},
    {"probe", call_probe, call_send},
    {"rcm_comm_duplicate", call_duplicate, NULL},
};
/* These end the communicator. */
static const struct call_row last_rows[] = {
    {"rcm_destroy", call_destroy, NULL},
    {"rcm_comm_shrink", call_shrink, NULL},
};

/* ---- The canceled thread --------------------------------------------------------------------- */

static void *waiter_main(void *arg) {
    struct waiter *w = arg;
    w->status = w->row->first(w);
    w->returned = true;
    pthread_testcancel();
    return NULL;
}

static int check_first(struct waiter *w) {
    pthread_t thread;
    void *result = NULL;
    int errors = 0, error = pthread_create(&thread, NULL, waiter_main, w);
    CHECK(errors, error == 0, "pthread_create: %d", error);
    if (error != 0)
        return errors;
    sleep_ms(CANCEL_MS);
    CHECK(errors, pthread_cancel(thread) == 0, "pthread_cancel");
    atomic_fetch_add(canceled, 1);
    pthread_join(thread, &result);
    CHECK(errors, w->returned && w->status == RCM_OK, "%s %s: %s", w->row->name,
          w->returned ? "returned" : "did not return", rcm_status_name(w->status));
    CHECK(errors, result == PTHREAD_CANCELED, "%s: the thread was not canceled afterwards",
          w->row->name);
    return errors;
}

static void await_cancel(int calls) {
    for (int i = 0; i < 20000 && atomic_load(canceled) < calls; i++)
        sleep_ms(1);
}

/* calls: the number of canceled calls including this one. */
static int check_row(rcm_comm *comm, const struct call_row *row, int calls, rcm_comm **ret_made) {
    struct waiter w = {.comm = comm, .row = row, .status = RCM_PENDING};
    int errors = 0;
    if (rcm_rank(comm) == 0) {
        errors += check_first(&w);
    } else {
        await_cancel(calls);
        w.status = row->second ? row->second(&w) : row->first(&w);
        CHECK(errors, w.status == RCM_OK, "%s of rank 1: %s", row->name, rcm_last_error());
    }
    *ret_made = w.made;
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    rcm_comm *made;
    int errors = 0, calls = 0;
    (void)arg;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && errors == 0; i++) {
        errors += check_row(comm, &rows[i], ++calls, &made);
        struct waiter after = {.comm = comm};
        const rcm_status status = call_all_reduce(&after);
        CHECK(errors, status == RCM_OK, "after %s: %s", rows[i].name, rcm_last_error());
        CHECK(errors, rcm_destroy(made) == RCM_OK, "%s", rcm_last_error());
    }
    for (size_t i = 0; i < sizeof last_rows / sizeof last_rows[0] && errors == 0; i++) {
        rcm_comm *other = NULL;
        CHECK(errors, rcm_comm_duplicate(comm, NULL, &other) == RCM_OK, "%s", rcm_last_error());
        errors += check_row(other, &last_rows[i], ++calls, &made);
        struct waiter after = {.comm = made ? made : comm};
        const rcm_status status = call_all_reduce(&after);
        CHECK(errors, status == RCM_OK, "after %s: %s", last_rows[i].name, rcm_last_error());
        if (made) {
            CHECK(errors, rcm_destroy(made) == RCM_OK, "%s", rcm_last_error());
            (void)!rcm_destroy(other);
        }
    }
    return errors;
}

/* ---- rcm_init -------------------------------------------------------------------------------- */

/* A canceled thread waits for a request. The request goes on. */
static void *init_waiter(void *arg) {
    rcm_comm *comm = NULL;
    rcm_init_request *request = arg;
    (void)!rcm_init_wait(request, 300, &comm);
    pthread_testcancel();
    return NULL;
}

static int check_init(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_init_request *request = NULL;
    rcm_comm *comm = NULL;
    rcm_store *store = NULL;
    pthread_t thread;
    void *result = NULL;
    int errors = 0;
    CHECK(errors, rcm_store_open("hash:", 1000, &store) == RCM_OK, "%s", rcm_last_error());
    options.store = store;
    options.rank = 0;
    options.world_size = 2;
    options.timeout_ms = 20000;
    CHECK(errors, rcm_init_begin(&options, &request) == RCM_OK, "%s", rcm_last_error());
    if (errors || pthread_create(&thread, NULL, init_waiter, request) != 0)
        return errors + 1;
    sleep_ms(CANCEL_MS);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    CHECK(errors, result == PTHREAD_CANCELED, "rcm_init_wait: not canceled afterwards");
    /* the request's lock is free */
    CHECK(errors, rcm_init_test(request, &comm) == RCM_PENDING, "%s", rcm_last_error());
    rcm_init_cancel(request);
    rcm_store_close(store);
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: cancellation TRANSPORT\n");
        return 2;
    }
    canceled =
        mmap(NULL, sizeof *canceled, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (canceled == MAP_FAILED)
        return 2;
    const struct ranks ranks = {.n = 2, .transport = argv[1], .timeout_ms = 8000};
    return ranks_run(&ranks, check, NULL) || check_init() ? 1 : 0;
}
