/* SPDX-License-Identifier: BSD-3-Clause */
/* A driver that hangs while it initializes one device does not delay users of another device. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "cuda.h"
#include "ranks.h"

enum { SECONDS = 200, BYTES = 4096 };

/* ---- Ranks, each with its own world ---------------------------------------------------------- */

struct world {
    const char *device;
    rcm_store *store;
    rcm_comm *comm;
    rcm_status status;
};

static rcm_status world_open(struct world *world) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    options.world_size = 1;
    options.rank = 0;
    options.device = world->device;
    world->status = rcm_store_open("hash:", 1000, &world->store);
    options.store = world->store;
    if (world->status == RCM_OK)
        world->status = rcm_init(&options, &world->comm);
    if (world->status != RCM_OK)
        fprintf(stderr, "device %s: %s\n", world->device, rcm_last_error());
    return world->status;
}

static int world_close(struct world *world) {
    int errors = 0;
    CHECK(errors, !world->comm || rcm_destroy(world->comm) == RCM_OK, "%s", rcm_last_error());
    rcm_store_close(world->store);
    return errors;
}

static int memory_get(const struct world *world, void **ret_memory) {
    int errors = 0;
    CHECK(errors, rcm_mem_alloc_kind(world->comm, RCM_MEM_DEVICE, BYTES, ret_memory) == RCM_OK,
          "%s", rcm_last_error());
    return errors;
}

static int memory_give(const struct world *world, void *memory) {
    int errors = 0;
    CHECK(errors, rcm_mem_free(world->comm, memory) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* ---- A driver that hangs --------------------------------------------------------------------- */

static const struct rcmi_cuda *real;
static struct rcmi_cuda replaced;
static atomic_bool is_stuck, goes_on;

static rcmi_cuda_code retain(struct rcmi_cuda_context **ret_context, int ordinal) {
    if (ordinal == 1) {
        atomic_store(&is_stuck, true);
        while (!atomic_load(&goes_on))
            usleep(1000);
    }
    return real->cuDevicePrimaryCtxRetain(ret_context, ordinal);
}

static void *open_stuck(void *arg) {
    (void)world_open(arg);
    return NULL;
}

/* Everything that the user of an open device may call, and opening and closing another one. */
static int use_meanwhile(struct world *first, void *memory) {
    struct world second = {.device = "0"};
    void *more = NULL;
    int errors = memory_give(first, memory) + memory_get(first, &more);
    errors += world_open(&second) != RCM_OK;
    errors += world_close(&second) + memory_give(first, more) + world_close(first);
    struct world third = {.device = "0"};
    errors += world_open(&third) != RCM_OK;
    return errors + world_close(&third);
}

static int check_driver(void) {
    struct world first = {.device = "0"}, other = {.device = "1"};
    void *memory = NULL;
    pthread_t thread;
    setenv("FAKECUDA_DEVICES", "2", 1);
    if (rcmi_cuda_open(&real) != RCM_OK)
        return 1;
    replaced = *real;
    replaced.cuDevicePrimaryCtxRetain = retain;
    rcmi_cuda_set(&replaced);
    if (world_open(&first) != RCM_OK || memory_get(&first, &memory) ||
        pthread_create(&thread, NULL, open_stuck, &other) != 0)
        return 1;
    while (!atomic_load(&is_stuck))
        usleep(1000);
    int errors = use_meanwhile(&first, memory);
    atomic_store(&goes_on, true);
    pthread_join(thread, NULL);
    CHECK(errors, other.status == RCM_OK,
          "the other device did not open after the driver returned");
    return errors + world_close(&other);
}

int main(void) {
    alarm(SECONDS);
    return check_driver() ? 1 : 0;
}
