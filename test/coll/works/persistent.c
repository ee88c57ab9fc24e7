/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent operations of every kind, started several times. See works.c. */
#include "works.h"
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RUNS = 25, RANKS_MAX = 8, LEN = 5, TAG = 900 };

/* Buffers of a rank. Each operation's result in `out` is compared per run. */
struct buffers {
    int me, n;
    int32_t in[RANKS_MAX * LEN], out[RANKS_MAX * LEN];
    size_t counts[RANKS_MAX];
};

static int32_t value(int rank, int run, int i) {
    return rank * 1000 + run * 10 + i;
}

static void fill(struct buffers *b, int run) {
    for (int i = 0; i < b->n * LEN; i++) {
        b->in[i] = value(b->me, run, i);
        b->out[i] = -1;
    }
}

/* Sum of element i over all ranks. */
static int32_t total(const struct buffers *b, int run, int i) {
    int32_t sum = 0;
    for (int r = 0; r < b->n; r++)
        sum += value(r, run, i);
    return sum;
}

static int expect(const struct buffers *b, const char *what, int run, int i, int32_t expected) {
    int errors = 0;
    CHECK(errors, b->out[i] == expected, "%s, run %d: element %d is %d, not %d", what, run, i,
          b->out[i], expected);
    return errors;
}

/* ---- Operations ------------------------------------------------------------------------------ */

typedef rcm_status make(rcm_comm *comm, struct buffers *b, const struct rcm_call *call,
                        rcm_work **ret_work);
typedef int check(const struct buffers *b, int run);

static rcm_status make_all_reduce(rcm_comm *comm, struct buffers *b, const struct rcm_call *call,
                                  rcm_work **ret_work) {
    return rcm_all_reduce(comm, b->in, b->out, LEN, RCM_INT32, RCM_SUM, call, ret_work);
}

static int check_sum(const struct buffers *b, int run) {
    int errors = 0;
    for (int i = 0; i < LEN; i++)
        errors += expect(b, "sum", run, i, total(b, run, i));
    return errors;
}

/* Counts that are valid only during the call. */
static rcm_status make_all_gather_v(rcm_comm *comm, struct buffers *b, const struct rcm_call *call,
                                    rcm_work **ret_work) {
    size_t counts[RANKS_MAX];
    for (int r = 0; r < b->n; r++)
        counts[r] = (size_t)(r % LEN) + 1;
    return rcm_all_gather_v(comm, b->in, counts[b->me], b->out, counts, NULL, RCM_INT32, call,
                            ret_work);
}

static int check_all_gather_v(const struct buffers *b, int run) {
    int errors = 0, at = 0;
    for (int r = 0; r < b->n; r++)
        for (int i = 0; i < r % LEN + 1; i++)
            errors += expect(b, "all_gather_v", run, at++, value(r, run, i));
    return errors;
}

static rcm_status make_all_to_all(rcm_comm *comm, struct buffers *b, const struct rcm_call *call,
                                  rcm_work **ret_work) {
    return rcm_all_to_all(comm, b->in, b->out, LEN, RCM_INT32, call, ret_work);
}

static int check_all_to_all(const struct buffers *b, int run) {
    int errors = 0;
    for (int i = 0; i < b->n * LEN; i++)
        errors += expect(b, "all_to_all", run, i, value(i / LEN, run, b->me * LEN + i % LEN));
    return errors;
}

static rcm_status make_coalesced(rcm_comm *comm, struct buffers *b, const struct rcm_call *call,
                                 rcm_work **ret_work) {
    const struct rcm_part parts[2] = {{b->in, b->out, 2, RCM_INT32},
                                      {b->in + 2, b->out + 2, LEN - 2, RCM_INT32}};
    return rcm_coalesced(comm, RCM_ALL_REDUCE, parts, 2, RCM_SUM, 0, call, ret_work);
}

static rcm_status make_barrier(rcm_comm *comm, struct buffers *b, const struct rcm_call *call,
                               rcm_work **ret_work) {
    (void)b;
    return rcm_monitored_barrier(comm, RCM_FIRST_MISSING, call, ret_work);
}

static int check_nothing(const struct buffers *b, int run) {
    return expect(b, "barrier", run, 0, -1);
}

static const struct {
    make *make;
    check *check;
} operations[] = {{make_all_reduce, check_sum},
                  {make_all_gather_v, check_all_gather_v},
                  {make_all_to_all, check_all_to_all},
                  {make_coalesced, check_sum},
                  {make_barrier, check_nothing}};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static struct rcm_call persistent(void) {
    struct rcm_call call = RCM_CALL_INIT;
    call.flags = RCM_PERSISTENT;
    return call;
}

static int run_operation(rcm_comm *comm, struct buffers *b, int which) {
    const struct rcm_call call = persistent();
    const uint64_t before = rcm_comm_sequence(comm);
    rcm_work *work = NULL;
    int errors = 0;
    CHECK_OK(errors, operations[which].make(comm, b, &call, &work));
    CHECK(errors, errors > 0 || rcm_work_test(work) == RCM_OK, "not complete before its start");
    CHECK(errors, rcm_comm_sequence(comm) == before, "has a sequence number before its start");
    for (int run = 0; run < RUNS && errors == 0; run++) {
        fill(b, run);
        CHECK_OK(errors, rcm_work_start(work));
        CHECK_OK(errors, rcm_work_wait(work, -1));
        CHECK(errors, rcm_work_sequence(work) == rcm_comm_sequence(comm), "number of run %d", run);
        errors += operations[which].check(b, run);
    }
    rcm_work_free(work);
    return errors;
}

/* Several operations started together. Some ranks make plain calls instead. */
static int run_mixed(rcm_comm *comm, struct buffers *b) {
    const struct rcm_call call = persistent();
    struct buffers *each = calloc(OPERATIONS, sizeof(*each));
    rcm_work *works[OPERATIONS] = {NULL};
    int errors = 0;
    for (int run = 0; run < RUNS && errors == 0; run++) {
        for (int i = 0; i < OPERATIONS && errors == 0; i++) {
            const bool plain = b->me == run % b->n && i % 2;
            if (run == 0)
                each[i] = *b;
            fill(&each[i], run);
            if (plain || !works[i]) {
                rcm_work_free(works[i]);
                CHECK_OK(errors,
                         operations[i].make(comm, &each[i], plain ? NULL : &call, &works[i]));
            }
            if (!plain)
                CHECK_OK(errors, rcm_work_start(works[i]));
        }
        CHECK_OK(errors, rcm_work_wait_all(works, OPERATIONS, -1));
        for (int i = 0; i < OPERATIONS && errors == 0; i++) {
            errors += operations[i].check(&each[i], run);
            if (b->me == run % b->n && i % 2) {
                rcm_work_free(works[i]);
                works[i] = NULL;
            }
        }
    }
    for (int i = 0; i < OPERATIONS; i++)
        rcm_work_free(works[i]);
    free(each);
    return errors;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static int run_messages(rcm_comm *comm, struct buffers *b) {
    const struct rcm_call call = persistent();
    const int to = (b->me + 1) % b->n, from = (b->me + b->n - 1) % b->n;
    rcm_work *works[2] = {NULL};
    struct rcm_message message = RCM_MESSAGE_INIT;
    int errors = 0;
    CHECK_OK(errors, rcm_recv(comm, b->out, LEN, RCM_INT32, from, RCM_ANY_TAG, &call, &works[0]));
    CHECK_OK(errors, rcm_send(comm, b->in, LEN, RCM_INT32, to, TAG, &call, &works[1]));
    for (int run = 0; run < RUNS && errors == 0; run++) {
        fill(b, run);
        CHECK_OK(errors, rcm_work_start(works[0]));
        CHECK_OK(errors, rcm_work_start(works[1]));
        CHECK_OK(errors, rcm_work_wait_all(works, 2, -1));
        CHECK_OK(errors, rcm_work_message(works[0], &message));
        CHECK(errors,
              message.source == from && message.tag == TAG &&
                  message.bytes == sizeof b->in[0] * LEN,
              "run %d: message of %d with tag %d", run, message.source, (int)message.tag);
        for (int i = 0; i < LEN; i++)
            errors += expect(b, "message", run, i, value(from, run, i));
    }
    rcm_work_free(works[0]);
    rcm_work_free(works[1]);
    return errors;
}

/* ---- Completion notices ---------------------------------------------------------------------- */

static void count(void *arg, rcm_status status) {
    atomic_fetch_add((_Atomic int *)arg, status == RCM_OK ? 1 : 1000);
}

/* A descriptor and callbacks for each run. Starts follow each other without a pause. */
static int run_noticed(rcm_comm *comm, struct buffers *b) {
    const struct rcm_call call = persistent();
    _Atomic int calls = 0;
    rcm_work *work = NULL;
    int errors = 0, fd = -1;
    CHECK_OK(errors, make_all_reduce(comm, b, &call, &work));
    for (int run = 0; run < RUNS * 4 && errors == 0; run++) {
        fill(b, run);
        CHECK_OK(errors, rcm_work_start(work));
        CHECK_OK(errors, rcm_work_on_complete(work, count, &calls));
        if (run % 4 == 0)
            CHECK_OK(errors, rcm_work_fd(work, &fd));
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (run % 2)
            CHECK(errors, poll(&p, 1, 20000) == 1, "run %d: not readable", run);
        else
            CHECK_OK(errors, rcm_work_wait(work, -1));
        CHECK(errors, rcm_work_status(work) == RCM_OK, "run %d: not complete", run);
        errors += check_sum(b, run);
    }
    for (int i = 0; i < 20000 && atomic_load(&calls) < RUNS * 4; i++)
        usleep(1000);
    CHECK(errors, atomic_load(&calls) == RUNS * 4, "%d calls of %d runs", atomic_load(&calls),
          RUNS * 4);
    rcm_work_free(work);
    return errors;
}

/* On a rank that is not a member, each run is complete at once. */
static int run_absent(rcm_comm *comm, struct buffers *b) {
    const struct rcm_call call = persistent();
    const int members[] = {0};
    rcm_comm *one = NULL;
    rcm_work *work = NULL;
    int errors = 0;
    CHECK_OK(errors, rcm_comm_subset(comm, members, 1, TAG, NULL, &one));
    CHECK_OK(errors, make_all_reduce(one, b, &call, &work));
    for (int run = 0; run < 3 && errors == 0; run++) {
        fill(b, run);
        CHECK_OK(errors, rcm_work_start(work));
        CHECK_OK(errors, rcm_work_wait(work, -1));
        for (int i = 0; i < LEN; i++)
            errors += expect(b, "alone", run, i, b->me == 0 ? value(0, run, i) : -1);
    }
    CHECK_OK(errors, rcm_destroy(one));
    CHECK_REFUSED(errors, rcm_work_start(work), "was destroyed");
    rcm_work_free(work);
    return errors;
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static int run_mistakes(rcm_comm *comm, struct buffers *b) {
    const struct rcm_call call = persistent();
    struct rcm_bytes *bytes = NULL;
    rcm_comm *shrunk;
    rcm_work *work = NULL, *plain = NULL;
    int errors = 0;
    CHECK_REFUSED(errors, make_all_reduce(comm, b, &call, NULL), "ret_work is NULL");
    CHECK_REFUSED(errors, make_coalesced(comm, b, &call, NULL), "ret_work is NULL");
    CHECK_REFUSED(errors, rcm_send(comm, b->in, 1, RCM_INT32, 0, 1, &call, NULL),
                  "ret_work is NULL");
    CHECK_REFUSED(errors, rcm_coalesced(comm, RCM_ALL_REDUCE, NULL, 0, RCM_SUM, 0, &call, &work),
                  "n is 0");
    CHECK(errors,
          rcm_all_gather_bytes(comm, b->in, 1, &bytes, &call, &work) == RCM_ERR_UNSUPPORTED &&
              error_has("new memory"),
          "%s", rcm_last_error());
    CHECK_REFUSED(errors, rcm_comm_shrink(comm, &call, &shrunk), "call->flags is 0x1");
    CHECK_REFUSED(errors, rcm_work_start(NULL), "work is NULL");
    CHECK_OK(errors, rcm_irecv(comm, b->out, LEN, RCM_INT32, b->me, TAG, &plain));
    CHECK_REFUSED(errors, rcm_work_start(plain), "without RCM_PERSISTENT");
    CHECK_OK(errors, rcm_recv(comm, b->out, LEN, RCM_INT32, b->me, TAG + 1, &call, &work));
    CHECK_OK(errors, rcm_work_start(work));
    CHECK_REFUSED(errors, rcm_work_start(work), "still running");
    for (uint64_t tag = TAG; tag < TAG + 2; tag++)
        CHECK_OK(errors, rcm_send(comm, b->in, LEN, RCM_INT32, b->me, tag, NULL, NULL));
    CHECK_OK(errors, rcm_work_wait(work, -1));
    CHECK_OK(errors, rcm_work_wait(plain, -1));
    rcm_work_free(work);
    rcm_work_free(plain);
    return errors;
}

int check_persistent(rcm_comm *comm) {
    struct buffers b = {.me = rcm_rank(comm), .n = rcm_size(comm)};
    int errors = 0;
    for (int i = 0; i < OPERATIONS; i++)
        errors += run_operation(comm, &b, i);
    return errors + run_mixed(comm, &b) + run_messages(comm, &b) + run_noticed(comm, &b) +
           run_absent(comm, &b) + run_mistakes(comm, &b);
}
