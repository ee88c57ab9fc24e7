/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of floor; see floor.h. */
#include "floor.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include "common.h"
#include "report.h"

static const struct report_column floor_columns[] = {
    {"what", -18}, {"how", -34}, {"cores", 5},  {"bytes", 9}, {"unit", 5},
    {"rounds", 6}, {"min", 9},   {"median", 9}, {"max", 9},
};
#define FLOOR_NCOLUMNS (sizeof(floor_columns) / sizeof(floor_columns[0]))

static const struct {
    const char *name;
    bool (*run)(struct floor *f);
    bool needs_two; /* cores */
    bool in_all;
} sections[] = {
    {"line", floor_line, true, false},     {"channel", floor_channel, true, true},
    {"memory", floor_memory, false, true}, {"tcp", floor_tcp, true, true},
    {"futex", floor_futex, true, true},    {"step", floor_step, false, true},
};
#define FLOOR_NSECTIONS (sizeof(sections) / sizeof(sections[0]))

struct options {
    struct floor floor;
    bool wanted[FLOOR_NSECTIONS];
    bool any;
    const char *csv;
    char command[512];
};

static const struct argp_option option_table[] = {
    {"rounds", 'r', "N", 0, "Measurements of each figure (7)", 1},
    {"csv", 'c', "FILE", 0, "Write CSV; '-' is stdout, instead of the table", 1},
    {"timeout", 't', "S", 0, "Give up after S seconds (120)", 1},
    {0},
};

static const char options_doc[] =
    "Measures the limits of this machine.\n\n"
    "SECTION is line (a cache line between two cores), channel (the line, and 8 and 64 bytes "
    "through a channel over shared memory, alternating), step (the executor), memory (copies and "
    "additions on one and two cores), tcp (bare sockets over loopback), futex (waking another "
    "process). Default: all except line, which channel contains.";

static error_t options_parse(int key, char *arg, struct argp_state *state) {
    struct options *options = state->input;
    int64_t value = 0;
    switch (key) {
    case 'r':
        if (!tool_parse_int(arg, 1, FLOOR_MAX_ROUNDS, &value))
            argp_error(state, "--rounds '%s': not a number from 1 to %d", arg, FLOOR_MAX_ROUNDS);
        options->floor.rounds = (int)value;
        return 0;
    case 'c':
        options->csv = arg;
        return 0;
    case 't':
        if (!tool_parse_seconds(arg, &options->floor.timeout_ms))
            argp_error(state, "--timeout '%s': not a number of seconds above 0", arg);
        return 0;
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < FLOOR_NSECTIONS; i++) {
            if (strcmp(arg, sections[i].name) != 0)
                continue;
            options->wanted[i] = options->any = true;
            return 0;
        }
        argp_error(state, "'%s': no such section", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp option_parser = {
    .options = option_table,
    .parser = options_parse,
    .args_doc = "[SECTION...]",
    .doc = options_doc,
};

static bool floor_find_cpus(struct floor *f) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return floor_failed("cannot read the CPUs of this process");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set))
            continue;
        if (f->ncpus < 2)
            f->cpus[f->ncpus] = cpu;
        f->ncpus++;
    }
    return true;
}

static void floor_note(const struct options *options) {
    const struct floor *f = &options->floor;
    struct utsname uts;
    char cpus[256], model[128];
    tool_cpus(cpus, sizeof(cpus));
    tool_cpu_model(model, sizeof(model));
    report_note(f->report, "floor", "libringcomm %s", rcm_version());
    if (uname(&uts) == 0)
        report_note(f->report, "kernel", "%s %s %s", uts.sysname, uts.release, uts.machine);
    report_note(f->report, "cores", "%d (%s)", f->ncpus, model);
    if (f->ncpus > 1)
        report_note(f->report, "pinned to", "CPU %d and %d", f->cpus[0], f->cpus[1]);
    report_note(f->report, "command", "%s", options->command);
}

static bool floor_run(struct options *options) {
    struct floor *f = &options->floor;
    for (size_t i = 0; i < FLOOR_NSECTIONS; i++) {
        if (options->any ? !options->wanted[i] : !sections[i].in_all)
            continue;
        if (sections[i].needs_two && f->ncpus < 2) {
            tool_error("%s is not measured: it needs two CPUs, there is one", sections[i].name);
            continue;
        }
        if (!sections[i].run(f))
            return false;
    }
    return true;
}

int main(int argc, char **argv) {
    static struct options options = {.floor = {.rounds = 7, .timeout_ms = 120000}};
    struct floor *f = &options.floor;
    argp_err_exit_status = TOOL_USAGE;
    argp_parse(&option_parser, argc, argv, 0, NULL, &options);
    tool_join_command(argc, argv, options.command, sizeof(options.command));
    f->deadline_ns = tool_now_ns() + f->timeout_ms * 1000000;
    if (!floor_find_cpus(f) ||
        !report_open(floor_columns, FLOOR_NCOLUMNS, options.csv, NULL, &f->report))
        return TOOL_FAILED;
    floor_note(&options);
    bool ok = floor_run(&options);
    ok = report_close(f->report) && ok;
    return ok ? TOOL_OK : TOOL_FAILED;
}
