/* SPDX-License-Identifier: BSD-3-Clause */
/* ringcomm-plan --explain: the algorithm that is chosen for a call of some bytes, and the reason.
 */
#ifndef TOOL_EXPLAIN_H
#define TOOL_EXPLAIN_H

#include "plan.h"
#include "price.h"

/* The constants of this machine: the built-in ones, overridden by the file of RINGCOMM_TUNING.
 * false: an error was printed. */
bool explain_prices(struct rcmi_prices *ret_prices);
/* Prints all candidates, the cheapest first, with their counted work and the price of each part,
 * and the reason for the choice. false: an error was printed. */
bool explain(enum rcm_collective collective, const struct rcmi_shape *shape, int root,
             size_t bytes);

#endif
