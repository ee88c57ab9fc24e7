/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of one machine that do not all have the same transports, or cannot use one that they have:
 *
 *     mixed_transports CASE RANKS ODD[,ODD...]
 *
 *   lacks      the odd ranks have no shared memory: their system refuses memory files
 *   tcp-first  the same, and TCP is preferred; both cases also run all other collectives
 *   shrink-N   as lacks; then rank N dies, and the others go on in a new communicator
 *   detour     all have shared memory, but Unix connections to and from the odd ranks are refused,
 *              so pairs with an odd rank use TCP
 *   channel    the same, but refused only after rcm_init has found that all share memory, when a
 *              channel with several readers opens: an error with the reason
 *   files-N    the odd ranks' files are limited to N bytes (RLIMIT_FSIZE): nothing, the head, part
 *              of the first channel, part of all channels
 *   fds        the odd ranks may open as many descriptors as TCP links need
 *   refused    files-0, and only shm is allowed: rcm_init fails on all ranks with that reason
 *   apart      the odd ranks are on another host, and only shm is allowed: likewise
 *   later      the limit is set when links are up: an error that names the rank, and stays
 *
 * All operations are checked with every algorithm that these ranks can use. The library calls this
 * file's memfd_create and connect, which fail on request.
 *
 * Not tested here: ranks that may not read each other's memory (get.c).
 */
#include "../fault/workload.h"
#include "ranks.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- Refused system calls -------------------------------------------------------------------- */

enum { RANKS_MAX = 16 };

static bool odd[RANKS_MAX];        /* set before ranks start */
static bool no_memory, no_sockets; /* for the odd ranks; set before ranks start */
static _Atomic int refused;        /* number of refused calls of this process */

static bool this_is_odd(void) {
    const char *rank = getenv("RINGCOMM_RANK");
    return rank && odd[atoi(rank) % RANKS_MAX];
}

int memfd_create(const char *name, unsigned flags) {
    if (no_memory && this_is_odd()) {
        atomic_fetch_add(&refused, 1);
        errno = ENOSYS;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

/* True for the Unix socket of an odd rank, and on an odd rank for any. */
static bool leads_to_odd(const struct sockaddr_un *addr, socklen_t len) {
    static const char prefix[] = "ringcomm-";
    const size_t before = sizeof(addr->sun_family) + 1 + sizeof(prefix) - 1;
    if (addr->sun_family != AF_UNIX || len <= before ||
        memcmp(addr->sun_path + 1, prefix, sizeof(prefix) - 1) != 0)
        return false;
    return this_is_odd() || odd[atoi(addr->sun_path + sizeof(prefix)) % RANKS_MAX];
}

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t len) {
    const struct sockaddr *addr = address.__sockaddr__;
    struct sockaddr_un name = {.sun_family = addr->sa_family};
    if (addr->sa_family == AF_UNIX)
        memcpy(&name, addr, len < sizeof(name) ? len : sizeof(name));
    if (no_sockets && leads_to_odd(&name, len)) {
        atomic_fetch_add(&refused, 1);
        errno = ECONNREFUSED;
        return -1;
    }
    return (int)syscall(SYS_connect, fd, addr, len);
}

/* ---- Limits of the odd ranks ----------------------------------------------------------------- */

static rlim_t file_bytes; /* set before ranks start */
static int nranks;        /* set before ranks start */

static void limit_to(int resource, rlim_t most) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0)
        abort();
    limit.rlim_cur = most;
    if (setrlimit(resource, &limit) != 0)
        abort();
}

static void limit_files(int rank) {
    (void)rank;
    if (this_is_odd())
        limit_to(RLIMIT_FSIZE, file_bytes);
}

static void move_away(int rank) {
    (void)rank;
    if (this_is_odd() && setenv("RINGCOMM_HOST_ID", "elsewhere", 1) != 0)
        abort();
}

/* Enough for the loop, the listeners, the store and three per TCP link. A shared-memory link needs
 * at least four. */
static void limit_descriptors(int rank) {
    int fds[64], n = 0;
    const int wanted = 10 + 3 * (nranks - 1);
    (void)rank;
    while (n < wanted && (fds[n] = dup(STDIN_FILENO)) >= 0)
        n++;
    if (n < wanted)
        abort();
    const rlim_t most = (rlim_t)fds[n - 1] + 1;
    while (n > 0)
        close(fds[--n]);
    if (this_is_odd())
        limit_to(RLIMIT_NOFILE, most);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static const size_t counts[] = {1, 2, 16, 33, 500, 4096, 16384, 100003, 1 << 20};
enum { COUNTS = sizeof(counts) / sizeof(counts[0]), COUNT_MAX = 1 << 20 };

static float input(int rank, size_t i) {
    return (float)((i * 7 + (size_t)rank * 13) % 101);
}

static float sum_of(int size, size_t i) {
    float sum = 0;
    for (int r = 0; r < size; r++)
        sum += input(r, i);
    return sum;
}

static float *floats(size_t count) {
    float *data = calloc(count, sizeof(*data));
    if (!data)
        abort();
    return data;
}

static rcm_status finish(rcm_status status, rcm_work *work) {
    if (status == RCM_OK && work)
        status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    return status;
}

/* Every second one is asynchronous, every third in place. */
static int check_all_reduce(rcm_comm *comm, const char *algorithm) {
    float *in = floats(COUNT_MAX), *out = floats(COUNT_MAX);
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0;
    call.algorithm = algorithm;
    for (size_t c = 0; c < COUNTS && errors == 0; c++) {
        float *result = c % 3 == 2 ? in : out;
        rcm_work *work = NULL;
        size_t wrong = 0;
        for (size_t i = 0; i < counts[c]; i++) {
            in[i] = input(rcm_rank(comm), i);
            out[i] = -1;
        }
        const rcm_status status = rcm_all_reduce(comm, in, result, counts[c], RCM_FLOAT32, RCM_SUM,
                                                 &call, c % 2 ? &work : NULL);
        CHECK(errors, finish(status, work) == RCM_OK, "rank %d: all_reduce %s of %zu: %s",
              rcm_rank(comm), algorithm ? algorithm : "", counts[c], rcm_last_error());
        for (size_t i = 0; i < counts[c]; i++)
            wrong += result[i] != sum_of(rcm_size(comm), i);
        CHECK(errors, wrong == 0, "rank %d: all_reduce %s of %zu: %zu wrong", rcm_rank(comm),
              algorithm ? algorithm : "", counts[c], wrong);
    }
    free(in);
    free(out);
    return errors;
}

static int check_broadcast(rcm_comm *comm, const char *algorithm) {
    float *data = floats(COUNT_MAX);
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0;
    call.algorithm = algorithm;
    for (size_t k = 0; k < COUNTS * (size_t)rcm_size(comm) && errors == 0; k++) {
        const size_t count = counts[k % COUNTS];
        const int root = (int)(k / COUNTS);
        rcm_work *work = NULL;
        size_t wrong = 0;
        for (size_t i = 0; i < count; i++)
            data[i] = rcm_rank(comm) == root ? input(root, i) : -1;
        const rcm_status status =
            rcm_broadcast(comm, data, count, RCM_FLOAT32, root, &call, k % 2 ? &work : NULL);
        CHECK(errors, finish(status, work) == RCM_OK, "rank %d: broadcast %s of %zu from %d: %s",
              rcm_rank(comm), algorithm ? algorithm : "", count, root, rcm_last_error());
        for (size_t i = 0; i < count; i++)
            wrong += data[i] != input(root, i);
        CHECK(errors, wrong == 0, "rank %d: broadcast %s of %zu from %d: %zu wrong", rcm_rank(comm),
              algorithm ? algorithm : "", count, root, wrong);
    }
    free(data);
    return errors;
}

static int check_barrier(rcm_comm *comm, const char *algorithm) {
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0;
    call.algorithm = algorithm;
    for (int i = 0; i < 20 && errors == 0; i++) {
        rcm_work *work = NULL;
        const rcm_status status = rcm_barrier(comm, &call, i % 2 ? &work : NULL);
        CHECK(errors, finish(status, work) == RCM_OK, "rank %d: barrier %s: %s", rcm_rank(comm),
              algorithm ? algorithm : "", rcm_last_error());
    }
    return errors;
}

static int check_collective(rcm_comm *comm, enum rcm_collective collective, const char *algorithm) {
    return collective == RCM_ALL_REDUCE  ? check_all_reduce(comm, algorithm)
           : collective == RCM_BROADCAST ? check_broadcast(comm, algorithm)
                                         : check_barrier(comm, algorithm);
}

/* By every algorithm that these ranks can use, and by cost. */
static int check_algorithms(rcm_comm *comm) {
    struct rcm_algorithm_info info;
    int errors = 0;
    for (int c = RCM_ALL_REDUCE; c <= RCM_BARRIER; c++) {
        const enum rcm_collective collective = (enum rcm_collective)c;
        errors += check_collective(comm, collective, NULL);
        for (size_t i = 0; errors == 0 && rcm_algorithm_at(collective, i, &info) == RCM_OK; i++)
            if (rcm_comm_prepare(comm, collective, 64, 0, info.name) == RCM_OK)
                errors += check_collective(comm, collective, info.name);
    }
    return errors;
}

/* All pairs in both directions at the same time, also to the own rank. */
static int check_messages(rcm_comm *comm) {
    static const size_t sizes[] = {0, 1, 100, 5000, 70000, 1 << 20};
    const int n = rcm_size(comm);
    int errors = 0;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && errors == 0; s++) {
        const size_t len = sizes[s];
        uint8_t *out = malloc(len + 1), *in = calloc((size_t)n, len + 1);
        rcm_work *works[2 * RANKS_MAX] = {NULL};
        for (size_t i = 0; i < len; i++)
            out[i] = (uint8_t)(i * 31 + (size_t)rcm_rank(comm));
        for (int r = 0; r < n; r++)
            CHECK(errors,
                  rcm_irecv(comm, in + (size_t)r * len, len, RCM_UINT8, r, s, &works[r]) ==
                          RCM_OK &&
                      rcm_isend(comm, out, len, RCM_UINT8, r, s, &works[n + r]) == RCM_OK,
                  "rank %d and %d: %s", rcm_rank(comm), r, rcm_last_error());
        for (int i = 0; i < 2 * n; i++)
            CHECK(errors, finish(RCM_OK, works[i]) == RCM_OK, "rank %d and %d, %zu bytes: %s",
                  rcm_rank(comm), i % n, len, rcm_last_error());
        for (size_t i = 0; i < len * (size_t)n && errors == 0; i++)
            CHECK(errors, in[i] == (uint8_t)(i % len * 31 + i / len),
                  "rank %d: byte %zu of %zu from rank %zu is wrong", rcm_rank(comm), i % len, len,
                  i / len);
        free(out);
        free(in);
    }
    return errors;
}

/* Many in flight, waited for in another order. */
static int check_many(rcm_comm *comm) {
    enum { WORKS = 12, COUNT = 20000 };
    float *data = floats((size_t)WORKS * COUNT);
    rcm_work *works[WORKS] = {NULL};
    int errors = 0;
    size_t wrong = 0;
    for (size_t i = 0; i < (size_t)WORKS * COUNT; i++)
        data[i] = input(rcm_rank(comm), i);
    for (size_t w = 0; w < WORKS; w++)
        CHECK(errors,
              rcm_all_reduce(comm, data + w * COUNT, data + w * COUNT, COUNT, RCM_FLOAT32, RCM_SUM,
                             NULL, &works[w]) == RCM_OK,
              "%s", rcm_last_error());
    for (size_t k = 0; k < WORKS; k++)
        CHECK(errors, finish(RCM_OK, works[k * 5 % WORKS]) == RCM_OK, "%s", rcm_last_error());
    for (size_t i = 0; i < (size_t)WORKS * COUNT; i++)
        wrong += data[i] != sum_of(rcm_size(comm), i);
    CHECK(errors, wrong == 0, "rank %d: %zu of many sums are wrong", rcm_rank(comm), wrong);
    free(data);
    return errors;
}

static int check_all(rcm_comm *comm) {
    return check_algorithms(comm) + check_messages(comm) + check_many(comm);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Without a refused call the case tests nothing. */
static int check_refused(const rcm_comm *comm) {
    int errors = 0;
    if (this_is_odd())
        CHECK(errors, atomic_load(&refused) > 0, "rank %d: no call was refused", rcm_rank(comm));
    return errors;
}

static int check_lacks(rcm_comm *comm, void *arg) {
    (void)arg;
    return check_refused(comm) + check_all(comm) + workload_every(comm);
}

/* Algorithms that need memory shared by a whole host are unsupported where that host has an odd
 * rank. */
static int check_limited(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    CHECK(errors, rcm_comm_prepare(comm, RCM_ALL_REDUCE, 64, 0, "one_shot") == RCM_ERR_UNSUPPORTED,
          "rank %d: the odd ranks share memory", rcm_rank(comm));
    return errors + check_all(comm);
}

/* The odd rank's segment cannot grow. */
static int check_later(rcm_comm *comm, void *arg) {
    struct rcm_error error = RCM_ERROR_INIT;
    float *data = floats(COUNT_MAX);
    rcm_status status = RCM_OK;
    int errors = 0;
    (void)arg;
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    limit_files(rcm_rank(comm));
    for (size_t c = 0; c < COUNTS && status == RCM_OK; c++)
        status = rcm_all_reduce(comm, data, data, counts[c], RCM_FLOAT32, RCM_SUM, NULL, NULL);
    free(data);
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors, status == RCM_ERR_RESOURCE && error.status == RCM_ERR_RESOURCE, "rank %d: %s: %s",
          rcm_rank(comm), rcm_status_name(status), rcm_last_error());
    CHECK(errors, error.origin >= 0 && odd[error.origin], "rank %d: origin %d", rcm_rank(comm),
          error.origin);
    CHECK(errors,
          strstr(error.text, "shared memory for a channel") && strstr(error.text, strerror(EFBIG)),
          "rank %d: %s", rcm_rank(comm), error.text);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_ERR_RESOURCE,
          "rank %d: the error did not stay", rcm_rank(comm));
    (void)!rcm_destroy(comm);
    return errors;
}

static int check_detour(rcm_comm *comm, void *arg) {
    (void)arg;
    return check_refused(comm) + check_all(comm);
}

/* The failing writer is any rank. The others get its error. */
static int check_channel(rcm_comm *comm, void *arg) {
    struct rcm_error error = RCM_ERROR_INIT;
    struct rcm_call call = RCM_CALL_INIT;
    float x = 1, y = 0;
    int errors = 0;
    (void)arg;
    no_sockets = true;
    call.algorithm = "one_shot";
    const rcm_status status = rcm_all_reduce(comm, &x, &y, 1, RCM_FLOAT32, RCM_SUM, &call, NULL);
    CHECK(errors, status == RCM_ERR_SYSTEM, "rank %d: %s: %s", rcm_rank(comm),
          rcm_status_name(status), rcm_last_error());
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors, error.origin >= 0 && error.origin < rcm_size(comm), "rank %d: origin %d",
          rcm_rank(comm), error.origin);
    CHECK(errors,
          strstr(error.text, "readers, and rank ") &&
              (strstr(error.text, strerror(ECONNREFUSED)) || strstr(error.text, "it connected to")),
          "rank %d: %s", rcm_rank(comm), error.text);
    (void)!rcm_destroy(comm);
    return errors;
}

static int check_shrink(rcm_comm *comm, void *arg) {
    const int dies = *(const int *)arg;
    rcm_comm *rest = NULL;
    int errors = check_refused(comm) + check_all_reduce(comm, NULL) + check_messages(comm);
    (void)!rcm_barrier(comm, NULL, NULL); /* may fail on a rank if the dying one leaves first */
    if (rcm_rank(comm) == dies)
        _exit(errors);
    (void)!rcm_barrier(comm, NULL, NULL);
    if (rcm_comm_shrink(comm, NULL, &rest) != RCM_OK) {
        fprintf(stderr, "rank %d: shrink: %s\n", rcm_rank(comm), rcm_last_error());
        return errors + 1;
    }
    CHECK(errors, rcm_size(rest) == rcm_size(comm) - 1, "%d ranks remain", rcm_size(rest));
    errors += check_all(rest);
    CHECK(errors, rcm_destroy(rest) == RCM_OK, "%s", rcm_last_error());
    (void)!rcm_destroy(comm);
    return errors;
}

static void read_odd(const char *list) {
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        odd[atoi(at) % RANKS_MAX] = true;
}

/* The part of the name after the prefix, or NULL if it has another prefix. */
static const char *after(const char *name, const char *prefix) {
    const size_t len = strlen(prefix);
    return strncmp(name, prefix, len) == 0 ? name + len : NULL;
}

static const struct row {
    const char *prefix;
    int (*check)(rcm_comm *, void *);
    void (*before)(int rank);
    bool keep, memory, sockets; /* refused: memory files, Unix connections */
} table[] = {
    {"lacks", check_lacks, NULL, .memory = true},
    {"tcp-first", check_lacks, NULL, .memory = true},
    {"shrink-", check_shrink, NULL, .keep = true, .memory = true},
    {"detour", check_detour, NULL, .sockets = true},
    {"channel", check_channel, NULL, .keep = true},
    {"files-", check_limited, limit_files, .keep = false},
    {"fds", check_limited, limit_descriptors, .keep = false},
    {"refused", check_limited, limit_files, .keep = false},
    {"apart", check_limited, move_away, .keep = false},
    {"later", check_later, NULL, .keep = true},
};

static int row_run(const struct row *row, const char *rest) {
    struct ranks ranks = {
        .n = nranks, .transport = "auto", .keep = row->keep, .before = row->before};
    char refusal[80];
    int dies = atoi(rest), first = 0;
    file_bytes = (rlim_t)atoi(rest);
    no_memory = row->memory;
    no_sockets = row->sockets;
    while (!odd[first])
        first++;
    snprintf(refusal, sizeof refusal, "on rank %d shm cannot be used: ", first);
    if (strcmp(row->prefix, "refused") == 0)
        ranks.refused = refusal;
    if (strcmp(row->prefix, "tcp-first") == 0)
        ranks.transport = "tcp,shm";
    if (strcmp(row->prefix, "apart") == 0)
        ranks.refused = "shm serves ranks 0 and 1, which are on different hosts";
    if (ranks.refused)
        ranks.transport = "shm";
    return ranks_run(&ranks, row->check, &dies) ? 1 : 0;
}

int main(int argc, char **argv) {
    if (argc == 4) {
        nranks = atoi(argv[2]);
        read_odd(argv[3]);
    }
    for (size_t i = 0; argc == 4 && i < sizeof(table) / sizeof(table[0]); i++) {
        const char *rest = after(argv[1], table[i].prefix);
        if (rest)
            return row_run(&table[i], rest);
    }
    fprintf(stderr, "usage: mixed_transports CASE RANKS ODD[,ODD...]\n");
    return 2;
}
