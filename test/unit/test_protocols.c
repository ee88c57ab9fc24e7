/* SPDX-License-Identifier: BSD-3-Clause */
/* rcm_protocol_at: the constants of this process, as changed by RINGCOMM_TUNING and
 * RINGCOMM_PROTOCOL. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "check.h"

enum { MAX = 100 };

static char tuning[] = "/tmp/ringcomm-unit-XXXXXX";

static void tuning_write(const char *text) {
    FILE *file = fopen(tuning, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    setenv("RINGCOMM_TUNING", tuning, 1);
}

static int environment_clear(void **state) {
    (void)state;
    unsetenv("RINGCOMM_TUNING");
    unsetenv("RINGCOMM_PROTOCOL");
    return 0;
}

/* The entry of that name. */
static struct rcm_protocol_info find(const char *name) {
    struct rcm_protocol_info info = RCM_PROTOCOL_INFO_INIT;
    for (size_t i = 0; i < MAX; i++) {
        check_ok(rcm_protocol_at(i, &info));
        if (strcmp(info.name, name) == 0)
            break;
    }
    assert_string_equal(info.name, name);
    return info;
}

static void check(const char *name, const char *value, const char *origin) {
    const struct rcm_protocol_info info = find(name);
    assert_string_equal(info.value, value);
    assert_string_equal(info.origin, origin);
}

static void check_built_in(const char *name) {
    const struct rcm_protocol_info info = find(name);
    assert_string_equal(info.value, info.default_value);
    assert_int_equal(strncmp(info.origin, "built in for ", 13), 0);
}

/* Every entry has a unique name, for either state of sharing except `near`, and the built-in value.
 */
static void test_built_in(void **state) {
    (void)state;
    char names[MAX][64];
    struct rcm_protocol_info info = RCM_PROTOCOL_INFO_INIT;
    size_t n = 0;
    rcm_status status;
    while ((status = rcm_protocol_at(n, &info)) == RCM_OK) {
        const char *dot = strchr(info.name, '.');
        const bool both = strcmp(info.name, "near") == 0;
        assert_true(n < MAX);
        assert_string_equal(dot ? dot : "", both ? "" : n % 2 ? ".oversubscribed" : ".roomy");
        assert_true(strlen(info.help) > 5);
        for (size_t k = 0; k < n; k++)
            assert_string_not_equal(names[k], info.name);
        snprintf(names[n++], sizeof names[0], "%s", info.name);
    }
    check_status(RCM_ERR_NOT_FOUND, status);
    check_status(RCM_ERR_NOT_FOUND, rcm_protocol_at(SIZE_MAX, &info));
    for (size_t k = 0; k < n; k++)
        check_built_in(names[k]);
}

static void test_variable(void **state) {
    (void)state;
    setenv("RINGCOMM_PROTOCOL", "get=16K-,eager.roomy=never", 1);
    check("get.roomy", "16K-", "RINGCOMM_PROTOCOL");
    check("get.oversubscribed", "16K-", "RINGCOMM_PROTOCOL");
    check("eager.roomy", "never", "RINGCOMM_PROTOCOL");
    check_built_in("eager.oversubscribed");
    setenv("RINGCOMM_PROTOCOL", "", 1);
    check_built_in("get.roomy");
}

/* A constant set to its built-in value still counts as set. */
static void test_set_to_default(void **state) {
    (void)state;
    char text[128];
    const struct rcm_protocol_info before = find("get.roomy");
    snprintf(text, sizeof text, "get.roomy=%s", before.value);
    setenv("RINGCOMM_PROTOCOL", text, 1);
    const struct rcm_protocol_info info = find("get.roomy");
    assert_string_equal(info.value, info.default_value);
    assert_string_equal(info.origin, "RINGCOMM_PROTOCOL");
}

static void test_file_and_variable(void **state) {
    (void)state;
    tuning_write("# measured on node7\nget=1M-4M\neager=0-1000\n");
    check("get.roomy", "1M-4M", "RINGCOMM_TUNING");
    check("eager.roomy", "0-1000", "RINGCOMM_TUNING");
    setenv("RINGCOMM_PROTOCOL", "get.roomy=never", 1);
    check("get.roomy", "never", "RINGCOMM_PROTOCOL");
    check("get.oversubscribed", "1M-4M", "RINGCOMM_TUNING");
    check("eager.roomy", "0-1000", "RINGCOMM_TUNING");
    check_built_in("copy_vectors.roomy");
}

/* The file contains costs and named algorithms too. */
static void test_whole_file(void **state) {
    (void)state;
    tuning_write("shm_hop.roomy = 0.5   # us\nall_reduce = ring:0-8K,two_shot:8K-\nget=never\n");
    check("shm_hop.roomy", "0.5", "RINGCOMM_TUNING");
    check_built_in("shm_hop.oversubscribed");
    check("get.roomy", "never", "RINGCOMM_TUNING");
}

/* The error of rcm_init. */
static void init_alone(char *text, size_t cap) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm = NULL;
    check_ok(rcm_store_open("hash:", -1, &options.store));
    options.rank = 0;
    options.world_size = 1;
    check_status(RCM_ERR_CONFIG, rcm_init(&options, &comm));
    snprintf(text, cap, "%s", rcm_last_error());
    rcm_store_close(options.store);
}

static void check_refused(const char *part) {
    struct rcm_protocol_info info = RCM_PROTOCOL_INFO_INIT;
    char text[512];
    init_alone(text, sizeof text);
    check_status(RCM_ERR_CONFIG, rcm_protocol_at(0, &info));
    check_error_names(part);
    assert_string_equal(rcm_last_error(), text);
}

static void test_mistakes(void **state) {
    (void)state;
    setenv("RINGCOMM_PROTOCOL", "get=16K-,fetch=always", 1);
    check_refused("RINGCOMM_PROTOCOL: 'fetch=always'");
    setenv("RINGCOMM_PROTOCOL", "get=64K-16K", 1);
    check_refused("RINGCOMM_PROTOCOL: 'get=64K-16K'");
    unsetenv("RINGCOMM_PROTOCOL");
    tuning_write("get=sometimes\n");
    check_refused("'get=sometimes'");
    tuning_write("shm_hop = fast\n");
    check_refused("'shm_hop = fast'");
    tuning_write("shm_hops = 1\n");
    check_refused("'shm_hops = 1' begins with no name");
    setenv("RINGCOMM_TUNING", "/nonexistent", 1);
    check_refused("RINGCOMM_TUNING=/nonexistent");
    setenv("RINGCOMM_TUNING", "/tmp", 1);
    check_refused("RINGCOMM_TUNING=/tmp is no regular file");
    assert_int_equal(unlink(tuning), 0);
    assert_int_equal(mkfifo(tuning, 0600), 0);
    setenv("RINGCOMM_TUNING", tuning, 1);
    check_refused("is no regular file");
    assert_int_equal(unlink(tuning), 0); /* the next call writes it again */
}

static void test_sizes(void **state) {
    (void)state;
    struct {
        struct rcm_protocol_info info;
        uint64_t unknown;
    } newer = {.info = {.size = sizeof newer}, .unknown = 7};
    check_status(RCM_ERR_INVALID, rcm_protocol_at(0, NULL));
    check_ok(rcm_protocol_at(0, &newer.info));
    assert_non_null(newer.info.help);
    assert_int_equal(newer.info.size, sizeof newer);
    assert_int_equal(newer.unknown, 0);
    newer.info.size = 0;
    check_status(RCM_ERR_INVALID, rcm_protocol_at(0, &newer.info));
    check_error_names("RCM_PROTOCOL_INFO_INIT");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_built_in, environment_clear),
        cmocka_unit_test_setup(test_variable, environment_clear),
        cmocka_unit_test_setup(test_set_to_default, environment_clear),
        cmocka_unit_test_setup(test_file_and_variable, environment_clear),
        cmocka_unit_test_setup(test_whole_file, environment_clear),
        cmocka_unit_test_setup(test_mistakes, environment_clear),
        cmocka_unit_test_setup(test_sizes, environment_clear),
    };
    const int fd = mkstemp(tuning);
    if (fd < 0)
        return 1;
    close(fd);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(tuning);
    return failed;
}
