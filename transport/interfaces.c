/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of this host's network interfaces, and small things about socket addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
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
 * something only together with the number of an interface of the side that connects. */
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

/* The bytes of an address without its port. */
static const uint8_t *address_bytes(const struct sockaddr_storage *addr, size_t *ret_len) {
    const bool v6 = addr->ss_family == AF_INET6;
    *ret_len = v6 ? 16 : 4;
    return (const uint8_t *)addr +
           (v6 ? offsetof(struct sockaddr_in6, sin6_addr) : offsetof(struct sockaddr_in, sin_addr));
}

static bool same_bits(const struct rcmi_sockaddr *a, const struct rcmi_sockaddr *b, int bits) {
    size_t len = 0;
    const uint8_t *left = address_bytes(&a->addr, &len), *right = address_bytes(&b->addr, &len);
    if (a->addr.ss_family != b->addr.ss_family || bits < 0 || (size_t)bits > 8 * len)
        return false;
    const size_t whole = (size_t)bits / 8;
    const int rest = bits % 8;
    return memcmp(left, right, whole) == 0 &&
           (rest == 0 || (left[whole] ^ right[whole]) >> (8 - rest) == 0);
}

bool rcmi_interface_is(const struct rcmi_interface *interface, const struct rcmi_sockaddr *addr) {
    return same_bits(&interface->addr, addr, addr->addr.ss_family == AF_INET6 ? 128 : 32);
}

bool rcmi_socket_stays_home(int fd) {
    struct rcmi_sockaddr own = {.len = sizeof own.addr}, peer = {.len = sizeof peer.addr};
    if (getsockname(fd, (struct sockaddr *)&own.addr, &own.len) != 0 ||
        getpeername(fd, (struct sockaddr *)&peer.addr, &peer.len) != 0)
        return false;
    if (peer.addr.ss_family != AF_INET && peer.addr.ss_family != AF_INET6)
        return false;
    return rcmi_sockaddr_loopback(&peer) ||
           same_bits(&own, &peer, peer.addr.ss_family == AF_INET6 ? 128 : 32);
}

bool rcmi_interface_reaches(const struct rcmi_interface *interface,
                            const struct rcmi_sockaddr *addr) {
    return interface->prefix > 0 && same_bits(&interface->addr, addr, interface->prefix);
}

static int netmask_bits(const struct ifaddrs *entry) {
    struct sockaddr_storage mask = {.ss_family = entry->ifa_addr->sa_family};
    size_t len = 0;
    int bits = 0;
    const uint8_t *bytes = address_bytes(&mask, &len);
    if (!entry->ifa_netmask)
        return 0;
    memcpy(&mask, entry->ifa_netmask,
           mask.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    for (size_t i = 0; i < len; i++)
        bits += __builtin_popcount(bytes[i]);
    return bits;
}

rcm_status rcmi_interfaces(const char *iface, struct rcmi_interface *ret_interfaces, int cap,
                           int *ret_count) {
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot list the network interfaces");
    int count = 0;
    for (int order = 0; order < 6; order++) {
        for (const struct ifaddrs *entry = list; entry && count < cap; entry = entry->ifa_next) {
            struct rcmi_interface found = {.prefix = 0};
            if (!interface_addr(entry, &found.addr) || !interface_wanted(entry, iface) ||
                interface_order(entry, &found.addr) != order)
                continue;
            found.prefix = netmask_bits(entry);
            snprintf(found.name, sizeof found.name, "%s", entry->ifa_name);
            rcmi_sockaddr_set_port(&found.addr, 0);
            ret_interfaces[count++] = found;
        }
    }
    freeifaddrs(list);
    if (count == 0 && iface[0])
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "RINGCOMM_IFACE is '%s', and no interface that is up has this name or "
                         "address",
                         iface);
    *ret_count = count;
    return RCM_OK;
}
