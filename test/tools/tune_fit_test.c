/* SPDX-License-Identifier: BSD-3-Clause */
/* The fit of ringcomm-tune: it finds the constants from which times were computed, also where a few
 * measurements are far off. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "tune.h"

static struct tune_options options = {.ranks = 16, .shm = true, .tcp = true, .quick = true};

static struct rcmi_prices truth(void) {
    struct rcmi_prices prices = *rcmi_prices_of(RCMI_CPU_OTHER);
    for (int s = 0; s < RCMI_SHARINGS; s++) {
        prices.of[s].shm_hop = 0.5 + s * 4;
        prices.of[s].shm_message = 0.125;
        prices.of[s].shm_mib = 31 + 7 * s;
        prices.of[s].loopback_hop = 6;
        prices.of[s].loopback_message = 2.5 + s;
        prices.of[s].loopback_mib = 120;
        prices.of[s].sum_mib = 17;
    }
    return prices;
}

/* Times from the true constants; every `wrong`-th is ten times as long. */
static void points_price(struct tune_points *points, const struct rcmi_prices *prices,
                         size_t wrong) {
    assert_true(tune_points_make(&options, points));
    assert_true(points->n > 300);
    for (size_t i = 0; i < points->n; i++) {
        points->all[i].us = tune_predict(&points->all[i], prices);
        if (wrong && i % wrong == 0)
            points->all[i].us *= 10;
    }
}

/* Only over points that were not changed. */
static double worst(const struct tune_points *points, const struct rcmi_prices *prices,
                    size_t wrong) {
    double off = 1;
    for (size_t i = 0; i < points->n; i++) {
        const double ratio = tune_predict(&points->all[i], prices) / points->all[i].us;
        if (!wrong || i % wrong != 0)
            off = fmax(off, fmax(ratio, 1 / ratio));
    }
    return off;
}

static void test_exact(void **state) {
    (void)state;
    const struct rcmi_prices prices = truth();
    struct rcmi_prices fitted = *rcmi_prices_of(RCMI_CPU_OTHER);
    struct tune_points points;
    points_price(&points, &prices, 0);
    assert_true(worst(&points, &fitted, 0) > 1.5);
    tune_fit(&points, &fitted);
    assert_true(worst(&points, &fitted, 0) < 1.1);
    assert_true(fitted.of[RCMI_ROOMY].wire_mib ==
                rcmi_prices_of(RCMI_CPU_OTHER)->of[RCMI_ROOMY].wire_mib); /* not measured */
    tune_points_free(&points);
}

static void test_spoiled(void **state) {
    (void)state;
    const struct rcmi_prices prices = truth();
    struct rcmi_prices fitted = *rcmi_prices_of(RCMI_CPU_OTHER);
    struct tune_points points;
    points_price(&points, &prices, 17);
    tune_fit(&points, &fitted);
    assert_true(worst(&points, &fitted, 17) < 1.5);
    tune_points_free(&points);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_spoiled),
    };
    return cmocka_run_group_tests_name("tune fit", tests, NULL, NULL);
}
