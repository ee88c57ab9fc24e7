/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of what a machine offers (ringcomm-info --check NAME): a list of tests, each in a child of
 * its own under an alarm, since drivers hang and crash. What a test finds goes through a pipe to
 * the parent, which shows it as it comes (report.h), and ends with one line: OK, or the first thing
 * to mend.
 *
 *   ringcomm-info --check NAME       check_frame.c            check_NAME.c
 *     check_run ------------------> for each test: fork ---> run: check_fact, check_mend
 *                                   rows <------- pipe ------'
 *
 * Under a launcher each rank checks its machine; rank 0 shows what it finds, the others say on
 * stderr what is to be mended, and the tests of jobs tell rank 0, too (check_first_mend). A check
 * is a table in a file of its own and a line in that of check_find. Not for: what transports try by
 * themselves in rcm_init.
 */
#ifndef RINGCOMM_TOOLS_CHECK_FRAME_H
#define RINGCOMM_TOOLS_CHECK_FRAME_H

#include <stdbool.h>
#include <stddef.h>

enum { CHECK_SENTENCE = 512 }; /* bytes of a sentence; what is longer is cut */

/* When a test is run. */
enum check_when {
    CHECK_FIRST,   /* if it has something to mend, those behind it are left out */
    CHECK_AFTER,   /* needs what the first ones look for */
    CHECK_OF_JOBS, /* only under a launcher, in any case */
};

/* Where a test's findings go. */
struct check_out;

struct check_test {
    const char *name;
    enum check_when when;
    int seconds; /* until it is killed, which is to be mended */
    /* In a child, whose stdout is stderr: it returns, whatever it has found. */
    void (*run)(struct check_out *out);
};

struct check {
    const char *name;
    const struct check_test *tests; /* ended by one without a name */
    bool takes_device;
};

/* A fact: of what (a device; "" for the machine), its name, and its value. */
void check_fact(struct check_out *out, const char *of, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A sentence: what is wrong, and what to do about it. */
void check_mend(struct check_out *out, const char *of, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The first sentence of the tests before this one; "" if there was none. */
const char *check_first_mend(void);

/* The device that alone is to be looked at, as the command line names it; NULL: all. */
const char *check_device(void);

/* The check of that name; NULL if there is none. i: the i-th, or NULL. */
const struct check *check_find(const char *name);
const struct check *check_at(size_t i);

/* Runs and prints it, for one device if that is not NULL. An exit status: TOOL_OK only if there is
 * nothing to mend. */
int check_run(const struct check *check, const char *device, const char *csv, const char *json);

#endif
