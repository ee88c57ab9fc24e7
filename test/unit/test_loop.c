/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop: watches, timers, calls, wake-ups, ticks, and what happens after fork. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"
#include "loop.h"

enum { PATIENCE_MS = 10000 };

static bool await_int(_Atomic int *value, int at_least) {
    rcmi_deadline lost = rcmi_deadline_in(PATIENCE_MS);
    while (atomic_load(value) < at_least && !rcmi_deadline_passed(lost))
        usleep(50);
    return atomic_load(value) >= at_least;
}

static void nothing(void *arg) {
    (void)arg;
}

static int ready_eventfd(void) {
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(fd >= 0);
    return fd;
}

/* ---- Watches -------------------------------------------------------------------------------- */

struct reader {
    struct rcmi_watch watch;
    struct rcmi_loop *loop;
    struct reader *victim; /* the first callback unwatches, closes and frees it */
    _Atomic int *count;
};

static void reader_ready(void *arg, uint32_t events) {
    struct reader *reader = arg;
    uint64_t value;
    if ((events & EPOLLIN) && read(reader->watch.fd, &value, sizeof value) == sizeof value)
        atomic_fetch_add(reader->count, 1);
}

static void test_watch(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    _Atomic int count = 0;
    const uint64_t one = 1;
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    struct reader reader = {.count = &count};
    reader.watch = (struct rcmi_watch){
        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = reader_ready, .arg = &reader};
    check_ok(rcmi_loop_watch(loop, &reader.watch, EPOLLIN));
    check_ok(rcmi_loop_start(loop));
    for (int i = 1; i <= 100; i++) {
        assert_int_equal(write(reader.watch.fd, &one, sizeof one), sizeof one);
        assert_true(await_int(&count, i));
    }
    assert_int_equal(atomic_load(&count), 100);
    rcmi_loop_destroy(loop);
    close(reader.watch.fd);
}

static void test_watch_fails(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    struct rcmi_watch watch = {.fd = -1};
    check_status(RCM_ERR_SYSTEM, rcmi_loop_watch(loop, &watch, EPOLLIN));
    assert_false(watch.active);
    rcmi_loop_unwatch(loop, &watch); /* not watched: no effect */
    rcmi_loop_destroy(loop);
    rcmi_loop_destroy(NULL);
}

/* Both are ready before the loop starts, so both are in the first batch. The first to run removes
 * the other, which must not be called (it is freed memory). */
static void reader_kill(void *arg, uint32_t events) {
    (void)events;
    struct reader *reader = arg, *victim = reader->victim;
    rcmi_loop_unwatch(reader->loop, &victim->watch);
    close(victim->watch.fd);
    free(victim);
    rcmi_loop_unwatch(reader->loop, &reader->watch); /* its own watch too */
    close(reader->watch.fd);
    _Atomic int *count = reader->count;
    free(reader);
    atomic_fetch_add(count, 1);
}

static void test_unwatch_other(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    _Atomic int count = 0;
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    struct reader *pair[2];
    for (int i = 0; i < 2; i++) {
        pair[i] = calloc(1, sizeof **pair);
        assert_non_null(pair[i]);
        pair[i]->loop = loop;
        pair[i]->count = &count;
        pair[i]->watch =
            (struct rcmi_watch){.fd = ready_eventfd(), .ready = reader_kill, .arg = pair[i]};
        check_ok(rcmi_loop_watch(loop, &pair[i]->watch, EPOLLIN));
    }
    pair[0]->victim = pair[1];
    pair[1]->victim = pair[0];
    check_ok(rcmi_loop_start(loop));
    assert_true(await_int(&count, 1));
    for (int i = 0; i < 10; i++)
        rcmi_loop_call(loop, nothing, NULL);
    assert_int_equal(atomic_load(&count), 1);
    rcmi_loop_destroy(loop);
}

/* Unwatched and watched again in one callback: the event of the first watch is dropped, that of the
 * second arrives. */
static void reader_renew(void *arg, uint32_t events) {
    struct reader *reader = arg;
    (void)events;
    int calls = atomic_fetch_add(reader->count, 1);
    if (calls == 0) {
        rcmi_loop_unwatch(reader->loop, &reader->victim->watch);
        rcm_status status = rcmi_loop_watch(reader->loop, &reader->victim->watch, EPOLLOUT);
        if (status != RCM_OK)
            atomic_fetch_add(reader->count, 1000);
    } else if (events != EPOLLOUT) {
        atomic_fetch_add(reader->count, 1000); /* the stale EPOLLIN */
    }
    rcmi_loop_unwatch(reader->loop, &reader->watch);
}

static void test_rewatch(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    _Atomic int count = 0;
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    struct reader pair[2];
    for (int i = 0; i < 2; i++) {
        pair[i] = (struct reader){.loop = loop, .victim = &pair[1 - i], .count = &count};
        pair[i].watch =
            (struct rcmi_watch){.fd = ready_eventfd(), .ready = reader_renew, .arg = &pair[i]};
        check_ok(rcmi_loop_watch(loop, &pair[i].watch, EPOLLIN));
    }
    check_ok(rcmi_loop_start(loop));
    assert_true(await_int(&count, 2));
    rcmi_loop_call(loop, nothing, NULL);
    assert_int_equal(atomic_load(&count), 2);
    rcmi_loop_destroy(loop);
    for (int i = 0; i < 2; i++)
        close(pair[i].watch.fd);
}

static void count_oneshot(void *arg, uint32_t events) {
    (void)events;
    atomic_fetch_add((_Atomic int *)arg, 1);
}

/* With EPOLLONESHOT a ready descriptor reports once, and again after each rearm from any thread. */
static void test_rearm(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    _Atomic int count = 0;
    struct rcmi_watch watch = {.fd = ready_eventfd(), .ready = count_oneshot, .arg = &count};
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    check_ok(rcmi_loop_watch(loop, &watch, EPOLLIN | EPOLLONESHOT));
    check_ok(rcmi_loop_start(loop));
    assert_true(await_int(&count, 1));
    for (int i = 0; i < 5; i++)
        rcmi_loop_call(loop, nothing, NULL);
    assert_int_equal(atomic_load(&count), 1);
    for (int i = 2; i <= 20; i++) {
        check_ok(rcmi_loop_rearm(loop, &watch, EPOLLIN | EPOLLONESHOT));
        assert_true(await_int(&count, i));
    }
    rcmi_loop_destroy(loop);
    close(watch.fd);
}

/* ---- Timers --------------------------------------------------------------------------------- */

struct alarm_clock {
    struct rcmi_timer timer;
    struct rcmi_loop *loop;
    struct bell_board *board;
    int number;
};

struct bell_board {
    int order[16];
    bool early;
    _Atomic int fired;
};

static void alarm_fire(void *arg) {
    struct alarm_clock *alarm = arg;
    int at = atomic_load(&alarm->board->fired);
    alarm->board->order[at] = alarm->number;
    if (rcmi_now_ns() < alarm->timer.at)
        alarm->board->early = true;
    atomic_store(&alarm->board->fired, at + 1);
}

static void test_timer_order(void **state) {
    (void)state;
    static const int ms[] = {30, 10, 20, 10, 5, 25, 10};
    static const int expected[] = {4, 1, 6, 2, 0}; /* 3 and 5 are stopped */
    enum { COUNT = sizeof ms / sizeof ms[0], LEFT = sizeof expected / sizeof expected[0] };
    struct rcmi_loop *loop;
    struct bell_board board;
    struct alarm_clock alarms[COUNT];
    memset(&board, 0, sizeof board);
    memset(alarms, 0, sizeof alarms);
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    int64_t now = rcmi_now_ns();
    for (int i = 0; i < COUNT; i++) {
        alarms[i] = (struct alarm_clock){.board = &board, .number = i};
        alarms[i].timer.fire = alarm_fire;
        alarms[i].timer.arg = &alarms[i];
        rcmi_loop_timer(loop, &alarms[i].timer, RCMI_NEVER);
    }
    for (int i = 0; i < COUNT; i++) /* set again, to another time */
        rcmi_loop_timer(loop, &alarms[i].timer, now + ms[i] * 1000000);
    rcmi_loop_timer_stop(loop, &alarms[3].timer);
    rcmi_loop_timer_stop(loop, &alarms[5].timer);
    rcmi_loop_timer_stop(loop, &alarms[5].timer); /* no effect the second time */
    check_ok(rcmi_loop_start(loop));
    assert_true(await_int(&board.fired, LEFT));
    rcmi_loop_call(loop, nothing, NULL);
    assert_int_equal(atomic_load(&board.fired), LEFT);
    assert_memory_equal(board.order, expected, sizeof expected);
    assert_false(board.early);
    assert_true(rcmi_now_ns() >= now + 30 * 1000000);
    rcmi_loop_destroy(loop);
}

static void alarm_repeat(void *arg) {
    struct alarm_clock *alarm = arg;
    if (atomic_fetch_add(&alarm->board->fired, 1) < 1000000)
        rcmi_loop_timer(alarm->loop, &alarm->timer, 0);
}

/* A timer that always restarts itself for a past time. Descriptors, calls and other timers still
 * get their turn. */
static void test_timer_starves_nobody(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    struct bell_board board;
    memset(&board, 0, sizeof board);
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    struct alarm_clock alarm = {.loop = loop, .board = &board};
    alarm.timer.fire = alarm_repeat;
    alarm.timer.arg = &alarm;
    _Atomic int count = 0;
    struct reader reader = {.count = &count};
    reader.watch =
        (struct rcmi_watch){.fd = ready_eventfd(), .ready = reader_ready, .arg = &reader};
    rcmi_loop_timer(loop, &alarm.timer, 0);
    check_ok(rcmi_loop_watch(loop, &reader.watch, EPOLLIN));
    check_ok(rcmi_loop_start(loop));
    assert_true(await_int(&count, 1));
    assert_true(await_int(&board.fired, 10));
    rcmi_loop_call(loop, nothing, NULL);
    assert_true(atomic_load(&board.fired) < 1000000);
    rcmi_loop_destroy(loop);
    close(reader.watch.fd);
}

/* A timer that stops another one due in the same round. */
struct stopper {
    struct rcmi_timer timer;
    struct rcmi_loop *loop;
    struct rcmi_timer *victim;
    _Atomic int fired;
};

static void stopper_fire(void *arg) {
    struct stopper *stopper = arg;
    rcmi_loop_timer_stop(stopper->loop, stopper->victim);
    atomic_fetch_add(&stopper->fired, 1);
}

static void test_timer_stops_other(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    struct stopper pair[2];
    memset(pair, 0, sizeof pair);
    for (int i = 0; i < 2; i++) {
        pair[i].loop = loop;
        pair[i].victim = &pair[1 - i].timer;
        pair[i].timer.fire = stopper_fire;
        pair[i].timer.arg = &pair[i];
        rcmi_loop_timer(loop, &pair[i].timer, 1);
    }
    check_ok(rcmi_loop_start(loop));
    assert_true(await_int(&pair[0].fired, 1));
    rcmi_loop_call(loop, nothing, NULL);
    assert_int_equal(atomic_load(&pair[1].fired), 0);
    rcmi_loop_destroy(loop);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

enum { CALLERS = 4, CALLS = 2000 };

struct callers {
    struct rcmi_loop *loop;
    int plain; /* on the loop's thread only: needs no atomic if calls are serial */
    int wrong_thread;
};

static void caller_count(void *arg) {
    struct callers *callers = arg;
    callers->plain++;
    if (!rcmi_loop_on_thread(callers->loop))
        callers->wrong_thread++;
}

static void caller_nested(void *arg) {
    struct callers *callers = arg;
    rcmi_loop_call(callers->loop, caller_count, callers); /* on the loop's thread: runs directly */
}

static void *caller_run(void *arg) {
    struct callers *callers = arg;
    for (int i = 0; i < CALLS; i++)
        rcmi_loop_call(callers->loop, i % 2 ? caller_nested : caller_count, callers);
    return NULL;
}

static void test_calls(void **state) {
    (void)state;
    struct callers callers = {0};
    check_ok(rcmi_loop_create("test", NULL, NULL, &callers.loop));
    rcmi_loop_call(callers.loop, nothing, NULL); /* not started: runs here */
    assert_false(rcmi_loop_on_thread(callers.loop));
    check_ok(rcmi_loop_start(callers.loop));
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, caller_run, &callers), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(callers.plain, CALLERS * CALLS);
    assert_int_equal(callers.wrong_thread, 0);
    rcmi_loop_destroy(callers.loop);
}

static void read_mask(void *arg) {
    pthread_sigmask(SIG_BLOCK, NULL, arg);
}

static void test_signals_blocked(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    sigset_t before, mask, after;
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    check_ok(rcmi_loop_start(loop));
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    rcmi_loop_call(loop, read_mask, &mask);
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGPIPE, SIGALRM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_int_equal(sigismember(&mask, signals[i]), 1);
        assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
    assert_int_equal(sigismember(&mask, SIGSEGV), 0);
    rcmi_loop_destroy(loop);
}

/* ---- Waking and ticks ----------------------------------------------------------------------- */

enum { WAKES = 5000 };

struct ticker {
    _Atomic int published, seen, ticks;
    int busy; /* remaining rounds without sleep; used by the loop's thread */
};

static rcmi_deadline ticker_tick(void *arg) {
    struct ticker *ticker = arg;
    atomic_fetch_add(&ticker->ticks, 1);
    atomic_store(&ticker->seen, atomic_load_explicit(&ticker->published, memory_order_relaxed));
    return ticker->busy-- > 0 ? 0 : RCMI_NEVER;
}

/* Each wake must lead to a tick that sees the data published before it. */
static void test_wake(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    struct ticker ticker = {0};
    check_ok(rcmi_loop_create("test", ticker_tick, &ticker, &loop));
    check_ok(rcmi_loop_start(loop));
    for (int i = 1; i <= WAKES; i++) {
        atomic_store_explicit(&ticker.published, i, memory_order_relaxed);
        rcmi_loop_wake(loop);
        rcmi_deadline lost = rcmi_deadline_in(PATIENCE_MS);
        while (atomic_load(&ticker.seen) < i && !rcmi_deadline_passed(lost))
            if (i % 3 == 0)
                usleep(1);
        assert_int_equal(atomic_load(&ticker.seen), i);
    }
    rcmi_loop_destroy(loop);
}

static void *wake_often(void *arg) {
    for (int i = 0; i < 50000; i++)
        rcmi_loop_wake(arg);
    return NULL;
}

/* Many wakes from two threads end with a tick after the last one, then with sleep. */
static void test_wake_storm(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    struct ticker ticker = {0};
    check_ok(rcmi_loop_create("test", ticker_tick, &ticker, &loop));
    check_ok(rcmi_loop_start(loop));
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wake_often, loop), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&ticker.published, 1);
    rcmi_loop_wake(loop);
    assert_true(await_int(&ticker.seen, 1));
    usleep(20000);
    int ticks = atomic_load(&ticker.ticks);
    usleep(50000);
    assert_int_equal(atomic_load(&ticker.ticks), ticks);
    rcmi_loop_destroy(loop);
}

/* Another process wakes the loop through its copy of the eventfd. */
static void test_wake_from_process(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    struct ticker ticker = {0};
    check_ok(rcmi_loop_create("test", ticker_tick, &ticker, &loop));
    check_ok(rcmi_loop_start(loop));
    assert_true(await_int(&ticker.ticks, 1));
    for (int i = 1; i <= 5; i++) {
        usleep(5000); /* probably asleep by now */
        int before = atomic_load(&ticker.ticks);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            const uint64_t one = 1;
            _exit(write(rcmi_loop_eventfd(loop), &one, sizeof one) == sizeof one ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_true(await_int(&ticker.ticks, before + 1));
    }
    rcmi_loop_destroy(loop);
}

/* tick returns 0 for another round at once, NEVER for sleep: an idle loop uses no CPU. */
static void test_tick(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    struct ticker ticker = {.busy = 1000};
    check_ok(rcmi_loop_create("test", ticker_tick, &ticker, &loop));
    check_ok(rcmi_loop_start(loop));
    assert_true(await_int(&ticker.ticks, 1001));
    usleep(50000);
    assert_int_equal(atomic_load(&ticker.ticks), 1001);
    rcmi_loop_destroy(loop);
}

/* ---- Start, stop, fork ---------------------------------------------------------------------- */

static void test_start_stop(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct rcmi_loop *loop;
        struct ticker ticker = {0};
        check_ok(rcmi_loop_create("a name longer than fifteen", ticker_tick, &ticker, &loop));
        if (i % 4 != 0)
            check_ok(rcmi_loop_start(loop));
        rcmi_loop_destroy(loop);
    }
}

/* The loop can end at any point of a round. */
static void test_end_in_a_round(void **state) {
    (void)state;
    for (int i = 0; i < 3000; i++) {
        struct rcmi_loop *loop;
        check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
        check_ok(rcmi_loop_start(loop));
        usleep(100);
        rcmi_loop_wake(loop);
        const int64_t until = rcmi_now_ns() + (int64_t)(i * 7919 % 60000);
        while (rcmi_now_ns() < until)
            ;
        rcmi_loop_destroy(loop);
    }
}

/* The child frees its copy without effect on the parent's loop and watches. */
static void test_fork(void **state) {
    (void)state;
    struct rcmi_loop *loop;
    _Atomic int count = 0;
    const uint64_t one = 1;
    check_ok(rcmi_loop_create("test", NULL, NULL, &loop));
    struct reader reader = {.count = &count};
    reader.watch = (struct rcmi_watch){
        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = reader_ready, .arg = &reader};
    check_ok(rcmi_loop_watch(loop, &reader.watch, EPOLLIN));
    check_ok(rcmi_loop_start(loop));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        struct rcmi_watch other = {.fd = reader.watch.fd};
        rcmi_loop_call(loop, nothing, NULL);
        rcmi_loop_unwatch(loop, &reader.watch);
        int refused = rcmi_loop_watch(loop, &other, EPOLLIN) == RCM_ERR_FORKED;
        rcmi_loop_destroy(loop);
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(write(reader.watch.fd, &one, sizeof one), sizeof one);
    assert_true(await_int(&count, 1));
    rcmi_loop_destroy(loop);
    close(reader.watch.fd);
}

int main(void) {
    alarm(55);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_watch_fails),
        cmocka_unit_test(test_unwatch_other),
        cmocka_unit_test(test_rewatch),
        cmocka_unit_test(test_rearm),
        cmocka_unit_test(test_timer_order),
        cmocka_unit_test(test_timer_starves_nobody),
        cmocka_unit_test(test_timer_stops_other),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_signals_blocked),
        cmocka_unit_test(test_wake),
        cmocka_unit_test(test_wake_storm),
        cmocka_unit_test(test_wake_from_process),
        cmocka_unit_test(test_tick),
        cmocka_unit_test(test_start_stop),
        cmocka_unit_test(test_end_in_a_round),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
