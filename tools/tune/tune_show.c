/* SPDX-License-Identifier: BSD-3-Clause */
/* ringcomm-tune: writes measurements and constants. See tune.h. */
#include "tune.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../common.h"

#define GOOD 1.25 /* a choice is good if it takes at most this times the best */

/* ---- Choices --------------------------------------------------------------------------------- */

/* The best and the chosen point of a group. */
struct choice {
    const struct tune_point *best, *chosen; /* NULL: not all were measured */
};

static struct choice choice_make(const struct tune_points *points, size_t first, size_t end,
                                 const struct rcmi_prices *prices) {
    struct choice c = {NULL, NULL};
    for (size_t i = first; i < end; i++) {
        const struct tune_point *p = &points->all[i];
        if (p->us <= 0)
            return (struct choice){NULL, NULL};
        if (!c.best || p->us < c.best->us)
            c.best = p;
        if (!c.chosen || tune_predict(p, prices) < tune_predict(c.chosen, prices))
            c.chosen = p;
    }
    return c;
}

void tune_show_report(const struct tune_points *points, const struct rcmi_prices *prices) {
    printf("# %-14s %-9s %5s %9s %-18s %-18s %10s %10s %6s\n", "collective", "transport", "ranks",
           "bytes", "chosen", "best", "chosen_us", "best_us", "ratio");
    for (size_t first = 0, end; first < points->n; first = end) {
        end = tune_group_end(points, first);
        const struct choice c = choice_make(points, first, end, prices);
        if (c.best)
            printf("%-16s %-9s %5d %9zu %-18s %-18s %10.2f %10.2f %6.2f\n",
                   rcmi_collective_name(c.best->collective), c.best->tcp ? "tcp" : "shm",
                   c.best->nranks, c.best->bytes, c.chosen->algorithm->name,
                   c.best->algorithm->name, c.chosen->us, c.best->us, c.chosen->us / c.best->us);
    }
}

static int double_compare(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The factors by which predictions are off, in either direction, sorted. The caller frees; NULL: no
 * memory. */
static double *errors_sorted(const struct tune_points *points, const struct rcmi_prices *prices,
                             size_t *ret_n) {
    double *off = calloc(points->n + 1, sizeof(*off));
    *ret_n = 0;
    for (size_t i = 0; off && i < points->n; i++) {
        const struct tune_point *p = &points->all[i];
        const double predicted = fmax(tune_predict(p, prices), 1e-3);
        if (p->us > 0)
            off[(*ret_n)++] = fmax(predicted / p->us, p->us / predicted);
    }
    if (off)
        qsort(off, *ret_n, sizeof(*off), double_compare);
    return off;
}

void tune_show_errors(const struct tune_points *points, const char *whose,
                      const struct rcmi_prices *prices) {
    size_t n, good = 0, groups = 0, single = 0;
    double *off = errors_sorted(points, prices, &n), logs = 0;
    for (size_t first = 0, end; first < points->n; first = end) {
        end = tune_group_end(points, first);
        const struct choice c = choice_make(points, first, end, prices);
        single += c.best && end - first == 1;
        if (!c.best || end - first == 1)
            continue;
        groups++;
        good += c.chosen->us <= GOOD * c.best->us;
        logs += log(c.chosen->us / c.best->us);
    }
    if (off && n > 0 && groups > 0)
        printf(
            "# %s: predictions are off by a factor of %.2f (median), %.2f (90 %%); the chosen "
            "algorithm is within 25 %% of the best at %zu of %zu points (%.0f %%), and takes %.2f "
            "times as long on average; %zu points have only one algorithm\n",
            whose, off[n / 2], off[n * 9 / 10], good, groups, 100.0 * (double)good / (double)groups,
            exp(logs / (double)groups), single);
    free(off);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Whether a measured point contains work of that price. */
static bool prices_measured(const struct tune_points *points, size_t price,
                            enum rcmi_sharing sharing) {
    for (size_t i = 0; i < points->n; i++)
        if (points->all[i].us > 0 && points->all[i].sharing == sharing &&
            points->all[i].work[price] > 0)
            return true;
    return false;
}

bool tune_write(const char *path, const struct tune_points *points,
                const struct rcmi_prices *prices, const struct tune_near *near) {
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    char name[RCMI_PROTOCOL_NAME], value[RCMI_PRICE_TEXT], model[128], day[32] = "";
    const time_t now = time(NULL);
    struct tm tm;
    const char *help;
    if (!file) {
        tool_error("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    tool_cpu_model(model, sizeof(model));
    if (localtime_r(&now, &tm))
        strftime(day, sizeof(day), "%Y-%m-%d %H:%M", &tm);
    fprintf(file, "# ringcomm-tune, %s, %s. For RINGCOMM_TUNING; rank 0's file applies.\n", day,
            model);
    for (size_t i = 0; (help = rcmi_prices_at(prices, i, name, value)); i++)
        if (prices_measured(points, i / RCMI_SHARINGS, (enum rcmi_sharing)(i % RCMI_SHARINGS)))
            fprintf(file, "%-32s = %-10s # %s\n", name, value, help);
    tune_near_write(file, near);
    const bool ok = fflush(file) == 0 && (file == stdout || fclose(file) == 0);
    if (!ok)
        tool_error("cannot write %s: %s", path, strerror(errno));
    return ok;
}

/* ---- The picture ----------------------------------------------------------------------------- */

#define SIDE   640.0
#define MARGIN 60.0
#define LOWEST -1.0 /* log10 us */
#define DECADE (SIDE / 7)

static double position(double us) {
    const double at = (log10(fmax(us, 0.1)) - LOWEST) * DECADE;
    return fmin(fmax(at, 0), SIDE);
}

static void plot_axes(FILE *file) {
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' "
            "font-family='sans-serif' font-size='12'>\n<rect width='100%%' height='100%%' "
            "fill='white'/>\n",
            SIDE + 2 * MARGIN, SIDE + 2 * MARGIN);
    for (int decade = -1; decade <= 6; decade++) {
        const double at = (decade - LOWEST) * DECADE;
        fprintf(file,
                "<path d='M%.1f %.1fv%.1fM%.1f %.1fh%.1f' stroke='#ddd'/><text x='%.1f' y='%.1f' "
                "text-anchor='middle'>%g</text><text x='%.1f' y='%.1f' text-anchor='end'>%g"
                "</text>\n",
                MARGIN + at, MARGIN, SIDE, MARGIN, MARGIN + SIDE - at, SIDE, MARGIN + at,
                MARGIN + SIDE + 18, pow(10, decade), MARGIN - 6, MARGIN + SIDE - at + 4,
                pow(10, decade));
    }
    fprintf(file,
            "<path d='M%.1f %.1fL%.1f %.1f' stroke='#888'/><text x='%.1f' y='%.1f' "
            "text-anchor='middle'>measured us</text><text x='%.1f' y='%.1f'>predicted us; blue "
            "shm, red tcp; on the line both are equal</text>\n",
            MARGIN, MARGIN + SIDE, MARGIN + SIDE, MARGIN, MARGIN + SIDE / 2, SIDE + 2 * MARGIN - 10,
            MARGIN, MARGIN - 20);
}

bool tune_plot(const char *path, const struct tune_points *points,
               const struct rcmi_prices *prices) {
    FILE *file = fopen(path, "w");
    if (!file) {
        tool_error("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    plot_axes(file);
    for (size_t i = 0; i < points->n; i++) {
        const struct tune_point *p = &points->all[i];
        if (p->us > 0)
            fprintf(file,
                    "<circle cx='%.1f' cy='%.1f' r='2.5' fill='%s' fill-opacity='0.5'>"
                    "<title>%s %s, %d ranks, %zu bytes: %.2f measured, %.2f predicted</title>"
                    "</circle>\n",
                    MARGIN + position(p->us), MARGIN + SIDE - position(tune_predict(p, prices)),
                    p->tcp ? "#c33" : "#36c", rcmi_collective_name(p->collective),
                    p->algorithm->name, p->nranks, p->bytes, p->us, tune_predict(p, prices));
    }
    fprintf(file, "</svg>\n");
    const bool ok = ferror(file) == 0;
    if (fclose(file) != 0 || !ok) {
        tool_error("cannot write %s", path);
        return false;
    }
    return true;
}
