/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of several stages (api/work/work.h), inside the library: ranks gather their sizes,
 * then the data, each block as long as the longest, then compute a sum.
 *
 *     stages shm|tcp processes|threads N
 */
#include "../ranks.h"
#include "request.h"
#include "work.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 30, RANKS_MAX = 8, BYTES_MAX = 100000 };

/* The failure after the sizes are known, on rank 1 or on all ranks. */
enum trouble { NO_TROUBLE, OTHER_COUNT, NO_MEMORY, UNSUPPORTED, NO_FURTHER };

struct gather {
    struct rcmi_stages stages; /* first */
    enum trouble trouble;
    bool unmarked; /* does not mark its last stage */
    int rank, n, stage;
    int64_t size, sizes[RANKS_MAX], total;
    size_t most;
    uint8_t *mine, *all;
    int ends;
    rcm_status status;
};

static uint8_t pattern(int rank, size_t i) {
    return (uint8_t)((size_t)rank * 37 + i * 11 + i / 251);
}

static rcm_status bind_data(struct gather *g, rcm_comm *comm, struct rcmi_bind *ret_bind) {
    for (int r = 0; r < g->n; r++)
        g->most = (size_t)g->sizes[r] > g->most ? (size_t)g->sizes[r] : g->most;
    g->mine = calloc(g->most + 1, 1);
    g->all = calloc((size_t)g->n * g->most + 1, 1);
    for (size_t i = 0; i < (size_t)g->size; i++)
        g->mine[i] = pattern(g->rank, i);
    const bool other = g->trouble == OTHER_COUNT && g->rank == 1 && g->most > 0;
    const struct rcmi_request request = {.collective = RCM_ALL_GATHER,
                                         .in = g->mine,
                                         .out = g->all,
                                         .count = g->most - other,
                                         .dtype = RCM_UINT8,
                                         .op = RCM_SUM};
    const rcm_status status = rcmi_request_stage(comm, &request, ret_bind);
    return status == RCM_OK ? RCM_AGAIN : status;
}

static rcm_status bind_total(struct gather *g, rcm_comm *comm, struct rcmi_bind *ret_bind) {
    const struct rcmi_request request = {.collective = RCM_ALL_REDUCE,
                                         .in = &g->size,
                                         .out = &g->total,
                                         .count = 1,
                                         .dtype = RCM_INT64,
                                         .op = RCM_SUM};
    const rcm_status status = rcmi_request_stage(comm, &request, ret_bind);
    return status == RCM_OK ? RCM_AGAIN : status;
}

static rcm_status gather_next(struct rcmi_stages *stages, rcm_comm *comm,
                              struct rcmi_bind *ret_bind, bool *ret_last) {
    struct gather *g = (struct gather *)stages;
    g->stage++;
    if (g->stage == 1 && g->trouble == NO_MEMORY && g->rank == 1)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the result");
    if (g->stage == 1 && g->trouble == UNSUPPORTED)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "too much");
    if (g->stage == 1 && g->trouble == NO_FURTHER && g->rank == 1)
        return RCM_OK;
    if (g->stage == 1)
        return bind_data(g, comm, ret_bind);
    if (g->stage == 3)
        return RCM_OK;
    *ret_last = !g->unmarked;
    return bind_total(g, comm, ret_bind);
}

static void gather_end(struct rcmi_stages *stages, rcm_status status) {
    struct gather *g = (struct gather *)stages;
    g->ends++;
    g->status = status;
}

static struct gather *gather_new(const rcm_comm *comm, enum trouble trouble, size_t size) {
    struct gather *g = calloc(1, sizeof(*g));
    if (!g)
        abort();
    g->stages = (struct rcmi_stages){.next = gather_next, .end = gather_end};
    g->trouble = trouble;
    g->rank = rcm_rank(comm);
    g->n = rcm_size(comm);
    g->size = (int64_t)size;
    return g;
}

static rcm_status gather_call(rcm_comm *comm, struct gather *g, rcm_dtype dtype,
                              const struct rcm_call *call, rcm_work **ret_work) {
    struct rcmi_request request = {.collective = RCM_ALL_GATHER,
                                   .in = &g->size,
                                   .out = g->sizes,
                                   .count = 1,
                                   .dtype = dtype,
                                   .op = RCM_SUM,
                                   .call = call,
                                   .stages = &g->stages};
    return rcmi_request_call(comm, &request, ret_work);
}

static void gather_free(struct gather *g) {
    free(g->mine);
    free(g->all);
    free(g);
}

/* It succeeded with the ranks' data. */
static int gather_check(const struct gather *g, int64_t total) {
    int errors = 0;
    size_t wrong = 0;
    CHECK(errors, g->ends == 1 && g->status == RCM_OK, "it ended %d times, with %s", g->ends,
          rcm_status_name(g->status));
    for (int r = 0; r < g->n && errors == 0; r++)
        for (size_t i = 0; i < (size_t)g->sizes[r]; i++)
            wrong += g->all[(size_t)r * g->most + i] != pattern(r, i);
    CHECK(errors, wrong == 0 && g->total == total, "%zu bytes are wrong, the total is %lld", wrong,
          (long long)g->total);
    return errors;
}

static size_t size_of(int rank, int round) {
    static const size_t sizes[] = {0, 1, 17, 4096, 50001, BYTES_MAX};
    return sizes[(size_t)(rank * 5 + round) % (sizeof(sizes) / sizeof(sizes[0]))];
}

/* ---- Among other collectives ----------------------------------------------------------------- */

/* Each round: a collective with stages, then two without. */
struct rounds {
    struct gather *gather;
    rcm_work *works[3];
    int32_t sum, root;
};

static void round_issue(rcm_comm *comm, int k, struct rounds *round, int *errors) {
    const int me = rcm_rank(comm), n = rcm_size(comm);
    round->gather = gather_new(comm, NO_TROUBLE, size_of(me, k));
    round->gather->unmarked = k % 3 == 0;
    round->sum = me + k;
    round->root = me == k % n ? k : -1;
    if (k % 7 == 3)
        usleep((useconds_t)(me * 500));
    const bool blocking = k % 5 == 4;
    CHECK(*errors,
          gather_call(comm, round->gather, RCM_INT64, NULL, blocking ? NULL : &round->works[0]) ==
                  RCM_OK &&
              rcm_all_reduce(comm, &round->sum, &round->sum, 1, RCM_INT32, RCM_SUM, NULL,
                             &round->works[1]) == RCM_OK &&
              rcm_broadcast(comm, &round->root, 1, RCM_INT32, k % n, NULL, &round->works[2]) ==
                  RCM_OK,
          "round %d: %s", k, rcm_last_error());
    if (k % 10 == 9)
        CHECK(*errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
}

static void round_finish(const rcm_comm *comm, int k, struct rounds *round, int *errors) {
    const int n = rcm_size(comm);
    int64_t total = 0;
    for (int i = 0; i < 3; i++) {
        CHECK(*errors, !round->works[i] || rcm_work_wait(round->works[i], -1) == RCM_OK,
              "round %d, work %d: %s", k, i, rcm_last_error());
        rcm_work_free(round->works[i]);
    }
    for (int r = 0; r < n; r++)
        total += (int64_t)size_of(r, k);
    if (*errors == 0)
        *errors += gather_check(round->gather, total);
    CHECK(*errors, round->sum == n * k + n * (n - 1) / 2 && round->root == k,
          "round %d: the sum is %d, the root's %d", k, round->sum, round->root);
    gather_free(round->gather);
}

static int check_rounds(rcm_comm *comm, void *arg) {
    static _Thread_local struct rounds rounds[ROUNDS];
    int errors = 0;
    (void)arg;
    memset(rounds, 0, sizeof(rounds));
    for (int k = 0; k < ROUNDS; k++)
        round_issue(comm, k, &rounds[k], &errors);
    for (int k = 0; k < ROUNDS; k++)
        round_finish(comm, k, &rounds[k], &errors);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* Two collectives, the first of which fails on rank 1. Both end once, with the same result on all
 * ranks. */
static int check_failure(rcm_comm *comm, enum trouble trouble, rcm_status expected, int origin) {
    struct gather *first = gather_new(comm, trouble, 10), *second = gather_new(comm, NO_TROUBLE, 5);
    rcm_work *works[2] = {NULL};
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    CHECK(errors, gather_call(comm, first, RCM_INT64, NULL, &works[0]) == RCM_OK, "%s",
          rcm_last_error());
    /* The first failure may be known before the second call, which then fails at once. */
    rcm_status next = gather_call(comm, second, RCM_INT64, NULL, &works[1]);
    const rcm_status status = rcm_work_wait(works[0], -1);
    if (next == RCM_OK)
        next = rcm_work_wait(works[1], -1);
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors, status == expected && first->ends == 1 && first->status == status,
          "%s, ended %d times with %s", rcm_status_name(status), first->ends,
          rcm_status_name(first->status));
    CHECK(errors, next == error.status && second->ends == 1 && second->status == next,
          "the next: %s, ended %d times with %s", rcm_status_name(next), second->ends,
          rcm_status_name(second->status));
    CHECK(errors, origin < 0 || error.origin == origin, "the origin is %d: %s", error.origin,
          error.text);
    rcm_work_free(works[0]);
    rcm_work_free(works[1]);
    gather_free(first);
    gather_free(second);
    (void)!rcm_destroy(comm);
    return errors;
}

static int check_other_count(rcm_comm *comm, void *arg) {
    (void)arg;
    return check_failure(comm, OTHER_COUNT, RCM_ERR_MISMATCH, -1);
}

static int check_no_memory(rcm_comm *comm, void *arg) {
    (void)arg;
    return check_failure(comm, NO_MEMORY, RCM_ERR_NOMEM, 1);
}

static int check_unsupported(rcm_comm *comm, void *arg) {
    (void)arg;
    return check_failure(comm, UNSUPPORTED, RCM_ERR_UNSUPPORTED, -1);
}

/* Stays out of collectives until the others have given up. */
static void await_error(const rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    for (int i = 0; i < 30000 && rcm_comm_error(comm, &error) == RCM_OK; i++)
        usleep(1000);
}

/* Rank 1 is done after the sizes. The error of the others names the second stage, with 11 bytes. */
static int check_shown(rcm_comm *comm, void *arg) {
    struct gather *g = gather_new(comm, NO_FURTHER, 11);
    struct rcm_error error = RCM_ERROR_INIT;
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0;
    (void)arg;
    call.timeout_ms = 300;
    const rcm_status status = gather_call(comm, g, RCM_INT64, &call, NULL);
    await_error(comm);
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors,
          status == (rcm_rank(comm) == 1 ? RCM_OK : RCM_ERR_TIMEOUT) && g->ends == 1 &&
              g->status == status,
          "ended %d times with %s, it returned %s", g->ends, rcm_status_name(g->status),
          rcm_status_name(status));
    CHECK(errors, strstr(error.text, "all_gather number 1 (11 bytes)"), "\"%s\"", error.text);
    gather_free(g);
    (void)!rcm_destroy(comm);
    return errors;
}

/* Rank 1 does not call it. The deadline is that of the call. A call that is not issued ends too. */
static int check_late(rcm_comm *comm, void *arg) {
    struct gather *g = gather_new(comm, NO_TROUBLE, 10), *wrong = gather_new(comm, NO_TROUBLE, 1);
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0;
    (void)arg;
    call.timeout_ms = 300;
    CHECK(errors,
          gather_call(comm, wrong, (rcm_dtype)99, NULL, NULL) == RCM_ERR_INVALID &&
              wrong->ends == 1 && wrong->status == RCM_ERR_INVALID,
          "a wrong type: %s", rcm_last_error());
    if (rcm_rank(comm) == 1)
        await_error(comm);
    CHECK(errors,
          gather_call(comm, g, RCM_INT64, &call, NULL) == RCM_ERR_TIMEOUT && g->ends == 1 &&
              g->status == RCM_ERR_TIMEOUT,
          "ended %d times with %s: %s", g->ends, rcm_status_name(g->status), rcm_last_error());
    gather_free(g);
    gather_free(wrong);
    (void)!rcm_destroy(comm);
    return errors;
}

int main(int argc, char **argv) {
    static int (*const checks[])(rcm_comm *, void *) = {check_rounds,    check_other_count,
                                                        check_no_memory, check_unsupported,
                                                        check_shown,     check_late};
    int errors = 0;
    if (argc != 4 || atoi(argv[3]) > RANKS_MAX) {
        fprintf(stderr, "usage: stages shm|tcp processes|threads N\n");
        return 2;
    }
    const struct ranks ranks = {.n = atoi(argv[3]),
                                .transport = argv[1],
                                .threads = strcmp(argv[2], "threads") == 0,
                                .timeout_ms = 2000,
                                .keep = true};
    const struct ranks patient = {.n = ranks.n,
                                  .transport = ranks.transport,
                                  .threads = ranks.threads,
                                  .timeout_ms = 60000,
                                  .keep = true};
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        errors += ranks_run(checks[i] == check_other_count ? &ranks : &patient, checks[i], NULL);
    return errors != 0;
}
