/* SPDX-License-Identifier: BSD-3-Clause */
/* The status page: on which CPU its rank last drove a communicator. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "status_page.h"

/* Binds this thread to the CPU with that index in its affinity mask. False: there is none. */
static bool bind_to(const cpu_set_t *all, int index) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, all) && index-- == 0)
            CPU_SET(cpu, &one);
    return CPU_COUNT(&one) == 1 && sched_setaffinity(0, sizeof one, &one) == 0;
}

static void test_cpu(void **state) {
    (void)state;
    cpu_set_t all;
    struct rcmi_status_page *page = aligned_alloc(_Alignof(struct rcmi_status_page), sizeof(*page));
    assert_non_null(page);
    memset(page, 0, sizeof(*page));
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_true(bind_to(&all, 0));
    assert_false(rcmi_page_drove_here(page)); /* unknown yet */
    rcmi_page_drives_here(page);
    assert_true(rcmi_page_drove_here(page));
    if (bind_to(&all, 1)) {
        assert_false(rcmi_page_drove_here(page));
        rcmi_page_drives_here(page);
        assert_true(rcmi_page_drove_here(page));
    }
    free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
