/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes every call that can fail do so, one per run. A small job runs once to count the calls of
 * each function of fail_nth_call.h on one of its ranks. Then it runs again for each of those calls,
 * which fails on that rank, alone or with all later calls. Every rank must end by itself, in time,
 * with success and correct data, or with a status and an error text. It must leave no descriptor,
 * thread, mapping or memory; the address sanitizer must find no leak. EINTR must not cause any
 * failure.
 *
 *   resource_failing_calls --transport shm --store file [--ranks 2] [--secret]
 *       --samples N [--seed S]    N of all calls, chosen by seed
 *       --all [--part K/N]        all of them, or the K-th of every N (from 1)
 *       --one VICTIM,FUNCTION,NUMBER,ERRNO,ONCE|END     one run, as a finding prints it
 */
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "victim_run.h"

enum { MOST_CALLS = 120 };

static struct {
    long samples;
    uint64_t seed;
    bool all;
    long part, parts;
    const char *one;
} options = {.part = 1, .parts = 1};

/* splitmix64 (public domain, Sebastiano Vigna) */
static uint64_t chance(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* All choices: each call with each of its errors, once and from that call on. Of calls made very
 * often only the first MOST_CALLS. */
static struct trouble *all_choices(long calls[RANKS_MAX][FAILING_FUNCTIONS], long *ret_n) {
    const long room = (long)setup.ranks * FAILING_FUNCTIONS * FAILING_ERRORS * 2 * MOST_CALLS;
    struct trouble *all = malloc(sizeof *all * (size_t)room);
    long n = 0;
    if (!all)
        exit(2);
    for (int v = 0; v < 2; v++)
        for (int f = 0; f < FAILING_FUNCTIONS; f++)
            for (int e = 0; e < FAILING_ERRORS && failing_error(f, e); e++)
                for (long c = 1; c <= calls[v][f] && c <= MOST_CALLS; c++)
                    for (int end = 0; end < (failing_error(f, e) == EINTR ? 1 : 2); end++)
                        all[n++] = (struct trouble){.victim = v,
                                                    .plan = {f, c, failing_error(f, e), end == 1}};
    *ret_n = n;
    return all;
}

/* Samples each function equally often, however few calls it has: chooses a function, then a
 * call. */
static void run_samples(const struct trouble *all, long n) {
    uint64_t state = options.seed;
    printf("seed %llu\n", (unsigned long long)options.seed);
    for (long i = 0; i < options.samples; i++) {
        const struct trouble *c;
        int f = (int)(chance(&state) % FAILING_FUNCTIONS);
        long same = 0;
        for (long k = 0; k < n; k++)
            same += all[k].plan.function == f;
        if (same == 0) {
            i--;
            continue;
        }
        long pick = (long)(chance(&state) % (uint64_t)same);
        for (c = all; c->plan.function != f || pick-- > 0; c++)
            ;
        attempt_start(c);
    }
}

static void run_one(const char *text) {
    char name[40], mode[8];
    struct trouble t = {.victim = 0};
    struct failing_plan *plan = &t.plan;
    if (sscanf(text, "%d,limit,%39[^,],%ld", &t.victim, name, &t.room) == 3) {
        plan->function = -1;
        t.limit = name;
    } else if (sscanf(text, "%d,%39[^,],%ld,%d,%7s", &t.victim, name, &plan->first, &plan->error,
                      mode) != 5 ||
               (plan->function = failing_find(name)) < 0) {
        fprintf(stderr, "--one VICTIM,FUNCTION,NUMBER,ERRNO,ONCE|END, not %s\n", text);
        exit(2);
    }
    plan->until_end = !t.limit && strcmp(mode, "END") == 0;
    setup.print_ranks = true;
    attempt_start(&t);
    attempts_wait();
}

static void parse(int argc, char **argv) {
    static const struct option known[] = {
        {"transport", 1, 0, 't'}, {"store", 1, 0, 's'}, {"ranks", 1, 0, 'r'}, {"secret", 0, 0, 'S'},
        {"samples", 1, 0, 'n'},   {"seed", 1, 0, 'x'},  {"all", 0, 0, 'a'},   {"one", 1, 0, 'o'},
        {"jobs", 1, 0, 'j'},      {"hang", 1, 0, 'h'},  {"part", 1, 0, 'p'},  {0, 0, 0, 0}};
    int c;
    options.seed = (uint64_t)time(NULL) ^ ((uint64_t)getpid() << 32);
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (c) {
        case 't':
            setup.transport = optarg;
            break;
        case 's':
            setup.store = optarg;
            break;
        case 'r':
            setup.ranks = atoi(optarg);
            break;
        case 'S':
            setup.secret = true;
            break;
        case 'n':
            options.samples = atol(optarg);
            break;
        case 'x':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'a':
            options.all = true;
            break;
        case 'o':
            options.one = optarg;
            break;
        case 'j':
            setup.jobs = atoi(optarg);
            break;
        case 'p':
            if (sscanf(optarg, "%ld/%ld", &options.part, &options.parts) != 2)
                exit(2);
            break;
        case 'h':
            setup.hang_s = atoi(optarg);
            break;
        default:
            exit(2);
        }
    }
    if (options.part < 1 || options.part > options.parts)
        exit(2);
    if (setup.ranks < 2 || setup.ranks > RANKS_MAX || setup.jobs < 1 || setup.jobs > JOBS_MAX)
        exit(2);
}

int main(int argc, char **argv) {
    static long calls[RANKS_MAX][FAILING_FUNCTIONS];
    long n = 0;
    parse(argc, argv);
    attempts_init();
    attempts_count(calls);
    if (attempts_total().findings > 0)
        return 1;
    struct trouble *all = all_choices(calls, &n);
    if (options.one)
        run_one(options.one);
    else if (options.all)
        for (long i = options.part - 1; i < n; i += options.parts)
            attempt_start(&all[i]);
    else
        run_samples(all, n);
    attempts_wait();
    free(all);
    const struct totals t = attempts_total();
    printf("%ld runs, in %ld something failed, of %ld that are possible; %ld findings\n", t.runs,
           t.struck, n, t.findings);
    return t.findings > 0 || (t.struck == 0 && !options.one);
}
