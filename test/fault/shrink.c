/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that die, while the rest continues:
 *
 *   shrink [--transport shm|tcp] [--ranks N] [--seed S] [--rounds N] [PLAN...]
 *
 * A plan is a list of steps: "3+5" kills ranks 3 and 5 at once in a loop of operations; "0,4" kills
 * rank 0 and, when some rank is in rcm_comm_shrink, rank 4. After each step the survivors must get
 * a communicator of exactly all of them, on which 100 operations succeed. Each communicator has one
 * kind of operation, and all_reduces at times; the kind depends on the seed and the number of
 * ranks.
 *
 * Without a plan the rounds have random ones, and the seeds are printed. Ranks are processes; the
 * store has its own, which is killed when all have met, so that nothing can depend on it. At the
 * end nothing is left.
 */
#include "../count.h"
#include "random.h"
#include "ringcomm.h"
#include "workload.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 16
#define COUNT     ((size_t)3000)
#define GOOD      100 /* operations */
#define SUM_EVERY 8   /* one of so many is an all_reduce */
#define SECOND    INT64_C(1000000000)
#define HANG_NS   (60 * SECOND)

struct seen {
    _Atomic int size;      /* of the current communicator */
    _Atomic int good;      /* correct operations on it */
    _Atomic int shrinking; /* 1: in rcm_comm_shrink */
    _Atomic int shrinks;
    char problem[400];
};

struct board {
    int n;
    uint64_t seed;
    bool late; /* the old communicators are destroyed after the new ones */
    _Atomic int stop;
    _Atomic int killed[RANKS_MAX];
    struct seen seen[RANKS_MAX];
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void die_with_parent(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(240);
}

/* ---- A rank --------------------------------------------------------------------------------- */

struct rank {
    struct board *board;
    struct seen *seen;
    rcm_comm *comm, *old[RANKS_MAX];
    int nold, world;
    int64_t *data;
    struct workload load;
};

__attribute__((format(printf, 2, 3))) static bool complain(struct seen *seen, const char *format,
                                                           ...) {
    va_list args;
    va_start(args, format);
    if (!seen->problem[0])
        vsnprintf(seen->problem, sizeof(seen->problem), format, args);
    va_end(args);
    return false;
}

static int count_maps(void) {
    char line[512];
    int n = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof(line), file))
        n += strstr(line, "memfd:ringcomm") != NULL;
    if (file)
        fclose(file);
    return n;
}

/* The input in round i of the rank that was `world` at first. */
static int64_t value(int world, int i, size_t at) {
    return (int64_t)(world + 1) * 1000003 + (int64_t)(at % 97) * (world + 7) + i;
}

/* One all_reduce; its last element is set if some rank must stop. */
static rcm_status reduce(struct rank *rank, int i, bool *ret_stop) {
    const int n = rcm_size(rank->comm);
    for (size_t k = 0; k < COUNT; k++)
        rank->data[k] = value(rank->world, i, k);
    rank->data[COUNT] = atomic_load(&rank->board->stop);
    rcm_status status = rcm_all_reduce(rank->comm, rank->data, rank->data, COUNT + 1, RCM_INT64,
                                       RCM_SUM, NULL, NULL);
    if (status != RCM_OK)
        return status;
    for (size_t k = 0; k < COUNT; k++) {
        int64_t sum = 0;
        for (int r = 0; r < n; r++)
            sum += value(rcm_world_rank(rank->comm, r), i, k);
        if (rank->data[k] != sum) {
            complain(rank->seen, "element %zu of all_reduce %d of %d ranks is %lld, not %lld", k, i,
                     n, (long long)rank->data[k], (long long)sum);
            return RCM_ERR_INTERNAL;
        }
    }
    *ret_stop = rank->data[COUNT] > 0;
    return RCM_OK;
}

/* An operation of the communicator's kind. */
static rcm_status operate(struct rank *rank, int i) {
    struct workload *w = &rank->load;
    w->comm = rank->comm;
    w->rank = rcm_rank(rank->comm);
    w->n = rcm_size(rank->comm);
    const uint64_t kind = (rank->board->seed + (uint64_t)w->n) % WORKLOAD_KINDS;
    const rcm_status status = workload_do(w, kind, (uint64_t)i, (size_t)i * 7919 % 9000 + 1);
    return rank->seen->problem[0] ? RCM_ERR_INTERNAL : status;
}

/* Works until an error (false) or until it must stop. */
static bool work(struct rank *rank, rcm_status *ret_status) {
    bool stop = false;
    for (int i = 0; !stop; i++) {
        *ret_status = i % SUM_EVERY == 0 ? reduce(rank, i, &stop) : operate(rank, i);
        if (*ret_status != RCM_OK)
            return false;
        atomic_fetch_add(&rank->seen->good, 1);
    }
    return true;
}

static bool end_old(struct rank *rank) {
    while (rank->nold > 0) {
        rcm_comm *old = rank->old[--rank->nold];
        const int64_t began = now_ns();
        if (rcm_destroy(old) == RCM_OK)
            return complain(rank->seen, "rcm_destroy of the old communicator returned RCM_OK");
        if (now_ns() - began > 10 * SECOND)
            return complain(rank->seen, "rcm_destroy of the old communicator took %.1f s",
                            (double)(now_ns() - began) / 1e9);
    }
    return true;
}

static bool shrink(struct rank *rank) {
    struct rcm_call call = RCM_CALL_INIT;
    rcm_comm *comm;
    call.timeout_ms = 50000;
    atomic_store(&rank->seen->shrinking, 1);
    const rcm_status status = rcm_comm_shrink(rank->comm, &call, &comm);
    atomic_store(&rank->seen->shrinking, 0);
    if (status != RCM_OK)
        return complain(rank->seen, "shrink: %s: %s", rcm_status_name(status), rcm_last_error());
    atomic_fetch_add(&rank->seen->shrinks, 1);
    if (rank->nold == RANKS_MAX)
        return complain(rank->seen, "too many shrinks");
    rank->old[rank->nold++] = rank->comm;
    rank->comm = comm;
    if (rcm_world_rank(comm, rcm_rank(comm)) != rank->world)
        return complain(rank->seen, "this rank is %d, not %d as before",
                        rcm_world_rank(comm, rcm_rank(comm)), rank->world);
    for (int r = 1; r < rcm_size(comm); r++)
        if (rcm_world_rank(comm, r) <= rcm_world_rank(comm, r - 1))
            return complain(rank->seen, "the old order was not kept");
    atomic_store(&rank->seen->good, 0);
    atomic_store(&rank->seen->size, rcm_size(comm));
    return rank->board->late || end_old(rank);
}

/* A rank that is named as lost must have been killed. */
static bool names_right(struct rank *rank) {
    struct rcm_error error = RCM_ERROR_INIT;
    if (rcm_comm_error(rank->comm, &error) != RCM_ERR_PEER)
        return true;
    const int world = rcm_world_rank(rank->comm, error.origin);
    if (world >= 0 && atomic_load(&rank->board->killed[world]))
        return true;
    return complain(rank->seen, "rank %d, of the world %d, is named, but alive: %.200s",
                    error.origin, world, error.text);
}

static bool rank_live(struct rank *rank) {
    rcm_status status;
    atomic_store(&rank->seen->size, rcm_size(rank->comm));
    while (!work(rank, &status)) {
        if (rank->seen->problem[0])
            return false;
        if (status != RCM_ERR_PEER && status != RCM_ERR_ABORTED)
            return complain(rank->seen, "an operation: %s: %s", rcm_status_name(status),
                            rcm_last_error());
        if (!names_right(rank) || !shrink(rank))
            return false;
    }
    if (rcm_destroy(rank->comm) != RCM_OK)
        return complain(rank->seen, "destroy: %s", rcm_last_error());
    return end_old(rank);
}

static int rank_main(struct board *board, int world, const char *url, const char *transport) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct rank rank = {.board = board,
                        .seen = &board->seen[world],
                        .world = world,
                        .load = {.call = RCM_CALL_INIT, .problem = board->seen[world].problem}};
    const int fds = count_entries("/proc/self/fd"), tasks = count_entries("/proc/self/task");
    die_with_parent();
    options.rank = world;
    options.world_size = board->n;
    options.url = url;
    options.transport = transport;
    options.timeout_ms = 60000;
    rank.data = malloc((COUNT + 1) * sizeof(*rank.data));
    rank.load.send = malloc(WORKLOAD_BYTES);
    rank.load.recv = malloc(WORKLOAD_BYTES);
    if (!rank.data || !rank.load.send || !rank.load.recv ||
        rcm_init(&options, &rank.comm) != RCM_OK) {
        complain(rank.seen, "init: %s", rcm_last_error());
        return 1;
    }
    const bool well = rank_live(&rank);
    free(rank.data);
    free(rank.load.send);
    free(rank.load.recv);
    if (well && count_entries("/proc/self/fd") != fds)
        complain(rank.seen, "%d descriptors before, %d after", fds, count_entries("/proc/self/fd"));
    if (well && count_threads_more(tasks) > 0)
        complain(rank.seen, "a thread is left");
    if (well && count_maps() > 0)
        complain(rank.seen, "%d maps are left", count_maps());
    return rank.seen->problem[0] ? 1 : 0;
}

/* ---- A round -------------------------------------------------------------------------------- */

struct round {
    const char *transport, *plan;
    uint64_t seed, random;
    struct board *board;
    char url[256];
    pid_t store, pids[RANKS_MAX];
    bool dead[RANKS_MAX];
    int n, errors;
};

__attribute__((format(printf, 2, 3))) static bool fail(struct round *round, const char *format,
                                                       ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    printf("FAIL --transport %s --ranks %d --seed %llu %s: %s\n", round->transport, round->n,
           (unsigned long long)round->seed, round->plan, text);
    fflush(stdout);
    round->errors++;
    return false;
}

static bool start_store(struct round *round) {
    int fds[2];
    ssize_t got = 0;
    if (pipe(fds) != 0)
        return false;
    round->store = fork();
    if (round->store == 0) {
        rcm_store *store;
        die_with_parent();
        if (rcm_store_open("tcp://127.0.0.1:0?server=1", 10000, &store) != RCM_OK)
            _exit(1);
        snprintf(round->url, sizeof(round->url), "%s?server=0", rcm_store_url(store));
        if (write(fds[1], round->url, sizeof(round->url)) != (ssize_t)sizeof(round->url))
            _exit(1);
        for (;;)
            pause();
    }
    close(fds[1]);
    got = read(fds[0], round->url, sizeof(round->url)); /* less than PIPE_BUF: read at once */
    close(fds[0]);
    return got == (ssize_t)sizeof(round->url);
}

static int count_alive(const struct round *round) {
    int alive = 0;
    for (int r = 0; r < round->n; r++)
        alive += !round->dead[r];
    return alive;
}

static bool rank_is_well(struct round *round, int r) {
    int status;
    if (round->dead[r] || waitpid(round->pids[r], &status, WNOHANG) == 0)
        return true;
    round->dead[r] = true;
    return fail(round, "rank %d ended with 0x%x: %s", r, (unsigned)status,
                round->board->seen[r].problem);
}

/* Waits until all survivors work on a communicator of exactly them, with correct results. */
static bool wait_good(struct round *round) {
    const int64_t end = now_ns() + HANG_NS;
    const int alive = count_alive(round);
    for (int r = 0; r < round->n; r++) {
        const struct seen *seen = &round->board->seen[r];
        while (!round->dead[r] &&
               (atomic_load(&seen->size) != alive || atomic_load(&seen->good) < GOOD)) {
            for (int k = 0; k < round->n; k++)
                if (!rank_is_well(round, k))
                    return false;
            if (now_ns() > end)
                return fail(round, "rank %d is at %d of %d ranks, %d operations, %s", r,
                            atomic_load(&seen->size), alive, atomic_load(&seen->good),
                            atomic_load(&seen->shrinking) ? "in shrink" : "not in shrink");
            usleep(1000);
        }
    }
    return true;
}

static bool some_rank_shrinks(const struct round *round) {
    for (int r = 0; r < round->n; r++)
        if (!round->dead[r] && atomic_load(&round->board->seen[r].shrinking))
            return true;
    return false;
}

static void murder(struct round *round, int r) {
    if (r < 0 || r >= round->n || round->dead[r])
        return;
    round->dead[r] = true;
    atomic_store(&round->board->killed[r], 1);
    kill(round->pids[r], SIGKILL);
}

static void reap_dead(struct round *round, bool *reaped) {
    for (int r = 0; r < round->n; r++)
        if (round->dead[r] && !reaped[r]) {
            waitpid(round->pids[r], NULL, 0);
            reaped[r] = true;
        }
}

/* One step of the plan: "3+5" or "0,4+6". */
static void act(struct round *round, const char *step) {
    usleep((useconds_t)(random_next(&round->random) % 30000));
    for (const char *at = step; *at;) {
        char *rest;
        murder(round, (int)strtol(at, &rest, 10));
        if (*rest == ',') {
            const int64_t end = now_ns() + SECOND; /* it may be over already */
            while (!some_rank_shrinks(round) && now_ns() < end)
                ;
            usleep((useconds_t)(random_next(&round->random) % 1500));
        }
        at = *rest ? rest + 1 : rest;
    }
}

static void run_plan(struct round *round, bool *reaped) {
    char plan[128], *save = NULL;
    snprintf(plan, sizeof(plan), "%s", round->plan);
    if (!wait_good(round))
        return;
    kill(round->store, SIGKILL);
    for (char *step = strtok_r(plan, " ", &save); step; step = strtok_r(NULL, " ", &save)) {
        act(round, step);
        reap_dead(round, reaped);
        if (!wait_good(round))
            return;
    }
    atomic_store(&round->board->stop, 1);
    const int64_t end = now_ns() + HANG_NS;
    for (int r = 0; r < round->n; r++) {
        int status = 0;
        while (!round->dead[r] && waitpid(round->pids[r], &status, WNOHANG) == 0 && now_ns() < end)
            usleep(1000);
        if (!round->dead[r] && now_ns() >= end) {
            fail(round, "rank %d does not end", r);
            return;
        }
        if (!round->dead[r] && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
            fail(round, "rank %d ended with 0x%x: %s", r, (unsigned)status,
                 round->board->seen[r].problem);
        round->dead[r] = reaped[r] = true;
    }
}

static int round_run(struct round *round) {
    bool reaped[RANKS_MAX] = {false};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    round->random = round->seed;
    round->board = mmap(NULL, sizeof(*round->board), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (round->board == MAP_FAILED || !start_store(round)) {
        fail(round, "the store does not start");
        return 1;
    }
    round->board->n = round->n;
    round->board->seed = round->seed;
    round->board->late = random_next(&round->random) % 2;
    for (int r = 0; r < round->n; r++) {
        round->pids[r] = fork();
        if (round->pids[r] == 0)
            exit(rank_main(round->board, r, round->url, round->transport));
    }
    run_plan(round, reaped);
    for (int r = 0; r < round->n; r++)
        if (!reaped[r])
            kill(round->pids[r], SIGKILL);
    kill(round->store, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    return round->errors ? 1 : 0;
}

/* Two to four steps that leave at least one rank. */
static void make_plan(uint64_t seed, int n, char *plan, size_t cap) {
    uint64_t random = seed * 2654435761u;
    bool dead[RANKS_MAX] = {false};
    int alive = n, steps = 2 + (int)(random_next(&random) % 3);
    size_t used = 0;
    plan[0] = '\0';
    for (int s = 0; s < steps; s++) {
        for (int k = 0; alive > 1 && k < 3; k++) {
            int r = (int)(random_next(&random) % (uint64_t)n);
            if (random_next(&random) % 2) /* the coordinator */
                for (r = 0; dead[r];)
                    r++;
            if (dead[r])
                continue;
            dead[r] = true;
            alive--;
            const char *glue = k == 0 ? (s ? " " : "") : random_next(&random) % 3 ? "," : "+";
            if (k > 0 && (used == 0 || plan[used - 1] == ' '))
                glue = "";
            used += (size_t)snprintf(plan + used, cap - used, "%s%d", glue, r);
            if (random_next(&random) % 2)
                break;
        }
    }
}

static int run_round(struct round round) {
    fflush(stdout);
    const pid_t pid = fork();
    int status = 1;
    if (pid == 0)
        exit(round_run(&round));
    if (pid > 0)
        waitpid(pid, &status, 0);
    return status != 0;
}

int main(int argc, char **argv) {
    struct round round = {.transport = "shm", .n = 8, .seed = (uint64_t)now_ns() % 1000000000};
    int rounds = 1, failed = 0, at = 1;
    char plan[128] = "";
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--transport") == 0)
            round.transport = argv[at + 1];
        else if (strcmp(argv[at], "--ranks") == 0)
            round.n = atoi(argv[at + 1]);
        else if (strcmp(argv[at], "--seed") == 0)
            round.seed = strtoull(argv[at + 1], NULL, 0);
        else if (strcmp(argv[at], "--rounds") == 0)
            rounds = atoi(argv[at + 1]);
    }
    if (round.n < 2 || round.n > RANKS_MAX || (at < argc && argv[at][0] == '-')) {
        fprintf(stderr,
                "usage: shrink [--transport shm|tcp] [--ranks 2..%d] [--seed S] "
                "[--rounds N] [PLAN...]\n",
                RANKS_MAX);
        return 2;
    }
    setenv("RINGCOMM_LOG", "error", 0);
    if (!getenv("SHRINK_VERBOSE") && !freopen("/dev/null", "w", stderr))
        return 2; /* every failing communicator logs its error */
    const int64_t began = now_ns();
    const uint64_t seed = round.seed;
    const bool given = at < argc;
    for (int k = 0; k < rounds; k++) {
        if (!given) {
            make_plan(round.seed, round.n, plan, sizeof(plan));
            round.plan = plan;
            failed += run_round(round);
        }
        for (int i = at; given && i < argc; i++) {
            round.plan = argv[i];
            failed += run_round(round);
            round.seed++; /* other operations */
        }
        round.seed += !given;
    }
    printf("%d of %d rounds failed: %d ranks over %s, seed %llu, %.1f s\n", failed,
           given ? rounds * (argc - at) : rounds, round.n, round.transport,
           (unsigned long long)seed, (double)(now_ns() - began) / 1e9);
    return failed ? 1 : 0;
}
