/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-tune from the inside. tune.c has main and the command line, tune_measure.c the ranks
 * that measure, tune_fit.c the constants that fit what was measured, tune_show.c what is written of
 * it.
 *
 *      points  --measure-->  us of each  --fit-->  constants  -->  file, report, plot
 */
#ifndef RINGCOMM_TOOLS_TUNE_H
#define RINGCOMM_TOOLS_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "plan.h"
#include "price.h"

#define TUNE_RANKS_MAX 64

/* One algorithm at one size in one world. */
struct tune_point {
    const struct rcmi_algorithm *algorithm;
    enum rcm_collective collective;
    int nranks;
    bool tcp; /* each rank is a host of its own, through the kernel of this machine */
    size_t bytes;
    double us;                /* measured; 0: not */
    double work[RCMI_PRICES]; /* counted: a price is their sum, each times its constant */
    enum rcmi_sharing sharing;
};

struct tune_points {
    struct tune_point *all; /* in memory that ranks share with the program that starts them */
    size_t n, room;
};

struct tune_options {
    int64_t ranks; /* up to so many, from 2 on, doubled */
    bool shm, tcp, quick, report;
    int64_t seconds; /* that all may take, roughly */
    const char *output, *plot;
};

/* What is to be measured: for each world all algorithms of all collectives at some sizes; points of
 * one world, and of one collective and size there, are neighbours. false: an error was printed. */
bool tune_points_make(const struct tune_options *options, struct tune_points *points);
void tune_points_free(struct tune_points *points);
/* Measures all, world after world. false: an error was printed. */
bool tune_measure(const struct tune_options *options, struct tune_points *points);

/* Microseconds of a point by some constants. */
double tune_predict(const struct tune_point *point, const struct rcmi_prices *prices);
/* Changes the constants that the points tell something of. */
void tune_fit(const struct tune_points *points, struct rcmi_prices *prices);

/* The end of the points, from first on, that have its world, collective and size. */
size_t tune_group_end(const struct tune_points *points, size_t first);
/* How far predictions are off, and how far the chosen is behind the best. */
void tune_show_errors(const struct tune_points *points, const char *whose,
                      const struct rcmi_prices *prices);
/* A row for each collective, size and world: chosen, best, and the ratio of their times. */
void tune_show_report(const struct tune_points *points, const struct rcmi_prices *prices);
/* false: an error was printed. */
bool tune_write(const char *path, const struct tune_points *points,
                const struct rcmi_prices *prices);
/* An SVG picture: predicted over measured microseconds. */
bool tune_plot(const char *path, const struct tune_points *points,
               const struct rcmi_prices *prices);

#endif
