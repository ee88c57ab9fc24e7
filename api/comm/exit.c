/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that calls exit(), or returns from main, with idle communicators has not died. It sends
 * a farewell, like rcm_leave, so that the others report that it has left. A process with operations
 * in flight counts as dead. So does a child after fork, whose engines are its parent's.
 */
#include "exit.h"
#include <pthread.h>
#include <stdlib.h>
#include "engine.h"
#include "fork.h"
#include "trace_file.h"

static pthread_mutex_t exit_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct rcmi_engine *exit_engines;

static void exit_leave(struct rcmi_engine *engine) {
    if (rcmi_engine_is_idle(engine))
        rcmi_engine_hurry(engine);
    rcmi_trace_file_write(engine->trace);
}

/* Other threads may continue meanwhile, so an engine may end; it then waits for the lock. */
static void exit_leave_all(void) {
    if (!rcmi_fork_is_maker(rcmi_fork_generation()))
        return; /* a child that no handler saw: list and lock are its parent's */
    pthread_mutex_lock(&exit_lock);
    for (struct rcmi_engine *engine = exit_engines; engine; engine = engine->exit_next)
        if (rcmi_fork_is_maker(engine->fork_generation))
            exit_leave(engine);
    pthread_mutex_unlock(&exit_lock);
}

/* Another thread may have held the lock. The engines are the parent's. */
static void exit_forget(void) {
    pthread_mutex_init(&exit_lock, NULL);
    exit_engines = NULL;
}

static void exit_register(void) {
    (void)atexit(exit_leave_all); /* without memory for it, exit is a death */
    (void)pthread_atfork(NULL, NULL, exit_forget);
}

static void exit_unwatch(struct rcmi_engine *engine) {
    pthread_mutex_lock(&exit_lock);
    struct rcmi_engine **at = &exit_engines;
    while (*at != engine)
        at = &(*at)->exit_next;
    *at = engine->exit_next;
    pthread_mutex_unlock(&exit_lock);
}

void rcmi_exit_watch(struct rcmi_engine *engine) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, exit_register);
    engine->fork_generation = rcmi_fork_watch();
    engine->unwatch = exit_unwatch;
    pthread_mutex_lock(&exit_lock);
    engine->exit_next = exit_engines;
    exit_engines = engine;
    pthread_mutex_unlock(&exit_lock);
}
