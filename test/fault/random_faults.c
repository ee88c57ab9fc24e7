/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random faults at random moments: the other ranks get an error in time, with the same and correct
 * rank, and nothing is left:
 *
 *   random_faults [--transport shm|tcp] [--ranks N[,N...]] [--fault NAME|random] [--rounds N]
 *                 [--jobs N] [--seed S] [--deadline MS] [--verbose]
 *
 * Faults: kill, stop, freeze (stopped and continued within the deadline), cut (all links of a
 * rank); random is one of these. delay, link, close, corrupt, short, stall are further faults of
 * the chaos transport. Round k has seed S + k; its failure prints how to replay it alone.
 */
#include "random_faults.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const names[FAULT_COUNT] = {
    [FAULT_KILL] = "kill",   [FAULT_STOP] = "stop",   [FAULT_FREEZE] = "freeze",
    [FAULT_CUT] = "cut",     [FAULT_DELAY] = "delay", [FAULT_LINK] = "link",
    [FAULT_CLOSE] = "close", [FAULT_SHORT] = "short", [FAULT_CORRUPT] = "corrupt",
    [FAULT_STALL] = "stall",
};

const char *fault_name(enum fault fault) {
    return names[fault];
}

int slowness(void) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return 3;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
    return 3;
#endif
#endif
    return 1;
}

int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- Options -------------------------------------------------------------------------------- */

static int usage(void) {
    fprintf(stderr,
            "usage: random_faults [--transport shm|tcp] [--ranks N[,N...]] [--fault NAME|random] "
            "[--rounds N] [--jobs N] [--seed S] [--deadline MS] [--verbose]\nfaults:");
    for (int i = 0; i < FAULT_COUNT; i++)
        fprintf(stderr, " %s", names[i]);
    fprintf(stderr, "\n");
    return 2;
}

static bool fault_parse(const char *text, int *ret_fault) {
    *ret_fault = -1;
    for (int i = 0; i < FAULT_COUNT; i++)
        if (strcmp(text, names[i]) == 0)
            *ret_fault = i;
    return *ret_fault >= 0 || strcmp(text, "random") == 0;
}

static bool ranks_parse(const char *text, struct options *options) {
    char *rest;
    for (options->nranks = 0; options->nranks < RANKS_LIST; text = rest + 1) {
        const long ranks = strtol(text, &rest, 10);
        if (ranks < 2 || ranks > RANKS_MAX)
            return false;
        options->ranks[options->nranks++] = (int)ranks;
        if (*rest != ',')
            return *rest == '\0';
    }
    return false;
}

static bool option_parse(struct options *options, const char *name, const char *value) {
    const long long number = atoll(value);
    if (strcmp(name, "--transport") == 0)
        options->transport = value;
    else if (strcmp(name, "--fault") == 0)
        return fault_parse(value, &options->fault);
    else if (strcmp(name, "--ranks") == 0)
        return ranks_parse(value, options);
    else if (strcmp(name, "--seed") == 0)
        options->seed = strtoull(value, NULL, 0);
    else if (number < 1)
        return false;
    else if (strcmp(name, "--rounds") == 0)
        options->rounds = (int)number;
    else if (strcmp(name, "--jobs") == 0)
        options->jobs = (int)number;
    else if (strcmp(name, "--deadline") == 0)
        options->deadline_ms = number;
    else
        return false;
    return true;
}

/* ---- Rounds --------------------------------------------------------------------------------- */

/* Counts files of the library, which should never create any. Other tests have folders called
 * ringcomm-... in /tmp. */
static int count_files(const char *path, const char *others) {
    int n = 0;
    struct dirent *entry;
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        const bool ours = strstr(name, "ringcomm") || strstr(name, "rcm");
        n += ours && !(others && strncmp(name, others, strlen(others)) == 0);
    }
    if (dir)
        closedir(dir);
    return n;
}

static int count_all_files(void) {
    return count_files("/dev/shm", NULL) + count_files("/tmp", "ringcomm-");
}

static int rounds_run(const struct options *options) {
    int failed = 0, running = 0, status;
    for (int k = 0; k < options->rounds || running > 0;) {
        if (k < options->rounds && running < options->jobs) {
            fflush(stdout);
            const pid_t pid = fork();
            if (pid == 0)
                exit(round_run(options, options->ranks[k % options->nranks],
                               options->seed + (uint64_t)k));
            if (pid < 0)
                return options->rounds;
            running++;
            k++;
        } else if (wait(&status) > 0) {
            running--;
            failed += status != 0;
        }
    }
    return failed;
}

int main(int argc, char **argv) {
    struct options options = {.transport = "shm",
                              .ranks = {4},
                              .nranks = 1,
                              .rounds = 1,
                              .jobs = 1,
                              .fault = -1,
                              .deadline_ms = 2000,
                              .seed = (uint64_t)now_ns() % 1000000000};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0)
            options.verbose = true;
        else if (i + 1 == argc || !option_parse(&options, argv[i], argv[i + 1]))
            return usage();
        else
            i++;
    }
    setenv("RINGCOMM_LOG", "error", 0);
    if (!options.verbose && !freopen("/dev/null", "w", stderr))
        return 2; /* every failing communicator logs its error */
    const int64_t began = now_ns();
    const int before = count_all_files();
    int failed = rounds_run(&options);
    if (count_all_files() > before) {
        printf("FAIL a file was left in /dev/shm or /tmp\n");
        failed++;
    }
    printf("%d of %d rounds failed: %s over %s, seed %llu, %.1f s\n", failed, options.rounds,
           options.fault < 0 ? "random" : fault_name((enum fault)options.fault), options.transport,
           (unsigned long long)options.seed, (double)(now_ns() - began) / 1e9);
    return failed ? 1 : 0;
}
