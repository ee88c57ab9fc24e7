/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Last-level caches of CPUs, from trees of files as the kernel has them: one cache for all, two
 * sockets, numbers above 64, a CPU without a third level, files that are missing or damaged; and
 * which CPUs are therefore near (transport/locality.h).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "check.h"
#include "cpu.h"
#include "locality.h"

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

/* CPUs 0 to 3 share a cache, 4 to 7 another. */
static struct rcmi_locality locality(const char *setting, bool is_virtual, uint8_t own) {
    const uint8_t cpus[RCMI_CPU_BYTES] = {own};
    const struct rcmi_locality_facts facts = {
        .setting = setting, .is_virtual = is_virtual, .cpus = cpus};
    struct rcmi_locality found;
    for (int cpu = 0; cpu < 8; cpu++)
        put_cache(cpu, 0, "3", "Unified", cpu < 4 ? "0-3" : "4-7");
    assert_int_equal(rcmi_locality_find(&facts, &found), RCM_OK);
    return found;
}

static bool is_near(const struct rcmi_locality *found, uint8_t cpus) {
    const uint8_t bytes[RCMI_CPU_BYTES] = {cpus};
    return rcmi_locality_is_near(found, bytes);
}

static void near_by_cache(void **state) {
    (void)state;
    const struct rcmi_locality found = locality("auto", false, 0x60);
    assert_int_equal(found.source, RCMI_LOCALITY_CACHE);
    assert_int_equal(found.cache_cpu, 4);
    assert_true(is_near(&found, 0x10));
    assert_true(is_near(&found, 0xf0));
    assert_false(is_near(&found, 0x18)); /* of both caches */
    assert_false(is_near(&found, 0x01));
    assert_false(is_near(&found, 0)); /* unknown CPUs */
}

static void far_by_doubt(void **state) {
    (void)state;
    const struct rcmi_locality guest = locality("auto", true, 0x01),
                               several = locality("auto", false, 0x18),
                               none = locality("auto", false, 0);
    assert_int_equal(guest.source, RCMI_LOCALITY_GUEST);
    assert_int_equal(several.source, RCMI_LOCALITY_SEVERAL_CACHES);
    assert_int_equal(none.source, RCMI_LOCALITY_NO_CACHES);
    assert_false(is_near(&guest, 0x01) || is_near(&several, 0x01) || is_near(&none, 0x01));
}

static void near_by_setting(void **state) {
    (void)state;
    const struct rcmi_locality near = locality("1", true, 0x01), far = locality("0", false, 0x01);
    assert_int_equal(near.source, RCMI_LOCALITY_SETTING);
    assert_true(is_near(&near, 0x80));
    assert_int_equal(far.source, RCMI_LOCALITY_SETTING);
    assert_false(is_near(&far, 0x01));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_begin, tree_end)
    const struct CMUnitTest tests[] = {
        TEST(the_highest_level_counts),
        TEST(two_sockets),
        TEST(no_third_level),
        TEST(cpus_beyond_the_mask),
        TEST(damaged_files),
        TEST(no_cpu),
        TEST(near_by_cache),
        TEST(far_by_doubt),
        TEST(near_by_setting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
