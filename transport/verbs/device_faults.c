/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_faults.h"
#include "fd.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Lists the first devices, "mlx5_0, mlx5_1"; false: there are none. */
static bool devices_name(const char *sys, char *text, size_t cap) {
    size_t used = 0;
    DIR *folder = rcmi_opendir(sys);
    text[0] = '\0';
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL && used < cap / 2;)
        if (entry->d_name[0] != '.')
            used += (size_t)snprintf(text + used, cap - used, "%s%.40s", used ? ", " : "",
                                     entry->d_name);
    if (folder)
        closedir(folder);
    return used > 0;
}

void verbs_explain_none(const char *sys, const char *dev, char *text, size_t cap) {
    char names[100];
    if (!devices_name(sys, names, sizeof names))
        snprintf(text, cap, "there is no RDMA device here (%s has none)", sys);
    else if (access(dev, F_OK) != 0)
        snprintf(text, cap,
                 "there are RDMA devices (%s), but no %s: a container must be given it, as by "
                 "--device=%s",
                 names, dev, dev);
    else
        snprintf(text, cap,
                 "there are RDMA devices (%s), but libibverbs has no driver for them: install "
                 "ibverbs-providers, or the package of rdma-core that the devices need",
                 names);
}

static bool has_reliable_connections(const struct ibv_device *device) {
    return (device->node_type == IBV_NODE_CA && device->transport_type == IBV_TRANSPORT_IB) ||
           (device->node_type == IBV_NODE_RNIC && device->transport_type == IBV_TRANSPORT_IWARP);
}

const char *verbs_device_fault(const struct verbs_table *table, const struct ibv_device *device,
                               bool named) {
    if (device->transport_type == IBV_TRANSPORT_IWARP && !table->cm())
        return "only rdma_cm connects it (iWARP), and there is no librdmacm.so.1 here: install "
               "librdmacm1 (of rdma-core)";
    if (!has_reliable_connections(device))
        return "it has no reliable connections (as EFA)";
    if (!named && !table->is_hardware(device))
        return "it is no hardware, and RINGCOMM_VERBS_DEVICES does not name it";
    if (!named && device->transport_type == IBV_TRANSPORT_IWARP)
        return "it is iWARP, of which nothing has been run on hardware, and RINGCOMM_VERBS_DEVICES "
               "does not name it";
    return NULL;
}

void verbs_explain_open(const struct ibv_device *device, int error, char *text, size_t cap) {
    const bool denied = error == EACCES || error == EPERM;
    snprintf(text, cap, "%s cannot be opened: %s%s%s%s", device->name, strerror(error),
             denied ? "; this user, or this container, must be allowed to open " VERBS_DEV "/" : "",
             denied ? device->dev_name : "", denied ? " and to write there" : "");
}

const char *verbs_port_fault(const struct ibv_port_attr *attr) {
    if (attr->state == IBV_PORT_ACTIVE)
        return NULL;
    if (attr->state == IBV_PORT_INIT || attr->state == IBV_PORT_ARMED)
        return "it waits for a subnet manager (opensm, or the switch's)";
    return attr->link_layer == IBV_LINK_LAYER_ETHERNET
               ? "it is down: no cable, or its interface is not up (ip link set NAME up)"
               : "it is down: no cable, or the other end is off";
}

/* The port's network and prefix length, as text. */
static void network_text(const struct verbs_offered *port, char *text, size_t cap) {
    const uint64_t subnet = verbs_subnet(port);
    const uint32_t ipv4 = htonl((uint32_t)subnet);
    struct in6_addr ipv6 = {{{0}}};
    char address[INET6_ADDRSTRLEN] = "";
    memcpy(&ipv6, &subnet, sizeof subnet);
    inet_ntop(port->ipv4 ? AF_INET : AF_INET6, port->ipv4 ? (const void *)&ipv4 : &ipv6, address,
              sizeof address);
    snprintf(text, cap, "%s%s/%d",
             port->layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand "
             : port->layer == VERBS_LAYER_IWARP       ? "iWARP "
                                                      : "",
             address, port->ipv4 ? port->ipv4 : 64);
}

void verbs_networks_text(const struct verbs_side *side, char *text, size_t cap) {
    char one[INET6_ADDRSTRLEN + 20];
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < side->nports && used < cap; i++) {
        network_text(&side->ports[i], one, sizeof one);
        if (side->ports[i].layer == VERBS_LAYER_NONE || strstr(text, one))
            continue;
        used += (size_t)snprintf(text + used, cap - used, "%s%s", used ? ", " : "", one);
    }
}
