/* SPDX-License-Identifier: BSD-3-Clause */
/* Units of durations, for all tools. */
#ifndef RINGCOMM_TOOLS_UNITS_H
#define RINGCOMM_TOOLS_UNITS_H

#include <math.h>
#include <string.h>

/* Seconds of a unit; "" is seconds; NAN for an unknown unit. */
static inline double tool_unit_seconds(const char *unit) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(unit, units[i].name) == 0)
            return units[i].seconds;
    return NAN;
}

#endif
