/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of this host that are used: those named by RINGCOMM_VERBS_DEVICES, or all active ports
 * of hardware devices. For each port, a protection domain, one completion queue for all its links,
 * and a completion channel are opened. The port's address depends on the method by which its queue
 * pairs are connected (connect_exchange.c, rdma_cm.c).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "device_faults.h"
#include "log.h"
#include "settings.h"
#include "verbs.h"
#include "fd.h"

enum { PKEYS_MAX = 128 };
#define FIRST_USERS 0xeffffffdu /* inode of the initial user namespace, the same in all kernels */

/* ---- Which ports may be used ----------------------------------------------------------------- */

/* Does the comma-separated list name the port, as "mlx5_0:1" or "mlx5_0"? port 0: any port of the
 * device. */
static bool list_names(const char *list, const char *device, int port) {
    const size_t n = strlen(device);
    for (const char *at = list; *at;) {
        const size_t len = strcspn(at, ",");
        const bool same = len >= n && memcmp(at, device, n) == 0;
        if (same && (len == n || (at[n] == ':' && (port == 0 || atoi(at + n + 1) == port))))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Finds the index of RINGCOMM_VERBS_PKEY; default: the first. */
static rcm_status port_partition(struct verbs_port *port, int n) {
    int64_t wanted = 0;
    rcm_status status = rcmi_setting_int("RINGCOMM_VERBS_PKEY", 0, 0xffff, &wanted);
    for (int i = 0; status == RCM_OK && wanted && i < n && i < PKEYS_MAX; i++) {
        __be16 pkey = 0;
        if (port->domain->table->query_pkey(port->context, port->number, i, &pkey) == 0 &&
            (ntohs(pkey) & 0x7fff) == (wanted & 0x7fff)) {
            port->pkey_index = i;
            return RCM_OK;
        }
    }
    if (status == RCM_OK && wanted)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "%s is not in the partition of RINGCOMM_VERBS_PKEY", port->name);
    return status;
}

/* Speed of all lanes together, from the specification's codes. */
static uint16_t port_speed(const struct ibv_port_attr *attr) {
    static const struct {
        uint8_t code;
        uint32_t mbits;
    } speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                  {16, 14062}, {32, 25781}, {64, 53125}, {128, 106250}},
      widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    uint32_t speed = 0, lanes = 1;
    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++)
        speed = speeds[i].code == attr->active_speed ? speeds[i].mbits : speed;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        lanes = widths[i].code == attr->active_width ? widths[i].mbits : lanes;
    return (uint16_t)(speed * lanes / 100);
}

static uint8_t device_distance(const struct verbs_domain *domain, const struct ibv_device *device) {
    struct verbs_place place;
    domain->table->place_of(device, &place);
    const struct verbs_place *rank = &domain->place;
    return verbs_distance(rank, &place, verbs_node_distance(rank->numa, place.numa));
}

static rcm_status no_part(const struct verbs_port *port, const char *what) {
    return rcmi_fail(RCM_ERR_UNSUPPORTED, errno, "no %s of %s", what, port->name);
}

static rcm_status port_queues(struct verbs_port *port) {
    const struct verbs_table *table = port->domain->table;
    const int each = VERBS_SENDS + VERBS_RECEIVES;
    struct ibv_device_attr attr;
    const int error = table->query_device(port->context, &attr);
    if (error) {
        errno = error;
        return no_part(port, "attributes");
    }
    const int peers = port->domain->nranks - 1;
    port->room = attr.max_cqe / each < peers ? attr.max_cqe / each : peers;
    port->pd = table->alloc_pd(port->context);
    if (!port->pd)
        return no_part(port, "protection domain");
    port->channel = table->create_comp_channel(port->context);
    if (!port->channel)
        return no_part(port, "completion channel");
    port->cq = table->create_cq(port->context, port->room * each, NULL, port->channel, 0);
    return port->cq ? RCM_OK : no_part(port, "completion queue");
}

static rcm_status port_watch(const struct verbs_port *port) {
    struct epoll_event event = {.events = EPOLLIN};
    const int fds[] = {port->channel->fd, port->context->async_fd};
    for (int i = 0; i < 2; i++)
        if (fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK) != 0)
            return no_part(port, "non-blocking events");
    if (epoll_ctl(port->domain->epoll, EPOLL_CTL_ADD, port->channel->fd, &event) != 0)
        return no_part(port, "events");
    return RCM_OK;
}

static void port_close(struct verbs_port *port) {
    const struct verbs_table *table = port->domain->table;
    if (port->method)
        port->method->close(port);
    if (port->cq)
        table->destroy_cq(port->cq);
    if (port->channel)
        table->destroy_comp_channel(port->channel);
    if (port->pd)
        table->dealloc_pd(port->pd);
    if (port->context)
        table->close_device(port->context);
    memset(port, 0, sizeof *port);
}

static rcm_status device_closed(const struct ibv_device *device) {
    char text[256];
    verbs_explain_open(device, errno, text, sizeof text);
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s", text);
}

static rcm_status port_open(struct verbs_port *port, struct ibv_device *device, int number) {
    const struct verbs_table *table = port->domain->table;
    struct ibv_port_attr attr = {.state = IBV_PORT_NOP};
    port->number = (uint8_t)number;
    snprintf(port->name, sizeof port->name, "%s:%d", device->name, number);
    port->context = table->open_device(device);
    if (!port->context)
        return device_closed(device);
    if (table->query_port(port->context, port->number, &attr) != 0)
        return no_part(port, "state");
    if (verbs_port_fault(&attr))
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s is of no use: %s", port->name,
                         verbs_port_fault(&attr));
    port->offered.layer = attr.link_layer ? attr.link_layer : IBV_LINK_LAYER_INFINIBAND;
    port->offered.lid = attr.lid;
    port->offered.mtu = (uint8_t)attr.active_mtu;
    port->offered.speed = port_speed(&attr);
    port->offered.distance = device_distance(port->domain, device);
    port->method =
        device->transport_type == IBV_TRANSPORT_IWARP ? &verbs_by_cm : &verbs_by_exchange;
    rcm_status status = port->method->open(port, attr.gid_tbl_len);
    if (status == RCM_OK)
        status = port_partition(port, attr.pkey_tbl_len);
    if (status == RCM_OK)
        status = port_queues(port);
    return status == RCM_OK ? port_watch(port) : status;
}

/* ---- All ports ------------------------------------------------------------------------------- */

/* A device, with its position in libibverbs' list. */
struct listed {
    struct ibv_device *device;
    int position;
    uint8_t distance;
};

/* The number of ports; 0 with the thread's error if it cannot be read. */
static int device_ports(const struct verbs_table *table, struct ibv_device *device) {
    struct ibv_device_attr attr = {.phys_port_cnt = 0};
    struct ibv_context *context = table->open_device(device);
    if (!context) {
        (void)device_closed(device);
        return 0;
    }
    const int error = table->query_device(context, &attr);
    if (error)
        (void)rcmi_fail(RCM_ERR_UNSUPPORTED, error, "no attributes of %s", device->name);
    (void)table->close_device(context);
    return error ? 0 : attr.phys_port_cnt;
}

/* Appends to left_out: "fake8:1, fake9:1" */
static void port_leave_out(struct verbs_domain *domain, const struct ibv_device *device,
                           int number) {
    const size_t used = strlen(domain->left_out);
    snprintf(domain->left_out + used, sizeof domain->left_out - used, "%s%s:%d", used ? ", " : "",
             device->name, number);
}

/* Opens the usable ports of the device. The reason for an unusable one is the thread's error. */
static void device_open(struct verbs_domain *domain, const struct listed *listed,
                        const char *list) {
    struct ibv_device *device = listed->device;
    const char *fault = verbs_device_fault(domain->table, device, list[0]);
    if (fault) {
        (void)rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s is of no use: %s", device->name, fault);
        return;
    }
    const int n = device_ports(domain->table, device);
    for (int i = 1; i <= n; i++) {
        if (list[0] && !list_names(list, device->name, i))
            continue;
        if (domain->nports == VERBS_PORTS_MAX) {
            port_leave_out(domain, device, i);
            continue;
        }
        struct verbs_port *port = &domain->ports[domain->nports];
        port->domain = domain;
        port->position = listed->position;
        if (port_open(port, device, i) == RCM_OK)
            domain->nports++;
        else
            port_close(port);
    }
}

/* The error if no device sets a more specific one. */
static void explain_nothing(struct ibv_device **devices, const char *list) {
    char text[256];
    verbs_explain_none(VERBS_SYS, VERBS_DEV, text, sizeof text);
    if (devices && devices[0])
        snprintf(text, sizeof text, "no port is one of RINGCOMM_VERBS_DEVICES=%.100s", list);
    (void)rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s", text);
}

static int nearer(const void *x, const void *y) {
    const struct listed *a = x, *b = y;
    return a->distance != b->distance ? a->distance - b->distance : a->position - b->position;
}

static int listed_before(const void *x, const void *y) {
    const struct verbs_port *a = x, *b = y;
    return a->position != b->position ? a->position - b->position : a->number - b->number;
}

/* Opens the nearest ports, then sorts them in list order, which is that of rails. */
static void ports_take(struct verbs_domain *domain, struct listed *devices, int n,
                       const char *list) {
    qsort(devices, (size_t)n, sizeof *devices, nearer);
    for (int i = 0; i < n; i++)
        device_open(domain, &devices[i], list);
    qsort(domain->ports, (size_t)domain->nports, sizeof domain->ports[0], listed_before);
    if (domain->left_out[0] && domain->node)
        rcmi_log(RCMI_LOG_INFO,
                 "a rank uses at most %d RDMA ports, those nearest to its data; left out: %s "
                 "(RINGCOMM_VERBS_DEVICES selects ports)",
                 VERBS_PORTS_MAX, domain->left_out);
}

rcm_status verbs_ports_open(struct verbs_domain *domain) {
    const char *list = rcmi_setting("RINGCOMM_VERBS_DEVICES");
    int n = 0, named = 0;
    struct ibv_device **devices = domain->table->get_device_list(&n);
    struct listed *all = calloc((size_t)n + 1, sizeof *all);
    explain_nothing(devices, list);
    for (int i = 0; devices && all && i < n; i++)
        if (!list[0] || list_names(list, devices[i]->name, 0))
            all[named++] = (struct listed){devices[i], i, device_distance(domain, devices[i])};
    ports_take(domain, all, named, list);
    free(all);
    if (devices)
        domain->table->free_device_list(devices);
    return domain->nports > 0 ? RCM_OK : RCM_ERR_UNSUPPORTED;
}

void verbs_ports_close(struct verbs_domain *domain) {
    for (int i = 0; i < domain->nports; i++)
        port_close(&domain->ports[i]);
    domain->nports = 0;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Registering locks memory. Bytes of a link with one channel of each kind in each direction. */
size_t verbs_locked_bytes(const struct rcmi_need *need) {
    return (size_t)(VERBS_RECEIVES + VERBS_SENDS) * VERBS_NOTICE_STEP +
           2 * need->slots * need->slot_bytes * (1 + VERBS_BULK_SCALE);
}

/* The kernel checks the capability in the initial user namespace, so root in a container may be
 * limited like other users. */
bool verbs_locks_all(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    struct stat users;
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[0].effective & 1u << CAP_IPC_LOCK) != 0 &&
           stat("/proc/self/ns/user", &users) == 0 && users.st_ino == FIRST_USERS;
}

bool verbs_may_lock(const struct rcmi_need *need, char *reason, size_t cap) {
    const unsigned long long each = verbs_locked_bytes(need),
                             all = each * (unsigned)(need->nranks - 1);
    struct rlimit limit;
    if (verbs_locks_all() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= all)
        return true;
    snprintf(reason, cap,
             "it needs %llu bytes of locked memory, %llu for each peer, and this process may lock "
             "%llu: ulimit -l %llu, or unlimited",
             all, each, (unsigned long long)limit.rlim_cur, (all + 1023) / 1024);
    return false;
}

void verbs_ports_name(const struct verbs_domain *domain, char *text, size_t cap) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < domain->nports && used < cap; i++)
        used +=
            (size_t)snprintf(text + used, cap - used, "%s%s", i ? ", " : "", domain->ports[i].name);
}

bool verbs_ports_probe(const struct rcmi_need *need, char *reason, size_t cap) {
    struct verbs_domain *domain = rcmi_zalloc(sizeof *domain);
    if (!domain)
        return false;
    domain->table = verbs_table(reason, cap);
    domain->nranks = need->nranks;
    verbs_place_of_rank("", &domain->place);
    domain->epoll = rcmi_fd_high(epoll_create1(EPOLL_CLOEXEC));
    bool works = domain->table && verbs_may_lock(need, reason, cap);
    if (works && verbs_ports_open(domain) != RCM_OK) {
        snprintf(reason, cap, "%s", rcm_last_error());
        works = false;
    }
    if (works)
        verbs_ports_name(domain, reason, cap);
    verbs_ports_close(domain);
    rcmi_fd_close(&domain->epoll);
    free(domain);
    return works;
}

/* The limit, for error texts. */
static void explain_locked(char *text, size_t cap) {
    struct rlimit limit;
    text[0] = '\0';
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, cap, "; this process may lock %llu bytes (ulimit -l)",
                 (unsigned long long)limit.rlim_cur);
}

rcm_status verbs_mr_make(const struct verbs_port *port, void *memory, size_t bytes, int access,
                         struct ibv_mr **ret_mr) {
    char limit[100];
    *ret_mr = port->domain->table->reg_mr(port->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | access);
    if (*ret_mr)
        return RCM_OK;
    const int error = errno;
    explain_locked(limit, sizeof limit);
    return rcmi_fail(error == EFAULT ? RCM_ERR_INVALID : RCM_ERR_RESOURCE, error,
                     "%zu bytes cannot be registered with %s%s", bytes, port->name, limit);
}

rcm_status verbs_region_make(const struct verbs_port *port, size_t bytes, int access,
                             struct verbs_region *ret_region) {
    struct ibv_mr *mr = NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return rcmi_fail(RCM_ERR_NOMEM, errno, "no memory for %zu bytes of slots", bytes);
    const rcm_status status = verbs_mr_make(port, memory, bytes, access, &mr);
    if (status != RCM_OK) {
        munmap(memory, bytes);
        return status;
    }
    *ret_region = (struct verbs_region){memory, bytes, mr};
    return RCM_OK;
}

void verbs_region_free(const struct verbs_table *table, struct verbs_region *region) {
    if (!region->mr)
        return;
    (void)table->dereg_mr(region->mr);
    munmap(region->memory, region->bytes);
    region->mr = NULL;
}
