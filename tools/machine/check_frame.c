/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs tests in child processes; see check_frame.h. */
#include "check_frame.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check_machine.h"
#include "../common.h"
#include "../launched.h"
#include "../report.h"
#include "ringcomm.h"

/* One finding; sent by one write, which is atomic on a pipe. */
struct check_record {
    bool mend;
    char of[64], name[64];
    char text[CHECK_SENTENCE];
};

struct check_out {
    int fd;
};

/* State of the parent. */
struct check_state {
    struct report *report; /* NULL: this rank prints no rows */
    int rank;
    const char *device; /* NULL: all */
    bool first_failed;  /* a CHECK_FIRST test */
    char mend[CHECK_SENTENCE];
};
static struct check_state state;

static const struct report_column columns[] = {
    {"test", -10}, {"of", -12}, {"name", -22}, {"value", -12}, {"text", 0},
};

/* ---- The child ----------------------------------------------------------------------------- */

static void record_send(struct check_out *out, const struct check_record *record) {
    while (write(out->fd, record, sizeof(*record)) < 0 && errno == EINTR)
        ;
}

void check_fact(struct check_out *out, const char *of, const char *name, const char *format, ...) {
    struct check_record record = {.mend = false};
    va_list args;
    va_start(args, format);
    vsnprintf(record.text, sizeof(record.text), format, args);
    va_end(args);
    snprintf(record.of, sizeof(record.of), "%s", of);
    snprintf(record.name, sizeof(record.name), "%s", name);
    record_send(out, &record);
}

void check_mend(struct check_out *out, const char *of, const char *format, ...) {
    struct check_record record = {.mend = true, .name = "mend"};
    va_list args;
    va_start(args, format);
    vsnprintf(record.text, sizeof(record.text), format, args);
    va_end(args);
    snprintf(record.of, sizeof(record.of), "%s", of);
    record_send(out, &record);
}

const char *check_first_mend(void) {
    return state.mend;
}

const char *check_device(void) {
    return state.device;
}

static void child_run(const struct check_test *test, int fd) {
    struct check_out out = {.fd = fd};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* a driver's output must not mix with the rows */
    test->run(&out);
    fflush(stdout);
    _exit(0);
}

/* ---- The parent ---------------------------------------------------------------------------- */

static void show(const char *test, const char *of, const char *name, const char *value,
                 const char *text) {
    const struct report_cell cells[] = {
        report_text(test),
        *of ? report_text(of) : report_missing(),
        report_text(name),
        value ? report_text(value) : report_missing(),
        text ? report_text(text) : report_missing(),
    };
    if (state.report)
        report_row(state.report, cells);
}

/* Reports a problem. Ranks without rows print it to stderr: without a test of jobs, rank 0 does not
 * get it. */
static void mend(const char *test, const char *of, const char *sentence) {
    show(test, of, "mend", NULL, sentence);
    if (!state.report)
        tool_error("rank %d: %s", state.rank, sentence);
    if (!state.mend[0])
        snprintf(state.mend, sizeof(state.mend), "%s", sentence);
}

/* Receives the next finding until that time. False: the child has closed its end of the pipe, or
 * the time has passed (*late). */
static bool record_take(int fd, int64_t until_ns, struct check_record *record, bool *late) {
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    const int64_t left = until_ns - tool_now_ns();
    *late = left <= 0 || poll(&readable, 1, (int)(left / 1000000) + 1) == 0;
    if (*late)
        return false;
    ssize_t n;
    while ((n = read(fd, record, sizeof(*record))) < 0 && errno == EINTR)
        ;
    return n == (ssize_t)sizeof(*record);
}

/* Waits for a child that has closed its pipe or was killed; false: it hangs in a driver. */
static bool child_reap(pid_t pid, int *ret_status) {
    for (int tries = 0; tries < 200; tries++) {
        const pid_t got = waitpid(pid, ret_status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR))
            return got == pid;
        usleep(10000);
    }
    kill(pid, SIGKILL);
    return waitpid(pid, ret_status, WNOHANG) == pid;
}

/* How the child ended, as the value of a row; NULL: normally. sentence: the problem, if any. */
static const char *child_outcome(const struct check_test *test, pid_t pid, bool late,
                                 char sentence[CHECK_SENTENCE]) {
    int status = 0;
    sentence[0] = '\0';
    if (late)
        kill(pid, SIGKILL);
    const bool ended = child_reap(pid, &status);
    if (late || !ended) {
        snprintf(sentence, CHECK_SENTENCE, "the test '%s' did not end within %d s%s", test->name,
                 test->seconds, ended ? "" : ", and cannot be killed: it hangs in a driver");
        return "hung";
    }
    if (WIFSIGNALED(status))
        snprintf(sentence, CHECK_SENTENCE, "the test '%s' crashed: %s", test->name,
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        snprintf(sentence, CHECK_SENTENCE, "the test '%s' ended with exit status %d", test->name,
                 WEXITSTATUS(status));
    return sentence[0] ? "crashed" : NULL;
}

/* Prints findings until the child's end. True: there was a problem. */
static bool findings_take(const struct check_test *test, int fd, bool *late) {
    const int64_t until = tool_now_ns() + test->seconds * INT64_C(1000000000);
    struct check_record record = {.mend = false};
    bool any = false;
    while (record_take(fd, until, &record, late)) {
        record.of[sizeof(record.of) - 1] = record.name[sizeof(record.name) - 1] = '\0';
        record.text[sizeof(record.text) - 1] = '\0';
        if (record.mend)
            mend(test->name, record.of, record.text);
        else
            show(test->name, record.of, record.name, record.text, NULL);
        any = any || record.mend;
    }
    return any;
}

static void test_end(const struct check_test *test, int fd, pid_t pid) {
    const int64_t began = tool_now_ns();
    char sentence[CHECK_SENTENCE], took[32];
    bool late = false;
    const bool mends = findings_take(test, fd, &late);
    const char *outcome = child_outcome(test, pid, late, sentence);
    if (sentence[0])
        mend(test->name, "", sentence);
    snprintf(took, sizeof(took), "%.2f s", (double)(tool_now_ns() - began) / 1e9);
    show(test->name, "", "result", outcome ? outcome : mends ? "mend" : "ok", took);
    if (test->when == CHECK_FIRST)
        state.first_failed = state.first_failed || mends || outcome;
}

static void test_run(const struct check_test *test) {
    int fds[2];
    fflush(NULL); /* else the child would write buffered output again */
    const pid_t pid = pipe(fds) == 0 ? fork() : -1;
    if (pid == 0) {
        close(fds[0]);
        child_run(test, fds[1]);
    }
    if (pid < 0) {
        mend(test->name, "", "cannot start a process for a test");
        return;
    }
    close(fds[1]);
    test_end(test, fds[0], pid);
    close(fds[0]);
}

static bool test_left_out(const struct check_test *test, int nranks) {
    return test->when == CHECK_OF_JOBS ? nranks < 2 : state.first_failed;
}

int check_run(const struct check *check, const char *device, const char *csv, const char *json) {
    int nranks;
    state.device = device;
    launched_job(&state.rank, &nranks);
    if (state.rank == 0 &&
        !report_open(columns, sizeof(columns) / sizeof(columns[0]), csv, json, &state.report))
        return TOOL_FAILED;
    if (state.report)
        check_machine(state.report, check->name, nranks);
    for (const struct check_test *test = check->tests; test->name; test++)
        if (test_left_out(test, nranks))
            show(test->name, "", "result", "left out", NULL);
        else
            test_run(test);
    report_last(state.report, "verdict", state.mend[0] ? state.mend : "OK");
    const bool written = report_close(state.report);
    /* Only rank 0 fails: a launcher may stop all ranks when one fails, and rank 0 must finish. */
    return state.rank > 0 || (written && !state.mend[0]) ? TOOL_OK : TOOL_FAILED;
}
