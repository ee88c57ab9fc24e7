/* SPDX-License-Identifier: BSD-3-Clause */
/* Structs that grow in later versions. Three versions of a struct that has grown twice are passed
 * in and out. */
#include <stdio.h>
#include <string.h>
#include "../unit/check.h"
#include "struct_versions.h"

struct first {
    uint32_t size;
    int32_t number;
};
struct ours {
    uint32_t size;
    int32_t number;
    int64_t added;
};
struct newer {
    uint32_t size;
    int32_t number;
    int64_t added;
    int64_t unknown[2];
};

static const struct rcmi_sized sized = {"thing", "THING_INIT", sizeof(struct first),
                                        sizeof(struct ours)};
static const struct ours defaults = {.size = sizeof(struct ours), .number = -1, .added = 7};

/* ---- Structs passed in ----------------------------------------------------------------------- */

static void same_size_is_copied(void **state) {
    (void)state;
    const struct ours given = {.size = sizeof given, .number = 3, .added = 4};
    struct ours ours = defaults;
    check_ok(rcmi_struct_in(&sized, &given, &ours));
    assert_memory_equal(&ours, &given, sizeof ours);
}

static void missing_fields_keep_their_defaults(void **state) {
    (void)state;
    const struct first given = {.size = sizeof given, .number = 3};
    struct ours ours = defaults;
    check_ok(rcmi_struct_in(&sized, &given, &ours));
    assert_int_equal(ours.size, sizeof ours);
    assert_int_equal(ours.number, 3);
    assert_int_equal(ours.added, 7);
}

static void unknown_fields_may_be_0(void **state) {
    (void)state;
    const struct newer given = {.size = sizeof given, .number = 3, .added = 4};
    struct ours ours = defaults;
    check_ok(rcmi_struct_in(&sized, &given, &ours));
    assert_int_equal(ours.size, sizeof ours);
    assert_int_equal(ours.number, 3);
    assert_int_equal(ours.added, 4);
}

static void unknown_fields_that_are_set_are_refused(void **state) {
    (void)state;
    struct newer given = {.size = sizeof given, .number = 3};
    unsigned char *bytes = (unsigned char *)&given;
    const size_t places[] = {sizeof(struct ours), sizeof given - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct ours ours = defaults;
        char words[40];
        snprintf(words, sizeof words, "thing->size is 32 and its byte %zu is set", places[i]);
        bytes[places[i]] = 1;
        check_status(RCM_ERR_INVALID, rcmi_struct_in(&sized, &given, &ours));
        check_error_names(words);
        check_error_names("the library is older than the program");
        assert_memory_equal(&ours, &defaults, sizeof ours);
        bytes[places[i]] = 0;
    }
}

static void sizes_that_no_version_has_are_refused(void **state) {
    (void)state;
    struct first given = {.size = sizeof given - 1, .number = 3};
    struct ours ours = defaults;
    check_status(RCM_ERR_INVALID, rcmi_struct_in(&sized, &given, &ours));
    check_error_names("thing->size is 7, expected at least 8 (THING_INIT)");
    given.size = 0;
    check_status(RCM_ERR_INVALID, rcmi_struct_in(&sized, &given, &ours));
    check_status(RCM_ERR_INVALID, rcmi_struct_out_check(&sized, &given));
    check_error_names("thing->size is 0, expected at least 8");
    given.size = 0xcccccccc; /* never set, so nothing of that size is read */
    check_status(RCM_ERR_INVALID, rcmi_struct_in(&sized, &given, &ours));
    check_status(RCM_ERR_INVALID, rcmi_struct_out_check(&sized, &given));
    check_error_names("thing->size is 3435973836, expected at most 4096");
    assert_memory_equal(&ours, &defaults, sizeof ours);
}

/* ---- Structs passed out ---------------------------------------------------------------------- */

/* Calls rcmi_struct_out for a struct of `size` bytes in a buffer of `bytes` bytes, filled with
 * 0xee. */
static void fill(uint32_t size, unsigned char *room, size_t bytes) {
    const struct ours ours = {.size = sizeof ours, .number = 3, .added = 4};
    memset(room, 0xee, bytes);
    memcpy(room, &size, sizeof size);
    check_ok(rcmi_struct_out_check(&sized, room));
    rcmi_struct_out(&sized, &ours, room);
}

static void no_more_is_written_than_there_is(void **state) {
    (void)state;
    unsigned char room[sizeof(struct newer)], rest[sizeof room];
    struct first got;
    fill(sizeof got, room, sizeof room);
    memcpy(&got, room, sizeof got);
    memset(rest, 0xee, sizeof rest);
    assert_int_equal(got.size, sizeof got);
    assert_int_equal(got.number, 3);
    assert_memory_equal(room + sizeof got, rest, sizeof room - sizeof got);
}

static void unknown_fields_become_0(void **state) {
    (void)state;
    unsigned char room[sizeof(struct newer) + 8], rest[8];
    struct newer got;
    fill(sizeof got, room, sizeof room);
    memcpy(&got, room, sizeof got);
    memset(rest, 0xee, sizeof rest);
    assert_int_equal(got.size, sizeof got);
    assert_int_equal(got.number, 3);
    assert_int_equal(got.added, 4);
    assert_int_equal(got.unknown[0], 0);
    assert_int_equal(got.unknown[1], 0);
    assert_memory_equal(room + sizeof got, rest, sizeof rest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_size_is_copied),
        cmocka_unit_test(missing_fields_keep_their_defaults),
        cmocka_unit_test(unknown_fields_may_be_0),
        cmocka_unit_test(unknown_fields_that_are_set_are_refused),
        cmocka_unit_test(sizes_that_no_version_has_are_refused),
        cmocka_unit_test(no_more_is_written_than_there_is),
        cmocka_unit_test(unknown_fields_become_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
