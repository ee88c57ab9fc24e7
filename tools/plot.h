/* SPDX-License-Identifier: BSD-3-Clause */
/* A plot of bandwidth and time over size, drawn by gnuplot if it is installed. */
#ifndef RINGCOMM_TOOLS_PLOT_H
#define RINGCOMM_TOOLS_PLOT_H

#include <stdbool.h>
#include <stddef.h>

struct plot_point {
    char series[96]; /* name of the line; its points are adjacent */
    double bytes;
    double median_us;
    double busbw;
};

/* Writes an SVG file. Skips points of 0 bytes, because the size axis is logarithmic. False, with an
 * error on stderr, if gnuplot is missing or failed, or no point is left. */
bool plot_write(const char *path, const char *title, const struct plot_point *points,
                size_t npoints);

#endif
