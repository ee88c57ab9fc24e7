/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of ringcomm-tune. tune.c has main and the command line; tune_measure.c runs the ranks
 * that measure; tune_near.c measures near and far ranks; tune_fit.c fits the constants; tune_show.c
 * writes the results.
 *
 *      points  --measure-->  us of each  --fit-->  constants  -->  file, report, plot
 */
#ifndef RINGCOMM_TOOLS_TUNE_H
#define RINGCOMM_TOOLS_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "plan.h"
#include "price.h"

struct rcmi_tuning;

#define TUNE_RANKS_MAX 64

/* One algorithm at one size in one world. */
struct tune_point {
    const struct rcmi_algorithm *algorithm; /* NULL: the library selects one */
    enum rcm_collective collective;
    int nranks;
    bool tcp; /* each rank counts as a host; over TCP within this machine */
    size_t bytes;
    double us;                /* measured time; 0: not measured */
    double work[RCMI_PRICES]; /* counted work; the price is the sum of work * constant */
    enum rcmi_sharing sharing;
};

struct tune_points {
    struct tune_point *all; /* in memory shared by the ranks and the program that starts them */
    size_t n, room;
};

struct tune_options {
    int64_t ranks; /* largest number of ranks; from 2 on, doubled */
    bool shm, tcp, quick, report;
    int64_t seconds;  /* approximate limit for the whole run */
    int64_t begin_ns; /* when the run began */
    const char *output, *plot;
};

/* Makes the points: for each world all algorithms of all collectives at some sizes. Points of one
 * world are adjacent, and so are points of one collective and size in it. false: an error was
 * printed. */
bool tune_points_make(const struct tune_options *options, struct tune_points *points);
void tune_points_free(struct tune_points *points);
/* Measures all, world after world. false: an error was printed. */
bool tune_measure(const struct tune_options *options, struct tune_points *points);

/* Whether slots are faster if the ranks of this host count as near. */
struct tune_near {
    const char *unmeasured; /* why nothing was measured; NULL: it was */
    int rounds;
    double gain; /* time of far by time of near */
    bool near;   /* the faster one */
};
/* Points for that: operations between as many ranks as have CPUs, whose data goes through slots. */
bool tune_near_points_make(const struct tune_options *options, struct tune_points *points);
/* false: an error was printed. */
bool tune_near_measure(const struct tune_options *options, const struct rcmi_tuning *tuning,
                       struct tune_near *ret_near);
void tune_near_show(const struct tune_near *near);
/* Writes a line of the tuning file, if near was measured. */
void tune_near_write(FILE *file, const struct tune_near *near);

/* Predicted time of a point in microseconds. */
double tune_predict(const struct tune_point *point, const struct rcmi_prices *prices);
/* Fits the constants that the points determine; leaves the others. */
void tune_fit(const struct tune_points *points, struct rcmi_prices *prices);

/* The end of the group of points with the world, collective and size of point `first`. */
size_t tune_group_end(const struct tune_points *points, size_t first);
/* Prints the errors of the predictions, and how well the predictions choose. */
void tune_show_errors(const struct tune_points *points, const char *whose,
                      const struct rcmi_prices *prices);
/* Prints a row per collective, size and world: chosen, best, and the ratio of their times. */
void tune_show_report(const struct tune_points *points, const struct rcmi_prices *prices);
/* false: an error was printed. */
bool tune_write(const char *path, const struct tune_points *points,
                const struct rcmi_prices *prices, const struct tune_near *near);
/* Draws predicted over measured microseconds as SVG. */
bool tune_plot(const char *path, const struct tune_points *points,
               const struct rcmi_prices *prices);

#endif
