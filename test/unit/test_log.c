/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines. The level is read once per process, so each case runs in a forked child. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"
#include "log.h"

static void log_all_levels(void) {
    rcmi_log_set_rank(3);
    rcmi_log(RCMI_LOG_ERROR, "e%d", 1);
    rcmi_log(RCMI_LOG_WARN, "w%d", 2);
    rcmi_log_set_rank(-1);
    rcmi_log(RCMI_LOG_INFO, "i%d", 3);
    rcmi_log(RCMI_LOG_DEBUG, "d%d", 4);
}

static void log_long(void) {
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    rcmi_log(RCMI_LOG_ERROR, "%s", text);
}

static void log_lines(void) {
    rcmi_log_set_rank(2);
    rcmi_log_lines(RCMI_LOG_WARN, "one\n  two\n");
    rcmi_log_lines(RCMI_LOG_WARN, "not ended");
    rcmi_log_lines(RCMI_LOG_WARN, "");
    rcmi_log_lines(RCMI_LOG_INFO, "suppressed\n");
}

/* What fn writes to stderr with RINGCOMM_LOG=level (NULL: unset). */
static void capture(const char *level, void (*fn)(void), char *ret_text, size_t size) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        dup2(ends[1], STDERR_FILENO);
        if (level)
            setenv("RINGCOMM_LOG", level, 1);
        else
            unsetenv("RINGCOMM_LOG");
        fn();
        _exit(0);
    }
    close(ends[1]);
    size_t have = 0;
    ssize_t got;
    while ((got = read(ends[0], ret_text + have, size - 1 - have)) > 0)
        have += (size_t)got;
    ret_text[have] = '\0';
    close(ends[0]);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_levels(void **state) {
    (void)state;
    char text[8192];
    const char *error = "ringcomm [rank 3] error: e1\n";
    const char *warning = "ringcomm [rank 3] warning: w2\n";
    char expected[256];

    capture("error", log_all_levels, text, sizeof text);
    assert_string_equal(text, error);

    snprintf(expected, sizeof expected, "%s%s", error, warning);
    capture(NULL, log_all_levels, text, sizeof text);
    assert_string_equal(text, expected);
    capture("warn", log_all_levels, text, sizeof text);
    assert_string_equal(text, expected);

    snprintf(expected, sizeof expected, "%s%sringcomm info: i3\n", error, warning);
    capture("info", log_all_levels, text, sizeof text);
    assert_string_equal(text, expected);

    snprintf(expected, sizeof expected, "%s%sringcomm info: i3\nringcomm debug: d4\n", error,
             warning);
    capture("debug", log_all_levels, text, sizeof text);
    assert_string_equal(text, expected);
}

static void test_unknown_level(void **state) {
    (void)state;
    char text[8192];
    capture("loud", log_all_levels, text, sizeof text);
    assert_non_null(strstr(text, "RINGCOMM_LOG=loud"));
    assert_non_null(strstr(text, "w2\n"));
    assert_null(strstr(text, "i3"));
}

static void test_long_line(void **state) {
    (void)state;
    char text[8192];
    capture(NULL, log_long, text, sizeof text);
    size_t len = strlen(text);
    assert_true(len > 900 && len < 2000);
    assert_int_equal(text[len - 1], '\n');
    assert_ptr_equal(strchr(text, '\n'), text + len - 1);
}

static void test_lines(void **state) {
    (void)state;
    char text[8192];
    capture(NULL, log_lines, text, sizeof text);
    assert_string_equal(text, "ringcomm [rank 2] warning: one\n"
                              "ringcomm [rank 2] warning:   two\n"
                              "ringcomm [rank 2] warning: not ended\n");
}

/* stderr is a pipe without a reader, so SIGPIPE would kill the child. */
static void test_no_sigpipe(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        dup2(ends[1], STDERR_FILENO);
        rcmi_log(RCMI_LOG_ERROR, "not readable");
        _exit(7);
    }
    close(ends[1]);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

/* stderr is a file that may not grow, so SIGXFSZ would kill the child. */
static void test_no_sigxfsz(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        sigset_t pending;
        alarm(20);
        dup2(fileno(file), STDERR_FILENO);
        if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}) != 0)
            _exit(1);
        rcmi_log(RCMI_LOG_ERROR, "not writable");
        _exit(sigpending(&pending) == 0 && !sigismember(&pending, SIGXFSZ) ? 7 : 1);
    }
    fclose(file);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

static void log_cleaned(void) {
    rcmi_log(RCMI_LOG_ERROR, "rank 1 wrote %s", "\x1b[2J\nringcomm error: forged");
}

/* Quoted text cannot start a line of its own. */
static void test_cleaned(void **state) {
    char text[256];
    (void)state;
    capture("error", log_cleaned, text, sizeof text);
    assert_string_equal(text, "ringcomm error: rank 1 wrote ?[2J?ringcomm error: forged\n");
}

static void test_rate(void **state) {
    struct rcmi_log_rate rate = {.next_ns = 0};
    char more[RCMI_LOG_MORE];
    (void)state;
    assert_true(rcmi_log_rate_allows(&rate, more));
    assert_string_equal(more, "");
    rate.next_ns += INT64_C(3600) * 1000000000; /* so that the second does not pass meanwhile */
    for (int i = 0; i < 17; i++)
        assert_false(rcmi_log_rate_allows(&rate, more));
    rate.next_ns = 0;
    assert_true(rcmi_log_rate_allows(&rate, more));
    assert_string_equal(more, " (and 17 more)");
}

/* ---- The program's log function -------------------------------------------------------------- */

struct got {
    char text[2048];
    int lines, last_rank;
    bool stops, replaces;
    pthread_t thread;
    _Atomic bool inside;
};

static void got_line(void *arg, enum rcm_log_level level, int rank, const char *text) {
    struct got *got = arg;
    const size_t used = strlen(got->text);
    assert_false(atomic_exchange(&got->inside, true)); /* one call at a time */
    assert_null(strchr(text, '\n'));
    snprintf(got->text + used, sizeof got->text - used, "%d:%.100s|", (int)level, text);
    got->lines++;
    got->last_rank = rank;
    got->thread = pthread_self();
    if (got->stops)
        check_ok(rcm_log_set(NULL, NULL));
    if (got->replaces)
        rcmi_log(RCMI_LOG_ERROR, "from inside");
    atomic_store(&got->inside, false);
}

static void log_to_function(void) {
    struct got got = {.last_rank = 7};
    check_ok(rcm_log_set(got_line, &got));
    log_all_levels();
    log_lines();
    assert_string_equal(got.text, "0:e1|1:w2|1:one|1:  two|1:not ended|");
    assert_int_equal(got.last_rank, 2);
    assert_true(pthread_equal(got.thread, pthread_self()));
    check_ok(rcm_log_set(NULL, NULL));
    rcmi_log(RCMI_LOG_ERROR, "again");
    assert_int_equal(got.lines, 5);
}

static void log_levels_set(void) {
    struct got got = {.last_rank = 7};
    check_ok(rcm_log_set(got_line, &got));
    rcmi_log(RCMI_LOG_INFO, "no");
    check_ok(rcm_log_set_level(RCM_LOG_DEBUG));
    log_all_levels();
    assert_int_equal(got.last_rank, -1);
    check_ok(rcm_log_set_level(RCM_LOG_ERROR));
    log_all_levels();
    check_status(RCM_ERR_INVALID, rcm_log_set_level((enum rcm_log_level)4));
    check_error_names("level is 4");
    check_status(RCM_ERR_INVALID, rcm_log_set_level((enum rcm_log_level) - 1));
    log_all_levels();
    assert_string_equal(got.text, "0:e1|1:w2|2:i3|3:d4|0:e1|0:e1|");
}

static void log_from_inside(void) {
    struct got got = {.replaces = true};
    check_ok(rcm_log_set(got_line, &got));
    rcmi_log(RCMI_LOG_ERROR, "outside");
    got.replaces = false;
    got.stops = true;
    rcmi_log(RCMI_LOG_ERROR, "last");
    rcmi_log(RCMI_LOG_ERROR, "after");
    assert_string_equal(got.text, "0:outside|0:last|");
}

enum { THREADS = 4, EACH = 200 };

static void *log_many(void *arg) {
    (void)arg;
    for (int i = 0; i < EACH; i++)
        rcmi_log(RCMI_LOG_ERROR, "x");
    return NULL;
}

/* No line comes after the function is unset, and none is lost before. A forked child can log even
 * if a thread was inside the function. */
static void log_from_threads(void) {
    struct got got = {.lines = 0};
    pthread_t threads[THREADS];
    int status = -1;
    check_ok(rcm_log_set(got_line, &got));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < 20; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            atomic_store(&got.inside, false);
            got.text[0] = '\0';
            rcmi_log(RCMI_LOG_ERROR, "child");
            _exit(strcmp(got.text, "0:child|") == 0 ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(got.lines, THREADS * EACH);
    check_ok(rcm_log_set(NULL, NULL));
}

static void test_function(void **state) {
    char text[8192];
    (void)state;
    capture("warn", log_to_function, text, sizeof text);
    assert_string_equal(text, "ringcomm [rank 2] error: again\n");
    capture("error", log_levels_set, text, sizeof text);
    assert_string_equal(text, "");
    capture("error", log_from_inside, text, sizeof text);
    assert_string_equal(text, "ringcomm error: from inside\nringcomm error: after\n");
    capture("error", log_from_threads, text, sizeof text);
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),     cmocka_unit_test(test_unknown_level),
        cmocka_unit_test(test_long_line),  cmocka_unit_test(test_lines),
        cmocka_unit_test(test_no_sigpipe), cmocka_unit_test(test_no_sigxfsz),
        cmocka_unit_test(test_cleaned),    cmocka_unit_test(test_rate),
        cmocka_unit_test(test_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
