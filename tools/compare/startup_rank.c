/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of tools/compare/startup: joins the others, takes the time of that and the memory it
 * costs, and with --wait how much processor time ranks use that wait. Rank 0 prints one line of
 * CSV. Not a benchmark of operations: that is ringcomm-bench.
 *
 * Memory is PSS, this process's share of all its pages, while all ranks are there: once joined, and
 * after operations that make every rank talk to its neighbours. Processor time is read by rank 0
 * from the clocks of the other processes, so that they do nothing but wait.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "common.h"
#include "ringcomm.h"

#define STARTUP_BYTES     ((size_t)1 << 20) /* of the all_reduce that uses the links */
#define STARTUP_TAG       1
#define STARTUP_MAX_RANKS 1024
#define STARTUP_LEAD_MS   1000 /* waiting ranks fall asleep */

/* What a rank tells rank 0. */
enum startup_fact { FACT_IN, FACT_OUT, FACT_JOINED, FACT_USED, FACT_PID, FACT_COUNT };

struct startup {
    rcm_comm *comm;
    int rank, nranks;
    int64_t facts[STARTUP_MAX_RANKS][FACT_COUNT]; /* rank 0: of all; others: in row 0 their own */
};

static bool startup_failed(const struct startup *s, const char *what) {
    tool_error("rank %d: %s: %s", s->rank, what, rcm_last_error());
    return false;
}

/* kB of this process's share of its pages. */
static bool pss_read(int64_t *ret_kb) {
    char line[256];
    long long kb = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && kb < 0 && fgets(line, sizeof(line), file))
        if (sscanf(line, "Pss: %lld kB", &kb) != 1)
            kb = -1;
    if (file)
        fclose(file);
    if (kb < 0) {
        tool_error("the kernel does not tell PSS in /proc/self/smaps_rollup");
        return false;
    }
    *ret_kb = kb;
    return true;
}

static bool startup_meet(const struct startup *s) {
    return rcm_barrier(s->comm, NULL, NULL) == RCM_OK || startup_failed(s, "barrier");
}

/* With all ranks there, before and after; nobody ends or goes on while others look. */
static bool startup_look(struct startup *s, enum startup_fact fact) {
    return startup_meet(s) && pss_read(&s->facts[0][fact]) && startup_meet(s);
}

static bool startup_join(struct startup *s) {
    s->facts[0][FACT_IN] = tool_now_ns();
    if (rcm_init(NULL, &s->comm) != RCM_OK) {
        tool_error("%s", rcm_last_error());
        return false;
    }
    s->facts[0][FACT_OUT] = tool_now_ns();
    s->facts[0][FACT_PID] = getpid();
    s->rank = rcm_rank(s->comm);
    s->nranks = rcm_size(s->comm);
    if (s->nranks <= STARTUP_MAX_RANKS)
        return true;
    tool_error("at most %d ranks, there are %d", STARTUP_MAX_RANKS, s->nranks);
    return false;
}

static bool startup_use(struct startup *s) {
    float *buffer = calloc(1, STARTUP_BYTES);
    if (!buffer) {
        tool_error("no memory");
        return false;
    }
    const size_t counts[] = {1, STARTUP_BYTES / sizeof(float)};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof(counts) / sizeof(counts[0]); i++)
        ok = rcm_all_reduce(s->comm, buffer, buffer, counts[i], RCM_FLOAT32, RCM_SUM, NULL, NULL) ==
                 RCM_OK ||
             startup_failed(s, "all_reduce");
    free(buffer);
    return ok;
}

static bool startup_gather(struct startup *s) {
    for (int peer = 1; s->rank == 0 && peer < s->nranks; peer++)
        if (rcm_recv(s->comm, s->facts[peer], FACT_COUNT, RCM_INT64, peer, STARTUP_TAG, NULL,
                     NULL) != RCM_OK)
            return startup_failed(s, "recv");
    if (s->rank != 0 &&
        rcm_send(s->comm, s->facts[0], FACT_COUNT, RCM_INT64, 0, STARTUP_TAG, NULL, NULL) != RCM_OK)
        return startup_failed(s, "send");
    return true;
}

/* ---- processor time -------------------------------------------------------------------------- */

static void startup_sleep(int64_t ms) {
    const int64_t until = tool_now_ns() + ms * 1000000;
    const struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        continue; /* a signal came */
}

/* ns that a process of this user has had so far, all its threads together. */
static bool process_clock(pid_t pid, int64_t *ret_ns) {
    clockid_t id;
    struct timespec ts;
    if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &ts) != 0) {
        tool_error("the processor time of process %d cannot be read", (int)pid);
        return false;
    }
    *ret_ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
    return true;
}

/* Percent of a core, of the busiest rank but rank 0, which is reading clocks. */
static bool startup_watch(const struct startup *s, int64_t ms, double *ret_percent) {
    static int64_t before[STARTUP_MAX_RANKS];
    double most = 0;
    startup_sleep(STARTUP_LEAD_MS);
    const int64_t start = tool_now_ns();
    for (int r = 1; r < s->nranks; r++)
        if (!process_clock((pid_t)s->facts[r][FACT_PID], &before[r]))
            return false;
    startup_sleep(ms);
    const double elapsed = (double)(tool_now_ns() - start);
    for (int r = 1; r < s->nranks; r++) {
        int64_t now;
        if (!process_clock((pid_t)s->facts[r][FACT_PID], &now))
            return false;
        const double percent = 100 * (double)(now - before[r]) / elapsed;
        most = percent > most ? percent : most;
    }
    *ret_percent = most;
    return true;
}

/* Twice: the others are in no call, then in one that waits for rank 0. */
static bool startup_wait(const struct startup *s, int64_t ms, double *ret_idle,
                         double *ret_waiting) {
    if (!startup_meet(s))
        return false;
    if (s->rank == 0 && !startup_watch(s, ms, ret_idle))
        return false;
    if (s->rank != 0)
        startup_sleep(STARTUP_LEAD_MS + ms + 500);
    if (!startup_meet(s))
        return false;
    if (s->rank == 0 && !startup_watch(s, ms, ret_waiting))
        return false;
    return startup_meet(s);
}

/* ---- the line -------------------------------------------------------------------------------- */

struct startup_sum {
    double slowest_us, span_us, joined_mean, joined_most, used_mean, used_most;
};

static struct startup_sum startup_add(const struct startup *s) {
    struct startup_sum sum = {0};
    int64_t first = s->facts[0][FACT_IN], last = s->facts[0][FACT_OUT];
    for (int r = 0; r < s->nranks; r++) {
        const int64_t *f = s->facts[r];
        const double us = (double)(f[FACT_OUT] - f[FACT_IN]) / 1e3;
        const double joined = (double)f[FACT_JOINED], used = (double)f[FACT_USED];
        first = f[FACT_IN] < first ? f[FACT_IN] : first;
        last = f[FACT_OUT] > last ? f[FACT_OUT] : last;
        sum.slowest_us = us > sum.slowest_us ? us : sum.slowest_us;
        sum.joined_most = joined > sum.joined_most ? joined : sum.joined_most;
        sum.used_most = used > sum.used_most ? used : sum.used_most;
        sum.joined_mean += joined / s->nranks;
        sum.used_mean += used / s->nranks;
    }
    sum.span_us = (double)(last - first) / 1e3;
    return sum;
}

static void startup_print(const struct startup *s, double idle, double waiting) {
    const struct startup_sum sum = startup_add(s);
    printf("ranks,init_us,init_span_us,pss_joined_kb,pss_joined_max_kb,pss_used_kb,"
           "pss_used_max_kb,idle_percent,waiting_percent\n");
    printf("%d,%.1f,%.1f,%.1f,%.0f,%.1f,%.0f,", s->nranks, sum.slowest_us, sum.span_us,
           sum.joined_mean, sum.joined_most, sum.used_mean, sum.used_most);
    if (idle >= 0)
        printf("%.3f,%.3f\n", idle, waiting);
    else
        printf(",\n");
}

static bool startup_measure(struct startup *s, int64_t wait_ms) {
    double idle = -1, waiting = -1;
    if (!startup_look(s, FACT_JOINED) || !startup_use(s) || !startup_look(s, FACT_USED) ||
        !startup_gather(s))
        return false;
    if (wait_ms > 0 && !startup_wait(s, wait_ms, &idle, &waiting))
        return false;
    if (s->rank == 0)
        startup_print(s, idle, waiting);
    return true;
}

int main(int argc, char **argv) {
    static struct startup s;
    int64_t wait_ms = 0;
    const bool wait = argc == 3 && strcmp(argv[1], "--wait") == 0;
    if (argc != 1 && !(wait && tool_parse_seconds(argv[2], &wait_ms))) {
        fprintf(stderr, "usage: startup-rank [--wait SECONDS], with a launcher's environment\n");
        return TOOL_USAGE;
    }
    if (!startup_join(&s))
        return TOOL_FAILED;
    bool ok = startup_measure(&s, wait_ms);
    if (!ok && rcm_abort(s.comm, "the measurement of start-up failed") != RCM_OK)
        tool_error("rank %d: abort: %s", s.rank, rcm_last_error());
    if (rcm_destroy(s.comm) != RCM_OK && ok)
        ok = startup_failed(&s, "destroy");
    return ok ? TOOL_OK : TOOL_FAILED;
}
