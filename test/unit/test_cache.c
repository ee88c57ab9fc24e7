/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Last-level caches of CPUs, from trees of files as the kernel has them: one cache for all, two
 * sockets, numbers above 64, a CPU without a third level, files that are missing or damaged.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "check.h"
#include "cpu.h"

static char tree[64];

static void put(int cpu, int cache, const char *name, const char *text) {
    char path[256], command[320];
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/cache/index%d", tree, cpu, cache);
    snprintf(command, sizeof command, "mkdir -p %s", path);
    assert_int_equal(system(command), 0);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\n", text) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_cache(int cpu, int cache, const char *level, const char *type, const char *cpus) {
    put(cpu, cache, "level", level);
    put(cpu, cache, "type", type);
    put(cpu, cache, "shared_cpu_list", cpus);
}

static int tree_begin(void **state) {
    (void)state;
    snprintf(tree, sizeof tree, "/tmp/ringcomm-cache-XXXXXX");
    assert_non_null(mkdtemp(tree));
    rcmi_cache_set_root(tree);
    return 0;
}

static int tree_end(void **state) {
    char command[128];
    (void)state;
    rcmi_cache_set_root("");
    snprintf(command, sizeof command, "rm -r %s", tree);
    return system(command);
}

enum { BYTES = 32 };

/* The CPUs that share the last-level cache of `cpu`, as "0 1 8 "; "none" if none is described. */
static const char *sharers(int cpu) {
    static char text[512];
    uint8_t cpus[BYTES] = {0}, found[BYTES];
    cpus[cpu / 8] = (uint8_t)(1u << cpu % 8);
    memset(found, 0xff, sizeof found);
    const bool known = rcmi_cache_sharers(cpus, BYTES, found);
    text[0] = '\0';
    for (int i = 0; i < BYTES * 8; i++)
        if (found[i / 8] >> i % 8 & 1)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", i);
    if (!known) {
        assert_string_equal(text, "");
        return "none";
    }
    return text;
}

static void the_highest_level_counts(void **state) {
    (void)state;
    put_cache(0, 0, "1", "Data", "0,4");
    put_cache(0, 1, "1", "Instruction", "0,4");
    put_cache(0, 2, "2", "Unified", "0,4");
    put_cache(0, 3, "3", "Unified", "0-3,8-9");
    assert_string_equal(sharers(0), "0 1 2 3 8 9 ");
    assert_string_equal(sharers(1), "none");
}

static void two_sockets(void **state) {
    (void)state;
    put_cache(0, 0, "3", "Unified", "0-1,128");
    put_cache(130, 0, "3", "Unified", "2-3,130-131");
    assert_string_equal(sharers(0), "0 1 128 ");
    assert_string_equal(sharers(130), "2 3 130 131 ");
}

static void no_third_level(void **state) {
    (void)state;
    put_cache(3, 0, "1", "Data", "3");
    put_cache(3, 2, "2", "Unified", "2-3");
    assert_string_equal(sharers(3), "2 3 ");
}

static void cpus_beyond_the_mask(void **state) {
    (void)state;
    put_cache(0, 0, "3", "Unified", "0,254-9000");
    assert_string_equal(sharers(0), "0 254 255 ");
}

static void damaged_files(void **state) {
    (void)state;
    static const char *const lists[] = {"", "x", "0-", "3-1", "0;1", "0,,1", "-1"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        put_cache(0, 0, "3", "Unified", lists[i]);
        assert_string_equal(sharers(0), "none");
    }
    put_cache(1, 0, "high", "Unified", "0-1");
    assert_string_equal(sharers(1), "none");
    put_cache(2, 0, "1", "Instruction", "2");
    assert_string_equal(sharers(2), "none");
}

static void no_cpu(void **state) {
    (void)state;
    const uint8_t cpus[BYTES] = {0};
    uint8_t found[BYTES];
    put_cache(0, 0, "3", "Unified", "0-1");
    assert_false(rcmi_cache_sharers(cpus, BYTES, found));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_begin, tree_end)
    const struct CMUnitTest tests[] = {
        TEST(the_highest_level_counts), TEST(two_sockets),   TEST(no_third_level),
        TEST(cpus_beyond_the_mask),     TEST(damaged_files), TEST(no_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
