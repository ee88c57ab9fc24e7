/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with blocks of unequal length: uneven TRANSPORT threads|processes RANKS [HOSTS]
 *
 * Compares every element on every rank: by every algorithm, with _v and _list (also mixed in one
 * call), blocking and asynchronous, in place and not, with gaps between blocks, and all roots.
 * Counts are equal, random, all zero but one, or of many slices. Then rejected arguments, and ranks
 * whose counts differ. HOSTS: number of simulated hosts.
 */
#include "buffer_memory.h"
#include "ranks.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 3, POISON = -77, RANKS_MAX = 16 };
/* Elements of long blocks. From MANY_RANKS ranks on they are shorter, but still of many slots. */
enum { LONG = 60007, MANY_RANKS = 4, LONG_OF_MANY = 13001 };

/* Distribution of block lengths. */
enum lengths { ALIKE, RANDOM, ONE_HUGE, ONE_EMPTY, LENGTHS };

static const enum rcm_collective collectives[] = {RCM_SCATTER_V, RCM_GATHER_V, RCM_ALL_GATHER_V,
                                                  RCM_REDUCE_SCATTER_V, RCM_ALL_TO_ALL_V};
enum { COLLECTIVES = sizeof(collectives) / sizeof(collectives[0]) };

struct problem {
    enum rcm_collective collective;
    int p, rank, root, round;
    enum lengths lengths;
    bool in_place, list;
};

static rcm_op reduction(const struct problem *t) {
    return t->round % 2 ? RCM_AVG : RCM_SUM;
}

static size_t scramble(size_t x) {
    x = (x ^ x >> 15) * 2654435761u;
    return (x ^ x >> 13) % 65521;
}

/* Elements that go from one rank to another. In collectives with one block per rank, from == to. */
static size_t length(const struct problem *t, int from, int to) {
    const size_t name = (size_t)(from * RANKS_MAX + to + t->round * 1000);
    const bool chosen = (from + to + t->round) % t->p == 0;
    switch (t->lengths) {
    case ALIKE:
        return 257;
    case RANDOM:
        return scramble(name) % 5000;
    case ONE_HUGE:
        return !chosen ? 0 : t->p < MANY_RANKS ? LONG : LONG_OF_MANY;
    default:
        return chosen ? 0 : scramble(name) % 100;
    }
}

static size_t block(const struct problem *t, int r) {
    return length(t, r, r);
}

static int64_t value(const struct problem *t, int from, int to, size_t i) {
    return (int64_t)(i % 8191) * 64 + from * 7 + to * 3 + t->round;
}

/* A buffer of several blocks with gaps between them, or of one block. */
struct buffer {
    int64_t *memory, *view; /* the same memory for the device and for the CPU */
    size_t len, n;
    size_t counts[RANKS_MAX], displs[RANKS_MAX];
    void *list[RANKS_MAX];
};

/* True if the rank's buffer (in or out) has a block for each rank. */
static bool has_many(const struct problem *t, bool out) {
    const bool root = t->rank == t->root;
    switch (t->collective) {
    case RCM_SCATTER_V:
        return !out && root;
    case RCM_GATHER_V:
        return out && root;
    case RCM_ALL_GATHER_V:
        return out;
    case RCM_REDUCE_SCATTER_V:
        return !out;
    default:
        return true;
    }
}

static bool has_one(const struct problem *t, bool out) {
    switch (t->collective) {
    case RCM_SCATTER_V:
    case RCM_REDUCE_SCATTER_V:
        return out;
    case RCM_GATHER_V:
    case RCM_ALL_GATHER_V:
        return !out;
    default:
        return false;
    }
}

static size_t count_of(const struct problem *t, bool out, int r) {
    if (t->collective != RCM_ALL_TO_ALL_V)
        return block(t, r);
    return out ? length(t, r, t->rank) : length(t, t->rank, r);
}

static void buffer_make(const struct problem *t, bool out, struct buffer *b) {
    *b = (struct buffer){.n = has_many(t, out) ? (size_t)t->p : has_one(t, out) ? 1 : 0};
    size_t at = GAP;
    for (size_t i = 0; i < b->n; i++) {
        b->counts[i] = count_of(t, out, b->n == 1 && has_one(t, out) ? t->rank : (int)i);
        b->displs[i] = at;
        at += b->counts[i] + GAP;
    }
    b->len = at;
    b->memory = mem_new(b->len * sizeof(*b->memory));
    b->view = mem_view(b->memory);
    for (size_t i = 0; i < b->len; i++)
        b->view[i] = POISON;
    for (size_t i = 0; i < b->n; i++)
        b->list[i] = b->counts[i] > 0 ? b->memory + b->displs[i] : NULL;
}

/* Fills each block with what the rank sends in it. */
static void buffer_fill(const struct problem *t, struct buffer *b) {
    for (size_t k = 0; k < b->n; k++) {
        const int to = has_many(t, false) ? (int)k : t->rank;
        for (size_t i = 0; i < b->counts[k]; i++)
            b->view[b->displs[k] + i] = value(t, t->rank, to, i);
    }
}

static int64_t expected(const struct problem *t, size_t k, size_t i) {
    int64_t sum;
    switch (t->collective) {
    case RCM_SCATTER_V:
        return value(t, t->root, t->rank, i);
    case RCM_GATHER_V:
    case RCM_ALL_GATHER_V:
        return value(t, (int)k, (int)k, i);
    case RCM_ALL_TO_ALL_V:
        return value(t, (int)k, t->rank, i);
    default:
        sum = t->p * value(t, 0, t->rank, i) + 7 * (int64_t)t->p * (t->p - 1) / 2;
        return reduction(t) == RCM_AVG ? sum / t->p : sum;
    }
}

static int buffer_check(const struct problem *t, const struct buffer *b, const char *algorithm) {
    int errors = 0;
    size_t at = 0;
    CHECK(errors, mem_in_use(b->memory, b->len * sizeof(*b->memory)) == 0,
          "collective %d is complete, but its buffers are in use", t->collective);
    for (size_t k = 0; k <= b->n && errors == 0; k++) {
        const size_t end = k < b->n ? b->displs[k] : b->len;
        for (; at < end && errors == 0; at++)
            CHECK(errors, b->view[at] == POISON, "collective %d: a gap was written", t->collective);
        for (size_t i = 0; k < b->n && i < b->counts[k] && errors == 0; i++, at++)
            CHECK(errors, b->view[at] == expected(t, k, i),
                  "collective %d (%s), %d ranks, root %d, lengths %d, in place %d, list %d: rank "
                  "%d, block %zu, element %zu of %zu is %lld, not %lld",
                  t->collective, algorithm, t->p, t->root, t->lengths, t->in_place, t->list,
                  t->rank, k, i, b->counts[k], (long long)b->view[at],
                  (long long)expected(t, k, i));
    }
    return errors;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static rcm_status call_v(const struct problem *t, rcm_comm *comm, struct buffer *in,
                         struct buffer *out, const struct rcm_call *call, rcm_work **ret_work) {
    void *send = has_one(t, false) ? in->list[0] : in->memory;
    void *recv = has_one(t, true) ? out->list[0] : out->memory;
    switch (t->collective) {
    case RCM_SCATTER_V:
        return rcm_scatter_v(comm, send, in->counts, in->displs, recv, out->counts[0], RCM_INT64,
                             t->root, call, ret_work);
    case RCM_GATHER_V:
        return rcm_gather_v(comm, send, in->counts[0], recv, out->counts, out->displs, RCM_INT64,
                            t->root, call, ret_work);
    case RCM_ALL_GATHER_V:
        return rcm_all_gather_v(comm, send, in->counts[0], recv, out->counts, out->displs,
                                RCM_INT64, call, ret_work);
    case RCM_REDUCE_SCATTER_V:
        return rcm_reduce_scatter_v(comm, send, in->counts, in->displs, recv, out->counts[0],
                                    RCM_INT64, reduction(t), call, ret_work);
    default:
        return rcm_all_to_all_v(comm, send, in->counts, in->displs, recv, out->counts, out->displs,
                                RCM_INT64, call, ret_work);
    }
}

static rcm_status call_list(const struct problem *t, rcm_comm *comm, struct buffer *in,
                            struct buffer *out, const struct rcm_call *call, rcm_work **ret_work) {
    const void *send[RANKS_MAX];
    for (size_t i = 0; i < in->n; i++)
        send[i] = in->list[i];
    switch (t->collective) {
    case RCM_SCATTER_V:
        return rcm_scatter_list(comm, send, in->counts, out->list[0], out->counts[0], RCM_INT64,
                                t->root, call, ret_work);
    case RCM_GATHER_V:
        return rcm_gather_list(comm, in->list[0], in->counts[0], out->list, out->counts, RCM_INT64,
                               t->root, call, ret_work);
    case RCM_ALL_GATHER_V:
        return rcm_all_gather_list(comm, in->list[0], in->counts[0], out->list, out->counts,
                                   RCM_INT64, call, ret_work);
    case RCM_REDUCE_SCATTER_V:
        return rcm_reduce_scatter_list(comm, send, in->counts, out->list[0], out->counts[0],
                                       RCM_INT64, reduction(t), call, ret_work);
    default:
        return rcm_all_to_all_list(comm, send, in->counts, out->list, out->counts, RCM_INT64, call,
                                   ret_work);
    }
}

/* In place, the single block of one buffer becomes this rank's block of the other buffer. */
static void blocks_share(const struct problem *t, struct buffer *in, struct buffer *out) {
    const bool one_in = has_one(t, false);
    struct buffer *one = one_in ? in : out, *many = one_in ? out : in;
    if (!t->in_place || many->n == 0)
        return;
    void *own = many->list[t->rank];
    if (one_in && own)
        memcpy(mem_view(own), mem_view(in->list[0]), in->counts[0] * sizeof(int64_t));
    one->list[0] = own;
}

/* In place, the single result block is in the other buffer. */
static int check_results(const struct problem *t, struct buffer *out, const char *algorithm) {
    if (has_one(t, true) && out->list[0])
        memmove(out->view + out->displs[0], mem_view(out->list[0]),
                out->counts[0] * sizeof(int64_t));
    return buffer_check(t, out, algorithm);
}

static int run(rcm_comm *comm, const struct problem *t, const char *algorithm, bool async) {
    struct rcm_call call = RCM_CALL_INIT;
    struct buffer in, out;
    rcm_work *work = NULL;
    int errors = 0;
    buffer_make(t, false, &in);
    buffer_make(t, true, &out);
    buffer_fill(t, &in);
    blocks_share(t, &in, &out);
    call.algorithm = algorithm;
    rcm_status status =
        (t->list ? call_list : call_v)(t, comm, &in, &out, &call, async ? &work : NULL);
    memset(in.counts, 0xff, sizeof(in.counts)); /* the call has copied them */
    memset(in.displs, 0xff, sizeof(in.displs));
    if (status == RCM_OK && async)
        status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    CHECK(errors, status == RCM_OK, "collective %d (%s): %s", t->collective, algorithm,
          rcm_last_error());
    if (status == RCM_OK)
        errors += check_results(t, &out, algorithm ? algorithm : "by cost");
    mem_free(in.memory);
    mem_free(out.memory);
    return errors;
}

static bool is_rooted(enum rcm_collective collective) {
    return collective == RCM_SCATTER_V || collective == RCM_GATHER_V;
}

static int run_algorithm(rcm_comm *comm, enum rcm_collective collective, const char *algorithm) {
    struct problem t = {
        .collective = collective, .p = rcm_size(comm), .rank = rcm_rank(comm), .root = 0};
    int errors = 0;
    for (int lengths = 0; lengths < LENGTHS && errors == 0; lengths++)
        for (int how = 0; how < 4 && errors == 0; how++, t.round++) {
            t.lengths = (enum lengths)lengths;
            t.in_place = how % 2 && collective != RCM_ALL_TO_ALL_V;
            t.list = (how / 2 + t.rank) % 2; /* ranks mix _v and _list */
            t.root = is_rooted(collective) ? t.round % t.p : 0;
            errors += run(comm, &t, algorithm, t.round % 3 == 2);
        }
    return errors;
}

/* All algorithms do, except one_shot and similar ones between hosts. */
static bool algorithm_fits(rcm_comm *comm, enum rcm_collective collective, const char *algorithm,
                           int *errors) {
    struct rcm_call call = RCM_CALL_INIT;
    struct problem t = {.collective = collective,
                        .p = rcm_size(comm),
                        .rank = rcm_rank(comm),
                        .lengths = ONE_EMPTY};
    struct buffer in = {.n = 0}, out = {.n = 0};
    call.algorithm = algorithm;
    const rcm_status status = call_v(&t, comm, &in, &out, &call, NULL);
    CHECK(*errors, status == RCM_OK || status == RCM_ERR_UNSUPPORTED, "%s: %s", algorithm,
          rcm_last_error());
    return status == RCM_OK;
}

static int check_all(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    for (int i = 0; i < COLLECTIVES; i++) {
        struct rcm_algorithm_info info;
        errors += run_algorithm(comm, collectives[i], NULL);
        for (size_t a = 0; rcm_algorithm_at(collectives[i], a, &info) == RCM_OK; a++)
            if (algorithm_fits(comm, collectives[i], info.name, &errors))
                errors += run_algorithm(comm, collectives[i], info.name);
    }
    return errors;
}

/* All in flight at the same time, on the same channels, with messages of many slices. */
static int check_together(rcm_comm *comm, void *arg) {
    enum { WORKS = 3 * COLLECTIVES };
    struct problem t[WORKS];
    struct buffer in[WORKS], out[WORKS];
    rcm_work *works[WORKS];
    int errors = 0;
    (void)arg;
    for (int i = 0; i < WORKS; i++) {
        t[i] = (struct problem){.collective = collectives[i % COLLECTIVES],
                                .p = rcm_size(comm),
                                .rank = rcm_rank(comm),
                                .root = is_rooted(collectives[i % COLLECTIVES]) ? i % rcm_size(comm)
                                                                                : 0,
                                .lengths = i % 2 ? ONE_HUGE : RANDOM,
                                .round = i};
        buffer_make(&t[i], false, &in[i]);
        buffer_make(&t[i], true, &out[i]);
        buffer_fill(&t[i], &in[i]);
        CHECK(errors, call_v(&t[i], comm, &in[i], &out[i], NULL, &works[i]) == RCM_OK, "%d: %s",
              t[i].collective, rcm_last_error());
    }
    for (int i = WORKS - 1; i >= 0 && errors == 0; i--) {
        CHECK(errors, rcm_work_wait(works[i], -1) == RCM_OK, "%d: %s", t[i].collective,
              rcm_last_error());
        errors += buffer_check(&t[i], &out[i], "together");
    }
    for (int i = 0; i < WORKS; i++) {
        rcm_work_free(works[i]);
        mem_free(in[i].memory);
        mem_free(out[i].memory);
    }
    return errors;
}

/* ---- Rejected arguments ---------------------------------------------------------------------- */

static int refuses(rcm_status status, rcm_status want, const char *words) {
    int errors = 0;
    CHECK(errors, status == want && strstr(rcm_last_error(), words), "%s (%s), not %s with \"%s\"",
          rcm_status_name(status), rcm_last_error(), rcm_status_name(want), words);
    return errors;
}

static int check_refused_values(rcm_comm *comm) {
    int64_t data[64] = {0}, other[64] = {0};
    size_t counts[RANKS_MAX], displs[RANKS_MAX] = {0};
    const int p = rcm_size(comm), rank = rcm_rank(comm), last = p - 1;
    int errors = 0;
    for (int r = 0; r < p; r++)
        counts[r] = 1;
    errors += refuses(rcm_scatter_v(comm, data, NULL, NULL, other, 1, RCM_INT64, rank, NULL, NULL),
                      RCM_ERR_INVALID, "send_counts is NULL");
    errors +=
        refuses(rcm_scatter_v(comm, NULL, counts, NULL, other, 1, RCM_INT64, rank, NULL, NULL),
                RCM_ERR_INVALID, "send is NULL and send_counts[0] is 1");
    errors += refuses(rcm_scatter_v(comm, data, counts, NULL, other, 1, RCM_INT64, p, NULL, NULL),
                      RCM_ERR_INVALID, "root");
    errors +=
        refuses(rcm_scatter_v(comm, data, counts, NULL, other, 2, RCM_INT64, rank, NULL, NULL),
                RCM_ERR_INVALID, "recv_count is 2");
    errors += refuses(rcm_gather_v(comm, NULL, 1, other, counts, NULL, RCM_INT64, 0, NULL, NULL),
                      RCM_ERR_INVALID, "send is NULL and send_count is 1");
    errors +=
        refuses(rcm_gather_v(comm, data, 1, other, counts, NULL, (rcm_dtype)99, 0, NULL, NULL),
                RCM_ERR_INVALID, "dtype 99");
    errors += refuses(
        rcm_reduce_scatter_v(comm, data, counts, NULL, other, 1, RCM_INT64, (rcm_op)99, NULL, NULL),
        RCM_ERR_INVALID, "op 99");
    displs[last] = SIZE_MAX;
    errors += refuses(rcm_all_gather_v(comm, data, 1, other, counts, displs, RCM_INT64, NULL, NULL),
                      RCM_ERR_INVALID, "more than memory");
    counts[last] = SIZE_MAX / 8;
    errors += refuses(
        rcm_all_to_all_v(comm, data, counts, NULL, other, counts, NULL, RCM_INT64, NULL, NULL),
        RCM_ERR_INVALID, "more than memory");
    return errors;
}

static int check_refused_overlap(rcm_comm *comm) {
    int64_t data[64] = {0};
    size_t counts[RANKS_MAX];
    const void *send[RANKS_MAX];
    void *recv[RANKS_MAX];
    const int p = rcm_size(comm);
    int errors = 0;
    for (int r = 0; r < p; r++) {
        counts[r] = 2;
        send[r] = recv[r] = data + 2 * r;
    }
    errors += refuses(
        rcm_all_to_all_v(comm, data, counts, NULL, data, counts, NULL, RCM_INT64, NULL, NULL),
        RCM_ERR_UNSUPPORTED, "all_to_all_v");
    errors += refuses(rcm_all_to_all_list(comm, send, counts, recv, counts, RCM_INT64, NULL, NULL),
                      RCM_ERR_UNSUPPORTED, "in-place form");
    errors += refuses(rcm_all_gather_v(comm, data + 2 * rcm_rank(comm) + 1, 2, data, counts, NULL,
                                       RCM_INT64, NULL, NULL),
                      RCM_ERR_INVALID, "overlap");
    recv[p - 1] = NULL;
    errors += refuses(rcm_all_gather_list(comm, data + 40, 2, recv, counts, RCM_INT64, NULL, NULL),
                      RCM_ERR_INVALID, "is NULL and recv_counts");
    return errors;
}

/* A rejected call sends nothing, so all ranks can go on. */
static int check_refused(rcm_comm *comm, void *arg) {
    int errors = check_refused_values(comm);
    errors += check_refused_overlap(comm);
    (void)arg;
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    return errors;
}

/* ---- Ranks whose counts differ --------------------------------------------------------------- */

struct lie {
    enum rcm_collective collective;
    size_t more; /* added to the last rank's count of 100 */
    const char *words;
};

/* The last rank has another count for what it exchanges with rank 0. */
static rcm_status lie_call(rcm_comm *comm, const struct lie *lie, int64_t *data, int64_t *other) {
    const int p = rcm_size(comm), last = p - 1;
    const size_t more = rcm_rank(comm) == last ? lie->more : 0;
    size_t counts[RANKS_MAX], recv_counts[RANKS_MAX];
    for (int r = 0; r < p; r++)
        counts[r] = recv_counts[r] = 100;
    switch (lie->collective) {
    case RCM_SCATTER_V:
        return rcm_scatter_v(comm, data, counts, NULL, other, 100 + more, RCM_INT64, 0, NULL, NULL);
    case RCM_GATHER_V:
        return rcm_gather_v(comm, data, 100 + more, other, counts, NULL, RCM_INT64, 0, NULL, NULL);
    case RCM_ALL_GATHER_V:
        counts[0] += more;
        return rcm_all_gather_v(comm, data, 100, other, counts, NULL, RCM_INT64, NULL, NULL);
    case RCM_REDUCE_SCATTER_V:
        counts[0] += more;
        return rcm_reduce_scatter_v(comm, data, counts, NULL, other, 100, RCM_INT64, RCM_SUM, NULL,
                                    NULL);
    default:
        counts[0] += more;
        return rcm_all_to_all_v(comm, data, counts, NULL, other, recv_counts, NULL, RCM_INT64, NULL,
                                NULL);
    }
}

/* The error comes in that call, or in the next one if this rank's part was complete. */
static int check_lie(rcm_comm *comm, void *arg) {
    const struct lie *lie = arg;
    const size_t len = (100 + lie->more) * RANKS_MAX;
    int64_t *data = calloc(len, sizeof(*data)), *other = calloc(len, sizeof(*other));
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    if (!data || !other)
        abort();
    rcm_status status = lie_call(comm, lie, data, other);
    for (int i = 0; status == RCM_OK && i < 2; i++)
        status = rcm_barrier(comm, NULL, NULL);
    CHECK(errors, status == RCM_ERR_MISMATCH, "collective %d, rank %d: %s (%s)", lie->collective,
          rcm_rank(comm), rcm_status_name(status), rcm_last_error());
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors, strstr(error.text, lie->words), "collective %d, rank %d: \"%s\" lacks \"%s\"",
          lie->collective, rcm_rank(comm), error.text, lie->words);
    CHECK(errors, rcm_destroy(comm) != RCM_OK, "rcm_destroy returned RCM_OK after a mismatch");
    free(data);
    free(other);
    return errors;
}

static int check_lies(const struct ranks *how) {
    char last[96], to_last[96];
    snprintf(last, sizeof(last), "rank %d sends 101 elements to rank 0, which expects 100",
             how->n - 1);
    snprintf(to_last, sizeof(to_last), "rank 0 sends 100 elements to rank %d, which expects 101",
             how->n - 1);
    const struct lie lies[] = {
        {RCM_SCATTER_V, 1, to_last},
        {RCM_GATHER_V, 1, last},
        {RCM_GATHER_V, 200000, "elements to rank 0, which expects 100"},
        {RCM_ALL_GATHER_V, 1, "; count 0 is 10"},
        {RCM_REDUCE_SCATTER_V, 1, "; count 0 is 10"},
        {RCM_ALL_TO_ALL_V, 1, last},
        {RCM_ALL_TO_ALL_V, 70000, "elements to rank 0, which expects 100"},
    };
    int errors = 0;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct lie lie = lies[i];
        struct ranks ranks = *how;
        ranks.keep = true;
        errors += ranks_run(&ranks, check_lie, &lie);
    }
    return errors;
}

static int hosts = 1;

static void pretend_host(int rank) {
    char name[32];
    snprintf(name, sizeof(name), "host%d", rank % hosts);
    setenv("RINGCOMM_HOST_ID", name, 1);
}

int main(int argc, char **argv) {
    struct ranks how = {.transport = argv[1]};
    int errors = 0;
    if (argc < 4)
        return 2;
    how.threads = strcmp(argv[2], "threads") == 0;
    how.n = atoi(argv[3]);
    hosts = argc > 4 ? atoi(argv[4]) : 1;
    how.before = hosts > 1 ? pretend_host : NULL;
    mem_init();
    setenv("RINGCOMM_SLOT_BYTES", "4096", 0);
    errors += ranks_run(&how, check_all, NULL);
    errors += ranks_run(&how, check_together, NULL);
    if (!mem_is_host())
        return errors > 0;
    errors += ranks_run(&how, check_refused, NULL);
    setenv("RINGCOMM_LOG", "error", 0);
    if (how.n > 1)
        errors += check_lies(&how);
    return errors > 0;
}
