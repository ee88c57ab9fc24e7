/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bind.c: see bind.h. A core is the CPUs that /sys lists as siblings of one another; where /sys is
 * silent (a container without it), each CPU counts as a core.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind.h"

/* "0-1,64" -> set. Leaves it empty when the text is something else. */
static void parse_cpu_list(const char *text, cpu_set_t *ret_set) {
    CPU_ZERO(ret_set);
    while (*text >= '0' && *text <= '9') {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET((size_t)cpu, ret_set);
        text = *end == ',' ? end + 1 : end;
    }
}

static void core_of(int cpu, cpu_set_t *ret_set) {
    char path[96], text[256] = "";
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
             cpu);
    FILE *file = fopen(path, "re");
    if (file) {
        if (!fgets(text, sizeof(text), file))
            text[0] = '\0';
        fclose(file);
    }
    parse_cpu_list(text, ret_set);
    CPU_SET((size_t)cpu, ret_set);
}

int run_cores(cpu_set_t *sets, int max) {
    cpu_set_t left, core;
    int n = 0;
    if (sched_getaffinity(0, sizeof(left), &left) != 0)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE && n < max; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &left))
            continue;
        core_of(cpu, &core);
        CPU_AND(&sets[n], &core, &left);
        CPU_XOR(&left, &left, &sets[n]);
        n++;
    }
    return n;
}
