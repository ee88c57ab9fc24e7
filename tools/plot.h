/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture of bandwidth and time over size, drawn by the program gnuplot where it is installed. */
#ifndef RINGCOMM_TOOLS_PLOT_H
#define RINGCOMM_TOOLS_PLOT_H

#include <stdbool.h>
#include <stddef.h>

struct plot_point {
    char series[96]; /* points of one line are neighbours and have the same name */
    double bytes;
    double median_us;
    double busbw;
};

/* Writes an SVG file. Points of zero bytes are left out (the axis of sizes is logarithmic). False,
 * after a sentence on stderr, if gnuplot is missing or failed, or no point is left. */
bool plot_write(const char *path, const char *title, const struct plot_point *points,
                size_t npoints);

#endif
