/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One round: a store and n ranks as processes, a fault at a random moment, the verdict.
 *
 * The time limits assume a library that gets processors. A round proves nothing if ranks are late
 * but otherwise right, and queued for a processor for longer than they are late (cpu_starvation.h),
 * or the machine stood still for that long. Then it prints that and runs again, a few times.
 */
#include "random_faults.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND     INT64_C(1000000000)
#define TURNS      6
#define STANDSTILL (SECOND / 50) /* a pause longer by this much was caused by the machine */

struct round {
    const struct options *options;
    uint64_t seed, random;
    enum fault fault;
    int victim, n;
    char transport[64], url[256];
    struct board *board;
    pid_t store, ranks[RANKS_MAX];
    int64_t frozen_ns;               /* how long the victim was stopped */
    int64_t acted_ns;                /* time of the fault; 0: inside the library */
    struct strain before[RANKS_MAX]; /* of each rank, at that time */
    int64_t late_ns;                 /* the longest excused delay of a rank */
    int errors;
};

__attribute__((format(printf, 2, 3))) static void fail(struct round *round, const char *format,
                                                       ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (round->errors++ == 0)
        printf("FAIL --transport %s --ranks %d --fault %s --deadline %lld --rounds 1 --seed %llu: "
               "victim %d\n",
               round->options->transport, round->n, fault_name(round->fault),
               (long long)round->options->deadline_ms, (unsigned long long)round->seed,
               round->victim);
    printf("     %s\n", text);
    fflush(stdout);
}

static int64_t stood_still_ns; /* in pauses of this round, so far */

static void pause_ms(int ms) {
    const int64_t began = now_ns();
    usleep((useconds_t)ms * 1000);
    const int64_t longer = now_ns() - began - ms * INT64_C(1000000);
    if (longer > STANDSTILL)
        stood_still_ns += longer;
}

/* ---- Start ---------------------------------------------------------------------------------- */

static void serve_store(int url_fd) {
    rcm_store *store;
    char url[256];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(180);
    if (rcm_store_open("tcp://127.0.0.1:0?server=1", 10000, &store) != RCM_OK)
        _exit(1);
    int len = snprintf(url, sizeof(url), "%s?server=0", rcm_store_url(store)) + 1;
    if (write(url_fd, url, (size_t)len) != len)
        _exit(1);
    for (;;)
        pause();
}

static bool start_store(struct round *round) {
    int fds[2];
    size_t len = 0;
    ssize_t got;
    if (pipe(fds) != 0)
        return false;
    round->store = fork();
    if (round->store == 0)
        serve_store(fds[1]);
    close(fds[1]);
    while (len < sizeof(round->url) &&
           (got = read(fds[0], round->url + len, sizeof(round->url) - len)) > 0) {
        len += (size_t)got;
        if (round->url[len - 1] == '\0')
            break;
    }
    close(fds[0]);
    return len > 0 && round->url[len - 1] == '\0';
}

/* Faults inside the library. */
static const char *const chaos_orders[FAULT_COUNT] = {
    [FAULT_CUT] = "fault=isolate",        [FAULT_LINK] = "fault=cut",
    [FAULT_CLOSE] = "fault=close",        [FAULT_CORRUPT] = "fault=corrupt",
    [FAULT_SHORT] = "fault=short",        [FAULT_STALL] = "fault=stall",
    [FAULT_DELAY] = "delay=2000,often=5",
};

static void choose(struct round *round) {
    static const enum fault usual[] = {FAULT_KILL, FAULT_STOP, FAULT_FREEZE, FAULT_CUT};
    const int wanted = round->options->fault;
    round->fault = wanted >= 0 ? (enum fault)wanted : usual[random_next(&round->random) % 4];
    round->victim = (int)(random_next(&round->random) % (uint64_t)round->n);
    const char *orders = chaos_orders[round->fault];
    snprintf(round->transport, sizeof(round->transport), "%s%s", orders ? "chaos:" : "",
             round->options->transport);
    if (!orders)
        return;
    char text[128];
    snprintf(text, sizeof(text), "seed=%llu,rank=%d,after=%d,%s",
             (unsigned long long)(round->seed % 1000000), round->victim,
             (int)(random_next(&round->random) % 60) + 5, orders);
    setenv("RINGCOMM_CHAOS", text, 1);
}

static void start_ranks(struct round *round) {
    for (int r = 0; r < round->n; r++) {
        round->ranks[r] = fork();
        if (round->ranks[r] == 0)
            exit(rank_run(round->board, r, round->url, round->transport, round->seed));
    }
}

/* Waits until every rank works, or has failed already. */
static bool wait_started(const struct round *round) {
    const int64_t end = now_ns() + 60 * SECOND;
    for (int r = 0; r < round->n; r++) {
        const struct seen *seen = &round->board->seen[r];
        while (atomic_load(&seen->iterations) < EARLY && !atomic_load(&seen->reported)) {
            if (now_ns() > end || waitpid(round->ranks[r], NULL, WNOHANG | WNOWAIT) > 0)
                return false;
            pause_ms(1);
        }
    }
    return true;
}

/* ---- The fault ------------------------------------------------------------------------------ */

/* Far shorter than the deadline: ranks that queue for a processor need some of that, too. */
static void freeze(struct round *round) {
    const pid_t victim = round->ranks[round->victim];
    const int64_t deadline = round->options->deadline_ms, part = random_next(&round->random) % 1000;
    const int64_t ms = deadline / 16 + part * deadline / 6000;
    round->frozen_ns = ms * 1000000;
    kill(victim, SIGSTOP);
    pause_ms((int)ms);
    kill(victim, SIGCONT);
}

static void act(struct round *round) {
    const pid_t victim = round->ranks[round->victim];
    usleep((useconds_t)(random_next(&round->random) % 150000));
    for (int r = 0; r < round->n; r++)
        strain_add(&round->before[r], round->ranks[r]);
    stood_still_ns = 0;
    switch (round->fault) {
    case FAULT_KILL:
        round->acted_ns = now_ns();
        kill(victim, SIGKILL);
        break;
    case FAULT_STOP:
        round->acted_ns = now_ns();
        kill(victim, SIGSTOP);
        break;
    case FAULT_FREEZE:
        freeze(round);
        pause_ms(50);
        atomic_store(&round->board->stop, true);
        break;
    case FAULT_DELAY:
        pause_ms(500);
        atomic_store(&round->board->stop, true);
        break;
    default:
        break;
    }
}

/* ---- The verdict ---------------------------------------------------------------------------- */

static bool wait_flag(const _Atomic bool *flag, int64_t end) {
    while (!atomic_load_explicit(flag, memory_order_acquire)) {
        if (now_ns() > end)
            return false;
        pause_ms(1);
    }
    return true;
}

/* The time that a rank may take until it reports, from the fault or, where that is inside the
 * library, from its last good operation. Faults that are detected do not depend on the operations'
 * deadline, which may be far later. */
static int64_t allowed_ns(const struct round *round) {
    const int64_t second = SECOND * slowness(), deadline = round->options->deadline_ms * 1000000;
    switch (round->fault) {
    case FAULT_KILL:
        return second;
    case FAULT_FREEZE:
    case FAULT_DELAY:
        return 60 * SECOND;
    case FAULT_STOP:
    case FAULT_STALL:
        return deadline + second;
    default:
        return 2 * SECOND + second;
    }
}

static bool nothing_happens(enum fault fault) {
    return fault == FAULT_FREEZE || fault == FAULT_DELAY;
}

/* Faults of one rank, which the others must name. */
static bool hits_rank(enum fault fault) {
    return fault == FAULT_KILL || fault == FAULT_STOP || fault == FAULT_CUT;
}

static bool status_is_right(enum fault fault, int status) {
    switch (fault) {
    case FAULT_KILL:
    case FAULT_CUT:
    case FAULT_LINK:
    case FAULT_CLOSE:
        return status == RCM_ERR_PEER;
    case FAULT_STOP:
    case FAULT_STALL:
        return status == RCM_ERR_TIMEOUT;
    case FAULT_CORRUPT:
    case FAULT_SHORT:
        return status == RCM_ERR_MISMATCH || status == RCM_ERR_PROTOCOL;
    default:
        return status == RCM_OK;
    }
}

/* A fault of a link has two ends: each names the other, and the rest either. For other faults all
 * name the same rank: the victim or, if the victim received invalid data, the rank that it
 * names. */
static bool origin_is_right(const struct round *round, int r) {
    const int origin = round->board->seen[r].origin;
    const int of_victim = round->board->seen[round->victim].origin;
    if (nothing_happens(round->fault))
        return origin == -1;
    if (hits_rank(round->fault))
        return origin == round->victim;
    if (of_victim < 0 || of_victim >= round->n)
        return false;
    if (round->fault == FAULT_LINK || round->fault == FAULT_CLOSE)
        return origin == of_victim || origin == round->victim;
    return origin == of_victim;
}

/* A fault inside the library may come before the first reading of all ranks. */
static const struct strain *strain_before(const struct round *round, int r) {
    const struct seen *seen = &round->board->seen[r];
    const bool early = !round->acted_ns && atomic_load(&seen->iterations) < EARLY;
    return early ? &seen->begun : &round->before[r];
}

/* The delay of the reporting ranks that the machine can explain. */
static int64_t excuse_ns(const struct round *round) {
    struct strain before = {0}, after = {0};
    for (int r = 0; r < round->n; r++) {
        if (!atomic_load_explicit(&round->board->seen[r].reported, memory_order_acquire))
            continue;
        strain_sum(&before, strain_before(round, r));
        strain_sum(&after, &round->board->seen[r].strain);
    }
    return strain_excuse(&before, &after) + stood_still_ns;
}

/* True if a rank that is otherwise right is late because of the machine. */
static bool is_excused(struct round *round, int r, int64_t late_ns) {
    if (late_ns <= 0 || late_ns > excuse_ns(round))
        return false;
    if (late_ns > round->late_ns)
        round->late_ns = late_ns;
    return !round->options->verbose ||
           printf("rank %d is late by %.0f ms\n", r, (double)late_ns / 1e6) > 0;
}

/* True if a deadline passed that is unrelated to the fault: before it, or without an expected
 * error, for want of a processor. A freeze uses a part of the deadline itself, and the rank that is
 * behind at that moment is named. */
static bool is_starved(struct round *round, int r, int64_t took_ns) {
    const int64_t deadline_ns = round->options->deadline_ms * 1000000;
    const bool before = round->acted_ns && took_ns < 0;
    const bool starved =
        nothing_happens(round->fault) && round->frozen_ns + excuse_ns(round) > deadline_ns;
    if (round->board->seen[r].status != RCM_ERR_TIMEOUT || !(before || starved))
        return false;
    if (deadline_ns > round->late_ns)
        round->late_ns = deadline_ns;
    return true;
}

static void judge_rank(struct round *round, int r) {
    const struct seen *seen = &round->board->seen[r];
    const int64_t since = round->acted_ns ? round->acted_ns : atomic_load(&seen->last_ns);
    const int64_t took = seen->at_ns - since;
    const int64_t late = took - allowed_ns(round);
    const bool right = status_is_right(round->fault, seen->status) && origin_is_right(round, r);
    if (right ? is_excused(round, r, late) : is_starved(round, r, took))
        return;
    if (!right || late > 0)
        fail(round, "rank %d after %.0f ms (%.0f by the machine at most): %s, origin %d: %s", r,
             (double)took / 1e6, (double)excuse_ns(round) / 1e6,
             rcm_status_name((rcm_status)seen->status), seen->origin, seen->text);
    else if (round->options->verbose)
        printf("ok   %s rank %d after %.0f ms: %s, origin %d: %s\n", fault_name(round->fault), r,
               (double)took / 1e6, rcm_status_name((rcm_status)seen->status), seen->origin,
               seen->text);
}

/* The victim does not judge: it only has to get an error. */
static bool is_witness(const struct round *round, int r) {
    return r != round->victim || !hits_rank(round->fault);
}

static void judge(struct round *round) {
    const int64_t end = now_ns() + allowed_ns(round) + 10 * SECOND;
    bool reported[RANKS_MAX];
    for (int r = 0; r < round->n; r++) {
        reported[r] = is_witness(round, r) && wait_flag(&round->board->seen[r].reported, end);
        if (is_witness(round, r) && !reported[r])
            fail(round, "rank %d hangs or died: iteration %lld, %s", r,
                 (long long)atomic_load(&round->board->seen[r].iterations),
                 round->board->seen[r].problem);
    }
    for (int r = 0; r < round->n; r++)
        if (reported[r])
            judge_rank(round, r);
}

/* Waits for a rank's end: by itself, after an error without waiting for others, and without
 * problems. */
static void reap(struct round *round, int r) {
    const struct seen *seen = &round->board->seen[r];
    const int64_t end = now_ns() + 7 * SECOND * slowness();
    int status = 0;
    pid_t got;
    while ((got = waitpid(round->ranks[r], &status, WNOHANG)) == 0 && now_ns() < end)
        pause_ms(1);
    if (got == 0) {
        fail(round, "rank %d does not end by itself (%s)", r,
             atomic_load(&seen->reported) ? "in rcm_destroy" : "in an operation");
        kill(round->ranks[r], SIGKILL);
        waitpid(round->ranks[r], &status, 0);
    } else if (r == round->victim && round->fault == FAULT_KILL) {
        return;
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail(round, "rank %d ended with 0x%x: %s", r, (unsigned)status, seen->problem);
    } else if (seen->destroy_ns > 3 * SECOND * slowness() && !nothing_happens(round->fault)) {
        fail(round, "rank %d was in rcm_destroy for %.0f ms", r, (double)seen->destroy_ns / 1e6);
    }
}

static void judge_victim(struct round *round) {
    const struct seen *seen = &round->board->seen[round->victim];
    if (is_witness(round, round->victim) || round->fault == FAULT_KILL)
        return;
    if (!wait_flag(&seen->reported, now_ns() + 5 * SECOND * slowness()))
        fail(round, "the victim gets no error");
    else if (seen->status == RCM_OK)
        fail(round, "the victim returned RCM_OK");
    else if (round->options->verbose)
        printf("ok   %s victim %d: %s, origin %d: %s\n", fault_name(round->fault), round->victim,
               rcm_status_name((rcm_status)seen->status), seen->origin, seen->text);
}

static void finish(struct round *round) {
    if (round->fault == FAULT_STOP)
        kill(round->ranks[round->victim], SIGCONT);
    judge_victim(round);
    for (int r = 0; r < round->n; r++)
        reap(round, r);
    kill(round->store, SIGKILL);
    waitpid(round->store, NULL, 0);
    /* Orphans of our children would be our children now. */
    if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD)
        fail(round, "a process is left");
}

static void run_once(struct round *round) {
    const struct options *options = round->options;
    round->board = mmap(NULL, sizeof(*round->board), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (round->board == MAP_FAILED || !start_store(round)) {
        fail(round, "the store does not start");
        return;
    }
    round->board->n = round->n;
    round->board->deadline_ms = options->deadline_ms;
    choose(round);
    start_ranks(round);
    if (!wait_started(round)) {
        fail(round, "the ranks do not start: %s", round->board->seen[0].problem);
        for (int r = 0; r < round->n; r++)
            kill(round->ranks[r], SIGKILL);
    } else {
        act(round);
        judge(round);
    }
    finish(round);
    munmap(round->board, sizeof(*round->board));
}

int round_run(const struct options *options, int ranks, uint64_t seed) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int turn = 1;; turn++) {
        struct round round = {.options = options, .seed = seed, .random = seed, .n = ranks};
        run_once(&round);
        if (round.errors == 0 && round.late_ns > 0 && turn == TURNS)
            fail(&round, "late by %.0f ms, and %d times before: the machine is too busy",
                 (double)round.late_ns / 1e6, TURNS - 1);
        if (round.errors > 0 || round.late_ns == 0)
            return round.errors ? 1 : 0;
        printf("seed %llu: late by %.0f ms for want of a processor; repeating\n",
               (unsigned long long)seed, (double)round.late_ns / 1e6);
        fflush(stdout);
        pause_ms(1000 * turn);
    }
}
