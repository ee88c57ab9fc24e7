/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_call.error: a call that fails without a work fills it. Other calls leave it unchanged.
 *
 *     call_error TRANSPORT RANKS
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include "../works/works.h"

enum { TAG = 7, NOWHERE = 99 };

static char byte, bytes[64];
static size_t counts[16];

/* ---- Rejected calls -------------------------------------------------------------------------- */

#define REFUSED(name, expression)                                                                  \
    static rcm_status name(rcm_comm *comm, const struct rcm_call *call) {                          \
        rcm_work *work = NULL;                                                                     \
        rcm_comm *made = NULL;                                                                     \
        struct rcm_bytes *got = NULL;                                                              \
        (void)work, (void)made, (void)got;                                                         \
        return expression;                                                                         \
    }

REFUSED(all_reduce, rcm_all_reduce(comm, bytes, bytes, 1, (rcm_dtype)77, RCM_SUM, call, NULL))
REFUSED(broadcast, rcm_broadcast(comm, bytes, 1, RCM_UINT8, NOWHERE, call, &work))
REFUSED(reduce, rcm_reduce(comm, NULL, bytes, 1, RCM_UINT8, RCM_SUM, 0, call, NULL))
REFUSED(all_gather, rcm_all_gather(comm, bytes, NULL, 1, RCM_UINT8, call, NULL))
REFUSED(monitored_barrier, rcm_monitored_barrier(comm, 64, call, NULL))
REFUSED(all_gather_v, rcm_all_gather_v(comm, NULL, 1, bytes, counts, NULL, RCM_UINT8, call, NULL))
REFUSED(coalesced, rcm_coalesced(comm, RCM_ALL_REDUCE, NULL, 1, RCM_SUM, 0, call, &work))
REFUSED(send, rcm_send(comm, &byte, 1, RCM_UINT8, NOWHERE, TAG, call, NULL))
REFUSED(ssend, rcm_ssend(comm, NULL, 1, RCM_UINT8, 0, TAG, call, NULL))
REFUSED(recv, rcm_recv(comm, &byte, 1, (rcm_dtype)77, 0, TAG, call, &work))
REFUSED(mrecv, rcm_mrecv(comm, NULL, &byte, 1, RCM_UINT8, call, NULL))
REFUSED(probe, rcm_probe(comm, NOWHERE, TAG, call, NULL))
REFUSED(mprobe, rcm_mprobe(comm, 0, TAG, call, NULL, NULL))
REFUSED(sendrecv,
        rcm_sendrecv(comm, &byte, 1, NOWHERE, TAG, &byte, 1, 0, TAG, RCM_UINT8, call, NULL))
REFUSED(batch, rcm_batch(comm, NULL, 1, call, &work))
REFUSED(broadcast_bytes, rcm_broadcast_bytes(comm, bytes, 1, NOWHERE, &got, call, NULL))
REFUSED(scatter_bytes, rcm_scatter_bytes(comm, NULL, NULL, NOWHERE, &got, call, NULL))
REFUSED(gather_bytes, rcm_gather_bytes(comm, NULL, 1, 0, &got, call, NULL))
REFUSED(all_gather_bytes, rcm_all_gather_bytes(comm, bytes, 1, NULL, call, NULL))
REFUSED(subset, rcm_comm_subset(comm, NULL, 0, TAG, call, &made))
REFUSED(split, rcm_comm_split(comm, 0, 0, call, NULL))
REFUSED(split_hosts, rcm_comm_split_hosts(comm, call, NULL))
REFUSED(duplicate, rcm_comm_duplicate(comm, call, NULL))
REFUSED(comm_shrink, rcm_comm_shrink(comm, call, NULL))

static const struct refused {
    const char *name;
    rcm_status (*call)(rcm_comm *comm, const struct rcm_call *call);
} refused[] = {
#define ROW(name)                                                                                  \
    { #name, name }
    ROW(all_reduce),
    ROW(broadcast),
    ROW(reduce),
    ROW(all_gather),
    ROW(monitored_barrier),
    ROW(all_gather_v),
    ROW(coalesced),
    ROW(send),
    ROW(ssend),
    ROW(recv),
    ROW(mrecv),
    ROW(probe),
    ROW(mprobe),
    ROW(sendrecv),
    ROW(batch),
    ROW(broadcast_bytes),
    ROW(scatter_bytes),
    ROW(gather_bytes),
    ROW(all_gather_bytes),
    ROW(subset),
    ROW(split),
    ROW(split_hosts),
    ROW(duplicate),
    ROW(comm_shrink),
};
enum { REFUSALS = sizeof refused / sizeof refused[0] };

/* The text is that of rcm_last_error, and it stays when the thread's error changes. */
static int check_refused(rcm_comm *comm, const struct refused *r) {
    struct rcm_error error = RCM_ERROR_INIT;
    const struct rcm_call call = {.size = sizeof call, .error = &error};
    int errors = 0;
    error.status = RCM_ERR_INTERNAL;
    error.origin = NOWHERE;
    const rcm_status status = r->call(comm, &call);
    CHECK(errors, status == RCM_ERR_INVALID && error.status == status, "%s: %s, in the error %s",
          r->name, rcm_status_name(status), rcm_status_name(error.status));
    CHECK(errors, error.text[0] && strcmp(error.text, rcm_last_error()) == 0,
          "%s: \"%s\", not \"%s\"", r->name, error.text, rcm_last_error());
    CHECK(errors, error.origin == -1 && error.sequence == 0 && !error.operation[0],
          "%s: origin %d, sequence %llu, \"%s\"", r->name, error.origin,
          (unsigned long long)error.sequence, error.operation);
    CHECK(errors, r->call(comm, NULL) == RCM_ERR_INVALID, "%s without a call", r->name);
    return errors;
}

/* ---- Struct sizes ---------------------------------------------------------------------------- */

static int check_sizes(rcm_comm *comm) {
    struct {
        struct rcm_error error;
        uint64_t unknown;
    } newer = {.error = RCM_ERROR_INIT, .unknown = 5};
    struct rcm_error untouched = {.size = 3, .origin = NOWHERE};
    struct rcm_call call = {.size = sizeof call, .error = &untouched};
    int errors = 0;
    CHECK_REFUSED(errors, rcm_barrier(comm, &call, NULL), "call->error->size is 3");
    CHECK_REFUSED(errors, rcm_broadcast(comm, bytes, 1, RCM_UINT8, NOWHERE, &call, NULL),
                  "root 99");
    CHECK(errors, untouched.origin == NOWHERE, "an error struct of a wrong size was written");
    newer.error.size = sizeof newer;
    call.error = &newer.error;
    CHECK_REFUSED(errors, rcm_broadcast(comm, bytes, 1, RCM_UINT8, NOWHERE, &call, NULL),
                  "root 99");
    CHECK(errors, newer.error.status == RCM_ERR_INVALID && newer.unknown == 0,
          "a larger error: %d, %d", (int)newer.error.status, (int)newer.unknown);
    call.size = offsetof(struct rcm_call, error); /* of a program built with an older header */
    call.error = (struct rcm_error *)1;
    CHECK_REFUSED(errors, rcm_broadcast(comm, bytes, 1, RCM_UINT8, NOWHERE, &call, NULL),
                  "root 99");
    CHECK_OK(errors, rcm_barrier(comm, &call, NULL));
    return errors;
}

/* ---- Not written ----------------------------------------------------------------------------- */

static int check_not_written(rcm_comm *comm) {
    const int me = rcm_rank(comm);
    struct rcm_error error = {.size = sizeof error, .origin = NOWHERE};
    const struct rcm_call call = {.size = sizeof call, .error = &error};
    rcm_work *work = NULL;
    int errors = 0;
    CHECK_OK(errors, rcm_barrier(comm, &call, NULL));
    CHECK_OK(errors, rcm_recv(comm, &byte, 1, RCM_UINT8, me, TAG, &call, &work));
    CHECK_OK(errors, rcm_send(comm, bytes, 2, RCM_UINT8, me, TAG, &call, NULL));
    CHECK(errors, rcm_work_wait(work, -1) == RCM_ERR_TRUNCATED, "the work: %s", rcm_last_error());
    CHECK(errors, error.origin == NOWHERE && error.status == RCM_OK,
          "a call that returned a work wrote the error");
    rcm_work_free(work);
    CHECK_OK(errors, rcm_send(comm, bytes, 2, RCM_UINT8, me, TAG, &call, NULL));
    CHECK(errors, rcm_recv(comm, &byte, 1, RCM_UINT8, me, TAG, &call, NULL) == RCM_ERR_TRUNCATED,
          "the call: %s", rcm_last_error());
    CHECK(errors, error.status == RCM_ERR_TRUNCATED && strcmp(error.text, rcm_last_error()) == 0,
          "blocking: %d, \"%s\"", (int)error.status, error.text);
    return errors;
}

/* ---- A failed communicator ------------------------------------------------------------------- */

/* Origin, operation and sequence are those of the communicator's error. */
static int check_failed(rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT, of_comm = RCM_ERROR_INIT;
    const struct rcm_call call = {.size = sizeof call, .timeout_ms = 200, .error = &error};
    int errors = 0;
    rcm_status status = rcm_recv(comm, &byte, 1, RCM_UINT8, rcm_rank(comm), TAG, &call, NULL);
    for (int i = 0; i < 2; i++) {
        const rcm_status kept = rcm_comm_error(comm, &of_comm);
        CHECK(errors, status == RCM_ERR_TIMEOUT && error.status == status && kept == status,
              "%s, %s, %s", rcm_status_name(status), rcm_status_name(error.status),
              rcm_status_name(kept));
        CHECK(errors,
              error.origin == of_comm.origin && error.sequence == of_comm.sequence &&
                  strcmp(error.operation, of_comm.operation) == 0 && error.operation[0],
              "origin %d, \"%s\"", error.origin, error.operation);
        error = (struct rcm_error)RCM_ERROR_INIT;
        status = rcm_barrier(comm, &call, NULL); /* later calls return the same error */
    }
    return errors;
}

static int rank_run(rcm_comm *world, void *arg) {
    rcm_comm *comm = NULL;
    int errors = 0;
    (void)arg;
    CHECK_OK(errors, rcm_comm_duplicate(world, NULL, &comm));
    for (int i = 0; i < REFUSALS && errors == 0; i++)
        errors += check_refused(comm, &refused[i]);
    errors += check_refused(NULL, &refused[0]) + check_sizes(comm) + check_not_written(comm);
    errors += check_failed(comm);
    (void)!rcm_destroy(comm);
    return errors;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const struct ranks ranks = {.n = atoi(argv[2]), .transport = argv[1], .timeout_ms = 30000};
    return ranks_run(&ranks, rank_run, NULL) != 0;
}
