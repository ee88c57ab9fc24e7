/* SPDX-License-Identifier: BSD-3-Clause */
/* The generation number of a process: see fork.h. */
#include "fork.h"
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

static _Atomic uint32_t plain_word;
_Atomic uint32_t *_Atomic rcmi_fork_word = &plain_word;
static _Atomic uint32_t last; /* number of this process or its parent; a child increments it */
static _Atomic pid_t maker;   /* the process with the current number */

static void fork_in_child(void) {
    atomic_store_explicit(rcmi_fork_word, 0, memory_order_relaxed);
}

static void fork_prepare(void) {
    const size_t len = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, len, MADV_WIPEONFORK) == 0)
        rcmi_fork_word = page;
    else if (page != MAP_FAILED)
        munmap(page, len);
    pthread_atfork(NULL, NULL, fork_in_child);
}

uint32_t rcmi_fork_watch(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_prepare);
    uint32_t current = rcmi_fork_generation();
    if (current != 0)
        return current;
    uint32_t next = atomic_fetch_add(&last, 1) + 1;
    maker = getpid();
    return atomic_compare_exchange_strong(rcmi_fork_word, &current, next) ? next : current;
}

bool rcmi_fork_is_maker(uint32_t generation) {
    return generation != 0 && generation == rcmi_fork_generation() && getpid() == maker;
}
