/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a rank's data and a port are in this machine, and how far that is: PCI bridges and NUMA
 * nodes, as /sys has them. A rank is where its GPU is, or else on the NUMA node that all its CPUs
 * are of; a rank that is bound to none is equally far from all.
 */
#ifndef RCMI_VERBS_PLACE_H
#define RCMI_VERBS_PLACE_H

#include <stdint.h>

struct verbs_place {
    int numa;      /* -1: not known, or of several */
    char pci[256]; /* "pci0000:16/0000:16:01.0/0000:17:00.0": root, bridges, device; "": none */
};

enum {
    VERBS_SAME_BRIDGE = 0, /* data need not pass the root complex */
    VERBS_SAME_ROOT = 1,
    VERBS_SAME_NODE = 2, /* or there is nothing that tells */
    VERBS_OTHER_NODE = 3 /* and more, by the distance of the nodes */
};

/* nodes: the distance of the two NUMA nodes, 10 within one as firmware counts. */
uint8_t verbs_distance(const struct verbs_place *rank, const struct verbs_place *port, int nodes);

/* As /sys has it; what it does not have is not known. */
int verbs_node_distance(int a, int b);
/* Of the CPUs that this thread may use. */
void verbs_place_of_cpus(struct verbs_place *ret_place);
/* Of a device: its folder in /sys, or a link to that. */
void verbs_place_of_folder(const char *folder, struct verbs_place *ret_place);
/* Of the device with a PCI address, as "0000:3b:00.0"; sys: "/sys". */
void verbs_place_of_device(const char *sys, const char *address, struct verbs_place *ret_place);
/* near: a PCI address, as "0000:3b:00.0"; "", or one that /sys does not have: of the CPUs. */
void verbs_place_of_rank(const char *near, struct verbs_place *ret_place);

#endif
