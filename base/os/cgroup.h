/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of the control groups that this process is in: CPU quota, memory and tasks, version 1 and
 * 2. The limits of all parents count, as far as they can be seen: a container sees its own groups
 * only.
 *
 *                version 2                             version 1
 *   CPUs         cpu.max                               cpu.cfs_quota_us, cpu.cfs_period_us
 *   memory       memory.max, memory.high               memory.limit_in_bytes
 *   with swap    memory.swap.max                       memory.memsw.limit_in_bytes
 *   in use       memory.current, memory.swap.current   memory.usage_in_bytes, memory.memsw.usage...
 *   tasks        pids.max, pids.current                the same
 *
 * Not here: what the whole machine has (memory_room.h, sched_getaffinity).
 */
#ifndef RCMI_CGROUP_H
#define RCMI_CGROUP_H

#include <stddef.h>
#include <stdint.h>

#define RCMI_CGROUP_FILE 256

struct rcmi_cgroup_cpus {
    double cpus;                 /* 0: no limit, or not known */
    uint64_t group;              /* equal for all processes of this host under the same limit */
    char file[RCMI_CGROUP_FILE]; /* that has the limit; "": none */
};
/* The lowest quota; of equal ones that of the outermost group, which has the most processes. */
void rcmi_cgroup_cpus(struct rcmi_cgroup_cpus *ret_cpus);

struct rcmi_cgroup_memory {
    uint64_t limit;              /* UINT64_MAX: none, or not known */
    uint64_t room;               /* bytes that can be had; caches count as free. UINT64_MAX */
    char file[RCMI_CGROUP_FILE]; /* that has the limit; "": none */
};
/* Of the group with the least room. swap_free: of the machine. */
void rcmi_cgroup_memory(uint64_t swap_free, struct rcmi_cgroup_memory *ret_memory);

struct rcmi_cgroup_tasks {
    uint64_t limit;
    char file[RCMI_CGROUP_FILE]; /* that has the limit; "": no group is full */
};
/* The innermost group that has as many tasks as it may have. */
void rcmi_cgroup_tasks(struct rcmi_cgroup_tasks *ret_tasks);

/* For tests: all paths begin with this prefix, which lives as long as it is used. "": the system's
 * own. */
void rcmi_cgroup_set_root(const char *prefix);

#endif
