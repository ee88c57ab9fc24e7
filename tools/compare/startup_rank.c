/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of tools/compare/startup. It measures the time to join, the memory of a rank, and with
 * --wait the processor time of waiting ranks. Rank 0 prints one line of CSV. Operations are
 * measured by ringcomm-bench, not here.
 *
 * Memory is PSS, this process's share of all its pages, while all ranks exist. It is read after
 * joining, after all_reduces, and after all_to_alls, which may connect each rank with all others;
 * always without the buffers. Rank 0 reads the processor time from the clocks of the other
 * processes, so that these only wait.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "common.h"
#include "ringcomm.h"

#define STARTUP_BYTES     ((size_t)1 << 20) /* of the larger all_reduce */
#define STARTUP_BLOCK     4096              /* of the larger all_to_all */
#define STARTUP_TAG       1
#define STARTUP_MAX_RANKS 1024
#define STARTUP_LEAD_MS   1000 /* until waiting ranks sleep */

/* The values that a rank sends to rank 0. */
enum startup_fact { FACT_IN, FACT_OUT, FACT_JOINED, FACT_USED, FACT_ALL, FACT_PID, FACT_COUNT };

struct startup {
    rcm_comm *comm;
    int rank, nranks;
    int64_t facts[STARTUP_MAX_RANKS][FACT_COUNT]; /* rank 0: of all ranks; others: own, in [0] */
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
        tool_error("cannot read PSS: the kernel does not report it in /proc/self/smaps_rollup");
        return false;
    }
    *ret_kb = kb;
    return true;
}

static bool startup_meet(const struct startup *s) {
    return rcm_barrier(s->comm, NULL, NULL) == RCM_OK || startup_failed(s, "barrier");
}

/* Reads the PSS between two barriers, so that no rank ends or continues meanwhile. */
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

static bool startup_reduce(const struct startup *s, void *buffer, size_t count) {
    return rcm_all_reduce(s->comm, buffer, buffer, count, RCM_FLOAT32, RCM_SUM, NULL, NULL) ==
               RCM_OK ||
           startup_failed(s, "all_reduce");
}

static bool startup_exchange(const struct startup *s, void *buffer, size_t count) {
    char *to = (char *)buffer + (size_t)s->nranks * STARTUP_BLOCK;
    return rcm_all_to_all(s->comm, buffer, to, count, RCM_UINT8, NULL, NULL) == RCM_OK ||
           startup_failed(s, "all_to_all");
}

/* Runs an operation with a small and a large count, in memory that is freed afterwards. */
static bool startup_use(const struct startup *s, size_t bytes, size_t most,
                        bool (*fn)(const struct startup *s, void *buffer, size_t count)) {
    void *buffer = calloc(1, bytes);
    if (!buffer) {
        tool_error("no memory");
        return false;
    }
    const bool ok = fn(s, buffer, 1) && fn(s, buffer, most);
    free(buffer);
    return ok;
}

static bool startup_use_all(struct startup *s) {
    return startup_look(s, FACT_JOINED) &&
           startup_use(s, STARTUP_BYTES, STARTUP_BYTES / sizeof(float), startup_reduce) &&
           startup_look(s, FACT_USED) &&
           startup_use(s, 2 * (size_t)s->nranks * STARTUP_BLOCK, STARTUP_BLOCK, startup_exchange) &&
           startup_look(s, FACT_ALL);
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
        continue; /* interrupted by a signal */
}

/* Processor time of a process of this user, over all its threads. */
static bool process_clock(pid_t pid, int64_t *ret_ns) {
    clockid_t id;
    struct timespec ts;
    if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &ts) != 0) {
        tool_error("cannot read the processor time of process %d", (int)pid);
        return false;
    }
    *ret_ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
    return true;
}

/* Percent of a core that the busiest rank uses, without rank 0, which reads the clocks. */
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

/* Measures twice: while the other ranks are in no call, and while they wait for rank 0. */
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

/* Mean and maximum of a value over all ranks. */
static double startup_mean(const struct startup *s, enum startup_fact fact, double *ret_most) {
    double sum = 0;
    *ret_most = 0;
    for (int r = 0; r < s->nranks; r++) {
        const double value = (double)s->facts[r][fact];
        sum += value;
        *ret_most = value > *ret_most ? value : *ret_most;
    }
    return sum / s->nranks;
}

/* Microseconds of the slowest rank, and from the first rank in to the last rank out. */
static void startup_times(const struct startup *s, double *ret_slowest, double *ret_span) {
    int64_t first = s->facts[0][FACT_IN], last = s->facts[0][FACT_OUT];
    *ret_slowest = 0;
    for (int r = 0; r < s->nranks; r++) {
        const int64_t *f = s->facts[r];
        const double us = (double)(f[FACT_OUT] - f[FACT_IN]) / 1e3;
        first = f[FACT_IN] < first ? f[FACT_IN] : first;
        last = f[FACT_OUT] > last ? f[FACT_OUT] : last;
        *ret_slowest = us > *ret_slowest ? us : *ret_slowest;
    }
    *ret_span = (double)(last - first) / 1e3;
}

static void startup_print(const struct startup *s, double idle, double waiting) {
    static const struct {
        enum startup_fact fact;
        const char *name;
    } memory[] = {{FACT_JOINED, "joined"}, {FACT_USED, "used"}, {FACT_ALL, "all_to_all"}};
    enum { MEMORY = sizeof(memory) / sizeof(memory[0]) };
    double slowest, span;
    startup_times(s, &slowest, &span);
    printf("ranks,init_us,init_span_us,");
    for (size_t i = 0; i < MEMORY; i++)
        printf("pss_%s_kb,pss_%s_max_kb,", memory[i].name, memory[i].name);
    printf("idle_percent,waiting_percent\n%d,%.1f,%.1f,", s->nranks, slowest, span);
    for (size_t i = 0; i < MEMORY; i++) {
        double most;
        const double mean = startup_mean(s, memory[i].fact, &most);
        printf("%.1f,%.0f,", mean, most);
    }
    if (idle >= 0)
        printf("%.3f,%.3f\n", idle, waiting);
    else
        printf(",\n");
}

static bool startup_measure(struct startup *s, int64_t wait_ms) {
    double idle = -1, waiting = -1;
    if (!startup_use_all(s) || !startup_gather(s))
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
