/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library, diagnosis of failed starts, and condition variables: see thread.h. */
#include "thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include "cgroup.h"
#include "entry.h"
#include "error.h"

enum { KIB = 1024, TEXT = 256, NS_PER_S = 1000000000 };

/* ---- Limits ---------------------------------------------------------------------------------- */

/* Appends "RLIMIT_AS is 4096 KiB (ulimit -v)" if there is such a limit. */
static void limit_add(char *text, const char *name, int which, rlim_t unit, const char *words) {
    struct rlimit limit;
    const size_t used = strlen(text);
    if (getrlimit((__rlimit_resource_t)which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text + used, TEXT - used, "%s%s is %llu%s", used ? ", " : "", name,
                 (unsigned long long)(limit.rlim_cur / unit), words);
}

/* Appends the control group, this process's or a parent, that has reached its limit of tasks. */
static void cgroup_add(char *text) {
    struct rcmi_cgroup_tasks full;
    const size_t used = strlen(text);
    rcmi_cgroup_tasks(&full);
    if (full.file[0])
        snprintf(text + used, TEXT - used, "%s%.200s is %llu", used ? ", " : "", full.file,
                 (unsigned long long)full.limit);
}

/* Finds the reason why no thread with such a stack could start, as far as it is visible
 * afterwards. */
static void explain(size_t stack, char text[TEXT]) {
    void *area = mmap(NULL, stack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    text[0] = '\0';
    if (area == MAP_FAILED && errno == EAGAIN) {
        limit_add(text, "RLIMIT_MEMLOCK", RLIMIT_MEMLOCK, KIB,
                  " KiB (ulimit -l), and this process locks its memory (mlockall)");
    } else if (area == MAP_FAILED) {
        limit_add(text, "RLIMIT_AS", RLIMIT_AS, KIB, " KiB (ulimit -v)");
        limit_add(text, "RLIMIT_DATA", RLIMIT_DATA, KIB, " KiB (ulimit -d)");
    } else {
        munmap(area, stack);
        limit_add(text, "RLIMIT_NPROC", RLIMIT_NPROC, 1, " (ulimit -u)");
        cgroup_add(text);
    }
    if (text[0] == '\0')
        snprintf(text, TEXT, "%s",
                 area == MAP_FAILED
                     ? "there is no memory left"
                     : "the system allows no more threads (kernel.threads-max, kernel.pid_max)");
}

static rcm_status thread_refused(const struct rcmi_thread_kind *kind, size_t stack, int error) {
    char why[TEXT];
    if (error != EAGAIN && error != ENOMEM)
        return rcmi_fail(rcmi_status_of_errno(error), error, "cannot start %s", kind->name);
    explain(stack, why);
    return rcmi_fail(RCM_ERR_RESOURCE, error,
                     "cannot start %s, with a stack of %zu KiB: %s. Raise that limit, or start "
                     "fewer ranks",
                     kind->name, stack / KIB, why);
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Static thread-local variables of the program and its libraries also use the stack. */
static size_t stack_bytes(const struct rcmi_thread_kind *kind, const pthread_attr_t *attributes) {
    size_t (*least)(const pthread_attr_t *) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "__pthread_get_minstack");
    memcpy(&least, &symbol, sizeof least);
    const size_t extra = least ? least(attributes) : 0;
    return kind->stack_kib * KIB + (extra + 4095) / 4096 * 4096;
}

static void signals_to_block(sigset_t *ret_set) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigfillset(ret_set);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(ret_set, faults[i]); /* so that crash reports work */
}

rcm_status rcmi_thread_start(const struct rcmi_thread_kind *kind, void *(*run)(void *arg),
                             void *arg, pthread_t *ret_thread) {
    RCMI_ENTRY;
    struct rcmi_foreign foreign; /* a thread inherits its creator's environment */
    sigset_t block, old;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const size_t stack = stack_bytes(kind, &attributes);
    int error = pthread_attr_setstacksize(&attributes, stack);
    if (kind->detached)
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    signals_to_block(&block);
    pthread_sigmask(SIG_SETMASK, &block, &old);
    rcmi_foreign_begin(&foreign);
    if (error == 0)
        error = pthread_create(ret_thread, &attributes, run, arg);
    rcmi_foreign_end(&foreign);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0 ? RCM_OK : thread_refused(kind, stack, error);
}

/* ---- Conditions ------------------------------------------------------------------------------ */

void rcmi_condition_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool rcmi_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, rcmi_deadline deadline) {
    const struct timespec until = {.tv_sec = (time_t)(deadline / NS_PER_S),
                                   .tv_nsec = (long)(deadline % NS_PER_S)};
    if (deadline == RCMI_NEVER)
        return pthread_cond_wait(condition, lock) == 0;
    return pthread_cond_timedwait(condition, lock, &until) == 0;
}
