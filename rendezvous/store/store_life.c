/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates, closes and cancels stores, for all kinds; see store.h. */
#include "store.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "entry.h"
#include "error.h"
#include "fork.h"
#include "rendezvous.h"
#include "settings.h"

void *rcmi_store_alloc(size_t size, const struct rcmi_store_ops *ops, const char *url) {
    struct rcm_store *store = calloc(1, size);
    char *copy = strdup(url);
    if (!store || !copy) {
        free(store);
        free(copy);
        (void)!rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a store");
        return NULL;
    }
    store->ops = ops;
    store->url = copy;
    store->pid = getpid();
    store->generation = rcmi_fork_watch();
    return store;
}

static _Thread_local const _Atomic bool *thread_canceled;

void rcmi_store_cancel_by(const _Atomic bool *canceled) {
    thread_canceled = canceled;
}

rcm_status rcmi_store_canceled(void) {
    /* Relaxed: the flag orders no other memory access. */
    if (!thread_canceled || !atomic_load_explicit(thread_canceled, memory_order_relaxed))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_CANCELED, 0, "rcm_init was canceled on this rank");
}

void rcmi_store_keep(rcm_store *store) {
    store->keep = true;
}

void rcmi_store_linger(rcm_store *store) {
    store->linger = true;
}

const char *rcm_store_url(const rcm_store *store) {
    return store ? store->url : "";
}

void rcm_store_close(rcm_store *store) {
    RCMI_ENTRY;
    if (!store)
        return;
    if (store->closing)
        store->closing(store);
    store->ops->close(store, !rcmi_fork_is_maker(store->generation));
    free(store->url);
    free(store);
}

int64_t rcmi_store_warn_ms(void) {
    const struct rcmi_error kept = *rcmi_last_error();
    int64_t ns = INT64_C(30000000000);
    if (rcmi_setting_warn_after(&ns) != RCM_OK)
        *rcmi_last_error() = kept;
    return ns / 1000000;
}
