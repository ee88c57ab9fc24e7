/* SPDX-License-Identifier: BSD-3-Clause */
#include "table.h"
#include "fd.h"
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libibverbs.so.1"

/* ---- Inline functions ------------------------------------------------------------------------ */

static int device_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
    return ibv_post_send(qp, wr, bad);
}

static int device_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
    return ibv_post_recv(qp, wr, bad);
}

static int device_req_notify_cq(struct ibv_cq *cq, int solicited_only) {
    return ibv_req_notify_cq(cq, solicited_only);
}

static int device_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc) {
    return ibv_poll_cq(cq, num_entries, wc);
}

/* ---- /sys ------------------------------------------------------------------------------------ */

/* Software devices (rxe, siw) are not on a bus. */
static bool sys_is_hardware(const struct ibv_device *device) {
    char path[IBV_SYSFS_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/device", device->ibdev_path);
    return access(path, F_OK) == 0;
}

/* Reads a line of a file below the port's gid_attrs; "" if there is none. */
static void gid_attr(const struct ibv_device *device, uint8_t port, const char *what, int index,
                     char *line, int cap) {
    char path[IBV_SYSFS_PATH_MAX + 64];
    line[0] = '\0';
    snprintf(path, sizeof path, "%s/ports/%u/gid_attrs/%s/%d", device->ibdev_path, port, what,
             index);
    FILE *file = rcmi_fopen(path);
    if (!file)
        return;
    if (fgets(line, cap, file))
        line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

static bool gid_is_ipv4(const union ibv_gid *gid) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid->raw, mapped, sizeof mapped) == 0;
}

/* Prefix length of the interface's address; 32 if it is not found. */
static int ipv4_prefix(const char *interface, const uint8_t address[4]) {
    struct ifaddrs *all = NULL;
    int bits = 32;
    if (getifaddrs(&all) != 0)
        return bits;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        const struct sockaddr_in *in = (const void *)one->ifa_addr;
        const struct sockaddr_in *mask = (const void *)one->ifa_netmask;
        if (in && mask && in->sin_family == AF_INET && strcmp(one->ifa_name, interface) == 0 &&
            memcmp(&in->sin_addr, address, 4) == 0)
            bits = __builtin_popcount(mask->sin_addr.s_addr);
    }
    freeifaddrs(all);
    return bits;
}

static void sys_describe_gid(const struct ibv_device *device, uint8_t port, int index,
                             const union ibv_gid *gid, struct verbs_gid *ret_gid) {
    char type[32], interface[IF_NAMESIZE + 1];
    gid_attr(device, port, "types", index, type, sizeof type);
    gid_attr(device, port, "ndevs", index, interface, sizeof interface);
    ret_gid->roce_v2 = strcmp(type, "RoCE v2") == 0;
    ret_gid->ipv4_prefix = gid_is_ipv4(gid) ? ipv4_prefix(interface, gid->raw + 12) : 0;
}

static void sys_place_of(const struct ibv_device *device, struct verbs_place *ret_place) {
    char path[IBV_SYSFS_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/device", device->ibdev_path);
    verbs_place_of_folder(path, ret_place);
}

/* ---- The library ----------------------------------------------------------------------------- */

static struct verbs_table library = {
    .post_send = device_post_send,
    .post_recv = device_post_recv,
    .req_notify_cq = device_req_notify_cq,
    .poll_cq = device_poll_cq,
    .cm = verbs_cm_library,
    .is_hardware = sys_is_hardware,
    .describe_gid = sys_describe_gid,
    .place_of = sys_place_of,
};
static char library_lacks[160]; /* why the library cannot be used; "": it can */
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static const struct verbs_table *replaced;

struct symbol {
    const char *name;
    void *to; /* a pointer to a function */
};

#define SYMBOL(name)                                                                               \
    { "ibv_" #name, &library.name }

static void library_load(void) {
    const struct symbol symbols[] = {
        SYMBOL(get_device_list),
        SYMBOL(free_device_list),
        SYMBOL(open_device),
        SYMBOL(close_device),
        SYMBOL(query_device),
        SYMBOL(query_port),
        SYMBOL(query_gid),
        SYMBOL(query_pkey),
        SYMBOL(alloc_pd),
        SYMBOL(dealloc_pd),
        SYMBOL(reg_mr),
        SYMBOL(dereg_mr),
        SYMBOL(create_comp_channel),
        SYMBOL(destroy_comp_channel),
        SYMBOL(create_cq),
        SYMBOL(destroy_cq),
        SYMBOL(create_qp),
        SYMBOL(modify_qp),
        SYMBOL(destroy_qp),
        SYMBOL(get_cq_event),
        SYMBOL(ack_cq_events),
        SYMBOL(get_async_event),
        SYMBOL(ack_async_event),
        SYMBOL(fork_init),
    };
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(library_lacks, sizeof library_lacks,
                 "there is no " LIBRARY " here: install libibverbs1 (of rdma-core)");
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (!found) {
            snprintf(library_lacks, sizeof library_lacks, LIBRARY " has no %s", symbols[i].name);
            return;
        }
        memcpy(symbols[i].to, &found, sizeof found);
    }
    if (library.fork_init() != 0)
        snprintf(library_lacks, sizeof library_lacks,
                 LIBRARY " was in use before this library could call ibv_fork_init");
}

const struct verbs_table *verbs_table(char *reason, size_t cap) {
    if (replaced)
        return replaced;
    pthread_once(&library_once, library_load);
    if (!library_lacks[0])
        return &library;
    snprintf(reason, cap, "%s", library_lacks);
    return NULL;
}

void verbs_table_set(const struct verbs_table *table) {
    replaced = table;
}
