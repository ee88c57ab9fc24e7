/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives and messages whose receiver may read the sender's memory (protocol get), and what
 * happens if the system refuses that: always, at some call, or on one rank only. The library calls
 * this file's process_vm_readv and process_vm_writev, which fail on request.
 *
 *   get all|blocks|kept|kept-refused|never|refused|refused-small|unhelped|given-up|stopped|absent|
 *       probes|differ|overlap processes|threads
 *
 * Not tested here: whether get is used at all, or is faster; how its range of sizes is parsed
 * (test/transport/test_protocol_constants.c).
 */
#include "../fault/workload.h"
#include "ranks.h"
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FLOATS = 2500003, MANY = 4, BLOCKS_MAX = 200003 };

/* ---- Replaced system calls ------------------------------------------------------------------- */

/* Which calls fail, counted from 1: all from `at` on (FROM_THERE), only one (ONCE), or only one
 * that does not check the identity of the other process (UNSEEN). */
struct fault {
    long at;   /* 0: none fails */
    int error; /* 0: the last byte is missing; a write stops at half */
    enum { FROM_THERE, ONCE, UNSEEN } extent;
};

static struct fault read_fault, write_fault;
static _Atomic long reads, writes;
static _Atomic bool read_failed, write_failed; /* set by a fault that occurs only once */

static bool fails(const struct fault *fault, _Atomic bool *failed, long number, bool unseen) {
    if (fault->at == 0 || number < fault->at || (fault->extent == UNSEEN && !unseen))
        return false;
    return fault->extent == FROM_THERE || !atomic_exchange(failed, true);
}

/* In this process. */
static bool no_call;                 /* the kernel has no process_vm_readv */
static _Atomic bool stops_itself;    /* before the next write */
static _Atomic bool stops_the_other; /* instead of the next read and all later ones */

/* True if the call is the library's test whether this process may read at all. */
static bool is_probe(pid_t pid, const struct iovec *to, unsigned long nto) {
    return pid == getpid() && nto == 1 && to[0].iov_len == 1;
}

static ssize_t refuse(int error) {
    errno = error;
    return -1;
}

static ssize_t lose_a_byte(ssize_t got, const struct iovec *to, unsigned long nto) {
    size_t all = 0;
    for (unsigned long i = 0; i < nto; i++)
        all += to[i].iov_len;
    if (got != (ssize_t)all)
        return got;
    ((char *)to[nto - 1].iov_base)[to[nto - 1].iov_len - 1] ^= 0x55;
    return got - 1;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long nto,
                         const struct iovec *from, unsigned long nfrom, unsigned long flags) {
    const bool probe = is_probe(pid, to, nto);
    const bool fault =
        !probe && fails(&read_fault, &read_failed, atomic_fetch_add(&reads, 1) + 1, nto == 1);
    if (no_call)
        return refuse(ENOSYS);
    if (!probe && atomic_load(&stops_the_other)) {
        kill(pid, SIGSTOP);
        return refuse(EPERM);
    }
    if (fault && read_fault.error)
        return refuse(read_fault.error);
    const ssize_t got = (ssize_t)syscall(SYS_process_vm_readv, pid, to, nto, from, nfrom, flags);
    return fault ? lose_a_byte(got, to, nto) : got;
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *from, unsigned long nfrom,
                          const struct iovec *to, unsigned long nto, unsigned long flags) {
    const bool fault = fails(&write_fault, &write_failed, atomic_fetch_add(&writes, 1) + 1, false);
    struct iovec there[2] = {to[0], to[1]};
    if (atomic_exchange(&stops_itself, false))
        raise(SIGSTOP);
    if (no_call)
        return refuse(ENOSYS);
    if (fault && write_fault.error)
        return refuse(write_fault.error);
    if (fault)
        there[1].iov_len /= 2;
    return (ssize_t)syscall(SYS_process_vm_writev, pid, from, nfrom, there, nto, flags);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static float value(size_t i, int round, int root) {
    return (float)((i * 7 + (size_t)round * 31 + (size_t)root) % 8191);
}

static void data_fill(float *data, size_t n, int round, int root, bool mine) {
    for (size_t i = 0; i < n; i++)
        data[i] = mine ? value(i, round, root) : -1;
}

static int data_check(const float *data, size_t n, int round, int root, const char *what) {
    int errors = 0;
    for (size_t i = 0; i < n && errors == 0; i++)
        CHECK(errors, data[i] == value(i, round, root), "%s of %zu, round %d: element %zu is %g",
              what, n, round, i, (double)data[i]);
    return errors;
}

static int cast(rcm_comm *comm, float *data, size_t n, int round, int root) {
    int errors = 0;
    data_fill(data, n, round, root, rcm_rank(comm) == root);
    CHECK(errors, rcm_broadcast(comm, data, n, RCM_FLOAT32, root, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    return errors + data_check(data, n, round, root, "a broadcast");
}

/* From one of the two ranks to the other. */
static int message(rcm_comm *comm, float *data, size_t n, int round, int from) {
    const bool sends = rcm_rank(comm) == from;
    const uint64_t tag = (uint64_t)round;
    int errors = 0;
    data_fill(data, n, round, from, sends);
    CHECK(errors,
          (sends ? rcm_send(comm, data, n, RCM_FLOAT32, 1 - from, tag, NULL, NULL)
                 : rcm_recv(comm, data, n, RCM_FLOAT32, from, tag, NULL, NULL)) == RCM_OK,
          "%s", rcm_last_error());
    return errors + data_check(data, n, round, from, "a message");
}

/* MANY messages in each direction at the same time. */
static int messages_both_ways(rcm_comm *comm, float *data, size_t n, int round) {
    const int me = rcm_rank(comm), other = 1 - me;
    float *in = data, *out = data + n * MANY;
    rcm_work *works[2 * MANY] = {NULL};
    int errors = 0;
    for (int k = 0; k < MANY; k++) {
        const size_t at = (size_t)k * n;
        data_fill(in + at, n, round + k, other, false);
        data_fill(out + at, n, round + k, me, true);
        CHECK(errors,
              rcm_irecv(comm, in + at, n, RCM_FLOAT32, other, (uint64_t)k, &works[k]) == RCM_OK &&
                  rcm_isend(comm, out + at, n, RCM_FLOAT32, other, (uint64_t)k, &works[MANY + k]) ==
                      RCM_OK,
              "%s", rcm_last_error());
    }
    for (int k = 0; k < 2 * MANY; k++) {
        CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(works[k]);
    }
    for (int k = 0; k < MANY && errors == 0; k++)
        errors += data_check(in + (size_t)k * n, n, round + k, other, "one of several messages");
    return errors;
}

/* ---- No failure ------------------------------------------------------------------------------ */

/* Block k of a buffer has `n` elements for or from rank k. They go from rank `from` to rank
 * `to`. */
static void block_fill(float *buffer, int k, size_t n, int from, int to, bool there) {
    data_fill(buffer + (size_t)k * n, n, from, to, there);
}

static int block_check(const float *buffer, int k, size_t n, int from, int to, const char *what) {
    return data_check(buffer + (size_t)k * n, n, from, to, what);
}

static int all_to_all(rcm_comm *comm, float *in, float *out, size_t n) {
    const int me = rcm_rank(comm), p = rcm_size(comm);
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0;
    call.algorithm = "pairwise";
    for (int k = 0; k < p; k++) {
        block_fill(out, k, n, k, me, false);
        block_fill(in, k, n, me, k, true);
    }
    CHECK(errors, rcm_all_to_all(comm, in, out, n, RCM_FLOAT32, &call, NULL) == RCM_OK, "%s",
          rcm_last_error());
    for (int k = 0; k < p; k++)
        errors += block_check(out, k, n, k, me, in == out ? "in place" : "all_to_all");
    return errors;
}

/* Blocks between the root and all ranks. In place, the root's own block does not move. */
static int scatter_and_gather(rcm_comm *comm, float *all, float *one, size_t n, bool in_place) {
    const int me = rcm_rank(comm), p = rcm_size(comm), root = p - 1;
    float *own = in_place && me == root ? all + (size_t)me * n : one;
    int errors = 0;
    for (int k = 0; k < p; k++)
        block_fill(all, k, n, root, k, true);
    CHECK(errors, rcm_scatter(comm, all, own, n, RCM_FLOAT32, root, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    errors += block_check(own, 0, n, root, me, "scatter");
    for (int k = 0; k < p; k++)
        block_fill(all, k, n, k, root, k == me && in_place);
    block_fill(own, 0, n, me, root, true);
    CHECK(errors, rcm_gather(comm, own, all, n, RCM_FLOAT32, root, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    for (int k = 0; k < p && me == root; k++)
        errors += block_check(all, k, n, k, root, "gather");
    return errors;
}

/* The algorithm "direct", which copies from each rank straight to each other rank. */
static int direct_copies(rcm_comm *comm, float *in, float *out, size_t n) {
    const int me = rcm_rank(comm), p = rcm_size(comm), root = p / 2;
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0;
    call.algorithm = "direct";
    data_fill(out, n, 5, root, me == root);
    CHECK(errors, rcm_broadcast(comm, out, n, RCM_FLOAT32, root, &call, NULL) == RCM_OK, "%s",
          rcm_last_error());
    errors += data_check(out, n, 5, root, "broadcast");
    for (int in_place = 0; in_place < 2; in_place++) {
        float *own = in_place ? out + (size_t)me * n : in;
        for (int k = 0; k < p; k++)
            block_fill(out, k, n, k, 3, false);
        data_fill(own, n, me, 3, true);
        CHECK(errors, rcm_all_gather(comm, own, out, n, RCM_FLOAT32, &call, NULL) == RCM_OK, "%s",
              rcm_last_error());
        for (int k = 0; k < p; k++)
            errors += block_check(out, k, n, k, 3, in_place ? "all_gather in place" : "all_gather");
    }
    return errors;
}

static int check_blocks(rcm_comm *comm, void *arg) {
    static const size_t sizes[] = {1, 511, 512, 4096, 40001, BLOCKS_MAX};
    const size_t bytes = (size_t)rcm_size(comm) * BLOCKS_MAX * sizeof(float);
    float *in = malloc(bytes), *out = malloc(bytes);
    int errors = 0;
    (void)arg;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0] && errors == 0; s++) {
        errors += all_to_all(comm, in, out, sizes[s]) + all_to_all(comm, out, out, sizes[s]);
        errors += scatter_and_gather(comm, in, out, sizes[s], false);
        errors += scatter_and_gather(comm, in, out, sizes[s], true);
        errors += direct_copies(comm, in, out, sizes[s]);
    }
    free(in);
    free(out);
    return errors;
}

/* No sender writes these blocks: the receiver reads them. */
static int check_blocks_read(rcm_comm *comm, void *arg) {
    enum { N = 4096 };
    float in[4 * N], out[4 * N];
    atomic_store(&reads, 0);
    int errors = all_to_all(comm, in, out, N);
    (void)arg;
    CHECK(errors, atomic_load(&reads) >= rcm_size(comm) - 1,
          "%ld reads of other processes' memory for %d blocks", atomic_load(&reads),
          rcm_size(comm) - 1);
    return errors;
}

/* Uses the broadcast's channels by other protocols, some of which write into the destination. */
static int others(rcm_comm *comm, float *sum) {
    const size_t n = 70000;
    float *in = malloc(n * sizeof *in);
    int errors = 0;
    data_fill(in, n, 1, 0, true);
    CHECK(errors, rcm_all_reduce(comm, in, sum, n, RCM_FLOAT32, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    for (size_t i = 0; i < n && errors == 0; i++)
        CHECK(errors, sum[i] == 2 * value(i, 1, 0), "a sum: element %zu is %g", i, (double)sum[i]);
    errors += cast(comm, sum, 100, 2, 0);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    free(in);
    return errors;
}

/* Several broadcasts at the same time. */
static int several(rcm_comm *comm, float *data) {
    const size_t n = 50001;
    rcm_work *works[MANY];
    int errors = 0;
    for (int k = 0; k < MANY; k++) {
        data_fill(data + (size_t)k * n, n, k, 0, rcm_rank(comm) == 0);
        CHECK(errors,
              rcm_broadcast(comm, data + (size_t)k * n, n, RCM_FLOAT32, 0, NULL, &works[k]) ==
                  RCM_OK,
              "%s", rcm_last_error());
    }
    for (int k = 0; k < MANY && errors == 0; k++) {
        CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(works[k]);
        errors += data_check(data + (size_t)k * n, n, k, 0, "one of several");
    }
    return errors;
}

static int check_all(rcm_comm *comm, void *arg) {
    static const size_t sizes[] = {1,    2047,   2048,   2049,   4096,  4097,
                                   8192, 100001, 262144, 262147, FLOATS};
    float *plain = malloc(FLOATS * sizeof *plain), *sum = NULL, *mapped = NULL;
    int errors = 0;
    (void)arg;
    CHECK(errors,
          rcm_mem_alloc(comm, FLOATS * sizeof *mapped, (void **)&mapped) == RCM_OK &&
              rcm_mem_alloc(comm, 70000 * sizeof *sum, (void **)&sum) == RCM_OK,
          "%s", rcm_last_error());
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0] && errors == 0; s++)
        for (int round = 0; round < 6 && errors == 0; round++) {
            float *data = round % 3 == 2 ? mapped : plain;
            errors += message(comm, data, sizes[s], round, 1);
            errors += cast(comm, data, sizes[s], round, 1) + cast(comm, data, sizes[s], round, 0);
            errors += others(comm, sum) + several(comm, data == plain ? mapped : plain);
            errors += data_check(data, sizes[s], round, 0, "data that others did not change");
        }
    CHECK(errors, rcm_mem_free(comm, sum) == RCM_OK && rcm_mem_free(comm, mapped) == RCM_OK, "%s",
          rcm_last_error());
    free(plain);
    return errors;
}

/* The slot of a broadcast may still hold an unread reply of the reduction before it. */
static int check_kept(rcm_comm *comm, void *arg) {
    enum { ROUNDS = 60, SUMS = 1 << 20, CASTS = 16384 };
    float *in = malloc(SUMS * sizeof *in), *sum = malloc(SUMS * sizeof *sum);
    float *data = malloc(CASTS * sizeof *data);
    int errors = 0;
    (void)arg;
    for (int round = 0; round < ROUNDS && errors == 0; round++) {
        rcm_work *works[2] = {NULL};
        data_fill(in, SUMS, round, 0, true);
        data_fill(data, CASTS, round, 1, rcm_rank(comm) == 0);
        CHECK(errors,
              rcm_all_reduce(comm, in, sum, SUMS, RCM_FLOAT32, RCM_SUM, NULL, &works[0]) == RCM_OK,
              "%s", rcm_last_error());
        usleep((useconds_t)(round * 37 % 1000));
        CHECK(errors, rcm_broadcast(comm, data, CASTS, RCM_FLOAT32, 0, NULL, &works[1]) == RCM_OK,
              "%s", rcm_last_error());
        for (int k = 0; k < 2; k++) {
            rcm_work *work = works[(k + round) % 2];
            CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
            rcm_work_free(work);
        }
        for (size_t i = 0; i < SUMS && errors == 0; i++)
            CHECK(errors, sum[i] == 2 * value(i, round, 0), "a sum, round %d: element %zu is %g",
                  round, i, (double)sum[i]);
        errors += data_check(data, CASTS, round, 1, "a broadcast");
    }
    free(in);
    free(sum);
    free(data);
    return errors;
}

/* ---- Get disabled ---------------------------------------------------------------------------- */

static int casts_and_messages(rcm_comm *comm) {
    float *data = malloc(FLOATS * sizeof *data);
    int errors = 0;
    for (int round = 0; round < 2; round++) {
        errors += cast(comm, data, 800003, round, 0) + cast(comm, data, 4099, round, 1);
        errors += message(comm, data, 300007, round, 0) + message(comm, data, 20011, round, 1);
        errors += messages_both_ways(comm, data, 20011, round);
    }
    free(data);
    return errors;
}

/* No process reads or writes another one's memory. */
static int check_never(rcm_comm *comm, void *arg) {
    int errors = casts_and_messages(comm);
    (void)arg;
    CHECK(errors, atomic_load(&reads) == 0 && atomic_load(&writes) == 0,
          "%ld reads and %ld writes of other processes' memory", atomic_load(&reads),
          atomic_load(&writes));
    return errors;
}

static int check_right(rcm_comm *comm, void *arg) {
    (void)arg;
    return casts_and_messages(comm);
}

/* ---- Different settings per rank ------------------------------------------------------------- */

static int rank_without_call;

static void before_probe(int rank) {
    no_call = rank == rank_without_call;
}

static int check_every(rcm_comm *comm, void *arg) {
    const int errors = workload_every(comm);
    return errors + (rcm_size(comm) == 2 ? check_never(comm, arg) : 0);
}

/* If one rank may not read, no rank does, in all operations. */
static int probes_run(struct ranks *ranks) {
    int errors = 0;
    ranks->before = before_probe;
    for (rank_without_call = 0; rank_without_call < 2; rank_without_call++)
        errors += ranks_run(ranks, check_every, NULL);
    ranks->n = 3;
    errors += ranks_run(ranks, check_every, NULL);
    return errors;
}

static void before_never_first(int rank) {
    setenv("RINGCOMM_PROTOCOL", rank == 0 ? "get=never" : "get=always", 1);
}

static void before_always_first(int rank) {
    setenv("RINGCOMM_PROTOCOL", rank == 0 ? "get=always,eager=0-1K" : "get=never,eager=0-64K", 1);
}

/* Rank 0's setting is used. */
static int differ_run(struct ranks *ranks) {
    int errors = 0;
    ranks->before = before_never_first;
    errors += ranks_run(ranks, check_never, NULL);
    ranks->before = before_always_first;
    errors += ranks_run(ranks, check_right, NULL);
    return errors;
}

/* ---- Calls refused by the system ------------------------------------------------------------- */

enum { CASTS = 1, MESSAGES = 2 };

static int check_refused(rcm_comm *comm, void *arg) {
    const int what = *(const int *)arg;
    float *data = malloc(FLOATS * sizeof *data);
    int errors = 0;
    for (int round = 0; round < 3 && errors == 0; round++) {
        if (what & CASTS) {
            errors += cast(comm, data, 800003, round, 0) + cast(comm, data, 20011, round, 0);
            errors += cast(comm, data, 2053, round, 1) + several(comm, data);
        }
        if (what & MESSAGES) {
            errors += message(comm, data, 800003, round, 0) + message(comm, data, 20011, round, 0);
            errors += message(comm, data, 2053, round, 1);
            errors += messages_both_ways(comm, data, 100003, round);
        }
    }
    if (what & CASTS)
        errors += cast(comm, data, FLOATS, 9, 0);
    free(data);
    return errors;
}

static const struct fault faults[] = {
    {1, EPERM, FROM_THERE},  {2, EPERM, FROM_THERE}, {1, EPERM, UNSEEN},
    {5, EFAULT, FROM_THERE}, {4, EFAULT, ONCE},      {3, 0, FROM_THERE},
    {6, 0, FROM_THERE},      {2, 0, ONCE},           {1, 0, UNSEEN},
};
enum { FAULTS = sizeof faults / sizeof faults[0] };

/* With threads, the calls of both ranks are counted together. */
static int fault_run(const struct ranks *ranks, int what) {
    atomic_store(&reads, 0);
    atomic_store(&writes, 0);
    atomic_store(&read_failed, false);
    atomic_store(&write_failed, false);
    return ranks_run(ranks, check_refused, &what);
}

static int refused_run(struct ranks *ranks) {
    int errors = 0;
    for (size_t i = 0; i < FAULTS; i++)
        for (int what = CASTS; what <= (CASTS | MESSAGES); what++) {
            read_fault = faults[i];
            errors += fault_run(ranks, what);
        }
    return errors;
}

/* All data arrives although the sender writes none or only part of it. (Every write checks the
 * identity of the process.) */
static int unhelped_run(struct ranks *ranks) {
    int errors = 0;
    for (size_t i = 0; i < FAULTS; i++)
        for (int what = CASTS; what <= (CASTS | MESSAGES) && faults[i].extent != UNSEEN; what++) {
            write_fault = faults[i];
            errors += fault_run(ranks, what);
        }
    return errors;
}

/* ---- Stopped sender -------------------------------------------------------------------------- */

/* Rank 1 is stopped while the root gives up and overwrites its vector. Rank 1 must not receive the
 * new contents. (For messages: contract.c.) */
static int check_given_up(rcm_comm *comm, void *arg) {
    const size_t n = 100003;
    float *data = malloc(n * sizeof *data);
    int32_t pid = (int32_t)getpid();
    rcm_work *work = NULL;
    int errors = 0;
    (void)arg;
    for (int round = 0; round < 4; round++)
        errors += cast(comm, data, n, round, 0);
    CHECK(errors, rcm_broadcast(comm, &pid, 1, RCM_INT32, 1, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    if (rcm_rank(comm) == 1) {
        raise(SIGSTOP);
        const rcm_status status = rcm_broadcast(comm, data, n, RCM_FLOAT32, 0, NULL, NULL);
        CHECK(errors, status == RCM_ERR_ABORTED, "%s", rcm_status_name(status));
    } else {
        ranks_await_stopped(pid);
        (void)!rcm_broadcast(comm, data, n, RCM_FLOAT32, 0, NULL, &work);
        usleep(100000);
        (void)!rcm_abort(comm, "enough");
        CHECK(errors, rcm_work_wait(work, -1) == RCM_ERR_ABORTED,
              "the broadcast succeeded without its reader");
        memset(data, 2, n * sizeof *data);
        kill(pid, SIGCONT);
    }
    rcm_work_free(work);
    (void)!rcm_destroy(comm);
    free(data);
    return errors;
}

/* The operation that fails because its sender is stopped. The sender stops before it writes a
 * piece, or, with `refused`, when the receiver's read was refused. With `guarded` the receiver's
 * memory is protected afterwards; without, its contents are compared. */
enum operation { CAST, MESSAGE, ALL_TO_ALL };
struct stop {
    enum operation operation;
    bool refused, guarded;
};

static _Atomic bool *sender_done; /* shared by all processes */

static rcm_status stop_operation(rcm_comm *comm, const struct stop *stop, float *data,
                                 const float *sent) {
    struct rcm_call call = RCM_CALL_INIT;
    call.timeout_ms = 500;
    call.algorithm = stop->operation == ALL_TO_ALL ? "pairwise" : NULL;
    if (stop->operation == ALL_TO_ALL)
        return rcm_all_to_all(comm, sent, data, FLOATS / 2, RCM_FLOAT32, &call, NULL);
    if (stop->operation == CAST)
        return rcm_broadcast(comm, data, FLOATS, RCM_FLOAT32, 0, &call, NULL);
    return rcm_rank(comm) == 0 ? rcm_send(comm, data, FLOATS, RCM_FLOAT32, 1, 1, &call, NULL)
                               : rcm_recv(comm, data, FLOATS, RCM_FLOAT32, 0, 1, &call, NULL);
}

/* The sender continues, and ends its operation somehow. */
static void sender_continue(int pid) {
    for (int i = 0; i < 1000 && !atomic_load(sender_done); i++) {
        kill(pid, SIGCONT);
        usleep(10000);
    }
    usleep(100000);
}

/* After the operation has failed, nothing writes to its memory. */
static int untouched(const struct stop *stop, float *data, size_t len, int pid) {
    const unsigned char *bytes = (const unsigned char *)data;
    int errors = 0;
    memset(data, 0xee, len);
    if (stop->guarded && mprotect(data, len, PROT_NONE) != 0)
        return 1;
    sender_continue(pid); /* a store would be a signal here, a write by the peer is refused */
    if (stop->guarded && mprotect(data, len, PROT_READ) != 0)
        return 1;
    for (size_t i = 0; i < len && errors == 0; i++)
        CHECK(errors, bytes[i] == 0xee, "byte %zu was written after operation %d had failed", i,
              stop->operation);
    return errors;
}

static int check_stopped(rcm_comm *comm, void *arg) {
    enum { ROUNDS = 50 }; /* at most: a sender without CPU time does not write */
    const struct stop *stop = arg;
    const size_t len = FLOATS * sizeof(float);
    float *data = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *sent = calloc(FLOATS, sizeof *sent);
    rcm_status status = RCM_OK;
    int32_t pid = (int32_t)getpid();
    if (data == MAP_FAILED || !sent)
        return 1;
    int errors = cast(comm, data, FLOATS, 0, 0) + message(comm, data, FLOATS, 0, 0);
    CHECK(errors, rcm_broadcast(comm, &pid, 1, RCM_INT32, 0, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    if (rcm_rank(comm) == 0)
        atomic_store(&stops_itself, !stop->refused);
    else
        atomic_store(&stops_the_other, stop->refused);
    for (int round = 0; round < ROUNDS && status == RCM_OK; round++)
        status = stop_operation(comm, stop, data, sent);
    if (rcm_rank(comm) == 0) {
        atomic_store(sender_done, true);
    } else if (status != RCM_OK) {
        CHECK(errors, status == RCM_ERR_TIMEOUT, "%s", rcm_status_name(status));
        errors += untouched(stop, data, len, pid);
    }
    (void)!rcm_destroy(comm);
    free(sent);
    munmap(data, len);
    return errors;
}

static const struct stop stops[] = {
    {CAST, false, false},     {CAST, true, false},     {CAST, false, true},
    {CAST, true, true},       {MESSAGE, false, false}, {MESSAGE, true, false},
    {MESSAGE, false, true},   {MESSAGE, true, true},   {ALL_TO_ALL, false, true},
    {ALL_TO_ALL, true, true},
};

static int stopped_run(struct ranks *ranks) {
    int errors = 0;
    sender_done =
        mmap(NULL, sizeof *sender_done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sender_done == MAP_FAILED)
        return 1;
    ranks->keep = true;
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        struct stop stop = stops[i];
        atomic_store(sender_done, false);
        errors += ranks_run(ranks, check_stopped, &stop);
    }
    return errors;
}

/* A rank that never calls is named. */
static int check_absent(rcm_comm *comm, void *arg) {
    const size_t n = 100003;
    float *data = malloc(n * sizeof *data);
    struct rcm_call call = RCM_CALL_INIT;
    rcm_status status = RCM_OK;
    int errors = 0;
    (void)arg;
    for (int round = 0; round < 4; round++)
        errors += cast(comm, data, n, round, 0);
    call.timeout_ms = 300;
    if (rcm_rank(comm) == 0) {
        status = rcm_broadcast(comm, data, n, RCM_FLOAT32, 0, &call, NULL);
        CHECK(errors,
              status == RCM_ERR_TIMEOUT && strstr(rcm_last_error(), "rank 1") &&
                  strstr(rcm_last_error(), "never called broadcast number 5"),
              "%s: %s", rcm_status_name(status), rcm_last_error());
    } else {
        while (rcm_comm_error(comm, &(struct rcm_error)RCM_ERROR_INIT) == RCM_OK)
            usleep(1000);
    }
    (void)!rcm_destroy(comm);
    free(data);
    return errors;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static int all_run(struct ranks *ranks) {
    return ranks_run(ranks, check_all, NULL);
}

/* Also with refused reads. In place, the data goes in parts: ranks send more to each other than a
 * slot holds before they receive. */
static int blocks_run(struct ranks *ranks) {
    int errors = 0;
    for (ranks->n = 3; ranks->n <= 4; ranks->n++)
        errors += ranks_run(ranks, check_blocks, NULL);
    ranks->n = 4;
    if (!ranks->threads)
        errors += ranks_run(ranks, check_blocks_read, NULL);
    for (size_t i = 1; i < FAULTS; i += 3) {
        read_fault = faults[i];
        errors += ranks_run(ranks, check_blocks, NULL);
    }
    return errors;
}

static int kept_run(struct ranks *ranks) {
    setenv("RINGCOMM_ALGORITHM", "all_reduce=two_shot,broadcast=binomial",
           1); /* both use one channel */
    return ranks_run(ranks, check_kept, NULL);
}

static int kept_refused_run(struct ranks *ranks) {
    read_fault = (struct fault){.at = 5, .error = EPERM};
    return kept_run(ranks);
}

static int never_run(struct ranks *ranks) {
    setenv("RINGCOMM_PROTOCOL", "get=never", 1);
    return ranks_run(ranks, check_never, NULL);
}

/* Slots hold a small part of a piece. On a busy machine the two ranks alternate every 4 slots, and
 * each switch costs a time slice. */
static int refused_small_run(struct ranks *ranks) {
    setenv("RINGCOMM_SLOT_BYTES", "4K", 1);
    read_fault = faults[1];
    return ranks_run(ranks, check_right, NULL);
}

static int given_up_run(struct ranks *ranks) {
    int errors = 0;
    ranks->keep = true;
    for (int run = 0; run < 3; run++)
        errors += ranks_run(ranks, check_given_up, NULL);
    return errors;
}

static int absent_run(struct ranks *ranks) {
    ranks->keep = true;
    return ranks_run(ranks, check_absent, NULL);
}

/* A broadcast is complete when its own vector was read, whatever was sent after it. */
static int check_overlap(rcm_comm *comm, void *arg) {
    const size_t n = 40011;
    float *first = malloc(n * sizeof *first), *second = NULL;
    int32_t token = 7;
    int errors = 0;
    (void)arg;
    CHECK(errors, rcm_mem_alloc(comm, n * sizeof *second, (void **)&second) == RCM_OK, "%s",
          rcm_last_error());
    for (int round = 0; round < 6 && errors == 0; round++) {
        float *a = round % 2 ? second : first, *b = round % 2 ? first : second;
        data_fill(a, n, round, 0, rcm_rank(comm) == 0);
        data_fill(b, n, round + 1, 0, rcm_rank(comm) == 0);
        rcm_work *works[2] = {NULL};
        rcm_status status = rcm_broadcast(comm, a, n, RCM_FLOAT32, 0, NULL, &works[0]);
        if (rcm_rank(comm) == 0 && status == RCM_OK)
            status = rcm_broadcast(comm, b, n, RCM_FLOAT32, 0, NULL, &works[1]);
        if (status == RCM_OK)
            status = rcm_work_wait(works[0], 10000);
        CHECK(errors, status == RCM_OK, "round %d: the first broadcast: %s", round,
              rcm_status_name(status));
        if (rcm_rank(comm) == 0)
            status = rcm_send(comm, &token, 1, RCM_INT32, 1, 0, NULL, NULL);
        else
            status = rcm_recv(comm, &token, 1, RCM_INT32, 0, 0, NULL, NULL);
        CHECK(errors, status == RCM_OK, "%s", rcm_last_error());
        if (rcm_rank(comm) == 0)
            status = rcm_work_wait(works[1], 10000);
        else
            status = rcm_broadcast(comm, b, n, RCM_FLOAT32, 0, NULL, NULL);
        CHECK(errors, status == RCM_OK, "round %d: the second broadcast: %s", round,
              rcm_status_name(status));
        rcm_work_free(works[0]);
        rcm_work_free(works[1]);
        errors +=
            data_check(a, n, round, 0, "the first") + data_check(b, n, round + 1, 0, "the second");
    }
    CHECK(errors, rcm_mem_free(comm, second) == RCM_OK, "%s", rcm_last_error());
    free(first);
    return errors;
}

static int overlap_run(struct ranks *ranks) {
    return ranks_run(ranks, check_overlap, NULL);
}

static const struct kase {
    const char *name;
    int (*run)(struct ranks *ranks);
} kases[] = {
    {"all", all_run},
    {"blocks", blocks_run},
    {"kept", kept_run},
    {"kept-refused", kept_refused_run},
    {"never", never_run},
    {"refused", refused_run},
    {"refused-small", refused_small_run},
    {"unhelped", unhelped_run},
    {"given-up", given_up_run},
    {"stopped", stopped_run},
    {"absent", absent_run},
    {"probes", probes_run},
    {"differ", differ_run},
    {"overlap", overlap_run},
};

int main(int argc, char **argv) {
    struct ranks ranks = {.n = 2, .transport = "shm", .timeout_ms = 20000};
    if (argc != 3)
        return 2;
    ranks.threads = strcmp(argv[2], "threads") == 0;
    setenv("RINGCOMM_PROTOCOL", "get=always", 1);
    for (size_t i = 0; i < sizeof kases / sizeof kases[0]; i++)
        if (strcmp(argv[1], kases[i].name) == 0)
            return kases[i].run(&ranks) != 0;
    return 2;
}
