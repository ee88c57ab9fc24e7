/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call that can fail, made to fail in turn: a small job is run once to count the calls of
 * each function of failing.h on one of its ranks, then again for each of those calls, which fails
 * on that rank, alone or with all that follow. Whatever fails, every rank must end by itself, in
 * time, with success and right data or with a status and a sentence, and leave no descriptor, no
 * thread, no mapping and no memory behind; under the address sanitizer also no leak that it sees.
 * EINTR may not even fail anything.
 *
 *   resource_inject --transport shm --store file [--ranks 2] [--secret]
 *       --samples N [--seed S]    so many of all calls, chosen by seed
 *       --all                     all of them
 *       --one VICTIM,FUNCTION,NUMBER,ERRNO,ONCE|END     just this: what a finding prints
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "failing.h"
#include "job.h"
#include "ringcomm.h"

enum { RANKS_MAX = 8, JOBS_MAX = 16, MOST_CALLS = 120 };
#define HANG_S 20

struct options {
    const char *transport, *store;
    int ranks, jobs;
    bool secret, all;
    long samples;
    uint64_t seed;
    const char *one;
    int hang_s;
};

/* One run of the job. */
struct attempt {
    int victim;
    struct failing_plan plan;
    struct job job;
    char url[200], folder[40];
    struct report *reports;
    pid_t pids[RANKS_MAX];
    int exits[RANKS_MAX];
    int running;
    double until;
};

static struct options options = {.transport = "shm", .store = "file", .ranks = 2, .jobs = 8};
static long findings, runs, struck;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what) {
    perror(what);
    exit(2);
}

/* ---- One run ------------------------------------------------------------------------------- */

/* A port that was free a moment ago. */
static int free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        die("a free port");
    close(fd);
    return ntohs(a.sin_port);
}

static void attempt_prepare(struct attempt *a) {
    if (strcmp(options.store, "file") == 0) {
        snprintf(a->folder, sizeof a->folder, "/tmp/ringcomm-resource-XXXXXX");
        if (!mkdtemp(a->folder))
            die("mkdtemp");
        snprintf(a->url, sizeof a->url, "file://%s/store", a->folder);
    } else {
        snprintf(a->url, sizeof a->url, "tcp://127.0.0.1:%d", free_port());
    }
    a->job = (struct job){.nranks = options.ranks,
                          .transport = options.transport,
                          .url = a->url,
                          .secret = options.secret ? "injected" : NULL,
                          .timeout_ms = 2000};
    memset(a->reports, 0, sizeof(struct report) * RANKS_MAX);
}

static void rank_main(const struct attempt *a, int rank) {
    static const struct failing_plan nothing = {.function = -1};
    job_run(&a->job, rank, rank == a->victim ? &a->plan : &nothing, &a->reports[rank]);
    exit(0); /* a leak that a sanitizer finds here changes the status */
}

static void attempt_start(struct attempt *a) {
    attempt_prepare(a);
    a->until = now() + options.hang_s;
    a->running = options.ranks;
    fflush(NULL);
    for (int r = 0; r < options.ranks; r++) {
        a->exits[r] = -1;
        a->pids[r] = fork();
        if (a->pids[r] < 0)
            die("fork");
        if (a->pids[r] == 0)
            rank_main(a, r);
    }
    runs++;
}

/* True if all its ranks have ended. Those that take too long are ended here, and stay -2. */
static bool attempt_over(struct attempt *a) {
    for (int r = 0; r < options.ranks; r++) {
        int status;
        if (a->pids[r] == 0)
            continue;
        if (now() > a->until) {
            kill(a->pids[r], SIGKILL);
            waitpid(a->pids[r], &status, 0);
            a->exits[r] = -2;
        } else if (waitpid(a->pids[r], &status, WNOHANG) == a->pids[r]) {
            a->exits[r] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        } else {
            continue;
        }
        a->pids[r] = 0;
        a->running--;
    }
    return a->running == 0;
}

/* ---- Judging ------------------------------------------------------------------------------- */

static void attempt_name(const struct attempt *a, char *text, size_t cap) {
    if (a->plan.function < 0)
        snprintf(text, cap, "nothing");
    else
        snprintf(text, cap, "%d,%s,%ld,%d,%s", a->victim, failing_name(a->plan.function),
                 a->plan.first, a->plan.error, a->plan.until_end ? "END" : "ONCE");
}

static void finding(const struct attempt *a, int rank, const char *what) {
    const struct report *r = &a->reports[rank];
    char name[100];
    attempt_name(a, name, sizeof name);
    findings++;
    fprintf(stderr,
            "FINDING --transport %s --store %s --ranks %d%s --one %s (%s): rank %d %s; at %s; "
            "%s %s: %s\n",
            options.transport, options.store, options.ranks, options.secret ? " --secret" : "",
            name, a->plan.function >= 0 ? strerrorname_np(a->plan.error) : "", rank, what,
            r->stage ? r->stage : "the start", r->failed ? r->failed : "no call failed",
            r->failed ? rcm_status_name((rcm_status)r->status) : "", r->text);
}

/* Blocks that are kept to the end of the process: where a store was that rank 0 serves. */
static long blocks_kept(int rank) {
    return rank > 0 && strcmp(options.store, "tcp") == 0;
}

static void judge_leaks(const struct attempt *a, int rank) {
    const struct report *r = &a->reports[rank];
    char text[700];
    if (r->fds > 0) {
        snprintf(text, sizeof text, "left %d descriptors open:%s", r->fds, r->left);
        finding(a, rank, text);
    }
    if (r->threads > 0)
        finding(a, rank, "left a thread behind");
    if (r->maps > 0)
        finding(a, rank, "left shared memory mapped");
    if (r->blocks > blocks_kept(rank)) {
        snprintf(text, sizeof text, "left %ld blocks of memory", r->blocks - blocks_kept(rank));
        finding(a, rank, text);
    }
}

static void judge_rank(const struct attempt *a, int rank) {
    const struct report *r = &a->reports[rank];
    const bool may_fail = a->plan.function >= 0 && a->plan.error != EINTR;
    char text[100];
    if (a->exits[rank] == -2) {
        finding(a, rank, "hangs");
        return;
    }
    if (a->exits[rank] != 0 || !r->done) {
        snprintf(text, sizeof text, "ended with exit status %d", a->exits[rank]);
        finding(a, rank, text);
    }
    if (!r->done)
        return;
    if (r->status != RCM_OK && !may_fail)
        finding(a, rank, "failed without a reason");
    if (r->status > 0 || strcmp(rcm_status_name((rcm_status)r->status), "RCM_?") == 0)
        finding(a, rank, "returned what is no error");
    if (r->status == RCM_ERR_INTERNAL)
        finding(a, rank, "blames the library");
    if (r->status != RCM_OK && strlen(r->text) < 10)
        finding(a, rank, "says not why");
    if (r->forgotten)
        finding(a, rank, "goes on after an error as if nothing had been");
    if (r->wrong > 0)
        finding(a, rank, "has wrong data");
    judge_leaks(a, rank);
}

/* A file store that was left behind is legal when a rank failed; the folder is ours. */
static void attempt_clean(struct attempt *a) {
    char path[100];
    struct stat st;
    if (!a->folder[0])
        return;
    snprintf(path, sizeof path, "%s/store", a->folder);
    if (a->plan.function < 0 && stat(path, &st) == 0)
        finding(a, 0, "left the store's file behind");
    unlink(path);
    if (rmdir(a->folder) != 0)
        finding(a, 0, "left another file in the store's folder");
    a->folder[0] = '\0';
}

static void attempt_judge(struct attempt *a) {
    for (int r = 0; r < options.ranks; r++)
        judge_rank(a, r);
    struck += a->plan.function >= 0 && a->reports[a->victim].hits > 0;
    if (options.one || a->plan.function < 0)
        for (int r = 0; r < options.ranks; r++)
            printf("rank %d: %s %s: %s (%ld calls failed)\n", r,
                   a->reports[r].failed ? a->reports[r].failed : "all",
                   rcm_status_name((rcm_status)a->reports[r].status), a->reports[r].text,
                   a->reports[r].hits);
    attempt_clean(a);
}

/* ---- Many runs ----------------------------------------------------------------------------- */

static struct attempt slots[JOBS_MAX];

static void slots_init(void) {
    size_t bytes = sizeof(struct report) * RANKS_MAX;
    for (int i = 0; i < JOBS_MAX; i++) {
        slots[i].reports =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (slots[i].reports == MAP_FAILED)
            die("mmap");
    }
}

static int slots_busy(void) {
    int busy = 0;
    for (int i = 0; i < JOBS_MAX; i++)
        busy += slots[i].running > 0;
    return busy;
}

/* Waits until at most `most` runs are under way. */
static void slots_wait(int most) {
    while (slots_busy() > most) {
        for (int i = 0; i < JOBS_MAX; i++)
            if (slots[i].running > 0 && attempt_over(&slots[i]))
                attempt_judge(&slots[i]);
        usleep(2000);
    }
}

static struct attempt *slots_start(int victim, const struct failing_plan *plan) {
    struct attempt *a = slots;
    slots_wait(options.jobs - 1);
    while (a->running > 0)
        a++;
    a->victim = victim;
    a->plan = *plan;
    attempt_start(a);
    return a;
}

/* A run without failures: counts the calls of each rank. */
static void count_calls(long calls[RANKS_MAX][FAILING_FUNCTIONS]) {
    static const struct failing_plan nothing = {.function = -1};
    const struct attempt *a = slots_start(0, &nothing);
    slots_wait(0);
    for (int r = 0; r < options.ranks; r++)
        memcpy(calls[r], a->reports[r].calls, sizeof calls[r]);
}

/* splitmix64 (public domain, Sebastiano Vigna) */
static uint64_t chance(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

struct choice {
    int victim;
    struct failing_plan plan;
};

/* Everything that can fail, each call with each error, once and from then on. Calls made very
 * often are looked at up to the MOST_CALLSth. */
static struct choice *all_choices(long calls[RANKS_MAX][FAILING_FUNCTIONS], long *ret_n) {
    const long room = (long)options.ranks * FAILING_FUNCTIONS * FAILING_ERRORS * 2 * MOST_CALLS;
    struct choice *all = malloc(sizeof *all * (size_t)room);
    long n = 0;
    if (!all)
        die("malloc");
    for (int v = 0; v < (options.ranks < 2 ? 1 : 2); v++)
        for (int f = 0; f < FAILING_FUNCTIONS; f++)
            for (int e = 0; e < FAILING_ERRORS && failing_error(f, e); e++)
                for (long c = 1; c <= calls[v][f] && c <= MOST_CALLS; c++)
                    for (int end = 0; end < (failing_error(f, e) == EINTR ? 1 : 2); end++)
                        all[n++] = (struct choice){v, {f, c, failing_error(f, e), end == 1}};
    *ret_n = n;
    return all;
}

/* Every function gets its turn, however few calls it has: chooses a function, then a call. */
static void run_samples(const struct choice *all, long n) {
    uint64_t state = options.seed;
    printf("seed %llu\n", (unsigned long long)options.seed);
    for (long i = 0; i < options.samples; i++) {
        const struct choice *c;
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
        slots_start(c->victim, &c->plan);
    }
}

static void run_one(const char *text) {
    char name[40], mode[8];
    int victim, error;
    struct failing_plan plan = {.function = -1};
    if (sscanf(text, "%d,%39[^,],%ld,%d,%7s", &victim, name, &plan.first, &error, mode) != 5 ||
        (plan.function = failing_find(name)) < 0) {
        fprintf(stderr, "--one VICTIM,FUNCTION,NUMBER,ERRNO,ONCE|END, not %s\n", text);
        exit(2);
    }
    plan.error = error;
    plan.until_end = strcmp(mode, "END") == 0;
    slots_start(victim, &plan);
}

static void parse(int argc, char **argv) {
    static const struct option known[] = {
        {"transport", 1, 0, 't'}, {"store", 1, 0, 's'}, {"ranks", 1, 0, 'r'}, {"secret", 0, 0, 'S'},
        {"samples", 1, 0, 'n'},   {"seed", 1, 0, 'x'},  {"all", 0, 0, 'a'},   {"one", 1, 0, 'o'},
        {"jobs", 1, 0, 'j'},      {"hang", 1, 0, 'h'},  {0, 0, 0, 0}};
    int c;
    options.seed = (uint64_t)time(NULL) ^ ((uint64_t)getpid() << 32);
    options.hang_s = HANG_S;
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (c) {
        case 't':
            options.transport = optarg;
            break;
        case 's':
            options.store = optarg;
            break;
        case 'r':
            options.ranks = atoi(optarg);
            break;
        case 'S':
            options.secret = true;
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
            options.jobs = atoi(optarg);
            break;
        case 'h':
            options.hang_s = atoi(optarg);
            break;
        default:
            exit(2);
        }
    }
    if (options.ranks < 2 || options.ranks > RANKS_MAX || options.jobs < 1 ||
        options.jobs > JOBS_MAX)
        exit(2);
}

int main(int argc, char **argv) {
    static long calls[RANKS_MAX][FAILING_FUNCTIONS];
    long n = 0;
    parse(argc, argv);
    setenv("RINGCOMM_LOG", getenv("RINGCOMM_LOG") ? getenv("RINGCOMM_LOG") : "error", 1);
    setenv("RINGCOMM_PEER_TIMEOUT", "3", 1);
    slots_init();
    count_calls(calls);
    if (findings > 0)
        return 1;
    struct choice *all = all_choices(calls, &n);
    if (options.one)
        run_one(options.one);
    else if (options.all)
        for (long i = 0; i < n; i++)
            slots_start(all[i].victim, &all[i].plan);
    else
        run_samples(all, n);
    slots_wait(0);
    free(all);
    printf("%ld runs, in %ld a call failed, %ld of %ld possible ones; %ld findings\n", runs, struck,
           options.all ? n : runs - 1, n, findings);
    return findings > 0 || struck == 0;
}
