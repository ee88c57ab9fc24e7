/* SPDX-License-Identifier: BSD-3-Clause */
/* The text form of the constants of protocol.h: read after write gives the same, for every built-in
 * backend and any sizes; errors name the mistake; the origin of each value. */
#include "../unit/check.h"
#include "protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPU_ONE(name, text) RCMI_CPU_##name,
static const enum rcmi_cpu cpus[] = {RCMI_CPU_MAP(CPU_ONE)};
enum { CPUS = sizeof cpus / sizeof cpus[0] };

static struct rcmi_protocols base(void) {
    return *rcmi_protocols_of(RCMI_CPU_OTHER);
}

static void assert_range(struct rcmi_range range, size_t from, size_t to) {
    assert_true(range.from == from);
    assert_true(range.to == to);
}

static void assert_same(const struct rcmi_protocols *a, const struct rcmi_protocols *b) {
    assert_memory_equal(a, b, sizeof *a); /* sizes only: no padding */
}

/* All constants in this range, for both states of oversubscription. */
static struct rcmi_protocols all_are(struct rcmi_range range) {
    struct rcmi_protocols protocols;
    for (int s = 0; s < RCMI_SHARINGS; s++) {
#define FIELD_SET(name, help) protocols.of[s].name = range;
        RCMI_PROTOCOL_MAP(FIELD_SET)
#undef FIELD_SET
    }
    return protocols;
}

/* ---- Round trips ----------------------------------------------------------------------------- */

/* Reads into constants that differ everywhere. */
static void check_round_trip(const struct rcmi_protocols *protocols) {
    struct rcmi_protocols read = all_are((struct rcmi_range){77, 78});
    char text[RCMI_PROTOCOLS_TEXT + 8];
    memset(text, '~', sizeof text);
    rcmi_protocols_write(protocols, text);
    assert_non_null(memchr(text, '\0', RCMI_PROTOCOLS_TEXT));
    for (size_t i = RCMI_PROTOCOLS_TEXT; i < sizeof text; i++)
        assert_int_equal(text[i], '~');
    check_ok(rcmi_protocols_read(text, "text", &read));
    assert_same(protocols, &read);
}

static void test_built_in(void **state) {
    (void)state;
    for (size_t i = 0; i < CPUS; i++)
        check_round_trip(rcmi_protocols_of(cpus[i]));
}

static void test_longest(void **state) {
    (void)state;
    const struct rcmi_protocols longest =
        all_are((struct rcmi_range){(size_t)INT64_MAX - 2, (size_t)INT64_MAX});
    check_round_trip(&longest);
}

static void test_round_trip_of_ranges(void **state) {
    (void)state;
    static const struct rcmi_range ranges[] = {
        {1, 0}, {0, SIZE_MAX}, {0, 0}, {1, 1}, {1024, 1025}, {65536, SIZE_MAX}, {3 << 20, 5 << 20},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const struct rcmi_protocols protocols = all_are(ranges[i]);
        check_round_trip(&protocols);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void test_ranges(void **state) {
    (void)state;
    static const struct {
        const char *text;
        struct rcmi_range range;
    } good[] = {
        {"get=16K-8M", {16 << 10, 8 << 20}}, {"get=0-0", {0, 0}},
        {"get=1g-", {1 << 30, SIZE_MAX}},    {"get=4097-4097", {4097, 4097}},
        {"get=always", {0, SIZE_MAX}},       {" ,;\tget=2-3;", {2, 3}},
        {"get=1-2 get=5-6", {5, 6}}, /* the last one counts */
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct rcmi_protocols protocols = base(), expected = base();
        for (int s = 0; s < RCMI_SHARINGS; s++)
            expected.of[s].get = good[i].range;
        check_ok(rcmi_protocols_read(good[i].text, "text", &protocols));
        assert_same(&protocols, &expected); /* and nothing else changed */
    }
}

static void test_never(void **state) {
    (void)state;
    struct rcmi_protocols protocols = base();
    check_ok(rcmi_protocols_read("get=never", "text", &protocols));
    for (int s = 0; s < RCMI_SHARINGS; s++) {
        assert_false(rcmi_range_has(protocols.of[s].get, 0));
        assert_false(rcmi_range_has(protocols.of[s].get, 1));
        assert_false(rcmi_range_has(protocols.of[s].get, SIZE_MAX));
    }
}

static void test_ends_are_included(void **state) {
    (void)state;
    struct rcmi_protocols protocols = base();
    check_ok(rcmi_protocols_read("eager=16-32", "text", &protocols));
    const struct rcmi_range eager = protocols.of[RCMI_ROOMY].eager;
    assert_false(rcmi_range_has(eager, 15));
    assert_true(rcmi_range_has(eager, 16));
    assert_true(rcmi_range_has(eager, 32));
    assert_false(rcmi_range_has(eager, 33));
}

static void test_one_state_of_sharing(void **state) {
    (void)state;
    struct rcmi_protocols protocols = base();
    check_ok(rcmi_protocols_read("get=1-2 get.roomy=3-4, sum_non_temporal.oversubscribed=5-",
                                 "text", &protocols));
    assert_range(protocols.of[RCMI_ROOMY].get, 3, 4);
    assert_range(protocols.of[RCMI_OVERSUBSCRIBED].get, 1, 2);
    assert_range(protocols.of[RCMI_ROOMY].sum_non_temporal, base().of[0].sum_non_temporal.from,
                 base().of[0].sum_non_temporal.to);
    assert_range(protocols.of[RCMI_OVERSUBSCRIBED].sum_non_temporal, 5, SIZE_MAX);
}

static void test_comments(void **state) {
    (void)state;
    struct rcmi_protocols protocols = base();
    check_ok(rcmi_protocols_read("# get=1-2\n\nget=3-4# nonsense=5\r\n  #\neager=6-7\n# the end",
                                 "text", &protocols));
    assert_range(protocols.of[RCMI_ROOMY].get, 3, 4);
    assert_range(protocols.of[RCMI_ROOMY].eager, 6, 7);
}

static void test_errors(void **state) {
    (void)state;
    static const char *const bad[] = {
        "get",
        "get=",
        "get=17Q",
        "get=17Q-",
        "get=-",
        "get=-8M",
        "get=16K",
        "get=8M-16K",
        "get=1-2-3",
        "get=0x10-",
        "get=Never",
        "get=alway",
        "nonsense=1K-",
        "nonsense",
        "=1K-",
        "get.=1-2",
        "get.x=1-2",
        "get.roomy",
        "get.roomyx=1-2",
        "gets=1-2",
        "ge=1-2",
        "get=1.5K-",
        "get=+1-2",
        "get==1-2",
        ".roomy=1-2",
        "get=99999999999999999999-",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rcmi_protocols protocols = base();
        char text[100], named[100];
        snprintf(text, sizeof text, "eager=1-2 %s, copy_vectors=1-2", bad[i]);
        snprintf(named, sizeof named, "'%s'", bad[i]);
        check_status(RCM_ERR_CONFIG, rcmi_protocols_read(text, "the origin", &protocols));
        check_error_names("the origin");
        check_error_names(named);
    }
}

/* ---- Printed for users ----------------------------------------------------------------------- */

static void test_items(void **state) {
    (void)state;
    struct rcmi_protocol_item item;
    size_t i = 0;
    bool seen = false;
    setenv("RINGCOMM_PROTOCOL", "get.oversubscribed=16K-8M", 1);
    for (; rcmi_protocols_item(i, &item) == RCM_OK; i++) {
        const bool is_set = strcmp(item.name, "get.oversubscribed") == 0;
        assert_true(strlen(item.help) > 0);
        assert_int_equal(strcmp(item.origin, "RINGCOMM_PROTOCOL") == 0, is_set);
        assert_true(is_set || strcmp(item.value, item.built_in) == 0);
        seen = seen || (is_set && strcmp(item.value, "16K-8M") == 0);
    }
    unsetenv("RINGCOMM_PROTOCOL");
    assert_true(seen);
    assert_int_equal(i, RCMI_SHARINGS * sizeof(struct rcmi_protocol) / sizeof(struct rcmi_range));
}

static void test_forbid_get(void **state) {
    (void)state;
    for (size_t i = 0; i < CPUS; i++) {
        struct rcmi_protocols protocols = *rcmi_protocols_of(cpus[i]), expected = protocols;
        check_ok(rcmi_protocols_read("get=never", "text", &expected));
        rcmi_protocols_forbid_get(&protocols);
        assert_same(&protocols, &expected);
    }
}

/* ---- Origins --------------------------------------------------------------------------------- */

static char path[] = "/tmp/ringcomm-protocol-XXXXXX";

static int file_new(void **state) {
    (void)state;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    const int fd = mkstemp(path);
    if (fd >= 0)
        close(fd);
    setenv("RINGCOMM_TUNING", path, 1);
    unsetenv("RINGCOMM_PROTOCOL");
    return fd < 0;
}

static int file_end(void **state) {
    (void)state;
    unlink(path);
    unsetenv("RINGCOMM_TUNING");
    unsetenv("RINGCOMM_PROTOCOL");
    return 0;
}

static void file_write(const char *text, size_t len) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void test_no_settings(void **state) {
    (void)state;
    struct rcmi_protocols protocols;
    unsetenv("RINGCOMM_TUNING");
    check_ok(rcmi_protocols_local(&protocols));
    assert_same(&protocols, rcmi_protocols_of(rcmi_cpu()));
}

/* RINGCOMM_PROTOCOL overrides the file. */
static void test_file(void **state) {
    (void)state;
    static const char text[] = "# Of this machine.\n\nget = no\n";
    static const char good[] = "# Of this machine.\n\nget=1-2 # small\neager.roomy=3-4\n";
    struct rcmi_protocols protocols;
    file_write(good, strlen(good));
    check_ok(rcmi_protocols_local(&protocols));
    assert_range(protocols.of[RCMI_ROOMY].get, 1, 2);
    assert_range(protocols.of[RCMI_ROOMY].eager, 3, 4);
    setenv("RINGCOMM_PROTOCOL", "get=5-6", 1);
    check_ok(rcmi_protocols_local(&protocols));
    assert_range(protocols.of[RCMI_ROOMY].get, 5, 6);
    assert_range(protocols.of[RCMI_ROOMY].eager, 3, 4);
    file_write(text, strlen(text));
    check_status(RCM_ERR_CONFIG, rcmi_protocols_local(&protocols));
    check_error_names(path);
    check_error_names("'get = no'");
}

static void test_wrong_variable(void **state) {
    (void)state;
    struct rcmi_protocols protocols;
    unsetenv("RINGCOMM_TUNING");
    setenv("RINGCOMM_PROTOCOL", "eager=0-1K,get=17Q", 1);
    check_status(RCM_ERR_CONFIG, rcmi_protocols_local(&protocols));
    check_error_names("RINGCOMM_PROTOCOL");
    check_error_names("'get=17Q'");
}

static void check_file_error(const char *part) {
    struct rcmi_protocols protocols;
    check_status(RCM_ERR_CONFIG, rcmi_protocols_local(&protocols));
    check_error_names("RINGCOMM_TUNING");
    check_error_names(part);
}

static void test_bad_files(void **state) {
    (void)state;
    enum { BIG = 65537 };
    char *big = malloc(BIG);
    memset(big, ' ', BIG);
    file_write(big, BIG);
    check_file_error(path);
    free(big);
    file_write("get=1-\0", 7);
    check_file_error(path);
    unlink(path);
    check_file_error(path);
    setenv("RINGCOMM_TUNING", "/tmp", 1); /* a directory */
    check_file_error("RINGCOMM_TUNING=/tmp");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in),
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_round_trip_of_ranges),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_never),
        cmocka_unit_test(test_ends_are_included),
        cmocka_unit_test(test_one_state_of_sharing),
        cmocka_unit_test(test_comments),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_forbid_get),
        cmocka_unit_test_setup_teardown(test_no_settings, file_new, file_end),
        cmocka_unit_test_setup_teardown(test_file, file_new, file_end),
        cmocka_unit_test_setup_teardown(test_wrong_variable, file_new, file_end),
        cmocka_unit_test_setup_teardown(test_bad_files, file_new, file_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
