/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of settings, their numbers, and the sources of the secret. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "check.h"
#include "auth.h"
#include "numbers.h"
#include "unknown_settings.h"
#include "settings.h"

static void test_size_parser(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"3", 3},
        {"64K", 64 << 10},
        {"64k", 64 << 10},
        {"1M", 1 << 20},
        {"5G", (int64_t)5 << 30},
        {"9223372036854775807", INT64_MAX},
        {"8589934591G", (int64_t)8589934591 << 30},
    };
    static const char *const bad[] = {
        "",
        "K",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1KB",
        "1T",
        "0x10",
        "1.5M",
        "abc",
        "9223372036854775808",
        "8589934592G",
        "99999999999999999999",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t value = -1;
        check_ok(rcmi_parse_size(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t value = 42;
        check_status(RCM_ERR_INVALID, rcmi_parse_size(bad[i], &value));
        check_error_names(bad[i]);
        assert_int_equal(value, 42);
    }
}

static void test_values(void **state) {
    (void)state;
    unsetenv("RINGCOMM_TRANSPORT");
    assert_string_equal(rcmi_setting("RINGCOMM_TRANSPORT"), "auto");
    setenv("RINGCOMM_TRANSPORT", "tcp", 1);
    assert_string_equal(rcmi_setting("RINGCOMM_TRANSPORT"), "tcp");
    setenv("RINGCOMM_TRANSPORT", "", 1);
    assert_string_equal(rcmi_setting("RINGCOMM_TRANSPORT"), "auto");
    unsetenv("RINGCOMM_TRANSPORT");
}

typedef rcm_status (*number_fn)(int64_t *ret_value);

static rcm_status peer_timeout(int64_t *ret_ms) {
    return rcmi_setting_peer_timeout(ret_ms);
}
static rcm_status timeout_ns(int64_t *ret_ns) {
    return rcmi_setting_duration("RINGCOMM_TIMEOUT", RCMI_SECOND, 1000000, 3600 * RCMI_SECOND,
                                 ret_ns);
}
static rcm_status spin_ns(int64_t *ret_ns) {
    return rcmi_setting_duration("RINGCOMM_SPIN_US", 1000, 0, RCMI_SECOND, ret_ns);
}
static rcm_status warn_after(int64_t *ret_ns) {
    return rcmi_setting_warn_after(ret_ns);
}
static rcm_status slots(int64_t *ret_value) {
    return rcmi_setting_int("RINGCOMM_SLOTS", 2, 1024, ret_value);
}
static rcm_status gid_index(int64_t *ret_value) {
    return rcmi_setting_int("RINGCOMM_VERBS_GID_INDEX", -1, 255, ret_value);
}
static rcm_status slot_memory(int64_t *ret_value) {
    return rcmi_setting_size("RINGCOMM_SLOT_MEMORY", 1 << 20, INT64_MAX, ret_value);
}

/* Each kind of number accepts its suffixes and rejects others. NULL: unset. */
static void test_kinds(void **state) {
    (void)state;
    static const struct {
        const char *name;
        number_fn get;
        const char *text;
        int64_t value; /* -2: rejected */
    } cases[] = {
        {"RINGCOMM_PEER_TIMEOUT", peer_timeout, NULL, 15000},
        {"RINGCOMM_PEER_TIMEOUT", peer_timeout, "20", 20000},
        {"RINGCOMM_PEER_TIMEOUT", peer_timeout, "2500ms", 2500},
        {"RINGCOMM_PEER_TIMEOUT", peer_timeout, "500ms", -2},
        {"RINGCOMM_PEER_TIMEOUT", peer_timeout, "3K", -2},
        {"RINGCOMM_PEER_TIMEOUT", peer_timeout, "-1", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "10m", 600 * RCMI_SECOND},
        {"RINGCOMM_TIMEOUT", timeout_ns, "1h", 3600 * RCMI_SECOND},
        {"RINGCOMM_TIMEOUT", timeout_ns, "90s", 90 * RCMI_SECOND},
        {"RINGCOMM_TIMEOUT", timeout_ns, "1.5m", 90 * RCMI_SECOND},
        {"RINGCOMM_TIMEOUT", timeout_ns, ".25", 250000000},
        {"RINGCOMM_TIMEOUT", timeout_ns, "10M", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "1G", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "10min", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "10 m", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "m", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "1.m", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "1e3", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "0x10", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "inf", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "3601", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "9223372036854775807h", -2},
        {"RINGCOMM_TIMEOUT", timeout_ns, "99999999999999999999", -2},
        {"RINGCOMM_SPIN_US", spin_ns, "50", 50000},
        {"RINGCOMM_SPIN_US", spin_ns, "50us", 50000},
        {"RINGCOMM_SPIN_US", spin_ns, "2ms", 2000000},
        {"RINGCOMM_SPIN_US", spin_ns, "1K", -2},
        {"RINGCOMM_WARN_AFTER", warn_after, "0", 0},
        {"RINGCOMM_WARN_AFTER", warn_after, "1m", 60 * RCMI_SECOND},
        {"RINGCOMM_WARN_AFTER", warn_after, "64K", -2},
        {"RINGCOMM_SLOTS", slots, "8", 8},
        {"RINGCOMM_SLOTS", slots, "1K", -2},
        {"RINGCOMM_SLOTS", slots, "8s", -2},
        {"RINGCOMM_VERBS_GID_INDEX", gid_index, "-1", -1},
        {"RINGCOMM_VERBS_GID_INDEX", gid_index, "--1", -2},
        {"RINGCOMM_SLOT_MEMORY", slot_memory, "64M", 64 << 20},
        {"RINGCOMM_SLOT_MEMORY", slot_memory, "1h", -2},
        {"RINGCOMM_SLOT_MEMORY", slot_memory, "-64M", -2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 42;
        if (cases[i].text)
            setenv(cases[i].name, cases[i].text, 1);
        else
            unsetenv(cases[i].name);
        const rcm_status status = cases[i].get(&value);
        print_message("%s=%s: %lld\n", cases[i].name, cases[i].text ? cases[i].text : "",
                      (long long)value);
        assert_int_equal(status, cases[i].value == -2 ? RCM_ERR_CONFIG : RCM_OK);
        assert_true(value == (cases[i].value == -2 ? 42 : cases[i].value));
        if (status != RCM_OK) {
            check_error_names(cases[i].name);
            check_error_names(cases[i].text);
        }
        unsetenv(cases[i].name);
    }
}

/* Capital letters are accepted, also in a locale with another lower-case i. Stored values stay
 * valid. */
static void test_capitals(void **state) {
    (void)state;
    setenv("RINGCOMM_TRANSPORT", "SHM,Tcp", 1);
    const char *kept = rcmi_setting("RINGCOMM_TRANSPORT");
    assert_string_equal(kept, "shm,tcp");
    assert_ptr_equal(kept, rcmi_setting("RINGCOMM_TRANSPORT"));
    setenv("RINGCOMM_TRANSPORT", "AUTO", 1);
    assert_string_equal(rcmi_setting("RINGCOMM_TRANSPORT"), "auto");
    assert_string_equal(kept, "shm,tcp");
    setenv("RINGCOMM_LOG", "INFO", 1);
    assert_string_equal(rcmi_setting("RINGCOMM_LOG"), "info");
    setenv("RINGCOMM_HOST_ID", "Node7", 1); /* a name chosen by the user */
    assert_string_equal(rcmi_setting("RINGCOMM_HOST_ID"), "Node7");
    unsetenv("RINGCOMM_TRANSPORT");
    unsetenv("RINGCOMM_LOG");
    unsetenv("RINGCOMM_HOST_ID");
}

static void file_write(const char *path, const char *text, size_t len) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void check_file_secret(const char *path, const char *text, const char *expected) {
    char *secret = NULL;
    file_write(path, text, strlen(text));
    check_ok(rcmi_secret(&secret));
    assert_string_equal(secret, expected);
    free(secret);
}

static void check_bad_file(const char *path, const char *text, size_t len) {
    char *secret = NULL;
    file_write(path, text, len);
    check_status(RCM_ERR_CONFIG, rcmi_secret(&secret));
    check_error_names("RINGCOMM_SECRET_FILE");
    assert_null(secret);
}

static void test_secret_file(void **state) {
    (void)state;
    char path[] = "/tmp/ringcomm-unit-XXXXXX", *secret = NULL;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    setenv("RINGCOMM_SECRET_FILE", path, 1);
    check_file_secret(path, "swordfish\n", "swordfish");
    check_file_secret(path, "swordfish", "swordfish");
    check_file_secret(path, "two\nlines\n\n", "two\nlines\n");
    check_bad_file(path, "", 0);
    check_bad_file(path, "\n", 1);
    check_bad_file(path, "a\0b", 3);
    char big[4098];
    memset(big, 'x', sizeof big);
    check_bad_file(path, big, sizeof big);
    unlink(path);
    check_status(RCM_ERR_CONFIG, rcmi_secret(&secret));
    check_error_names(path);
    unsetenv("RINGCOMM_SECRET_FILE");
}

static void test_secret(void **state) {
    (void)state;
    char *secret = (char *)1;
    unsetenv("RINGCOMM_SECRET");
    unsetenv("RINGCOMM_SECRET_FILE");
    check_ok(rcmi_secret(&secret));
    assert_null(secret);
    setenv("RINGCOMM_SECRET", "open sesame", 1);
    check_ok(rcmi_secret(&secret));
    assert_string_equal(secret, "open sesame");
    free(secret);
    secret = NULL;
    setenv("RINGCOMM_SECRET_FILE", "/nonexistent", 1);
    check_status(RCM_ERR_CONFIG, rcmi_secret(&secret));
    check_error_names("RINGCOMM_SECRET_FILE");
    check_error_names("both");
    assert_null(strstr(rcm_last_error(), "sesame"));
    unsetenv("RINGCOMM_SECRET_FILE");
    setenv("RINGCOMM_SECRET", "", 1);
    check_status(RCM_ERR_CONFIG, rcmi_secret(&secret));
    assert_null(secret);
    unsetenv("RINGCOMM_SECRET");
}

/* Every setting is listed once, with help. Values and sources follow the environment. */
static void test_shown(void **state) {
    (void)state;
    struct rcm_setting row;
    setenv("RINGCOMM_SECRET", "open sesame", 1);
    setenv("RINGCOMM_SLOTS", "9", 1);
    size_t rows = 0, seen = 0;
    while (rcm_setting_at(rows, &row) == RCM_OK) {
        rows++;
        assert_int_equal(strncmp(row.name, "RINGCOMM_", 9), 0);
        assert_true(strlen(row.help) > 5);
        assert_null(strstr(row.value, "sesame"));
        if (strcmp(row.name, "RINGCOMM_SECRET") == 0) {
            assert_string_equal(row.value, "(set)");
            assert_string_equal(row.origin, "environment");
            seen++;
        } else if (strcmp(row.name, "RINGCOMM_SLOTS") == 0) {
            assert_string_equal(row.value, "9");
            assert_string_equal(row.default_value, "4");
            assert_string_equal(row.origin, "environment");
            seen++;
        } else if (strcmp(row.name, "RINGCOMM_TIMEOUT") == 0) {
            assert_string_equal(row.value, "1800");
            assert_string_equal(row.origin, "default");
            seen++;
        }
        assert_true(rows < 1000);
    }
    assert_int_equal(seen, 3);
    check_status(RCM_ERR_NOT_FOUND, rcm_setting_at(rows, &row));
    check_status(RCM_ERR_NOT_FOUND, rcm_setting_at(SIZE_MAX, &row));
    unsetenv("RINGCOMM_SECRET");
    unsetenv("RINGCOMM_SLOTS");
}

/* Every number has a default that can be parsed. */
static void test_number_defaults(void **state) {
    (void)state;
    static const char *const names[] = {"RINGCOMM_TIMEOUT", "RINGCOMM_PEER_TIMEOUT",
                                        "RINGCOMM_PLAIN_STORE", "RINGCOMM_SLOTS"};
    static const int64_t values[] = {1800, 15, 0, 4};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int64_t value = -1;
        unsetenv(names[i]);
        check_ok(rcmi_setting_int(names[i], 0, INT64_MAX, &value));
        assert_true(value == values[i]);
    }
}

/* The default is smaller with many ranks. A set value applies to any number of ranks. */
static void test_slot_bytes(void **state) {
    static const struct {
        int nranks;
        int64_t bytes;
    } want[] = {{1, 131072},  {64, 131072}, {65, 65536},
                {256, 32768}, {257, 16384}, {100000, 16384}};
    int64_t bytes;
    (void)state;
    unsetenv("RINGCOMM_SLOT_BYTES");
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        check_ok(rcmi_setting_slot_bytes(want[i].nranks, &bytes));
        assert_true(bytes == want[i].bytes);
    }
    setenv("RINGCOMM_SLOT_BYTES", "2M", 1);
    check_ok(rcmi_setting_slot_bytes(1000, &bytes));
    assert_true(bytes == 2 << 20);
    static const char *const bad[] = {"1000", "1030", "128M", "auto2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("RINGCOMM_SLOT_BYTES", bad[i], 1);
        check_status(RCM_ERR_CONFIG, rcmi_setting_slot_bytes(2, &bytes));
    }
    unsetenv("RINGCOMM_SLOT_BYTES");
}

/* The warnings about settings without effect. */
static void capture_names(char *ret_text, size_t size) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const int old = dup(STDERR_FILENO);
    assert_true(old >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    rcmi_settings_warn_names();
    dup2(old, STDERR_FILENO);
    close(old);
    close(ends[1]); /* a pipe holds some lines */
    const ssize_t got = read(ends[0], ret_text, size - 1);
    close(ends[0]);
    assert_true(got >= 0);
    ret_text[got] = '\0';
}

/* The warning contains the name and the nearest known name, never the value. Other prefixes and
 * settings of tools are not reported. */
static void test_misspelt(void **state) {
    (void)state;
    static const char *const names[][2] = {{"RINGCOMM_TIMEOUTS", "RINGCOMM_TIMEOUT"},
                                           {"RINGCOMM_SECRTE", "RINGCOMM_SECRET"},
                                           {"RINGCOMM_SLOT_BYTE", "RINGCOMM_SLOT_BYTES"},
                                           {"RINGCOMM_log", "RINGCOMM_LOG"},
                                           {"RINGCOMM_INTERFACE", "RINGCOMM_IFACE"}};
    char text[2000], nearest[100];
    setenv("RINGCOMM_TIMEOUT", "10m", 1);
    setenv("RINGCOMM_BENCH_FLIP", "1", 1);
    setenv("RINGCOMMON", "1", 1);
    capture_names(text, sizeof text);
    assert_string_equal(text, "");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        setenv(names[i][0], "swordfish", 1);
        capture_names(text, sizeof text);
        snprintf(nearest, sizeof nearest, "nearest name is %s\n", names[i][1]);
        assert_non_null(strstr(text, names[i][0]));
        assert_non_null(strstr(text, nearest));
        assert_null(strstr(text, "swordfish"));
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        unsetenv(names[i][0]);
    }
    unsetenv("RINGCOMM_TIMEOUT");
    unsetenv("RINGCOMM_BENCH_FLIP");
    unsetenv("RINGCOMMON");
}

int main(void) {
    setenv("RINGCOMM_LOG", "warn", 1);
    unsetenv("RINGCOMM_SECRET");
    unsetenv("RINGCOMM_SECRET_FILE");
    unsetenv("RINGCOMM_TIMEOUT");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_parser),     cmocka_unit_test(test_values),
        cmocka_unit_test(test_kinds),           cmocka_unit_test(test_capitals),
        cmocka_unit_test(test_misspelt),        cmocka_unit_test(test_secret_file),
        cmocka_unit_test(test_secret),          cmocka_unit_test(test_shown),
        cmocka_unit_test(test_number_defaults), cmocka_unit_test(test_slot_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
