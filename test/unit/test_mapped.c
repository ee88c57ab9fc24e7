/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection of readable memory: holes, protection, lengths beyond the address space. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check.h"
#include "mapped.h"

static void test_readable(void **state) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    (void)state;
    char *pages = mmap(NULL, 6 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_true(rcmi_memory_is_readable(pages + 5, 6 * page - 5));
    assert_int_equal(mprotect(pages + page, page, PROT_READ), 0);
    assert_true(rcmi_memory_is_readable(pages, 6 * page));
    assert_int_equal(mprotect(pages + 2 * page, page, PROT_NONE), 0);
    assert_true(rcmi_memory_is_readable(pages, 2 * page));
    assert_false(rcmi_memory_is_readable(pages, 2 * page + 1));
    assert_true(rcmi_memory_is_readable(pages + 3 * page, 3 * page));
    assert_int_equal(munmap(pages + 4 * page, page), 0);
    assert_true(rcmi_memory_is_readable(pages + 3 * page + 7, page - 7));
    assert_false(rcmi_memory_is_readable(pages + 3 * page, page + 1));
    assert_false(rcmi_memory_is_readable(pages + 3 * page, 3 * page));
    assert_false(rcmi_memory_is_readable(pages + 4 * page, 1));
    for (int bits = 40; bits < 64; bits++)
        assert_false(rcmi_memory_is_readable(pages + 5 * page, (size_t)1 << bits));
    assert_false(rcmi_memory_is_readable(pages, SIZE_MAX));
    munmap(pages, 4 * page);
    munmap(pages + 5 * page, page);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_readable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
