/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of the stress program: see stress.h. */
#include "stress.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: stress [--seed S] [--seconds T] [--from K] [--episodes N] [--ranks N] [--threads]\n"
    "              [--transport NAME] [--memory host|cuda]\n"
    "  --seed S      everything follows from it; 0: from the clock, and is printed (default 1)\n"
    "  --seconds T   begins episodes for so long (default 10)\n"
    "  --from K      begins with episode K (default 0)\n"
    "  --episodes N  ends after N episodes\n"
    "  --ranks N     1 to 16 (default: drawn)\n"
    "  --threads     ranks are threads of this process\n"
    "  --transport NAME   all by this one (default: drawn)\n"
    "  --memory cuda      most buffers are memory of the ranks' devices (default: host)\n";

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void options_read(int argc, char **argv, struct stress_options *options) {
    static const struct option names[] = {{"seed", required_argument, NULL, 's'},
                                          {"seconds", required_argument, NULL, 't'},
                                          {"from", required_argument, NULL, 'f'},
                                          {"episodes", required_argument, NULL, 'e'},
                                          {"ranks", required_argument, NULL, 'n'},
                                          {"threads", no_argument, NULL, 'T'},
                                          {"transport", required_argument, NULL, 'r'},
                                          {"memory", required_argument, NULL, 'm'},
                                          {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        char *end = NULL;
        if (c == 't')
            options->seconds = strtod(optarg, &end);
        else if (c == 'T')
            options->threads = true;
        else if (c == 'r')
            options->transport = optarg;
        else if (c == 'm' && strcmp(optarg, "cuda") == 0)
            options->cuda = true;
        else if (c == 'm' && strcmp(optarg, "host") != 0)
            c = '?';
        else if (c == 's')
            options->seed = strtoull(optarg, &end, 10);
        else if (c == 'f')
            options->from = strtoull(optarg, &end, 10);
        else if (c == 'e')
            options->episodes = strtoll(optarg, &end, 10);
        else if (c == 'n')
            options->ranks = (int)strtol(optarg, &end, 10);
        if (c == '?' || (end && *end) || options->ranks < 0 || options->ranks > RANKS_MAX) {
            fputs(usage, stderr);
            exit(2);
        }
    }
}

int main(int argc, char **argv) {
    struct stress_options options = {.seed = 1, .episodes = -1, .seconds = 10};
    options_read(argc, argv, &options);
    if (options.seed == 0)
        options.seed = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)options.seed);
    fflush(stdout);
    const double end = now_s() + options.seconds;
    uint64_t number = options.from;
    for (int64_t left = options.episodes; left != 0 && now_s() < end; left--)
        if (episode_run(&options, number++) != 0)
            return 1;
    printf("%llu episodes without a failure\n", (unsigned long long)(number - options.from));
    return number > options.from ? 0 : 1;
}
