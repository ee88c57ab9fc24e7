/* SPDX-License-Identifier: BSD-3-Clause */
/* Between fd.c and socket.c: descriptors that a forked child closes, see fd.h. */
#ifndef RCMI_OWN_H
#define RCMI_OWN_H

void rcmi_fd_own(int fd);

#endif
