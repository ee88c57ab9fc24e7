/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that move blocks or reduce, by every algorithm that supports the call:
 *
 *     blocks TRANSPORT threads|processes RANKS [HOSTS]
 *
 * Compares every element on every rank: in place and not, odd counts and offsets, zero elements,
 * all roots, blocking and asynchronous. Memory outside the output must not change. Then wrong
 * arguments, and ranks whose calls differ. With HOSTS, ranks are dealt round over that many
 * simulated hosts. Buffers are in the memory kind that the program is linked with
 * (buffer_memory.h).
 */
#include "buffer_memory.h"
#include "ranks.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 3, POISON = -77 };
/* From MANY_RANKS ranks on, at most MUCH elements: many slots, and beyond all thresholds. */
enum { MANY_RANKS = 4, MUCH = 13001 };

/* A collective and the shape of its buffers. */
struct op {
    enum rcm_collective collective;
    const char *name;
    bool in_many, out_many; /* p blocks; else one */
    bool in_at_root, out_at_root, sums;
    enum rcm_contributors contributors;
};

static const struct op ops[] = {
    {RCM_REDUCE, "reduce", false, false, false, true, true, RCM_CONTRIBUTORS_ALL},
    {RCM_SCATTER, "scatter", true, false, true, false, false, RCM_CONTRIBUTORS_ALL},
    {RCM_GATHER, "gather", false, true, false, true, false, RCM_CONTRIBUTORS_ALL},
    {RCM_ALL_GATHER, "all_gather", false, true, false, false, false, RCM_CONTRIBUTORS_ALL},
    {RCM_REDUCE_SCATTER, "reduce_scatter", true, false, false, false, true, RCM_CONTRIBUTORS_ALL},
    {RCM_ALL_TO_ALL, "all_to_all", true, true, false, false, false, RCM_CONTRIBUTORS_ALL},
    {RCM_SCAN, "scan", false, false, false, false, true, RCM_CONTRIBUTORS_UP_TO},
    {RCM_EXSCAN, "exscan", false, false, false, false, true, RCM_CONTRIBUTORS_BEFORE},
};
enum { OPS = sizeof(ops) / sizeof(ops[0]) };

struct problem {
    const struct op *op;
    int p, rank, root;
    size_t count;
    bool in_place;
    int round;
    bool average;
};

static rcm_op reduction(const struct problem *t) {
    return t->average ? RCM_AVG : RCM_SUM;
}

/* In half of the rounds, if the collective supports RCM_AVG. */
static bool averages(const struct op *op, int round) {
    return op->sums && op->contributors == RCM_CONTRIBUTORS_ALL && round / 2 % 2 == 0;
}

static rcm_status op_call(const struct problem *t, rcm_comm *comm, const void *in, void *out,
                          const struct rcm_call *call, rcm_work **ret_work) {
    switch (t->op->collective) {
    case RCM_REDUCE:
        return rcm_reduce(comm, in, out, t->count, RCM_INT64, reduction(t), t->root, call,
                          ret_work);
    case RCM_SCATTER:
        return rcm_scatter(comm, in, out, t->count, RCM_INT64, t->root, call, ret_work);
    case RCM_GATHER:
        return rcm_gather(comm, in, out, t->count, RCM_INT64, t->root, call, ret_work);
    case RCM_ALL_GATHER:
        return rcm_all_gather(comm, in, out, t->count, RCM_INT64, call, ret_work);
    case RCM_REDUCE_SCATTER:
        return rcm_reduce_scatter(comm, in, out, t->count, RCM_INT64, reduction(t), call, ret_work);
    case RCM_SCAN:
        return rcm_scan(comm, in, out, t->count, RCM_INT64, reduction(t), call, ret_work);
    case RCM_EXSCAN:
        return rcm_exscan(comm, in, out, t->count, RCM_INT64, reduction(t), call, ret_work);
    default:
        return rcm_all_to_all(comm, in, out, t->count, RCM_INT64, call, ret_work);
    }
}

static int64_t input(const struct problem *t, int rank, size_t i) {
    const int64_t value = (int64_t)(i * 2654435761u % 100003) * 64 + rank * 7 + t->round;
    return i % 2 ? -value : value;
}

/* Sum of element i over the inputs of ranks 0 to n-1. */
static int64_t sum_of_inputs(const struct problem *t, int n, size_t i) {
    const int64_t ranks = (i % 2 ? -7 : 7) * (int64_t)n * (n - 1) / 2;
    return n * input(t, 0, i) + ranks;
}

/* The number n of contributors to this rank's sum: ranks 0 to n-1. */
static int contributors(const struct problem *t) {
    return t->op->contributors == RCM_CONTRIBUTORS_UP_TO    ? t->rank + 1
           : t->op->contributors == RCM_CONTRIBUTORS_BEFORE ? t->rank
                                                            : t->p;
}

static size_t in_len(const struct problem *t) {
    if (t->op->in_at_root && t->rank != t->root)
        return 0;
    return t->op->in_many ? t->count * (size_t)t->p : t->count;
}

static size_t out_len(const struct problem *t) {
    if ((t->op->out_at_root && t->rank != t->root) || contributors(t) == 0)
        return 0;
    return t->op->out_many ? t->count * (size_t)t->p : t->count;
}

static int64_t expected(const struct problem *t, size_t i) {
    const size_t own = (size_t)t->rank * t->count;
    int64_t sum;
    switch (t->op->collective) {
    case RCM_SCATTER:
        return input(t, t->root, own + i);
    case RCM_GATHER:
    case RCM_ALL_GATHER:
        return input(t, (int)(i / t->count), i % t->count);
    case RCM_ALL_TO_ALL:
        return input(t, (int)(i / t->count), own + i % t->count);
    default:
        sum = sum_of_inputs(t, contributors(t), t->op->in_many ? own + i : i);
        return t->average ? sum / t->p : sum; /* C truncates too */
    }
}

/* One allocation with both buffers of a rank and guards around them. */
struct buffers {
    int64_t *memory, *in, *out;
    int64_t *view; /* memory, as the CPU sees it */
    size_t len;
};

/* In place, either buffer may lie in the other. */
static size_t room_for(const struct problem *t, bool many) {
    return many || (t->in_place && (t->op->in_many || t->op->out_many)) ? t->count * (size_t)t->p
                                                                        : t->count;
}

static struct buffers buffers_make(const struct problem *t) {
    struct buffers b;
    const size_t in_room = room_for(t, t->op->in_many);
    b.len = in_room + room_for(t, t->op->out_many) + 3 * GUARD;
    b.memory = mem_new(b.len * sizeof(*b.memory));
    b.view = mem_view(b.memory);
    for (size_t i = 0; i < b.len; i++)
        b.view[i] = POISON;
    b.in = b.memory + GUARD;
    b.out = b.in + in_room + GUARD;
    if (t->in_place && t->op->in_many == t->op->out_many)
        b.out = b.in;
    else if (t->in_place && t->op->in_many)
        b.out = b.in + (size_t)t->rank * t->count;
    else if (t->in_place)
        b.in = b.out + (size_t)t->rank * t->count;
    for (size_t i = 0; i < in_len(t); i++)
        b.view[(size_t)(b.in - b.memory) + i] = input(t, t->rank, i);
    return b;
}

static bool inside(const int64_t *at, const int64_t *buffer, size_t len) {
    return at >= buffer && at < buffer + len;
}

/* The result is right, the input unchanged, and nothing else written. */
static int buffers_check(const struct problem *t, const struct buffers *b, const char *algorithm) {
    int errors = 0;
    CHECK(errors, mem_in_use(b->memory, b->len * sizeof(*b->memory)) == 0,
          "%s (%s) is complete, but its buffers are in use", t->op->name, algorithm);
    for (size_t i = 0; i < b->len && errors == 0; i++) {
        const int64_t *at = b->memory + i;
        int64_t want = POISON;
        if (inside(at, b->out, out_len(t)))
            want = expected(t, (size_t)(at - b->out));
        else if (t->in_place && out_len(t) > 0 && inside(at, b->in, in_len(t)))
            continue; /* may be used as scratch */
        else if (inside(at, b->in, in_len(t)))
            want = input(t, t->rank, (size_t)(at - b->in));
        CHECK(errors, b->view[i] == want,
              "%s (%s), %d ranks, root %d, count %zu, in place %d: rank %d, element %zu is %lld, "
              "not %lld",
              t->op->name, algorithm, t->p, t->root, t->count, t->in_place, t->rank, i,
              (long long)b->view[i], (long long)want);
    }
    return errors;
}

static int run(rcm_comm *comm, const struct problem *t, const char *algorithm, bool async) {
    struct rcm_call call = RCM_CALL_INIT;
    struct buffers b = buffers_make(t);
    const void *in = in_len(t) > 0 ? b.in : NULL;
    void *out = out_len(t) > 0 || t->round % 4 == 0 ? b.out : NULL; /* empty: NULL in some rounds */
    rcm_work *work = NULL;
    int errors = 0;
    call.algorithm = algorithm;
    rcm_status status = op_call(t, comm, in, out, &call, async ? &work : NULL);
    if (status == RCM_OK && async)
        status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    CHECK(errors, status == RCM_OK, "%s (%s): %s", t->op->name, algorithm, rcm_last_error());
    if (status == RCM_OK)
        errors += buffers_check(t, &b, algorithm);
    mem_free(b.memory);
    return errors;
}

static int run_algorithm(rcm_comm *comm, const struct op *op, const char *algorithm) {
    static const size_t counts[] = {0, 1, 3, 17, 513, 4099, 40001};
    const bool rooted = op->in_at_root || op->out_at_root;
    struct problem t = {.op = op, .p = rcm_size(comm), .rank = rcm_rank(comm)};
    int errors = 0;
    const size_t first = mem_is_host() ? 0 : 1, step = first + 1; /* others are slower */
    for (size_t c = first; c < sizeof(counts) / sizeof(counts[0]) && errors == 0; c += step)
        for (int place = 0; place < 2; place++) {
            t.count = counts[c] < MUCH || t.p < MANY_RANKS ? counts[c] : MUCH;
            t.in_place = place;
            t.average = averages(op, t.round);
            t.root = rooted ? t.round % t.p : 0;
            errors += run(comm, &t, algorithm, t.round % 3 == 2);
            t.round++;
        }
    return errors;
}

static bool algorithm_fits(rcm_comm *comm, const struct op *op, const char *algorithm) {
    struct rcm_call call = RCM_CALL_INIT;
    struct problem t = {.op = op, .p = rcm_size(comm), .rank = rcm_rank(comm)};
    call.algorithm = algorithm;
    return op_call(&t, comm, NULL, NULL, &call, NULL) == RCM_OK;
}

static int check_results(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    for (int i = 0; i < OPS; i++) {
        struct rcm_algorithm_info info;
        errors += run_algorithm(comm, &ops[i], NULL);
        for (size_t a = 0; rcm_algorithm_at(ops[i].collective, a, &info) == RCM_OK; a++)
            if (algorithm_fits(comm, &ops[i], info.name))
                errors += run_algorithm(comm, &ops[i], info.name);
    }
    return errors;
}

/* One operation of each collective in flight at the same time, on the same channels. */
static int check_together(rcm_comm *comm, void *arg) {
    enum { WORKS = 4 * OPS };
    struct problem t[WORKS];
    struct buffers b[WORKS];
    rcm_work *works[WORKS];
    int errors = 0;
    (void)arg;
    for (int i = 0; i < WORKS; i++) {
        t[i] = (struct problem){.op = &ops[i % OPS],
                                .p = rcm_size(comm),
                                .rank = rcm_rank(comm),
                                .root = i % rcm_size(comm),
                                .count = 100 + 331 * (size_t)i,
                                .in_place = i % 5 == 0,
                                .round = i,
                                .average = averages(&ops[i % OPS], i / OPS)};
        b[i] = buffers_make(&t[i]);
        CHECK(errors, op_call(&t[i], comm, b[i].in, b[i].out, NULL, &works[i]) == RCM_OK, "%s: %s",
              t[i].op->name, rcm_last_error());
    }
    for (int i = WORKS - 1; i >= 0 && errors == 0; i--) {
        CHECK(errors, rcm_work_wait(works[i], -1) == RCM_OK, "%s: %s", t[i].op->name,
              rcm_last_error());
        errors += buffers_check(&t[i], &b[i], "together");
    }
    for (int i = 0; i < WORKS; i++) {
        rcm_work_free(works[i]);
        mem_free(b[i].memory);
    }
    return errors;
}

/* All counts as parts of one work. Then no parts, then a wrong part. */
static int check_coalesced_op(rcm_comm *comm, const struct op *op, int round) {
    enum { PARTS = 6 };
    static const size_t counts[PARTS] = {5, 0, 4099, 1, 300, 40001};
    struct problem t[PARTS];
    struct buffers b[PARTS];
    struct rcm_part parts[PARTS];
    rcm_work *work = NULL;
    int errors = 0;
    for (int i = 0; i < PARTS; i++) {
        t[i] =
            (struct problem){.op = op,
                             .p = rcm_size(comm),
                             .rank = rcm_rank(comm),
                             .root = op->in_at_root || op->out_at_root ? round % rcm_size(comm) : 0,
                             .count = counts[i],
                             .in_place = i % 3 == 2,
                             .round = round + i,
                             .average = averages(op, round)};
        b[i] = buffers_make(&t[i]);
        parts[i] = (struct rcm_part){b[i].in, b[i].out, counts[i], RCM_INT64};
    }
    const bool async = round % 2, rooted = op->in_at_root || op->out_at_root;
    const rcm_op sum = op->sums ? reduction(&t[0]) : (rcm_op)(77 + t[0].rank); /* unused */
    rcm_status status =
        rcm_coalesced(comm, op->collective, parts, PARTS, sum, rooted ? t[0].root : -1 - t[0].rank,
                      NULL, async ? &work : NULL);
    memset(parts, 0xff, sizeof(parts)); /* the call has copied them */
    if (status == RCM_OK && async)
        status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    CHECK(errors, status == RCM_OK, "coalesced %s: %s", op->name, rcm_last_error());
    for (int i = 0; i < PARTS && errors == 0; i++)
        errors += buffers_check(&t[i], &b[i], "coalesced");
    for (int i = 0; i < PARTS; i++)
        mem_free(b[i].memory);
    return errors;
}

static int check_coalesced(rcm_comm *comm, void *arg) {
    int64_t data[3] = {0};
    const struct rcm_part parts[2] = {{data, data, 3, RCM_INT64}, {data, NULL, 3, RCM_INT64}};
    rcm_work *work = NULL;
    int errors = 0;
    (void)arg;
    for (int i = 0; i < OPS; i++)
        for (int round = 0; round < 4; round++)
            errors += check_coalesced_op(comm, &ops[i], 10 * i + round);
    CHECK(errors,
          rcm_coalesced(comm, RCM_ALL_REDUCE, NULL, 0, RCM_SUM, 0, NULL, &work) == RCM_OK &&
              rcm_work_wait(work, -1) == RCM_OK,
          "no parts: %s", rcm_last_error());
    rcm_work_free(work);
    const struct {
        enum rcm_collective collective;
        size_t n;
        const char *words;
    } wrong[] = {{RCM_ALL_REDUCE, 2, "parts[1]: recv is NULL"},
                 {RCM_BARRIER, 1, "collective 3"},
                 {RCM_ALL_TO_ALL_V, 1, "collective 16"},
                 {(enum rcm_collective)99, 1, "collective 99"}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const rcm_status status =
            rcm_coalesced(comm, wrong[i].collective, parts, wrong[i].n, RCM_SUM, 0, NULL, NULL);
        CHECK(errors, status == RCM_ERR_INVALID && strstr(rcm_last_error(), wrong[i].words),
              "%s: %s", wrong[i].words, rcm_last_error());
    }
    return errors;
}

/* With one rank, the result has the bits of the input, whatever they are. */
static int check_alone(rcm_comm *comm, void *arg) {
    static const struct {
        rcm_dtype dtype;
        rcm_op op;
        uint32_t bits;
    } cases[] = {{RCM_FLOAT32, RCM_AVG, 0xff800001}, /* a NaN */
                 {RCM_FLOAT32, RCM_SUM, 0xff800001},
                 {RCM_INT32, RCM_AVG, 0x80000000},
                 {RCM_UINT32, RCM_LAND, 5}};
    int errors = 0;
    (void)arg;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int place = 0; place < 2; place++) {
            uint32_t in = cases[i].bits, out = 0, *result = place ? &in : &out;
            CHECK(errors,
                  rcm_all_reduce(comm, &in, result, 1, cases[i].dtype, cases[i].op, NULL, NULL) ==
                          RCM_OK &&
                      *result == cases[i].bits,
                  "%s alone, in place %d: %#x, not %#x", rcm_op_name(cases[i].op), place,
                  (unsigned)*result, (unsigned)cases[i].bits);
        }
    return errors;
}

/* ---- Rejected arguments ---------------------------------------------------------------------- */

static int refuses(const char *what, rcm_status status, const char *words) {
    int errors = 0;
    CHECK(errors, status == RCM_ERR_INVALID && strstr(rcm_last_error(), words),
          "%s: %s (%s), not one that names %s", what, rcm_status_name(status), rcm_last_error(),
          words);
    return errors;
}

/* A rejected call sends nothing, so all ranks can go on. */
static int check_arguments(rcm_comm *comm, void *arg) {
    int64_t data[64] = {0}, other[64] = {0};
    const int p = rcm_size(comm), rank = rcm_rank(comm);
    int errors = 0;
    (void)arg;
    errors += refuses("reduce", rcm_reduce(comm, data, other, 1, RCM_INT64, RCM_SUM, p, NULL, NULL),
                      "root ");
    errors += refuses("reduce", rcm_reduce(comm, NULL, other, 1, RCM_INT64, RCM_SUM, 0, NULL, NULL),
                      "send is NULL and count is 1");
    errors +=
        refuses("reduce", rcm_reduce(comm, data, NULL, 1, RCM_INT64, RCM_SUM, rank, NULL, NULL),
                "recv is NULL");
    errors += refuses(
        "reduce", rcm_reduce(comm, data, other, 1, RCM_INT64, (rcm_op)99, 0, NULL, NULL), "op 99");
    errors +=
        refuses("scatter", rcm_scatter(comm, data, other, 1, RCM_INT64, -1, NULL, NULL), "root -1");
    errors += refuses("scatter", rcm_scatter(comm, NULL, other, 1, RCM_INT64, rank, NULL, NULL),
                      "send is NULL");
    errors += refuses("gather", rcm_gather(comm, data, NULL, 1, RCM_INT64, rank, NULL, NULL),
                      "recv is NULL");
    errors += refuses("gather", rcm_gather(comm, data, other, 1, (rcm_dtype)77, 0, NULL, NULL),
                      "dtype 77");
    errors += refuses("all_gather",
                      rcm_all_gather(comm, data, other, SIZE_MAX / 8, RCM_INT64, NULL, NULL),
                      "more than memory");
    errors += refuses("scan", rcm_scan(comm, NULL, other, 3, RCM_INT64, RCM_SUM, NULL, NULL),
                      "send is NULL and count is 3");
    errors += refuses("scan", rcm_scan(comm, data, NULL, 3, RCM_INT64, RCM_SUM, NULL, NULL),
                      "recv is NULL and count is 3");
    errors += refuses("scan", rcm_scan(comm, data, data + 1, 3, RCM_INT64, RCM_SUM, NULL, NULL),
                      "overlap, but are not in place");
    errors += refuses("scan", rcm_scan(comm, data, other, 3, (rcm_dtype)77, RCM_SUM, NULL, NULL),
                      "dtype 77");
    errors += refuses("exscan", rcm_exscan(comm, data, other, 3, RCM_INT64, (rcm_op)-1, NULL, NULL),
                      "op -1");
    errors += refuses("exscan",
                      rcm_exscan(comm, data, other, SIZE_MAX / 8, RCM_INT64, RCM_SUM, NULL, NULL),
                      "more than memory");
    errors += refuses("exscan", rcm_exscan(comm, NULL, other, 3, RCM_INT64, RCM_SUM, NULL, NULL),
                      "send is NULL and count is 3");
    if (rank > 0)
        errors += refuses("exscan", rcm_exscan(comm, data, NULL, 3, RCM_INT64, RCM_SUM, NULL, NULL),
                          "recv is NULL and count is 3");
    errors += refuses("all_to_all", rcm_all_to_all(comm, data, NULL, 2, RCM_INT64, NULL, NULL),
                      "recv is NULL and count is");
    if (p > 1)
        errors +=
            refuses("all_to_all", rcm_all_to_all(comm, data, data + 1, 1, RCM_INT64, NULL, NULL),
                    "overlap, but are not in place");
    if (p > 1)
        errors += refuses("reduce_scatter",
                          rcm_reduce_scatter(comm, data, data + (rank + 1) % p, 1, RCM_INT64,
                                             RCM_SUM, NULL, NULL),
                          "overlap, but are not in place");
    errors +=
        refuses("all_gather", rcm_all_gather(NULL, data, other, 1, RCM_INT64, NULL, NULL), "comm");
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    return errors;
}

/* One rank's call differs: every rank gets RCM_ERR_MISMATCH with both calls. */
static int check_mismatch(rcm_comm *comm, void *arg) {
    const int what = *(int *)arg, rank = rcm_rank(comm), p = rcm_size(comm);
    const bool odd = rank == p - 1;
    int64_t in[64] = {0}, out[64] = {0};
    int errors = 0;
    rcm_status status;
    if (what == 0)
        status = rcm_all_gather(comm, in, out, odd ? 3 : 2, RCM_INT64, NULL, NULL);
    else if (what == 1)
        status = odd ? rcm_all_to_all(comm, in, out, 2, RCM_INT64, NULL, NULL)
                     : rcm_all_gather(comm, in, out, 2, RCM_INT64, NULL, NULL);
    else
        status = rcm_gather(comm, in, out, 2, RCM_INT64, odd ? 1 : 0, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    CHECK(errors, status == RCM_ERR_MISMATCH, "rank %d: %s (%s)", rank, rcm_status_name(status),
          rcm_last_error());
    CHECK(errors, strstr(rcm_last_error(), what == 2 ? "to rank 1" : " of 2 int64"), "rank %d: %s",
          rank, rcm_last_error());
    CHECK(errors, rcm_destroy(comm) != RCM_OK, "rcm_destroy returned RCM_OK after a mismatch");
    return errors;
}

static int hosts;

static void deal_host(int rank) {
    char id[16];
    snprintf(id, sizeof id, "h%d", rank % hosts);
    setenv("RINGCOMM_HOST_ID", id, 1);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: blocks TRANSPORT threads|processes RANKS [HOSTS]\n");
        return 2;
    }
    mem_init();
    struct ranks ranks = {
        .n = atoi(argv[3]), .threads = strcmp(argv[2], "threads") == 0, .transport = argv[1]};
    hosts = argc > 4 ? atoi(argv[4]) : 1;
    if (hosts > 1)
        ranks.before = deal_host;
    setenv("RINGCOMM_SLOT_BYTES", "4096", 0);
    int errors = ranks_run(&ranks, check_results, NULL);
    errors += ranks_run(&ranks, check_together, NULL);
    errors += ranks_run(&ranks, check_coalesced, NULL);
    if (!mem_is_host())
        return errors ? 1 : 0;
    errors += ranks_run(&ranks, check_arguments, NULL);
    if (ranks.n == 1)
        errors += ranks_run(&ranks, check_alone, NULL);
    ranks.keep = true;
    setenv("RINGCOMM_LOG", "error", 0);
    for (int what = 0; what < 3 && ranks.n > 1; what++)
        errors += ranks_run(&ranks, check_mismatch, &what);
    return errors ? 1 : 0;
}
