/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses of this host's network interfaces, which of them others may reach, and in what
 * order they are published. Small things about socket addresses.
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
    int prefix; /* bits that all addresses of its network have in common */
    char name[RCMI_IFACE_MAX];
};

/* Addresses by which this host may be reached, likely ones first, loopback last; for the caller to
 * free. iface: "" or RINGCOMM_IFACE, a comma list of names of interfaces, addresses and networks
 * (10.1.0.0/16), RCM_ERR_CONFIG with the reason if none is of use; with "" there may be none at
 * all. */
rcm_status rcmi_interfaces(const char *iface, struct rcmi_interface **ret_interfaces,
                           int *ret_count);
/* Moves those first by which peers most likely reach this host: the one from which `toward` is
 * reached (NULL or without length: nothing is known of it), others in its network, the one of the
 * default route. */
void rcmi_interfaces_prefer(struct rcmi_interface *interfaces, int count,
                            const struct rcmi_sockaddr *toward);
/* Why this host has no address that others can reach, as a clause. */
void rcmi_interfaces_explain(char *text, size_t cap);

bool rcmi_interface_is(const struct rcmi_interface *interface, const struct rcmi_sockaddr *addr);
/* Is addr in its network? */
bool rcmi_interface_reaches(const struct rcmi_interface *interface,
                            const struct rcmi_sockaddr *addr);

/* Does this TCP connection end on the host on which it begins, as far as its addresses tell? */
bool rcmi_socket_stays_home(int fd);

#endif
