/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invalid arguments of functions that no other test calls with invalid arguments: the status, and
 * an error text with the argument's name and value. Also structs of other sizes than the library's.
 * One rank.
 */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ringcomm.h"

static int failures;

static void check(const char *what, rcm_status got, rcm_status want, const char *words) {
    if (got == want && strstr(rcm_last_error(), words))
        return;
    fprintf(stderr, "%s: %s (%s), expected %s and \"%s\"\n", what, rcm_status_name(got),
            rcm_last_error(), rcm_status_name(want), words);
    failures++;
}

static void check_names(void) {
    rcm_dtype dtype;
    rcm_op op;
    check("type without a name", rcm_dtype_from_name(NULL, &dtype), RCM_ERR_INVALID, "name is");
    check("type without ret_dtype", rcm_dtype_from_name("int32", NULL), RCM_ERR_INVALID,
          "ret_dtype");
    check("unknown type", rcm_dtype_from_name("int3", &dtype), RCM_ERR_INVALID, "'int3'");
    check("operator without a name", rcm_op_from_name(NULL, &op), RCM_ERR_INVALID, "name is");
    check("operator without ret_op", rcm_op_from_name("sum", NULL), RCM_ERR_INVALID, "ret_op");
    check("setting without ret_setting", rcm_setting_at(0, NULL), RCM_ERR_INVALID, "ret_setting");
}

/* rcm_collective_at accepts every size from the first version on. It sets unknown trailing bytes to
 * 0. */
static void check_collective(void) {
    struct {
        struct rcm_collective_info info;
        uint64_t unknown;
    } newer = {.info = {.size = sizeof newer}, .unknown = 7};
    check("no ret_info", rcm_collective_at(0, NULL), RCM_ERR_INVALID, "ret_info is NULL");
    check("newer", rcm_collective_at(0, &newer.info), RCM_OK, "");
    check("its rest", newer.unknown == 0 && newer.info.name ? RCM_OK : RCM_ERR_INTERNAL, RCM_OK,
          "");
    check("past the last", rcm_collective_at(99, &newer.info), RCM_ERR_NOT_FOUND, "collective 99");
    newer.info.size = 8;
    check("size 8", rcm_collective_at(0, &newer.info), RCM_ERR_INVALID, "RCM_COLLECTIVE_INFO_INIT");
}

static rcm_status init(struct rcm_init_options options) {
    rcm_comm *comm = NULL;
    options.url = "hash:";
    const rcm_status status = rcm_init(&options, &comm);
    if (status == RCM_OK && rcm_destroy(comm) != RCM_OK)
        failures++;
    return status;
}

static void check_options(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    char host[300];
    options.rank = 0;
    options.world_size = 1;
    check("options", init(options), RCM_OK, "");
    options.rank = -2;
    check("rank -2", init(options), RCM_ERR_INVALID, "options->rank is -2");
    options.rank = 0;
    options.world_size = -1;
    check("size -1", init(options), RCM_ERR_INVALID, "options->world_size is -1");
    options.world_size = 1;
    options.reserved = 7;
    check("reserved 7", init(options), RCM_ERR_INVALID, "options->reserved is 7");
    options.reserved = 0;
    memset(host, 'h', sizeof host);
    host[sizeof host - 1] = '\0';
    options.host_id = host;
    check("long host", init(options), RCM_ERR_CONFIG, "options->host_id has 299 bytes");
}

/* A struct of a program that was built with a newer header: the known fields, then an unknown
 * one. */
struct newer_options {
    struct rcm_init_options options;
    uint64_t unknown;
};
struct newer_error {
    struct rcm_error error;
    uint64_t unknown;
};
struct newer_call {
    struct rcm_call call;
    uint64_t unknown;
};
struct newer_message {
    struct rcm_message message;
    uint64_t unknown;
};

static void check_options_size(void) {
    struct newer_options newer = {.options = RCM_INIT_OPTIONS_INIT};
    newer.options.rank = 0;
    newer.options.world_size = 1;
    newer.options.url = "hash:";
    rcm_comm *comm = NULL;
    newer.options.size = offsetof(struct rcm_init_options, unique_id) - 1; /* too small */
    check("small options", rcm_init(&newer.options, &comm), RCM_ERR_INVALID, "options->size is ");
    newer.options.size = sizeof newer;
    newer.unknown = 1;
    check("unknown option", rcm_init(&newer.options, &comm), RCM_ERR_INVALID,
          "the library is older than the program");
    newer.unknown = 0;
    check("large options", rcm_init(&newer.options, &comm), RCM_OK, "");
    check("destroy", rcm_destroy(comm), RCM_OK, "");
}

static int nothing(int rank, void *arg) {
    (void)rank;
    (void)arg;
    return 0;
}

/* rcm_spawn sets one new job id for all ranks, different from the environment's. Otherwise rcm_init
 * would fail. */
static int named(int rank, void *arg) {
    const char *id = getenv("RINGCOMM_JOB_ID");
    rcm_comm *comm;
    (void)rank;
    (void)arg;
    return !id || strcmp(id, "outer") == 0 || strlen(id) < 16 || rcm_init(NULL, &comm) != RCM_OK ||
           rcm_destroy(comm) != RCM_OK;
}

static void check_spawn(void) {
    setenv("RINGCOMM_JOB_ID", "outer", 1);
    check("a job's name", rcm_spawn(2, named, NULL, 60000, NULL, NULL), RCM_OK, "");
    unsetenv("RINGCOMM_JOB_ID");
    check("no rank", rcm_spawn(0, nothing, NULL, 1000, NULL, NULL), RCM_ERR_INVALID, "nranks is 0");
    check("too many ranks", rcm_spawn(INT_MAX, nothing, NULL, 1000, NULL, NULL), RCM_ERR_INVALID,
          "nranks is 2147483647");
}

typedef rcm_status call_user(rcm_comm *comm, const struct rcm_call *call);

static rcm_status use_barrier(rcm_comm *comm, const struct rcm_call *call) {
    return rcm_barrier(comm, call, NULL);
}

static rcm_status use_send(rcm_comm *comm, const struct rcm_call *call) {
    rcm_work *work = NULL;
    const rcm_status status = rcm_send(comm, NULL, 0, RCM_UINT8, 0, 1, call, &work);
    rcm_work_free(work);
    return status == RCM_OK ? rcm_recv(comm, NULL, 0, RCM_UINT8, 0, 1, call, NULL) : status;
}

static rcm_status use_shrink(rcm_comm *comm, const struct rcm_call *call) {
    rcm_comm *next = NULL;
    const rcm_status status = rcm_comm_shrink(comm, call, &next);
    if (status == RCM_OK && rcm_destroy(next) != RCM_OK)
        failures++;
    return status;
}

static void check_call_size(rcm_comm *comm, call_user *use) {
    struct newer_call newer = {.call = RCM_CALL_INIT};
    newer.call.size = offsetof(struct rcm_call, wait_ms) - 1; /* too small */
    check("small call", use(comm, &newer.call), RCM_ERR_INVALID, "call->size is ");
    newer.call.size = sizeof newer;
    newer.unknown = 1;
    check("unknown in call", use(comm, &newer.call), RCM_ERR_INVALID,
          "the library is older than the program");
    newer.unknown = 0;
    newer.call.flags = 64;
    check("flag in a large call", use(comm, &newer.call), RCM_ERR_INVALID, "call->flags is 0x40");
    newer.call.flags = 0;
    check("large call", use(comm, &newer.call), RCM_OK, "");
}

/* The known fields of a larger struct take effect. */
static void check_large_call(rcm_comm *comm) {
    struct newer_call newer = {.call = RCM_CALL_INIT};
    rcm_work *work = NULL;
    newer.call.size = sizeof newer;
    newer.call.algorithm = "best";
    check("algorithm", rcm_barrier(comm, &newer.call, NULL), RCM_ERR_INVALID, "\"best\"");
    newer.call.algorithm = NULL;
    newer.call.timeout_ms = 1;
    check("timeout", rcm_recv(comm, NULL, 0, RCM_UINT8, 0, 9, &newer.call, &work), RCM_OK, "");
    check("wait", rcm_work_wait(work, 10000), RCM_ERR_TIMEOUT, "");
    rcm_work_free(work);
}

static void check_message_size(rcm_comm *comm) {
    struct newer_message newer = {.message = RCM_MESSAGE_INIT, .unknown = 5};
    float element = 1;
    rcm_work *work = NULL;
    check("receive", rcm_irecv(comm, &element, 1, RCM_FLOAT32, 0, 8, &work), RCM_OK, "");
    check("send", rcm_send(comm, &element, 1, RCM_FLOAT32, 0, 8, NULL, NULL), RCM_OK, "");
    check("wait", rcm_work_wait(work, 10000), RCM_OK, "");
    newer.message.size = offsetof(struct rcm_message, dtype) - 1; /* the first version ends there */
    check("small message", rcm_work_message(work, &newer.message), RCM_ERR_INVALID,
          "ret_message->size is ");
    newer.message.size++;
    newer.message.dtype = -5;
    check("older message", rcm_work_message(work, &newer.message), RCM_OK, "");
    if (newer.message.bytes != sizeof element || newer.message.dtype != -5) {
        fprintf(stderr, "an older message struct has wrong contents\n");
        failures++;
    }
    newer.message.size = sizeof newer;
    check("large message", rcm_work_message(work, &newer.message), RCM_OK, "");
    if (newer.message.size != sizeof newer || newer.message.tag != 8 ||
        newer.message.bytes != sizeof element || newer.unknown != 0) {
        fprintf(stderr, "a large message struct has wrong contents\n");
        failures++;
    }
    rcm_work_free(work);
}

static void check_error_size(rcm_comm *comm) {
    struct newer_error newer = {.error = RCM_ERROR_INIT, .unknown = 5};
    newer.error.size = sizeof newer;
    check("large error", rcm_comm_error(comm, &newer.error), RCM_ERR_TIMEOUT, "");
    if (newer.error.size != sizeof newer || newer.error.status != RCM_ERR_TIMEOUT ||
        !strstr(newer.error.text, "recv") || newer.unknown != 0) {
        fprintf(stderr, "a large error struct has wrong contents: %s\n", newer.error.text);
        failures++;
    }
}

static void check_sizes(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm = NULL;
    options.rank = 0;
    options.world_size = 1;
    options.url = "hash:";
    check("init", rcm_init(&options, &comm), RCM_OK, "");
    if (!comm)
        return;
    check_call_size(comm, use_barrier);
    check_call_size(comm, use_send);
    check_message_size(comm);
    check_large_call(comm); /* fails comm */
    check_error_size(comm);
    check_call_size(comm, use_shrink);
    check("destroy", rcm_destroy(comm), RCM_ERR_TIMEOUT, "");
}

static void check_memory(rcm_comm *comm, void *memory) {
    void *block = NULL;
    check("register for nothing", rcm_mem_register(NULL, memory, 4), RCM_ERR_INVALID,
          "comm is NULL");
    check("register nothing", rcm_mem_register(comm, NULL, 4), RCM_ERR_INVALID, "memory is NULL");
    check("register no bytes", rcm_mem_register(comm, memory, 0), RCM_ERR_INVALID, "bytes is 0");
    check("register all", rcm_mem_register(comm, memory, SIZE_MAX), RCM_ERR_INVALID,
          "bytes is 1844674");
    check("block", rcm_mem_alloc(comm, 100, &block), RCM_OK, "");
    check("register a block", rcm_mem_register(comm, (char *)block + 50, 4), RCM_ERR_INVALID,
          "rcm_mem_alloc");
    check("deregister a block", rcm_mem_deregister(comm, block, 100), RCM_ERR_INVALID,
          "100 bytes at 0x");
    check("block's end", rcm_mem_free(comm, block), RCM_OK, "");
    check("register", rcm_mem_register(comm, memory, 4), RCM_OK, "");
    check("deregister more", rcm_mem_deregister(comm, memory, 5), RCM_ERR_INVALID, "5 bytes at 0x");
    check("deregister nothing", rcm_mem_deregister(comm, NULL, 4), RCM_ERR_INVALID,
          "memory is NULL");
    check("deregister no bytes", rcm_mem_deregister(comm, memory, 0), RCM_ERR_INVALID,
          "bytes is 0");
    check("deregister", rcm_mem_deregister(comm, memory, 4), RCM_OK, "");
    check("deregister again", rcm_mem_deregister(comm, memory, 4), RCM_ERR_INVALID,
          "not registered");
}

static void check_comm(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct rcm_error error = {.size = 3};
    struct rcm_counters counters = {.size = 4};
    rcm_comm *comm = NULL;
    rcm_work *work = NULL;
    void *memory;
    float element = 1, *shared;
    size_t count = 9;
    int rank = -1;
    options.rank = 0;
    options.world_size = 1;
    options.url = "hash:";
    check("init", rcm_init(&options, &comm), RCM_OK, "");
    if (!comm)
        return;
    check("barrier's flags", rcm_monitored_barrier(comm, 2, NULL, NULL), RCM_ERR_INVALID,
          "flags is 0x2");
    check("monitored", rcm_monitored_barrier(comm, RCM_FIRST_MISSING, NULL, NULL), RCM_OK, "");
    check("no count", rcm_comm_missing(comm, &rank, 1, NULL), RCM_ERR_INVALID, "ret_count is NULL");
    check("no ranks", rcm_comm_missing(comm, NULL, 5, &count), RCM_ERR_INVALID,
          "ret_ranks is NULL and cap is 5");
    check("no barrier", rcm_monitored_barrier(NULL, 0, NULL, NULL), RCM_ERR_INVALID,
          "comm is NULL");
    check("missing of nothing", rcm_comm_missing(NULL, NULL, 0, &count), RCM_ERR_INVALID,
          "comm is NULL");
    check("missing", rcm_comm_missing(comm, NULL, 0, &count), RCM_OK, "");
    check("none missing", count == 0 ? RCM_OK : RCM_ERR_INTERNAL, RCM_OK, "");
    check("no counters", rcm_comm_counters(comm, NULL), RCM_ERR_INVALID, "ret_counters is NULL");
    check("counters' size", rcm_comm_counters(comm, &counters), RCM_ERR_INVALID,
          "ret_counters->size is 4");
    check("counters of nothing", rcm_comm_counters(NULL, &counters), RCM_ERR_INVALID,
          "comm is NULL");
    check("error's size", rcm_comm_error(comm, &error), RCM_ERR_INVALID, "ret_error->size is 3");
    check("no bytes", rcm_mem_alloc(comm, 0, &memory), RCM_ERR_INVALID, "bytes is 0");
    check("all bytes", rcm_mem_alloc(comm, SIZE_MAX, &memory), RCM_ERR_INVALID, "bytes is 1844674");
    check("device memory", rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, 4096, &memory),
          RCM_ERR_UNSUPPORTED, "");
    check("kind", rcm_mem_alloc_kind(comm, (enum rcm_mem_kind)2, 4096, &memory), RCM_ERR_INVALID,
          "kind is 2");
    check("kind to prepare",
          rcm_comm_prepare_kind(comm, (enum rcm_mem_kind)2, RCM_BARRIER, 0, 0, NULL),
          RCM_ERR_INVALID, "kind is 2");
    check("device to prepare",
          rcm_comm_prepare_kind(comm, RCM_MEM_DEVICE, RCM_ALL_REDUCE, 64, 0, NULL),
          RCM_ERR_UNSUPPORTED, "");
    check("memory", rcm_mem_alloc(comm, sizeof element, &memory), RCM_OK, "");
    shared = memory;
    check("receive", rcm_irecv(comm, shared, 1, RCM_FLOAT32, 0, 7, &work), RCM_OK, "");
    check("in use", rcm_mem_free(comm, shared), RCM_ERR_INVALID, "unfinished recv");
    if (strstr(rcm_last_error(), "number")) {
        fprintf(stderr, "a message has no number: %s\n", rcm_last_error());
        failures++;
    }
    check("send", rcm_send(comm, &element, 1, RCM_FLOAT32, 0, 7, NULL, NULL), RCM_OK, "");
    check("wait", rcm_work_wait(work, 10000), RCM_OK, "");
    rcm_work_free(work);
    check_memory(comm, &element);
    check("destroy", rcm_destroy(comm), RCM_OK, "");
}

int main(void) {
    check_names();
    check_collective();
    check_options();
    check_options_size();
    check_spawn();
    check_sizes();
    check_comm();
    return failures ? 1 : 0;
}
