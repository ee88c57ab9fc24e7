/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports by which two ranks are linked: the choice function, the positions of devices from /sys,
 * and both for a node of eight GPUs, eight NICs and two sockets, which hwloc reads from
 * eight_gpus.xml.
 */
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../../transport/verbs/port_choice.h"
#include "../../transport/verbs/locality.h"
#include "../transport/harness.h"
#include "cases.h"

/* ---- The function ---------------------------------------------------------------------------- */

/* A port of RoCE in 10.NET.0.0/16, or of InfiniBand with that subnet prefix. */
static struct verbs_offered port(uint8_t layer, uint8_t net, uint16_t speed, uint8_t distance) {
    struct verbs_offered port = {.layer = layer, .speed = speed, .distance = distance};
    if (layer == 2) {
        memcpy(port.gid + 10, (const uint8_t[]){0xff, 0xff, 10, net, 3, 4}, 6);
        port.ipv4 = 16;
    }
    port.gid[7] = layer == 1 ? net : 0;
    return port;
}

/* first < 0: no pair matches. Both ends get the same pair, whichever side dials: swapped, the
 * indices are swapped, except those that spread the load. */
static void chosen(const struct verbs_side *dialler, const struct verbs_side *other, int first,
                   int second) {
    struct verbs_choice choice = {-1, -1};
    CHECK_EQ(verbs_choose(dialler, other, &choice), first >= 0);
    CHECK_EQ(choice.dialler, first);
    CHECK_EQ(choice.other, second);
}

#define SIDE(ports, n, spread) (&(const struct verbs_side){(ports), (n), (spread)})

void case_choice(void **state) {
    (void)state;
    const struct verbs_offered ours[] = {port(2, 1, 100, 0), port(2, 2, 200, 9),
                                         port(1, 2, 400, 0)};
    const struct verbs_offered rails[] = {port(2, 2, 200, 9), port(2, 1, 400, 0)};
    const struct verbs_offered alone[] = {port(1, 9, 100, 0)};
    chosen(SIDE(ours, 3, 0), SIDE(rails, 2, 0), 1, 0); /* the faster rail, although farther */
    chosen(SIDE(ours, 1, 0), SIDE(rails, 2, 0), 0, 1); /* the only one in common */
    chosen(SIDE(ours, 3, 0), SIDE(alone, 1, 0), -1, -1);
    chosen(SIDE(ours, 0, 0), SIDE(rails, 2, 0), -1, -1);
    chosen(SIDE(ours + 2, 1, 0), SIDE(rails, 1, 0), -1, -1); /* another layer */
}

/* Link-local addresses have the same prefix on all rails: the n-th port pairs with the n-th,
 * whatever the distances; InfiniBand has one subnet there. */
void case_choice_link_local(void **state) {
    (void)state;
    struct verbs_offered a[] = {port(2, 1, 9, 0), port(2, 0, 9, 9), port(2, 0, 9, 0)};
    struct verbs_offered b[] = {port(2, 0, 9, 3), port(2, 0, 9, 0), port(2, 0, 9, 0)};
    for (int i = 0; i < 6; i++) {
        struct verbs_offered *one = i < 3 ? &a[i] : &b[i - 3];
        if (i > 0)
            *one = (struct verbs_offered){
                .layer = 2, .speed = 9, .distance = one->distance, .gid = {0xfe, 0x80}};
    }
    chosen(SIDE(a, 3, 0), SIDE(b, 3, 0), 2, 1);
    chosen(SIDE(a, 2, 0), SIDE(b, 3, 0), 1, 0);
    chosen(SIDE(a, 1, 0), SIDE(b, 3, 0), -1, -1); /* IPv4 */
    for (int i = 0; i < 6; i++)
        (i < 3 ? &a[i] : &b[i - 3])->layer = 1;
    chosen(SIDE(a + 1, 2, 0), SIDE(b + 1, 2, 1), 1, 1);
    chosen(SIDE(a + 1, 1, 0), SIDE(b, 3, 0), 0, 1);
}

/* Of equally fast pairs, the one with the least sum of distances is chosen. */
void case_choice_near(void **state) {
    (void)state;
    const struct verbs_offered a[] = {port(2, 1, 9, 3), port(2, 2, 9, 1), port(2, 3, 9, 2)};
    const struct verbs_offered b[] = {port(2, 3, 9, 0), port(2, 2, 9, 3), port(2, 1, 9, 200)};
    chosen(SIDE(a, 3, 0), SIDE(b, 3, 0), 2, 0);
    chosen(SIDE(b, 3, 5), SIDE(a, 3, 7), 0, 2);
    chosen(SIDE(a, 2, 0), SIDE(b, 3, 0), 1, 1);
}

/* The ranks of a host spread over its ports, in one subnet or in one rail per port. */
void case_choice_spread(void **state) {
    (void)state;
    struct verbs_offered flat[8], rails[8];
    for (uint8_t i = 0; i < 8; i++) {
        flat[i] = port(1, 1, 4000, 2);
        rails[i] = port(2, i, 4000, 2);
    }
    for (unsigned a = 0; a < 20; a++)
        for (unsigned b = 0; b < 20; b++) {
            chosen(SIDE(flat, 8, a), SIDE(flat, 4, b), (int)a % 8, (int)b % 4);
            chosen(SIDE(rails, 8, a), SIDE(rails, 8, b), (int)a % 8, (int)a % 8);
        }
}

/* A peer's prefix length is not used as a shift unchecked. */
void case_subnets(void **state) {
    (void)state;
    struct verbs_offered a = port(2, 1, 9, 0), b = port(2, 1, 9, 0);
    b.gid[15] = 77;
    CHECK_EQ(verbs_subnet(&a), verbs_subnet(&b));
    a.ipv4 = b.ipv4 = 255;
    CHECK(verbs_subnet(&a) != verbs_subnet(&b));
    a.ipv4 = b.ipv4 = 8;
    b.gid[13] = 2;
    CHECK_EQ(verbs_subnet(&a), verbs_subnet(&b));
    a.ipv4 = 9;
    CHECK(verbs_subnet(&a) != verbs_subnet(&b));
}

/* ---- Positions ------------------------------------------------------------------------------- */

static void folder_make(const char *root, const char *path, char *ret, size_t cap) {
    snprintf(ret, cap, "%s", root);
    for (const char *at = path; *at; at += strspn(at, "/")) {
        const size_t len = strcspn(at, "/"), used = strlen(ret);
        snprintf(ret + used, cap - used, "/%.*s", (int)len, at);
        CHECK(mkdir(ret, 0700) == 0 || access(ret, F_OK) == 0);
        at += len;
    }
}

/* Makes the folder of a device as in /sys, with its NUMA node. */
static void place_make(const char *root, const char *path, int numa, struct verbs_place *ret) {
    char folder[400], file[420];
    folder_make(root, path, folder, sizeof folder);
    snprintf(file, sizeof file, "%s/numa_node", folder);
    FILE *out = fopen(file, "w");
    CHECK(out);
    fprintf(out, "%d\n", numa);
    CHECK_EQ(fclose(out), 0);
    verbs_place_of_folder(folder, ret);
    CHECK_EQ(unlink(file), 0);
    while (strcmp(folder, root) != 0 && rmdir(folder) == 0)
        *strrchr(folder, '/') = '\0';
}

void case_places(void **state) {
    (void)state;
    char root[] = "/tmp/verbs-places-XXXXXX";
    struct verbs_place gpu, nic, same_root, other_root, far, unknown = {.numa = -1};
    CHECK(mkdtemp(root));
    place_make(root, "pci0000:00/0000:00:01.0/0000:01:00.0", 1, &gpu);
    CHECK_EQ(strcmp(gpu.pci, "pci0000:00/0000:00:01.0/0000:01:00.0"), 0);
    CHECK_EQ(gpu.numa, 1);
    place_make(root, "pci0000:00/0000:00:01.0/0000:02:00.0", 1, &nic);
    place_make(root, "pci0000:00/0000:00:01.1/0000:02:00.0", 1, &same_root);
    place_make(root, "pci0000:001/0000:00:01.0", 1, &other_root);
    place_make(root, "pci0000:40/0000:41:00.0", 0, &far);
    CHECK_EQ(rmdir(root), 0);
    CHECK_EQ(verbs_distance(&gpu, &gpu, 10), VERBS_SAME_BRIDGE);
    CHECK_EQ(verbs_distance(&gpu, &nic, 10), VERBS_SAME_BRIDGE);
    CHECK_EQ(verbs_distance(&gpu, &same_root, 10), VERBS_SAME_ROOT);
    CHECK_EQ(verbs_distance(&gpu, &other_root, 10), VERBS_SAME_NODE);
    CHECK_EQ(verbs_distance(&gpu, &far, 11), VERBS_OTHER_NODE);
    CHECK(verbs_distance(&gpu, &far, 32) > verbs_distance(&gpu, &far, 21));
    CHECK_EQ(verbs_distance(&gpu, &far, 4000), 255);
    CHECK_EQ(verbs_distance(&unknown, &far, 32), VERBS_SAME_NODE);
    verbs_place_of_folder("/no/such/device", &unknown);
    CHECK_EQ(unknown.numa, -1);
    CHECK_EQ(unknown.pci[0], '\0');
}

/* A rank bound to one CPU has the NUMA node of that CPU, if the system has nodes; so has a rank
 * with a GPU that is missing in /sys. */
void case_place_of_cpus(void **state) {
    (void)state;
    struct verbs_place place, device;
    cpu_set_t before, one;
    unsigned cpu, node;
    CHECK_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    CHECK_EQ(getcpu(&cpu, &node), 0);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    verbs_place_of_rank("", &place);
    verbs_place_of_rank("no:such:device", &device);
    CHECK_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    CHECK_EQ(place.numa, access("/sys/devices/system/node/node0", F_OK) == 0 ? (int)node : -1);
    CHECK_EQ(place.pci[0], '\0');
    CHECK_EQ(device.numa, place.numa);
    CHECK_EQ(device.pci[0], '\0');
    CHECK_EQ(verbs_node_distance(-1, 0), 10);
    CHECK_EQ(verbs_node_distance((int)node, (int)node), 10);
}

/* ---- A node of eight GPUs -------------------------------------------------------------------- */

#if TEST_HAVE_HWLOC
#include <hwloc.h>

enum { EIGHT = 8 };

static struct verbs_place gpus[EIGHT], nics[EIGHT], sockets[2];
static int between; /* the sockets */

/* The names of an object's bridges and its own, from the root. */
static void path_of(hwloc_obj_t object, char *path, size_t cap) {
    if (object->parent->type == HWLOC_OBJ_BRIDGE)
        path_of(object->parent, path, cap);
    const size_t used = strlen(path);
    const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;
    if (object->type == HWLOC_OBJ_BRIDGE &&
        object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST)
        snprintf(path + used, cap - used, "pci%04x:%02x",
                 (unsigned)object->attr->bridge.downstream.pci.domain,
                 object->attr->bridge.downstream.pci.secondary_bus);
    else
        snprintf(path + used, cap - used, "/%04x:%02x:%02x.%x", (unsigned)pci->domain, pci->bus,
                 pci->dev, pci->func);
}

static void place_read(hwloc_topology_t topology, hwloc_obj_t device, struct verbs_place *ret) {
    const hwloc_obj_t socket = hwloc_get_non_io_ancestor_obj(topology, device);
    *ret = (struct verbs_place){.numa = hwloc_bitmap_first(socket->nodeset)};
    path_of(device->parent, ret->pci, sizeof ret->pci);
}

static void node_read(void) {
    hwloc_topology_t topology;
    struct hwloc_distances_s *distances;
    unsigned n = 1;
    int read = 0;
    CHECK_EQ(hwloc_topology_init(&topology), 0);
    CHECK_EQ(hwloc_topology_set_xml(topology, TEST_EIGHT_GPUS), 0);
    CHECK_EQ(hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL), 0);
    CHECK_EQ(hwloc_topology_load(topology), 0);
    for (hwloc_obj_t device = NULL; (device = hwloc_get_next_osdev(topology, device)) != NULL;) {
        const bool nic = device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        place_read(topology, device,
                   &(nic ? nics : gpus)[device->name[strlen(device->name) - 1] - '0']);
        read++;
    }
    CHECK_EQ(read, 2 * EIGHT);
    CHECK_EQ(hwloc_distances_get(topology, &n, &distances, 0, 0), 0);
    between = (int)distances->values[1];
    hwloc_distances_release(topology, distances);
    hwloc_topology_destroy(topology);
    for (int i = 0; i < 2; i++)
        sockets[i] = (struct verbs_place){.numa = i};
}

/* The ports that a rank of that node offers: one per NIC, all in one subnet or each in a rail. */
static struct verbs_side offers(const struct verbs_place *rank, int local_rank, bool rails,
                                struct verbs_offered ports[EIGHT]) {
    for (int i = 0; i < EIGHT; i++) {
        const int nodes = rank->numa == nics[i].numa ? 10 : between;
        ports[i] = port(2, rails ? (uint8_t)i : 0, 4000, verbs_distance(rank, &nics[i], nodes));
    }
    return (struct verbs_side){ports, EIGHT, (unsigned)local_rank};
}

static struct verbs_choice choice_of(const struct verbs_place *a, int rank_a,
                                     const struct verbs_place *b, int rank_b, bool rails) {
    struct verbs_offered of_a[EIGHT], of_b[EIGHT];
    const struct verbs_side side_a = offers(a, rank_a, rails, of_a);
    const struct verbs_side side_b = offers(b, rank_b, rails, of_b);
    struct verbs_choice choice;
    CHECK(verbs_choose(&side_a, &side_b, &choice));
    return choice;
}

/* Each rank has a GPU: it uses the NIC at the GPU's switch if one subnet connects all, and one of
 * the two ranks' rails if there are rails. */
static void gpus_choose(void) {
    for (int a = 0; a < EIGHT; a++)
        for (int b = 0; b < EIGHT; b++) {
            const struct verbs_choice flat = choice_of(&gpus[a], a, &gpus[b], b, false);
            const struct verbs_choice rail = choice_of(&gpus[a], a, &gpus[b], b, true);
            CHECK(flat.dialler == a && flat.other == b);
            CHECK(rail.dialler == rail.other && (rail.other == a || rail.other == b));
        }
}

/* Makes the folder of a device, and a link to it named by its bus address, the last part of its
 * path. */
static void sys_add(const char *sys, const struct verbs_place *device) {
    char path[512], at[544];
    snprintf(path, sizeof path, "%s/devices/%s/", sys, device->pci);
    for (char *end = path + strlen(sys) + 1; (end = strchr(end, '/')) != NULL; end++) {
        *end = '\0';
        CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
        *end = '/';
    }
    snprintf(at, sizeof at, "%snuma_node", path);
    FILE *file = fopen(at, "w");
    CHECK(file && fprintf(file, "%d\n", device->numa) > 0 && fclose(file) == 0);
    snprintf(at, sizeof at, "%s/bus/pci/devices%s", sys, strrchr(device->pci, '/'));
    CHECK_EQ(symlink(path, at), 0);
}

static int entry_remove(const char *path, const struct stat *about, int type, struct FTW *where) {
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

/* A rank with only its GPU's bus address takes the GPU's position, and uses the NIC at the same
 * switch. */
static void addresses_choose(void) {
    char sys[] = "/tmp/verbs-sys-XXXXXX", path[64];
    struct verbs_place place[EIGHT];
    static const char *const folders[] = {"bus", "bus/pci", "bus/pci/devices"};
    CHECK(mkdtemp(sys));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", sys, folders[i]);
        CHECK_EQ(mkdir(path, 0700), 0);
    }
    for (int i = 0; i < EIGHT; i++) {
        sys_add(sys, &gpus[i]);
        verbs_place_of_device(sys, strrchr(gpus[i].pci, '/') + 1, &place[i]);
    }
    CHECK_EQ(nftw(sys, entry_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    for (int i = 0; i < EIGHT; i++) {
        const struct verbs_choice choice = choice_of(&place[i], 0, &place[EIGHT - 1 - i], 0, false);
        CHECK_EQ(strcmp(place[i].pci, gpus[i].pci), 0);
        CHECK(choice.dialler == i && choice.other == EIGHT - 1 - i);
    }
}

/* Each rank is bound to cores: it uses a NIC of its socket, and all NICs are used. */
static void cores_choose(bool rails) {
    unsigned used[2] = {0};
    for (int a = 0; a < EIGHT; a++)
        for (int b = 0; b < EIGHT; b++) {
            const int at = a / 4;
            const struct verbs_choice choice = choice_of(&sockets[at], a, &sockets[at], b, rails);
            CHECK_EQ(choice.dialler / 4, at);
            CHECK_EQ(choice.other / 4, at);
            used[0] |= 1u << choice.dialler;
            used[1] |= 1u << choice.other;
        }
    CHECK_EQ(used[0], 0xffu);
    CHECK_EQ(used[1], 0xffu);
}

void case_eight_gpus(void **state) {
    (void)state;
    node_read();
    CHECK_EQ(between, 32);
    CHECK_EQ(verbs_distance(&gpus[5], &nics[5], 10), VERBS_SAME_BRIDGE);
    CHECK_EQ(verbs_distance(&gpus[5], &nics[4], 10), VERBS_SAME_ROOT);
    CHECK_EQ(verbs_distance(&gpus[5], &nics[6], 10), VERBS_SAME_NODE);
    CHECK(verbs_distance(&gpus[5], &nics[3], between) > VERBS_OTHER_NODE);
    gpus_choose();
    addresses_choose();
    cores_choose(false);
    cores_choose(true);
}
#else
void case_eight_gpus(void **state) {
    (void)state;
    skip(); /* built without hwloc */
}
#endif
