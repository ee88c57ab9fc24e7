/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of a machine (ringcomm-info --check NAME): a list of tests, each in its own child process
 * with a time limit, because drivers hang and crash. A test sends its findings through a pipe to
 * the parent, which prints them immediately (report.h). The last line is OK, or the first problem.
 *
 *   ringcomm-info --check NAME       check_frame.c            check_NAME.c
 *     check_run ------------------> for each test: fork ---> run: check_fact, check_mend
 *                                   rows <------- pipe ------'
 *
 * Under a launcher each rank checks its machine. Rank 0 prints its findings; the other ranks print
 * their problems to stderr, and the tests of jobs also send the first one to rank 0
 * (check_first_mend). A new check is a table in its own file and an entry in check_list.c. Not for:
 * probes that transports make in rcm_init.
 */
#ifndef RINGCOMM_TOOLS_CHECK_FRAME_H
#define RINGCOMM_TOOLS_CHECK_FRAME_H

#include <stdbool.h>
#include <stddef.h>

enum { CHECK_SENTENCE = 512 }; /* bytes of a sentence; longer ones are cut */

/* When a test is run. */
enum check_when {
    CHECK_FIRST,   /* if it finds a problem, the tests after it are left out */
    CHECK_AFTER,   /* needs the success of the CHECK_FIRST tests */
    CHECK_OF_JOBS, /* only under a launcher, also after problems */
};

/* The destination of a test's findings. */
struct check_out;

struct check_test {
    const char *name;
    enum check_when when;
    int seconds; /* until it is killed, which counts as a problem */
    /* Runs in a child, whose stdout is stderr. Returns normally after all findings. */
    void (*run)(struct check_out *out);
};

struct check {
    const char *name;
    const struct check_test *tests; /* ended by one without a name */
    bool takes_device;
};

/* Reports a fact: its subject (a device; "" for the machine), name and value. */
void check_fact(struct check_out *out, const char *of, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports a problem, as one sentence with its remedy. */
void check_mend(struct check_out *out, const char *of, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The first problem of the tests before this one; "" if there was none. */
const char *check_first_mend(void);

/* The only device to check, as on the command line; NULL: all devices. */
const char *check_device(void);

/* The check of that name, and the i-th check; NULL if there is none. */
const struct check *check_find(const char *name);
const struct check *check_at(size_t i);

/* Runs the check and prints it; device NULL: for all devices. Returns an exit status: TOOL_OK only
 * if there is no problem. */
int check_run(const struct check *check, const char *device, const char *csv, const char *json);

#endif
