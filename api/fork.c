/* SPDX-License-Identifier: BSD-3-Clause */
/* The count of forks: see fork.h. */
#include "fork.h"
#include <pthread.h>
#include <stddef.h>

_Atomic uint32_t rcmi_forks;

static void fork_in_child(void) {
    atomic_fetch_add_explicit(&rcmi_forks, 1, memory_order_relaxed);
}

static void fork_watch(void) {
    pthread_atfork(NULL, NULL, fork_in_child);
}

void rcmi_fork_watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_watch);
}
