/* SPDX-License-Identifier: BSD-3-Clause */
/* See interfaces.h. */
#include "interfaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "error.h"
#include "fd.h"

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
    /* The port has the same offset in both families. */
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

/* ---- One entry of the system's list ---------------------------------------------------------- */

static bool entry_is_link_local(const struct ifaddrs *entry) {
    struct sockaddr_in6 in6;
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET6)
        return false;
    memcpy(&in6, entry->ifa_addr, sizeof in6);
    return IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr);
}

/* Copies an interface's address; false: none. */
static bool entry_addr(const struct ifaddrs *entry, struct rcmi_sockaddr *ret_addr) {
    if (!entry->ifa_addr)
        return false;
    memset(ret_addr, 0, sizeof *ret_addr);
    if (entry->ifa_addr->sa_family == AF_INET)
        ret_addr->len = sizeof(struct sockaddr_in);
    else if (entry->ifa_addr->sa_family == AF_INET6)
        ret_addr->len = sizeof(struct sockaddr_in6);
    else
        return false;
    memcpy(&ret_addr->addr, entry->ifa_addr, ret_addr->len);
    rcmi_sockaddr_set_port(ret_addr, 0);
    return true;
}

/* Rejects link-local IPv6 addresses: they are valid only with an interface number of the connecting
 * side. */
static bool entry_is_usable(const struct ifaddrs *entry) {
    return (entry->ifa_flags & IFF_UP) && !entry_is_link_local(entry);
}

static bool is_ipv4_link_local(const struct rcmi_sockaddr *addr) {
    struct sockaddr_in in;
    memcpy(&in, &addr->addr, sizeof in);
    return addr->addr.ss_family == AF_INET && ntohl(in.sin_addr.s_addr) >> 16 == 0xa9fe;
}

/* Sort order, more likely addresses first: IPv4 before IPv6. Bridges of containers and virtual
 * machines, which have the same address on every host, and 169.254.0.0/16 come late, loopback
 * last. */
static int interface_order(const struct ifaddrs *entry, const struct rcmi_sockaddr *addr) {
    static const char *const local[] = {"docker", "virbr", "br-", "lxc", "veth", "cni", "podman"};
    int order = addr->addr.ss_family == AF_INET6 ? 1 : 0;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        if (strncmp(entry->ifa_name, local[i], strlen(local[i])) == 0)
            return order + 2;
    if (is_ipv4_link_local(addr))
        return order + 2;
    return rcmi_sockaddr_loopback(addr) ? order + 4 : order;
}

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

/* ---- RINGCOMM_IFACE -------------------------------------------------------------------------- */

/* Parses "10.1.0.0/16" or an address into an interface with that network. */
static bool parse_network(const char *item, struct rcmi_interface *ret_network) {
    char text[INET6_ADDRSTRLEN + 4], *slash, *end = NULL;
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    memset(ret_network, 0, sizeof *ret_network);
    snprintf(text, sizeof text, "%s", item);
    slash = strchr(text, '/');
    if (slash)
        *slash = '\0';
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        memcpy(&ret_network->addr.addr, &in, sizeof in);
    else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1)
        memcpy(&ret_network->addr.addr, &in6, sizeof in6);
    else
        return false;
    ret_network->prefix = ret_network->addr.addr.ss_family == AF_INET6 ? 128 : 32;
    if (!slash)
        return true;
    const long bits = strtol(slash + 1, &end, 10);
    if (end == slash + 1 || *end || bits < 1 || bits > ret_network->prefix)
        return false;
    ret_network->prefix = (int)bits;
    return true;
}

static bool item_names(const char *item, const struct ifaddrs *entry) {
    struct rcmi_interface network;
    struct rcmi_sockaddr addr;
    if (strcmp(entry->ifa_name, item) == 0)
        return true;
    return parse_network(item, &network) && entry_addr(entry, &addr) &&
           rcmi_interface_reaches(&network, &addr);
}

/* The item of a comma-separated list at *at; advances *at; false at the end. */
static bool next_item(const char **at, char item[80]) {
    *at += strspn(*at, ", ");
    const size_t len = strcspn(*at, ", ");
    snprintf(item, 80, "%.*s", (int)(len < 79 ? len : 79), *at);
    *at += len;
    return len > 0;
}

static bool interface_wanted(const struct ifaddrs *entry, const char *iface) {
    char item[80];
    for (const char *at = iface; next_item(&at, item);)
        if (item_names(item, entry))
            return true;
    return !iface[0];
}

/* Reports what is wrong with the first item of the list. */
static rcm_status wanted_fail(const char *iface, const struct ifaddrs *list) {
    char item[80];
    const char *at = iface, *why = "no interface has this name, address or network";
    bool found = false, up = false, link_local = false, any = false;
    (void)next_item(&at, item);
    for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        struct rcmi_sockaddr addr;
        if (!item_names(item, entry))
            continue;
        found = true;
        up = up || (entry->ifa_flags & IFF_UP);
        any = any || entry_addr(entry, &addr);
        link_local = link_local || entry_is_link_local(entry);
    }
    if (found && !up)
        why = "this interface is down";
    else if (found && !any)
        why = "this interface is up but has no address";
    else if (found && link_local)
        why = "this interface is up but has only IPv6 link-local addresses, which are not valid "
              "on another host";
    return rcmi_fail(RCM_ERR_CONFIG, 0, "RINGCOMM_IFACE is '%s', but %s", iface, why);
}

/* ---- The list -------------------------------------------------------------------------------- */

static int list_length(const struct ifaddrs *list) {
    int n = 0;
    for (; list; list = list->ifa_next)
        n++;
    return n;
}

rcm_status rcmi_interfaces(const char *iface, struct rcmi_interface **ret_interfaces,
                           int *ret_count) {
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot list the network interfaces");
    struct rcmi_interface *interfaces = calloc((size_t)list_length(list) + 1, sizeof *interfaces);
    int count = 0;
    for (int order = 0; interfaces && order < 6; order++) {
        for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
            struct rcmi_interface *found = &interfaces[count];
            if (!entry_is_usable(entry) || !entry_addr(entry, &found->addr) ||
                !interface_wanted(entry, iface) || interface_order(entry, &found->addr) != order)
                continue;
            found->prefix = netmask_bits(entry);
            snprintf(found->name, sizeof found->name, "%s", entry->ifa_name);
            count++;
        }
    }
    rcm_status status =
        interfaces ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for addresses");
    if (status == RCM_OK && count == 0 && iface[0])
        status = wanted_fail(iface, list);
    freeifaddrs(list);
    *ret_count = count;
    *ret_interfaces = interfaces;
    if (status == RCM_OK)
        return RCM_OK;
    free(interfaces);
    *ret_interfaces = NULL;
    return status;
}

void rcmi_interfaces_explain(char *text, size_t cap) {
    struct ifaddrs *list = NULL;
    const char *name = NULL;
    bool link_local = false;
    if (getifaddrs(&list) != 0)
        list = NULL;
    for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        if (!(entry->ifa_flags & IFF_UP) || (entry->ifa_flags & IFF_LOOPBACK))
            continue;
        name = link_local ? name : entry->ifa_name;
        link_local = link_local || entry_is_link_local(entry);
    }
    if (!name)
        snprintf(text, cap, "no network interface except loopback is up");
    else
        snprintf(text, cap, "its interfaces, such as %s, have no address%s", name,
                 link_local ? " except link-local ones" : "");
    freeifaddrs(list);
}

/* ---- Preference ------------------------------------------------------------------------------ */

/* The source address of packets to `to`; sends nothing. */
static bool route_source(const struct rcmi_sockaddr *to, struct rcmi_sockaddr *ret_from) {
    int fd = rcmi_fd_high(socket(to->addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    struct rcmi_sockaddr from = {.len = sizeof from.addr};
    const bool found = fd >= 0 && connect(fd, (const struct sockaddr *)&to->addr, to->len) == 0 &&
                       getsockname(fd, (struct sockaddr *)&from.addr, &from.len) == 0;
    if (fd >= 0)
        close(fd);
    *ret_from = from;
    return found;
}

/* An Internet address, from the range reserved for documentation. */
static void somewhere(struct rcmi_sockaddr *ret_addr) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(9)};
    in.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 */
    memset(ret_addr, 0, sizeof *ret_addr);
    memcpy(&ret_addr->addr, &in, sizeof in);
    ret_addr->len = sizeof in;
}

/* Moves the interfaces that reach addr to the front; stable. */
static void bring_forward(struct rcmi_interface *interfaces, int count,
                          const struct rcmi_sockaddr *addr, bool exactly) {
    int front = 0;
    for (int i = 0; i < count; i++) {
        const struct rcmi_interface found = interfaces[i];
        if (!(exactly ? rcmi_interface_is(&found, addr) : rcmi_interface_reaches(&found, addr)))
            continue;
        memmove(&interfaces[front + 1], &interfaces[front], (size_t)(i - front) * sizeof found);
        interfaces[front++] = found;
    }
}

void rcmi_interfaces_prefer(struct rcmi_interface *interfaces, int count,
                            const struct rcmi_sockaddr *toward) {
    struct rcmi_sockaddr from, anywhere;
    somewhere(&anywhere);
    if (route_source(&anywhere, &from))
        bring_forward(interfaces, count, &from, true);
    if (!toward || toward->len == 0 || rcmi_sockaddr_loopback(toward) ||
        !route_source(toward, &from))
        return;
    bring_forward(interfaces, count, &from, false);
    bring_forward(interfaces, count, &from, true);
}
