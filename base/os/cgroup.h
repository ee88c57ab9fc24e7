/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of this process's control groups, version 1 and 2: CPU quota, memory and tasks. The limits
 * of all visible parents count; a container sees only its own groups.
 *
 *                version 2                             version 1
 *   CPUs         cpu.max                               cpu.cfs_quota_us, cpu.cfs_period_us
 *   memory       memory.max, memory.high               memory.limit_in_bytes
 *   with swap    memory.swap.max                       memory.memsw.limit_in_bytes
 *   in use       memory.current, memory.swap.current   memory.usage_in_bytes, memory.memsw.usage...
 *   tasks        pids.max, pids.current                the same
 *
 * Not here: limits of the whole machine (memory_check.h, sched_getaffinity).
 */
#ifndef RCMI_CGROUP_H
#define RCMI_CGROUP_H

#include <stddef.h>
#include <stdint.h>

#define RCMI_CGROUP_FILE 256

struct rcmi_cgroup_cpus {
    double cpus;                 /* 0: no limit, or unknown */
    uint64_t group;              /* equal for all processes of this host with the same limit */
    char file[RCMI_CGROUP_FILE]; /* containing the limit; "": none */
};
/* The lowest quota; among equal ones that of the outermost group, which has the most processes. */
void rcmi_cgroup_cpus(struct rcmi_cgroup_cpus *ret_cpus);

struct rcmi_cgroup_memory {
    uint64_t limit;              /* UINT64_MAX: none, or unknown */
    uint64_t room;               /* available bytes; caches count as free. UINT64_MAX: no limit */
    char file[RCMI_CGROUP_FILE]; /* containing the limit; "": none */
};
/* The limit of the group with the least available memory. swap_free: of the machine. */
void rcmi_cgroup_memory(uint64_t swap_free, struct rcmi_cgroup_memory *ret_memory);

struct rcmi_cgroup_tasks {
    uint64_t limit;
    char file[RCMI_CGROUP_FILE]; /* containing the limit; "": no group is full */
};
/* The innermost group that has reached its limit of tasks. */
void rcmi_cgroup_tasks(struct rcmi_cgroup_tasks *ret_tasks);

/* For tests: sets a prefix for all paths; the string must stay valid. "": the system's own
 * paths. */
void rcmi_cgroup_set_root(const char *prefix);

#endif
