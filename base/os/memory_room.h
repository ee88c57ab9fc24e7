/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether memory can be had without anybody being killed for it: what the machine has, and what
 * the control groups of this process allow (cgroup.h). Limits of address space and of overcommit
 * are not here: the system call that passes them fails.
 */
#ifndef RCMI_MEMORY_ROOM_H
#define RCMI_MEMORY_ROOM_H

#include <stddef.h>
#include "ringcomm.h"

/* Before so many bytes are taken and written to. RCM_ERR_RESOURCE, with the limit. Cheap: small
 * amounts are looked into together. Any thread. */
rcm_status rcmi_memory_check(size_t bytes);

#endif
