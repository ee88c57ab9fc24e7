/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Diagnosis of a stalled TCP connection from the kernel's counters. If the path between two hosts
 * has a smaller MTU than their interfaces, and no router reports it (a black hole), short packets
 * pass and long ones are lost. Connections are established and small messages work, but large ones
 * never arrive.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include "fd.h"

#define ATTEMPTS 3 /* in a row; ordinary loss causes fewer */

/* At least one long packet is unacknowledged and was retransmitted several times. */
static bool sends_in_vain(int fd, const struct tcp_info *info) {
    int unanswered = 0;
    return info->tcpi_retransmits >= ATTEMPTS && ioctl(fd, SIOCOUTQ, &unanswered) == 0 &&
           unanswered > 0 && (uint32_t)unanswered >= info->tcpi_snd_mss;
}

/* Packets arrived after a missing one. Kernels before 5.4 do not count them. */
static bool misses_one(const struct tcp_info *info, socklen_t len) {
    return len >= offsetof(struct tcp_info, tcpi_rcv_ooopack) + sizeof info->tcpi_rcv_ooopack &&
           info->tcpi_rcv_ooopack > 0;
}

void rcmi_socket_describe_stall(int fd, char text[RCMI_STALL_TEXT]) {
    const int saved_errno = errno;
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    text[0] = '\0';
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        len = 0;
    else if (sends_in_vain(fd, &info))
        snprintf(text, RCMI_STALL_TEXT,
                 " (packets of %u bytes are not acknowledged; " RCMI_STALL_MTU ")",
                 info.tcpi_snd_mss);
    else if (misses_one(&info, len))
        snprintf(text, RCMI_STALL_TEXT,
                 " (the end of a message arrived, but not its beginning; " RCMI_STALL_MTU ")");
    errno = saved_errno;
}
