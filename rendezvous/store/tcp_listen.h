/* SPDX-License-Identifier: BSD-3-Clause */
/* The host names and the port of a TCP store's listener. */
#ifndef RCMI_TCP_LISTEN_H
#define RCMI_TCP_LISTEN_H

#include "ringcomm.h"

struct rcmi_listen_name {
    int port;
    char own_host[80]; /* for this process; "": loopback of either family */
    char url[300];     /* for other processes */
};

/* Returns the names of a listening descriptor; host: the name in its URL, NULL or "": none. */
rcm_status rcmi_listen_name(int fd, const char *host, struct rcmi_listen_name *ret_name);

#endif
