/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads librdmacm when a device needs it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include "rdma_cm.h"

static struct verbs_cm_table library = {.getifaddrs = getifaddrs, .freeifaddrs = freeifaddrs};
static bool library_works;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

struct symbol {
    const char *name;
    void *to; /* a pointer to a function */
};

#define SYMBOL(name)                                                                               \
    { "rdma_" #name, &library.name }

static void library_load(void) {
    const struct symbol symbols[] = {
        SYMBOL(create_event_channel),
        SYMBOL(destroy_event_channel),
        SYMBOL(create_id),
        SYMBOL(destroy_id),
        SYMBOL(bind_addr),
        SYMBOL(listen),
        SYMBOL(get_src_port),
        SYMBOL(resolve_addr),
        SYMBOL(resolve_route),
        SYMBOL(connect),
        SYMBOL(accept),
        SYMBOL(reject),
        SYMBOL(get_cm_event),
        SYMBOL(ack_cm_event),
    };
    void *handle = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
    library_works = handle != NULL;
    for (size_t i = 0; library_works && i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(handle, symbols[i].name);
        library_works = found != NULL;
        memcpy(symbols[i].to, &found, sizeof found);
    }
}

const struct verbs_cm_table *verbs_cm_library(void) {
    pthread_once(&library_once, library_load);
    return library_works ? &library : NULL;
}
