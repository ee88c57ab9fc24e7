/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a report of a check says of the machine and of the program before its rows, so that it
 * is enough for a bug report.
 */
#ifndef RINGCOMM_TOOLS_CHECK_MACHINE_H
#define RINGCOMM_TOOLS_CHECK_MACHINE_H

#include "../report.h"

/* As notes: versions, host, kernel, system, CPUs, container, settings that are not defaults. */
void check_machine(struct report *report, const char *check, int nranks);

#endif
