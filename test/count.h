/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process has, counted from /proc, to be compared with what it had before. */
#ifndef TEST_COUNT_H
#define TEST_COUNT_H

#include <dirent.h>
#include <stdbool.h>
#include <unistd.h>

static inline int count_entries(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* Threads there are more than `before`. A joined one is counted for a moment more: the joiner is
 * told before it is off the list. */
static inline int count_threads_more(int before) {
    for (int i = 0; i < 200 && count_entries("/proc/self/task") > before; i++)
        usleep(5000);
    return count_entries("/proc/self/task") - before;
}

#endif
