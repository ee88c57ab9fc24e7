/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures of plans, for ringcomm-plan. */
#ifndef RINGCOMM_TOOLS_PLAN_GRAPH_H
#define RINGCOMM_TOOLS_PLAN_GRAPH_H

#include <stdio.h>
#include "plan.h"

/* Writes the plans of all ranks as a Graphviz graph: a box of steps for each rank, an arrow for
 * each message. */
void plan_write_dot(FILE *to, const struct rcmi_plan *const *plans);

/* Draws them in space and time as SVG: a column for each rank, an arrow for each message. false: an
 * error was printed. */
bool plan_write_svg(FILE *to, const struct rcmi_shape *shape, const struct rcmi_plan *const *plans);

#endif
