/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Location of a rank's data and of a port in this machine, and their distance: PCI bridges and NUMA
 * nodes, as found in /sys. A rank is located at its GPU, else on the NUMA node that contains all
 * its CPUs. A rank that is not bound to one node is equally far from all.
 */
#ifndef RCMI_VERBS_LOCALITY_H
#define RCMI_VERBS_LOCALITY_H

#include <stdint.h>

struct verbs_place {
    int numa;      /* -1: unknown, or several nodes */
    char pci[256]; /* "pci0000:16/0000:16:01.0/0000:17:00.0": root, bridges, device; "": none */
};

enum {
    VERBS_SAME_BRIDGE = 0, /* data need not pass the root complex */
    VERBS_SAME_ROOT = 1,
    VERBS_SAME_NODE = 2, /* or unknown */
    VERBS_OTHER_NODE = 3 /* plus the distance of the nodes */
};

/* nodes: distance of the two NUMA nodes, 10 for the same node, as firmware reports it. */
uint8_t verbs_distance(const struct verbs_place *rank, const struct verbs_place *port, int nodes);

/* From /sys; unknown distances count as the same node. */
int verbs_node_distance(int a, int b);
/* Location of the CPUs that this thread may use. */
void verbs_place_of_cpus(struct verbs_place *ret_place);
/* Location of a device, by its folder in /sys or a link to it. */
void verbs_place_of_folder(const char *folder, struct verbs_place *ret_place);
/* Location of the device with a PCI address like "0000:3b:00.0"; sys: "/sys". */
void verbs_place_of_device(const char *sys, const char *address, struct verbs_place *ret_place);
/* near: a PCI address; "", or an address that /sys does not have: uses the CPUs instead. */
void verbs_place_of_rank(const char *near, struct verbs_place *ret_place);

#endif
