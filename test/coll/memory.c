/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of rcm_mem_alloc, and registered memory, beyond what matrix.c covers:
 *
 *     memory misuse|reuse|messages|registered|failure shm|tcp N
 *
 *   misuse      wrong sizes and pointers; freeing what an unfinished operation uses
 *   reuse       many blocks, large and small, used, freed and allocated again
 *   messages    sends and receives between such memory and the heap, in every combination
 *   registered  overlapping ranges, ranges in use, persistent works after a deregistration
 *   failure     the last rank exits in the middle; the others free and go on without it
 */
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static float *block_of(rcm_comm *comm, size_t count, int *errors) {
    void *memory = NULL;
    CHECK(*errors, rcm_mem_alloc(comm, count * sizeof(float), &memory) == RCM_OK, "alloc: %s",
          rcm_last_error());
    if (!memory)
        abort();
    return memory;
}

static void fill(float *data, size_t count, int rank, int salt) {
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(rank + salt + (int)(i % 13));
}

/* The number of elements that are not the sum of what fill wrote on n ranks. */
static size_t wrong_sums(const float *data, size_t count, int n, int salt) {
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += data[i] != (float)(n * (n - 1) / 2 + n * (salt + (int)(i % 13)));
    return wrong;
}

/* Registers more memory than is mapped. */
static int register_beyond(rcm_comm *comm) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const size_t lengths[] = {3 * page + 1,    4 * page,        (size_t)1 << 32,
                              (size_t)1 << 47, (size_t)1 << 61, SIZE_MAX / 2};
    int errors = 0;
    if (pages == MAP_FAILED || munmap(pages + 3 * page, page) != 0)
        abort();
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        CHECK(errors,
              rcm_mem_register(comm, pages, lengths[i]) == RCM_ERR_INVALID &&
                  strstr(rcm_last_error(), "more than can be read at memory"),
              "%zu bytes: %s", lengths[i], rcm_last_error());
    CHECK(errors, rcm_mem_register(comm, pages, SIZE_MAX) == RCM_ERR_INVALID, "all bytes");
    CHECK(errors, rcm_mem_register(comm, pages + 3 * page, 1) == RCM_ERR_INVALID, "a hole");
    if (mprotect(pages, page, PROT_READ) != 0 || mprotect(pages + 2 * page, page, PROT_NONE) != 0)
        abort();
    CHECK(errors, rcm_mem_register(comm, pages, 2 * page + 1) == RCM_ERR_INVALID, "PROT_NONE");
    CHECK(errors, rcm_mem_register(comm, pages, 2 * page) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_mem_deregister(comm, pages, 2 * page) == RCM_OK, "%s", rcm_last_error());
    munmap(pages, 3 * page);
    return errors;
}

static int check_misuse(rcm_comm *comm, void *arg) {
    int errors = 0, on_stack = 0;
    void *none = NULL;
    rcm_work *work = NULL;
    (void)arg;
    CHECK(errors, rcm_mem_alloc(NULL, 1, &none) == RCM_ERR_INVALID, "no communicator");
    CHECK(errors, rcm_mem_alloc(comm, 0, &none) == RCM_ERR_INVALID, "no bytes");
    CHECK(errors, rcm_mem_alloc(comm, SIZE_MAX, &none) == RCM_ERR_INVALID, "all bytes");
    CHECK(errors, rcm_mem_alloc(comm, 1, NULL) == RCM_ERR_INVALID,
          "a NULL result pointer was accepted");
    const rcm_status huge = rcm_mem_alloc(comm, (size_t)1 << 45, &none);
    CHECK(errors,
          huge == RCM_ERR_RESOURCE || huge == RCM_ERR_NOMEM || rcm_mem_free(comm, none) == 0,
          "32 TiB: %s", rcm_last_error());
    float *block = block_of(comm, 1000, &errors);
    CHECK(errors, block[0] == 0 && block[999] == 0, "memory is not zeroed");
    CHECK(errors, rcm_mem_free(comm, &on_stack) == RCM_ERR_INVALID,
          "freed memory that is not the library's");
    CHECK(errors, rcm_mem_free(comm, block + 1) == RCM_ERR_INVALID, "freed from the middle");
    CHECK(errors, rcm_mem_free(comm, NULL) == RCM_OK, "NULL is a no-op");
    const int peer = (rcm_rank(comm) + 1) % rcm_size(comm);
    rcm_status status = rcm_irecv(comm, block + 10, 100, RCM_FLOAT32, peer, 1, &work);
    CHECK(errors, status == RCM_OK, "irecv: %s", rcm_last_error());
    CHECK(errors, rcm_mem_free(comm, block) == RCM_ERR_INVALID, "freed while in use");
    CHECK(errors, strstr(rcm_last_error(), "in use by an unfinished recv") != NULL,
          "the error text is \"%s\"", rcm_last_error());
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    status = rcm_send(comm, block + 200, 100, RCM_FLOAT32, peer, 1, NULL, NULL);
    CHECK(errors, status == RCM_OK, "send: %s", rcm_last_error());
    CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "recv: %s", rcm_last_error());
    rcm_work_free(work);
    CHECK(errors, rcm_mem_free(comm, block) == RCM_OK, "free: %s", rcm_last_error());
    CHECK(errors, rcm_mem_free(comm, block) == RCM_ERR_INVALID, "freed twice");
    (void)block_of(comm, 50000, &errors); /* rcm_destroy frees it */
    errors += register_beyond(comm);
    return errors;
}

/* More blocks than a peer keeps mapped. Each round frees different ones. */
static int check_reuse(rcm_comm *comm, void *arg) {
    enum { BLOCKS = 48, ROUNDS = 3, COUNT = 30000 };
    float *in[BLOCKS], *out[BLOCKS];
    int errors = 0;
    (void)arg;
    for (int b = 0; b < BLOCKS; b++)
        in[b] = out[b] = NULL;
    for (int i = 0; i < BLOCKS * ROUNDS && errors < 5; i++) {
        const int b = i % BLOCKS, size = rcm_size(comm);
        const size_t count = b % 8 == 0 ? 700001 : COUNT + (size_t)b * 17;
        if (!in[b]) {
            in[b] = block_of(comm, count, &errors);
            out[b] = block_of(comm, count, &errors);
        }
        fill(in[b], count, rcm_rank(comm), i);
        rcm_status status =
            rcm_all_reduce(comm, in[b], out[b], count, RCM_FLOAT32, RCM_SUM, NULL, NULL);
        CHECK(errors, status == RCM_OK, "all_reduce: %s", rcm_last_error());
        const size_t wrong = wrong_sums(out[b], count, size, i);
        CHECK(errors, wrong == 0, "round %d: %zu of %zu wrong", i, wrong, count);
        if ((i + rcm_rank(comm)) % 3 == 0) {
            CHECK(errors, rcm_mem_free(comm, in[b]) == RCM_OK, "free: %s", rcm_last_error());
            CHECK(errors, rcm_mem_free(comm, out[b]) == RCM_OK, "free: %s", rcm_last_error());
            in[b] = out[b] = NULL;
        }
    }
    return errors;
}

static int check_messages(rcm_comm *comm, void *arg) {
    enum { COUNT = 400000 };
    int errors = 0;
    (void)arg;
    for (int kind = 0; kind < 4; kind++) {
        const int rank = rcm_rank(comm), peer = 1 - rank;
        float *mapped[2] = {block_of(comm, COUNT, &errors), block_of(comm, COUNT, &errors)};
        float *heap[2] = {calloc(COUNT, sizeof(float)), calloc(COUNT, sizeof(float))};
        float *out = kind & 1 ? mapped[0] : heap[0], *in = kind & 2 ? mapped[1] : heap[1];
        rcm_work *work = NULL;
        if (!heap[0] || !heap[1])
            abort();
        fill(out, COUNT, rank, kind);
        rcm_status status = rcm_irecv(comm, in, COUNT, RCM_FLOAT32, peer, 9, &work);
        CHECK(errors, status == RCM_OK, "irecv: %s", rcm_last_error());
        status = rcm_send(comm, out, COUNT, RCM_FLOAT32, peer, 9, NULL, NULL);
        CHECK(errors, status == RCM_OK, "send: %s", rcm_last_error());
        fill(out, COUNT, 77, 77); /* the message keeps its old contents */
        CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "recv: %s", rcm_last_error());
        size_t wrong = 0;
        for (size_t i = 0; i < COUNT; i++)
            wrong += in[i] != (float)(peer + kind + (int)(i % 13));
        CHECK(errors, wrong == 0, "kind %d: %zu wrong", kind, wrong);
        rcm_work_free(work);
        for (int i = 0; i < 2; i++) {
            free(heap[i]);
            CHECK(errors, rcm_mem_free(comm, mapped[i]) == RCM_OK, "free: %s", rcm_last_error());
        }
    }
    return errors;
}

/* Ranges of one array that overlap in every form; one is registered twice. */
static int register_ranges(rcm_comm *comm, float *data, bool begin) {
    static const size_t ranges[][2] = {{0, 9000}, {100, 200}, {150, 7000}, {8000, 1000}, {0, 10}};
    int errors = 0;
    for (size_t i = 0; i < 6; i++) {
        const size_t *range = ranges[i % 5];
        const rcm_status status =
            begin ? rcm_mem_register(comm, data + range[0], range[1] * sizeof *data)
                  : rcm_mem_deregister(comm, data + range[0], range[1] * sizeof *data);
        CHECK(errors, status == RCM_OK, "range %zu: %s", i, rcm_last_error());
    }
    return errors;
}

/* A persistent work starts while its memory is registered, then after it was deregistered. */
static int start_again(rcm_comm *comm, float *in, float *out, size_t count) {
    const struct rcm_call call = {.size = sizeof call, .flags = RCM_PERSISTENT};
    rcm_work *work = NULL;
    int errors = 0;
    rcm_status status = rcm_all_reduce(comm, in, out, count, RCM_FLOAT32, RCM_SUM, &call, &work);
    for (int i = 0; i < 3 && status == RCM_OK; i++) {
        if (i < 2)
            errors += register_ranges(comm, out, i == 0);
        fill(in, count, rcm_rank(comm), i);
        status = rcm_work_start(work);
        if (status == RCM_OK)
            status = rcm_work_wait(work, -1);
        CHECK(errors, wrong_sums(out, count, rcm_size(comm), i) == 0, "start %d is wrong", i);
    }
    CHECK(errors, status == RCM_OK, "persistent: %s", rcm_last_error());
    rcm_work_free(work);
    return errors;
}

static int check_registered(rcm_comm *comm, void *arg) {
    enum { COUNT = 9000 };
    static float in[COUNT];
    float *data = calloc(COUNT, sizeof *data);
    const int n = rcm_size(comm), to = (rcm_rank(comm) + 1) % n;
    const int from = (rcm_rank(comm) + n - 1) % n;
    rcm_work *work = NULL;
    int errors = 0;
    (void)arg;
    if (!data)
        abort();
    errors += register_ranges(comm, data, true);
    CHECK(errors, rcm_irecv(comm, data + 120, 10, RCM_FLOAT32, from, 1, &work) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_mem_deregister(comm, data + 100, 200 * sizeof *data) == RCM_ERR_INVALID,
          "deregistered while in use");
    CHECK(errors, strstr(rcm_last_error(), "in use by an unfinished recv"),
          "the error text is \"%s\"", rcm_last_error());
    CHECK(errors, rcm_mem_deregister(comm, data, 9000 * sizeof *data) == RCM_OK,
          "one of two uses: %s", rcm_last_error());
    CHECK(errors, rcm_mem_register(comm, data, 9000 * sizeof *data) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    CHECK(errors, rcm_send(comm, in, 10, RCM_FLOAT32, to, 1, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_work_wait(work, -1) == RCM_OK, "recv: %s", rcm_last_error());
    rcm_work_free(work);
    errors += register_ranges(comm, data, false);
    CHECK(errors, rcm_mem_deregister(comm, data, 9000 * sizeof *data) == RCM_ERR_INVALID,
          "it is registered");
    errors += start_again(comm, in, data, COUNT);
    CHECK(errors, rcm_mem_register(comm, in, 100) == RCM_OK, "%s", rcm_last_error());
    free(data); /* `in` stays registered until rcm_destroy */
    return errors;
}

/* One more use of the same blocks by the remaining ranks. */
static int go_on(rcm_comm *comm, float *in, float *out, size_t count) {
    rcm_comm *left = NULL;
    int errors = 0;
    rcm_status status = rcm_comm_shrink(comm, NULL, &left);
    CHECK(errors, status == RCM_OK, "shrink: %s", rcm_last_error());
    if (status != RCM_OK)
        return errors;
    fill(in, count, rcm_rank(left), 5);
    status = rcm_all_reduce(left, in, out, count, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    CHECK(errors, status == RCM_OK, "all_reduce of the remaining ranks: %s", rcm_last_error());
    CHECK(errors, wrong_sums(out, count, rcm_size(left), 5) == 0, "the result is wrong");
    CHECK(errors, rcm_mem_free(left, in) == RCM_OK, "free: %s", rcm_last_error());
    CHECK(errors, rcm_mem_free(comm, out) == RCM_OK, "free on the failed communicator: %s",
          rcm_last_error());
    CHECK(errors, rcm_destroy(left) == RCM_OK, "destroy: %s", rcm_last_error());
    return errors;
}

/* The exiting rank is a separate child, so that the run counts only the survivors' errors. */
static int check_failure(rcm_comm *comm, void *arg) {
    enum { COUNT = 4000000, ROUNDS = 1000 };
    const bool goes = rcm_rank(comm) == rcm_size(comm) - 1;
    int errors = 0;
    (void)arg;
    float *in = block_of(comm, COUNT, &errors), *out = block_of(comm, COUNT, &errors);
    rcm_status status = RCM_OK;
    fill(in, COUNT, rcm_rank(comm), 1);
    for (int i = 0; status == RCM_OK && i < ROUNDS; i++) {
        rcm_work *work = NULL;
        status = rcm_all_reduce(comm, in, out, COUNT, RCM_FLOAT32, RCM_SUM, NULL, &work);
        if (status == RCM_OK && goes && i == 7)
            _exit(0); /* in the middle of the operation */
        if (status == RCM_OK)
            status = rcm_work_wait(work, -1);
        rcm_work_free(work);
    }
    struct rcm_error error = RCM_ERROR_INIT;
    CHECK(errors, status == RCM_ERR_PEER, "after the death: %s", rcm_status_name(status));
    CHECK(errors,
          rcm_comm_error(comm, &error) == RCM_ERR_PEER && error.origin == rcm_size(comm) - 1,
          "named: rank %d, %s", error.origin, error.text);
    errors += go_on(comm, in, out, COUNT);
    (void)!rcm_destroy(comm);
    return errors;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*check)(rcm_comm *comm, void *arg);
        bool keep;
    } cases[] = {{"misuse", check_misuse, false},
                 {"reuse", check_reuse, false},
                 {"messages", check_messages, false},
                 {"registered", check_registered, false},
                 {"failure", check_failure, true}};
    for (size_t i = 0; argc == 4 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct ranks ranks = {
            .n = atoi(argv[3]), .transport = argv[2], .keep = cases[i].keep};
        if (strcmp(cases[i].name, argv[1]) == 0)
            return ranks_run(&ranks, cases[i].check, NULL) != 0;
    }
    fprintf(stderr, "usage: memory misuse|reuse|messages|registered|failure shm|tcp N\n");
    return 2;
}
