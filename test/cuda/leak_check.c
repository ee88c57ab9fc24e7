/* SPDX-License-Identifier: BSD-3-Clause */
/* See leak_check.h. */
#include "leak_check.h"
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "ranks.h"

int count_open_files(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static bool thread_is_ours(const char *id) {
    char path[300], name[20] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", id);
    FILE *file = fopen(path, "re");
    if (file && !fgets(name, sizeof name, file))
        name[0] = '\0';
    if (file)
        fclose(file);
    return strncmp(name, "ringcomm", 8) == 0;
}

/* Counts the library's threads. Threads of the emulator inherit their creator's name. */
static int threads(void) {
    const struct dirent *entry;
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    while (dir && (entry = readdir(dir)))
        n += thread_is_ours(entry->d_name);
    if (dir)
        closedir(dir);
    return n;
}

int leak_check(int files_before) {
    int errors = 0;
    for (int i = 0; i < 5000 && (count_open_files() > files_before || threads() > 0); i++)
        usleep(1000); /* a joined thread stays visible for a moment */
    CHECK(errors, count_open_files() <= files_before, "%d files are open, %d were",
          count_open_files(), files_before);
    CHECK(errors, threads() == 0, "%d threads run", threads());
    return errors;
}
