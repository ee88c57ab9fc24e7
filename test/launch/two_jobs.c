/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two jobs of one parent with the same meeting point, in every order that matters: no rank of one
 * job is ever in a world with a rank of the other.
 *     two_jobs CASE
 *     two_jobs rounds N
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "jobs.h"

#define SEEM    "two jobs seem to use"
#define LATE_US 200000

static void store_end(pid_t pid) {
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Jobs A and B. */
struct pair {
    struct job job[2];
    _Atomic int *turn;
    _Atomic bool *hold, *goes;
    rcm_store *store; /* their meeting point once it exists; kept while ranks start */
};

static void pair_init(struct pair *pair, int size_a, int size_b) {
    *pair = (struct pair){.turn = shared_memory(sizeof *pair->turn),
                          .hold = shared_memory(sizeof *pair->hold),
                          .goes = shared_memory(sizeof *pair->goes)};
    *pair->hold = true;
    for (int i = 0; i < 2; i++)
        pair->job[i] = (struct job){.url = url,
                                    .number = i ? 10 : 1,
                                    .size = i ? size_b : size_a,
                                    .hold = pair->hold,
                                    .turn = pair->turn,
                                    .late_goes = pair->goes};
}

/* Waits for the results of all started ranks; then those that joined continue and end. */
static void pair_finish(struct pair *pair) {
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < pair->job[i].size; r++)
            if (pair->job[i].turns[r] > 0)
                job_await_init(&pair->job[i], r);
    *pair->hold = false;
    for (int i = 0; i < 2; i++)
        job_wait(&pair->job[i]);
}

/* Each rank that joined is in a world of its own job, which is complete. */
static void pair_not_mixed(const struct pair *pair) {
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < pair->job[i].size; r++) {
            const struct job *job = &pair->job[i];
            const struct outcome *t = &job->outcome[r];
            CHECK(t->status != RCM_OK || job->turns[r] == 0 ||
                      t->sum == (float)(job->number * job->size),
                  "the jobs were mixed: rank %d of %c has sum %g", r, 'A' + i, (double)t->sum);
        }
}

static bool is_claimed(rcm_store *store, int rank) {
    char key[40];
    void *value;
    size_t len;
    snprintf(key, sizeof key, "ringcomm/0/member/%d", rank);
    const rcm_status status = rcm_store_try_get(store, key, &value, &len);
    if (status == RCM_OK)
        free(value);
    return status != RCM_ERR_NOT_FOUND; /* or the store is gone */
}

/* "A0", "B1!", "A2~": job and rank to start. "!": its rejection comes before the next start. "~":
 * it is late, until the last rank is rejected and the others had time. */
static void step(struct pair *pair, const char *word) {
    const struct job *job = &pair->job[word[0] - 'A'];
    const int rank = word[1] - '0';
    char client[120];
    ++*pair->turn;
    if (!pair->store && rank == 0) {
        snprintf(client, sizeof client, "%s%s", url, strchr(url, '?') ? "" : "?server=0");
        CHECK(rcm_store_open(client, INIT_MS, &pair->store) == RCM_OK, "%s: %s", client,
              rcm_last_error());
    }
    while (!job->outcome[rank].joined && pair->store &&
           (word[2] == '!' || !is_claimed(pair->store, rank)))
        usleep(1000);
}

static void note_turn(struct pair *pair, const char *word, int turn) {
    struct job *job = &pair->job[word[0] - 'A'];
    const int rank = word[1] - '0';
    job->turns[rank] = turn;
    if (word[2] == '~')
        job->late = rank;
}

static void let_late_go(struct pair *pair, const char *last) {
    job_await_init(&pair->job[last[0] - 'A'], last[1] - '0');
    usleep(LATE_US);
    *pair->goes = true;
}

/* Starts ranks in this order. */
static void pair_run(struct pair *pair, const char *steps) {
    const char *last = steps;
    int turn = 0;
    for (const char *at = steps; *at; at += strcspn(at, " "), at += *at == ' ')
        note_turn(pair, last = at, ++turn);
    job_start(&pair->job[0]);
    job_start(&pair->job[1]);
    for (const char *at = steps; *at; at += strcspn(at, " "), at += *at == ' ')
        step(pair, at);
    rcm_store_close(pair->store);
    if (strchr(steps, '~'))
        let_late_go(pair, last);
    pair_finish(pair);
}

/* ---- Without ids --------------------------------------------------------------------------- */

/* All started ranks are rejected; of the job `well` none is. */
static void orders(void) {
    static const struct {
        const char *steps;
        int sizes[2];
        char well; /* the job that succeeds; 0: neither */
    } rows[] = {
        {"A0 B1 A1", {2, 2}, 0},
        {"A0 B1 B0", {2, 2}, 0},
        {"A0 B1 B2 A1", {3, 3}, 0},
        {"A0 A1 B2 A2", {3, 3}, 0},
        {"A0 A1 B2 B1", {3, 3}, 0},
        {"A0 B2 A2", {3, 3}, 0},
        {"A0 B1 A2 B0", {3, 3}, 0},
        {"A0 B1 A2~ B0", {3, 3}, 0},
        {"B0 A1 B2 A0", {3, 3}, 0},
        {"A0 B1! A1 B0! B2!", {2, 3}, 'A'},
        {"A0 B2! A1 B1! B0!", {2, 3}, 'A'},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pair pair;
        snprintf(url, sizeof url, "tcp://127.0.0.1:%d", free_port());
        pair_init(&pair, rows[i].sizes[0], rows[i].sizes[1]);
        printf("%s\n", rows[i].steps);
        pair_run(&pair, rows[i].steps);
        pair_not_mixed(&pair);
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < pair.job[k].size && rows[i].well != 'A' + k; r++)
                if (pair.job[k].turns[r] > 0)
                    job_refused(&pair.job[k], r, r, rows[i].well ? "another job" : SEEM, "pid ",
                                "127.0.0.1");
        if (rows[i].well)
            job_went_well(&pair.job[rows[i].well - 'A']);
    }
}

/* ---- With ids ------------------------------------------------------------------------------ */

/* The job whose rank 0 started first works, as if the other did not exist. */
static void orders_with_ids(void) {
    static const struct {
        const char *steps;
        int size;
        char well;
    } rows[] = {
        {"A0 B1 A1 B0", 2, 'A'},       {"A0 B1 B0 A1", 2, 'A'},       {"A1 B1 A0 B0", 2, 'A'},
        {"A1 B1 B0 A0", 2, 'B'},       {"A0 B1 B2 A1 A2 B0", 3, 'A'}, {"B0 A1 B2 A2 B1 A0", 3, 'B'},
        {"A1 B2 B1 A2 B0 A0", 3, 'B'},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        struct pair pair;
        const int at = (int)(i / 2), well = rows[at].well - 'A';
        const int port = free_port();
        const pid_t pid = i % 2 ? store_serve(port) : 0; /* else rank 0 serves it */
        snprintf(url, sizeof url, "tcp://127.0.0.1:%d%s", port, pid ? "?server=0" : "");
        pair_init(&pair, rows[at].size, rows[at].size);
        pair.job[0].id = "alpha";
        pair.job[1].id = "beta";
        printf("%s at %s\n", rows[at].steps, url);
        pair_run(&pair, rows[at].steps);
        pair_not_mixed(&pair);
        job_went_well(&pair.job[well]);
        job_refused(&pair.job[!well], 0, rows[at].size - 1, "two jobs use", "job alpha",
                    "job beta");
        store_end(pid);
    }
}

/* One rank has no id. */
static void forgotten_id(void) {
    for (int size = 2; size <= 3; size++)
        for (int r = 1; r < size; r++) {
            struct job job = {.url = url, .number = 1, .size = size, .id = "alpha", .forgets = r};
            file_new(); /* the error stays in the store for late ranks */
            printf("rank %d of %d has none\n", r, size);
            job_start(&job);
            job_wait(&job);
            job_refused(&job, 0, size - 1, SEEM, "the job id alpha", "no job id");
            file_remove();
        }
}

/* ---- The same job again -------------------------------------------------------------------- */

/* In a store that outlives it: after a job that died, and as the next attempt of one. */
static void restarts(void) {
    struct job dies = {.url = url, .number = 1, .size = 3, .id = "alpha", .orphan = true};
    struct job job = {.url = url, .number = 2, .size = 3, .id = "alpha"};
    struct job other = {.url = url, .number = 3, .size = 3, .id = "beta"};
    const int port = free_port();
    const pid_t pid = store_serve(port);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d?server=0", port);
    struct job *const fine[] = {&job, &other, &job};
    for (int i = 0; i < 3; i++) {
        job_start(fine[i]);
        job_wait(fine[i]);
        job_went_well(fine[i]);
    }
    job_start(&dies);
    job_wait(&dies);
    struct job *const stale[] = {&job, &other};
    for (int i = 0; i < 2; i++) {
        job_start(stale[i]);
        job_wait(stale[i]);
        job_refused(stale[i], 0, 2, "left over", "pid ", "without rcm_destroy");
    }
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    job_start(&job);
    job_wait(&job);
    job_went_well(&job);
    store_end(pid);
}

/* A rank whose rcm_init timed out calls it again: it does not count as a second one. */
static void rank_again(void) {
    struct job job = {.url = url, .number = 1, .size = 2, .timeout_ms = 300, .again = true};
    file_new();
    job.turn = shared_memory(sizeof *job.turn);
    job.turns[0] = 1;
    job.turns[1] = -1; /* at once */
    job_start(&job);
    while (job.outcome[1].tries < 2)
        usleep(1000);
    ++*job.turn;
    job_wait(&job);
    job_went_well(&job);
    file_remove();
}

/* ---- Rounds -------------------------------------------------------------------------------- */

/* All ranks start at once, in odd rounds with ids. */
static void one_round(int number) {
    const int size = 2 + number / 2 % 2;
    const bool ids = number % 2;
    struct pair pair;
    srand((unsigned)number + 1);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", free_port());
    pair_init(&pair, size, size);
    for (int i = 0; i < 2; i++) {
        pair.job[i].id = ids ? i ? "beta" : "alpha" : NULL;
        pair.job[i].timeout_ms = ids ? 0 : 2500; /* the store may be gone before a rank starts */
        for (int r = 0; r < size; r++) {
            pair.job[i].turns[r] = 1;
            pair.job[i].pause_us[r] = rand() % 5000;
        }
    }
    job_start(&pair.job[0]);
    job_start(&pair.job[1]);
    *pair.turn = 1;
    pair_finish(&pair);
    pair_not_mixed(&pair);
    const int well = pair.job[0].outcome[0].status != RCM_OK;
    if (ids) {
        job_went_well(&pair.job[well]);
        job_refused(&pair.job[!well], 0, size - 1, "two jobs use", "job alpha", "job beta");
    }
}

static void rounds(int n) {
    enum { AT_ONCE = 4 };
    for (int running = 0, i = 0; i < n || running > 0;) {
        int status;
        fflush(NULL);
        if (i < n && running < AT_ONCE) {
            running++;
            const pid_t pid = fork();
            if (pid == 0) {
                errors = 0;
                one_round(i);
                exit(errors > 0);
            }
            i++;
        } else {
            const pid_t pid = wait(&status);
            running--;
            CHECK(status == 0, "the round of process %d failed", (int)pid);
        }
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"orders", orders},
                 {"orders-with-ids", orders_with_ids},
                 {"forgotten-id", forgotten_id},
                 {"restarts", restarts},
                 {"rank-again", rank_again}};
    bool found = argc == 3 && strcmp(argv[1], "rounds") == 0;
    setenv("RINGCOMM_LOG", "error", 1);
    unsetenv("RINGCOMM_JOB_ID");
    if (found)
        rounds(atoi(argv[2]));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc != 2 || strcmp(argv[1], cases[i].name) != 0)
            continue;
        cases[i].run();
        found = true;
    }
    return !found || errors > 0;
}
