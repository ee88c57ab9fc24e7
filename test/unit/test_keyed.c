/* SPDX-License-Identifier: BSD-3-Clause */
/* Items by key (base/keyed.h): each step of a random sequence is compared with a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "keyed.h"

enum { ITEMS = 400, STEPS = 40000 };

struct thing {
    struct rcmi_keyed_item item;
    uint64_t added; /* number of the step; 0: not listed */
};

static struct thing things[ITEMS];
static unsigned seed = 12345;

static unsigned any(unsigned n) {
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % n;
}

static struct rcmi_key key_of(unsigned keys) {
    return (struct rcmi_key){{any(keys), any(2) ? UINT64_MAX : 0}};
}

/* The expected result of find. */
static struct rcmi_keyed_item *first_of(struct rcmi_key key) {
    struct thing *first = NULL;
    for (int i = 0; i < ITEMS; i++)
        if (things[i].added && things[i].item.key.word[0] == key.word[0] &&
            things[i].item.key.word[1] == key.word[1] && (!first || things[i].added < first->added))
            first = &things[i];
    return first ? &first->item : NULL;
}

static bool count(void *arg, struct rcmi_keyed_item *item) {
    assert_true(((const struct thing *)item)->added > 0);
    return ++*(size_t *)arg > 0;
}

static void play(unsigned keys) {
    struct rcmi_keyed keyed = {0};
    size_t n = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        struct thing *thing = &things[any(ITEMS)];
        if (thing->added) {
            rcmi_keyed_remove(&keyed, &thing->item);
            thing->added = 0;
            n--;
        } else {
            rcmi_keyed_add(&keyed, key_of(keys), &thing->item);
            thing->added = step;
            n++;
        }
        const struct rcmi_key key = key_of(keys);
        assert_ptr_equal(rcmi_keyed_find(&keyed, key), first_of(key));
        assert_int_equal(keyed.n, n);
    }
    size_t seen = 0;
    assert_true(rcmi_keyed_each(&keyed, count, &seen));
    assert_int_equal(seen, n);
    for (struct rcmi_keyed_item *item; (item = rcmi_keyed_any(&keyed)); n--) {
        rcmi_keyed_remove(&keyed, item);
        ((struct thing *)item)->added = 0;
    }
    assert_int_equal(n, 0);
    rcmi_keyed_fini(&keyed);
}

static void test_random(void **state) {
    (void)state;
    play(1);
    play(5);
    play(1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests_name("keyed", tests, NULL, NULL);
}
