/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-info: prints the library's version and features, the transports usable on this machine,
 * algorithms, settings and ranks with their sources, and CPUs. It also shows what the ranks of
 * running jobs are doing (live.c), and checks the prerequisites of a transport (check_frame.h).
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cgroup.h"
#include "cpu.h"
#include "../machine/check_frame.h"
#include "../common.h"
#include "cuda_kernels.h"
#include "info_near.h"
#include "live.h"
#include "../report.h"
#include "ringcomm.h"

enum info_section {
    INFO_LIBRARY = 1 << 0,
    INFO_FEATURES = 1 << 1,
    INFO_TRANSPORTS = 1 << 2,
    INFO_PROTOCOLS = 1 << 3,
    INFO_ALGORITHMS = 1 << 4,
    INFO_SETTINGS = 1 << 5,
    INFO_LAUNCH = 1 << 6,
    INFO_CPUS = 1 << 7,
    INFO_ALL = (1 << 8) - 1,
};

struct info_options {
    unsigned sections;
    bool live;
    int64_t pid; /* 0: all jobs */
    const struct check *check;
    const char *device; /* NULL: all devices */
    const char *csv, *json;
};

static const struct report_column info_columns[] = {
    {"section", -10}, {"name", -32}, {"value", -12}, {"default", -8}, {"origin", -31}, {"text", 0},
};

/* NULL is a missing cell. */
static void info_row(struct report *report, const char *section, const char *name,
                     const char *value, const char *fallback, const char *origin,
                     const char *text) {
    const char *const texts[] = {section, name, value, fallback, origin, text};
    struct report_cell cells[sizeof(texts) / sizeof(texts[0])];
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        cells[i] = texts[i] ? report_text(texts[i]) : report_missing();
    report_row(report, cells);
}

/* ---- sections ------------------------------------------------------------------------------ */

static void info_library(struct report *report) {
    char header[32];
    snprintf(header, sizeof(header), "%d.%d.%d", RCM_VERSION_MAJOR, RCM_VERSION_MINOR,
             RCM_VERSION_PATCH);
    info_row(report, "library", "version", rcm_version(), NULL, NULL, "of the loaded library");
    info_row(report, "library", "header", header, NULL, NULL,
             "of the ringcomm.h with which this program was compiled");
}

/* Does not load the driver; --check cuda does. */
static void info_cuda(struct report *report) {
    const int toolkit = rcmi_cuda_image.toolkit;
    char text[80];
    snprintf(text, sizeof(text), "kernels built by CUDA %d.%d; --check cuda checks the devices",
             toolkit / 1000, toolkit % 1000 / 10);
    info_row(report, "feature", "cuda", toolkit ? "yes" : "no", NULL, NULL,
             toolkit ? text : "built without nvcc: device memory is rejected");
}

static void info_features(struct report *report) {
    char names[512] = "";
#define INFO_DTYPE(name, number, bytes, ctype)                                                     \
    tool_list_add(names, sizeof(names), rcm_dtype_name(RCM_##name));
    RCM_DTYPE_MAP(INFO_DTYPE)
#undef INFO_DTYPE
    info_row(report, "feature", "types", NULL, NULL, NULL, names);
    names[0] = '\0';
#define INFO_OP(name, number) tool_list_add(names, sizeof(names), rcm_op_name(RCM_##name));
    RCM_OP_MAP(INFO_OP)
#undef INFO_OP
    info_row(report, "feature", "operators", NULL, NULL, NULL, names);
    info_row(report, "feature", "authentication", TOOL_HAVE_CRYPTO ? "yes" : "no", NULL, NULL,
             TOOL_HAVE_CRYPTO ? "both sides of each connection prove the secret (HMAC-SHA256)"
                              : "built without libcrypto: a secret is rejected");
    info_cuda(report);
}

static void info_transports(struct report *report) {
    struct rcm_transport_info info;
    for (size_t i = 0; rcm_transport_at(i, &info) == RCM_OK; i++)
        info_row(report, "transport", info.name, info.usable ? "usable" : "unusable", NULL, NULL,
                 info.reason);
}

/* An invalid RINGCOMM_PROTOCOL is no failure here: the row shows the error of rcm_init. */
static void info_protocols(struct report *report) {
    struct rcm_protocol_info info = RCM_PROTOCOL_INFO_INIT;
    rcm_status status;
    for (size_t i = 0; (status = rcm_protocol_at(i, &info)) == RCM_OK; i++)
        info_row(report, "protocol", info.name, info.value, info.default_value, info.origin,
                 info.help);
    if (status != RCM_ERR_NOT_FOUND)
        info_row(report, "protocol", "all", "none", NULL, NULL, rcm_last_error());
}

static void info_algorithms(struct report *report) {
    struct rcm_collective_info collective = RCM_COLLECTIVE_INFO_INIT;
    struct rcm_algorithm_info info;
    for (size_t c = 0; rcm_collective_at(c, &collective) == RCM_OK; c++) {
        for (size_t i = 0; rcm_algorithm_at(collective.collective, i, &info) == RCM_OK; i++) {
            char name[96];
            snprintf(name, sizeof(name), "%s=%s", collective.name, info.name);
            info_row(report, "algorithm", name, NULL, NULL, NULL, info.description);
        }
    }
}

static void info_settings(struct report *report) {
    struct rcm_setting setting;
    for (size_t i = 0; rcm_setting_at(i, &setting) == RCM_OK; i++)
        info_row(report, "setting", setting.name, setting.value, setting.default_value,
                 setting.origin, setting.help);
}

/* The rank that this process would have. Usually it has no launcher, which is no failure. */
static void info_launch(struct report *report) {
    struct rcm_launch_item item;
    rcm_status status;
    for (size_t i = 0; (status = rcm_launch_at(i, &item)) == RCM_OK; i++)
        info_row(report, "launch", item.name, item.value, NULL, item.origin, NULL);
    if (status != RCM_ERR_NOT_FOUND)
        info_row(report, "launch", "rank", "none", NULL, NULL, rcm_last_error());
}

/* The limits of control groups. */
static void info_quota(struct report *report) {
    struct rcmi_cgroup_cpus cpus;
    struct rcmi_cgroup_memory memory;
    char text[32] = "none";
    rcmi_cgroup_cpus(&cpus);
    if (cpus.cpus > 0)
        snprintf(text, sizeof(text), "%.2f", cpus.cpus);
    info_row(report, "cpu", "quota", text, NULL, NULL, cpus.file);
    rcmi_cgroup_memory(0, &memory);
    snprintf(text, sizeof(text), memory.file[0] ? "%" PRIu64 : "none", memory.limit);
    info_row(report, "memory", "limit", text, NULL, NULL, memory.file);
}

static void info_caches(struct report *report) {
    struct info_near near;
    info_near_find(&near);
    info_row(report, "cpu", "last_level_caches", near.caches_count, NULL, NULL, near.caches);
    info_row(report, "cpu", "near", near.value, NULL, near.origin, near.text);
}

static void info_cpus(struct report *report) {
    char list[256], model[128], count[16];
    snprintf(count, sizeof(count), "%d", tool_cpus(list, sizeof(list)));
    tool_cpu_model(model, sizeof(model));
    info_row(report, "cpu", "allowed", count, NULL, NULL, list);
    info_quota(report);
    info_row(report, "cpu", "model", NULL, NULL, NULL, model);
    info_row(report, "cpu", "virtual", rcmi_cpu_is_virtual() ? "yes" : "no", NULL, NULL, NULL);
    info_caches(report);
}

static int info_print(const struct info_options *options) {
    static void (*const sections[])(struct report *) = {
        info_library,    info_features, info_transports, info_protocols,
        info_algorithms, info_settings, info_launch,     info_cpus,
    };
    struct report *report;
    if (!report_open(info_columns, sizeof(info_columns) / sizeof(info_columns[0]), options->csv,
                     options->json, &report))
        return TOOL_FAILED;
    report_note(report, "ringcomm-info", "%s", rcm_version());
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        if (options->sections & 1u << i)
            sections[i](report);
    return report_close(report) ? TOOL_OK : TOOL_FAILED;
}

/* ---- command line -------------------------------------------------------------------------- */

enum option_key {
    KEY_LIBRARY = 256, /* the sections in the order of their bits */
    KEY_FEATURES,
    KEY_TRANSPORTS,
    KEY_PROTOCOLS,
    KEY_ALGORITHMS,
    KEY_SETTINGS,
    KEY_LAUNCH,
    KEY_CPUS,
    KEY_LIVE,
    KEY_CHECK,
    KEY_DEVICE,
    KEY_CSV,
    KEY_JSON,
};

static void info_parse_pid(struct info_options *options, const char *arg,
                           struct argp_state *state) {
    if (options->pid != 0)
        argp_error(state, "'%s': only one PID is allowed", arg);
    if (!tool_parse_int(arg, 1, INT32_MAX, &options->pid))
        argp_error(state, "'%s' is not a process number", arg);
}

static void info_parse_check(struct info_options *options, const char *name,
                             struct argp_state *state) {
    char known[64] = "";
    options->check = check_find(name);
    for (size_t i = 0; check_at(i); i++)
        tool_list_add(known, sizeof(known), check_at(i)->name);
    if (!options->check)
        argp_error(state, "there is no check '%s', only %s", name, known);
}

static void info_check(const struct info_options *options, struct argp_state *state) {
    if (options->csv && options->json && !strcmp(options->csv, "-") && !strcmp(options->json, "-"))
        argp_error(state, "--csv - and --json - both write to stdout; choose one");
    if (options->live && options->sections)
        argp_error(state, "--live cannot be combined with a section");
    if (options->check && (options->live || options->sections))
        argp_error(state, "--check cannot be combined with a section or --live");
    if (options->device && !(options->check && options->check->takes_device))
        argp_error(state, "--device %s needs --check cuda", options->device);
    if (options->pid && !options->live)
        argp_error(state, "'%" PRId64 "': the only argument is PID, after --live", options->pid);
}

static error_t info_parse(int key, char *arg, struct argp_state *state) {
    struct info_options *options = state->input;
    switch (key) {
    case KEY_LIBRARY:
    case KEY_FEATURES:
    case KEY_TRANSPORTS:
    case KEY_PROTOCOLS:
    case KEY_ALGORITHMS:
    case KEY_SETTINGS:
    case KEY_LAUNCH:
    case KEY_CPUS:
        options->sections |= 1u << (key - KEY_LIBRARY);
        return 0;
    case KEY_LIVE:
        options->live = true;
        if (arg)
            info_parse_pid(options, arg, state);
        return 0;
    case KEY_CHECK:
        info_parse_check(options, arg, state);
        return 0;
    case KEY_DEVICE:
        if (!tool_is_device(arg))
            argp_error(state, "--device '%s': not auto, a number of a device or a UUID", arg);
        options->device = arg;
        return 0;
    case KEY_CSV:
        options->csv = arg;
        return 0;
    case KEY_JSON:
        options->json = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (*arg >= '0' && *arg <= '9')
            info_parse_pid(options, arg, state);
        else
            argp_error(state, "'%s': only options are allowed", arg);
        return 0;
    case ARGP_KEY_END:
        info_check(options, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void info_print_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "ringcomm-info %s\n", rcm_version());
}

int main(int argc, char **argv) {
    static const struct argp_option table[] = {
        {NULL, 0, NULL, 0, "Only these sections (default: all):", 1},
        {"library", KEY_LIBRARY, NULL, 0, "Version of library and header", 1},
        {"features", KEY_FEATURES, NULL, 0, "Types, operators and optional features", 1},
        {"transports", KEY_TRANSPORTS, NULL, 0, "Transports; the reason if one is unusable here",
         1},
        {"protocols", KEY_PROTOCOLS, NULL, 0,
         "Protocol thresholds within a host: NAME.roomy applies if each rank has its own CPU, "
         "NAME.oversubscribed if ranks share CPUs",
         1},
        {"algorithms", KEY_ALGORITHMS, NULL, 0, "Algorithms of each collective", 1},
        {"settings", KEY_SETTINGS, NULL, 0, "Environment variables: value, default, source", 1},
        {"launch", KEY_LAUNCH, NULL, 0, "Rank, size and store of this process, and their sources",
         1},
        {"cpus", KEY_CPUS, NULL, 0,
         "Processors this process may use, and which ranks would share a cache", 1},
        {NULL, 0, NULL, 0, "Or, for jobs that run on this machine:", 2},
        {"live", KEY_LIVE, "PID", OPTION_ARG_OPTIONAL,
         "Show for each rank and communicator: the current operation, the rank it waits for, and "
         "the protocols in use. Only the job of process PID (default: all jobs that this user may "
         "inspect)",
         2},
        {NULL, 0, NULL, 0, "Or, for this machine:", 3},
        {"check", KEY_CHECK, "NAME", 0,
         "Check the prerequisites of a transport or a GPU: NAME is verbs (RDMA) or cuda (NVIDIA "
         "GPUs). Each test runs in its own process. The last line is OK, or the first problem to "
         "fix. cuda tests all pairs of devices. Under srun, mpirun, torchrun or ringcomm-run, "
         "verbs also tests pairs of ranks, as many as fit the time",
         3},
        {"device", KEY_DEVICE, "D", 0,
         "With --check cuda: only this device, by number or UUID, and its pairs; auto: this rank's "
         "number on its host modulo the number of devices (default: all)",
         3},
        {NULL, 0, NULL, 0, "Output:", 4},
        {"csv", KEY_CSV, "FILE", 0, "Write CSV; '-' is stdout, instead of the table", 4},
        {"json", KEY_JSON, "FILE", 0, "Write JSON; '-' is stdout, instead of the table", 4},
        {NULL, 0, NULL, 0, NULL, -1},
        {0},
    };
    static const struct argp argp = {
        .options = table,
        .parser = info_parse,
        .args_doc = "[--live PID] [--check NAME]",
        .doc = "Shows the features of libringcomm on this machine, and what running jobs do.\v"
               "Examples:\n"
               "  ringcomm-info\n"
               "  ringcomm-info --settings\n"
               "  mpirun -n 2 ringcomm-info --launch\n"
               "  RINGCOMM_TRANSPORT=tcp ringcomm-info --transports --settings --csv -\n"
               "  RINGCOMM_PROTOCOL=get=never ringcomm-info --protocols\n"
               "  ringcomm-info --live                what all ranks on this machine are doing\n"
               "  ringcomm-info --live 4711           the ranks of the job of process 4711\n"
               "  ringcomm-info --live 4711 --json -  the same as JSON\n"
               "  ringcomm-info --check cuda\n"
               "  ringcomm-info --check cuda --device 1\n"
               "  ringcomm-info --check verbs --json report.json\n"
               "  srun -N 4 ringcomm-info --check verbs\n\n"
               "Exit status: 0 success, 1 failure, 2 invalid command line.",
    };
    struct info_options options = {0};
    argp_err_exit_status = TOOL_USAGE;
    argp_program_version_hook = info_print_version;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (options.check)
        return check_run(options.check, options.device, options.csv, options.json);
    if (options.live)
        return live_print((int)options.pid, options.csv, options.json);
    if (!options.sections)
        options.sections = INFO_ALL;
    return info_print(&options);
}
