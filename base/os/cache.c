/* SPDX-License-Identifier: BSD-3-Clause */
/* Caches: see cpu.h. The files are described in the kernel's ABI/testing/sysfs-devices-system-cpu.
 */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fd.h"

#define CACHES_MAX 16 /* of one CPU; today's have four or five */

static const char *root = "";

void rcmi_cache_set_root(const char *prefix) {
    root = prefix;
}

/* The first line of a file of a cache, "" if it cannot be read. */
static void cache_read(int cpu, int cache, const char *name, char *line, size_t cap) {
    char path[256];
    const int n = snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/cache/index%d/%s",
                           root, cpu, cache, name);
    FILE *file = n > 0 && (size_t)n < sizeof path ? rcmi_fopen(path) : NULL;
    if (!file || !fgets(line, (int)cap, file))
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (file)
        (void)fclose(file);
}

/* A number of digits alone: strtoul also takes signs and spaces. */
static bool number_read(const char **text, unsigned long *ret_number) {
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    *ret_number = strtoul(*text, &end, 10);
    *text = end;
    return true;
}

/* "0-7,64-71" as a mask. CPUs beyond it are left out. False: the text is not such a list. */
static bool list_read(const char *text, uint8_t *mask, size_t bytes) {
    unsigned long first, last;
    do {
        if (!number_read(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!number_read(&text, &last) || last < first)
                return false;
        }
        for (unsigned long cpu = first; cpu <= last && cpu / 8 < bytes; cpu++)
            mask[cpu / 8] |= (uint8_t)(1u << cpu % 8);
    } while (*text == ',' && *++text);
    return *text == '\0';
}

static int cpu_first(const uint8_t *cpus, size_t bytes) {
    size_t byte = 0;
    while (byte < bytes && cpus[byte] == 0)
        byte++;
    return byte == bytes ? -1 : (int)byte * 8 + __builtin_ctz(cpus[byte]);
}

/* The number of the highest cache of a CPU that holds data; -1: none is described. */
static int cache_last(int cpu) {
    char level[16], type[32];
    int last = -1;
    long highest = 0;
    for (int cache = 0; cache < CACHES_MAX; cache++) {
        cache_read(cpu, cache, "level", level, sizeof level);
        cache_read(cpu, cache, "type", type, sizeof type);
        const long number = strtol(level, NULL, 10);
        if (strcmp(type, "Instruction") == 0 || number <= highest)
            continue;
        highest = number;
        last = cache;
    }
    return last;
}

bool rcmi_cache_sharers(const uint8_t *cpus, size_t bytes, uint8_t *ret_sharers) {
    const int cpu = cpu_first(cpus, bytes), cache = cpu < 0 ? -1 : cache_last(cpu);
    char list[4096] = "";
    memset(ret_sharers, 0, bytes);
    if (cache >= 0)
        cache_read(cpu, cache, "shared_cpu_list", list, sizeof list);
    if (list[0] && list_read(list, ret_sharers, bytes))
        return true;
    memset(ret_sharers, 0, bytes);
    return false;
}
