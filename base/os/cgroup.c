/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of control groups: see cgroup.h. A limit that cannot be read counts as none. */
#include "cgroup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "fd.h"

#define PATH_CAP 4096

static const char *root = "";

void rcmi_cgroup_set_root(const char *prefix) {
    root = prefix;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static FILE *file_open(const char *path) {
    char text[2 * PATH_CAP];
    const int n = snprintf(text, sizeof text, "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof text ? rcmi_fopen(text) : NULL;
}

/* A number in a file of a group's folder, or after a key at the start of a line. `none` if it is
 * missing, "max" or negative: no limit. */
static uint64_t file_number(const char *folder, const char *name, const char *key, uint64_t none) {
    char path[PATH_CAP + 64], word[64], value[32];
    uint64_t number = none;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = file_open(path);
    bool found = false;
    while (file && !found) {
        if (key && fscanf(file, "%63s", word) != 1)
            break;
        if (fscanf(file, "%31s", value) != 1)
            break;
        found = !key || strcmp(word, key) == 0;
    }
    if (found && value[0] >= '0' && value[0] <= '9')
        number = strtoull(value, NULL, 10);
    if (file)
        (void)fclose(file);
    return number;
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* The folder with the files of a group: the mount point, and the group's path below it. */
struct folder {
    char path[PATH_CAP];
    size_t mount; /* length of the mount's path */
    bool second;  /* cgroup version 2 */
};

static bool list_has(const char *list, const char *word) {
    const size_t len = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

/* The group of this process with the controller; with "", the group of version 2. */
static bool group_find(const char *controller, char *ret_path, size_t cap) {
    FILE *file = file_open("/proc/self/cgroup");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (file && !found && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        found = controller[0] ? list_has(list + 1, controller) : list[1] == '\0';
        if (found)
            found = snprintf(ret_path, cap, "%s", path) < (int)cap;
    }
    free(line);
    if (file)
        (void)fclose(file);
    return found;
}

/* Parses a line of /proc/self/mountinfo: is it a mount of groups with that controller? */
static bool mount_read(const char *line, const char *controller, char *ret_mounted,
                       char *ret_point) {
    char type[32], options[1024];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %2047s %2047s", ret_mounted, ret_point) != 2 ||
        sscanf(rest, " - %31s %*s %1023s", type, options) != 2)
        return false;
    return controller[0] ? strcmp(type, "cgroup") == 0 && list_has(options, controller)
                         : strcmp(type, "cgroup2") == 0;
}

/* Finds the folder of a group. A mount may show only a part of the tree, as in containers. */
static bool folder_find(const char *controller, struct folder *folder) {
    char group[PATH_CAP / 2], mounted[PATH_CAP / 2], point[PATH_CAP / 2];
    FILE *file =
        group_find(controller, group, sizeof group) ? file_open("/proc/self/mountinfo") : NULL;
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (file && !found && getline(&line, &room, file) > 0)
        found = mount_read(line, controller, mounted, point);
    free(line);
    if (file)
        (void)fclose(file);
    if (!found)
        return false;
    const size_t len = strcmp(mounted, "/") == 0 ? 0 : strlen(mounted);
    const bool below = strncmp(group, mounted, len) == 0 && (group[len] == '/' || !group[len]);
    folder->second = controller[0] == '\0';
    folder->mount = strlen(point);
    snprintf(folder->path, sizeof folder->path, "%s%s", point,
             below && strcmp(group + len, "/") != 0 && !strstr(group, "/..") ? group + len : "");
    return true;
}

static bool folder_up(struct folder *folder) {
    char *slash = strrchr(folder->path, '/');
    if (!slash || (size_t)(slash - folder->path) < folder->mount)
        return false;
    *slash = '\0';
    return true;
}

/* Visits the groups with a controller from the innermost outwards. A controller belongs to version
 * 1, or to version 2, whose controllers share one tree. */
static void folders_visit(const char *controller,
                          void (*visit)(const struct folder *folder, void *arg), void *arg) {
    const char *names[] = {controller, ""};
    for (int i = 0; i < 2; i++) {
        struct folder folder;
        if (!folder_find(names[i], &folder))
            continue;
        do {
            visit(&folder, arg);
        } while (folder_up(&folder));
    }
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

/* 0: no limit. */
static double folder_cpus(const struct folder *folder, const char *name) {
    char path[PATH_CAP + 64], quota[32] = "";
    unsigned long long period = 0;
    if (!folder->second) {
        period = file_number(folder->path, "cpu.cfs_period_us", NULL, 0);
        const uint64_t us = file_number(folder->path, name, NULL, 0);
        return period > 0 ? (double)us / (double)period : 0;
    }
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    FILE *file = file_open(path);
    const bool limited =
        file && fscanf(file, "%31s %llu", quota, &period) == 2 && period > 0 && quota[0] != 'm';
    if (file)
        (void)fclose(file);
    return limited ? (double)strtoull(quota, NULL, 10) / (double)period : 0;
}

/* The group's inode number, which is the same in all namespaces. */
static uint64_t folder_number(const struct folder *folder) {
    char path[2 * PATH_CAP];
    struct stat info;
    const int n = snprintf(path, sizeof path, "%s%s", root, folder->path);
    if (n < 0 || (size_t)n >= sizeof path || stat(path, &info) != 0)
        return 0;
    const uint64_t number = (uint64_t)info.st_dev << 40 ^ (uint64_t)info.st_ino;
    return number ? number : 1;
}

static void visit_cpus(const struct folder *folder, void *arg) {
    struct rcmi_cgroup_cpus *least = arg;
    const char *name = folder->second ? "cpu.max" : "cpu.cfs_quota_us";
    const double cpus = folder_cpus(folder, name);
    if (cpus <= 0 || (least->cpus > 0 && cpus > least->cpus))
        return;
    least->cpus = cpus;
    least->group = folder_number(folder);
    snprintf(least->file, sizeof least->file, "%.200s/%s", folder->path, name);
}

void rcmi_cgroup_cpus(struct rcmi_cgroup_cpus *ret_cpus) {
    *ret_cpus = (struct rcmi_cgroup_cpus){.cpus = 0};
    folders_visit("cpu", visit_cpus, ret_cpus);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

struct least {
    struct rcmi_cgroup_memory *memory;
    uint64_t swap_free;
};

static uint64_t minus(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Applies one limit of a group: the limit minus what is used, plus what can be freed or swapped. */
static void limit_count(const struct least *least, const struct folder *folder, const char *name,
                        uint64_t used, uint64_t more) {
    const uint64_t limit = file_number(folder->path, name, NULL, UINT64_MAX);
    struct rcmi_cgroup_memory *memory = least->memory;
    /* Version 1 expresses "no limit" as a number above all memory. */
    if (limit >= UINT64_MAX >> 2)
        return;
    const uint64_t room = minus(plus(limit, more), used);
    if (room >= memory->room)
        return;
    memory->room = room;
    memory->limit = limit;
    snprintf(memory->file, sizeof memory->file, "%.200s/%s", folder->path, name);
}

/* Bytes of file pages, which can be dropped. */
static uint64_t folder_caches(const struct folder *folder) {
    const char *names[2][2] = {{"total_inactive_file", "total_active_file"},
                               {"inactive_file", "active_file"}};
    return plus(file_number(folder->path, "memory.stat", names[folder->second][0], 0),
                file_number(folder->path, "memory.stat", names[folder->second][1], 0));
}

static void visit_memory(const struct folder *folder, void *arg) {
    const struct least *least = arg;
    const char *of = folder->path;
    const uint64_t caches = folder_caches(folder);
    if (!folder->second) {
        const uint64_t used = file_number(of, "memory.usage_in_bytes", NULL, 0);
        const uint64_t both = file_number(of, "memory.memsw.usage_in_bytes", NULL, used);
        limit_count(least, folder, "memory.limit_in_bytes", used, plus(caches, least->swap_free));
        limit_count(least, folder, "memory.memsw.limit_in_bytes", both, caches);
        return;
    }
    const uint64_t used = file_number(of, "memory.current", NULL, 0);
    const uint64_t swapped = file_number(of, "memory.swap.current", NULL, 0);
    uint64_t swap = minus(file_number(of, "memory.swap.max", NULL, UINT64_MAX), swapped);
    swap = swap < least->swap_free ? swap : least->swap_free;
    limit_count(least, folder, "memory.max", used, plus(caches, swap));
    limit_count(least, folder, "memory.high", used, plus(caches, swap));
}

void rcmi_cgroup_memory(uint64_t swap_free, struct rcmi_cgroup_memory *ret_memory) {
    *ret_memory = (struct rcmi_cgroup_memory){.limit = UINT64_MAX, .room = UINT64_MAX};
    struct least least = {.memory = ret_memory, .swap_free = swap_free};
    folders_visit("memory", visit_memory, &least);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void visit_tasks(const struct folder *folder, void *arg) {
    struct rcmi_cgroup_tasks *full = arg;
    const uint64_t limit = file_number(folder->path, "pids.max", NULL, UINT64_MAX);
    if (full->file[0] || file_number(folder->path, "pids.current", NULL, 0) < limit)
        return;
    full->limit = limit;
    snprintf(full->file, sizeof full->file, "%.200s/pids.max", folder->path);
}

void rcmi_cgroup_tasks(struct rcmi_cgroup_tasks *ret_tasks) {
    *ret_tasks = (struct rcmi_cgroup_tasks){.limit = UINT64_MAX};
    folders_visit("pids", visit_tasks, ret_tasks);
}
