/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts entries of folders such as /proc/self/fd, to compare with an earlier count. */
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

/* Threads in excess of `before`. A joined thread stays in the list for a moment, so this waits for
 * up to 1 s. */
static inline int count_threads_more(int before) {
    for (int i = 0; i < 200 && count_entries("/proc/self/task") > before; i++)
        usleep(5000);
    return count_entries("/proc/self/task") - before;
}

#endif
