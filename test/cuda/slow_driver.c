/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A driver function that takes longer than the deadline. Each case is a process; all run at the
 * same time. Afterwards nothing leaks.
 *
 *     slow_driver
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "leak_check.h"
#include "ranks.h"

enum { SECONDS = 60, DEADLINE_MS = 150 };
#define LASTS ":1200" /* milliseconds */

static int expect_late(rcm_status status, const char *words) {
    int errors = 0;
    printf("  %s\n", rcm_last_error());
    CHECK(errors, status == RCM_ERR_TIMEOUT && strstr(rcm_last_error(), words), "%s: %s",
          rcm_status_name(status), rcm_last_error());
    return errors;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* The device is not open in time: the driver or its initialization is slow. */
static int case_open(rcm_comm *comm) {
    void *memory = NULL;
    int errors = 0;
    CHECK(errors, rcm_comm_set_timeout(comm, DEADLINE_MS) == RCM_OK, "%s", rcm_last_error());
    return errors +
           expect_late(rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, 4096, &memory), "was not open");
}

/* A late allocation is freed again. The device stays usable. */
static int case_alloc(rcm_comm *comm) {
    void *memory = NULL;
    int errors = 0;
    CHECK(errors,
          rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, 4096, &memory) == RCM_OK &&
              rcm_comm_set_timeout(comm, DEADLINE_MS) == RCM_OK,
          "%s", rcm_last_error());
    return errors ? errors
                  : expect_late(rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, 4096, &memory),
                                "were not allocated");
}

static int case_free(rcm_comm *comm) {
    void *memory = NULL;
    int errors = 0;
    CHECK(errors,
          rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, 4096, &memory) == RCM_OK &&
              rcm_comm_set_timeout(comm, DEADLINE_MS) == RCM_OK,
          "%s", rcm_last_error());
    return errors ? errors : expect_late(rcm_mem_free(comm, memory), "was not free");
}

static int call_driver(const char *name, int argument, void **ret) {
    int (*function)(void **ret, int argument);
    *(void **)&function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
    return function ? function(ret, argument) : -1;
}

/* A call with its own deadline, on memory of the program. The call opens the device. */
static int case_call(rcm_comm *world) {
    const struct rcm_call call = {.size = sizeof call, .timeout_ms = DEADLINE_MS};
    void *context = NULL, *memory = NULL;
    rcm_comm *comm = NULL;
    int errors = 0, (*init)(unsigned), (*push)(void *), (*give)(void *);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&init = driver ? dlsym(driver, "cuInit") : NULL;
    *(void **)&push = driver ? dlsym(driver, "cuCtxPushCurrent_v2") : NULL;
    *(void **)&give = driver ? dlsym(driver, "cuMemFree_v2") : NULL;
    CHECK(errors,
          init && init(0) == 0 && call_driver("cuDevicePrimaryCtxRetain", 0, &context) == 0 &&
              push(context) == 0 && call_driver("cuMemAlloc_v2", 4096, &memory) == 0,
          "no memory");
    CHECK(errors, rcm_comm_duplicate(world, NULL, &comm) == RCM_OK, "%s", rcm_last_error());
    if (errors)
        return errors;
    errors = expect_late(rcm_all_reduce(comm, memory, memory, 16, RCM_INT32, RCM_SUM, &call, NULL),
                         "was not open");
    (void)!rcm_destroy(comm);
    return errors + (give(memory) != 0);
}

static const struct {
    const char *slow;
    int (*run)(rcm_comm *comm);
} cases[] = {
    {"cuInit" LASTS, case_open},           {"cuDevicePrimaryCtxRetain" LASTS, case_open},
    {"cuMemAlloc" LASTS, case_alloc},      {"cuMemFree" LASTS, case_free},
    {"cuModuleLoadData" LASTS, case_call},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* ---- Processes ------------------------------------------------------------------------------- */

static int run(int i) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_store *store = NULL;
    rcm_comm *comm = NULL;
    int errors = 0;
    const int files = count_open_files();
    alarm(SECONDS);
    setenv("FAKECUDA_SLOW", cases[i].slow, 1);
    options.world_size = 1;
    options.rank = 0;
    CHECK(errors,
          rcm_store_open("hash:", 1000, &store) == RCM_OK && (options.store = store) &&
              rcm_init(&options, &comm) == RCM_OK,
          "%s", rcm_last_error());
    if (errors)
        return errors;
    errors += cases[i].run(comm);
    (void)!rcm_destroy(comm);
    rcm_store_close(store);
    return errors + leak_check(files);
}

int main(void) {
    pid_t pids[CASES];
    int errors = 0;
    for (int i = 0; i < CASES; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            exit(run(i) ? 1 : 0);
    }
    for (int i = 0; i < CASES; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        CHECK(errors, WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %#x",
              cases[i].slow, (unsigned)status);
    }
    return errors ? 1 : 0;
}
