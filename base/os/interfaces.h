/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses of this host's network interfaces: which ones others may reach, and the order in
 * which they are published. Helpers for socket addresses.
 *
 * Not here: sockets (fd.h).
 */
#ifndef RCMI_INTERFACES_H
#define RCMI_INTERFACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "fd.h"

#define RCMI_IFACE_MAX 16 /* an interface's name with its NUL */

bool rcmi_sockaddr_loopback(const struct rcmi_sockaddr *addr);
void rcmi_sockaddr_set_port(struct rcmi_sockaddr *addr, uint16_t port);
uint16_t rcmi_sockaddr_port(const struct rcmi_sockaddr *addr);

/* An address of an interface of this host, port 0. */
struct rcmi_interface {
    struct rcmi_sockaddr addr;
    int prefix; /* length of the network prefix, in bits */
    char name[RCMI_IFACE_MAX];
};

/* Addresses by which this host may be reached, likely ones first, loopback last; the caller frees
 * them. iface: "" or RINGCOMM_IFACE, a comma-separated list of interface names, addresses and
 * networks (10.1.0.0/16). RCM_ERR_CONFIG with the reason if none is usable. With "" the list may be
 * empty. */
rcm_status rcmi_interfaces(const char *iface, struct rcmi_interface **ret_interfaces,
                           int *ret_count);
/* Moves to the front the addresses by which peers most likely reach this host: the source address
 * for `toward` (NULL or without length: unknown), others in its network, the one of the default
 * route. */
void rcmi_interfaces_prefer(struct rcmi_interface *interfaces, int count,
                            const struct rcmi_sockaddr *toward);
/* Why this host has no address that others can reach, as a clause. */
void rcmi_interfaces_explain(char *text, size_t cap);

bool rcmi_interface_is(const struct rcmi_interface *interface, const struct rcmi_sockaddr *addr);
/* Is addr in its network? */
bool rcmi_interface_reaches(const struct rcmi_interface *interface,
                            const struct rcmi_sockaddr *addr);

/* Do both ends of this TCP connection have addresses of this host? */
bool rcmi_socket_stays_home(int fd);

#endif
