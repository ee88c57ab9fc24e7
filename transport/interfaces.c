/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of this host's network interfaces, and small things about socket addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include "internal.h"

static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

bool rcmi_sockaddr_loopback(const struct rcmi_sockaddr *addr) {
    if (addr->addr.ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &addr->addr, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, &addr->addr, sizeof in6);
    const uint8_t *b = in6.sin6_addr.s6_addr;
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) || (memcmp(b, v4_mapped, 12) == 0 && b[12] == 127);
}

void rcmi_sockaddr_set_port(struct rcmi_sockaddr *addr, uint16_t port) {
    /* The port lies at the same place in both families. */
    struct sockaddr_in in;
    memcpy(&in, &addr->addr, sizeof in);
    in.sin_port = htons(port);
    memcpy(&addr->addr, &in, sizeof in);
}

uint16_t rcmi_sockaddr_port(const struct rcmi_sockaddr *addr) {
    struct sockaddr_in in;
    memcpy(&in, &addr->addr, sizeof in);
    return ntohs(in.sin_port);
}

/* Copies an interface's address; false if it is of no use here. Link-local IPv6 addresses mean
 * something only together with the number of an interface of the one who connects. */
static bool interface_addr(const struct ifaddrs *entry, struct rcmi_sockaddr *ret_addr) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP))
        return false;
    memset(ret_addr, 0, sizeof *ret_addr);
    if (entry->ifa_addr->sa_family == AF_INET) {
        ret_addr->len = sizeof(struct sockaddr_in);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, entry->ifa_addr, sizeof in6);
        if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
            return false;
        ret_addr->len = sizeof(struct sockaddr_in6);
    } else {
        return false;
    }
    memcpy(&ret_addr->addr, entry->ifa_addr, ret_addr->len);
    return true;
}

/* Does this entry match RINGCOMM_IFACE, an interface's name or an address? */
static bool interface_wanted(const struct ifaddrs *entry, const char *iface) {
    char text[INET6_ADDRSTRLEN] = "";
    if (!iface[0] || strcmp(entry->ifa_name, iface) == 0)
        return true;
    if (entry->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, entry->ifa_addr, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, entry->ifa_addr, sizeof in6);
        inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text);
    }
    return strcmp(text, iface) == 0;
}

/* Likely ones have the lower number: IPv4 before IPv6, bridges of containers and virtual machines,
 * which exist on every host with the same address, late, loopback last. */
static int interface_order(const struct ifaddrs *entry, const struct rcmi_sockaddr *addr) {
    static const char *const local[] = {"docker", "virbr", "br-", "lxc", "veth", "cni", "podman"};
    int order = addr->addr.ss_family == AF_INET6 ? 1 : 0;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        if (strncmp(entry->ifa_name, local[i], strlen(local[i])) == 0)
            return order + 2;
    return rcmi_sockaddr_loopback(addr) ? order + 4 : order;
}

rcm_status rcmi_interfaces(const char *iface, struct rcmi_sockaddr *ret_addrs, int cap,
                           int *ret_count) {
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot list the network interfaces");
    int count = 0;
    for (int order = 0; order < 6; order++) {
        for (const struct ifaddrs *entry = list; entry && count < cap; entry = entry->ifa_next) {
            struct rcmi_sockaddr addr;
            if (interface_addr(entry, &addr) && interface_wanted(entry, iface) &&
                interface_order(entry, &addr) == order)
                ret_addrs[count++] = addr;
        }
    }
    freeifaddrs(list);
    for (int i = 0; i < count; i++)
        rcmi_sockaddr_set_port(&ret_addrs[i], 0);
    if (count == 0 && iface[0])
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "RINGCOMM_IFACE is '%s', and no interface that is up has this name or "
                         "address",
                         iface);
    *ret_count = count;
    return RCM_OK;
}
