/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bind.c: see bind.h. hwloc lists the CPUs of the launcher's cpuset (cgroup); this file also
 * applies its affinity mask (taskset). If the system does not list cores, each CPU counts as one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind.h"

void run_cores_free(struct run_cores *cores) {
    for (int i = 0; i < cores->n; i++)
        CPU_FREE(cores->core[i].cpus);
    free(cores->core);
    *cores = (struct run_cores){0};
}

const struct run_core *run_cores_of(const struct run_cores *cores, int rank) {
    return &cores->core[rank % cores->n];
}

#if RUN_HAVE_HWLOC
#include <hwloc.h>
#include <hwloc/glibc-sched.h>

static const char *const no_memory = "no memory for the list of cores";

static void core_name(const struct run_core *core, hwloc_const_cpuset_t cpus, hwloc_obj_t object,
                      char *ret_name) {
    char cpu_list[48], node_list[24];
    hwloc_bitmap_list_snprintf(cpu_list, sizeof(cpu_list), cpus);
    hwloc_bitmap_list_snprintf(node_list, sizeof(node_list), object->nodeset);
    snprintf(ret_name, sizeof(core->name), "core %u (CPU %s, NUMA node %s)", object->logical_index,
             cpu_list, node_list);
}

/* cpus: the object's CPUs that the launcher may use. */
static const char *core_add(struct run_cores *cores, hwloc_topology_t topology, hwloc_obj_t object,
                            hwloc_const_cpuset_t cpus) {
    struct run_core *core = &cores->core[cores->n];
    core->cpus = CPU_ALLOC(cores->bytes * 8);
    if (!core->cpus)
        return no_memory;
    cores->n++;
    core_name(core, cpus, object, core->name);
    if (hwloc_cpuset_to_glibc_sched_affinity(topology, cpus, core->cpus, cores->bytes) != 0)
        return "a set of CPUs cannot be converted";
    return NULL;
}

/* allowed: set to the affinity mask. room: scratch space for the CPUs of one core. */
static const char *cores_list(struct run_cores *cores, hwloc_topology_t topology,
                              hwloc_cpuset_t allowed, hwloc_cpuset_t room) {
    const int depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
    const unsigned n = hwloc_get_nbobjs_by_depth(topology, depth);
    const char *why = NULL;
    if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_THREAD) != 0 ||
        hwloc_bitmap_last(allowed) < 0)
        return "hwloc cannot read the affinity mask";
    cores->bytes = CPU_ALLOC_SIZE(hwloc_bitmap_last(allowed) + 1);
    cores->core = calloc(n, sizeof(*cores->core));
    if (!cores->core)
        return no_memory;
    for (unsigned i = 0; i < n && !why; i++) {
        const hwloc_obj_t object = hwloc_get_obj_by_depth(topology, depth, i);
        hwloc_bitmap_and(room, object->cpuset, allowed);
        if (!hwloc_bitmap_iszero(room))
            why = core_add(cores, topology, object, room);
    }
    return !why && cores->n == 0 ? "hwloc finds no core in the affinity mask" : why;
}

static const char *cores_read(struct run_cores *cores, hwloc_topology_t topology) {
    if (hwloc_topology_load(topology) != 0)
        return "hwloc cannot read the topology of this machine";
    if (!hwloc_topology_is_thissystem(topology))
        return "HWLOC_XMLFILE or HWLOC_SYNTHETIC describes another machine";
    const hwloc_cpuset_t allowed = hwloc_bitmap_alloc(), room = hwloc_bitmap_alloc();
    const char *why = allowed && room ? cores_list(cores, topology, allowed, room) : no_memory;
    hwloc_bitmap_free(allowed);
    hwloc_bitmap_free(room);
    return why;
}

const char *run_cores_find(struct run_cores *ret_cores) {
    hwloc_topology_t topology;
    *ret_cores = (struct run_cores){0};
    if (hwloc_topology_init(&topology) != 0)
        return no_memory;
    const char *why = cores_read(ret_cores, topology);
    hwloc_topology_destroy(topology);
    if (why)
        run_cores_free(ret_cores);
    return why;
}

#else

const char *run_cores_find(struct run_cores *ret_cores) {
    *ret_cores = (struct run_cores){0};
    return "this ringcomm-run was built without the library hwloc";
}

#endif
