/* SPDX-License-Identifier: BSD-3-Clause */
/* ringcomm-plan --explain: which algorithm a call of some bytes gets, and why. */
#ifndef TOOL_EXPLAIN_H
#define TOOL_EXPLAIN_H

#include "plan.h"
#include "price.h"

/* The constants of this machine: built in, then the file of RINGCOMM_TUNING. false: an error was
 * printed. */
bool explain_prices(struct rcmi_prices *ret_prices);
/* Prints all candidates, the cheapest first, with counted work and the price of its parts; says
 * what decides. false: an error was printed. */
bool explain(enum rcm_collective collective, const struct rcmi_shape *shape, int root,
             size_t bytes);

#endif
