/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every combination of collective, algorithm, type, operator, count and in place, blocking and
 * asynchronous, on N ranks as threads or processes over one transport. Every element is compared:
 *
 *     matrix shm|tcp threads|processes N [big|memory]
 *
 * With "memory", some buffers are from rcm_mem_alloc and some are registered, different ones on
 * each rank. main sets a small RINGCOMM_SLOT_BYTES so that data goes in many slices.
 */
#include "buffer_memory.h"
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 64

/* A small value that differs by rank and position. Sums, and products of up to 16 of them, are
 * exact in every type. */
static int input(int rank, size_t i, rcm_op op) {
    if (op == RCM_PROD)
        return (rank + (int)(i % 7)) % 5 == 0 ? 2 : 1;
    return (int)((i * 7 + (size_t)rank * 13) % 11) + rank % 3;
}

static int expected(int size, size_t i, rcm_op op) {
    int result = input(0, i, op);
    for (int r = 1; r < size; r++) {
        const int x = input(r, i, op);
        result = op == RCM_SUM    ? result + x
                 : op == RCM_PROD ? result * x
                 : op == RCM_MIN  ? (x < result ? x : result)
                                  : (x > result ? x : result);
    }
    return result;
}

/* The input of a rank, and the expected result of all, repeat after that many elements. */
enum { PERIOD = 7 * 11 };
struct pattern {
    int input[PERIOD], expected[PERIOD];
};

static struct pattern pattern_of(const rcm_comm *comm, rcm_op op) {
    struct pattern pattern;
    for (size_t i = 0; i < PERIOD; i++) {
        pattern.input[i] = input(rcm_rank(comm), i, op);
        pattern.expected[i] = expected(rcm_size(comm), i, op);
    }
    return pattern;
}

static void put(void *buffer, size_t i, rcm_dtype dtype, int value) {
    switch (dtype) {
    case RCM_UINT8:
        ((uint8_t *)buffer)[i] = (uint8_t)value;
        break;
    case RCM_INT32:
        ((int32_t *)buffer)[i] = value;
        break;
    case RCM_INT64:
        ((int64_t *)buffer)[i] = value;
        break;
    case RCM_FLOAT32:
        ((float *)buffer)[i] = (float)value;
        break;
    case RCM_FLOAT64:
        ((double *)buffer)[i] = value;
        break;
    default: /* others: ringcomm-bench --check */
        break;
    }
}

static bool holds(const void *buffer, size_t i, rcm_dtype dtype, int value) {
    switch (dtype) {
    case RCM_UINT8:
        return ((const uint8_t *)buffer)[i] == (uint8_t)value;
    case RCM_INT32:
        return ((const int32_t *)buffer)[i] == value;
    case RCM_INT64:
        return ((const int64_t *)buffer)[i] == value;
    case RCM_FLOAT32:
        return ((const float *)buffer)[i] == (float)value;
    case RCM_FLOAT64:
        return ((const double *)buffer)[i] == value;
    default:
        return false;
    }
}

static bool guards_whole(const unsigned char *guard) {
    for (int i = 0; i < GUARD; i++)
        if (guard[i] != 0xa5)
            return false;
    return true;
}

struct buffer {
    rcm_comm *mapped_by;     /* NULL: from the heap */
    rcm_comm *registered_by; /* NULL: not registered */
    unsigned char *memory;
    void *data;
    unsigned char *guarded; /* memory with guards */
    void *view;             /* data, for the CPU */
    size_t bytes;
};

static bool some_mapped; /* set before ranks start */

/* Differs by rank and call, so that either side, both or none has memory of rcm_mem_alloc. */
static bool next_is_mapped(const rcm_comm *comm) {
    static _Thread_local unsigned calls;
    const unsigned call = calls++, kind = call / 2 % 4;
    return some_mapped && ((kind >> call % 2 & 1) ^ ((call / 8 & (unsigned)rcm_rank(comm)) & 1));
}

/* Registers some of the other buffers, part of them with adjacent bytes. */
static bool next_is_registered(void) {
    static _Thread_local unsigned calls;
    return some_mapped && calls++ % 3 == 0;
}

static struct buffer buffer_new(rcm_comm *comm, size_t bytes) {
    struct buffer b = {.bytes = bytes, .mapped_by = next_is_mapped(comm) ? comm : NULL};
    void *memory = NULL;
    if (!b.mapped_by)
        memory = mem_new(bytes + 2 * GUARD);
    else if (rcm_mem_alloc(comm, bytes + 2 * GUARD, &memory) != RCM_OK)
        fprintf(stderr, "rank %d: %s\n", rcm_rank(comm), rcm_last_error());
    b.memory = memory;
    if (!b.memory)
        abort();
    b.guarded = mem_view(b.memory);
    memset(b.guarded, 0xa5, bytes + 2 * GUARD);
    b.data = b.memory + GUARD;
    b.view = b.guarded + GUARD;
    if (!b.mapped_by && next_is_registered() &&
        rcm_mem_register(comm, b.memory, bytes + 2 * GUARD) == RCM_OK)
        b.registered_by = comm;
    return b;
}

/* Frees it. Returns false if its guards were overwritten or it is still in use. */
static bool buffer_free(struct buffer *b) {
    const bool whole = guards_whole(b->guarded) && guards_whole(b->guarded + GUARD + b->bytes) &&
                       mem_in_use(b->memory, b->bytes + 2 * GUARD) == 0;
    if (b->registered_by &&
        rcm_mem_deregister(b->registered_by, b->memory, b->bytes + 2 * GUARD) != RCM_OK)
        return false;
    if (!b->mapped_by)
        mem_free(b->memory);
    else if (rcm_mem_free(b->mapped_by, b->memory) != RCM_OK)
        return false;
    return whole;
}

static rcm_status finish(rcm_status status, rcm_work *work) {
    if (status != RCM_OK || !work)
        return status;
    status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    return status;
}

static int one_all_reduce(rcm_comm *comm, const char *algorithm, size_t count, rcm_dtype dtype,
                          rcm_op op, bool in_place, bool async) {
    int errors = 0;
    const size_t bytes = count * rcm_dtype_size(dtype);
    struct buffer send = buffer_new(comm, bytes), recv = buffer_new(comm, bytes);
    const struct pattern pattern = pattern_of(comm, op);
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    call.algorithm = algorithm;
    void *out = in_place ? send.data : recv.data;
    const void *result = in_place ? send.view : recv.view;
    for (size_t i = 0; i < count; i++)
        put(send.view, i, dtype, pattern.input[i % PERIOD]);
    rcm_status status =
        rcm_all_reduce(comm, send.data, out, count, dtype, op, &call, async ? &work : NULL);
    status = finish(status, work);
    CHECK(errors, status == RCM_OK, "all_reduce %s count %zu: %s", algorithm, count,
          rcm_last_error());
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += !holds(result, i, dtype, pattern.expected[i % PERIOD]);
    CHECK(errors, wrong == 0, "rank %d: all_reduce %s %s %s count %zu%s%s: %zu wrong",
          rcm_rank(comm), algorithm, rcm_dtype_name(dtype), rcm_op_name(op), count,
          in_place ? " in place" : "", async ? " async" : "", wrong);
    for (size_t i = 0; !in_place && i < count && wrong == 0; i++)
        wrong += !holds(send.view, i, dtype, pattern.input[i % PERIOD]);
    CHECK(errors, wrong == 0, "all_reduce %s changed its input", algorithm);
    CHECK(errors, buffer_free(&send) + buffer_free(&recv) == 2,
          "all_reduce %s wrote outside its buffers", algorithm);
    return errors;
}

static int one_broadcast(rcm_comm *comm, const char *algorithm, size_t count, rcm_dtype dtype,
                         int root, bool async) {
    int errors = 0;
    struct buffer b = buffer_new(comm, count * rcm_dtype_size(dtype));
    struct rcm_call call = RCM_CALL_INIT;
    rcm_work *work = NULL;
    call.algorithm = algorithm;
    for (size_t i = 0; i < count; i++)
        put(b.view, i, dtype, rcm_rank(comm) == root ? input(root, i, RCM_SUM) : 99);
    rcm_status status =
        rcm_broadcast(comm, b.data, count, dtype, root, &call, async ? &work : NULL);
    status = finish(status, work);
    CHECK(errors, status == RCM_OK, "broadcast %s: %s", algorithm, rcm_last_error());
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += !holds(b.view, i, dtype, input(root, i, RCM_SUM));
    CHECK(errors, wrong == 0, "rank %d: broadcast %s root %d count %zu: %zu wrong", rcm_rank(comm),
          algorithm, root, count, wrong);
    CHECK(errors, buffer_free(&b), "broadcast %s wrote outside its buffer", algorithm);
    return errors;
}

/* Returns true and the name of the i-th algorithm that these ranks can use. */
static bool algorithm_at(rcm_comm *comm, enum rcm_collective collective, size_t i,
                         const char **ret_name, bool *ret_usable) {
    struct rcm_algorithm_info info;
    if (rcm_algorithm_at(collective, i, &info) != RCM_OK)
        return false;
    *ret_name = info.name;
    *ret_usable = rcm_comm_prepare(comm, collective, 64, 0, info.name) == RCM_OK;
    return true;
}

static int check_all_reduce(rcm_comm *comm, const char *name, bool big) {
    static const rcm_dtype dtypes[] = {RCM_UINT8, RCM_INT32, RCM_INT64, RCM_FLOAT32, RCM_FLOAT64};
    static const rcm_op ops[] = {RCM_SUM, RCM_PROD, RCM_MIN, RCM_MAX};
    const size_t n = (size_t)rcm_size(comm);
    const size_t counts[] = {0, 1, 2, 7, n - 1, n, n + 1, 63, 64, 65, 1000, 4097, 20011};
    const size_t ncounts = sizeof(counts) / sizeof(counts[0]);
    int errors = 0;
    for (size_t c = 0; c < ncounts && errors < 5; c++)
        for (int d = 0; d < 5; d++)
            for (int o = 0; o < 4; o++)
                if (d == 3 || (d + o) % 3 == (int)c % 3) /* all of float32, a third of the rest */
                    errors += one_all_reduce(comm, name, counts[c], dtypes[d], ops[o],
                                             (c + (size_t)o) % 2, (c + (size_t)d) % 2);
    if (big)
        errors += one_all_reduce(comm, name, (size_t)3000017, RCM_FLOAT32, RCM_SUM, false, false);
    return errors;
}

static int check_broadcast(rcm_comm *comm, const char *name, bool big) {
    const size_t counts[] = {0, 1, 7, 100, 4099, 20011};
    int errors = 0;
    for (int root = 0; root < rcm_size(comm); root += 1 + rcm_size(comm) / 5)
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            errors +=
                one_broadcast(comm, name, counts[c], c % 2 ? RCM_INT32 : RCM_FLOAT64, root, c % 2);
    if (big)
        errors +=
            one_broadcast(comm, name, (size_t)3000017, RCM_FLOAT32, rcm_size(comm) - 1, false);
    return errors;
}

static int check_barrier(rcm_comm *comm, const char *name) {
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0;
    call.algorithm = name;
    for (int i = 0; i < 50; i++)
        CHECK(errors, rcm_barrier(comm, &call, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    return errors;
}

static int check_matrix(rcm_comm *comm, void *arg) {
    const bool big = *(bool *)arg;
    int errors = 0;
    for (int c = RCM_ALL_REDUCE; c <= RCM_BARRIER; c++) {
        const enum rcm_collective collective = (enum rcm_collective)c;
        const char *name;
        bool usable;
        for (size_t i = 0; algorithm_at(comm, collective, i, &name, &usable); i++) {
            if (!usable)
                continue;
            if (collective == RCM_ALL_REDUCE)
                errors += check_all_reduce(comm, name, big);
            else if (collective == RCM_BROADCAST)
                errors += check_broadcast(comm, name, big);
            else
                errors += check_barrier(comm, name);
        }
    }
    return errors;
}

static void release(void *arg, rcm_status status) {
    (void)status;
    mem_free(arg);
}

/* Many asynchronous works in flight, waited for in another order. */
static int check_async(rcm_comm *comm, void *arg) {
    enum { WORKS = 24, COUNT = 3000 };
    float *data[WORKS], *view[WORKS];
    rcm_work *works[WORKS];
    int errors = 0;
    (void)arg;
    for (int w = 0; w < WORKS; w++) {
        data[w] = mem_new(COUNT * sizeof(float));
        view[w] = mem_view(data[w]);
        for (size_t i = 0; i < COUNT; i++)
            view[w][i] = (float)(input(rcm_rank(comm), i, RCM_SUM) + w);
        rcm_status status = w % 4 == 3 ? rcm_barrier(comm, NULL, &works[w])
                                       : rcm_all_reduce(comm, data[w], data[w], COUNT, RCM_FLOAT32,
                                                        RCM_SUM, NULL, &works[w]);
        CHECK(errors, status == RCM_OK, "async: %s", rcm_last_error());
    }
    for (int k = 0; k < WORKS; k++) {
        const int w = (k * 7) % WORKS;
        if (w == 5)
            CHECK(errors, rcm_work_detach(works[w], release, data[w]) == RCM_OK, "detach: %s",
                  rcm_last_error());
        else
            CHECK(errors, finish(RCM_OK, works[w]) == RCM_OK, "wait: %s", rcm_last_error());
    }
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    for (int w = 0; w < WORKS; w++)
        for (size_t i = 0; w % 4 != 3 && w != 5 && i < COUNT; i++)
            if (view[w][i] != (float)(expected(rcm_size(comm), i, RCM_SUM) + w * rcm_size(comm)))
                errors++;
    for (int w = 0; w < WORKS; w++)
        if (w != 5)
            mem_free(data[w]);
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: matrix shm|tcp threads|processes N [big|memory]\n");
        return 2;
    }
    setenv("RINGCOMM_SLOT_BYTES", "4096", 0);
    mem_init();
    struct ranks ranks = {
        .n = atoi(argv[3]), .threads = strcmp(argv[2], "threads") == 0, .transport = argv[1]};
    bool big = argc > 4; /* with memory too: streaming stores need this size */
    some_mapped = big && strcmp(argv[4], "memory") == 0;
    int errors = ranks_run(&ranks, check_matrix, &big);
    errors += ranks_run(&ranks, check_async, NULL);
    return errors ? 1 : 0;
}
