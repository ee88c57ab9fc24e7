/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The notes about machine and program before the rows of a check's report. They make the report
 * sufficient for a bug report.
 */
#ifndef RINGCOMM_TOOLS_CHECK_MACHINE_H
#define RINGCOMM_TOOLS_CHECK_MACHINE_H

#include "../report.h"

/* Notes versions, host, kernel, system, CPUs, container, and settings that are not defaults. */
void check_machine(struct report *report, const char *check, int nranks);

#endif
