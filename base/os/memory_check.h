/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that memory is available without triggering the out-of-memory killer: memory of the
 * machine, and limits of this process's control groups (cgroup.h). Not here: limits of address
 * space and overcommit, which make the system call itself fail.
 */
#ifndef RCMI_MEMORY_CHECK_H
#define RCMI_MEMORY_CHECK_H

#include <stddef.h>
#include "ringcomm.h"

/* Call before taking and writing to `bytes` of memory. RCM_ERR_RESOURCE names the limit. Cheap:
 * small amounts are checked together. Any thread. */
rcm_status rcmi_memory_check(size_t bytes);

#endif
