/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of control groups, from trees of files like the kernel's: versions 1 and 2, parents,
 * containers that see part of the tree, fractions, swap, caches.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cgroup.h"
#include "check.h"
#include "error.h"
#include "memory_check.h"

#define MIB ((uint64_t)1 << 20)

/* ---- Trees of files -------------------------------------------------------------------------- */

static char tree[64];

static void put(const char *path, const char *text) {
    char full[512];
    const int n = snprintf(full, sizeof full, "%s%s", tree, path);
    for (int i = (int)strlen(tree) + 1; i < n; i++) {
        if (full[i] != '/')
            continue;
        full[i] = '\0';
        (void)mkdir(full, 0700);
        full[i] = '/';
    }
    FILE *file = fopen(full, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int tree_begin(void **state) {
    (void)state;
    snprintf(tree, sizeof tree, "/tmp/ringcomm-cgroup-XXXXXX");
    assert_non_null(mkdtemp(tree));
    rcmi_cgroup_set_root(tree);
    return 0;
}

static int tree_end(void **state) {
    char command[128];
    (void)state;
    rcmi_cgroup_set_root("");
    snprintf(command, sizeof command, "rm -r %s", tree);
    return system(command);
}

#define MOUNT_2 "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"

static void version_2(const char *group) {
    char line[256];
    put("/proc/self/mountinfo", "22 1 8:1 / / rw shared:1 - ext4 /dev/a rw\n" MOUNT_2);
    snprintf(line, sizeof line, "0::%s\n", group);
    put("/proc/self/cgroup", line);
}

static void version_1(const char *group, const char *mounted) {
    char text[1024];
    snprintf(text, sizeof text,
             "31 1 0:27 %s /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "32 1 0:28 %s /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
             "33 1 0:29 %s /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
             mounted, mounted, mounted);
    put("/proc/self/mountinfo", text);
    snprintf(text, sizeof text, "4:memory:%s\n3:cpuset:/\n2:cpu,cpuacct:%s\n1:name=systemd:/x\n",
             group, group);
    put("/proc/self/cgroup", text);
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

static void cpus_are(double cpus, const char *file) {
    struct rcmi_cgroup_cpus got;
    rcmi_cgroup_cpus(&got);
    assert_true(got.cpus > cpus - 1e-6 && got.cpus < cpus + 1e-6);
    assert_string_equal(got.file, file);
    assert_int_equal(got.group != 0, cpus > 0);
}

static void test_cpus_2(void **state) {
    struct rcmi_cgroup_cpus outer, inner;
    (void)state;
    version_2("/pod/box");
    cpus_are(0, "");
    put("/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
    cpus_are(0, "");
    put("/sys/fs/cgroup/pod/box/cpu.max", "150000 100000\n");
    cpus_are(1.5, "/sys/fs/cgroup/pod/box/cpu.max");
    put("/sys/fs/cgroup/pod/cpu.max", "400000 100000\n");
    cpus_are(1.5, "/sys/fs/cgroup/pod/box/cpu.max");
    rcmi_cgroup_cpus(&inner);
    put("/sys/fs/cgroup/pod/cpu.max", "25000 50000\n");
    cpus_are(0.5, "/sys/fs/cgroup/pod/cpu.max");
    rcmi_cgroup_cpus(&outer);
    assert_true(outer.group != inner.group);
    put("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n"); /* shared by all boxes */
    cpus_are(1.5, "/sys/fs/cgroup/pod/cpu.max");
    version_2("/");
    cpus_are(0, "");
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    cpus_are(2, "/sys/fs/cgroup/cpu.max");
    put("/sys/fs/cgroup/cpu.max", "nonsense\n");
    cpus_are(0, "");
}

static void test_cpus_1(void **state) {
    (void)state;
    version_1("/docker/abc", "/");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
    cpus_are(0, "");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n");
    cpus_are(0.5, "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "200000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "50000\n");
    cpus_are(0.25, "/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us");
    version_1("/docker/abc", "/docker/abc"); /* the container's own group is its root */
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
    cpus_are(3, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us");
}

static void test_nothing_there(void **state) {
    struct rcmi_cgroup_memory memory;
    (void)state;
    cpus_are(0, "");
    put("/proc/self/cgroup", "nonsense\n:\n0::\n");
    put("/proc/self/mountinfo", "nonsense - \n\n - cgroup2\n");
    cpus_are(0, "");
    rcmi_cgroup_memory(0, &memory);
    assert_true(memory.room == UINT64_MAX && memory.limit == UINT64_MAX);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void room_is(uint64_t mib, uint64_t swap_mib, const char *file) {
    struct rcmi_cgroup_memory got;
    rcmi_cgroup_memory(swap_mib * MIB, &got);
    assert_int_equal(got.room, mib == UINT64_MAX ? mib : mib * MIB);
    assert_string_equal(got.file, file);
}

static void put_mib(const char *path, uint64_t mib) {
    char text[32];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)(mib * MIB));
    put(path, text);
}

static void test_memory_2(void **state) {
    (void)state;
    version_2("/pod/box");
    put("/sys/fs/cgroup/pod/box/memory.max", "max\n");
    put_mib("/sys/fs/cgroup/pod/box/memory.current", 30);
    room_is(UINT64_MAX, 0, "");
    put_mib("/sys/fs/cgroup/pod/box/memory.max", 100);
    room_is(70, 0, "/sys/fs/cgroup/pod/box/memory.max");
    put_mib("/sys/fs/cgroup/pod/box/memory.high", 80);
    room_is(50, 0, "/sys/fs/cgroup/pod/box/memory.high");
    put("/sys/fs/cgroup/pod/box/memory.stat",
        "anon 1\nfile 9\ninactive_file 10485760\nactive_file 5242880\n");
    room_is(65, 0, "/sys/fs/cgroup/pod/box/memory.high");
    put_mib("/sys/fs/cgroup/pod/memory.max", 64);
    put_mib("/sys/fs/cgroup/pod/memory.current", 60);
    room_is(4, 0, "/sys/fs/cgroup/pod/memory.max");
    room_is(14, 10, "/sys/fs/cgroup/pod/memory.max"); /* the machine has swap */
    put_mib("/sys/fs/cgroup/pod/memory.swap.max", 8);
    put_mib("/sys/fs/cgroup/pod/memory.swap.current", 6);
    room_is(6, 10, "/sys/fs/cgroup/pod/memory.max");
    put_mib("/sys/fs/cgroup/pod/memory.current", 70);
    room_is(0, 0, "/sys/fs/cgroup/pod/memory.max");
}

static void test_memory_1(void **state) {
    (void)state;
    version_1("/lxc/a", "/");
    put("/sys/fs/cgroup/memory/lxc/a/memory.limit_in_bytes", "9223372036854771712\n");
    put_mib("/sys/fs/cgroup/memory/lxc/a/memory.usage_in_bytes", 10);
    room_is(UINT64_MAX, 0, "");
    put_mib("/sys/fs/cgroup/memory/lxc/a/memory.limit_in_bytes", 50);
    room_is(40, 0, "/sys/fs/cgroup/memory/lxc/a/memory.limit_in_bytes");
    put("/sys/fs/cgroup/memory/lxc/a/memory.stat",
        "cache 7\ninactive_file 1\ntotal_inactive_file 2097152\ntotal_active_file 1048576\n");
    room_is(43, 0, "/sys/fs/cgroup/memory/lxc/a/memory.limit_in_bytes");
    put_mib("/sys/fs/cgroup/memory/lxc/a/memory.memsw.limit_in_bytes", 60);
    put_mib("/sys/fs/cgroup/memory/lxc/a/memory.memsw.usage_in_bytes", 18);
    room_is(45, 100, "/sys/fs/cgroup/memory/lxc/a/memory.memsw.limit_in_bytes");
    put_mib("/sys/fs/cgroup/memory/lxc/memory.limit_in_bytes", 20);
    put_mib("/sys/fs/cgroup/memory/lxc/memory.usage_in_bytes", 15);
    room_is(5, 0, "/sys/fs/cgroup/memory/lxc/memory.limit_in_bytes");
}

/* Small allocations too fail at the limit. */
static void test_check(void **state) {
    size_t taken = 0;
    (void)state;
    version_2("/box");
    put_mib("/sys/fs/cgroup/box/memory.max", 100);
    put_mib("/sys/fs/cgroup/box/memory.current", 0);
    assert_int_equal(rcmi_memory_check((size_t)200 * MIB), RCM_ERR_RESOURCE);
    assert_non_null(strstr(rcm_last_error(), "/sys/fs/cgroup/box/memory.max is 104857600"));
    while (taken < 1000 && rcmi_memory_check(MIB) == RCM_OK)
        put_mib("/sys/fs/cgroup/box/memory.current", ++taken);
    assert_true(taken >= 90 && taken <= 110);
    put_mib("/sys/fs/cgroup/box/memory.current", 0);
    assert_int_equal(rcmi_memory_check((size_t)50 * MIB), RCM_OK);
}

static void test_tasks(void **state) {
    struct rcmi_cgroup_tasks full;
    (void)state;
    version_2("/pod/box");
    rcmi_cgroup_tasks(&full);
    assert_string_equal(full.file, "");
    put("/sys/fs/cgroup/pod/box/pids.max", "max\n");
    put("/sys/fs/cgroup/pod/box/pids.current", "7\n");
    put("/sys/fs/cgroup/pod/pids.max", "9\n");
    put("/sys/fs/cgroup/pod/pids.current", "8\n");
    rcmi_cgroup_tasks(&full);
    assert_string_equal(full.file, "");
    put("/sys/fs/cgroup/pod/pids.current", "9\n");
    rcmi_cgroup_tasks(&full);
    assert_string_equal(full.file, "/sys/fs/cgroup/pod/pids.max");
    assert_int_equal(full.limit, 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cpus_2, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_cpus_1, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_nothing_there, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_memory_2, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_memory_1, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_check, tree_begin, tree_end),
        cmocka_unit_test_setup_teardown(test_tasks, tree_begin, tree_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
