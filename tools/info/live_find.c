/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds status pages in /proc; see live.h. */
#include "live.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../common.h"
#include "transport.h"

struct found {
    struct live_rank *ranks;
    size_t n, capacity;
    bool out_of_memory;
};

/* ---- Small files of /proc -------------------------------------------------------------------- */

static bool proc_read(int pid, const char *name, char *text, size_t cap) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t len = fd >= 0 ? read(fd, text, cap - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len > 0;
}

/* The process's name, with unprintable characters replaced: a process can set any name. */
static void proc_program(int pid, char *text, size_t cap) {
    if (!proc_read(pid, "comm", text, cap))
        snprintf(text, cap, "?");
    text[strcspn(text, "\n")] = '\0';
    for (char *c = text; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
}

static bool proc_is_stopped(int pid) {
    char text[512];
    const char *end = proc_read(pid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
    return end && strlen(end) > 2 && (end[2] == 'T' || end[2] == 't');
}

/* The pid in the process's own namespace: the last number of "NSpid:  4711  12". */
static int proc_inner_pid(int pid) {
    char text[4096];
    const char *line =
        proc_read(pid, "status", text, sizeof(text)) ? strstr(text, "\nNSpid:") : NULL;
    int inner = pid, used;
    for (line = line ? line + 7 : NULL; line && sscanf(line, "%*[ \t]%d%n", &inner, &used) == 1;)
        line += used;
    return inner;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Whether it is a memory file that cannot shrink and is large enough for a page. */
static bool file_is_right(int fd, struct stat *info) {
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, info) == 0 &&
           S_ISREG(info->st_mode) && info->st_size >= RCMI_STATUS_PAGE_AT + RCMI_STATUS_PAGE_BYTES;
}

static bool page_read(int fds, const char *name, struct rcmi_status_page *page,
                      struct live_rank *rank) {
    struct stat info;
    /* The name may lead to any file: opening it must not block or have side effects. */
    const int fd = openat(fds, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    const bool right = file_is_right(fd, &info) &&
                       pread(fd, page, sizeof(*page), RCMI_STATUS_PAGE_AT) == sizeof(*page) &&
                       rcmi_page_read(page, &rank->owner);
    close(fd);
    rank->dev = right ? info.st_dev : 0;
    rank->ino = right ? info.st_ino : 0;
    return right;
}

/* Adds the rank. If two processes hold the same file open, its owner is kept. */
static void found_add(struct found *found, const struct live_rank *rank) {
    for (size_t i = 0; i < found->n; i++) {
        struct live_rank *other = &found->ranks[i];
        if (other->dev != rank->dev || other->ino != rank->ino ||
            other->label.epoch != rank->label.epoch)
            continue;
        if (rank->own && !other->own)
            *other = *rank;
        return;
    }
    if (found->n == found->capacity) {
        const size_t capacity = found->capacity ? 2 * found->capacity : 64;
        void *more = realloc(found->ranks, capacity * sizeof(*found->ranks));
        found->out_of_memory |= !more;
        if (!more)
            return;
        found->ranks = more;
        found->capacity = capacity;
    }
    found->ranks[found->n++] = *rank;
}

static bool name_is_ours(int fds, const char *name) {
    char target[64];
    const ssize_t len = readlinkat(fds, name, target, sizeof(target) - 1);
    target[len > 0 ? len : 0] = '\0';
    return strcmp(target, "/memfd:" RCMI_STATUS_FILE " (deleted)") == 0;
}

/* Adds a rank entry per communicator. */
static void found_add_comms(struct found *found, const struct rcmi_status_page *page,
                            struct live_rank *rank) {
    const int64_t now_ns = tool_now_ns();
    for (int i = 0; i < RCMI_PAGE_COMMS; i++)
        if (rcmi_page_read_comm(page, i, now_ns, &rank->label, &rank->activity)) {
            rcmi_page_read_traffic(page, i, &rank->traffic);
            found_add(found, rank);
        }
}

/* False if the process cannot be inspected. */
static bool process_scan(int pid, struct found *found) {
    struct live_rank rank = {.pid = pid};
    struct rcmi_status_page page;
    char path[64];
    int inner = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (!name_is_ours(dirfd(dir), entry->d_name) ||
            !page_read(dirfd(dir), entry->d_name, &page, &rank))
            continue;
        if (inner == 0) {
            inner = proc_inner_pid(pid);
            rank.stopped = proc_is_stopped(pid);
            proc_program(pid, rank.program, sizeof(rank.program));
        }
        rank.own = rank.owner.pid == inner;
        found_add_comms(found, &page, &rank);
    }
    closedir(dir);
    return true;
}

static int rank_compare(const void *x, const void *y) {
    const struct live_rank *a = x, *b = y;
    if (a->owner.job != b->owner.job)
        return a->owner.job < b->owner.job ? -1 : 1;
    if (a->label.epoch != b->label.epoch)
        return a->label.epoch < b->label.epoch ? -1 : 1;
    if (a->label.rank != b->label.rank)
        return a->label.rank < b->label.rank ? -1 : 1;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

bool live_find(int pid, struct live_rank **ret_ranks, size_t *ret_n, bool *ret_readable) {
    struct found found = {0};
    bool readable = false;
    DIR *proc = opendir("/proc");
    if (!proc) {
        tool_error("/proc: %s", strerror(errno));
        return false;
    }
    for (const struct dirent *entry; (entry = readdir(proc));) {
        int64_t number;
        if (!tool_parse_int(entry->d_name, 1, INT32_MAX, &number))
            continue;
        const bool looked = process_scan((int)number, &found);
        readable |= looked && (int)number == pid;
    }
    closedir(proc);
    if (found.out_of_memory) {
        tool_error("no memory for %zu ranks", found.n);
        free(found.ranks);
        return false;
    }
    if (found.n > 0)
        qsort(found.ranks, found.n, sizeof(*found.ranks), rank_compare);
    *ret_ranks = found.ranks;
    *ret_n = found.n;
    *ret_readable = readable;
    return true;
}
