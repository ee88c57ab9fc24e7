/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop. One round: clear the wake flag, run the calls of other threads, fire timers, call
 * tick, sleep in epoll, dispatch the events.
 *
 * After fork() the child has a copy of the object but not the thread, and shares the epoll set with
 * its parent. So in the child nothing touches the set, no call waits for the thread, and
 * rcmi_loop_destroy only frees the copy.
 */
#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "entry.h"
#include "error.h"
#include "fd.h"
#include "fork.h"
#include "log.h"
#include "thread.h"

enum {
    BATCH = 64,
    NAME_BYTES = 16,
    LOOK_MS = 1000, /* between descriptor checks of a sleeping thread */
    BROKEN_MS = 10, /* between rounds of a broken loop */
};

struct loop_call {
    void (*fn)(void *arg);
    void *arg;
    struct loop_call *next;
    bool done;
};

struct rcmi_loop {
    int epoll_fd, wake_fd;
    pid_t pid; /* of the creating process */
    uint32_t generation;
    char name[NAME_BYTES];
    rcmi_deadline (*tick)(void *arg);
    void *tick_arg;
    pthread_t thread;
    bool started;
    _Atomic bool stop; /* set by rcmi_loop_destroy before its wake, read by loop_run after it */

    /* Another round is needed. Set by rcmi_loop_wake, cleared by loop_run at the start of a round:
     * that round sees what a waker wrote before. */
    _Atomic bool noted;
    /* Is the thread in epoll_wait, or about to be? Partner: noted. The loop sets sleeping and then
     * reads noted; a waker sets noted and then reads sleeping. All accesses are sequentially
     * consistent, so one of them sees the other. */
    _Atomic bool sleeping;
    _Atomic bool broken; /* see loop.h; relaxed, orders nothing */

    struct rcmi_timer *timers; /* by time, then by insertion order */
    struct epoll_event events[BATCH];
    int nevents, next_event; /* events fetched, and the first not dispatched */

    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t called;
    struct loop_call *calls, **calls_end;
    bool ended; /* the thread takes no more calls */
};

static _Thread_local const struct rcmi_loop *thread_loop;

bool rcmi_loop_on_thread(const struct rcmi_loop *loop) {
    return thread_loop == loop;
}

bool rcmi_loop_on_any_thread(void) {
    return thread_loop != NULL;
}

int rcmi_loop_eventfd(struct rcmi_loop *loop) {
    return loop->wake_fd;
}

static bool loop_in_child(const struct rcmi_loop *loop) {
    return !rcmi_fork_is_maker(loop->generation);
}

/* ---- Descriptors closed by other code -------------------------------------------------------- */

bool rcmi_loop_is_broken(const struct rcmi_loop *loop) {
    return atomic_load_explicit(&loop->broken, memory_order_relaxed);
}

static void loop_break(struct rcmi_loop *loop) {
    if (atomic_exchange_explicit(&loop->broken, true, memory_order_relaxed))
        return;
    rcmi_log(RCMI_LOG_WARN, "this process closed descriptors of the event loop '%s'", loop->name);
}

/* The epoll set finds the eventfd, by number and file, only if both descriptors are unchanged. */
static bool loop_has_descriptors(struct rcmi_loop *loop) {
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = loop};
    return epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, loop->wake_fd, &wake) == 0 ||
           (errno != EBADF && errno != EINVAL && errno != ENOENT && errno != EPERM);
}

bool rcmi_loop_is_whole(struct rcmi_loop *loop) {
    if (loop_in_child(loop))
        return true;
    int saved_errno = errno;
    if (!rcmi_loop_is_broken(loop) && !loop_has_descriptors(loop))
        loop_break(loop);
    errno = saved_errno;
    return !rcmi_loop_is_broken(loop);
}

/* ---- Waking -------------------------------------------------------------------------------- */

void rcmi_loop_wake(struct rcmi_loop *loop) {
    if (atomic_exchange_explicit(&loop->noted, true, memory_order_seq_cst))
        return; /* the first waker writes, if a write is needed */
    if (!atomic_load_explicit(&loop->sleeping, memory_order_seq_cst) || rcmi_loop_is_broken(loop))
        return;
    RCMI_ENTRY;
    int saved_errno = errno;
    const uint64_t one = 1;
    while (write(loop->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    errno = saved_errno;
}

static void loop_drain_wake(struct rcmi_loop *loop) {
    uint64_t count;
    while (read(loop->wake_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

/* ---- Watches ------------------------------------------------------------------------------- */

static rcm_status loop_control(struct rcmi_loop *loop, int verb, struct rcmi_watch *watch,
                               uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (rcmi_loop_is_broken(loop))
        return rcmi_fail(RCM_ERR_SYSTEM, EBADF, "cannot watch descriptor %d", watch->fd);
    if (epoll_ctl(loop->epoll_fd, verb, watch->fd, &event) != 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot watch descriptor %d",
                         watch->fd);
    return RCM_OK;
}

rcm_status rcmi_loop_watch(struct rcmi_loop *loop, struct rcmi_watch *watch, uint32_t events) {
    if (loop_in_child(loop))
        return rcmi_fail(RCM_ERR_FORKED, 0, "the event loop belongs to process %d", (int)loop->pid);
    rcm_status status = loop_control(loop, EPOLL_CTL_ADD, watch, events);
    if (status == RCM_OK)
        watch->active = true;
    return status;
}

rcm_status rcmi_loop_change(struct rcmi_loop *loop, struct rcmi_watch *watch, uint32_t events) {
    if (loop_in_child(loop))
        return rcmi_fail(RCM_ERR_FORKED, 0, "the event loop belongs to process %d", (int)loop->pid);
    return loop_control(loop, EPOLL_CTL_MOD, watch, events);
}

rcm_status rcmi_loop_rearm(struct rcmi_loop *loop, struct rcmi_watch *watch, uint32_t events) {
    return rcmi_loop_change(loop, watch, events);
}

void rcmi_loop_unwatch(struct rcmi_loop *loop, struct rcmi_watch *watch) {
    if (!watch->active)
        return;
    watch->active = false;
    if (loop_in_child(loop))
        return;
    if (!rcmi_loop_is_broken(loop))
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    for (int i = loop->next_event; i < loop->nevents; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
}

static void loop_hand_out(struct rcmi_loop *loop) {
    while (loop->next_event < loop->nevents) {
        const struct epoll_event *event = &loop->events[loop->next_event++];
        struct rcmi_watch *watch = event->data.ptr;
        if (event->data.ptr == loop)
            loop_drain_wake(loop);
        else if (watch)
            watch->ready(watch->arg, event->events);
    }
    loop->nevents = loop->next_event = 0;
}

/* ---- Timers -------------------------------------------------------------------------------- */

void rcmi_loop_timer_stop(struct rcmi_loop *loop, struct rcmi_timer *timer) {
    if (!timer->active)
        return;
    struct rcmi_timer **at = &loop->timers;
    while (*at && *at != timer)
        at = &(*at)->next;
    if (*at)
        *at = timer->next;
    timer->next = NULL;
    timer->active = false;
}

void rcmi_loop_timer(struct rcmi_loop *loop, struct rcmi_timer *timer, rcmi_deadline at) {
    rcmi_loop_timer_stop(loop, timer);
    timer->at = at;
    timer->active = true;
    struct rcmi_timer **link = &loop->timers;
    while (*link && (*link)->at <= at)
        link = &(*link)->next;
    timer->next = *link;
    *link = timer;
}

/* Fires due timers. A timer that restarts with a passed time fires in the next round; otherwise
 * descriptors would never be checked. */
static void loop_fire_timers(struct rcmi_loop *loop) {
    if (!loop->timers)
        return;
    int64_t now = rcmi_now_ns();
    int due = 0;
    for (struct rcmi_timer *t = loop->timers; t && t->at <= now; t = t->next)
        due++;
    while (due-- > 0 && loop->timers && loop->timers->at <= now) {
        struct rcmi_timer *timer = loop->timers;
        rcmi_loop_timer_stop(loop, timer);
        timer->fire(timer->arg);
    }
}

/* ---- Calls from other threads ---------------------------------------------------------------- */

void rcmi_loop_call(struct rcmi_loop *loop, void (*fn)(void *arg), void *arg) {
    struct loop_call call = {.fn = fn, .arg = arg};
    if (!loop->started || rcmi_loop_on_thread(loop) || loop_in_child(loop)) {
        fn(arg);
        return;
    }
    pthread_mutex_lock(&loop->lock);
    bool ended = loop->ended;
    if (!ended) {
        *loop->calls_end = &call;
        loop->calls_end = &call.next;
        rcmi_loop_wake(loop);
        while (!call.done)
            pthread_cond_wait(&loop->called, &loop->lock);
    }
    pthread_mutex_unlock(&loop->lock);
    if (ended)
        fn(arg);
}

static void loop_run_calls(struct rcmi_loop *loop, bool last) {
    pthread_mutex_lock(&loop->lock);
    while (loop->calls) {
        struct loop_call *call = loop->calls;
        loop->calls = call->next;
        if (!loop->calls)
            loop->calls_end = &loop->calls;
        pthread_mutex_unlock(&loop->lock);
        call->fn(call->arg);
        pthread_mutex_lock(&loop->lock);
        call->done = true; /* the call may be gone once the lock is free */
        pthread_cond_broadcast(&loop->called);
    }
    loop->ended = last;
    pthread_mutex_unlock(&loop->lock);
}

/* ---- The thread ---------------------------------------------------------------------------- */

/* Sleeps until an event or the deadline; -1 on failure. Ignores events of a set that is not the
 * loop's. */
static int loop_fetch(struct rcmi_loop *loop, rcmi_deadline until) {
    int count;
    do {
        const int left_ms = rcmi_deadline_left_ms(until);
        const bool far = left_ms < 0 || left_ms > LOOK_MS;
        count = epoll_wait(loop->epoll_fd, loop->events, BATCH, far ? LOOK_MS : left_ms);
        if ((count == 0 && !far) || (count < 0 && errno == EINTR))
            return 0;
        if (!rcmi_loop_is_whole(loop))
            return -1;
    } while (count == 0);
    return count;
}

static void loop_sleep(struct rcmi_loop *loop, rcmi_deadline until) {
    atomic_store_explicit(&loop->sleeping, true, memory_order_seq_cst);
    if (atomic_load_explicit(&loop->noted, memory_order_seq_cst))
        until = 0;
    int count = rcmi_loop_is_broken(loop) ? -1 : loop_fetch(loop, until);
    atomic_store_explicit(&loop->sleeping, false, memory_order_relaxed);
    if (rcmi_loop_is_broken(loop))
        (void)rcmi_fd_distrust(true);
    if (count < 0) /* ticks go on, because they check deadlines */
        poll(NULL, 0, until == 0 ? 0 : BROKEN_MS);
    loop->nevents = count > 0 ? count : 0;
    loop->next_event = 0;
}

static void *loop_run(void *arg) {
    struct rcmi_loop *loop = arg;
    thread_loop = loop;
    pthread_setname_np(pthread_self(), loop->name);
    for (;;) {
        /* Clears the flag before reading anything that a waker may have written, also `stop`. */
        atomic_exchange_explicit(&loop->noted, false, memory_order_seq_cst);
        if (atomic_load_explicit(&loop->stop, memory_order_acquire))
            break;
        loop_run_calls(loop, false);
        loop_fire_timers(loop);
        rcmi_deadline until = loop->tick ? loop->tick(loop->tick_arg) : RCMI_NEVER;
        if (loop->timers && loop->timers->at < until)
            until = loop->timers->at;
        loop_sleep(loop, until);
        loop_hand_out(loop);
    }
    loop_run_calls(loop, true);
    return NULL;
}

rcm_status rcmi_loop_create(const char *name, rcmi_deadline (*tick)(void *arg), void *arg,
                            struct rcmi_loop **ret_loop) {
    struct rcmi_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "cannot make the event loop '%s'", name);
    loop->tick = tick;
    loop->tick_arg = arg;
    loop->pid = getpid();
    loop->generation = rcmi_fork_watch();
    loop->calls_end = &loop->calls;
    snprintf(loop->name, sizeof loop->name, "%s", name);
    pthread_mutex_init(&loop->lock, NULL);
    pthread_cond_init(&loop->called, NULL);
    loop->wake_fd = rcmi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    loop->epoll_fd = rcmi_fd_high(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = loop};
    if (loop->wake_fd < 0 || loop->epoll_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &wake) != 0) {
        rcm_status status =
            rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot make the event loop '%s'", name);
        rcmi_loop_destroy(loop);
        return status;
    }
    *ret_loop = loop;
    return RCM_OK;
}

rcm_status rcmi_loop_start(struct rcmi_loop *loop) {
    char name[NAME_BYTES + 40];
    snprintf(name, sizeof name, "the thread of the event loop '%s'", loop->name);
    const struct rcmi_thread_kind kind = {.name = name, .stack_kib = RCMI_STACK_KIB};
    loop->started = true;
    const rcm_status status = rcmi_thread_start(&kind, loop_run, loop, &loop->thread);
    loop->started = status == RCM_OK;
    return status;
}

void rcmi_loop_destroy(struct rcmi_loop *loop) {
    if (!loop)
        return;
    if (!loop_in_child(loop)) {
        if (loop->started) {
            atomic_store_explicit(&loop->stop, true, memory_order_release);
            rcmi_loop_wake(loop);
            pthread_join(loop->thread, NULL);
        }
        pthread_cond_destroy(&loop->called);
        pthread_mutex_destroy(&loop->lock);
    }
    const bool before = rcmi_fd_distrust(rcmi_loop_is_broken(loop) || rcmi_fd_distrusted());
    rcmi_fd_close(&loop->epoll_fd);
    rcmi_fd_close(&loop->wake_fd);
    (void)rcmi_fd_distrust(before);
    free(loop);
}
