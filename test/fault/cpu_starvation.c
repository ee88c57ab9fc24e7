/* SPDX-License-Identifier: BSD-3-Clause */
/* See cpu_starvation.h. */
#include "cpu_starvation.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void add_thread(struct strain *strain, const char *folder, const char *thread) {
    char path[400];
    int64_t ran, queued;
    snprintf(path, sizeof(path), "%s/%s/schedstat", folder, thread);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%" SCNd64 " %" SCNd64, &ran, &queued) == 2) {
        strain->ran_ns += ran;
        strain->queued_ns += queued;
    }
    if (file)
        fclose(file);
}

int64_t strain_stolen_ns(void) {
    long long ticks = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (file && fscanf(file, "cpu %*d %*d %*d %*d %*d %*d %*d %lld", &ticks) != 1)
        ticks = 0;
    if (file)
        fclose(file);
    return ticks * (INT64_C(1000000000) / sysconf(_SC_CLK_TCK));
}

void strain_add(struct strain *strain, pid_t pid) {
    char folder[64];
    struct dirent *entry;
    strain->at_ns = clock_ns();
    strain->stolen_ns = strain_stolen_ns();
    snprintf(folder, sizeof(folder), "/proc/%d/task", (int)(pid ? pid : getpid()));
    DIR *dir = opendir(folder);
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            add_thread(strain, folder, entry->d_name);
    if (dir)
        closedir(dir);
}

void strain_add_thread(struct strain *strain) {
    strain->at_ns = clock_ns();
    strain->stolen_ns = strain_stolen_ns();
    add_thread(strain, "/proc", "thread-self");
}

void strain_sum(struct strain *sum, const struct strain *one) {
    sum->ran_ns += one->ran_ns;
    sum->queued_ns += one->queued_ns;
    if (sum->at_ns < one->at_ns)
        sum->at_ns = one->at_ns;
    if (sum->stolen_ns < one->stolen_ns)
        sum->stolen_ns = one->stolen_ns;
}

int64_t strain_excuse(const struct strain *before, const struct strain *after) {
    const int64_t all_ns = (after->at_ns - before->at_ns) * sysconf(_SC_NPROCESSORS_ONLN);
    const int64_t ran_ns = after->ran_ns - before->ran_ns;
    const int64_t queued_ns = after->queued_ns - before->queued_ns;
    const int64_t stolen_ns = after->stolen_ns - before->stolen_ns;
    return (queued_ns > 0 && ran_ns < all_ns / 2 ? queued_ns : 0) + stolen_ns;
}
