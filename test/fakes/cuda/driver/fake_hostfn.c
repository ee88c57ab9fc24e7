/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host functions of streams. By default each runs on its stream's thread. FAKECUDA_HOSTFN delays
 * them, or runs those of all streams on one thread, one after the other. Inside a host function,
 * driver calls fail.
 */
#include "fake.h"
#include <unistd.h>

struct job {
    CUhostFn fn;
    void *arg;
    bool done;
    struct job *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job *head, **tail = &head;
static bool started;
static _Thread_local bool inside;

bool fake_in_host_fn(void) {
    return inside;
}

static void delay(void) {
    static _Atomic uint32_t state = 1;
    unsigned us = fake_settings()->host_delay_us;
    if (us)
        usleep((atomic_fetch_add(&state, 0x9e3779b9u) * 2654435761u >> 8) % us);
}

static void call(CUhostFn fn, void *arg) {
    delay();
    inside = true;
    fn(arg);
    inside = false;
}

static void *serve(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!head)
            pthread_cond_wait(&changed, &lock);
        struct job *j = head;
        head = j->next;
        if (!head)
            tail = &head;
        pthread_mutex_unlock(&lock);
        call(j->fn, j->arg);
        pthread_mutex_lock(&lock);
        j->done = true;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

static void start_locked(void) {
    pthread_t thread;
    if (started)
        return;
    started = true;
    if (pthread_create(&thread, NULL, serve, NULL) == 0)
        pthread_detach(thread);
}

static void call_in_turn(CUhostFn fn, void *arg) {
    struct job j = {fn, arg, false, NULL};
    pthread_mutex_lock(&lock);
    start_locked();
    *tail = &j;
    tail = &j.next;
    pthread_cond_broadcast(&changed);
    while (!j.done)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void fake_call_host_fn(CUhostFn fn, void *arg) {
    if (fake_settings()->host_serial)
        call_in_turn(fn, arg);
    else
        call(fn, arg);
}
