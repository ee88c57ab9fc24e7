/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of opaque elements: opaque TRANSPORT RANKS HOSTS SLOT_BYTES
 *
 * Every collective that reduces, by every algorithm that supports the call, with elements from 1
 * byte to more than a slot. An element contains the set of ranks that contributed, its position,
 * and bytes derived from both. So the operator detects elements that were cut, shifted or combined
 * in the wrong order.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ranks.h"

enum { RANKS_MAX = 8 };
enum way { WAY_BLOCKING, WAY_ASYNC, WAY_PERSISTENT, WAYS };

static const enum rcm_collective reductions[] = {RCM_ALL_REDUCE, RCM_REDUCE, RCM_REDUCE_SCATTER,
                                                 RCM_SCAN,       RCM_EXSCAN, RCM_REDUCE_SCATTER_V};
enum { REDUCTIONS = sizeof(reductions) / sizeof(reductions[0]) };

struct problem {
    rcm_comm *comm;
    enum rcm_collective collective;
    const char *algorithm; /* NULL: by cost */
    int p, rank, root;
    size_t count, bytes, slot; /* elements per block, bytes per element and per slot */
    bool ordered;              /* the operator does not commute */
    rcm_dtype dtype;
    rcm_op op;
    enum way way;
    bool in_place;
};

static const char *problem_name(const struct problem *t) {
    static _Thread_local char name[200];
    snprintf(name, sizeof name,
             "rank %d of %d: collective %d (%s) of %zu elements of %zu bytes, root %d, way %d%s%s",
             t->rank, t->p, (int)t->collective, t->algorithm ? t->algorithm : "by cost", t->count,
             t->bytes, t->root, (int)t->way, t->ordered ? ", ordered" : "",
             t->in_place ? ", in place" : "");
    return name;
}

/* ---- Elements -------------------------------------------------------------------------------- */

/* Ranks first to last, as bits. */
static uint8_t ranks_bits(int first, int last) {
    return (uint8_t)((2u << last) - (1u << first));
}

/* Byte 0 is the set of ranks, bytes 1 and 2 are the position. The others are derived from these. */
static uint8_t element_byte(uint8_t ranks, size_t at, size_t j) {
    if (j == 0)
        return ranks;
    return (uint8_t)(j == 1 ? at : j == 2 ? at >> 8 : ranks * 7 + at * 13 + j * 31 + (j >> 8));
}

static void element_put(uint8_t *element, size_t bytes, uint8_t ranks, size_t at) {
    for (size_t j = 0; j < bytes; j++)
        element[j] = element_byte(ranks, at, j);
}

static bool element_is(const uint8_t *element, size_t bytes, uint8_t ranks, size_t at) {
    for (size_t j = 0; j < bytes; j++)
        if (element[j] != element_byte(ranks, at, j))
            return false;
    return true;
}

/* The position, or 0 for elements too short to contain it. */
static size_t element_at(const uint8_t *element, size_t bytes) {
    return bytes > 2 ? element[1] | (size_t)element[2] << 8 : 0;
}

/* ---- Operator -------------------------------------------------------------------------------- */

struct expectation {
    size_t bytes;
    bool ordered;
    _Atomic size_t calls, wrong, misaligned;
};

/* The sets are disjoint. If the operator is ordered, all of a's ranks precede b's. */
static bool ranks_fit(uint8_t a, uint8_t b, bool ordered) {
    const unsigned before = (unsigned)(b & -b) - 1; /* the ranks before b's first one */
    return a && b && !(a & b) && (!ordered || (a & ~before) == 0);
}

static bool pair_is_whole(const uint8_t *in, const uint8_t *inout,
                          const struct expectation *expected) {
    const size_t n = expected->bytes, at = element_at(in, n);
    if (!ranks_fit(in[0], inout[0], expected->ordered))
        return false;
    return n < 3 || (element_is(in, n, in[0], at) && element_is(inout, n, inout[0], at));
}

static void merge(const void *in, void *inout, size_t count, rcm_dtype dtype, void *context) {
    struct expectation *expected = context;
    const size_t n = expected->bytes, low_bit = n & (0 - n), align = low_bit < 8 ? low_bit : 8;
    atomic_fetch_add(&expected->calls, 1);
    if (rcm_dtype_size(dtype) != n)
        atomic_fetch_add(&expected->wrong, 1);
    if ((uintptr_t)in % align || (uintptr_t)inout % align)
        atomic_fetch_add(&expected->misaligned, 1);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *a = (const uint8_t *)in + i * n;
        uint8_t *b = (uint8_t *)inout + i * n;
        if (!pair_is_whole(a, b, expected))
            atomic_fetch_add(&expected->wrong, 1);
        element_put(b, n, a[0] | b[0], element_at(a, n));
    }
}

/* ---- One call -------------------------------------------------------------------------------- */

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

static size_t in_count(const struct problem *t) {
    return in_blocks(t) ? block_first(t, t->p) : t->count;
}

static size_t out_count(const struct problem *t) {
    const bool none = (t->collective == RCM_REDUCE && t->rank != t->root) ||
                      (t->collective == RCM_EXSCAN && t->rank == 0);
    return none ? 0 : block_count(t, t->rank);
}

static int last_contributor(const struct problem *t) {
    return t->collective == RCM_SCAN     ? t->rank
           : t->collective == RCM_EXSCAN ? t->rank - 1
                                         : t->p - 1;
}

static rcm_status call_v(const struct problem *t, const void *in, void *out,
                         const struct rcm_call *call, rcm_work **ret_work) {
    size_t counts[RANKS_MAX];
    for (int r = 0; r < t->p; r++)
        counts[r] = block_count(t, r);
    return rcm_reduce_scatter_v(t->comm, in, counts, NULL, out, counts[t->rank], t->dtype, t->op,
                                call, ret_work);
}

static rcm_status problem_call(const struct problem *t, const void *in, void *out,
                               const struct rcm_call *call, rcm_work **ret_work) {
    switch (t->collective) {
    case RCM_ALL_REDUCE:
        return rcm_all_reduce(t->comm, in, out, t->count, t->dtype, t->op, call, ret_work);
    case RCM_REDUCE:
        return rcm_reduce(t->comm, in, out, t->count, t->dtype, t->op, t->root, call, ret_work);
    case RCM_REDUCE_SCATTER:
        return rcm_reduce_scatter(t->comm, in, out, t->count, t->dtype, t->op, call, ret_work);
    case RCM_SCAN:
        return rcm_scan(t->comm, in, out, t->count, t->dtype, t->op, call, ret_work);
    case RCM_EXSCAN:
        return rcm_exscan(t->comm, in, out, t->count, t->dtype, t->op, call, ret_work);
    default:
        return call_v(t, in, out, call, ret_work);
    }
}

static rcm_status call_in_some_way(const struct problem *t, const void *in, void *out) {
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    call.algorithm = t->algorithm;
    if (t->way == WAY_PERSISTENT)
        call.flags = RCM_PERSISTENT;
    rcm_status status = problem_call(t, in, out, &call, t->way == WAY_BLOCKING ? NULL : &work);
    if (status == RCM_OK && t->way == WAY_PERSISTENT)
        status = rcm_work_start(work);
    if (status == RCM_OK && work)
        status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    return status;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static size_t result_wrong(const struct problem *t, const uint8_t *result) {
    const size_t first = in_blocks(t) ? block_first(t, t->rank) : 0;
    size_t wrong = 0;
    for (size_t i = 0; i < out_count(t); i++)
        wrong += !element_is(result + i * t->bytes, t->bytes, ranks_bits(0, last_contributor(t)),
                             t->bytes > 2 ? (first + i) & 0xffff : 0);
    return wrong;
}

/* Checks the status for these sizes: elements longer than a slot are unsupported. */
static int check_status(const struct problem *t, rcm_status status, bool *ret_done) {
    const bool one_slot = t->bytes <= t->slot, all_slot = t->bytes * (size_t)t->p <= t->slot;
    const char *text = rcm_last_error();
    int errors = 0;
    *ret_done = status == RCM_OK;
    if (!one_slot) {
        CHECK(errors, status == RCM_ERR_UNSUPPORTED && strstr(text, "longer than a slot of"),
              "%s: %s", problem_name(t), text);
        return errors;
    }
    CHECK(errors, status == RCM_OK || (t->algorithm && status == RCM_ERR_UNSUPPORTED), "%s: %s",
          problem_name(t), text);
    CHECK(errors, status == RCM_OK || !all_slot || !strstr(text, "cannot hold as many"), "%s: %s",
          problem_name(t), text);
    CHECK(errors,
          status == RCM_OK || strstr(text, "cannot hold as many") || strstr(text, "cannot run") ||
              (t->ordered && strstr(text, "not commutative")),
          "%s: %s", problem_name(t), text);
    return errors;
}

static int one_case(struct problem t) {
    struct expectation expected = {.bytes = t.bytes, .ordered = t.ordered};
    const size_t n = in_count(&t), own = in_blocks(&t) ? block_first(&t, t.rank) * t.bytes : 0;
    uint8_t *in = malloc(n * t.bytes + 64), *out = malloc(t.count * t.bytes + 64);
    bool done;
    int errors = 0;
    if (!in || !out)
        abort();
    for (size_t i = 0; i < n; i++)
        element_put(in + i * t.bytes, t.bytes, ranks_bits(t.rank, t.rank),
                    t.bytes > 2 ? i & 0xffff : 0);
    CHECK(errors,
          rcm_op_create(merge, &expected, t.ordered ? 0 : RCM_OP_COMMUTATIVE, "merge", t.dtype,
                        &t.op) == RCM_OK,
          "create: %s", rcm_last_error());
    const rcm_status status = call_in_some_way(&t, in, t.in_place ? in + own : out);
    errors += check_status(&t, status, &done);
    const size_t wrong = done ? result_wrong(&t, t.in_place ? in + own : out) : 0;
    CHECK(errors, wrong == 0, "%s: %zu of %zu are wrong", problem_name(&t), wrong, out_count(&t));
    CHECK(errors, expected.wrong == 0, "%s: %zu operands were invalid", problem_name(&t),
          (size_t)expected.wrong);
    CHECK(errors, expected.misaligned == 0, "%s: %zu calls with odd addresses", problem_name(&t),
          (size_t)expected.misaligned);
    CHECK(errors, rcm_op_free(t.op) == RCM_OK, "free: %s", rcm_last_error());
    free(in);
    free(out);
    return errors;
}

/* A few elements, more than there are chunks, and several slots. */
static int check_algorithm(struct problem t, int *number) {
    const size_t counts[] = {0, 1, 7, 3 * t.slot / t.bytes + 5};
    int errors = 0;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && errors < 5; c++, (*number)++) {
        t.count = counts[c];
        t.in_place = *number / 2 % 2;
        t.root = *number % t.p;
        t.way = (enum way)(*number % WAYS);
        errors += one_case(t);
    }
    return errors;
}

static int check_collective(struct problem t, int *number) {
    struct rcm_algorithm_info info;
    int errors = check_algorithm(t, number);
    for (size_t a = 0; rcm_algorithm_at(t.collective, a, &info) == RCM_OK && errors < 5; a++) {
        t.algorithm = info.name;
        errors += check_algorithm(t, number);
    }
    return errors;
}

static int check_reductions(rcm_comm *comm, size_t slot) {
    static const size_t sizes[] = {1, 3, 12, 24, 100, 4096, 5000};
    struct problem t = {.comm = comm, .p = rcm_size(comm), .rank = rcm_rank(comm), .slot = slot};
    int errors = 0, number = 0;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        t.bytes = sizes[s];
        CHECK(errors, rcm_dtype_opaque(t.bytes, &t.dtype) == RCM_OK, "%s", rcm_last_error());
        for (int i = 0; i < 2 * REDUCTIONS && errors < 5; i++) {
            t.collective = reductions[i / 2];
            t.ordered = i % 2;
            errors += check_collective(t, &number);
        }
    }
    return errors;
}

/* The longest elements. In place, each is a piece of its own. */
static int check_longest(rcm_comm *comm, size_t slot) {
    struct problem t = {.comm = comm,
                        .collective = RCM_ALL_REDUCE,
                        .p = rcm_size(comm),
                        .rank = rcm_rank(comm),
                        .count = 5,
                        .bytes = RCM_OPAQUE_MAX,
                        .slot = slot,
                        .ordered = true};
    int errors = 0;
    CHECK(errors, rcm_dtype_opaque(t.bytes, &t.dtype) == RCM_OK, "%s", rcm_last_error());
    for (int place = 0; place < 2; place++) {
        t.in_place = place;
        errors += one_case(t);
    }
    return errors;
}

/* ---- Other properties of opaque types -------------------------------------------------------- */

/* Collectives that only move data accept elements of any size. */
static int check_moved(rcm_comm *comm) {
    enum { COUNT = 3 };
    const int p = rcm_size(comm), rank = rcm_rank(comm);
    const size_t bytes = 5001;
    uint8_t *mine = malloc(COUNT * bytes), *all = malloc(RANKS_MAX * COUNT * bytes);
    rcm_dtype dtype;
    int errors = 0;
    if (!mine || !all)
        abort();
    CHECK(errors, rcm_dtype_opaque(bytes, &dtype) == RCM_OK, "%s", rcm_last_error());
    for (size_t i = 0; i < COUNT; i++)
        element_put(mine + i * bytes, bytes, ranks_bits(rank, rank), i);
    CHECK(errors, rcm_all_gather(comm, mine, all, COUNT, dtype, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    for (int r = 0; r < p; r++)
        for (size_t i = 0; i < COUNT; i++)
            CHECK(errors,
                  element_is(all + ((size_t)r * COUNT + i) * bytes, bytes, ranks_bits(r, r), i),
                  "all_gather: rank %d's element %zu", r, i);
    const int next = (rank + 1) % p, before = (rank + p - 1) % p;
    CHECK(errors,
          rcm_sendrecv(comm, mine, COUNT, next, 1, all, COUNT, before, 1, dtype, NULL, NULL) ==
              RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, element_is(all + bytes, bytes, ranks_bits(before, before), 1), "sendrecv");
    free(mine);
    free(all);
    return errors;
}

static int check_face(void) {
    rcm_dtype dtype = RCM_INT8, back = RCM_INT8, any;
    int errors = 0;
    CHECK(errors, rcm_dtype_opaque(0, &dtype) == RCM_ERR_INVALID && dtype == RCM_INT8, "0");
    CHECK(errors,
          rcm_dtype_opaque(RCM_OPAQUE_MAX + 1, &dtype) == RCM_ERR_INVALID &&
              strstr(rcm_last_error(), "bytes is 65537: an opaque element has 1 to 65536"),
          "%s", rcm_last_error());
    CHECK(errors, rcm_dtype_opaque(SIZE_MAX, &dtype) == RCM_ERR_INVALID, "SIZE_MAX");
    CHECK(errors, rcm_dtype_opaque(4, NULL) == RCM_ERR_INVALID, "NULL");
    CHECK(errors, rcm_dtype_opaque(12, &dtype) == RCM_OK && rcm_dtype_size(dtype) == 12, "size");
    CHECK(errors, strcmp(rcm_dtype_name(dtype), "opaque12") == 0, "%s", rcm_dtype_name(dtype));
    CHECK(errors, rcm_dtype_from_name("opaque12", &back) == RCM_OK && back == dtype, "name");
    CHECK(errors,
          rcm_dtype_from_name("opaque0", &any) < 0 && rcm_dtype_from_name("opaque", &any) < 0 &&
              rcm_dtype_from_name("opaque12x", &any) < 0 &&
              rcm_dtype_from_name("opaque65537", &any) < 0,
          "names of no types");
    CHECK(errors,
          rcm_op_defined(RCM_SUM, dtype) == RCM_ERR_INVALID &&
              strstr(rcm_last_error(), "sum of opaque12 is not defined: opaque elements support"),
          "%s", rcm_last_error());
    CHECK(errors, rcm_dtype_size(RCM_OPAQUE) == 0, "no bytes");
    return errors;
}

/* Ranks whose element sizes differ are named, as with any other mismatch. */
static int check_mismatch(rcm_comm *world) {
    struct expectation expected = {.bytes = 24};
    uint8_t in[24] = {1}, out[24];
    rcm_comm *comm = NULL;
    rcm_dtype dtype = RCM_ANY_DTYPE;
    rcm_op op = RCM_SUM;
    int errors = 0;
    CHECK(errors,
          rcm_comm_duplicate(world, NULL, &comm) == RCM_OK &&
              rcm_dtype_opaque(rcm_rank(world) == 0 ? 12 : 24, &dtype) == RCM_OK &&
              rcm_op_create(merge, &expected, 0, "merge", RCM_ANY_DTYPE, &op) == RCM_OK,
          "%s", rcm_last_error());
    rcm_status status = rcm_all_reduce(comm, in, out, 1, dtype, op, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    CHECK(errors,
          status == RCM_ERR_MISMATCH && strstr(rcm_last_error(), "opaque12") &&
              strstr(rcm_last_error(), "opaque24"),
          "%s", rcm_last_error());
    (void)!rcm_destroy(comm);
    CHECK(errors, rcm_op_free(op) == RCM_OK, "free: %s", rcm_last_error());
    return errors;
}

static int check_all(rcm_comm *comm, void *arg) {
    const size_t slot = *(const size_t *)arg;
    int errors = check_face() + check_moved(comm) + check_longest(comm, slot);
    errors += check_reductions(comm, slot);
    if (rcm_size(comm) > 1)
        errors += check_mismatch(comm);
    return errors > 100 ? 100 : errors;
}

int main(int argc, char **argv) {
    if (argc != 5 || atoi(argv[2]) < 1 || atoi(argv[2]) > RANKS_MAX) {
        fprintf(stderr, "usage: opaque TRANSPORT RANKS HOSTS SLOT_BYTES\n");
        return 2;
    }
    size_t slot = strtoul(argv[4], NULL, 10);
    const struct ranks ranks = {
        .n = atoi(argv[2]), .transport = argv[1], .hosts = atoi(argv[3]) > 1 ? atoi(argv[3]) : 0};
    setenv("RINGCOMM_SLOT_BYTES", argv[4], 1);
    return ranks_run(&ranks, check_all, &slot) ? 1 : 0;
}
