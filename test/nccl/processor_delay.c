/* SPDX-License-Identifier: BSD-3-Clause */
/* See processor_delay.h. */
#include "processor_delay.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic pid_t *pids; /* shared by the ranks' processes */

void delays_share(void) {
    if (!pids)
        pids = mmap(NULL, DELAY_PROCESSES * sizeof *pids, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pids == MAP_FAILED)
        abort();
    for (int i = 0; i < DELAY_PROCESSES; i++)
        pids[i] = 0;
}

void delays_join(int rank) {
    pids[rank] = getpid();
}

/* Opens a file about a thread; NULL: the thread has ended. */
static FILE *thread_open(pid_t pid, const char *thread, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/task/%s/%s", (int)pid, thread, name);
    return fopen(path, "r");
}

/* The second number of schedstat, in ns. */
static int64_t delay_ns(pid_t pid, const char *thread) {
    long long ran, delay = 0;
    FILE *file = thread_open(pid, thread, "schedstat");
    if (!file)
        return 0;
    if (fscanf(file, "%lld %lld", &ran, &delay) != 2)
        delay = 0;
    fclose(file);
    return delay;
}

static int64_t is_of_library(pid_t pid, const char *thread) {
    char name[32] = "";
    FILE *file = thread_open(pid, thread, "comm");
    if (!file)
        return 0;
    if (!fgets(name, sizeof name, file))
        name[0] = '\0';
    fclose(file);
    return strncmp(name, "ringcomm", 8) == 0;
}

static int64_t threads_sum(pid_t pid, int64_t (*of)(pid_t pid, const char *thread)) {
    char path[64];
    int64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            sum += of(pid, entry->d_name);
    if (folder)
        closedir(folder);
    return sum;
}

void delays_now(struct delays *ret) {
    *ret = (struct delays){{0}};
    if (!pids)
        ret->ms[0] = threads_sum(getpid(), delay_ns) / 1000000;
    for (int i = 0; pids && i < DELAY_PROCESSES; i++)
        if (pids[i])
            ret->ms[i] = threads_sum(pids[i], delay_ns) / 1000000;
}

int64_t limit_ms(int64_t ms, const struct delays *since) {
    struct delays now;
    int64_t delay = 0;
    delays_now(&now);
    for (int i = 0; i < DELAY_PROCESSES; i++)
        if (now.ms[i] > since->ms[i]) /* else threads have ended */
            delay += now.ms[i] - since->ms[i];
    return ms + (delay < DELAY_MOST_MS ? delay : DELAY_MOST_MS);
}

int library_threads(void) {
    return (int)threads_sum(getpid(), is_of_library);
}

bool library_threads_await(int n) {
    for (int i = 0; i < 600 && library_threads() > n; i++)
        usleep(100000);
    return library_threads() <= n;
}
