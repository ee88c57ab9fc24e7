/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of ringcomm-bench: its options and their combinations. Single arguments are in
 * bench_arguments.c. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench_arguments.h"
#include "../common.h"

#define OPTIONS_MAX_RANKS 4096

enum option_key {
    KEY_RANKS = 256,
    KEY_ROOT,
    KEY_TRANSPORT,
    KEY_ALGORITHM,
    KEY_MEMORY,
    KEY_DEVICE,
    KEY_IN_PLACE,
    KEY_OFFSET,
    KEY_CHECK,
    KEY_CSV,
    KEY_JSON,
    KEY_PLOT,
    KEY_TIMEOUT,
    KEY_THREADS,
    KEY_SIZES,
    KEY_CALLS,
    KEY_FRESH,
    KEY_CHECK_LAST,
    KEY_REGISTERED,
    KEY_TOGETHER,
    KEY_ASLEEP,
    KEY_NEUTRAL,
    KEY_COUNTERS,
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "Ranks:", 1},
    {"ranks", KEY_RANKS, "N", 0, "Start N ranks here; without it, join those of a launcher", 1},
    {"threads", KEY_THREADS, NULL, 0, "With --ranks: threads of one process, not processes", 1},
    {"transport", KEY_TRANSPORT, "LIST", 0,
     "auto, or a list of transports that ringcomm-info shows: shm,tcp", 1},
    {"timeout", KEY_TIMEOUT, "S", 0, "End the whole run after S seconds (600)", 1},
    {NULL, 0, NULL, 0, "Measurement:", 2},
    {"min-bytes", 'b', "MIN", 0, "Smallest size in bytes (4; kernel: 4K)", 2},
    {"max-bytes", 'e', "MAX", 0, "Largest size in bytes (64M; kernel: 16M)", 2},
    {"factor", 'f', "FACTOR", 0, "Each size is FACTOR times the one before (4)", 2},
    {"sizes", KEY_SIZES, "LIST", 0, "These sizes, separated by commas, instead of -b, -e and -f",
     2},
    {"calls", KEY_CALLS, "N", 0,
     "Operations per iteration, back to back; reported times are per operation (1)", 2},
    {"fresh", KEY_FRESH, NULL, 0, "Write the input anew before each iteration, untimed", 2},
    {"together", KEY_TOGETHER, NULL, 0,
     "Start each iteration at the same time of the machine's clock on all ranks, not when they "
     "leave the barrier; iterations with a start skew above 1 us are discarded. Each rank needs "
     "its own CPU",
     2},
    {"neutral", KEY_NEUTRAL, "FILE", 0,
     "Let ranks leave a barrier of the bench's own before each iteration, not the library's. It "
     "lies in FILE, empty and new for each run, best in /dev/shm. For ranks of one machine",
     2},
    {"asleep", KEY_ASLEEP, NULL, 0,
     "Let all ranks sleep until the same time of the machine's clock before each iteration, at "
     "least 1 ms after the start of the last one, like ranks of real programs; an iteration's time "
     "is its span. Without -b, -e and --sizes: 8 B to 4K",
     2},
    {"iters", 'n', "ITERS", 0,
     "Iterations per size (as many as fit 0.2 s, at least 5, at most 1000)", 2},
    {"warmup", 'w', "WARMUP", 0, "Unmeasured iterations before (2 to 20, by size)", 2},
    {"dtype", 'd', "DTYPE", 0,
     "Type of the elements (float32); ringcomm-info --features lists types and operators", 2},
    {"op", 'o', "OP", 0, "Operator of a reduction; the type must support it (sum)", 2},
    {"root", KEY_ROOT, "R", 0, "Root of a collective that has one (0)", 2},
    {"algorithm", KEY_ALGORITHM, "NAME", 0,
     "auto, or one of the collective's algorithms that ringcomm-info shows", 2},
    {"memory", KEY_MEMORY, "KIND", 0, "Memory of the buffers: host, or cuda, the rank's device", 2},
    {"device", KEY_DEVICE, "D", 0,
     "With --memory cuda: the CUDA device of each rank, by number or UUID; auto: the rank's number "
     "on its host modulo the number of devices (RINGCOMM_DEVICE, else auto)",
     2},
    {"in-place", KEY_IN_PLACE, NULL, 0,
     "One buffer for input and result, or one is a block of the other", 2},
    {"offset", KEY_OFFSET, "BYTES", 0, "Let buffers begin BYTES after the start of a page (0)", 2},
    {"registered", KEY_REGISTERED, NULL, 0,
     "Buffers from rcm_mem_alloc, which the ranks of a host map", 2},
    {"check", KEY_CHECK, NULL, 0,
     "Compare every element of the results on every rank: in all iterations with -n, else in at "
     "least 3 per size",
     2},
    {"check-last", KEY_CHECK_LAST, NULL, 0,
     "Compare the results of each size's last iteration only, which affects no measured time", 2},
    {NULL, 0, NULL, 0, "Output:", 3},
    {"csv", KEY_CSV, "FILE", 0, "Write CSV; '-' is stdout, instead of the table", 3},
    {"json", KEY_JSON, "FILE", 0, "Write JSON; '-' is stdout, instead of the table", 3},
    {"counters", KEY_COUNTERS, NULL, 0,
     "At the end, print to stderr: messages and bytes of all ranks per transport, and memory", 3},
    {"plot", KEY_PLOT, "FILE.svg", 0, "Draw bandwidth and time over size (needs gnuplot)", 3},
    {NULL, 0, NULL, 0, NULL, -1},
    {0},
};

static const char options_doc[] =
    "Measures collectives and checks their results.\n\n"
    "COLLECTIVE is all_reduce, broadcast, barrier, reduce, scatter, gather, all_gather, "
    "reduce_scatter, all_to_all, scan, exscan, scatter_v, gather_v, all_gather_v, "
    "reduce_scatter_v, all_to_all_v, sendrecv (ping-pong between ranks 0 and 1, half a round "
    "trip), all (each of these), or kernel (the reduction and copy kernels alone, without ranks). "
    "The operators are those of ringcomm.h and two created ones: premul_sum, with a different "
    "scale on each rank, and user, a function: a + bi stands for x -> a x + b, composed in rank "
    "order. The size is the size of a rank's larger buffer. The blocks of the collectives with _v "
    "grow from almost 0 to almost twice the average.\v"
    "Sizes can have the suffixes K, M and G (powers of 1024).\n\n"
    "An iteration begins with a barrier (see --together, --asleep). Its time is the time of the "
    "slowest rank. span is the time from the first rank in to the last rank out; use it when ranks "
    "share cores. With --asleep all times are spans from the first rank that woke up, and an "
    "iteration is discarded if the previous one was not done when it should start. iters is the "
    "number of iterations that count. algbw is bytes / median time. busbw scales algbw to the load "
    "of a link, like nccl-tests: 2(n-1)/n for all_reduce, (n-1)/n if buffers have a block per "
    "rank, else 1. GB is 10^9 bytes. errors is the number of wrong elements on all ranks, empty "
    "without --check. With any wrong element the exit status is 1.\n\n"
    "Examples:\n"
    "  ringcomm-bench all_reduce --ranks 4 --check\n"
    "  ringcomm-bench all --ranks 2 --transport tcp -b 8 -e 1M --csv results.csv\n"
    "  ringcomm-run -n 2 --bind core -- ringcomm-bench broadcast --together\n"
    "  ringcomm-bench all --ranks 4 --transport shm --asleep\n"
    "  ringcomm-bench broadcast --ranks 8 --algorithm chain -b 1M --plot bcast.svg\n"
    "  ringcomm-run -n 4 -- ringcomm-bench all_reduce --json -\n"
    "  ringcomm-bench all_reduce --ranks 2 --memory cuda --device auto\n"
    "  ringcomm-bench kernel -d float64 -o max\n"
    "  ringcomm-bench kernel --memory cuda --device 1\n\n"
    "Self-test: with RINGCOMM_BENCH_FLIP=1 in the environment, --check flips one bit of one result "
    "per size before it compares, so there must be errors.\n\n"
    "Exit status: 0 success, 1 failure or wrong results, 2 invalid command line.";

struct rcm_collective_info bench_what_info(enum bench_what what) {
    struct rcm_collective_info info = RCM_COLLECTIVE_INFO_INIT;
    if (what < BENCH_SENDRECV && rcm_collective_at((size_t)what, &info) == RCM_OK)
        return info;
    return (struct rcm_collective_info){
        .name = "sendrecv", .send_blocks = 1, .recv_blocks = 1, .busbw_one = 1};
}

const char *bench_what_name(enum bench_what what) {
    return what == BENCH_NWHAT    ? "all"
           : what == BENCH_KERNEL ? "kernel"
                                  : bench_what_info(what).name;
}

const char *bench_what_names(void) {
    static char names[256];
    for (int what = 0; names[0] == '\0' || what < BENCH_NWHAT; what++)
        tool_list_add(names, sizeof(names), bench_what_name((enum bench_what)what));
    return names;
}

/* ---- combinations of arguments ------------------------------------------------------------- */

struct options_parser {
    struct bench_options *options;
    bool has_what, has_min, has_max, has_sizes;
    const char *ranks_only; /* an option given that `kernel` does not have; NULL: none */
};

static void options_check_algorithm(struct argp_state *state, const struct bench_options *options) {
    const struct rcm_collective_info collective = bench_what_info(options->what);
    const char *what = bench_what_name(options->what);
    if (options->what >= BENCH_SENDRECV)
        argp_error(state, "--algorithm %s: %s has no choice of algorithms", options->algorithm,
                   what);
    char names[512] = "auto";
    struct rcm_algorithm_info info;
    for (size_t i = 0; rcm_algorithm_at(collective.collective, i, &info) == RCM_OK; i++) {
        if (strcmp(info.name, options->algorithm) == 0)
            return;
        tool_list_add(names, sizeof(names), info.name);
    }
    argp_error(state, "--algorithm '%s': no such algorithm of %s; there are %s", options->algorithm,
               what, names);
}

static void options_check_kernel(struct argp_state *state, const struct options_parser *parser) {
    if (parser->ranks_only)
        argp_error(state, "%s does not apply to kernel, which has no ranks", parser->ranks_only);
}

static void options_check_ranks(struct argp_state *state, const struct bench_options *options) {
    if (options->threads && !options->nranks)
        argp_error(state, "--threads needs --ranks N");
    if (options->nranks && options->root >= options->nranks)
        argp_error(state, "--root %d: the ranks are 0 to %d", options->root, options->nranks - 1);
    if (options->what == BENCH_SENDRECV && options->nranks == 1)
        argp_error(state, "--ranks 1: sendrecv needs at least 2 ranks");
    if (options->in_place && options->calls > 1)
        argp_error(state, "--in-place with --calls %lld: the second call would reduce a result",
                   (long long)options->calls);
    if (options->check && options->check_last)
        argp_error(state, "--check and --check-last: choose one");
    if (options->cuda && options->registered)
        argp_error(state, "--memory cuda and --registered: choose one");
    if (options->together + options->asleep + (options->neutral != NULL) > 1)
        argp_error(state, "--together, --asleep and --neutral: choose one");
    if (options->in_place && options->check_last)
        argp_error(state, "--in-place overwrites the inputs that --check-last needs");
    if (options->in_place && (options->what == BENCH_BROADCAST || options->what == BENCH_BARRIER ||
                              options->what == BENCH_SENDRECV || options->what == BENCH_KERNEL ||
                              bench_what_info(options->what).apart))
        argp_error(state, "--in-place does not apply to %s", bench_what_name(options->what));
}

/* Whether the measurement includes a reduction. */
static bool options_reduce(const struct bench_options *options) {
    return options->what == BENCH_KERNEL || options->what == BENCH_NWHAT ||
           bench_what_info(options->what).reduces;
}

static void options_check(struct argp_state *state, struct options_parser *parser) {
    struct bench_options *options = parser->options;
    const bool kernel = options->what == BENCH_KERNEL;
    const size_t width = rcm_dtype_size(options->dtype);
    if (!parser->has_what)
        argp_error(state, "COLLECTIVE is missing: %s, all, or kernel", bench_what_names());
    if (parser->has_sizes && (parser->has_min || parser->has_max || kernel))
        argp_error(state, "--sizes cannot be combined with -b, -e or kernel");
    if (parser->has_sizes)
        parser->has_min = parser->has_max = true;
    if (!parser->has_min)
        options->min_bytes = kernel ? 4096 : options->asleep ? 8 : 4;
    if (!parser->has_max)
        options->max_bytes = kernel ? 16 << 20 : options->asleep ? 4096 : 64 << 20;
    if (!parser->has_max && options->min_bytes > options->max_bytes)
        options->max_bytes = options->min_bytes;
    if (!parser->has_min && options->max_bytes < options->min_bytes)
        options->min_bytes = options->max_bytes;
    if (options->min_bytes > options->max_bytes)
        argp_error(state, "-b %lld is more than -e %lld", (long long)options->min_bytes,
                   (long long)options->max_bytes);
    if (options->offset % width != 0)
        argp_error(state, "--offset %zu: not a multiple of the %zu bytes of a %s", options->offset,
                   width, rcm_dtype_name(options->dtype));
    const char *lack = options_reduce(options) ? bench_op_lack(options->op, options->dtype) : NULL;
    if (lack)
        argp_error(state, "-d %s -o %s: %s", rcm_dtype_name(options->dtype),
                   bench_op_name(options->op), lack);
    if (options->what < BENCH_NWHAT) {
        const struct rcm_collective_info info = bench_what_info(options->what);
        if (!bench_op_fits(&info, options->op))
            argp_error(state, "-o %s is not defined for %s", bench_op_name(options->op), info.name);
    }
    if (options->device && !options->cuda)
        argp_error(state, "--device %s needs --memory cuda", options->device);
    if (options->csv && options->json && !strcmp(options->csv, "-") && !strcmp(options->json, "-"))
        argp_error(state, "--csv - and --json - both write to stdout; choose one");
    if (kernel) {
        options_check_kernel(state, parser);
        return;
    }
    options_check_ranks(state, options);
    if (options->algorithm)
        options_check_algorithm(state, options);
}

/* ---- argp ---------------------------------------------------------------------------------- */

/* Options about ranks and their operations. */
static error_t options_parse_ranks(struct argp_state *state, int key, char *arg) {
    struct options_parser *parser = state->input;
    struct bench_options *options = parser->options;
    switch (key) {
    case KEY_RANKS:
        options->nranks = (int)bench_argument_int(state, "--ranks", arg, 1, OPTIONS_MAX_RANKS);
        parser->ranks_only = "--ranks";
        return 0;
    case KEY_THREADS:
        options->threads = true;
        parser->ranks_only = "--threads";
        return 0;
    case KEY_ROOT:
        options->root = (int)bench_argument_int(state, "--root", arg, 0, INT32_MAX);
        parser->ranks_only = "--root";
        return 0;
    case KEY_TRANSPORT:
        bench_argument_transport(state, arg);
        options->transport = arg;
        parser->ranks_only = "--transport";
        return 0;
    case KEY_ALGORITHM:
        options->algorithm = strcmp(arg, "auto") == 0 ? NULL : arg;
        parser->ranks_only = "--algorithm";
        return 0;
    case KEY_REGISTERED:
        options->registered = true;
        parser->ranks_only = "--registered";
        return 0;
    case KEY_IN_PLACE:
        options->in_place = true;
        parser->ranks_only = "--in-place";
        return 0;
    case KEY_CHECK:
        options->check = true;
        parser->ranks_only = "--check";
        return 0;
    case KEY_CHECK_LAST:
        options->check_last = true;
        parser->ranks_only = "--check-last";
        return 0;
    case KEY_FRESH:
        options->fresh = true;
        parser->ranks_only = "--fresh";
        return 0;
    case KEY_TOGETHER:
        options->together = true;
        parser->ranks_only = "--together";
        return 0;
    case KEY_NEUTRAL:
        options->neutral = arg;
        parser->ranks_only = "--neutral";
        return 0;
    case KEY_ASLEEP:
        options->asleep = true;
        parser->ranks_only = "--asleep";
        return 0;
    case KEY_COUNTERS:
        options->counters = true;
        parser->ranks_only = "--counters";
        return 0;
    case KEY_CALLS:
        options->calls = bench_argument_int(state, "--calls", arg, 1, 1000000);
        parser->ranks_only = "--calls";
        return 0;
    case KEY_PLOT:
        options->plot = arg;
        parser->ranks_only = "--plot";
        return 0;
    case KEY_TIMEOUT:
        if (!tool_parse_seconds(arg, &options->timeout_ms))
            argp_error(state, "--timeout '%s': not a duration above 0, in seconds or as 90s, 10m",
                       arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Options about sizes, data and output. */
static error_t options_parse_data(struct argp_state *state, int key, char *arg) {
    struct options_parser *parser = state->input;
    struct bench_options *options = parser->options;
    switch (key) {
    case 'b':
        options->min_bytes = bench_argument_size(state, "-b", arg);
        parser->has_min = true;
        return 0;
    case 'e':
        options->max_bytes = bench_argument_size(state, "-e", arg);
        parser->has_max = true;
        return 0;
    case KEY_SIZES:
        bench_argument_sizes(state, arg, options);
        parser->has_sizes = true;
        return 0;
    case 'f':
        options->factor = bench_argument_int(state, "-f", arg, 2, 1 << 20);
        return 0;
    case 'n':
        options->iters = bench_argument_int(state, "-n", arg, 1, 1000000);
        return 0;
    case 'w':
        options->warmup = bench_argument_int(state, "-w", arg, 0, 1000000);
        parser->ranks_only = "-w";
        return 0;
    case 'd':
        options->dtype = bench_argument_dtype(state, arg);
        return 0;
    case 'o':
        options->op = bench_argument_op(state, arg);
        return 0;
    case KEY_MEMORY:
        options->cuda = bench_argument_memory(state, arg);
        return 0;
    case KEY_DEVICE:
        options->device = bench_argument_device(state, arg);
        return 0;
    case KEY_OFFSET:
        options->offset = (size_t)bench_argument_int(state, "--offset", arg, 0, 1 << 20);
        return 0;
    case KEY_CSV:
        options->csv = arg;
        return 0;
    case KEY_JSON:
        options->json = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t options_parse(int key, char *arg, struct argp_state *state) {
    struct options_parser *parser = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (parser->has_what)
            argp_error(state, "'%s': only one COLLECTIVE is allowed, and there is %s", arg,
                       bench_what_name(parser->options->what));
        parser->options->what = bench_argument_what(state, arg);
        parser->has_what = true;
        return 0;
    case ARGP_KEY_END:
        options_check(state, parser);
        return 0;
    default:
        break;
    }
    error_t error = options_parse_ranks(state, key, arg);
    return error == ARGP_ERR_UNKNOWN ? options_parse_data(state, key, arg) : error;
}

static void options_print_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "ringcomm-bench %s\n", rcm_version());
}

void bench_parse(int argc, char **argv, struct bench_options *options) {
    static const struct argp argp = {
        .options = option_table,
        .parser = options_parse,
        .args_doc = "COLLECTIVE",
        .doc = options_doc,
    };
    const char *flip = getenv("RINGCOMM_BENCH_FLIP");
    *options = (struct bench_options){
        .what = BENCH_NWHAT,
        .factor = 4,
        .calls = 1,
        .warmup = -1,
        .dtype = RCM_FLOAT32,
        .op = RCM_SUM,
        .timeout_ms = 600 * 1000,
        .flip = flip && *flip && strcmp(flip, "0") != 0,
    };
    tool_join_command(argc, argv, options->command, sizeof(options->command));
    struct options_parser parser = {.options = options};
    argp_err_exit_status = TOOL_USAGE;
    argp_program_version_hook = options_print_version;
    argp_parse(&argp, argc, argv, 0, NULL, &parser);
}
