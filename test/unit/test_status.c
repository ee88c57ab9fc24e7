/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of statuses, types and operators; the thread's error record. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "check.h"
#include "error.h"

static void test_status_tables(void **state) {
    (void)state;
    assert_string_equal(rcm_status_name(RCM_OK), "RCM_OK");
    assert_string_equal(rcm_status_name(RCM_ERR_PEER), "RCM_ERR_PEER");
    assert_string_equal(rcm_status_name((rcm_status)-999), "RCM_?");
    assert_string_equal(rcm_status_text(RCM_ERR_TIMEOUT), "the deadline passed");
#define ROW(name, number, text)                                                                    \
    assert_string_equal(rcm_status_name((rcm_status)(number)), "RCM_" #name);                      \
    assert_string_equal(rcm_status_text((rcm_status)(number)), text);
    RCM_STATUS_MAP(ROW)
#undef ROW
}

static void test_dtypes(void **state) {
    (void)state;
    assert_int_equal(rcm_dtype_size(RCM_FLOAT64), 8);
    assert_int_equal(rcm_dtype_size((rcm_dtype)0), 0);
    assert_string_equal(rcm_dtype_name(RCM_FLOAT32), "float32");
    assert_string_equal(rcm_dtype_name((rcm_dtype)77), "?");
#define ROW(name, number, bytes, ctype)                                                            \
    {                                                                                              \
        rcm_dtype back = (rcm_dtype)0;                                                             \
        assert_int_equal(rcm_dtype_size(RCM_##name), bytes);                                       \
        assert_int_equal(strcasecmp(rcm_dtype_name(RCM_##name), #name), 0);                        \
        check_ok(rcm_dtype_from_name(rcm_dtype_name(RCM_##name), &back));                          \
        assert_int_equal(back, RCM_##name);                                                        \
    }
    RCM_DTYPE_MAP(ROW)
#undef ROW
    rcm_dtype untouched = RCM_INT64;
    check_status(RCM_ERR_INVALID, rcm_dtype_from_name("float33", &untouched));
    check_error_names("float33");
    check_status(RCM_ERR_INVALID, rcm_dtype_from_name(NULL, &untouched));
    assert_int_equal(untouched, RCM_INT64);
}

static void test_ops(void **state) {
    (void)state;
    assert_string_equal(rcm_op_name(RCM_SUM), "sum");
    assert_string_equal(rcm_op_name((rcm_op)0), "?");
#define ROW(name, number)                                                                          \
    {                                                                                              \
        rcm_op back = (rcm_op)0;                                                                   \
        check_ok(rcm_op_from_name(rcm_op_name(RCM_##name), &back));                                \
        assert_int_equal(back, RCM_##name);                                                        \
    }
    RCM_OP_MAP(ROW)
#undef ROW
    rcm_op op = RCM_MAX;
    check_status(RCM_ERR_INVALID, rcm_op_from_name("average", &op));
    check_error_names("average");
    assert_int_equal(op, RCM_MAX);
}

static void test_version(void **state) {
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", RCM_VERSION_MAJOR, RCM_VERSION_MINOR,
             RCM_VERSION_PATCH);
    assert_string_equal(rcm_version(), text);
}

static void *other_thread(void *arg) {
    *(int *)arg = strcmp(rcm_last_error(), "") == 0;
    (void)rcmi_fail(RCM_ERR_PEER, 0, "of the other thread");
    return NULL;
}

static void test_error_record(void **state) {
    (void)state;
    errno = EINTR;
    check_status(RCM_ERR_INVALID, rcmi_fail(RCM_ERR_INVALID, 0, "count=%d is negative", -3));
    assert_int_equal(errno, EINTR);
    assert_string_equal(rcm_last_error(), "count=-3 is negative");
    assert_int_equal(rcmi_last_error()->origin, -1);

    check_status(RCM_ERR_SYSTEM, rcmi_fail(RCM_ERR_SYSTEM, ENOENT, "cannot open %s", "x"));
    assert_string_equal(rcm_last_error(), "cannot open x: No such file or directory");
    assert_int_equal(rcmi_last_error()->sys_errno, ENOENT);

    check_status(RCM_ERR_SYSTEM, rcmi_fail_context("store %d", 7));
    assert_string_equal(rcm_last_error(), "store 7: cannot open x: No such file or directory");
    assert_int_equal(rcmi_last_error()->sys_errno, ENOENT);

    /* the record's own text as an argument */
    (void)rcmi_fail_origin(RCM_ERR_PEER, 5, "rank 5 (%s)", rcm_last_error());
    assert_string_equal(rcm_last_error(),
                        "rank 5 (store 7: cannot open x: No such file or directory)");
    assert_int_equal(rcmi_last_error()->origin, 5);
    assert_int_equal(rcmi_last_error()->sys_errno, 0);

    int was_empty = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &was_empty), 0);
    pthread_join(thread, NULL);
    assert_true(was_empty);
    assert_int_equal(rcmi_last_error()->origin, 5);
}

static void test_error_long(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    (void)rcmi_fail(RCM_ERR_SYSTEM, EIO, "%s", text);
    assert_int_equal(strlen(rcm_last_error()), sizeof rcmi_last_error()->text - 1);
    (void)rcmi_fail_context("%s", text);
    assert_int_equal(strlen(rcm_last_error()), sizeof rcmi_last_error()->text - 1);
    (void)rcmi_fail(RCM_ERR_INVALID, 0, "short");
    for (int i = 0; i < 200; i++)
        (void)rcmi_fail_context("context");
    assert_int_equal(strlen(rcm_last_error()), sizeof rcmi_last_error()->text - 1);
}

static void check_cleaned(const char *from, const char *to) {
    char text[64];
    snprintf(text, sizeof text, "%s", from);
    rcmi_text_clean(text);
    assert_string_equal(text, to);
}

/* Quoted text of a peer cannot contain terminal control sequences. */
static void test_error_cleaned(void **state) {
    (void)state;
    check_cleaned("", "");
    check_cleaned("rank 3: it broke ~", "rank 3: it broke ~");
    check_cleaned("\x1b[2Ja\r\n\tb\x7f", "?[2Ja???b?");
    check_cleaned("\x9b"
                  "2J",
                  "?2J"); /* one byte, as 8-bit terminals interpret it */
    check_cleaned("a\xc2\x9b"
                  "2J",
                  "a??2J"); /* the same as UTF-8 */
    check_cleaned("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82",
                  "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82");
    check_cleaned("cut \xe2\x82", "cut ??");
    check_cleaned("\xc0\x9b \xff\xfe\x80", "?? ???");
    rcmi_fail(RCM_ERR_PEER, 0, "rank %d wrote %s", 3, "\x1b[31mhello\n");
    assert_string_equal(rcm_last_error(), "rank 3 wrote ?[31mhello?");
    rcmi_fail_context("on host %s", "a\nb");
    assert_string_equal(rcm_last_error(), "on host a?b: rank 3 wrote ?[31mhello?");
}

static void test_status_of_errno(void **state) {
    (void)state;
    check_status(RCM_ERR_NOMEM, rcmi_status_of_errno(ENOMEM));
    check_status(RCM_ERR_RESOURCE, rcmi_status_of_errno(EMFILE));
    check_status(RCM_ERR_RESOURCE, rcmi_status_of_errno(ENOSPC));
    check_status(RCM_ERR_TIMEOUT, rcmi_status_of_errno(ETIMEDOUT));
    check_status(RCM_ERR_PEER, rcmi_status_of_errno(ECONNRESET));
    check_status(RCM_ERR_PEER, rcmi_status_of_errno(EPIPE));
    check_status(RCM_ERR_SYSTEM, rcmi_status_of_errno(EPERM));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_tables), cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_ops),           cmocka_unit_test(test_version),
        cmocka_unit_test(test_error_record),  cmocka_unit_test(test_error_long),
        cmocka_unit_test(test_error_cleaned), cmocka_unit_test(test_status_of_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
