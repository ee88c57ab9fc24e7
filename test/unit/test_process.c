/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of another process whose clocks, pids or /proc belong to other namespaces. A living
 * process is never reported as ended. An ended process is reported as ended where that can be
 * determined. Needs root; exit status 77 without.
 */
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/* Works in children too, which must not use cmocka's exit path. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define CHECK_EQ(a, b) CHECK((a) == (b))

/* A child's results, in shared memory. */
struct found {
    struct rcmi_process self;
    enum rcmi_process_state state, own;
    _Atomic int ready, go_on;
};
static struct found *found;

static bool write_text(const char *path, const char *text) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

/* Runs fn in a child and returns when it has results. The child stays alive until child_end. */
static int child_begin(void (*fn)(void *arg), void *arg) {
    found->ready = found->go_on = 0;
    const int child = fork();
    if (child == 0) {
        fn(arg);
        found->ready = 1;
        for (int i = 0; i < 20000 && !found->go_on; i++)
            usleep(1000);
        _exit(0);
    }
    for (int i = 0; i < 20000 && !found->ready; i++)
        usleep(1000);
    CHECK(found->ready);
    return child;
}

static void child_end(int child) {
    int status = -1;
    found->go_on = 1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

/* Runs the test in a process of its own with its own namespaces. */
static void apart(void (*fn)(void)) {
    int status;
    const int child = fork();
    if (child == 0) {
        fn();
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void look_back(void *other) {
    rcmi_process_self(&found->self);
    found->state = rcmi_process_look(other);
    found->own = rcmi_process_look(&found->self);
}

/* ---- Time ----------------------------------------------------------------------------------- */

static bool shift_clocks(void) {
    return unshare(CLONE_NEWTIME) == 0 &&
           write_text("/proc/self/timens_offsets", "monotonic 100000 0\nboottime 200000 0\n");
}

static void time_differs(void) {
    struct rcmi_process self;
    if (!shift_clocks()) {
        puts("no time namespaces here");
        return;
    }
    rcmi_process_self(&self);
    const int child = child_begin(look_back, &self);
    CHECK(self.time_ns != 0 && found->self.time_ns != self.time_ns);
    CHECK(found->self.start != 0 && self.start != 0);
    CHECK_EQ(found->state, RCMI_PROCESS_RUNS);
    CHECK_EQ(found->own, RCMI_PROCESS_SELF);
    CHECK_EQ(rcmi_process_look(&found->self), RCMI_PROCESS_RUNS);
    child_end(child);
    CHECK_EQ(rcmi_process_look(&found->self), RCMI_PROCESS_ENDED);
}

static void test_time(void) {
    apart(time_differs);
}

/* A reused pid with another start time is another process. */
static void test_number_again(void) {
    struct rcmi_process other;
    const int child = child_begin(look_back, &(struct rcmi_process){.pid = 1});
    other = found->self;
    CHECK_EQ(rcmi_process_look(&other), RCMI_PROCESS_RUNS);
    other.start++;
    CHECK_EQ(rcmi_process_look(&other), RCMI_PROCESS_ENDED);
    child_end(child);
}

/* ---- Pids ------------------------------------------------------------------------------------ */

static void look_from_second(void *arg) {
    struct rcmi_process first = *(struct rcmi_process *)arg;
    first.start = 12345; /* as reported with a /proc of its own */
    look_back(&first);
}

/* Process 1 of a namespace with another namespace's /proc, which shows another process 1. */
static void first_with_other_proc(void *arg) {
    struct rcmi_process first;
    (void)arg;
    rcmi_process_self(&first);
    CHECK_EQ(first.pid, 1);
    CHECK_EQ(first.start, 0); /* not the start time of the other process 1 */
    CHECK_EQ(rcmi_process_look(&first), RCMI_PROCESS_SELF);
    struct found *outer = found;
    found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const int child = child_begin(look_from_second, &first);
    CHECK_EQ(found->state, RCMI_PROCESS_RUNS);
    child_end(child);
    outer->state = found->state;
    found = outer;
}

static void proc_of_another(void) {
    CHECK_EQ(unshare(CLONE_NEWPID), 0);
    const int child = child_begin(first_with_other_proc, NULL);
    CHECK_EQ(found->state, RCMI_PROCESS_RUNS);
    child_end(child);
}

static void test_proc_of_another(void) {
    apart(proc_of_another);
}

static void hide_others(void *other) {
    CHECK_EQ(unshare(CLONE_NEWNS), 0);
    CHECK_EQ(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_EQ(mount("proc", "/proc", "proc", 0, "hidepid=2"), 0);
    CHECK(setgid(54321) == 0 && setuid(54321) == 0);
    CHECK_EQ(access("/proc/1", F_OK), -1);
    look_back(other);
}

/* Processes of other users are hidden in /proc. */
static void test_hidden(void) {
    struct rcmi_process self;
    rcmi_process_self(&self);
    const int child = child_begin(hide_others, &self);
    CHECK_EQ(found->state, RCMI_PROCESS_RUNS);
    CHECK_EQ(rcmi_process_look(&found->self), RCMI_PROCESS_RUNS);
    child_end(child);
}

/* ---- Machines ------------------------------------------------------------------------------- */

/* A machine that was cloned while running has the same boot id and namespaces as the original. */
static void test_cloned_machine(void) {
    struct rcmi_process other;
    rcmi_process_self(&other);
    other.pid = 0x3fffffff; /* no such process */
    CHECK_EQ(rcmi_process_look(&other), RCMI_PROCESS_ENDED);
    snprintf(other.host, sizeof(other.host), "clone");
    CHECK_EQ(rcmi_process_look(&other), RCMI_PROCESS_ELSEWHERE);
}

int main(void) {
    if (geteuid() != 0) {
        puts("skipped: namespaces need root");
        return 77;
    }
    found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(found != MAP_FAILED);
    test_time();
    test_number_again();
    test_proc_of_another();
    test_hidden();
    test_cloned_machine();
    return 0;
}
