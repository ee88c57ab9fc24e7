/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program has not completed or freed, counted by name for MPI_Finalize. */
#ifndef LEAKS_H
#define LEAKS_H

extern const char leak_comm[], leak_datatype[], leak_errhandler[], leak_group[], leak_op[];

/* Counts one object more or less. name: one of these, or that of the function that made a request;
 * only its address counts. */
void leaks_count(const char *name, int change);
/* Adds what is left to the log (level info). */
void leaks_report(void);

#endif
