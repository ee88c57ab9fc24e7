/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators created and destroyed in the background: requests, their test, wait and cancel;
 * what the other ranks get; and the calls that a callback must not make.
 *
 *     creation TRANSPORT RANKS
 */
#include "../ranks.h"
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 40, LATE_MS = 300, LONG_MS = 20000 };

static bool error_has(const char *words) {
    return strstr(rcm_last_error(), words) != NULL;
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(int ms) {
    (void)poll(NULL, 0, ms);
}

/* ---- Functions ------------------------------------------------------------------------------- */

enum kind { SUBSET, SPLIT, HOSTS, DUPLICATE, KINDS };
static const char *const names[KINDS] = {"rcm_comm_subset", "rcm_comm_split",
                                         "rcm_comm_split_hosts", "rcm_comm_duplicate"};
static int all[64];

static rcm_status begin(rcm_comm *comm, enum kind kind, const struct rcm_call *call,
                        rcm_comm_request **ret_request) {
    switch (kind) {
    case SUBSET:
        return rcm_comm_subset_begin(comm, all, rcm_size(comm), TAG, call, ret_request);
    case SPLIT:
        return rcm_comm_split_begin(comm, 1, 0, call, ret_request);
    case HOSTS:
        return rcm_comm_split_hosts_begin(comm, call, ret_request);
    default:
        return rcm_comm_duplicate_begin(comm, call, ret_request);
    }
}

static rcm_status make(rcm_comm *comm, enum kind kind, const struct rcm_call *call,
                       rcm_comm **ret_comm) {
    switch (kind) {
    case SUBSET:
        return rcm_comm_subset(comm, all, rcm_size(comm), TAG, call, ret_comm);
    case SPLIT:
        return rcm_comm_split(comm, 1, 0, call, ret_comm);
    case HOSTS:
        return rcm_comm_split_hosts(comm, call, ret_comm);
    default:
        return rcm_comm_duplicate(comm, call, ret_comm);
    }
}

/* Uses the communicator: a sum over all its ranks. */
static int use(rcm_comm *comm) {
    int32_t sum = 1;
    int errors = 0;
    CHECK(errors, rcm_all_reduce(comm, &sum, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, sum == rcm_size(comm), "the sum is %d of %d", sum, rcm_size(comm));
    return errors;
}

static int end(rcm_comm *comm) {
    int errors = 0;
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* ---- Created --------------------------------------------------------------------------------- */

/* Odd ranks use the blocking call. Meanwhile a collective of the parent is issued. */
static int check_made(rcm_comm *comm, enum kind kind) {
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL;
    rcm_work *work = NULL;
    int32_t one = 1, sum = 0;
    int errors = 0;
    if (rcm_rank(comm) % 2 == 1) {
        CHECK(errors, make(comm, kind, NULL, &made) == RCM_OK, "%s: %s", names[kind],
              rcm_last_error());
        CHECK(errors, rcm_all_reduce(comm, &one, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
    } else {
        CHECK(errors, begin(comm, kind, NULL, &request) == RCM_OK, "%s: %s", names[kind],
              rcm_last_error());
        CHECK(errors,
              rcm_all_reduce(comm, &one, &sum, 1, RCM_INT32, RCM_SUM, NULL, &work) == RCM_OK, "%s",
              rcm_last_error());
        CHECK(errors, rcm_comm_request_wait(request, -1, &made) == RCM_OK, "%s: %s", names[kind],
              rcm_last_error());
        CHECK(errors,
              rcm_comm_request_wait(request, 0, &made) == RCM_ERR_INVALID && error_has("taken"),
              "taken twice: %s", rcm_last_error());
        CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(work);
        rcm_comm_request_cancel(request);
    }
    CHECK(errors, sum == rcm_size(comm), "the sum is %d", sum);
    return errors ? errors : use(made) + end(made);
}

/* Waits in slices until the other ranks call. */
static int check_slices(rcm_comm *comm, enum kind kind) {
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL;
    int errors = 0, slices = 0;
    rcm_status status;
    if (rcm_rank(comm) != 0)
        pause_ms(LATE_MS);
    CHECK(errors, begin(comm, kind, NULL, &request) == RCM_OK, "%s", rcm_last_error());
    while ((status = rcm_comm_request_wait(request, 20, &made)) == RCM_PENDING)
        slices++;
    CHECK(errors, status == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, slices > 0 || rcm_rank(comm) != 0 || rcm_size(comm) == 1, "no wait timed out");
    rcm_comm_request_cancel(request);
    return errors ? errors : use(made) + end(made);
}

static int check_arguments(rcm_comm *comm) {
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL;
    const int twice[] = {0, 0}, outside[] = {rcm_size(comm)};
    int errors = 0;
    CHECK(errors,
          rcm_comm_duplicate_begin(comm, NULL, NULL) == RCM_ERR_INVALID && error_has("ret_request"),
          "%s", rcm_last_error());
    CHECK(errors,
          rcm_comm_subset_begin(comm, outside, 1, 0, NULL, &request) == RCM_ERR_INVALID &&
              error_has("ranks[0]"),
          "%s", rcm_last_error());
    CHECK(errors, rcm_comm_subset_begin(comm, twice, 2, 0, NULL, &request) == RCM_ERR_INVALID, "%s",
          rcm_last_error());
    CHECK(errors,
          rcm_comm_shrink_begin(NULL, NULL, &request) == RCM_ERR_INVALID && error_has("comm"), "%s",
          rcm_last_error());
    CHECK(errors, rcm_comm_request_test(NULL, &made) == RCM_ERR_INVALID && error_has("request"),
          "%s", rcm_last_error());
    CHECK(errors, !request, "a failed call returned a request");
    rcm_comm_request_cancel(NULL);
    CHECK(errors,
          rcm_destroy_begin(NULL, &request) == RCM_OK &&
              rcm_comm_request_test(request, NULL) == RCM_OK,
          "%s", rcm_last_error());
    rcm_comm_request_cancel(request);
    return errors;
}

/* On a rank that is not a member the request is complete at once. */
static int check_absent(rcm_comm *comm) {
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL;
    const int first[] = {0};
    int errors = 0;
    CHECK(errors, rcm_comm_subset_begin(comm, first, 1, 3, NULL, &request) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_comm_request_wait(request, -1, &made) == RCM_OK, "%s", rcm_last_error());
    rcm_comm_request_cancel(request);
    CHECK(errors, rcm_rank(made) == (rcm_rank(comm) == 0 ? 0 : -1), "rank %d", rcm_rank(made));
    return errors + end(made);
}

/* ---- Canceled -------------------------------------------------------------------------------- */

/* When the rank cancels, and when the other ranks call. */
enum when { BEFORE_OTHERS, AFTER_OTHERS, ALL_CANCEL, WHENS };

static int wait_canceled(rcm_comm *comm, enum kind kind, int rank) {
    const struct rcm_call call = {.size = sizeof call, .timeout_ms = LONG_MS};
    char who[32];
    rcm_comm *made = NULL;
    int errors = 0;
    rcm_status status = make(comm, kind, &call, &made);
    if (status == RCM_OK) { /* too late to cancel */
        status = rcm_barrier(made, NULL, NULL);
        const rcm_status ended = rcm_destroy(made);
        CHECK(errors, ended == RCM_ERR_CANCELED, "destroy: %s", rcm_last_error());
    }
    snprintf(who, sizeof who, "rank %d", rank);
    CHECK(errors,
          status == RCM_ERR_CANCELED && error_has(who) && error_has("canceled") &&
              error_has(names[kind]),
          "%s, which rank %d canceled: %s: %s", names[kind], rank, rcm_status_name(status),
          rcm_last_error());
    return errors;
}

static int cancel_own(rcm_comm *comm, enum kind kind, int after_ms) {
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL;
    int errors = 0;
    CHECK(errors, begin(comm, kind, NULL, &request) == RCM_OK, "%s", rcm_last_error());
    pause_ms(after_ms);
    if (after_ms > 0 && rcm_size(comm) > 1)
        CHECK(errors, rcm_comm_request_test(request, &made) != RCM_OK,
              "a communicator was created");
    const int64_t begun = now_ms();
    rcm_comm_request_cancel(request);
    CHECK(errors, now_ms() - begun < 5000, "cancel took %lld ms", (long long)(now_ms() - begun));
    return errors;
}

/* One rank cancels before it has called, so nothing is created. Then all ranks go on with a sum and
 * the same creation. */
static int check_cancel(rcm_comm *comm, enum kind kind, int rank, enum when when) {
    rcm_comm *made = NULL;
    int errors = 0;
    const bool cancels = rcm_rank(comm) == rank || when == ALL_CANCEL;
    const int laggard = rank == 0 ? rcm_size(comm) - 1 : 0;
    if (when == BEFORE_OTHERS && !cancels)
        pause_ms(LATE_MS);
    if (when != BEFORE_OTHERS && !cancels && rcm_rank(comm) == laggard)
        pause_ms(LATE_MS);
    if (when == ALL_CANCEL && rcm_rank(comm) != 0)
        pause_ms(10 * rcm_rank(comm));
    errors += cancels ? cancel_own(comm, kind, when == AFTER_OTHERS ? LATE_MS / 3 : 0)
                      : wait_canceled(comm, kind, rank);
    errors += use(comm);
    if (when == ALL_CANCEL) /* what some created before others canceled has ended by now */
        errors += use(comm);
    const rcm_status status = make(comm, kind, NULL, &made);
    CHECK(errors, status == RCM_OK, "again: %s", rcm_last_error());
    return errors ? errors : use(made) + end(made);
}

/* The canceling rank begins the next creations at once. The others follow later, in order. */
static int check_cancel_twice(rcm_comm *comm, int rank) {
    rcm_comm *made = NULL;
    int errors = 0;
    const bool cancels = rcm_rank(comm) == rank;
    if (!cancels)
        pause_ms(LATE_MS / 2);
    for (int i = 0; i < 2; i++)
        errors += cancels ? cancel_own(comm, SUBSET, 0) : wait_canceled(comm, SUBSET, rank);
    CHECK(errors, make(comm, SUBSET, NULL, &made) == RCM_OK, "third: %s", rcm_last_error());
    return errors ? errors : use(made) + end(made);
}

static int check_deadline(rcm_comm *comm, enum kind kind) {
    const struct rcm_call call = {.size = sizeof call, .timeout_ms = LATE_MS};
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL;
    int errors = 0;
    if (rcm_rank(comm) != 0) {
        CHECK(errors, begin(comm, kind, &call, &request) == RCM_OK, "%s", rcm_last_error());
        CHECK(errors,
              rcm_comm_request_wait(request, -1, &made) == RCM_ERR_TIMEOUT && error_has("rank 0"),
              "%s", rcm_last_error());
        rcm_comm_request_cancel(request);
    }
    return errors + use(comm);
}

static int check_kinds(rcm_comm *comm) {
    const int last = rcm_size(comm) - 1;
    int errors = 0;
    for (enum kind kind = SUBSET; kind < KINDS && errors == 0; kind++) {
        errors += check_made(comm, kind);
        errors += check_slices(comm, kind);
        for (enum when when = BEFORE_OTHERS; when < WHENS && errors == 0; when++) {
            errors += check_cancel(comm, kind, 0, when);
            if (when != ALL_CANCEL)
                errors += check_cancel(comm, kind, last, when);
            CHECK(errors, errors == 0, "%s canceled, case %d", names[kind], (int)when);
        }
    }
    return errors;
}

/* ---- Destroyed ------------------------------------------------------------------------------- */

/* With a receive in flight whose message arrives later. */
static int check_destroy_begin(rcm_comm *comm) {
    const int rank = rcm_rank(comm), next = (rank + 1) % rcm_size(comm);
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL;
    rcm_work *work = NULL;
    char sent = 7, got = 0;
    int errors = 0;
    CHECK(errors, rcm_comm_duplicate(comm, NULL, &made) == RCM_OK, "%s", rcm_last_error());
    if (rank == 0) {
        CHECK(errors, rcm_irecv(made, &got, 1, RCM_UINT8, RCM_ANY_SOURCE, 1, &work) == RCM_OK, "%s",
              rcm_last_error());
    } else if (next == 0) {
        pause_ms(LATE_MS);
        CHECK(errors, rcm_send(made, &sent, 1, RCM_UINT8, 0, 1, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    }
    CHECK(errors, rcm_destroy_begin(made, &request) == RCM_OK, "%s", rcm_last_error());
    errors += use(comm);
    CHECK(errors, rcm_comm_request_wait(request, -1, NULL) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_comm_request_test(request, NULL) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, !work || (rcm_work_status(work) == RCM_OK && got == sent), "got %d", got);
    rcm_work_free(work);
    rcm_comm_request_cancel(request);
    return errors;
}

/* One rank cancels a destroy in which the others do not take part. */
static int check_destroy_cancel(rcm_comm *comm) {
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL;
    int errors = 0;
    CHECK(errors, rcm_comm_duplicate(comm, NULL, &made) == RCM_OK, "%s", rcm_last_error());
    errors += use(made);
    if (rcm_rank(comm) == 0) {
        CHECK(errors, rcm_destroy_begin(made, &request) == RCM_OK, "%s", rcm_last_error());
        CHECK(errors, rcm_comm_request_wait(request, LATE_MS / 3, NULL) == RCM_PENDING, "%s",
              rcm_last_error());
        rcm_comm_request_cancel(request);
    } else {
        char byte;
        CHECK(errors,
              rcm_recv(made, &byte, 1, RCM_UINT8, 0, 9, NULL, NULL) == RCM_ERR_CANCELED &&
                  error_has("rank 0") && error_has("rcm_destroy"),
              "%s", rcm_last_error());
        CHECK(errors, rcm_destroy(made) == RCM_ERR_CANCELED, "%s", rcm_last_error());
    }
    return errors + use(comm);
}

/* ---- Probes ---------------------------------------------------------------------------------- */

static int check_probes(rcm_comm *comm) {
    const struct rcm_call slice = {.size = sizeof slice, .wait_ms = 20};
    struct rcm_message message = RCM_MESSAGE_INIT;
    rcm_matched *matched = NULL;
    char byte = 5;
    int errors = 0, slices = 0, fd;
    rcm_status status;
    rcm_work *none;
    CHECK(errors, rcm_comm_completions(comm, &fd) == RCM_OK, "%s", rcm_last_error());
    if (rcm_rank(comm) == 1) {
        pause_ms(LATE_MS);
        for (int i = 0; i < 2; i++)
            CHECK(errors, rcm_send(comm, &byte, 1, RCM_UINT8, 0, 70, NULL, NULL) == RCM_OK, "%s",
                  rcm_last_error());
    }
    if (rcm_rank(comm) == 0 && rcm_size(comm) > 1) {
        while ((status = rcm_probe(comm, 1, 70, &slice, &message)) == RCM_PENDING)
            slices++;
        CHECK(errors, status == RCM_OK && message.bytes == 1 && message.source == 1, "%s",
              rcm_last_error());
        CHECK(errors, slices > 0, "no wait timed out");
        while ((status = rcm_mprobe(comm, RCM_ANY_SOURCE, 70, &slice, &message, &matched)) ==
               RCM_PENDING)
            continue;
        CHECK(errors, status == RCM_OK && matched, "%s", rcm_last_error());
        CHECK(errors,
              rcm_mrecv(comm, matched, &byte, 1, RCM_UINT8, NULL, NULL) == RCM_OK &&
                  rcm_recv(comm, &byte, 1, RCM_UINT8, 1, 70, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
        matched = NULL;
        CHECK(errors,
              rcm_mprobe(comm, 1, 71, &slice, &message, &matched) == RCM_PENDING && !matched &&
                  rcm_probe(comm, 99, 71, &slice, &message) == RCM_ERR_INVALID,
              "%s", rcm_last_error());
        CHECK(errors, rcm_comm_next_completion(comm, &none) == RCM_AGAIN,
              "a probe completed the creation");
    }
    return errors + use(comm);
}

/* ---- In a callback --------------------------------------------------------------------------- */

struct refusal {
    rcm_comm *comm;
    int errors;
    rcm_comm_request *request;
    _Atomic bool done;
};

static void refused(int *errors, rcm_status status, const char *what) {
    CHECK(*errors, status == RCM_ERR_INVALID, "%s in a callback: %s", what,
          rcm_status_name(status));
}

static void try_all(void *arg, rcm_status completed) {
    struct refusal *r = arg;
    rcm_comm *made = NULL;
    char byte = 0, gathered[64];
    int *errors = &r->errors;
    (void)completed;
    for (enum kind kind = SUBSET; kind < KINDS; kind++)
        refused(errors, make(r->comm, kind, NULL, &made), names[kind]);
    refused(errors, rcm_comm_shrink(r->comm, NULL, &made), "shrink");
    refused(errors, rcm_destroy(r->comm), "destroy");
    refused(errors, rcm_leave(r->comm), "leave");
    refused(errors, rcm_barrier(r->comm, NULL, NULL), "barrier");
    refused(errors, rcm_monitored_barrier(r->comm, 0, NULL, NULL), "monitored_barrier");
    refused(errors, rcm_broadcast(r->comm, &byte, 1, RCM_UINT8, 0, NULL, NULL), "broadcast");
    refused(errors, rcm_all_gather(r->comm, &byte, gathered, 1, RCM_UINT8, NULL, NULL), "gather");
    refused(errors, rcm_send(r->comm, &byte, 1, RCM_UINT8, 0, 1, NULL, NULL), "send");
    refused(errors, rcm_recv(r->comm, &byte, 1, RCM_UINT8, 0, 1, NULL, NULL), "recv");
    refused(errors, rcm_sendrecv(r->comm, &byte, 1, 0, 1, &byte, 1, 0, 1, RCM_UINT8, NULL, NULL),
            "sendrecv");
    refused(errors, rcm_probe(r->comm, 0, 1, NULL, NULL), "probe");
    refused(errors, rcm_comm_prepare(r->comm, RCM_BARRIER, 0, 0, NULL), "prepare");
    refused(errors, rcm_comm_request_wait(r->request, 10, &made), "wait");
    refused(errors, rcm_init(NULL, &made), "rcm_init");
    atomic_store(&r->done, true);
}

static int check_callback(rcm_comm *comm) {
    struct refusal r = {.comm = comm};
    rcm_work *work = NULL;
    rcm_comm *made = NULL;
    char byte = 3;
    int errors = 0;
    CHECK(errors, rcm_comm_duplicate_begin(comm, NULL, &r.request) == RCM_OK, "%s",
          rcm_last_error());
    /* A message to the own rank, sent later, so that the callback runs on the library's thread. */
    CHECK(errors,
          rcm_irecv(comm, &byte, 1, RCM_UINT8, rcm_rank(comm), 5, &work) == RCM_OK &&
              rcm_work_on_complete(work, try_all, &r) == RCM_OK &&
              rcm_send(comm, &byte, 1, RCM_UINT8, rcm_rank(comm), 5, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
    rcm_work_free(work);
    while (!atomic_load(&r.done))
        pause_ms(1);
    CHECK(errors, rcm_comm_request_wait(r.request, -1, &made) == RCM_OK, "%s", rcm_last_error());
    rcm_comm_request_cancel(r.request);
    errors += r.errors + use(comm);
    return errors ? errors : use(made) + end(made);
}

/* ---- Shrink ---------------------------------------------------------------------------------- */

/* The last rank, or rank 0, cancels. Then all ranks call again. */
static int check_shrink(rcm_comm *comm, int rank, bool before) {
    rcm_comm_request *request = NULL;
    rcm_comm *made = NULL, *rest = NULL;
    const bool cancels = rcm_rank(comm) == rank;
    char who[32];
    int errors = 0;
    snprintf(who, sizeof who, "rank %d", rank);
    CHECK(errors, rcm_comm_duplicate(comm, NULL, &made) == RCM_OK, "%s", rcm_last_error());
    if (cancels != before)
        pause_ms(LATE_MS / 2);
    CHECK(errors, rcm_comm_shrink_begin(made, NULL, &request) == RCM_OK, "%s", rcm_last_error());
    if (cancels) {
        rcm_comm_request_cancel(request);
    } else {
        rcm_status status = rcm_comm_request_wait(request, LONG_MS, &rest);
        if (status == RCM_OK) { /* too late to cancel */
            status = rcm_barrier(rest, NULL, NULL);
            const rcm_status ended = rcm_destroy(rest);
            CHECK(errors, ended == status, "%s", rcm_status_name(ended));
        }
        CHECK(errors, status == RCM_ERR_CANCELED && error_has(who), "shrink: %s: %s",
              rcm_status_name(status), rcm_last_error());
        rcm_comm_request_cancel(request);
    }
    CHECK(errors, rcm_comm_shrink(made, NULL, &rest) == RCM_OK, "again: %s", rcm_last_error());
    if (errors)
        return errors;
    errors += use(rest) + end(rest);
    (void)!rcm_destroy(made);
    return errors;
}

static int run_all(rcm_comm *comm, void *arg) {
    const int last = rcm_size(comm) - 1;
    int errors = 0;
    (void)arg;
    for (int r = 0; r < rcm_size(comm); r++)
        all[r] = r;
    errors += check_arguments(comm) + check_absent(comm);
    errors += errors ? 0 : check_kinds(comm);
    errors += errors ? 0 : check_cancel_twice(comm, 0) + check_cancel_twice(comm, last);
    errors += errors ? 0 : check_deadline(comm, SUBSET);
    errors += errors ? 0 : check_destroy_begin(comm) + check_destroy_cancel(comm);
    errors += errors ? 0 : check_probes(comm);
    errors += errors ? 0 : check_callback(comm);
    for (int before = 0; before < 2 && errors == 0; before++)
        errors += check_shrink(comm, 0, before) + check_shrink(comm, last, before);
    return errors;
}

int main(int argc, char **argv) {
    struct ranks ranks = {.timeout_ms = LONG_MS};
    if (argc != 3)
        return 2;
    ranks.transport = argv[1];
    ranks.n = atoi(argv[2]);
    alarm(100);
    return ranks_run(&ranks, run_all, NULL) == 0 ? 0 : 1;
}
