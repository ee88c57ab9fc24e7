/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts that their reader copies out of the root's memory. The library calls this file's
 * process_vm_readv, which counts, and fails when it is to, and its process_vm_writev, by which the
 * root helps, which fails too when it is to.
 *   fetch all|kept|auto|never|refused|unhelped|again|given-up|stopped|absent
 *         processes|threads
 */
#include "ranks.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FLOATS = 2500003, MANY = 4 };

/* ---- The call -------------------------------------------------------------------------------- */

static _Atomic long reads, fetched; /* calls, and those that went well */
static _Atomic bool forbidden;      /* by this system */
static long fail_at;                /* the call that fails first; 0: none */
static int fail_errno;              /* 0: it reads less than it was asked to */
static _Atomic bool fail_once;      /* the next one that does not look who the other is */
static _Atomic long unseen_failed;  /* such calls that failed */

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long nto,
                         const struct iovec *from, unsigned long nfrom, unsigned long flags) {
    const long number = atomic_fetch_add(&reads, 1) + 1;
    const bool fails =
        (fail_at && number >= fail_at) || (nto == 1 && atomic_exchange(&fail_once, false));
    atomic_fetch_add(&unseen_failed, fails && nto == 1);
    if (fails && fail_errno) {
        errno = fail_errno;
        return -1;
    }
    const ssize_t got = (ssize_t)syscall(SYS_process_vm_readv, pid, to, nto, from, nfrom, flags);
    if (got < 0 && (errno == EPERM || errno == ENOSYS))
        atomic_store(&forbidden, true);
    size_t all = 0;
    for (unsigned long i = 0; i < nto; i++)
        all += to[i].iov_len;
    if (fails && got == (ssize_t)all) { /* the last byte was not read */
        ((char *)to[nto - 1].iov_base)[to[nto - 1].iov_len - 1] ^= 0x55;
        return got - 1;
    }
    if (fails)
        return got;
    atomic_fetch_add(&fetched, got == (ssize_t)all);
    return got;
}

static _Atomic long writes;  /* calls */
static long write_fails_at;  /* the first one that fails, as all after it; 0: none */
static int write_fail_errno; /* 0: it writes half of what it was asked to */
static _Atomic bool stops;   /* this process, just before the next one */

ssize_t process_vm_writev(pid_t pid, const struct iovec *from, unsigned long nfrom,
                          const struct iovec *to, unsigned long nto, unsigned long flags) {
    const long number = atomic_fetch_add(&writes, 1) + 1;
    const bool fails = write_fails_at && number >= write_fails_at;
    struct iovec there[2] = {to[0], to[1]};
    if (atomic_exchange(&stops, false))
        raise(SIGSTOP);
    if (fails && write_fail_errno) {
        errno = write_fail_errno;
        return -1;
    }
    if (fails)
        there[1].iov_len /= 2;
    return (ssize_t)syscall(SYS_process_vm_writev, pid, from, nfrom, there, nto, flags);
}

/* Does the root write in the end? It does where both ranks have a CPU, and this one, the reader,
 * may read the other. */
static bool root_helps(void) {
    cpu_set_t set;
    return !atomic_load(&forbidden) && sched_getaffinity(0, sizeof set, &set) == 0 &&
           CPU_COUNT(&set) > 1;
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

/* ---- All goes well --------------------------------------------------------------------------- */

/* Uses the channels of the broadcast in other ways, among them such as write into place. */
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

/* Several at once, of which the first one may be fetched. */
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
    static const size_t sizes[] = {2047, 2048,   2049,   4096,   4097,
                                   8192, 100001, 262144, 262147, FLOATS};
    float *plain = malloc(FLOATS * sizeof *plain), *sum = NULL, *shared = NULL;
    int errors = 0;
    (void)arg;
    CHECK(errors,
          rcm_mem_alloc(comm, FLOATS * sizeof *shared, (void **)&shared) == RCM_OK &&
              rcm_mem_alloc(comm, 70000 * sizeof *sum, (void **)&sum) == RCM_OK,
          "%s", rcm_last_error());
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0] && errors == 0; s++)
        for (int round = 0; round < 6 && errors == 0; round++) {
            float *data = round % 3 == 2 ? shared : plain;
            errors += cast(comm, data, sizes[s], round, 1) + cast(comm, data, sizes[s], round, 0);
            errors += others(comm, sum) + several(comm, data == plain ? shared : plain);
            errors += data_check(data, sizes[s], round, 0, "what others did not touch");
        }
    CHECK(errors, atomic_load(&fetched) > 20 || atomic_load(&forbidden), "%ld were fetched",
          atomic_load(&fetched));
    CHECK(errors, rcm_mem_free(comm, sum) == RCM_OK && rcm_mem_free(comm, shared) == RCM_OK, "%s",
          rcm_last_error());
    free(plain);
    return errors;
}

/* A slot that an offer would go to may hold an answer that is not read yet. */
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
            CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "%s", rcm_last_error());
            rcm_work_free(works[k]);
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

/* ---- By measure, and never ------------------------------------------------------------------- */

/* Of 80 broadcasts of one size. */
static int check_reads(rcm_comm *comm, long least, long most) {
    float *data = malloc(60000 * sizeof *data);
    int errors = 0;
    long got = 0;
    for (int round = 0; round < 80; round++) {
        const long before = atomic_load(&fetched);
        errors += cast(comm, data, 60000, round, 0);
        got += atomic_load(&fetched) > before;
    }
    if (rcm_rank(comm) == 1 && !atomic_load(&forbidden))
        CHECK(errors, got >= least && got <= most, "%ld of 80 broadcasts were fetched", got);
    free(data);
    return errors;
}

static int check_auto(rcm_comm *comm, void *arg) {
    (void)arg;
    return check_reads(comm, 1, 79);
}

static int check_never(rcm_comm *comm, void *arg) {
    (void)arg;
    return check_reads(comm, 0, 0);
}

/* ---- It cannot be fetched any more ----------------------------------------------------------- */

static int check_refused(rcm_comm *comm, void *arg) {
    float *data = malloc(FLOATS * sizeof *data);
    int errors = 0;
    (void)arg;
    for (int round = 0; round < 8; round++)
        errors += cast(comm, data, 800003, round, 0) + cast(comm, data, 20011, round, 0);
    if (rcm_rank(comm) == 1)
        /* A read without a look who that is is done once more, with one. */
        CHECK(errors,
              atomic_load(&reads) == fail_at + atomic_load(&unseen_failed) ||
                  atomic_load(&forbidden),
              "%ld were tried, number %ld failed", atomic_load(&reads), fail_at);
    free(data);
    return errors;
}

/* All is there, though the root writes nothing of it any more, or only a part. */
static int check_unhelped(rcm_comm *comm, void *arg) {
    float *data = malloc(FLOATS * sizeof *data);
    int errors = 0;
    (void)arg;
    for (int round = 0; round < 8; round++)
        errors += cast(comm, data, FLOATS, round, 0) + cast(comm, data, 60011, round, 0);
    int64_t tried = atomic_load(&writes);
    CHECK(errors, rcm_broadcast(comm, &tried, 1, RCM_INT64, 0, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, tried > 0 || rcm_rank(comm) == 0 || !root_helps(), "the root wrote nothing");
    free(data);
    return errors;
}

/* A read that went wrong without a look is done again with one, and all go on to be fetched. */
static int check_again(rcm_comm *comm, void *arg) {
    enum { CASTS = 3000, MORE = 20 };
    float *data = malloc(FLOATS * sizeof *data);
    int32_t failed = 0, any = 0;
    int errors = 0;
    (void)arg;
    for (int round = 0; round < 10; round++)
        errors += cast(comm, data, 2053, round, 0);
    atomic_store(&fail_once, rcm_rank(comm) == 1);
    for (int round = 0; round < CASTS && !any && errors == 0; round++) {
        errors += cast(comm, data, 2053, round, 0);
        failed = rcm_rank(comm) == 1 && !atomic_load(&fail_once);
        CHECK(errors,
              rcm_all_reduce(comm, &failed, &any, 1, RCM_INT32, RCM_MAX, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
    }
    CHECK(errors, any || atomic_load(&forbidden) || rcm_rank(comm) == 0,
          "none of %d was read without a look", CASTS);
    const long before = atomic_load(&fetched);
    for (int round = 0; round < MORE; round++)
        errors += cast(comm, data, 2053, round, 0);
    if (rcm_rank(comm) == 1)
        CHECK(errors, atomic_load(&fetched) >= before + MORE || atomic_load(&forbidden),
              "%ld of %d were fetched after one failure", atomic_load(&fetched) - before, MORE);
    free(data);
    return errors;
}

/* ---- The root gives up, or waits ------------------------------------------------------------- */

/* Rank 1 is stopped while the root gives up and writes its vector anew: it does not get that. */
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
        CHECK(errors, atomic_load(&fetched) > 0 || atomic_load(&forbidden), "nothing was fetched");
        raise(SIGSTOP);
        const rcm_status status = rcm_broadcast(comm, data, n, RCM_FLOAT32, 0, NULL, NULL);
        CHECK(errors, status == RCM_ERR_ABORTED, "%s", rcm_status_name(status));
    } else {
        ranks_await_stopped(pid);
        (void)!rcm_broadcast(comm, data, n, RCM_FLOAT32, 0, NULL, &work);
        usleep(100000);
        (void)!rcm_abort(comm, "enough");
        CHECK(errors, rcm_work_wait(work, -1) == RCM_ERR_ABORTED,
              "it went well without its reader");
        memset(data, 2, n * sizeof *data);
        kill(pid, SIGCONT);
    }
    rcm_work_free(work);
    (void)!rcm_destroy(comm);
    free(data);
    return errors;
}

/* The root is stopped when it is about to write a piece, for longer than its reader waits, and goes
 * on when that has its memory back: it does not write there any more. */
static int check_stopped(rcm_comm *comm, void *arg) {
    enum { ROUNDS = 50 }; /* at most: a root that has no time does not help */
    float *data = malloc(FLOATS * sizeof *data);
    struct rcm_call call = RCM_CALL_INIT;
    rcm_status status = RCM_OK;
    int32_t pid = (int32_t)getpid();
    int errors = cast(comm, data, FLOATS, 0, 0);
    (void)arg;
    CHECK(errors, rcm_broadcast(comm, &pid, 1, RCM_INT32, 0, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    call.timeout_ms = 1000;
    atomic_store(&stops, rcm_rank(comm) == 0);
    for (int round = 0; round < ROUNDS && status == RCM_OK; round++)
        status = rcm_broadcast(comm, data, FLOATS, RCM_FLOAT32, 0, &call, NULL);
    CHECK(errors, status != RCM_OK || rcm_rank(comm) == 0 || !root_helps(),
          "the root was not stopped: it never wrote");
    if (status != RCM_OK && rcm_rank(comm) == 1) {
        const unsigned char *bytes = (const unsigned char *)data;
        CHECK(errors, status == RCM_ERR_TIMEOUT, "%s", rcm_status_name(status));
        memset(data, 0xee, FLOATS * sizeof *data);
        kill(pid, SIGCONT);
        usleep(200000);
        for (size_t i = 0; i < FLOATS * sizeof *data && errors == 0; i++)
            CHECK(errors, bytes[i] == 0xee, "byte %zu was written after the broadcast had failed",
                  i);
    }
    (void)!rcm_destroy(comm);
    free(data);
    return errors;
}

/* Who never comes is named. */
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

static int refusals_run(const struct ranks *ranks) {
    static const struct {
        long at;
        int error;
    } failures[] = {{1, EPERM}, {2, EPERM}, {5, EFAULT}, {3, 0}, {6, 0}};
    int errors = 0;
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        fail_at = failures[i].at;
        fail_errno = failures[i].error;
        errors += ranks_run(ranks, check_refused, NULL);
    }
    return errors;
}

static int unhelped_run(const struct ranks *ranks) {
    static const struct {
        long at;
        int error;
    } failures[] = {{1, EPERM}, {2, EFAULT}, {1, 0}, {9, 0}};
    int errors = 0;
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        write_fails_at = failures[i].at;
        write_fail_errno = failures[i].error;
        errors += ranks_run(ranks, check_unhelped, NULL);
    }
    return errors;
}

static const struct kase {
    const char *name;
    int (*fn)(rcm_comm *comm, void *arg);
    const char *fetch;
    bool keep;
    int runs;
} kases[] = {
    {"all", check_all, "always", false, 1},          {"kept", check_kept, "always", false, 1},
    {"auto", check_auto, "auto", false, 1},          {"never", check_never, "never", false, 1},
    {"given-up", check_given_up, "always", true, 3}, {"absent", check_absent, "always", true, 1},
    {"stopped", check_stopped, "always", true, 2},   {"again", check_again, "always", false, 1},
};

int main(int argc, char **argv) {
    struct ranks ranks = {.n = 2, .transport = "shm", .timeout_ms = 20000};
    int errors = 0;
    if (argc != 3)
        return 2;
    ranks.threads = strcmp(argv[2], "threads") == 0;
    setenv("RINGCOMM_FETCH", "always", 1);
    if (strcmp(argv[1], "refused") == 0)
        return refusals_run(&ranks) != 0;
    if (strcmp(argv[1], "unhelped") == 0)
        return unhelped_run(&ranks) != 0;
    if (strcmp(argv[1], "kept") == 0) /* both by one channel */
        setenv("RINGCOMM_ALGORITHM", "all_reduce=two_shot,broadcast=binomial", 1);
    for (size_t i = 0; i < sizeof kases / sizeof kases[0]; i++) {
        if (strcmp(argv[1], kases[i].name) != 0)
            continue;
        setenv("RINGCOMM_FETCH", kases[i].fetch, 1);
        ranks.keep = kases[i].keep;
        for (int run = 0; run < kases[i].runs && errors == 0; run++)
            errors = ranks_run(&ranks, kases[i].fn, NULL);
        return errors != 0;
    }
    return 2;
}
