/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes, from /proc. */
#include "process.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "fd.h"

/* The beginning of a small file as text; "" if it cannot be read. */
static void file_text(const char *path, char *text, size_t cap) {
    int fd;
    ssize_t len = -1;
    do
        fd = rcmi_fd_high(open(path, O_RDONLY | O_CLOEXEC));
    while (fd < 0 && errno == EINTR);
    while (fd >= 0 && (len = read(fd, text, cap - 1)) < 0 && errno == EINTR)
        ;
    rcmi_fd_close(&fd);
    text[len > 0 ? len : 0] = '\0';
}

/* Are both starts known, on the same clock, and different? */
static bool starts_differ(const struct rcmi_process *a, const struct rcmi_process *b) {
    return a->start != b->start && a->start != 0 && b->start != 0 && a->time_ns == b->time_ns;
}

/* Does /proc show this process's PID namespace? If another namespace mounted it (unshare --pid
 * without --mount-proc, a container with the host's /proc), its numbers are other processes'. */
static bool proc_is_ours(void) {
    char text[16] = "";
    const ssize_t len = readlink("/proc/self", text, sizeof text - 1);
    return len > 0 && atoi(text) == (int)getpid();
}

static uint64_t namespace_of(const char *path) {
    struct stat ns;
    return stat(path, &ns) == 0 ? ns.st_ino : 0;
}

uint64_t rcmi_process_time_ns(void) {
    return namespace_of("/proc/self/ns/time");
}

/* State letter, parent and start of a process; false if unknown. */
static bool process_stat(int pid, char *ret_state, int *ret_parent, uint64_t *ret_start) {
    char path[40], text[1024];
    unsigned long long start;
    if (!proc_is_ours())
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file_text(path, text, sizeof text);
    const char *rest =
        strrchr(text, ')'); /* after the program's name, which may contain anything */
    if (!rest || sscanf(rest,
                        ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                        "%*s %llu",
                        ret_state, ret_parent, &start) != 3)
        return false;
    *ret_start = start;
    return true;
}

/* Makes the text one word of printable characters. */
static void text_clean(char *text) {
    if (!text[0])
        strcpy(text, "-");
    for (char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            *c = '?';
}

void rcmi_process_self(struct rcmi_process *ret_process) {
    struct rcmi_process p = {.pid = (int)getpid(), .parent = (int)getppid()};
    char state;
    int parent;
    (void)process_stat(p.pid, &state, &parent, &p.start);
    p.pid_ns = namespace_of("/proc/self/ns/pid");
    p.time_ns = rcmi_process_time_ns();
    file_text("/proc/sys/kernel/random/boot_id", p.boot, sizeof p.boot);
    p.boot[strcspn(p.boot, "\n")] = '\0';
    if (gethostname(p.host, sizeof p.host) != 0)
        p.host[0] = '\0';
    p.host[sizeof p.host - 1] = '\0';
    text_clean(p.boot);
    text_clean(p.host);
    *ret_process = p;
}

uint64_t rcmi_process_clock(void) {
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t rcmi_process_begun(const struct rcmi_process *process) {
    const uint64_t now = rcmi_process_clock();
    const uint64_t begun = (process->start + 1) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    return process->start != 0 && begun < now ? begun : now;
}

/* Do pids of the two refer to the same processes? A machine that was cloned while running differs
 * from the original only in the host name. */
static bool pids_are_comparable(const struct rcmi_process *a, const struct rcmi_process *b) {
    return a->pid_ns == b->pid_ns && a->pid_ns != 0 && strcmp(a->boot, b->boot) == 0 &&
           strcmp(a->boot, "-") != 0 && strcmp(a->host, b->host) == 0;
}

enum rcmi_process_state rcmi_process_look(const struct rcmi_process *process) {
    struct rcmi_process self, seen;
    char state = '?';
    rcmi_process_self(&self);
    if (!pids_are_comparable(process, &self))
        return RCMI_PROCESS_ELSEWHERE;
    if (process->pid == self.pid && !starts_differ(process, &self))
        return RCMI_PROCESS_SELF;
    if (process->pid < 1 || (kill(process->pid, 0) != 0 && errno == ESRCH))
        return RCMI_PROCESS_ENDED;
    seen = self; /* its start is read on this process's clock */
    if (!process_stat(process->pid, &state, &seen.parent, &seen.start))
        return RCMI_PROCESS_RUNS; /* presumably */
    if (starts_differ(&seen, process) || state == 'Z' || state == 'X')
        return RCMI_PROCESS_ENDED; /* the number was reused, or is a zombie */
    return state == 'T' || state == 't' ? RCMI_PROCESS_STOPPED : RCMI_PROCESS_RUNS;
}

static bool state_rests(char state) {
    return state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

bool rcmi_process_rests(int pid) {
    char path[40], state;
    int parent;
    uint64_t start;
    bool rests = true;
    const struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = rcmi_opendir(path);
    if (!dir)
        return kill(pid, 0) != 0 && errno == ESRCH;
    while (rests && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && process_stat(atoi(entry->d_name), &state, &parent, &start))
            rests = state_rests(state); /* an unreadable thread has ended */
    closedir(dir);
    return rests;
}

static bool has_capability(int bit) {
    char text[4096];
    file_text("/proc/self/status", text, sizeof text);
    const char *set = strstr(text, "CapEff:");
    return set && strtoull(set + strlen("CapEff:"), NULL, 16) >> bit & 1;
}

bool rcmi_process_reads_others(char *reason, size_t cap) {
    enum { CAPABILITY_PTRACE = 19 };
    char here = 1, there = 0, scope[8] = "0";
    const struct iovec to = {&there, 1}, from = {&here, 1};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1) {
        snprintf(reason, cap, "process_vm_readv fails: %s", strerror(errno));
        return false;
    }
    file_text("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
    if (scope[0] >= '1' && scope[0] <= '9' && !has_capability(CAPABILITY_PTRACE)) {
        snprintf(reason, cap, "kernel.yama.ptrace_scope is %c: processes may not read each other",
                 scope[0]);
        return false;
    }
    snprintf(reason, cap, "processes of one user may read each other's memory");
    return true;
}
