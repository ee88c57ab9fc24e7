/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a TCP store listens and by which name it is reached. */
#ifndef RCMI_TCP_LISTEN_H
#define RCMI_TCP_LISTEN_H

#include "ringcomm.h"

struct rcmi_listen_name {
    int port;
    char own_host[80]; /* for this process itself; "": loopback of either family */
    char url[300];     /* for others */
};

/* Of a descriptor that listens; host: the name it was given, NULL or "": none. */
rcm_status rcmi_listen_name(int fd, const char *host, struct rcmi_listen_name *ret_name);

#endif
