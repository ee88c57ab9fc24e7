/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-tune: measures all algorithms on this machine, fits the constants of their prices to the
 * measurements, and writes them to a file for RINGCOMM_TUNING. Links the internal libraries,
 * because algorithms and prices are not part of the public interface.
 */
#include "tune.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../common.h"
#include "error.h"
#include "tuning.h"

enum { KEY_QUICK = 256, KEY_REPORT, KEY_PLOT, KEY_TRANSPORT, KEY_SECONDS };

static void parse_transports(struct tune_options *o, const char *text, struct argp_state *state) {
    o->shm = strcmp(text, "tcp") != 0;
    o->tcp = strcmp(text, "shm") != 0;
    if (strcmp(text, "shm") != 0 && strcmp(text, "tcp") != 0 && strcmp(text, "shm,tcp") != 0)
        argp_error(state, "--transport %s: not one of shm, tcp and shm,tcp", text);
}

static error_t tune_parse(int key, char *arg, struct argp_state *state) {
    struct tune_options *o = state->input;
    switch (key) {
    case 'n':
        if (!tool_parse_int(arg, 2, TUNE_RANKS_MAX, &o->ranks))
            argp_error(state, "--ranks %s: not a number from 2 to %d", arg, TUNE_RANKS_MAX);
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case KEY_QUICK:
        o->quick = true;
        return 0;
    case KEY_REPORT:
        o->report = true;
        return 0;
    case KEY_PLOT:
        o->plot = arg;
        return 0;
    case KEY_TRANSPORT:
        parse_transports(o, arg, state);
        return 0;
    case KEY_SECONDS:
        if (!tool_parse_seconds(arg, &o->seconds) || o->seconds < 1000 || o->seconds > 3600000)
            argp_error(state, "--seconds %s: not a duration from 1 to 3600 s", arg);
        o->seconds /= 1000;
        return 0;
    case ARGP_KEY_ARG:
        return ARGP_ERR_UNKNOWN;
    case ARGP_KEY_END:
        if (o->report && o->output)
            argp_error(state, "--report writes no file; use it without --output");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "ringcomm-tune %s\n", rcm_version());
}

static void tune_options_read(int argc, char **argv, struct tune_options *options) {
    static const struct argp_option list[] = {
        {"ranks", 'n', "N", 0, "measure with 2, 4, 8... ranks up to N (default 8)", 0},
        {"transport", KEY_TRANSPORT, "LIST", 0, "shm, tcp, or both: shm,tcp (default)", 0},
        {"quick", KEY_QUICK, NULL, 0, "fewer sizes, less time for each", 0},
        {"seconds", KEY_SECONDS, "S", 0,
         "stop measuring after S seconds; the remaining points are left out (default 240)", 0},
        {"output", 'o', "FILE", 0, "where to write the constants (default: stdout)", 0},
        {"report", KEY_REPORT, NULL, 0,
         "report how well the current constants (RINGCOMM_TUNING) select, instead of writing new "
         "ones",
         0},
        {"plot", KEY_PLOT, "FILE.svg", 0, "draw predictions over measurements", 0},
        {0},
    };
    static const struct argp argp = {
        .options = list,
        .parser = tune_parse,
        .doc =
            "Measures the algorithms of all collectives on this machine, and fits the constants "
            "that predict their times. The library selects algorithms by these predictions. On a "
            "virtual machine also measures whether its ranks are near each other (near = 1)."
            "\v"
            "Examples:\n"
            "  ringcomm-tune -o node.conf            some minutes\n"
            "  ringcomm-tune --quick -n 4            half a minute, to stdout\n"
            "  RINGCOMM_TUNING=node.conf ringcomm-tune --report --plot off.svg\n"
            "  RINGCOMM_TUNING=node.conf ringcomm-run -n 8 ./program\n\n"
            "Rank 0's file applies to all ranks. Constants between machines (network_*, wire_mib) "
            "are not measured; `wire_mib = 8738` is 1 Gbit/s.",
    };
    argp_program_version_hook = print_version;
    argp_err_exit_status = TOOL_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, options);
}

/* Checks the file before minutes are spent. Does not change it, because ranks may read it. */
static bool can_write(const char *path) {
    if (!path || strcmp(path, "-") == 0)
        return true;
    FILE *file = fopen(path, "a");
    if (!file) {
        tool_error("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return fclose(file) == 0;
}

/* Prints the errors before and after the fit, and writes the results. */
static bool tune_finish(const struct tune_options *o, const struct tune_points *points,
                        const struct rcmi_prices *used, const struct tune_near *near) {
    struct rcmi_prices fitted = *used;
    bool ok = true;
    if (!o->report)
        tune_near_show(near);
    tune_show_errors(points, o->report ? "constants in use" : "before", used);
    if (o->report) {
        tune_show_report(points, used);
        return !o->plot || tune_plot(o->plot, points, used);
    }
    tune_fit(points, &fitted);
    tune_show_errors(points, "after", &fitted);
    ok = tune_write(o->output ? o->output : "-", points, &fitted, near);
    return (!o->plot || tune_plot(o->plot, points, &fitted)) && ok;
}

/* First whether ranks are near, then the points: the constants belong to the stores in use. */
static bool tune_all(const struct tune_options *o, struct tune_points *points,
                     const struct rcmi_tuning *tuning) {
    struct tune_near near;
    if (!tune_near_measure(o, tuning, &near))
        return false;
    if (!near.unmeasured)
        setenv("RINGCOMM_NEAR", near.near ? "1" : "0", 1);
    return tune_measure(o, points) && tune_finish(o, points, &tuning->prices, &near);
}

int main(int argc, char **argv) {
    struct tune_options options = {
        .ranks = 8, .shm = true, .tcp = true, .seconds = 240, .begin_ns = tool_now_ns()};
    struct tune_points points;
    struct rcmi_tuning tuning;
    tune_options_read(argc, argv, &options);
    if (rcmi_tuning_local(&tuning) != RCM_OK) {
        tool_error("%s", rcmi_last_error()->text);
        return TOOL_FAILED;
    }
    bool ok =
        can_write(options.output) && can_write(options.plot) && tune_points_make(&options, &points);
    if (ok) {
        ok = tune_all(&options, &points, &tuning);
        tune_points_free(&points);
    }
    rcmi_tuning_end(&tuning);
    if (fflush(stdout) != 0) {
        tool_error("cannot write to stdout");
        ok = false;
    }
    return ok ? TOOL_OK : TOOL_FAILED;
}
