/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Byte collectives whose lengths the library exchanges (rcm_gather_bytes and others):
 *
 *     bytes TRANSPORT threads|processes RANKS
 *
 * Compares every byte and every offset: blocking and asynchronous, several in flight, all roots,
 * lengths from 0 to many slices. Then rejected arguments, ranks whose calls differ, and a rank
 * without memory.
 */
#include "../sanitized.h"
#include "ranks.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { RANKS_MAX = 16, LONG = 70001, FORMS = 4, WORKS = 12 };

static const char *const names[FORMS] = {"broadcast_bytes", "scatter_bytes", "gather_bytes",
                                         "all_gather_bytes"};

struct problem {
    int form, p, rank, root, round;
};

/* The number of bytes that go from one rank to another. Where all ranks get the same bytes, to ==
 * from. */
static size_t length(const struct problem *t, int from, int to) {
    static const size_t lengths[] = {0, 1, 7, 4096, 513, LONG};
    return lengths[(size_t)(from * 5 + to * 3 + t->round) % (sizeof(lengths) / sizeof(lengths[0]))];
}

static unsigned char value(const struct problem *t, int from, int to, size_t i) {
    return (unsigned char)(i % 251 + (size_t)(from * 31 + to * 17 + t->round));
}

static unsigned char *block_make(const struct problem *t, int from, int to) {
    const size_t n = length(t, from, to);
    unsigned char *block = malloc(n + 1);
    if (!block)
        abort();
    for (size_t i = 0; i < n; i++)
        block[i] = value(t, from, to, i);
    return block;
}

/* What a rank sends: block to[r] for rank r. Forms other than scatter send the block of the own
 * rank. */
struct input {
    unsigned char *blocks[RANKS_MAX];
    const void *list[RANKS_MAX];
    size_t lengths[RANKS_MAX];
};

static void input_make(const struct problem *t, struct input *in) {
    for (int r = 0; r < t->p; r++) {
        const int to = t->form == 1 ? r : t->rank;
        in->list[r] = in->blocks[r] = block_make(t, t->rank, to);
        in->lengths[r] = length(t, t->rank, to);
    }
}

static void input_free(const struct problem *t, struct input *in) {
    for (int r = 0; r < t->p; r++)
        free(in->blocks[r]);
}

static rcm_status call_form(const struct problem *t, rcm_comm *comm, struct input *in,
                            struct rcm_bytes **ret_bytes, rcm_work **ret_work) {
    const void *own = in->lengths[t->rank] > 0 ? in->blocks[t->rank] : NULL;
    const size_t n = in->lengths[t->rank];
    switch (t->form) {
    case 0:
        return rcm_broadcast_bytes(comm, own, n, t->root, ret_bytes, NULL, ret_work);
    case 1:
        return rcm_scatter_bytes(comm, in->list, in->lengths, t->root, ret_bytes, NULL, ret_work);
    case 2:
        return rcm_gather_bytes(comm, own, n, t->root, ret_bytes, NULL, ret_work);
    default:
        return rcm_all_gather_bytes(comm, own, n, ret_bytes, NULL, ret_work);
    }
}

static int block_check(const struct problem *t, const struct rcm_bytes *got, size_t k, int from,
                       int to) {
    const size_t n = length(t, from, to);
    int errors = 0;
    CHECK(errors, got->offsets[k + 1] - got->offsets[k] == n,
          "%s, round %d, rank %d: block %zu has %zu bytes, not %zu", names[t->form], t->round,
          t->rank, k, got->offsets[k + 1] - got->offsets[k], n);
    for (size_t i = 0; i < n && errors == 0; i++)
        CHECK(errors, got->data[got->offsets[k] + i] == value(t, from, to, i),
              "%s, round %d, rank %d: byte %zu of block %zu is wrong", names[t->form], t->round,
              t->rank, i, k);
    return errors;
}

static int result_check(const struct problem *t, const struct rcm_bytes *got) {
    const bool root = t->rank == t->root;
    const bool has = t->form == 0 ? !root : t->form != 2 || root;
    const size_t n = t->form < 2 ? 1 : (size_t)t->p;
    int errors = 0;
    CHECK(errors, (got != NULL) == has, "%s, root %d: rank %d has %s result", names[t->form],
          t->root, t->rank, got ? "a" : "no");
    if (errors > 0 || !got)
        return errors;
    CHECK(errors, got->n == n && got->offsets[0] == 0, "%s: %zu blocks", names[t->form], got->n);
    for (size_t k = 0; k < n && errors == 0; k++) {
        const int from = t->form < 2 ? t->root : (int)k;
        errors += block_check(t, got, k, from, t->form == 1 ? t->rank : from);
    }
    return errors;
}

static struct problem problem_of(rcm_comm *comm, int round) {
    return (struct problem){.form = round % FORMS,
                            .p = rcm_size(comm),
                            .rank = rcm_rank(comm),
                            .root = round % FORMS == 3 ? 0 : round / FORMS % rcm_size(comm),
                            .round = round};
}

static int check_blocking(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    for (int round = 0; round < 48 && errors == 0; round++) {
        const struct problem t = problem_of(comm, round);
        struct rcm_bytes *got = (void *)&errors; /* must be overwritten */
        struct input in;
        input_make(&t, &in);
        CHECK(errors, call_form(&t, comm, &in, &got, NULL) == RCM_OK, "%s: %s", names[t.form],
              rcm_last_error());
        if (errors == 0)
            errors += result_check(&t, got);
        input_free(&t, &in);
        free(got);
    }
    return errors;
}

/* Several in flight, with other collectives between them. */
static int check_together(rcm_comm *comm, void *arg) {
    struct problem t[WORKS];
    struct input in[WORKS];
    struct rcm_bytes *got[WORKS];
    rcm_work *works[WORKS], *sums[WORKS];
    int64_t mine[WORKS], sum[WORKS];
    int errors = 0;
    (void)arg;
    for (int i = 0; i < WORKS; i++) {
        t[i] = problem_of(comm, i + 3);
        input_make(&t[i], &in[i]);
        CHECK(errors, call_form(&t[i], comm, &in[i], &got[i], &works[i]) == RCM_OK, "%s",
              rcm_last_error());
        memset(in[i].list, 0, sizeof(in[i].list)); /* the list may be reused; the blocks may not */
        mine[i] = i;
        CHECK(errors,
              rcm_all_reduce(comm, &mine[i], &sum[i], 1, RCM_INT64, RCM_SUM, NULL, &sums[i]) ==
                  RCM_OK,
              "%s", rcm_last_error());
    }
    for (int i = WORKS - 1; i >= 0 && errors == 0; i--) {
        CHECK(errors, rcm_work_wait(works[i], -1) == RCM_OK, "%s", rcm_last_error());
        CHECK(errors, rcm_work_wait(sums[i], -1) == RCM_OK, "%s", rcm_last_error());
        CHECK(errors, sum[i] == (int64_t)i * rcm_size(comm), "sum %d is wrong", i);
        errors += result_check(&t[i], got[i]);
    }
    for (int i = 0; i < WORKS && errors == 0; i++) {
        rcm_work_free(works[i]);
        rcm_work_free(sums[i]);
        input_free(&t[i], &in[i]);
        free(got[i]);
    }
    return errors;
}

/* ---- Rejected calls and failures ------------------------------------------------------------- */

static int refuses(rcm_status status, const char *words) {
    int errors = 0;
    CHECK(errors, status == RCM_ERR_INVALID && strstr(rcm_last_error(), words),
          "%s (%s), not one with \"%s\"", rcm_status_name(status), rcm_last_error(), words);
    return errors;
}

static int check_refused(rcm_comm *comm, void *arg) {
    struct rcm_bytes *got;
    const void *list[RANKS_MAX] = {NULL};
    size_t lengths[RANKS_MAX] = {0};
    const int rank = rcm_rank(comm), p = rcm_size(comm);
    int errors = 0;
    (void)arg;
    errors += refuses(rcm_all_gather_bytes(comm, NULL, 1, &got, NULL, NULL), "send is NULL");
    errors += refuses(rcm_all_gather_bytes(comm, "x", 1, NULL, NULL, NULL), "ret_bytes is NULL");
    errors += refuses(rcm_gather_bytes(comm, "x", 1, p, &got, NULL, NULL), "root");
    errors += refuses(rcm_broadcast_bytes(comm, "x", 1, -1, &got, NULL, NULL), "root -1");
    errors += refuses(rcm_broadcast_bytes(comm, NULL, 1, rank, &got, NULL, NULL), "send is NULL");
    errors += refuses(rcm_scatter_bytes(comm, NULL, lengths, rank, &got, NULL, NULL), "send is");
    errors += refuses(rcm_scatter_bytes(comm, list, NULL, rank, &got, NULL, NULL), "bytes is");
    lengths[p - 1] = 5;
    errors += refuses(rcm_scatter_bytes(comm, list, lengths, rank, &got, NULL, NULL), "is 5");
    got = (void *)list;
    errors += refuses(rcm_all_gather_bytes(NULL, "x", 1, &got, NULL, NULL), "comm");
    CHECK(errors, got == NULL, "*ret_bytes is not NULL");
    errors +=
        refuses(rcm_gather_bytes(comm, "x", SIZE_MAX, 0, &got, NULL, NULL), "more than memory");
    errors +=
        refuses(rcm_broadcast_bytes(comm, "x", SIZE_MAX, rank, &got, NULL, NULL), "more than");
    lengths[0] = SIZE_MAX;
    errors += refuses(rcm_scatter_bytes(comm, list, lengths, rank, &got, NULL, NULL),
                      "bytes[0] 18446744073709551615");
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    return errors;
}

/* Memory of rcm_mem_alloc cannot be freed while the operation is unfinished. */
static int check_memory(rcm_comm *comm, void *arg) {
    const size_t much = 1 << 20;
    const int rank = rcm_rank(comm), p = rcm_size(comm);
    struct rcm_bytes *got = NULL;
    rcm_work *work = NULL;
    void *mine = NULL;
    int errors = 0;
    (void)arg;
    CHECK(errors, rcm_mem_alloc(comm, much, &mine) == RCM_OK, "%s", rcm_last_error());
    if (rank == 0) { /* the other ranks have not called it yet */
        CHECK(errors, rcm_gather_bytes(comm, mine, much, p - 1, &got, NULL, &work) == RCM_OK, "%s",
              rcm_last_error());
        if (p > 1)
            errors += refuses(rcm_mem_free(comm, mine), "in use by an unfinished gather_bytes");
    }
    char byte = 0;
    for (int r = 1; r < p && rank == 0; r++)
        CHECK(errors, rcm_send(comm, &byte, 1, RCM_UINT8, r, 9, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    if (rank > 0) {
        CHECK(errors, rcm_recv(comm, &byte, 1, RCM_UINT8, 0, 9, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
        CHECK(errors, rcm_gather_bytes(comm, mine, much, p - 1, &got, NULL, &work) == RCM_OK, "%s",
              rcm_last_error());
    }
    CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
    rcm_work_free(work);
    CHECK(errors, rcm_mem_free(comm, mine) == RCM_OK, "%s", rcm_last_error());
    free(got);
    return errors;
}

/* The last rank calls rcm_all_gather, which equals the first stage of rcm_all_gather_bytes. */
static int check_mismatch(rcm_comm *comm, void *arg) {
    struct rcm_bytes *got = NULL;
    int64_t mine = 3, all[RANKS_MAX] = {-1};
    int errors = 0;
    (void)arg;
    rcm_status status = rcm_rank(comm) == rcm_size(comm) - 1
                            ? rcm_all_gather(comm, &mine, all, 1, RCM_INT64, NULL, NULL)
                            : rcm_all_gather_bytes(comm, "abc", 3, &got, NULL, NULL);
    for (int i = 0; i < 2 && status == RCM_OK; i++)
        status = rcm_barrier(comm, NULL, NULL);
    CHECK(errors, status == RCM_ERR_MISMATCH, "rank %d: %s (%s)", rcm_rank(comm),
          rcm_status_name(status), rcm_last_error());
    CHECK(errors, got == NULL, "a failed call returned a result");
    CHECK(errors, all[0] == -1, "lengths arrived as data");
    CHECK(errors,
          strstr(rcm_last_error(), "an exchange of lengths by all_gather") || rcm_rank(comm), "%s",
          rcm_last_error());
    CHECK(errors, rcm_destroy(comm) != RCM_OK, "rcm_destroy returned RCM_OK after a failure");
    return errors;
}

static rcm_status call_sized(int form, rcm_comm *comm, const char *mine, size_t bytes,
                             struct rcm_bytes **got) {
    const int last = rcm_size(comm) - 1;
    const void *list[RANKS_MAX];
    size_t lengths[RANKS_MAX];
    for (int r = 0; r <= last; r++) {
        list[r] = mine;
        lengths[r] = r == last ? bytes : 3;
    }
    switch (form) {
    case 0:
        return rcm_broadcast_bytes(comm, mine, bytes, 0, got, NULL, NULL);
    case 1:
        return rcm_scatter_bytes(comm, list, lengths, 0, got, NULL, NULL);
    case 2:
        return rcm_gather_bytes(comm, mine, bytes, last, got, NULL, NULL);
    default:
        return rcm_all_gather_bytes(comm, mine, bytes, got, NULL, NULL);
    }
}

/* Connects all pairs, because a failure report opens missing links and that needs memory. */
static rcm_status link_all(rcm_comm *comm) {
    const int n = rcm_size(comm), rank = rcm_rank(comm);
    rcm_status status = RCM_OK;
    char in = 0, out;
    for (int d = 1; d < n && status == RCM_OK; d++)
        status = rcm_sendrecv(comm, &in, 1, (rank + d) % n, 0, &out, 1, (rank + n - d) % n, 0,
                              RCM_INT8, NULL, NULL);
    return status;
}

/* The last rank cannot allocate the result, most of which rank 0 sends. All ranks get RCM_ERR_NOMEM
 * with that reason. */
static int check_no_memory(rcm_comm *comm, void *arg) {
    const size_t much = (size_t)64 << 20;
    const int form = *(const int *)arg, rank = rcm_rank(comm), last = rcm_size(comm) - 1;
    char *mine = calloc(1, much);
    struct rcm_bytes *got = NULL;
    struct rlimit all, little;
    int errors = 0;
    /* Opening links needs memory too. A slow rank may still do that when the last rank has
     * failed. */
    rcm_status status = link_all(comm);
    if (status == RCM_OK)
        status = call_sized(form, comm, mine, 3, &got);
    CHECK(errors, status == RCM_OK || status == RCM_ERR_NOMEM, "%s", rcm_last_error());
    free(got);
    got = NULL;
    getrlimit(RLIMIT_AS, &all);
    little = all;
    little.rlim_cur = much;
    if (rank == last)
        setrlimit(RLIMIT_AS, &little);
    if (status == RCM_OK)
        status = call_sized(form, comm, mine, rank == 0 ? much : 3, &got);
    setrlimit(RLIMIT_AS, &all);
    if (status == RCM_OK && rank != last) /* complete without the last rank */
        status = rcm_barrier(comm, NULL, NULL);
    CHECK(errors, status == RCM_ERR_NOMEM, "rank %d, %s: %s (%s)", rank, names[form],
          rcm_status_name(status), rcm_last_error());
    CHECK(errors,
          strstr(rcm_last_error(), "no memory to receive") &&
              strstr(rcm_last_error(), "67108864 of them from rank 0"),
          "rank %d, %s: %s", rank, names[form], rcm_last_error());
    CHECK(errors, rcm_destroy(comm) != RCM_OK, "rcm_destroy returned RCM_OK after a failure");
    free(got);
    free(mine);
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: bytes TRANSPORT threads|processes RANKS\n");
        return 2;
    }
    struct ranks ranks = {
        .n = atoi(argv[3]), .threads = strcmp(argv[2], "threads") == 0, .transport = argv[1]};
    int errors = ranks_run(&ranks, check_blocking, NULL);
    errors += ranks_run(&ranks, check_together, NULL);
    errors += ranks_run(&ranks, check_refused, NULL);
    errors += ranks_run(&ranks, check_memory, NULL);
    ranks.keep = true;
    setenv("RINGCOMM_LOG", "error", 0);
    if (ranks.n > 1)
        errors += ranks_run(&ranks, check_mismatch, NULL);
    for (int form = 0; form < FORMS; form++)
        if (ranks.n > 1 && !ranks.threads && !TEST_SANITIZED) /* they need more memory */
            errors += ranks_run(&ranks, check_no_memory, &form);
    return errors > 0;
}
