/* SPDX-License-Identifier: BSD-3-Clause */
/* Available memory: see memory_check.h. */
#include "memory_check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "cgroup.h"
#include "error.h"
#include "fd.h"

/* After a check, this share of the available memory may be taken without another check. It is
 * small, because other processes take memory too. */
#define SHARE      16
#define UNSEEN_MAX ((size_t)16 << 20)
#define TRIFLE     ((size_t)64 << 10) /* smaller requests are not checked */

/* Bytes that may be taken before the next check. Relaxed: a hint. */
static _Atomic size_t unseen;

/* Available memory of the machine including swap, and the swap alone; in bytes, SIZE_MAX if
 * unknown. */
static size_t machine_room(uint64_t *ret_swap) {
    char line[128];
    unsigned long long kib, available = 0, swap = 0;
    bool known = false;
    FILE *file = rcmi_fopen("/proc/meminfo");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) {
            available = kib;
            known = true;
        } else if (sscanf(line, "SwapFree: %llu", &kib) == 1) {
            swap = kib;
        }
    }
    if (file)
        (void)fclose(file);
    *ret_swap = (uint64_t)swap * 1024;
    return known ? (size_t)(available + swap) * 1024 : SIZE_MAX;
}

static bool unseen_take(size_t bytes) {
    size_t left = atomic_load_explicit(&unseen, memory_order_relaxed);
    while (left >= bytes)
        if (atomic_compare_exchange_weak_explicit(&unseen, &left, left - bytes,
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    return false;
}

rcm_status rcmi_memory_check(size_t bytes) {
    struct rcmi_cgroup_memory group;
    uint64_t swap;
    if (bytes < TRIFLE || unseen_take(bytes))
        return RCM_OK;
    const size_t machine = machine_room(&swap);
    rcmi_cgroup_memory(swap, &group);
    if (bytes > machine)
        return rcmi_fail(RCM_ERR_RESOURCE, 0,
                         "%zu bytes of memory are needed, but %zu are available on this machine",
                         bytes, machine);
    if (bytes > group.room)
        return rcmi_fail(
            RCM_ERR_RESOURCE, 0,
            "%zu bytes of memory are needed, but %llu are available: %s is %llu. Raise "
            "that limit, or use less",
            bytes, (unsigned long long)group.room, group.file, (unsigned long long)group.limit);
    const size_t room = group.room < machine ? (size_t)group.room : machine;
    const size_t share = (room - bytes) / SHARE;
    atomic_store_explicit(&unseen, share < UNSEEN_MAX ? share : UNSEEN_MAX, memory_order_relaxed);
    return RCM_OK;
}
