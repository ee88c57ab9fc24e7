/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, ports, memory; see check_verbs.h. */
#include "check_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include "check_pairs.h"
#include "error.h"
#include "../launched.h"
#include "rank_device.h"
#include "ringcomm.h"
#include "settings.h"
#include "verbs/device_faults.h"

enum { LOCATE_MS = 10000 };

/* The rank's position in the topology, as in rcm_init: RINGCOMM_DEVICE's GPU, else the CPUs. */
static rcm_status rank_place(struct verbs_place *ret_place) {
    char near[RCMI_PCI_ADDRESS] = "";
    const rcm_status status =
        rcmi_rank_device_locate(rcmi_setting("RINGCOMM_DEVICE"), LOCATE_MS, near);
    verbs_place_of_rank(status == RCM_OK ? near : "", ret_place);
    return status;
}

/* Called for each port of a device. */
typedef void port_look(struct check_out *out, const struct verbs_table *table,
                       struct ibv_context *context, int port);

/* libibverbs' functions and its list of devices; NULL after a problem, which is reported. */
static struct ibv_device **devices_list(struct check_out *out, const struct verbs_table **table) {
    char text[CHECK_SENTENCE];
    *table = verbs_table(text, sizeof(text));
    struct ibv_device **list = *table ? (*table)->get_device_list(NULL) : NULL;
    if (list && list[0])
        return list;
    if (*table)
        verbs_explain_none(VERBS_SYS, VERBS_DEV, text, sizeof(text));
    check_mend(out, "", "%s", text);
    return NULL;
}

/* ---- Devices ------------------------------------------------------------------------------- */

static void device_place(struct check_out *out, const struct verbs_table *table,
                         const struct ibv_device *device) {
    struct verbs_place place, rank;
    table->place_of(device, &place);
    (void)rank_place(&rank);
    if (place.pci[0])
        check_fact(out, device->name, "PCI", "%s", place.pci);
    if (place.numa >= 0)
        check_fact(out, device->name, "NUMA node", "%d", place.numa);
    check_fact(out, device->name, "distance", "%d",
               verbs_distance(&rank, &place, verbs_node_distance(rank.numa, place.numa)));
}

static void device_attributes(struct check_out *out, const struct ibv_device *device,
                              const struct ibv_device_attr *attr) {
    check_fact(out, device->name, "firmware", "%s", attr->fw_ver);
    check_fact(out, device->name, "vendor and part", "0x%04x %u", attr->vendor_id,
               attr->vendor_part_id);
    check_fact(out, device->name, "most queue pairs", "%d", attr->max_qp);
    check_fact(out, device->name, "ports", "%d", attr->phys_port_cnt);
}

/* True: no reason was found why the device cannot be used. */
static bool device_show(struct check_out *out, const struct verbs_table *table,
                        struct ibv_device *device, bool named, char text[CHECK_SENTENCE]) {
    struct ibv_device_attr attr = {.fw_ver = ""};
    const char *fault = verbs_device_fault(table, device, named);
    if (fault) {
        snprintf(text, CHECK_SENTENCE, "%s is of no use: %s", device->name, fault);
        check_fact(out, device->name, "of no use", "%s", fault);
        return false;
    }
    struct ibv_context *context = table->open_device(device);
    if (!context) {
        verbs_explain_open(device, errno, text, CHECK_SENTENCE);
        check_fact(out, device->name, "of no use", "%s", text);
        return false;
    }
    if (table->query_device(context, &attr) == 0)
        device_attributes(out, device, &attr);
    device_place(out, table, device);
    (void)table->close_device(context);
    return true;
}

static void run_devices(struct check_out *out) {
    const struct verbs_table *table;
    char text[CHECK_SENTENCE] = "";
    struct ibv_device **list = devices_list(out, &table);
    const bool named = rcmi_setting("RINGCOMM_VERBS_DEVICES")[0];
    bool any = false;
    if (!list)
        return;
    for (int i = 0; list[i]; i++)
        any = device_show(out, table, list[i], named, text) || any;
    if (!any)
        check_mend(out, "", "%s", text);
    table->free_device_list(list);
}

/* ---- Ports --------------------------------------------------------------------------------- */

static const char *state_word(enum ibv_port_state state) {
    static const char *const words[] = {"nop",   "down",   "init",
                                        "armed", "active", "active, deferred"};
    return (size_t)state < sizeof(words) / sizeof(words[0]) ? words[state] : "unknown";
}

static void gid_show(struct check_out *out, const struct verbs_table *table, const char *of,
                     const struct ibv_device *device, int port, int i, const union ibv_gid *gid,
                     bool roce) {
    static const union ibv_gid none;
    struct verbs_gid about = {.roce_v2 = false};
    char text[INET6_ADDRSTRLEN] = "", name[32];
    if (memcmp(gid, &none, sizeof(none)) == 0)
        return;
    if (roce)
        table->describe_gid(device, (uint8_t)port, i, gid, &about);
    inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
    snprintf(name, sizeof(name), "GID %d", i);
    check_fact(out, of, name, "%s, %s%s", text,
               !roce           ? "InfiniBand"
               : about.roce_v2 ? "RoCE v2"
                               : "RoCE v1",
               about.ipv4_prefix ? ", IPv4" : "");
}

static void port_show(struct check_out *out, const struct verbs_table *table,
                      struct ibv_context *context, int port) {
    const struct ibv_device *device = context->device;
    const bool named = rcmi_setting("RINGCOMM_VERBS_DEVICES")[0];
    struct ibv_port_attr attr = {.state = IBV_PORT_NOP};
    union ibv_gid gid;
    char of[IBV_SYSFS_NAME_MAX + 8];
    snprintf(of, sizeof(of), "%s:%d", device->name, port);
    if (verbs_device_fault(table, device, named) ||
        table->query_port(context, (uint8_t)port, &attr) != 0)
        return;
    const bool roce = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    check_fact(out, of, "state", "%s", state_word(attr.state));
    check_fact(out, of, "link layer", "%s", roce ? "Ethernet" : "InfiniBand");
    check_fact(out, of, "MTU", "%d of %d", 128 << attr.active_mtu, 128 << attr.max_mtu);
    if (!roce)
        check_fact(out, of, "LID", "%u, of the subnet manager %u", attr.lid, attr.sm_lid);
    if (verbs_port_fault(&attr))
        check_fact(out, of, "of no use", "%s", verbs_port_fault(&attr));
    if (device->transport_type == IBV_TRANSPORT_IWARP)
        return; /* its GIDs are not addresses */
    for (int i = 0; i < attr.gid_tbl_len && i < 256; i++)
        if (table->query_gid(context, (uint8_t)port, i, &gid) == 0)
            gid_show(out, table, of, device, port, i, &gid, roce);
}

static void ports_show(struct check_out *out, const struct verbs_table *table,
                       struct ibv_device *device) {
    struct ibv_device_attr attr = {.phys_port_cnt = 0};
    struct ibv_context *context = table->open_device(device);
    if (!context)
        return;
    if (table->query_device(context, &attr) == 0)
        for (int port = 1; port <= attr.phys_port_cnt; port++)
            port_show(out, table, context, port);
    (void)table->close_device(context);
}

bool check_verbs_open(struct verbs_domain *domain) {
    char text[CHECK_SENTENCE];
    *domain = (struct verbs_domain){.nranks = 2};
    domain->table = verbs_table(text, sizeof(text));
    domain->epoll = epoll_create1(EPOLL_CLOEXEC);
    return domain->table && rank_place(&domain->place) == RCM_OK &&
           verbs_settings(domain) == RCM_OK && verbs_ports_open(domain) == RCM_OK;
}

/* "by GID 3"; for iWARP "at 10.0.0.1, TCP port 40000 of this test". */
static void address_text(const struct verbs_port *port, char *text, size_t cap) {
    const struct verbs_offered *offered = &port->offered;
    char address[INET6_ADDRSTRLEN] = "";
    if (offered->layer != VERBS_LAYER_IWARP) {
        snprintf(text, cap, "by GID %d", port->gid_index);
        return;
    }
    inet_ntop(offered->ipv4 ? AF_INET : AF_INET6, offered->gid + (offered->ipv4 ? 12 : 0), address,
              sizeof(address));
    snprintf(text, cap, "at %s, TCP port %u of this test", address, offered->tcp_port);
}

/* Shows the ports that rcm_init would use. */
static void ports_used(struct check_out *out) {
    static struct verbs_domain domain;
    char text[100], address[100];
    if (!check_verbs_open(&domain)) {
        check_mend(out, "", "%s", rcm_last_error());
        return;
    }
    for (int i = 0; i < domain.nports; i++) {
        const struct verbs_port *port = &domain.ports[i];
        const struct verbs_side side = {&port->offered, 1, 0};
        verbs_networks_text(&side, text, sizeof(text));
        address_text(port, address, sizeof(address));
        check_fact(out, port->name, "used", "%s, network %s, %.1f Gbit/s, distance %u", address,
                   text, port->offered.speed / 10.0, port->offered.distance);
    }
    verbs_ports_close(&domain);
}

static void run_ports(struct check_out *out) {
    const struct verbs_table *table;
    struct ibv_device **list = devices_list(out, &table);
    if (!list)
        return;
    for (int i = 0; list[i]; i++)
        ports_show(out, table, list[i]);
    table->free_device_list(list);
    ports_used(out);
}

/* ---- Memory -------------------------------------------------------------------------------- */

static void limit_show(struct check_out *out, size_t each) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return;
    if (verbs_locks_all() || limit.rlim_cur == RLIM_INFINITY)
        check_fact(out, "", "may be locked", "all%s", verbs_locks_all() ? " (CAP_IPC_LOCK)" : "");
    else
        check_fact(out, "", "may be locked", "%llu bytes: of %llu peers",
                   (unsigned long long)limit.rlim_cur, (unsigned long long)(limit.rlim_cur / each));
}

/* Compares the locked memory that this job needs with the limit, and registers one peer's share. */
static void run_memory(struct check_out *out) {
    static struct verbs_domain domain;
    int64_t slots = 4, slot_bytes = 0;
    int rank, nranks;
    char text[CHECK_SENTENCE];
    struct verbs_region region;
    launched_job(&rank, &nranks);
    if (rcmi_setting_int("RINGCOMM_SLOTS", 2, 1024, &slots) != RCM_OK ||
        rcmi_setting_slot_bytes(nranks, &slot_bytes) != RCM_OK || !check_verbs_open(&domain)) {
        check_mend(out, "", "%s", rcm_last_error());
        return;
    }
    const struct rcmi_need need = {.nranks = nranks > 1 ? nranks : 2,
                                   .slots = (uint32_t)slots,
                                   .slot_bytes = (size_t)slot_bytes};
    const size_t each = verbs_locked_bytes(&need);
    check_fact(out, "", "locked for each peer", "%zu bytes", each);
    limit_show(out, each);
    if (!verbs_may_lock(&need, text, sizeof(text)))
        check_mend(out, "", "%s", text);
    if (verbs_region_make(&domain.ports[0], each, IBV_ACCESS_REMOTE_WRITE, &region) != RCM_OK)
        check_mend(out, domain.ports[0].name, "%s", rcm_last_error());
    else
        verbs_region_free(domain.table, &region);
    verbs_ports_close(&domain);
}

/* ---- The transport ------------------------------------------------------------------------- */

/* Shows whether rcm_init finds the transport usable. */
static void run_transport(struct check_out *out) {
    struct rcm_transport_info info;
    for (size_t i = 0; rcm_transport_at(i, &info) == RCM_OK; i++) {
        if (strcmp(info.name, "verbs") != 0)
            continue;
        check_fact(out, "", "transport verbs", "%s", info.usable ? "usable" : "unusable");
        if (!info.usable)
            check_mend(out, "", "%s", info.reason);
    }
}

static const struct check_test tests[] = {
    {.name = "devices", .when = CHECK_FIRST, .seconds = 20, .run = run_devices},
    {.name = "ports", .when = CHECK_FIRST, .seconds = 20, .run = run_ports},
    {.name = "memory", .when = CHECK_AFTER, .seconds = 20, .run = run_memory},
    {.name = "loopback", .when = CHECK_AFTER, .seconds = 60, .run = check_verbs_loopback},
    {.name = "transport", .when = CHECK_AFTER, .seconds = 20, .run = run_transport},
    {.name = "pairs", .when = CHECK_OF_JOBS, .seconds = 600, .run = check_pairs},
    {.name = NULL},
};

const struct check check_verbs = {.name = "verbs", .tests = tests};
