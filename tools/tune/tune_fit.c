/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-tune: fits the constants to the measurements. For each state of CPU sharing it minimizes
 * the sum of squared relative errors, with no constant below zero. It solves a linear problem
 * repeatedly, with weights from the last result. Errors are relative to the geometric mean of
 * predicted and measured time, so that half and double count alike. Outliers, and algorithms that
 * would never be chosen, have lower weights. Constants that the points do not determine keep their
 * values. See tune.h.
 */
#include "tune.h"

#include <math.h>

#define ROUNDS       40
#define SWEEPS       400
#define FAR          0.7 /* difference of the logarithms of an outlier: a factor of 2 */
#define LEAST_WEIGHT 0.05
#define KEPT         0.005 /* weight of the previous constants, in points */

double tune_predict(const struct tune_point *p, const struct rcmi_prices *prices) {
    const double *rates = (const double *)(const void *)&prices->of[p->sharing];
    double us = 0;
    for (int i = 0; i < RCMI_PRICES; i++)
        us += p->work[i] * rates[i];
    return us;
}

size_t tune_group_end(const struct tune_points *points, size_t first) {
    const struct tune_point *a = &points->all[first];
    size_t end = first;
    while (end < points->n && points->all[end].collective == a->collective &&
           points->all[end].bytes == a->bytes && points->all[end].nranks == a->nranks &&
           points->all[end].tcp == a->tcp)
        end++;
    return end;
}

/* Normal equations of the weighted problem. */
struct normal {
    double a[RCMI_PRICES][RCMI_PRICES], b[RCMI_PRICES];
};

static void normal_add(struct normal *n, const struct tune_point *p, double weight) {
    for (int i = 0; i < RCMI_PRICES; i++) {
        n->b[i] += weight * p->work[i] * p->us;
        for (int k = 0; k < RCMI_PRICES; k++)
            n->a[i][k] += weight * p->work[i] * p->work[k];
    }
}

static double point_weight(const struct tune_point *p, double best_us,
                           const struct rcmi_prices *prices) {
    const double predicted = fmax(tune_predict(p, prices), p->us / 100);
    const double off = fabs(log(predicted / p->us));
    const double useful = fmax(LEAST_WEIGHT, best_us / p->us);
    return useful * (off > FAR ? FAR / off : 1) / (predicted * p->us);
}

static void normal_fill(struct normal *n, const struct tune_points *points,
                        enum rcmi_sharing sharing, const struct rcmi_prices *prices) {
    *n = (struct normal){.b = {0}};
    for (size_t first = 0; first < points->n; first = tune_group_end(points, first)) {
        const size_t end = tune_group_end(points, first);
        double best = INFINITY;
        for (size_t i = first; i < end; i++)
            if (points->all[i].us > 0)
                best = fmin(best, points->all[i].us);
        for (size_t i = first; i < end; i++)
            if (points->all[i].us > 0 && points->all[i].sharing == sharing)
                normal_add(n, &points->all[i], point_weight(&points->all[i], best, prices));
    }
}

/* Adds a small weight for the previous constants, so that undetermined ones stay near them. */
static void normal_keep(struct normal *n, const double before[RCMI_PRICES]) {
    for (int i = 0; i < RCMI_PRICES; i++) {
        if (before[i] <= 0 || n->a[i][i] <= 0)
            continue;
        n->a[i][i] += KEPT / (before[i] * before[i]);
        n->b[i] += KEPT / before[i];
    }
}

/* Coordinate descent: sets one constant after the other to its optimum, but not below zero. Leaves
 * constants that no point has. */
static void normal_solve(const struct normal *n, double rates[RCMI_PRICES]) {
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int i = 0; i < RCMI_PRICES; i++) {
            double rest = n->b[i];
            if (n->a[i][i] <= 0)
                continue;
            for (int k = 0; k < RCMI_PRICES; k++)
                rest -= k == i ? 0 : n->a[i][k] * rates[k];
            rates[i] = fmax(0, rest / n->a[i][i]);
        }
}

/* Rounds to the precision of the file. */
static void rates_round(double rates[RCMI_PRICES]) {
    for (int i = 0; i < RCMI_PRICES; i++)
        rates[i] = floor(rates[i] * 1000 + 0.5) / 1000;
}

void tune_fit(const struct tune_points *points, struct rcmi_prices *prices) {
    const struct rcmi_prices before = *prices;
    struct normal n;
    for (int s = 0; s < RCMI_SHARINGS; s++) {
        double *rates = (double *)(void *)&prices->of[s];
        for (int round = 0; round < ROUNDS; round++) {
            normal_fill(&n, points, (enum rcmi_sharing)s, prices);
            normal_keep(&n, (const double *)(const void *)&before.of[s]);
            normal_solve(&n, rates);
        }
        rates_round(rates);
    }
}
