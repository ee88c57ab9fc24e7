/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of settings, numbers in them, and where the secret comes from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "check.h"
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

static void check_range_error(const char *value) {
    int64_t number = 42;
    setenv("RINGCOMM_PEER_TIMEOUT", value, 1);
    check_status(RCM_ERR_CONFIG, rcmi_setting_int("RINGCOMM_PEER_TIMEOUT", -1, 3600, &number));
    assert_int_equal(number, 42);
    check_error_names("RINGCOMM_PEER_TIMEOUT");
    check_error_names(value);
    check_error_names("-1");
    check_error_names("3600");
}

static void test_ints(void **state) {
    (void)state;
    int64_t number = 0;
    unsetenv("RINGCOMM_PEER_TIMEOUT");
    check_ok(rcmi_setting_int("RINGCOMM_PEER_TIMEOUT", -1, 3600, &number));
    assert_int_equal(number, 15);
    setenv("RINGCOMM_PEER_TIMEOUT", "-1", 1);
    check_ok(rcmi_setting_int("RINGCOMM_PEER_TIMEOUT", -1, 3600, &number));
    assert_int_equal(number, -1);
    setenv("RINGCOMM_PEER_TIMEOUT", "3K", 1);
    check_ok(rcmi_setting_int("RINGCOMM_PEER_TIMEOUT", -1, 3600, &number));
    assert_int_equal(number, 3072);
    check_range_error("3601");
    check_range_error("-2");
    check_range_error("--2");
    check_range_error("fifteen");
    check_range_error("99999999999999999999");
    unsetenv("RINGCOMM_PEER_TIMEOUT");
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

/* Every row is shown once, with help; values and origins follow the environment. */
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

/* What is a number has a default that parses as one. */
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

/* Less where there are many ranks; what is set holds for all. */
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

/* What the warnings of settings without effect write to stderr. */
static void capture_retired(char *ret_text, size_t size) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const int old = dup(STDERR_FILENO);
    assert_true(old >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    rcmi_settings_warn_retired();
    dup2(old, STDERR_FILENO);
    close(old);
    close(ends[1]); /* a pipe holds some lines */
    const ssize_t got = read(ends[0], ret_text, size - 1);
    close(ends[0]);
    assert_true(got >= 0);
    ret_text[got] = '\0';
}

static void test_retired(void **state) {
    (void)state;
    char text[2000];
    unsetenv("RINGCOMM_FETCH");
    unsetenv("RINGCOMM_PLACE");
    capture_retired(text, sizeof text);
    assert_string_equal(text, "");
    setenv("RINGCOMM_FETCH", "always", 1);
    capture_retired(text, sizeof text);
    assert_non_null(strstr(text, "RINGCOMM_FETCH"));
    assert_non_null(strstr(text, "RINGCOMM_PROTOCOL")); /* what to set instead */
    assert_null(strstr(text, "RINGCOMM_PLACE"));
    unsetenv("RINGCOMM_FETCH");
    setenv("RINGCOMM_PLACE", "none", 1);
    capture_retired(text, sizeof text);
    assert_non_null(strstr(text, "RINGCOMM_PLACE"));
    assert_non_null(strstr(text, "--bind"));
    assert_null(strstr(text, "RINGCOMM_FETCH"));
    unsetenv("RINGCOMM_PLACE");
}

int main(void) {
    setenv("RINGCOMM_LOG", "warn", 1);
    unsetenv("RINGCOMM_SECRET");
    unsetenv("RINGCOMM_SECRET_FILE");
    unsetenv("RINGCOMM_TIMEOUT");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_parser),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_ints),
        cmocka_unit_test(test_secret_file),
        cmocka_unit_test(test_secret),
        cmocka_unit_test(test_shown),
        cmocka_unit_test(test_number_defaults),
        cmocka_unit_test(test_slot_bytes),
        cmocka_unit_test(test_retired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
