/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of version 0.1.0: built against the header kept in ringcomm-0.1.0.h, run with the
 * present library. Two ranks use every group of functions and check what comes out. Structs lie at
 * the end of readable and writable memory, so a library that takes one for larger than it is ends
 * the rank.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "ringcomm-0.1.0.h"

#define RANKS      2
#define COUNT      1000
#define TIMEOUT_MS 20000

static void fail(int line, const char *what) {
    fprintf(stderr, "kept.c:%d: %s (%s)\n", line, what, rcm_last_error());
    exit(1);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail(__LINE__, #condition);                                                            \
    } while (0)
#define CHECK_OK(call) CHECK((call) == RCM_OK)

/* A copy of it whose last byte is the last of a page; the next page is not there. */
static void *at_edge(const void *thing, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    return memcpy(pages + page - bytes, thing, bytes);
}

static struct rcm_call *call_at_edge(const char *algorithm) {
    struct rcm_call call = RCM_CALL_INIT;
    call.timeout_ms = TIMEOUT_MS;
    call.algorithm = algorithm;
    return at_edge(&call, sizeof call);
}

static rcm_comm *begin(int rank) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm;
    options.timeout_ms = TIMEOUT_MS;
    CHECK_OK(rcm_init(at_edge(&options, sizeof options), &comm));
    CHECK(rcm_rank(comm) == rank && rcm_size(comm) == RANKS);
    CHECK(rcm_local_rank(comm) == rank && rcm_local_size(comm) == RANKS);
    CHECK(rcm_world_rank(comm, 1) == 1 && rcm_world_rank(comm, RANKS) == -1);
    return comm;
}

/* ---- Collectives --------------------------------------------------------------------------- */

static void check_sums(rcm_comm *comm, float *in, float *out, const struct rcm_call *call) {
    const int rank = rcm_rank(comm);
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(i + rank);
    CHECK_OK(rcm_all_reduce(comm, in, out, COUNT, RCM_FLOAT32, RCM_SUM, call, NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK((int)out[i] == 2 * i + 1);
}

static void use_collectives(rcm_comm *comm) {
    static float in[COUNT], out[COUNT];
    int32_t number = rcm_rank(comm) == 1 ? 77 : 0;
    rcm_work *work;
    CHECK_OK(rcm_comm_prepare(comm, RCM_ALL_REDUCE, sizeof in, 0, NULL));
    check_sums(comm, in, out, NULL);
    check_sums(comm, in, out, call_at_edge(NULL));
    check_sums(comm, in, out, call_at_edge("ring"));
    CHECK_OK(rcm_broadcast(comm, &number, 1, RCM_INT32, 1, call_at_edge(NULL), &work));
    CHECK_OK(rcm_work_wait(work, -1));
    CHECK(rcm_work_test(work) == RCM_OK && rcm_work_status(work) == RCM_OK && number == 77);
    rcm_work_free(work);
    CHECK_OK(rcm_barrier(comm, call_at_edge(NULL), NULL));
    CHECK(strlen(rcm_comm_algorithm(comm, RCM_ALL_REDUCE, sizeof in)) > 0);
    CHECK(strlen(rcm_comm_transport(comm, 1 - rcm_rank(comm))) > 0);
}

static void use_memory(rcm_comm *comm) {
    void *in, *out;
    CHECK_OK(rcm_mem_alloc(comm, COUNT * sizeof(float), &in));
    CHECK_OK(rcm_mem_alloc(comm, COUNT * sizeof(float), &out));
    check_sums(comm, in, out, NULL);
    CHECK_OK(rcm_mem_free(comm, in));
    CHECK_OK(rcm_mem_free(comm, out));
}

/* ---- Messages ------------------------------------------------------------------------------ */

static void check_message(const rcm_work *work, uint64_t tag, size_t bytes) {
    const struct rcm_message empty = RCM_MESSAGE_INIT;
    struct rcm_message *message = at_edge(&empty, sizeof empty);
    CHECK_OK(rcm_work_message(work, message));
    CHECK(message->size == sizeof *message && message->source == 0);
    CHECK(message->tag == tag && message->bytes == bytes);
}

static void receive(rcm_comm *comm) {
    int64_t one = 0, many[4] = {0, 0, 0, 0};
    rcm_work *first, *second;
    CHECK_OK(rcm_irecv(comm, &one, 1, RCM_INT64, 0, 5, &first));
    CHECK_OK(rcm_recv(comm, many, 4, RCM_INT64, 0, RCM_ANY_TAG, call_at_edge(NULL), &second));
    CHECK_OK(rcm_work_wait(first, -1));
    check_message(first, 5, sizeof one);
    CHECK(one == 41);
    CHECK_OK(rcm_work_wait(second, -1));
    check_message(second, 6, 2 * sizeof one);
    CHECK(many[0] == 42 && many[1] == 43 && many[2] == 0);
    rcm_work_free(first);
    rcm_work_free(second);
    CHECK(rcm_recv(comm, many, 1, RCM_INT64, 0, 7, NULL, NULL) == RCM_ERR_TRUNCATED);
    CHECK(many[0] == 44 && many[1] == 43);
}

static void use_messages(rcm_comm *comm) {
    const int64_t values[] = {41, 42, 43, 44, 45};
    rcm_work *work;
    if (rcm_rank(comm) == 1) {
        receive(comm);
        return;
    }
    CHECK_OK(rcm_isend(comm, &values[0], 1, RCM_INT64, 1, 5, &work));
    CHECK_OK(rcm_work_wait(work, -1));
    rcm_work_free(work);
    CHECK_OK(rcm_send(comm, &values[1], 2, RCM_INT64, 1, 6, call_at_edge(NULL), NULL));
    CHECK_OK(rcm_send(comm, &values[3], 2, RCM_INT64, 1, 7, NULL, NULL));
}

/* ---- Stores -------------------------------------------------------------------------------- */

static void use_many_keys(rcm_store *store) {
    const char *const keys[] = {"a", "b"};
    char a[] = "1", b[] = "22";
    const struct rcm_blob values[] = {{a, 1}, {b, 2}};
    struct rcm_blob got[2];
    CHECK_OK(rcm_store_multi_set(store, keys, values, 2));
    CHECK_OK(rcm_store_wait(store, keys, 2, TIMEOUT_MS));
    CHECK_OK(rcm_store_multi_get(store, keys, 2, TIMEOUT_MS, got));
    CHECK(got[0].len == 1 && got[1].len == 2 && strcmp(got[1].data, "22") == 0);
    free(got[0].data);
    free(got[1].data);
}

static void use_stores(void) {
    rcm_store *store, *view;
    void *value;
    size_t len, keys;
    int64_t sum;
    int yes;
    CHECK_OK(rcm_store_open("hash:", TIMEOUT_MS, &store));
    CHECK(strcmp(rcm_store_url(store), "") == 0);
    CHECK_OK(rcm_store_prefix(store, "view", &view));
    CHECK_OK(rcm_store_set(view, "key", "ab", 2));
    CHECK_OK(rcm_store_append(view, "key", "c", 1));
    CHECK_OK(rcm_store_get(store, "view/key", TIMEOUT_MS, &value, &len));
    CHECK(len == 3 && strcmp(value, "abc") == 0);
    free(value);
    CHECK_OK(rcm_store_compare_set(view, "key", "abc", 3, "d", 1, &yes, &value, &len));
    CHECK(yes && len == 1 && strcmp(value, "d") == 0);
    free(value);
    CHECK_OK(rcm_store_add(store, "sum", 40, &sum));
    CHECK_OK(rcm_store_add(store, "sum", 2, &sum));
    CHECK(sum == 42);
    use_many_keys(store);
    CHECK_OK(rcm_store_count(store, &keys));
    CHECK(keys == 4);
    CHECK_OK(rcm_store_delete(store, "sum", &yes));
    CHECK(yes && rcm_store_try_get(store, "sum", &value, &len) == RCM_ERR_NOT_FOUND);
    rcm_store_close(view);
    rcm_store_close(store);
}

/* ---- Looking at the library ---------------------------------------------------------------- */

static void use_names(void) {
    rcm_dtype dtype;
    rcm_op op;
    CHECK(rcm_dtype_size(RCM_FLOAT64) == 8 && rcm_dtype_size(RCM_UINT8) == 1);
    CHECK_OK(rcm_dtype_from_name(rcm_dtype_name(RCM_INT64), &dtype));
    CHECK_OK(rcm_op_from_name(rcm_op_name(RCM_MAX), &op));
    CHECK(dtype == RCM_INT64 && op == RCM_MAX);
    CHECK(strcmp(rcm_status_name(RCM_ERR_PEER), "RCM_ERR_PEER") == 0);
    CHECK(strlen(rcm_status_text(RCM_ERR_TIMEOUT)) > 0 && strlen(rcm_version()) > 0);
}

/* These structs have no size: they never grow. */
static void use_tables(void) {
    struct rcm_setting *setting = at_edge(&(struct rcm_setting){0}, sizeof *setting);
    struct rcm_launch_item *item = at_edge(&(struct rcm_launch_item){0}, sizeof *item);
    struct rcm_transport_info *transport =
        at_edge(&(struct rcm_transport_info){0}, sizeof *transport);
    struct rcm_algorithm_info *algorithm =
        at_edge(&(struct rcm_algorithm_info){0}, sizeof *algorithm);
    int timeouts = 0, sizes = 0, shm = 0, ring = 0;
    size_t i;
    for (i = 0; rcm_setting_at(i, setting) == RCM_OK; i++)
        timeouts += strcmp(setting->name, "RINGCOMM_TIMEOUT") == 0 && strlen(setting->help) > 0;
    for (i = 0; rcm_launch_at(i, item) == RCM_OK; i++)
        sizes += strcmp(item->name, "world_size") == 0 && atoi(item->value) == RANKS;
    for (i = 0; rcm_transport_at(i, transport) == RCM_OK; i++)
        shm += strcmp(transport->name, "shm") == 0 && strlen(transport->reason) > 0;
    for (i = 0; rcm_algorithm_at(RCM_ALL_REDUCE, i, algorithm) == RCM_OK; i++)
        ring += strcmp(algorithm->name, "ring") == 0 && strlen(algorithm->description) > 0;
    CHECK(timeouts == 1 && sizes == 1 && shm == 1 && ring == 1);
}

/* ---- Errors -------------------------------------------------------------------------------- */

static void check_error(rcm_comm *comm, rcm_status status, int origin, const char *words) {
    const struct rcm_error empty = RCM_ERROR_INIT;
    struct rcm_error *error = at_edge(&empty, sizeof empty);
    CHECK(rcm_comm_error(comm, error) == status);
    CHECK(error->size == sizeof *error && error->status == status && error->origin == origin);
    CHECK(strstr(error->text, words));
}

/* Rank 1 aborts; both go on with a communicator of those that are left, which are all. */
static void use_errors(rcm_comm *comm) {
    static float in[COUNT], out[COUNT];
    rcm_comm *next;
    check_error(comm, RCM_OK, -1, "");
    if (rcm_rank(comm) == 0) { /* it has looked; the abort may come before its send is complete */
        (void)!rcm_send(comm, in, 1, RCM_FLOAT32, 1, 9, NULL, NULL);
    } else {
        CHECK_OK(rcm_recv(comm, in, 1, RCM_FLOAT32, 0, 9, NULL, NULL));
        CHECK_OK(rcm_abort(comm, "for the test"));
    }
    CHECK(rcm_barrier(comm, NULL, NULL) == RCM_ERR_ABORTED);
    check_error(comm, RCM_ERR_ABORTED, 1, "for the test");
    CHECK_OK(rcm_comm_shrink(comm, call_at_edge(NULL), &next));
    CHECK(rcm_destroy(comm) == RCM_ERR_ABORTED);
    CHECK(rcm_size(next) == RANKS);
    check_sums(next, in, out, NULL);
    CHECK_OK(rcm_destroy(next));
}

static int rank_main(int rank, void *arg) {
    CHECK(strcmp(arg, "argument") == 0);
    rcm_comm *comm = begin(rank);
    use_collectives(comm);
    use_messages(comm);
    use_memory(comm);
    use_stores();
    use_names();
    use_tables();
    use_errors(comm);
    return 0;
}

int main(void) {
    char argument[] = "argument";
    int rank, status;
    if (rcm_spawn(RANKS, rank_main, argument, 3 * TIMEOUT_MS, &rank, &status) == RCM_OK)
        return 0;
    fprintf(stderr, "rank %d ended with %d: %s\n", rank, status, rcm_last_error());
    return 1;
}
