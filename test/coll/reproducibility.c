/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reduction has the same bits in every run of the same call. If all ranks get the result, all
 * have the same bits: reproducibility TRANSPORT RANKS [HOSTS]
 *
 * Two sets of processes run one after the other, the second on an overloaded machine. They make the
 * same calls by every algorithm that supports them, and store hashes of their results. Each set
 * makes the calls differently: blocking or not, in place or not, with buffers at other addresses.
 * The elements make another order of the sum visible in the bits.
 */
#include "ranks.h"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS = 2, CASES_MAX = 400, RANKS_MAX = 16, ALIGN = 64, BUSY_MAX = 16 };

static const enum rcm_collective reductions[] = {RCM_ALL_REDUCE, RCM_REDUCE, RCM_REDUCE_SCATTER,
                                                 RCM_SCAN,       RCM_EXSCAN, RCM_REDUCE_SCATTER_V};
enum { REDUCTIONS = sizeof(reductions) / sizeof(reductions[0]) };

/* The hashes of both sets, in memory shared with this process. */
struct results {
    uint64_t hash[RUNS][CASES_MAX][RANKS_MAX]; /* 0: the rank has no result */
    char name[CASES_MAX][120];
    bool everywhere[CASES_MAX]; /* all ranks have the same result */
    int ncases;
};
static struct results *results;
static int run_number;

struct problem {
    enum rcm_collective collective;
    const char *name, *algorithm; /* NULL: by cost */
    int p, rank, root;
    size_t count; /* per block; with unequal blocks, of the longest */
    rcm_dtype dtype;
};

/* Form of a call. */
struct way {
    bool in_place, async, odd;
};
static const struct way ways[RUNS][2] = {
    {{.in_place = false}, {.in_place = true, .async = true, .odd = true}},
    {{.async = true, .odd = true}, {.in_place = true}},
};

/* ---- Data ---------------------------------------------------------------------------------- */

/* Values of many magnitudes and both signs. */
static double element(int rank, size_t i) {
    uint64_t x = ((uint64_t)rank << 32 | (uint64_t)i) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    const double fraction = (double)(x >> 40) / 3.0, scale = (double)(1u << (x & 15));
    return x & 16 ? fraction * scale : -fraction / scale;
}

static void element_put(void *buffer, rcm_dtype dtype, size_t i, double value) {
    if (dtype == RCM_FLOAT32)
        ((float *)buffer)[i] = (float)value;
    else
        ((double *)buffer)[i] = value;
}

static uint64_t hash_of(const void *bytes, size_t len) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash ? hash : 1;
}

/* Checks that another order would show: sums all ranks in order and in reverse. */
static int check_order_shows(int p) {
    int errors = 0;
    float up[1000] = {0}, down[1000] = {0};
    for (size_t i = 0; i < 1000; i++)
        for (int r = 0; r < p; r++) {
            up[i] += (float)element(r, i);
            down[i] += (float)element(p - 1 - r, i);
        }
    CHECK(errors, p < 3 || hash_of(up, sizeof(up)) != hash_of(down, sizeof(down)),
          "the sum of %d ranks does not depend on the order", p);
    return errors;
}

/* ---- A call -------------------------------------------------------------------------------- */

static bool in_blocks(const struct problem *t) {
    return t->collective == RCM_REDUCE_SCATTER || t->collective == RCM_REDUCE_SCATTER_V;
}

static size_t block_count(const struct problem *t, int rank) {
    return t->collective == RCM_REDUCE_SCATTER_V ? t->count * (size_t)(rank % 3) / 2 : t->count;
}

static size_t block_first(const struct problem *t, int rank) {
    size_t first = 0;
    for (int r = 0; r < rank; r++)
        first += block_count(t, r);
    return first;
}

static size_t out_count(const struct problem *t) {
    const bool none = (t->collective == RCM_REDUCE && t->rank != t->root) ||
                      (t->collective == RCM_EXSCAN && t->rank == 0);
    return none ? 0 : block_count(t, t->rank);
}

static rcm_status call_v(const struct problem *t, rcm_comm *comm, const void *in, void *out,
                         const struct rcm_call *call, rcm_work **ret_work) {
    size_t counts[RANKS_MAX];
    for (int r = 0; r < t->p; r++)
        counts[r] = block_count(t, r);
    return rcm_reduce_scatter_v(comm, in, counts, NULL, out, counts[t->rank], t->dtype, RCM_SUM,
                                call, ret_work);
}

static rcm_status call_it(const struct problem *t, rcm_comm *comm, const void *in, void *out,
                          const struct rcm_call *call, rcm_work **ret_work) {
    switch (t->collective) {
    case RCM_ALL_REDUCE:
        return rcm_all_reduce(comm, in, out, t->count, t->dtype, RCM_SUM, call, ret_work);
    case RCM_REDUCE:
        return rcm_reduce(comm, in, out, t->count, t->dtype, RCM_SUM, t->root, call, ret_work);
    case RCM_REDUCE_SCATTER:
        return rcm_reduce_scatter(comm, in, out, t->count, t->dtype, RCM_SUM, call, ret_work);
    case RCM_SCAN:
        return rcm_scan(comm, in, out, t->count, t->dtype, RCM_SUM, call, ret_work);
    case RCM_EXSCAN:
        return rcm_exscan(comm, in, out, t->count, t->dtype, RCM_SUM, call, ret_work);
    default:
        return call_v(t, comm, in, out, call, ret_work);
    }
}

static void *buffer_make(size_t count, const struct way *way) {
    char *buffer = aligned_alloc(ALIGN, (count + ALIGN) * sizeof(double) / ALIGN * ALIGN + ALIGN);
    if (!buffer)
        abort();
    return buffer + (way->odd ? sizeof(double) : 0);
}

static void buffer_free(void *buffer, const struct way *way) {
    free((char *)buffer - (way->odd ? sizeof(double) : 0));
}

/* Makes the call and returns the hash of the rank's result, 0 if it has none. */
static rcm_status hash_it(const struct problem *t, rcm_comm *comm, const struct way *way,
                          uint64_t *ret_hash) {
    const size_t size = rcm_dtype_size(t->dtype);
    const size_t total = in_blocks(t) ? block_first(t, t->p) : t->count;
    char *in = buffer_make(total, way), *out = buffer_make(t->count, way);
    char *result = way->in_place ? in + (in_blocks(t) ? block_first(t, t->rank) * size : 0) : out;
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    call.algorithm = t->algorithm;
    for (size_t i = 0; i < total; i++)
        element_put(in, t->dtype, i, element(t->rank, i));
    rcm_status status = call_it(t, comm, in, result, &call, way->async ? &work : NULL);
    if (status == RCM_OK && way->async)
        status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    *ret_hash = out_count(t) > 0 ? hash_of(result, out_count(t) * size) : 0;
    buffer_free(in, way);
    buffer_free(out, way);
    return status;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

static int do_case(rcm_comm *comm, const struct problem *t, int number) {
    int errors = 0;
    char name[sizeof(results->name[0])];
    snprintf(name, sizeof(name), "%s (%s) of %zu %s", t->name,
             t->algorithm ? t->algorithm : "by cost", t->count, rcm_dtype_name(t->dtype));
    if (t->rank == 0) {
        memcpy(results->name[number], name, sizeof(name));
        results->everywhere[number] = t->collective == RCM_ALL_REDUCE;
        results->ncases = number + 1;
    }
    for (int w = 0; w < 2; w++) {
        uint64_t hash = 0, *first = &results->hash[run_number][number][t->rank];
        CHECK(errors, hash_it(t, comm, &ways[run_number][w], &hash) == RCM_OK, "%s: %s", name,
              rcm_last_error());
        if (w == 0)
            *first = hash;
        CHECK(errors, hash == *first, "%s, run %d: rank %d has other bits in another form of call",
              name, run_number, t->rank);
    }
    return errors;
}

static int do_algorithm(rcm_comm *comm, struct problem t, int *number) {
    static const size_t counts[] = {5, 1027, 30011};
    int errors = 0;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        t.count = counts[c];
        t.dtype = c == 1 ? RCM_FLOAT64 : RCM_FLOAT32;
        t.root = t.collective == RCM_REDUCE ? *number % t.p : 0;
        if (*number == CASES_MAX)
            return errors + 1;
        errors += do_case(comm, &t, (*number)++);
    }
    return errors;
}

static bool algorithm_fits(rcm_comm *comm, const struct problem *t) {
    struct rcm_call call = RCM_CALL_INIT;
    float none;
    call.algorithm = t->algorithm;
    return call_it(t, comm, &none, &none, &call, NULL) == RCM_OK;
}

static const char *collective_name(enum rcm_collective collective) {
    static struct rcm_collective_info info = RCM_COLLECTIVE_INFO_INIT;
    for (size_t i = 0; rcm_collective_at(i, &info) == RCM_OK; i++)
        if (info.collective == collective)
            return info.name;
    return "?";
}

static int do_all(rcm_comm *comm, void *arg) {
    struct rcm_algorithm_info info;
    int errors = 0, number = 0;
    (void)arg;
    for (int i = 0; i < REDUCTIONS; i++) {
        struct problem t = {.collective = reductions[i],
                            .name = collective_name(reductions[i]),
                            .p = rcm_size(comm),
                            .rank = rcm_rank(comm),
                            .dtype = RCM_FLOAT32};
        errors += do_algorithm(comm, t, &number);
        for (size_t a = 0; rcm_algorithm_at(reductions[i], a, &info) == RCM_OK; a++) {
            t.algorithm = info.name;
            if (algorithm_fits(comm, &t))
                errors += do_algorithm(comm, t, &number);
        }
    }
    return errors;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static int busy_start(pid_t *pids) {
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const int n = cpus < 1 ? 1 : cpus > BUSY_MAX ? BUSY_MAX : (int)cpus;
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!nice(5); /* other tests run too */
        alarm(120);
        for (volatile uint64_t turn = 0;; turn++)
            ;
    }
    return n;
}

static void busy_stop(const pid_t *pids, int n) {
    for (int i = 0; i < n; i++)
        if (pids[i] > 0 && kill(pids[i], SIGKILL) == 0)
            waitpid(pids[i], NULL, 0);
}

static int compare_case(int c, int p) {
    int errors = 0;
    for (int r = 0; r < p; r++) {
        const uint64_t hash = results->hash[0][c][r];
        CHECK(errors, hash == results->hash[1][c][r], "%s: rank %d has other bits in another run",
              results->name[c], r);
        CHECK(errors, !results->everywhere[c] || hash == results->hash[0][c][0],
              "%s: rank %d has other bits than rank 0", results->name[c], r);
    }
    return errors;
}

static int hosts;

static void deal_host(int rank) {
    char id[16];
    snprintf(id, sizeof id, "h%d", rank % hosts);
    setenv("RINGCOMM_HOST_ID", id, 1);
}

int main(int argc, char **argv) {
    struct ranks ranks = {.transport = argc > 1 ? argv[1] : "", .n = argc > 2 ? atoi(argv[2]) : 0};
    pid_t pids[BUSY_MAX];
    if (ranks.n < 1 || ranks.n > RANKS_MAX) {
        fprintf(stderr, "usage: reproducibility TRANSPORT RANKS [HOSTS]\n");
        return 2;
    }
    hosts = argc > 3 ? atoi(argv[3]) : 1;
    if (hosts > 1)
        ranks.before = deal_host;
    results =
        mmap(NULL, sizeof(*results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED)
        return 2;
    setenv("RINGCOMM_SLOT_BYTES", "8192", 0);
    int errors = check_order_shows(ranks.n) + ranks_run(&ranks, do_all, NULL);
    run_number = 1;
    const int busy = busy_start(pids);
    errors += ranks_run(&ranks, do_all, NULL);
    busy_stop(pids, busy);
    CHECK(errors, results->ncases >= 3 * REDUCTIONS, "only %d cases", results->ncases);
    for (int c = 0; c < results->ncases; c++)
        errors += compare_case(c, ranks.n);
    printf("%d cases of %d ranks twice\n", results->ncases, ranks.n);
    return errors ? 1 : 0;
}
