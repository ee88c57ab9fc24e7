/* SPDX-License-Identifier: BSD-3-Clause */
/* The IDX reader of the examples: valid files, plain and compressed, and every kind of invalid
 * file. Each error must contain the file and the reason, and leave the result unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>
#include "idx.h"

static char folder[64], path[96], gz_path[100];

static int folder_create(void **state) {
    (void)state;
    strcpy(folder, "/tmp/ringcomm-idx-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/digits", folder);
    snprintf(gz_path, sizeof gz_path, "%s.gz", path);
    return 0;
}

static int folder_remove(void **state) {
    (void)state;
    unlink(path);
    unlink(gz_path);
    return rmdir(folder);
}

static void write_plain(const char *name, const void *bytes, size_t len) {
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void write_gz(const void *bytes, size_t len) {
    gzFile file = gzopen(gz_path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)len), (int)len);
    assert_int_equal(gzclose(file), Z_OK);
}

/* Removes the last `cut` bytes of the .gz, or flips a bit in its checksum with cut 0. */
static void damage_gz(size_t cut) {
    uint8_t bytes[4096];
    FILE *file = fopen(gz_path, "r");
    assert_non_null(file);
    size_t len = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(len > 20 && len < sizeof bytes);
    bytes[len - 8] ^= cut == 0;
    write_plain(gz_path, bytes, len - cut);
}

static void files_forget(void) {
    unlink(path);
    unlink(gz_path);
}

static void expect_refusal(int ndims, const char *reason) {
    struct idx idx = {.len = 77};
    char error[512] = "";
    assert_int_equal(idx_read(path, ndims, &idx, error, sizeof error), -1);
    assert_non_null(strstr(error, path));
    if (!strstr(error, reason))
        fail_msg("\"%s\" does not contain \"%s\"", error, reason);
    assert_int_equal(idx.len, 77);
    assert_null(idx.data);
    files_forget();
}

static void refuse(const char *bytes, size_t len, int ndims, const char *reason) {
    write_plain(path, bytes, len);
    expect_refusal(ndims, reason);
}
#define REFUSE(bytes, ndims, reason) refuse(bytes, sizeof(bytes) - 1, ndims, reason)

#define GOOD                                                                                       \
    "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"                                                             \
    "abcdef"

static void expect_good(void) {
    struct idx idx;
    char error[512] = "";
    if (idx_read(path, 2, &idx, error, sizeof error) != 0)
        fail_msg("%s", error);
    assert_int_equal(idx.dims[0], 2);
    assert_int_equal(idx.dims[1], 3);
    assert_int_equal(idx.len, 6);
    assert_memory_equal(idx.data, "abcdef", 6);
    idx_free(&idx);
    files_forget();
}

static void test_good(void **state) {
    (void)state;
    write_plain(path, GOOD, sizeof GOOD - 1);
    expect_good();
    write_gz(GOOD, sizeof GOOD - 1);
    expect_good();
}

static void test_missing(void **state) {
    (void)state;
    expect_refusal(2, "neither");
}

static void test_header(void **state) {
    (void)state;
    REFUSE("", 1, "truncated");
    REFUSE("\0\0\x08", 1, "truncated");
    REFUSE("\0\0\x08\x01"
           "abcd",
           3, "0x00000801 instead of 0x00000803");
    REFUSE("\0\0\x0d\x01\0\0\0\x01"
           "a",
           1, "0x00000d01");
    REFUSE("PK\x03\x04 this is no idx file", 1, "0x504b0304");
    REFUSE("\0\0\x08\x02\0\0\0\x02\0\0", 2, "truncated");
}

static void test_sizes(void **state) {
    (void)state;
    REFUSE("\0\0\x08\x02\0\0\0\0\0\0\0\x03", 2, "dimension 0 has the size 0");
    REFUSE("\0\0\x08\x01\xff\xff\xff\xff", 1, "too large");
    REFUSE("\0\0\x08\x03\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00", 3, "dimension 1");
    REFUSE("\0\0\x08\x01\x7f\xff\xff\xff"
           "abc",
           1, "3 bytes of data instead of 2147483647");
}

static void test_body(void **state) {
    (void)state;
    refuse(GOOD, sizeof GOOD - 2, 2, "5 bytes of data instead of 6");
    refuse(GOOD "g", sizeof GOOD, 2, "more than the 6 bytes");
}

static void test_compressed(void **state) {
    (void)state;
    write_gz(GOOD, sizeof GOOD - 1);
    damage_gz(9);
    expect_refusal(2, "damaged data");
    write_gz(GOOD, sizeof GOOD - 1);
    damage_gz(0);
    expect_refusal(2, "damaged data");
}

static void test_folder_instead_of_file(void **state) {
    struct idx idx;
    char error[512] = "";
    (void)state;
    assert_int_equal(idx_read(folder, 1, &idx, error, sizeof error), -1);
    assert_non_null(strstr(error, folder));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),       cmocka_unit_test(test_missing),
        cmocka_unit_test(test_header),     cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_body),       cmocka_unit_test(test_folder_instead_of_file),
        cmocka_unit_test(test_compressed),
    };
    return cmocka_run_group_tests(tests, folder_create, folder_remove);
}
