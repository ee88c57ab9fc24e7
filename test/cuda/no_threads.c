/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * If no thread can be started, device memory is neither allocated nor lost. Memory that could not
 * be freed can be freed later, and nothing of the device leaks. Linked with --wrap=pthread_create.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "leak_check.h"
#include "ranks.h"

enum { SECONDS = 120, BYTES = 4096 };

static atomic_bool refuses;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *arg), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *arg), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *arg), void *arg) {
    return atomic_load(&refuses) ? EAGAIN : __real_pthread_create(thread, attributes, run, arg);
}

static int expect_refused(rcm_status status) {
    int errors = 0;
    CHECK(errors, status == RCM_ERR_RESOURCE && strstr(rcm_last_error(), "cannot start a thread"),
          "%s: %s", rcm_status_name(status), rcm_last_error());
    return errors;
}

static int check(rcm_comm *comm) {
    void *memory = NULL, *more = NULL;
    int errors = 0;
    CHECK(errors, rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, BYTES, &memory) == RCM_OK, "%s",
          rcm_last_error());
    atomic_store(&refuses, true);
    errors += expect_refused(rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, BYTES, &more));
    errors += expect_refused(rcm_mem_free(comm, memory));
    atomic_store(&refuses, false);
    CHECK(errors, rcm_mem_free(comm, memory) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

int main(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm = NULL;
    int errors = 0;
    const int files = count_open_files();
    alarm(SECONDS);
    options.world_size = 1;
    options.rank = 0;
    CHECK(errors,
          rcm_store_open("hash:", 1000, &options.store) == RCM_OK &&
              rcm_init(&options, &comm) == RCM_OK,
          "%s", rcm_last_error());
    if (errors)
        return 1;
    errors += check(comm);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    rcm_store_close(options.store);
    return errors + leak_check(files) ? 1 : 0;
}
