/* SPDX-License-Identifier: BSD-3-Clause */
#include "locality.h"
#include "fd.h"
#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES         "/sys/devices/system/node"
#define NODE_DISTANCE 10 /* of a node from itself */

/* ---- How far --------------------------------------------------------------------------------- */

/* Number of leading path components that are equal. */
static int names_shared(const char *a, const char *b) {
    int n = 0;
    for (size_t i = 0;; i++) {
        const bool end_a = a[i] == '\0' || a[i] == '/', end_b = b[i] == '\0' || b[i] == '/';
        if (end_a && end_b)
            n++;
        if (a[i] != b[i] || a[i] == '\0')
            return n;
    }
}

uint8_t verbs_distance(const struct verbs_place *rank, const struct verbs_place *port, int nodes) {
    const int shared = rank->pci[0] && port->pci[0] ? names_shared(rank->pci, port->pci) : 0;
    if (shared > 0)
        return shared > 1 ? VERBS_SAME_BRIDGE : VERBS_SAME_ROOT;
    if (rank->numa < 0 || port->numa < 0 || rank->numa == port->numa)
        return VERBS_SAME_NODE;
    const int further = nodes > NODE_DISTANCE ? nodes - NODE_DISTANCE - 1 : 0;
    return (uint8_t)(further < UINT8_MAX - VERBS_OTHER_NODE ? VERBS_OTHER_NODE + further
                                                            : UINT8_MAX);
}

/* ---- /sys ------------------------------------------------------------------------------------ */

/* The first line of a file; "" if there is none. */
static void line_of(const char *folder, const char *name, char *line, int cap) {
    char path[PATH_MAX];
    line[0] = '\0';
    const int len = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = len > 0 && (size_t)len < sizeof path ? rcmi_fopen(path) : NULL;
    if (!file)
        return;
    if (fgets(line, cap, file))
        line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

int verbs_node_distance(int a, int b) {
    char name[32], line[4096];
    if (a < 0 || b < 0)
        return NODE_DISTANCE;
    snprintf(name, sizeof name, "node%d/distance", a);
    line_of(NODES, name, line, sizeof line);
    char *at = line, *end = line;
    long distance = NODE_DISTANCE;
    for (int i = 0; i <= b; i++, at = end)
        distance = strtol(at, &end, 10);
    return distance > 0 && distance < INT_MAX ? (int)distance : NODE_DISTANCE;
}

/* Does a list like "0-3,8" contain one of these CPUs? */
static bool list_has(const char *list, const cpu_set_t *cpus) {
    char *end;
    for (const char *at = list; *at; at = *end == ',' ? end + 1 : end) {
        const long first = strtol(at, &end, 10);
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long cpu = first; cpu >= 0 && cpu <= last && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET((size_t)cpu, cpus))
                return true;
        if (end == at)
            return false;
    }
    return false;
}

void verbs_place_of_cpus(struct verbs_place *ret_place) {
    cpu_set_t cpus;
    char name[300], list[4096];
    int number, n = 0;
    *ret_place = (struct verbs_place){.numa = -1};
    DIR *folder = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? rcmi_opendir(NODES) : NULL;
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        if (sscanf(entry->d_name, "node%d", &number) != 1)
            continue;
        snprintf(name, sizeof name, "%s/cpulist", entry->d_name);
        line_of(NODES, name, list, sizeof list);
        if (list_has(list, &cpus))
            ret_place->numa = n++ == 0 ? number : -1;
    }
    if (folder)
        closedir(folder);
}

void verbs_place_of_folder(const char *folder, struct verbs_place *ret_place) {
    char path[PATH_MAX], line[32];
    *ret_place = (struct verbs_place){.numa = -1};
    if (!realpath(folder, path))
        return;
    line_of(path, "numa_node", line, sizeof line);
    if (line[0])
        ret_place->numa = atoi(line);
    const char *root = strstr(path, "/pci");
    if (root && strlen(root + 1) < sizeof ret_place->pci)
        memcpy(ret_place->pci, root + 1, strlen(root + 1) + 1);
}

void verbs_place_of_device(const char *sys, const char *address, struct verbs_place *ret_place) {
    char folder[256];
    snprintf(folder, sizeof folder, "%s/bus/pci/devices/%s", sys, address);
    verbs_place_of_folder(folder, ret_place);
}

void verbs_place_of_rank(const char *near, struct verbs_place *ret_place) {
    *ret_place = (struct verbs_place){.numa = -1};
    if (near[0])
        verbs_place_of_device("/sys", near, ret_place);
    if (!ret_place->pci[0] && ret_place->numa < 0)
        verbs_place_of_cpus(ret_place);
}
