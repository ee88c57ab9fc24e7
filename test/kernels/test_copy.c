/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain and streaming copies of every variant: contents, bytes around dst, sizes and offsets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels.h"
#include "variant.h"

#define GUARD 64
#define ROOM  (5 * 1024 * 1024)

static const char *const variant_names[] = {"generic", "avx2", "avx512"};
static uint8_t *src, *dst;

static int buffers_create(void **state) {
    (void)state;
    src = malloc(ROOM);
    dst = malloc(ROOM);
    if (!src || !dst)
        return -1;
    for (size_t i = 0; i < ROOM; i++)
        src[i] = (uint8_t)(i * 131 + (i >> 8) * 7);
    return 0;
}

static int buffers_destroy(void **state) {
    (void)state;
    free(src);
    free(dst);
    return 0;
}

typedef void (*copy_fn)(void *dst, const void *src, size_t bytes);

static void copy_try(copy_fn copy, size_t bytes, size_t dst_shift, size_t src_shift) {
    uint8_t *before = dst + dst_shift, *to = before + GUARD;
    memset(before, 0xa5, bytes + 2 * GUARD);
    copy(to, src + src_shift, bytes);
    assert_memory_equal(to, src + src_shift, bytes);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(before[i], 0xa5);
        assert_int_equal(to[bytes + i], 0xa5);
    }
}

static void copy_try_all(copy_fn copy) {
    static const size_t sizes[] = {0,    1,    63,   64,   65,   1023,  1024,  2047,  2048, 4095,
                                   4096, 4097, 8191, 8192, 8200, 16384, 20001, 65535, 65543};
    static const size_t shifts[] = {0, 1, 4, 31, 63};
    for (size_t z = 0; z < sizeof sizes / sizeof sizes[0]; z++)
        for (size_t a = 0; a < 5; a++)
            for (size_t b = 0; b < 5; b++)
                copy_try(copy, sizes[z], shifts[a], shifts[b]);
    copy_try(copy, 4 * 1024 * 1024 + 5, 3, 9);
}

static void try_variants(void) {
    for (size_t v = 0; v < 3; v++) {
        const struct rcmi_kernel_table *table = rcmi_kernel_variant(variant_names[v]);
        if (!table)
            continue;
        for (int stores = RCMI_TEMPORAL; stores <= RCMI_VECTORS; stores++)
            copy_try_all(table->copy[stores]);
    }
}

static void test_variants(void **state) {
    (void)state;
    const bool chosen = atomic_load(&rcmi_copies_strings);
    for (int strings = 0; strings < 2; strings++) {
        atomic_store(&rcmi_copies_strings, strings);
        try_variants();
    }
    atomic_store(&rcmi_copies_strings, chosen);
}

static void non_temporal(void *to, const void *from, size_t bytes) {
    rcmi_copy_by(RCMI_NON_TEMPORAL, to, from, bytes);
}

static void by_vectors(void *to, const void *from, size_t bytes) {
    rcmi_copy_by(RCMI_VECTORS, to, from, bytes);
}

static void test_chosen(void **state) {
    (void)state;
    copy_try_all(rcmi_copy);
    copy_try_all(non_temporal);
    copy_try_all(by_vectors);
}

static void test_onto_itself(void **state) {
    (void)state;
    memcpy(dst, src, 100000);
    rcmi_copy(dst, dst, 100000);
    by_vectors(dst, dst, 100000);
    non_temporal(dst, dst, 100000);
    assert_memory_equal(dst, src, 100000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_chosen),
        cmocka_unit_test(test_onto_itself),
    };
    return cmocka_run_group_tests(tests, buffers_create, buffers_destroy);
}
