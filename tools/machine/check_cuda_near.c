/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the network devices near a GPU, from /sys; see check_cuda.h. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check_cuda.h"
#include "../common.h"

/* Number of leading folders common to two paths: the bridges above both devices. */
static int folders_shared(const char *a, const char *b) {
    int n = 0;
    for (; *a && *a == *b; a++, b++)
        n += *a == '/';
    return n;
}

static int numa_of(const char *path) {
    char file[PATH_MAX + 16];
    int node = -1;
    snprintf(file, sizeof(file), "%s/numa_node", path);
    FILE *f = fopen(file, "re");
    if (f && fscanf(f, "%d", &node) != 1)
        node = -1;
    if (f)
        fclose(f);
    return node;
}

struct search {
    char gpu[PATH_MAX];
    int numa;
    int best; /* shared folders */
    int best_numa;
    char *names;
    size_t cap;
};

static void search_one(struct search *search, const char *class, const char *name) {
    char link[PATH_MAX], path[PATH_MAX];
    snprintf(link, sizeof(link), "%s/%.200s/device", class, name);
    if (!realpath(link, path) || !strstr(path, "/pci"))
        return;
    const int shared = folders_shared(search->gpu, path);
    if (shared > search->best) {
        search->best = shared;
        search->best_numa = numa_of(path);
        search->names[0] = '\0';
    }
    if (shared == search->best)
        tool_list_add(search->names, search->cap, name);
}

static void search_class(struct search *search, const char *class) {
    DIR *folder = opendir(class);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            search_one(search, class, entry->d_name);
    closedir(folder);
}

/* The root of a PCI domain is the fourth folder of a path: /sys/devices/pci0000:3a. */
static const char *distance(const struct search *search) {
    if (search->best > 4)
        return "below the same PCIe bridge";
    if (search->best == 4)
        return "at the same PCIe root";
    if (search->numa < 0 || search->best_numa < 0)
        return "distance unknown";
    return search->numa == search->best_numa ? "same NUMA node" : "another NUMA node";
}

void check_cuda_nearest(const char *bus, int numa, char *text, size_t cap) {
    char link[PATH_MAX], names[200] = "";
    struct search search = {.numa = numa, .names = names, .cap = sizeof(names)};
    snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", bus);
    if (!realpath(link, search.gpu))
        snprintf(search.gpu, sizeof(search.gpu), "%s", link);
    search_class(&search, "/sys/class/infiniband");
    if (!names[0])
        search_class(&search, "/sys/class/net");
    if (names[0])
        snprintf(text, cap, "%s (%s)", names, distance(&search));
    else
        snprintf(text, cap, "none");
}
