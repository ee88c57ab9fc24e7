/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every function of ringcomm.map, called in a forked child of a rank (one child each) while the
 * parent's operations go on:
 *
 *     forked MAP TRANSPORT [refuse]
 *
 * Children are created by each method of children.h. With "refuse" the kernel rejects
 * MADV_WIPEONFORK, and only fork() is used. Each function returns what ringcomm.h documents under
 * FORK, does not block, and closes no descriptor of the child. The parent's next operations are
 * right. A function of the map that is missing here is an error.
 */
#include "children.h"
#include "../ranks.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_SECONDS = 60, FILES = 64, COUNT = 1 << 16, SMALL = 8 };

static enum child_way ways = CHILD_WAYS;

/* What a rank has open when it forks. */
struct parent {
    rcm_comm *comm;
    int rank, size;
    rcm_work *pending, *done, *received;
    rcm_store *store, *prefix;
    rcm_init_request *request;      /* complete */
    rcm_comm_request *comm_request; /* complete */
    void *memory;
    rcm_op op;
    rcm_queue *queue; /* holds a complete work and an incomplete one */
};

static struct rcm_error error = RCM_ERROR_INIT;
static struct rcm_message message = RCM_MESSAGE_INIT;
static struct rcm_protocol_info protocol = RCM_PROTOCOL_INFO_INIT;
static struct rcm_setting setting;
static struct rcm_launch_item launch;
static struct rcm_transport_info transport;
static struct rcm_algorithm_info algorithm;
static struct rcm_collective_info collective = RCM_COLLECTIVE_INFO_INIT;
static struct rcm_counters counters = RCM_COUNTERS_INIT;
static float in[SMALL], out[SMALL];
static const size_t counts[] = {1, 1, 1, 1};
static struct rcm_bytes *bytes;
static const struct rcm_part part = {in, out, 1, RCM_FLOAT32};
static const struct rcm_transfer transfer = {
    .kind = RCM_TRANSFER_RECV, .buffer = out, .count = 1, .dtype = RCM_FLOAT32};
static rcm_matched *matched;
static rcm_queue *queue;
static struct rcm_completion completion;
static const void *const lists[] = {in, in, in, in};
static void *const list[] = {out, out, out, out};
static const char *const keys[] = {"k"};
static char value_of_k[] = "v";
static const struct rcm_blob values[] = {{value_of_k, 1}};
static struct rcm_blob got[1];
static struct rcm_unique_id unique_id;
static rcm_comm *comm;
static rcm_work *work;
static rcm_comm_request *begun;
static rcm_store *store;
static rcm_dtype dtype;
static rcm_op op;
static void *memory;
static char registered[5000]; /* by the parent */
static int64_t number;
static size_t size;
static int flag, code;
static const int both[] = {0, 1};

static bool refused(rcm_status status) {
    return status == RCM_ERR_FORKED && rcm_last_error()[0] != '\0';
}

static bool equals(const char *text, const char *expected) {
    return strcmp(text, expected) == 0;
}

/* In the child, the parent's store is rejected and a new one works. */
static bool inits(const struct parent *p) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    options.rank = 0;
    options.world_size = 1;
    options.store = p->store;
    unsetenv("RINGCOMM_LOCAL_RANK");
    unsetenv("RINGCOMM_LOCAL_WORLD_SIZE");
    if (!refused(rcm_init(&options, &comm)))
        return false;
    options.store = NULL;
    options.url = "hash:forked";
    return rcm_init(&options, &comm) == RCM_OK && rcm_destroy(comm) == RCM_OK;
}

static int spawned(int rank, void *arg) {
    (void)arg;
    return rank;
}

/* On a new thread of the child. */
static bool begins(const struct parent *p) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_init_request *request;
    (void)p;
    options.rank = 0;
    options.world_size = 1;
    options.url = "hash:";
    unsetenv("RINGCOMM_LOCAL_RANK");
    unsetenv("RINGCOMM_LOCAL_WORLD_SIZE");
    if (rcm_init_begin(&options, &request) != RCM_OK || rcm_init_wait(request, -1, &comm) != RCM_OK)
        return false;
    rcm_init_cancel(request);
    return rcm_destroy(comm) == RCM_OK;
}

static bool cancels_comm(const struct parent *p) {
    rcm_comm_request_cancel(p->comm_request);
    return true;
}

/* The child's copy of the communicator is gone, so the request is complete at once. */
static bool begins_to_destroy(void) {
    rcm_comm_request *request = NULL;
    const bool ok = rcm_destroy_begin(NULL, &request) == RCM_OK &&
                    rcm_comm_request_test(request, NULL) == RCM_OK;
    rcm_comm_request_cancel(request);
    return ok;
}

static bool cancels(const struct parent *p) {
    rcm_init_cancel(p->request);
    return true;
}

static void own_op(const void *left, void *inout, size_t count, rcm_dtype type, void *context) {
    (void)type;
    (void)context;
    memcpy(inout, left, count);
}

/* The child may free its copy of the parent's operator, and create and free a new one. */
static bool frees_op(const struct parent *p) {
    return rcm_op_free(p->op) == RCM_OK &&
           rcm_op_create_premul_sum(2, 0, RCM_FLOAT32, &op) == RCM_OK && op != p->op &&
           rcm_op_free(op) == RCM_OK && rcm_op_free(op) == RCM_ERR_INVALID;
}

/* The child may free its copy of the parent's queue, and create and free a new one. */
static bool frees_queue(const struct parent *p) {
    rcm_queue_free(p->queue);
    const bool made = rcm_queue_create(&queue) == RCM_OK &&
                      rcm_queue_wait(queue, &completion, 1, 0, &size) == RCM_PENDING && size == 0;
    rcm_queue_free(queue);
    return made;
}

static rcm_status own_set(void *arg, const char *key, const void *value, size_t len) {
    (void)arg;
    return key && value && len > 0 ? RCM_OK : RCM_ERR_INVALID;
}

static rcm_status own_try_get(void *arg, const char *key, void **ret_value, size_t *ret_len) {
    (void)arg;
    (void)ret_value;
    (void)ret_len;
    return key ? RCM_ERR_NOT_FOUND : RCM_ERR_INVALID;
}

static rcm_status own_compare_set(void *arg, const char *key, const void *expected,
                                  size_t expected_len, const void *desired, size_t desired_len,
                                  int *ret_swapped, void **ret_value, size_t *ret_len) {
    (void)arg;
    (void)expected;
    (void)desired;
    (void)ret_swapped;
    (void)ret_value;
    (void)ret_len;
    return key && expected_len + desired_len > 0 ? RCM_ERR_NOT_FOUND : RCM_ERR_INVALID;
}

static bool customs(void) {
    struct rcm_store_functions own = RCM_STORE_FUNCTIONS_INIT;
    own.set = own_set;
    own.try_get = own_try_get;
    own.compare_set = own_compare_set;
    const bool sets =
        rcm_store_custom(&own, &store) == RCM_OK && rcm_store_set(store, "k", "v", 1) == RCM_OK;
    rcm_store_close(store);
    return sets;
}

static void completed(void *arg, rcm_status status) {
    (void)arg;
    (void)status;
}

static bool destroys(const struct parent *p) {
    rcm_work_free(p->pending);
    rcm_work_free(p->done);
    return rcm_destroy(p->comm) == RCM_OK;
}

/* Works may be freed after their communicator. */
static bool frees(const struct parent *p) {
    const bool destroyed = rcm_destroy(p->comm) == RCM_OK;
    const bool still = refused(rcm_work_test(p->received)) && refused(rcm_work_test(p->pending));
    rcm_work_free(p->pending);
    rcm_work_free(p->done);
    rcm_work_free(p->received);
    return destroyed && still;
}

static bool closes(const struct parent *p) {
    rcm_store_close(p->store);
    rcm_store_close(p->prefix);
    return true;
}

static bool opens(void) {
    const bool opened = rcm_store_open("hash:", 1000, &store) == RCM_OK;
    rcm_store_close(store);
    return opened;
}

/* X(function, expression that is true if the function behaves in the child as documented) */
#define CALLS(X)                                                                                   \
    X(rcm_abort, refused(rcm_abort(p->comm, "by a child")))                                        \
    X(rcm_algorithm_at, rcm_algorithm_at(RCM_ALL_REDUCE, 0, &algorithm) == RCM_OK)                 \
    X(rcm_all_gather, refused(rcm_all_gather(p->comm, in, out, 1, RCM_FLOAT32, NULL, NULL)))       \
    X(rcm_all_gather_bytes, refused(rcm_all_gather_bytes(p->comm, in, 1, &bytes, NULL, NULL)))     \
    X(rcm_broadcast_bytes, refused(rcm_broadcast_bytes(p->comm, in, 1, 0, &bytes, NULL, &work)))   \
    X(rcm_gather_bytes, refused(rcm_gather_bytes(p->comm, in, 1, 0, &bytes, NULL, NULL)))          \
    X(rcm_scatter_bytes,                                                                           \
      refused(rcm_scatter_bytes(p->comm, lists, counts, 0, &bytes, NULL, &work)))                  \
    X(rcm_all_gather_list,                                                                         \
      refused(rcm_all_gather_list(p->comm, in, 1, list, counts, RCM_FLOAT32, NULL, NULL)))         \
    X(rcm_all_gather_v,                                                                            \
      refused(rcm_all_gather_v(p->comm, in, 1, out, counts, NULL, RCM_FLOAT32, NULL, &work)))      \
    X(rcm_all_to_all_list,                                                                         \
      refused(rcm_all_to_all_list(p->comm, lists, counts, list, counts, RCM_FLOAT32, NULL, NULL))) \
    X(rcm_all_to_all_v, refused(rcm_all_to_all_v(p->comm, in, counts, NULL, out, counts, NULL,     \
                                                 RCM_FLOAT32, NULL, NULL)))                        \
    X(rcm_gather_list,                                                                             \
      refused(rcm_gather_list(p->comm, in, 1, list, counts, RCM_FLOAT32, 0, NULL, NULL)))          \
    X(rcm_gather_v,                                                                                \
      refused(rcm_gather_v(p->comm, in, 1, out, counts, NULL, RCM_FLOAT32, 0, NULL, NULL)))        \
    X(rcm_reduce_scatter_list, refused(rcm_reduce_scatter_list(p->comm, lists, counts, out, 1,     \
                                                               RCM_FLOAT32, RCM_SUM, NULL, NULL))) \
    X(rcm_reduce_scatter_v, refused(rcm_reduce_scatter_v(p->comm, in, counts, NULL, out, 1,        \
                                                         RCM_FLOAT32, RCM_SUM, NULL, &work)))      \
    X(rcm_scatter_list,                                                                            \
      refused(rcm_scatter_list(p->comm, lists, counts, out, 1, RCM_FLOAT32, 0, NULL, NULL)))       \
    X(rcm_scatter_v,                                                                               \
      refused(rcm_scatter_v(p->comm, in, counts, NULL, out, 1, RCM_FLOAT32, 0, NULL, NULL)))       \
    X(rcm_all_to_all, refused(rcm_all_to_all(p->comm, in, out, 1, RCM_FLOAT32, NULL, &work)))      \
    X(rcm_gather, refused(rcm_gather(p->comm, in, out, 1, RCM_FLOAT32, 0, NULL, NULL)))            \
    X(rcm_reduce, refused(rcm_reduce(p->comm, in, out, 1, RCM_FLOAT32, RCM_SUM, 0, NULL, NULL)))   \
    X(rcm_reduce_local, rcm_reduce_local(in, out, SMALL, RCM_FLOAT32, RCM_MAX) == RCM_OK)          \
    X(rcm_reduce_scatter,                                                                          \
      refused(rcm_reduce_scatter(p->comm, in, out, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL)))          \
    X(rcm_scan, refused(rcm_scan(p->comm, in, out, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL)))          \
    X(rcm_exscan, refused(rcm_exscan(p->comm, in, out, 1, RCM_FLOAT32, RCM_SUM, NULL, &work)))     \
    X(rcm_scatter, refused(rcm_scatter(p->comm, in, out, 1, RCM_FLOAT32, 0, NULL, &work)))         \
    X(rcm_all_reduce,                                                                              \
      refused(rcm_all_reduce(p->comm, in, out, SMALL, RCM_FLOAT32, RCM_SUM, NULL, NULL)))          \
    X(rcm_barrier, refused(rcm_barrier(p->comm, NULL, NULL)))                                      \
    X(rcm_monitored_barrier, refused(rcm_monitored_barrier(p->comm, 0, NULL, NULL)))               \
    X(rcm_comm_missing, refused(rcm_comm_missing(p->comm, &flag, 1, &size)))                       \
    X(rcm_broadcast, refused(rcm_broadcast(p->comm, in, SMALL, RCM_FLOAT32, 0, NULL, &work)))      \
    X(rcm_coalesced,                                                                               \
      refused(rcm_coalesced(p->comm, RCM_ALL_REDUCE, &part, 1, RCM_SUM, 0, NULL, NULL)))           \
    X(rcm_collective_at, rcm_collective_at(0, &collective) == RCM_OK)                              \
    X(rcm_comm_algorithm, equals(rcm_comm_algorithm(p->comm, RCM_BARRIER, 0), ""))                 \
    X(rcm_comm_duplicate, refused(rcm_comm_duplicate(p->comm, NULL, &comm)))                       \
    X(rcm_comm_counters, refused(rcm_comm_counters(p->comm, &counters)))                           \
    X(rcm_comm_name, equals(rcm_comm_name(p->comm), "world"))                                      \
    X(rcm_comm_set_name, refused(rcm_comm_set_name(p->comm, "child")))                             \
    X(rcm_comm_set_spin, refused(rcm_comm_set_spin(p->comm, 1)))                                   \
    X(rcm_comm_set_timeout, refused(rcm_comm_set_timeout(p->comm, 1)))                             \
    X(rcm_comm_split, refused(rcm_comm_split(p->comm, 0, 0, NULL, &comm)))                         \
    X(rcm_comm_split_hosts, refused(rcm_comm_split_hosts(p->comm, NULL, &comm)))                   \
    X(rcm_comm_subset, refused(rcm_comm_subset(p->comm, both, 2, 0, NULL, &comm)))                 \
    X(rcm_comm_timeout, rcm_comm_timeout(p->comm) > 0)                                             \
    X(rcm_comm_translate, rcm_comm_translate(p->comm, 1, p->comm) == 1)                            \
    X(rcm_comm_error, refused(rcm_comm_error(p->comm, &error)))                                    \
    X(rcm_comm_prepare, refused(rcm_comm_prepare(p->comm, RCM_BROADCAST, 1 << 20, 0, NULL)))       \
    X(rcm_comm_prepare_kind,                                                                       \
      refused(rcm_comm_prepare_kind(p->comm, RCM_MEM_DEVICE, RCM_BROADCAST, 1 << 20, 0, NULL)))    \
    X(rcm_comm_shrink, refused(rcm_comm_shrink(p->comm, NULL, &comm)))                             \
    X(rcm_comm_transport, equals(rcm_comm_transport(p->comm, 1 - p->rank), ""))                    \
    X(rcm_leave, refused(rcm_leave(p->comm)))                                                      \
    X(rcm_destroy, destroys(p))                                                                    \
    X(rcm_dtype_from_name, rcm_dtype_from_name("float32", &dtype) == RCM_OK)                       \
    X(rcm_dtype_name, equals(rcm_dtype_name(RCM_INT32), "int32"))                                  \
    X(rcm_dtype_opaque, rcm_dtype_opaque(12, &dtype) == RCM_OK)                                    \
    X(rcm_dtype_size, rcm_dtype_size(RCM_INT32) == 4)                                              \
    X(rcm_init, inits(p))                                                                          \
    X(rcm_irecv, refused(rcm_irecv(p->comm, out, 1, RCM_FLOAT32, 1 - p->rank, 1, &work)))          \
    X(rcm_isend, refused(rcm_isend(p->comm, in, 1, RCM_FLOAT32, 1 - p->rank, 1, &work)))           \
    X(rcm_issend, refused(rcm_issend(p->comm, in, 1, RCM_FLOAT32, 1 - p->rank, 1, &work)))         \
    X(rcm_ssend, refused(rcm_ssend(p->comm, in, 1, RCM_FLOAT32, 1 - p->rank, 1, NULL, NULL)))      \
    X(rcm_sendrecv,                                                                                \
      refused(rcm_sendrecv(p->comm, in, 1, 0, 1, out, 1, 0, 1, RCM_FLOAT32, NULL, NULL)))          \
    X(rcm_batch, refused(rcm_batch(p->comm, &transfer, 1, NULL, NULL)))                            \
    X(rcm_probe, refused(rcm_probe(p->comm, 1 - p->rank, 1, NULL, NULL)))                          \
    X(rcm_iprobe, refused(rcm_iprobe(p->comm, RCM_ANY_SOURCE, 1, &message)))                       \
    X(rcm_mprobe, refused(rcm_mprobe(p->comm, RCM_ANY_SOURCE, 1, NULL, NULL, &matched)))           \
    X(rcm_improbe, refused(rcm_improbe(p->comm, 1 - p->rank, 1, NULL, &matched)))                  \
    X(rcm_mrecv, refused(rcm_mrecv(p->comm, matched, out, 1, RCM_FLOAT32, NULL, NULL)))            \
    X(rcm_work_cancel, refused(rcm_work_cancel(p->pending)))                                       \
    X(rcm_last_error, refused(rcm_barrier(p->comm, NULL, NULL)))                                   \
    X(rcm_launch_at, rcm_launch_at(0, &launch) == RCM_OK)                                          \
    X(rcm_log_set, rcm_log_set(NULL, NULL) == RCM_OK)                                              \
    X(rcm_log_set_level, rcm_log_set_level(RCM_LOG_WARN) == RCM_OK)                                \
    X(rcm_local_rank, rcm_local_rank(p->comm) == p->rank)                                          \
    X(rcm_local_size, rcm_local_size(p->comm) == p->size)                                          \
    X(rcm_mem_alloc, refused(rcm_mem_alloc(p->comm, 4096, &memory)))                               \
    X(rcm_mem_alloc_kind, refused(rcm_mem_alloc_kind(p->comm, RCM_MEM_DEVICE, 4096, &memory)))     \
    X(rcm_mem_free, refused(rcm_mem_free(p->comm, p->memory)))                                     \
    X(rcm_mem_register, refused(rcm_mem_register(p->comm, in, sizeof in)))                         \
    X(rcm_mem_deregister, refused(rcm_mem_deregister(p->comm, registered, sizeof registered)))     \
    X(rcm_op_from_name, rcm_op_from_name("sum", &op) == RCM_OK)                                    \
    X(rcm_op_create_premul_sum, rcm_op_create_premul_sum(2, 0, RCM_FLOAT32, &op) == RCM_OK)        \
    X(rcm_op_create_premul_sum_from,                                                               \
      rcm_op_create_premul_sum_from(&op, RCM_FLOAT32, &op) == RCM_OK)                              \
    X(rcm_op_create, rcm_op_create(own_op, NULL, 0, "own", RCM_INT32, &op) == RCM_OK)              \
    X(rcm_op_free, frees_op(p))                                                                    \
    X(rcm_op_defined, rcm_op_defined(RCM_MAX, RCM_INT32) == RCM_OK)                                \
    X(rcm_op_name, equals(rcm_op_name(RCM_MAX), "max"))                                            \
    X(rcm_protocol_at, rcm_protocol_at(0, &protocol) == RCM_OK)                                    \
    X(rcm_queue_create, rcm_queue_create(&queue) == RCM_OK && queue)                               \
    X(rcm_queue_give, refused(rcm_queue_give(p->queue, p->done, NULL)))                            \
    X(rcm_queue_wait, refused(rcm_queue_wait(p->queue, &completion, 1, 0, &size)))                 \
    X(rcm_queue_fd, refused(rcm_queue_fd(p->queue, &flag)))                                        \
    X(rcm_queue_free, frees_queue(p))                                                              \
    X(rcm_rank, rcm_rank(p->comm) == p->rank)                                                      \
    X(rcm_recv, refused(rcm_recv(p->comm, out, 1, RCM_FLOAT32, 1 - p->rank, 1, NULL, NULL)))       \
    X(rcm_send, refused(rcm_send(p->comm, in, 1, RCM_FLOAT32, 1 - p->rank, 1, NULL, NULL)))        \
    X(rcm_setting_at, rcm_setting_at(0, &setting) == RCM_OK)                                       \
    X(rcm_size, rcm_size(p->comm) == p->size)                                                      \
    X(rcm_spawn, rcm_spawn(1, spawned, NULL, 30000, &flag, &code) == RCM_OK)                       \
    X(rcm_status_name, equals(rcm_status_name(RCM_ERR_FORKED), "RCM_ERR_FORKED"))                  \
    X(rcm_status_text, rcm_status_text(RCM_ERR_FORKED)[0] != '\0')                                 \
    X(rcm_store_add, refused(rcm_store_add(p->store, "n", 1, &number)))                            \
    X(rcm_store_append, refused(rcm_store_append(p->prefix, "k", "v", 1)))                         \
    X(rcm_store_close, closes(p))                                                                  \
    X(rcm_store_compare_set,                                                                       \
      refused(rcm_store_compare_set(p->store, "k", "", 0, "v", 1, &flag, &memory, &size)))         \
    X(rcm_store_count, refused(rcm_store_count(p->store, &size)))                                  \
    X(rcm_store_delete, refused(rcm_store_delete(p->prefix, "k", &flag)))                          \
    X(rcm_store_get, refused(rcm_store_get(p->store, "k", 0, &memory, &size)))                     \
    X(rcm_store_multi_get, refused(rcm_store_multi_get(p->store, keys, 1, 0, got)))                \
    X(rcm_store_multi_set, refused(rcm_store_multi_set(p->store, keys, values, 1)))                \
    X(rcm_store_open, opens())                                                                     \
    X(rcm_store_prefix, refused(rcm_store_prefix(p->store, "a", &store)))                          \
    X(rcm_store_set, refused(rcm_store_set(p->prefix, "k", "v", 1)))                               \
    X(rcm_store_try_get, refused(rcm_store_try_get(p->store, "k", &memory, &size)))                \
    X(rcm_store_url, strncmp(rcm_store_url(p->store), "tcp://", 6) == 0)                           \
    X(rcm_store_wait, refused(rcm_store_wait(p->store, keys, 1, 0)))                               \
    X(rcm_transport_at, rcm_transport_at(0, &transport) == RCM_OK)                                 \
    X(rcm_version, rcm_version()[0] != '\0')                                                       \
    X(rcm_work_free, frees(p))                                                                     \
    X(rcm_work_message, refused(rcm_work_message(p->received, &message)) &&                        \
                            refused(rcm_work_message(p->pending, &message)) &&                     \
                            refused(rcm_work_message(p->done, &message)))                          \
    X(rcm_work_status, refused(rcm_work_status(p->pending)) && refused(rcm_work_status(p->done)))  \
    X(rcm_work_test, refused(rcm_work_test(p->pending)) && refused(rcm_work_test(p->done)))        \
    X(rcm_work_wait,                                                                               \
      refused(rcm_work_wait(p->pending, -1)) && refused(rcm_work_wait(p->done, -1)))               \
    X(rcm_comm_completions, refused(rcm_comm_completions(p->comm, &flag)))                         \
    X(rcm_comm_next_completion, refused(rcm_comm_next_completion(p->comm, &work)))                 \
    X(rcm_comm_sequence, rcm_comm_sequence(p->comm) > 0)                                           \
    X(rcm_work_detach, refused(rcm_work_detach(p->pending, completed, NULL)))                      \
    X(rcm_work_error, refused(rcm_work_error(p->done, &error)))                                    \
    X(rcm_work_fd,                                                                                 \
      refused(rcm_work_fd(p->pending, &flag)) && refused(rcm_work_fd(p->done, &flag)))             \
    X(rcm_work_on_complete, refused(rcm_work_on_complete(p->done, completed, NULL)))               \
    X(rcm_work_sequence, rcm_work_sequence(p->done) > 0)                                           \
    X(rcm_init_begin, begins(p))                                                                   \
    X(rcm_comm_duplicate_begin, refused(rcm_comm_duplicate_begin(p->comm, NULL, &begun)))          \
    X(rcm_comm_split_begin, refused(rcm_comm_split_begin(p->comm, 0, 0, NULL, &begun)))            \
    X(rcm_comm_split_hosts_begin, refused(rcm_comm_split_hosts_begin(p->comm, NULL, &begun)))      \
    X(rcm_comm_subset_begin, refused(rcm_comm_subset_begin(p->comm, both, 2, 0, NULL, &begun)))    \
    X(rcm_comm_shrink_begin, refused(rcm_comm_shrink_begin(p->comm, NULL, &begun)))                \
    X(rcm_comm_shrink_excluding,                                                                   \
      refused(rcm_comm_shrink_excluding(p->comm, both, 1, NULL, &comm)))                           \
    X(rcm_comm_shrink_excluding_begin,                                                             \
      refused(rcm_comm_shrink_excluding_begin(p->comm, both, 1, NULL, &begun)))                    \
    X(rcm_comm_request_test, refused(rcm_comm_request_test(p->comm_request, &comm)))               \
    X(rcm_comm_request_wait, refused(rcm_comm_request_wait(p->comm_request, -1, &comm)))           \
    X(rcm_comm_request_cancel, cancels_comm(p))                                                    \
    X(rcm_destroy_begin, begins_to_destroy())                                                      \
    X(rcm_init_cancel, cancels(p))                                                                 \
    X(rcm_init_test, refused(rcm_init_test(p->request, &comm)))                                    \
    X(rcm_init_wait, refused(rcm_init_wait(p->request, -1, &comm)))                                \
    X(rcm_store_custom, customs())                                                                 \
    X(rcm_unique_id_get, rcm_unique_id_get(&unique_id) == RCM_OK)                                  \
    X(rcm_unique_id_free,                                                                          \
      rcm_unique_id_get(&unique_id) == RCM_OK && rcm_unique_id_free(&unique_id) == RCM_OK)         \
    X(rcm_work_start, refused(rcm_work_start(p->done)))                                            \
    X(rcm_work_test_any, refused(rcm_work_test_any(&p->pending, 1, &size)))                        \
    X(rcm_work_wait_all, refused(rcm_work_wait_all(&p->done, 1, -1)))                              \
    X(rcm_work_wait_any, refused(rcm_work_wait_any(&p->pending, 1, -1, &size)))                    \
    X(rcm_world_rank, rcm_world_rank(p->comm, 1) == 1)

#define CALL_FUNCTION(name, expression)                                                            \
    static bool try_##name(const struct parent *p) {                                               \
        (void)p;                                                                                   \
        return expression;                                                                         \
    }
CALLS(CALL_FUNCTION)

static const struct call {
    const char *name;
    bool (*holds)(const struct parent *p);
} calls[] = {
#define CALL_ROW(name, expression) {#name, try_##name},
    CALLS(CALL_ROW)};
enum { CALLS_COUNT = sizeof(calls) / sizeof(calls[0]) };

/* ---- Child ----------------------------------------------------------------------------------- */

static _Noreturn void child_run(const struct call *call, const struct parent *parent) {
    int files[FILES];
    alarm(CHILD_SECONDS);
    for (int i = 0; i < FILES; i++) /* reuses the numbers of descriptors that the fork closed */
        files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int errors = 0;
    CHECK(errors, call->holds(parent), "%s in a child: %s", call->name, rcm_last_error());
    for (int i = 0; i < FILES; i++)
        CHECK(errors, fcntl(files[i], F_GETFD) >= 0, "%s closed a file of the child", call->name);
    _exit(errors);
}

static int child_errors(const struct call *call, enum child_way way, const struct parent *parent) {
    int status = 0;
    fflush(NULL);
    const pid_t pid = child_make(way);
    if (pid == 0)
        child_run(call, parent);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s in a child: signal %d%s\n", call->name, WTERMSIG(status),
                WTERMSIG(status) == SIGALRM ? ", it blocked" : "");
    if (status != 0)
        fprintf(stderr, "%s failed in a child of %s\n", call->name, child_way_names[way]);
    return status != 0;
}

/* ---- Parent ---------------------------------------------------------------------------------- */

static float element(int rank, int round, int i) {
    return (float)(rank + round + i % 7);
}

/* A large sum is in flight while the child runs. Its result must be right. */
static int round_errors(const struct parent *p, int round) {
    static float data[COUNT];
    rcm_work *sum = NULL;
    int errors = 0, wrong = 0;
    for (int i = 0; i < COUNT; i++)
        data[i] = element(p->rank, round, i);
    CHECK(errors,
          rcm_all_reduce(p->comm, data, data, COUNT, RCM_FLOAT32, RCM_SUM, NULL, &sum) == RCM_OK,
          "%s", rcm_last_error());
    for (enum child_way way = 0; way < ways; way++)
        errors += child_errors(&calls[round], way, p);
    CHECK(errors, rcm_work_wait(sum, -1) == RCM_OK, "after %s: %s", calls[round].name,
          rcm_last_error());
    rcm_work_free(sum);
    for (int i = 0; i < COUNT; i++)
        wrong += data[i] != element(0, round, i) + element(1, round, i);
    CHECK(errors, wrong == 0, "after %s: %d elements are wrong", calls[round].name, wrong);
    CHECK(errors, rcm_comm_error(p->comm, &error) == RCM_OK, "after %s: %s", calls[round].name,
          error.text);
    return errors;
}

static int parent_make(struct parent *p, char *byte_in) {
    static char byte;
    int errors = 0;
    const int peer = 1 - p->rank;
    CHECK(errors,
          rcm_store_open("tcp://127.0.0.1:0?server=1", 30000, &p->store) == RCM_OK &&
              rcm_store_prefix(p->store, "a", &p->prefix) == RCM_OK &&
              rcm_store_set(p->store, "k", "parent", 6) == RCM_OK,
          "store: %s", rcm_last_error());
    CHECK(errors,
          rcm_mem_alloc(p->comm, 4096, &p->memory) == RCM_OK &&
              rcm_mem_register(p->comm, registered, sizeof registered) == RCM_OK &&
              rcm_op_create_premul_sum(3, 0, RCM_FLOAT32, &p->op) == RCM_OK &&
              rcm_irecv(p->comm, byte_in, 1, RCM_UINT8, peer, 1, &p->pending) == RCM_OK &&
              rcm_irecv(p->comm, &byte, 1, RCM_UINT8, peer, 2, &p->received) == RCM_OK &&
              rcm_send(p->comm, &byte, 1, RCM_UINT8, peer, 2, NULL, NULL) == RCM_OK &&
              rcm_barrier(p->comm, NULL, &p->done) == RCM_OK &&
              rcm_work_wait(p->done, -1) == RCM_OK && rcm_work_wait(p->received, -1) == RCM_OK,
          "works: %s", rcm_last_error());
    CHECK(errors,
          rcm_queue_create(&p->queue) == RCM_OK && rcm_queue_give(p->queue, p->done, p) == RCM_OK &&
              rcm_queue_give(p->queue, p->pending, byte_in) == RCM_OK,
          "queue: %s", rcm_last_error());
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    options.reserved = 1; /* so that rcm_init_begin fails at once */
    CHECK(errors,
          rcm_init_begin(&options, &p->request) == RCM_OK &&
              rcm_init_wait(p->request, -1, &comm) == RCM_ERR_INVALID,
          "init: %s", rcm_last_error());
    CHECK(errors,
          rcm_comm_subset_begin(p->comm, &p->rank, 1, 0, NULL, &p->comm_request) == RCM_OK &&
              rcm_comm_request_wait(p->comm_request, -1, &comm) == RCM_OK &&
              rcm_destroy(comm) == RCM_OK,
          "subset: %s", rcm_last_error());
    return errors;
}

/* Everything the parent opened still works. */
static int parent_end(const struct parent *p, const char *byte_in) {
    static const char sent = 7;
    void *value = NULL;
    size_t len = 0;
    int errors = 0;
    CHECK(errors,
          rcm_send(p->comm, &sent, 1, RCM_UINT8, 1 - p->rank, 1, NULL, NULL) == RCM_OK &&
              rcm_work_wait(p->pending, -1) == RCM_OK && *byte_in == sent,
          "the message: %s", rcm_last_error());
    CHECK(errors,
          rcm_store_try_get(p->store, "k", &value, &len) == RCM_OK && len == 6 &&
              memcmp(value, "parent", 6) == 0,
          "the store: %s", rcm_last_error());
    CHECK(errors,
          rcm_mem_free(p->comm, p->memory) == RCM_OK &&
              rcm_mem_deregister(p->comm, registered, sizeof registered) == RCM_OK,
          "%s", rcm_last_error());
    free(value);
    rcm_work_free(p->pending);
    rcm_work_free(p->received);
    rcm_work_free(p->done);
    CHECK(errors, rcm_op_free(p->op) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors,
          rcm_queue_wait(p->queue, &completion, 1, -1, &len) == RCM_OK &&
              completion.work == p->done && completion.arg == p &&
              rcm_queue_wait(p->queue, &completion, 1, -1, &len) == RCM_OK &&
              completion.work == p->pending && completion.status == RCM_OK,
          "queue: %s", rcm_last_error());
    rcm_queue_free(p->queue);
    rcm_init_cancel(p->request);
    rcm_comm_request_cancel(p->comm_request);
    rcm_store_close(p->prefix);
    rcm_store_close(p->store);
    CHECK(errors, rcm_destroy(p->comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

static int rank_run(rcm_comm *given, void *arg) {
    struct parent parent = {.comm = given, .rank = rcm_rank(given), .size = rcm_size(given)};
    char byte_in = 0;
    (void)arg;
    int errors = parent_make(&parent, &byte_in);
    for (int i = 0; i < CALLS_COUNT && errors == 0; i++)
        errors += round_errors(&parent, i);
    if (errors > 0)
        (void)!rcm_abort(given, "a child failed");
    return errors + parent_end(&parent, &byte_in);
}

/* As on a kernel before 4.14. */
static int refuse_wipe(void) {
    enum { WIPEONFORK = 18 };
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIPEONFORK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    ways = CHILD_FORK + 1;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

/* ---- The map --------------------------------------------------------------------------------- */

static bool is_called(const char *name) {
    for (int i = 0; i < CALLS_COUNT; i++)
        if (strcmp(calls[i].name, name) == 0)
            return true;
    return false;
}

/* "        rcm_abort;" */
static int map_errors(const char *path) {
    char line[256], name[128], end;
    int errors = 0, names = 0;
    FILE *map = fopen(path, "r");
    while (map && fgets(line, sizeof line, map)) {
        if (sscanf(line, " %127[a-z0-9_]%c", name, &end) != 2 || end != ';')
            continue;
        CHECK(errors, is_called(name), "%s is in %s but not in this test", name, path);
        names++;
    }
    CHECK(errors, map && names == CALLS_COUNT, "%d functions in %s, %d here", names, path,
          CALLS_COUNT);
    if (map)
        fclose(map);
    return errors;
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: forked MAP TRANSPORT [refuse]\n");
        return 2;
    }
    const struct ranks ranks = {.n = 2, .transport = argv[2], .keep = true};
    if (argc == 4 && refuse_wipe() != 0)
        return 77;
    return map_errors(argv[1]) + ranks_run(&ranks, rank_run, NULL) != 0;
}
