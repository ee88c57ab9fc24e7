/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An event loop: one thread that sleeps in epoll. The engine of each rank is one (links, timers,
 * asynchronous works), the TCP store's server is another.
 *
 * All callbacks run on the loop's thread. rcmi_loop_watch, _change, _unwatch and _timer may only be
 * called on it, or before rcmi_loop_start; other threads use rcmi_loop_call. Exception: any thread
 * may call rcmi_loop_rearm. Callbacks may unwatch (and close and free) any watch, including their
 * own: a fetched event of a removed watch is dropped. Unwatch before close: a closed descriptor of
 * which another process holds a copy would stay watched.
 *
 * A program may close foreign descriptors (closefrom), including those of the loop, and nothing
 * then wakes a thread in epoll. A sleeping loop therefore checks its descriptors once a second. If
 * they are gone the loop is broken: it continues its rounds, calls, timers and tick, but without
 * watches, and its thread distrusts descriptors from then on (fd.h). The thread blocks all signals,
 * so the application's handlers never run on it. A forked child has no thread: _watch returns
 * RCM_ERR_FORKED, _call runs directly, _destroy frees the copy.
 */
#ifndef RCMI_LOOP_H
#define RCMI_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include "ringcomm.h"
#include "clock.h"

struct rcmi_loop;

/* Embed it; the owner fills fd, ready and arg. */
struct rcmi_watch {
    int fd;
    void (*ready)(void *arg, uint32_t epoll_events);
    void *arg;
    bool active; /* owned by the loop */
};

/* Embed it; zero it first. */
struct rcmi_timer {
    void (*fire)(void *arg);
    void *arg;
    rcmi_deadline at; /* owned by the loop from here on */
    struct rcmi_timer *next;
    bool active;
};

/* `name` (at most 15 bytes) names the thread. `tick`, if not NULL, runs before each sleep and
 * returns the time until which the loop may sleep: RCMI_NEVER: until an event; 0: check descriptors
 * without sleeping, then call tick again. */
rcm_status rcmi_loop_create(const char *name, rcmi_deadline (*tick)(void *arg), void *arg,
                            struct rcmi_loop **ret_loop);
rcm_status rcmi_loop_start(struct rcmi_loop *loop);

/* Stops and joins the thread, closes the loop's own descriptors, frees it. The owner keeps watched
 * descriptors. Not from the loop's thread. NULL is a no-op. */
void rcmi_loop_destroy(struct rcmi_loop *loop);

rcm_status rcmi_loop_watch(struct rcmi_loop *loop, struct rcmi_watch *watch, uint32_t events);
rcm_status rcmi_loop_change(struct rcmi_loop *loop, struct rcmi_watch *watch, uint32_t events);
void rcmi_loop_unwatch(struct rcmi_loop *loop, struct rcmi_watch *watch);

/* epoll_ctl(MOD) from any thread, for watches with EPOLLONESHOT that stay alive. */
rcm_status rcmi_loop_rearm(struct rcmi_loop *loop, struct rcmi_watch *watch, uint32_t events);

void rcmi_loop_timer(struct rcmi_loop *loop, struct rcmi_timer *timer, rcmi_deadline at);
void rcmi_loop_timer_stop(struct rcmi_loop *loop, struct rcmi_timer *timer);

/* Runs fn(arg) on the loop's thread and waits for it; directly if already there or not started. */
void rcmi_loop_call(struct rcmi_loop *loop, void (*fn)(void *arg), void *arg);

/* Wakes the loop, so that tick runs soon. Any thread. */
void rcmi_loop_wake(struct rcmi_loop *loop);
/* The eventfd behind rcmi_loop_wake. Other processes with a copy wake the loop by writing 1. */
int rcmi_loop_eventfd(struct rcmi_loop *loop);

/* _is_whole checks with a system call that the loop's own descriptors are unchanged; _is_broken
 * returns the result of the last check. Any thread. */
bool rcmi_loop_is_whole(struct rcmi_loop *loop);
bool rcmi_loop_is_broken(const struct rcmi_loop *loop);

bool rcmi_loop_on_thread(const struct rcmi_loop *loop);
bool rcmi_loop_on_any_thread(void);

#endif
