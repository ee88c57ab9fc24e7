/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues of the process: completion_queue TRANSPORT RANKS
 *
 * Works of every kind and of several communicators are given to one queue. Each rcm_queue_give is
 * reported once, with its argument and status, however the work ends. The last rank dies at the
 * end.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "works.h"

enum { RANKS_MAX = 8, TAG = 3, SLOTS = 64, SOON_MS = 30000 };

/* The argument of a rcm_queue_give, with the expected report. */
struct slot {
    rcm_work *work;
    rcm_status status;
    bool freed; /* the work is freed before its report */
    _Atomic int reports;
};

struct given {
    rcm_queue *queue;
    int n;
    struct slot slots[SLOTS];
};

static void give(struct given *given, rcm_work *work, rcm_status status, int *errors) {
    struct slot *slot = &given->slots[given->n++];
    *slot = (struct slot){.work = work, .status = status};
    CHECK_OK(*errors, rcm_queue_give(given->queue, work, slot));
}

static void report(const struct rcm_completion *completion, int *errors) {
    struct slot *slot = completion->arg;
    CHECK(*errors, completion->work == slot->work, "another work");
    CHECK(*errors, completion->status == slot->status, "%s instead of %s",
          rcm_status_name(completion->status), rcm_status_name(slot->status));
    CHECK(*errors, slot->freed || rcm_work_status(slot->work) == slot->status, "its work: %s",
          rcm_status_name(rcm_work_status(slot->work)));
    CHECK(*errors, atomic_fetch_add(&slot->reports, 1) == 0, "reported again");
}

/* Takes n completions and checks that there are no more. timeout_ms 0: all must be present. */
static void take(struct given *given, int n, int64_t timeout_ms, int *errors) {
    struct rcm_completion completions[5];
    size_t got = 0;
    rcm_status status = RCM_OK;
    for (int left = n; left > 0 && status == RCM_OK; left -= (int)got) {
        status = rcm_queue_wait(given->queue, completions, left < 5 ? (size_t)left : 5, timeout_ms,
                                &got);
        CHECK(*errors, status == RCM_OK && got >= 1 && got <= 5, "%d of %d: %s", n - left, n,
              rcm_status_name(status));
        for (size_t i = 0; i < got; i++)
            report(&completions[i], errors);
    }
    status = rcm_queue_wait(given->queue, completions, 1, 0, &got);
    CHECK(*errors, status == RCM_PENDING && got == 0, "one more: %s", rcm_status_name(status));
}

/* Checks that each was reported once, and frees the works. */
static void clear(struct given *given, int *errors) {
    for (int i = 0; i < given->n; i++) {
        CHECK(*errors, given->slots[i].reports == 1, "rcm_queue_give %d has %d reports", i,
              (int)given->slots[i].reports);
        if (!given->slots[i].freed)
            rcm_work_free(given->slots[i].work);
    }
    given->n = 0;
}

static rcm_comm *group_new(rcm_comm *world, int *errors) {
    rcm_comm *group = NULL;
    CHECK_OK(*errors, rcm_comm_duplicate(world, NULL, &group));
    return group;
}

/* ---- Kinds of works -------------------------------------------------------------------------- */

static int check_kinds(rcm_comm *comm, struct given *given) {
    const int me = rcm_rank(comm), n = rcm_size(comm), next = (me + 1) % n, last = (me + n - 1) % n;
    int32_t sums[2] = {me, me}, in[3] = {0}, out = 17;
    const struct rcm_part parts[] = {{&sums[0], &sums[0], 1, RCM_INT32},
                                     {&sums[1], &sums[1], 1, RCM_INT32}};
    const struct rcm_transfer batch[] = {{.kind = RCM_TRANSFER_SEND,
                                          .peer = next,
                                          .buffer = &out,
                                          .count = 1,
                                          .tag = TAG + 1,
                                          .dtype = RCM_INT32},
                                         {.kind = RCM_TRANSFER_RECV,
                                          .peer = last,
                                          .buffer = &in[1],
                                          .count = 1,
                                          .tag = TAG + 1,
                                          .dtype = RCM_INT32}};
    rcm_work *works[6] = {NULL};
    int errors = 0;
    CHECK_OK(errors, rcm_barrier(comm, NULL, &works[0]));
    CHECK_OK(errors, rcm_irecv(comm, &in[0], 1, RCM_INT32, last, TAG, &works[1]));
    CHECK_OK(errors, rcm_isend(comm, &out, 1, RCM_INT32, next, TAG, &works[2]));
    CHECK_OK(errors, rcm_batch(comm, batch, 2, NULL, &works[3]));
    CHECK_OK(errors, rcm_sendrecv(comm, &out, 1, next, TAG + 2, &in[2], 1, last, TAG + 2, RCM_INT32,
                                  NULL, &works[4]));
    CHECK_OK(errors, rcm_coalesced(comm, RCM_ALL_REDUCE, parts, 2, RCM_SUM, 0, NULL, &works[5]));
    for (int i = 0; i < 6; i++)
        give(given, works[i], RCM_OK, &errors);
    take(given, 6, SOON_MS, &errors);
    CHECK(errors, in[0] == 17 && in[1] == 17 && in[2] == 17 && sums[1] == n * (n - 1) / 2,
          "results");
    clear(given, &errors);
    return errors;
}

/* A persistent work is given once per run. Before its first start it counts as complete. */
static int check_persistent_runs(rcm_comm *comm, struct given *given) {
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    int errors = 0;
    call.flags = RCM_PERSISTENT;
    CHECK_OK(errors, rcm_barrier(comm, &call, &work));
    give(given, work, RCM_OK, &errors);
    take(given, 1, 0, &errors);
    for (int run = 0; run < 3; run++) {
        CHECK_OK(errors, rcm_work_start(work));
        give(given, work, RCM_OK, &errors);
        take(given, 1, SOON_MS, &errors);
    }
    for (int i = 1; i < given->n; i++)
        given->slots[i].freed = true; /* all are the same work */
    clear(given, &errors);
    return errors;
}

/* Works that are complete before they are given, given twice, canceled, truncated, and freed before
 * or after their end. */
static int check_ends(rcm_comm *comm, struct given *given) {
    const int me = rcm_rank(comm);
    int32_t in[3], out[2] = {1, 2};
    rcm_work *work = NULL;
    int errors = 0;
    CHECK_OK(errors, rcm_barrier(comm, NULL, &work));
    CHECK_OK(errors, rcm_work_wait(work, -1));
    give(given, work, RCM_OK, &errors);
    give(given, work, RCM_OK, &errors);
    given->slots[given->n - 1].freed = true; /* the same work as before */
    take(given, 2, SOON_MS, &errors);
    CHECK_OK(errors, rcm_irecv(comm, &in[0], 1, RCM_INT32, me, TAG, &work));
    give(given, work, RCM_ERR_CANCELED, &errors);
    take(given, 0, 0, &errors);
    CHECK_OK(errors, rcm_work_cancel(work));
    take(given, 1, SOON_MS, &errors);
    CHECK_OK(errors, rcm_irecv(comm, &in[1], 1, RCM_INT32, me, TAG, &work));
    give(given, work, RCM_ERR_TRUNCATED, &errors);
    CHECK_OK(errors, rcm_send(comm, out, 2, RCM_INT32, me, TAG, NULL, NULL));
    take(given, 1, SOON_MS, &errors);
    CHECK_OK(errors, rcm_irecv(comm, &in[2], 1, RCM_INT32, me, TAG, &work));
    give(given, work, RCM_OK, &errors);
    given->slots[given->n - 1].freed = true;
    rcm_work_free(work);
    CHECK_OK(errors, rcm_send(comm, out, 1, RCM_INT32, me, TAG, NULL, NULL));
    take(given, 1, SOON_MS, &errors);
    clear(given, &errors);
    return errors;
}

/* ---- Ends of communicators ------------------------------------------------------------------- */

/* All completions are in the queue when the call that ends the communicator returns. */
static int check_left(rcm_comm *world, struct given *given) {
    enum { GROUPS = 3, EACH = 4 };
    int32_t in[GROUPS * EACH];
    rcm_comm *groups[GROUPS];
    rcm_work *work = NULL;
    int errors = 0;
    for (int i = 0; i < GROUPS * EACH; i++) {
        if (i % EACH == 0)
            groups[i / EACH] = group_new(world, &errors);
        CHECK_OK(errors,
                 rcm_irecv(groups[i / EACH], &in[i], 1, RCM_INT32, rcm_rank(world), TAG, &work));
        give(given, work, RCM_ERR_CANCELED, &errors);
        given->slots[given->n - 1].freed = i % 2;
        if (i % 2)
            rcm_work_free(work);
    }
    for (int g = 0; g < GROUPS; g++) {
        CHECK_OK(errors, rcm_leave(groups[g]));
        take(given, EACH, 0, &errors);
    }
    clear(given, &errors);
    return errors;
}

/* A receive without message, ended by an abort or by the rcm_destroy after it. */
static int check_aborted(rcm_comm *world, struct given *given) {
    int32_t in;
    rcm_work *works[2] = {NULL};
    int errors = 0;
    rcm_comm *group = group_new(world, &errors);
    CHECK_OK(errors, rcm_irecv(group, &in, 1, RCM_INT32, rcm_rank(world), TAG, &works[0]));
    give(given, works[0], RCM_ERR_ABORTED, &errors);
    CHECK_OK(errors, rcm_barrier(world, NULL, NULL));
    if (rcm_rank(world) == 0)
        CHECK_OK(errors, rcm_abort(group, "a test"));
    take(given, 1, SOON_MS, &errors);
    CHECK(errors, rcm_destroy(group) == RCM_ERR_ABORTED, "%s", rcm_last_error());
    clear(given, &errors);
    group = group_new(world, &errors);
    CHECK_OK(errors, rcm_comm_set_timeout(group, 300));
    CHECK_OK(errors, rcm_irecv(group, &in, 1, RCM_INT32, rcm_rank(world), TAG, &works[1]));
    give(given, works[1], RCM_ERR_TIMEOUT, &errors);
    CHECK(errors, rcm_destroy(group) == RCM_ERR_TIMEOUT, "%s", rcm_last_error());
    take(given, 1, 0, &errors);
    clear(given, &errors);
    return errors;
}

/* ---- Threads --------------------------------------------------------------------------------- */

enum { GIVERS = 3, TAKERS = 2, MESSAGES = 300 };

struct shared {
    rcm_comm *comm;
    rcm_queue *queue;
    _Atomic int reports[GIVERS][MESSAGES], taken, errors;
    _Atomic bool over;
};

struct member {
    struct shared *shared;
    int number;
};

/* Messages to the own rank. Their receives are given whether complete or not. */
static void *give_many(void *arg) {
    const struct member *member = arg;
    struct shared *shared = member->shared;
    const int me = rcm_rank(shared->comm);
    int errors = 0;
    for (int i = 0; i < MESSAGES; i++) {
        int32_t in = 0;
        rcm_work *work = NULL;
        CHECK_OK(errors,
                 rcm_irecv(shared->comm, &in, 1, RCM_INT32, me, (uint64_t)member->number, &work));
        if (i % 2)
            CHECK_OK(errors,
                     rcm_queue_give(shared->queue, work, &shared->reports[member->number][i]));
        CHECK_OK(errors, rcm_send(shared->comm, &i, 1, RCM_INT32, me, (uint64_t)member->number,
                                  NULL, NULL));
        if (i % 2 == 0)
            CHECK_OK(errors,
                     rcm_queue_give(shared->queue, work, &shared->reports[member->number][i]));
        CHECK_OK(errors, rcm_work_wait(work, -1));
        CHECK(errors, in == i, "message %d is %d", i, in);
        rcm_work_free(work);
    }
    atomic_fetch_add(&shared->errors, errors);
    return NULL;
}

/* Takes until all completions have arrived. */
static void *take_many(void *arg) {
    struct shared *shared = arg;
    struct rcm_completion completions[7];
    size_t n;
    while (!shared->over) {
        const rcm_status status = rcm_queue_wait(shared->queue, completions, 7, 20, &n);
        atomic_fetch_add(&shared->errors, status != RCM_OK && (status != RCM_PENDING || n != 0));
        for (size_t i = 0; i < n; i++) {
            atomic_fetch_add((_Atomic int *)completions[i].arg, 1);
            atomic_fetch_add(&shared->errors, completions[i].status != RCM_OK);
        }
        atomic_fetch_add(&shared->taken, (int)n);
    }
    return NULL;
}

static int check_threads(rcm_comm *comm) {
    static struct shared shared;
    struct member members[GIVERS];
    pthread_t givers[GIVERS], takers[TAKERS];
    int errors = 0;
    shared.comm = comm;
    CHECK_OK(errors, rcm_queue_create(&shared.queue));
    for (int i = 0; i < TAKERS; i++)
        CHECK(errors, pthread_create(&takers[i], NULL, take_many, &shared) == 0, "thread");
    for (int i = 0; i < GIVERS; i++) {
        members[i] = (struct member){&shared, i};
        CHECK(errors, pthread_create(&givers[i], NULL, give_many, &members[i]) == 0, "thread");
    }
    for (int i = 0; i < GIVERS; i++)
        pthread_join(givers[i], NULL);
    while (shared.taken < GIVERS * MESSAGES)
        usleep(1000); /* the test's deadline ends the loop */
    shared.over = true;
    for (int i = 0; i < TAKERS; i++)
        pthread_join(takers[i], NULL);
    rcm_queue_free(shared.queue); /* no thread uses it any more */
    for (int i = 0; i < GIVERS * MESSAGES; i++)
        CHECK(errors, shared.reports[i / MESSAGES][i % MESSAGES] == 1, "message %d: %d reports", i,
              (int)shared.reports[i / MESSAGES][i % MESSAGES]);
    return errors + shared.errors;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static bool readable(int fd, int timeout_ms) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, timeout_ms) == 1;
}

static int check_descriptor(rcm_comm *comm, struct given *given) {
    int32_t in, out = 1;
    rcm_work *work = NULL;
    int errors = 0, fd = -1, same = -1;
    CHECK_OK(errors, rcm_queue_fd(given->queue, &fd));
    CHECK_OK(errors, rcm_queue_fd(given->queue, &same));
    CHECK(errors, fd == same && fcntl(fd, F_GETFD) == FD_CLOEXEC, "descriptors %d and %d", fd,
          same);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(errors, rcm_irecv(comm, &in, 1, RCM_INT32, rcm_rank(comm), TAG, &work));
        give(given, work, RCM_OK, &errors);
        CHECK(errors, !readable(fd, 0), "readable before");
        CHECK_OK(errors, rcm_send(comm, &out, 1, RCM_INT32, rcm_rank(comm), TAG, NULL, NULL));
        CHECK(errors, readable(fd, SOON_MS) && readable(fd, 0), "not readable");
        take(given, 1, 0, &errors);
        CHECK(errors, !readable(fd, 0), "readable when it is empty");
    }
    clear(given, &errors);
    return errors;
}

struct inside {
    rcm_queue *queue;
    rcm_work *work;
    struct slot *slot;
    _Atomic int errors, done;
};

static void call_inside(void *arg, rcm_status status) {
    struct inside *inside = arg;
    struct rcm_completion completion;
    size_t n = 7;
    int errors = 0;
    (void)status;
    CHECK_REFUSED(errors, rcm_queue_wait(inside->queue, &completion, 1, -1, &n),
                  "callback may not wait");
    CHECK(errors, n == 0, "%zu came", n);
    CHECK_OK(errors, rcm_queue_give(inside->queue, inside->work, inside->slot));
    atomic_fetch_add(&inside->errors, errors);
    atomic_store(&inside->done, 1);
}

static int check_callback(rcm_comm *comm, struct given *given) {
    int32_t in, out = 1;
    struct inside inside = {.queue = given->queue, .slot = &given->slots[0]};
    int errors = 0;
    CHECK_OK(errors, rcm_irecv(comm, &in, 1, RCM_INT32, rcm_rank(comm), TAG, &inside.work));
    *inside.slot = (struct slot){.work = inside.work, .status = RCM_OK};
    given->n = 1;
    CHECK_OK(errors, rcm_work_on_complete(inside.work, call_inside, &inside));
    CHECK_OK(errors, rcm_send(comm, &out, 1, RCM_INT32, rcm_rank(comm), TAG, NULL, NULL));
    take(given, 1, SOON_MS, &errors);
    while (!inside.done)
        usleep(1000);
    clear(given, &errors);
    return errors + inside.errors;
}

static int check_arguments(rcm_comm *comm, struct given *given) {
    struct rcm_completion completion;
    rcm_queue *none = NULL;
    rcm_work *work = NULL;
    int errors = 0, fd;
    size_t n = 1;
    CHECK_OK(errors, rcm_barrier(comm, NULL, &work));
    CHECK_REFUSED(errors, rcm_queue_create(NULL), "ret_queue is NULL");
    CHECK_REFUSED(errors, rcm_queue_give(none, work, NULL), "queue is NULL");
    CHECK_REFUSED(errors, rcm_queue_give(given->queue, NULL, NULL), "work is NULL");
    CHECK_REFUSED(errors, rcm_queue_wait(none, &completion, 1, 0, &n), "queue is NULL");
    CHECK_REFUSED(errors, rcm_queue_wait(given->queue, NULL, 1, 0, &n), "completions is NULL");
    CHECK_REFUSED(errors, rcm_queue_wait(given->queue, &completion, 0, 0, &n), "cap is 0");
    CHECK_REFUSED(errors, rcm_queue_wait(given->queue, &completion, 1, 0, NULL), "ret_n is NULL");
    CHECK_REFUSED(errors, rcm_queue_fd(given->queue, NULL), "ret_fd is NULL");
    CHECK_REFUSED(errors, rcm_queue_fd(none, &fd), "queue is NULL");
    CHECK(errors, rcm_queue_wait(given->queue, &completion, 1, 20, &n) == RCM_PENDING && n == 0,
          "%s", rcm_last_error());
    CHECK_OK(errors, rcm_work_wait(work, -1));
    rcm_work_free(work);
    rcm_queue_free(NULL);
    return errors;
}

/* A work in a queue that is freed goes on. */
static int check_freed(rcm_comm *comm) {
    int32_t in[2], out = 5;
    rcm_work *works[2] = {NULL};
    rcm_queue *queue;
    int errors = 0;
    CHECK_OK(errors, rcm_queue_create(&queue));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(errors, rcm_irecv(comm, &in[i], 1, RCM_INT32, rcm_rank(comm), TAG, &works[i]));
        CHECK_OK(errors, rcm_queue_give(queue, works[i], NULL));
    }
    CHECK_OK(errors, rcm_send(comm, &out, 1, RCM_INT32, rcm_rank(comm), TAG, NULL, NULL));
    CHECK_OK(errors, rcm_work_wait(works[0], -1));
    rcm_queue_free(queue);
    CHECK_OK(errors, rcm_send(comm, &out, 1, RCM_INT32, rcm_rank(comm), TAG, NULL, NULL));
    CHECK_OK(errors, rcm_work_wait(works[1], -1));
    for (int i = 0; i < 2; i++)
        rcm_work_free(works[i]);
    return errors;
}

/* ---- Death of a rank ------------------------------------------------------------------------- */

/* It ends works of two communicators. The queue outlives both. */
static int check_death(rcm_comm *world, struct given *given) {
    const int me = rcm_rank(world), last = rcm_size(world) - 1;
    int32_t in, mine = 1, sum;
    rcm_work *work = NULL;
    int errors = 0;
    rcm_comm *group = group_new(world, &errors);
    CHECK_OK(errors, rcm_irecv(group, &in, 1, RCM_INT32, me, TAG, &work));
    give(given, work, RCM_ERR_PEER, &errors);
    if (me != last) {
        CHECK_OK(errors, rcm_all_reduce(world, &mine, &sum, 1, RCM_INT32, RCM_SUM, NULL, &work));
        give(given, work, RCM_ERR_PEER, &errors);
    } else {
        usleep(50000); /* some ranks' works are given by then */
        _exit(errors > 0);
    }
    take(given, 2, SOON_MS, &errors);
    CHECK(errors, rcm_destroy(group) == RCM_ERR_PEER, "%s", rcm_last_error());
    CHECK(errors, rcm_destroy(world) == RCM_ERR_PEER, "%s", rcm_last_error());
    clear(given, &errors);
    return errors;
}

static int check_all(rcm_comm *world, void *arg) {
    static struct given given;
    int errors = 0;
    (void)arg;
    CHECK_OK(errors, rcm_queue_create(&given.queue));
    errors += check_kinds(world, &given) + check_persistent_runs(world, &given);
    errors += check_ends(world, &given) + check_left(world, &given);
    errors += check_aborted(world, &given) + check_threads(world);
    errors += check_descriptor(world, &given) + check_callback(world, &given);
    errors += check_arguments(world, &given) + check_freed(world);
    if (rcm_size(world) > 1)
        errors += check_death(world, &given);
    else
        CHECK_OK(errors, rcm_destroy(world));
    rcm_queue_free(given.queue);
    return errors > 100 ? 100 : errors;
}

int main(int argc, char **argv) {
    if (argc != 3 || atoi(argv[2]) < 1 || atoi(argv[2]) > RANKS_MAX) {
        fprintf(stderr, "usage: completion_queue TRANSPORT RANKS\n");
        return 2;
    }
    const struct ranks ranks = {.n = atoi(argv[2]), .transport = argv[1], .keep = true};
    return ranks_run(&ranks, check_all, NULL) ? 1 : 0;
}
