/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arguments that are not valid, for functions where no other test gives them: the status, and that
 * the sentence names the argument and its value. One rank.
 */
#include <limits.h>
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
    check("type without a place", rcm_dtype_from_name("int32", NULL), RCM_ERR_INVALID, "ret_dtype");
    check("unknown type", rcm_dtype_from_name("int3", &dtype), RCM_ERR_INVALID, "'int3'");
    check("operator without a name", rcm_op_from_name(NULL, &op), RCM_ERR_INVALID, "name is");
    check("operator without a place", rcm_op_from_name("sum", NULL), RCM_ERR_INVALID, "ret_op");
    check("setting without a place", rcm_setting_at(0, NULL), RCM_ERR_INVALID, "ret_setting");
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

static int nothing(int rank, void *arg) {
    (void)rank;
    (void)arg;
    return 0;
}

static void check_spawn(void) {
    check("no rank", rcm_spawn(0, nothing, NULL, 1000, NULL, NULL), RCM_ERR_INVALID, "nranks is 0");
    check("too many ranks", rcm_spawn(INT_MAX, nothing, NULL, 1000, NULL, NULL), RCM_ERR_INVALID,
          "nranks is 2147483647");
}

static void check_comm(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct rcm_error error = {.size = 3};
    rcm_comm *comm = NULL;
    rcm_work *work = NULL;
    void *memory;
    float element = 1, *shared;
    options.rank = 0;
    options.world_size = 1;
    options.url = "hash:";
    check("init", rcm_init(&options, &comm), RCM_OK, "");
    if (!comm)
        return;
    check("error's size", rcm_comm_error(comm, &error), RCM_ERR_INVALID, "ret_error->size is 3");
    check("no bytes", rcm_mem_alloc(comm, 0, &memory), RCM_ERR_INVALID, "bytes is 0");
    check("all bytes", rcm_mem_alloc(comm, SIZE_MAX, &memory), RCM_ERR_INVALID, "bytes is 1844674");
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
    check("destroy", rcm_destroy(comm), RCM_OK, "");
}

int main(void) {
    check_names();
    check_options();
    check_spawn();
    check_comm();
    return failures ? 1 : 0;
}
