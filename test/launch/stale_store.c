/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores with old contents, and stores that two jobs use at once: every rank gets an error with the
 * reason in time, and the jobs do not mix.
 *     stale_store CASE
 * The asserted time is "long before the deadline of rcm_init", which is 60 s.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "jobs.h"

/* ---- Files --------------------------------------------------------------------------------- */

/* An earlier job whose ranks have died: all of them, or one while it waited for the others. */
static void stale_file(void) {
    static const struct {
        int old_size, first, last, new_size;
    } rows[] = {{2, 0, 1, 2}, {2, 0, 0, 2}, {2, 1, 1, 2}, {3, 1, 2, 3}, {2, 0, 1, 4}, {4, 0, 3, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job old = {.url = url, .number = 1, .size = rows[i].old_size, .orphan = true};
        struct job new = {.url = url, .number = 2, .size = rows[i].new_size};
        char pid[32];
        file_new();
        printf("ranks %d-%d of %d died, then %d ranks\n", rows[i].first, rows[i].last, old.size,
               new.size);
        job_start_some(&old, rows[i].first, rows[i].last);
        snprintf(pid, sizeof pid, "pid %d", (int)old.pids[rows[i].first]);
        if (rows[i].last - rows[i].first + 1 < old.size) { /* they wait for the others: end them */
            usleep(300000);
            for (int r = 0; r < old.size; r++)
                if (old.pids[r] > 0)
                    kill(old.pids[r], SIGKILL);
        }
        job_wait(&old);
        job_start(&new);
        job_wait(&new);
        job_refused(&new, 0, new.size - 1, path, "pid ", "s ago");
        int named = 0;
        for (int r = 0; r < new.size; r++)
            named += strstr(new.outcome[r].text, pid) != NULL;
        CHECK(named > 0, "no rank names %s", pid);
        file_remove();
    }
}

/* A job runs; another one starts on its file. */
static void running(void) {
    for (int size = 1; size <= 4; size += 1) {
        _Atomic bool *hold = shared_memory(sizeof *hold);
        struct job one = {.url = url, .number = 1, .size = 2, .apart = true, .hold = hold};
        struct job two = {.url = url, .number = 2, .size = size, .apart = true};
        file_new();
        *hold = true;
        printf("two ranks run, %d ranks come\n", size);
        job_start(&one);
        job_await_init(&one, 0);
        job_await_init(&one, 1);
        job_start(&two);
        job_wait(&two);
        job_refused(&two, 0, size - 1, path, "pid ", "another job");
        *hold = false;
        job_wait(&one);
        job_went_well(&one);
        CHECK(access(path, F_OK) != 0, "the file was not removed by its job");
        file_remove();
    }
}

/* Two jobs start on one file at the same moment. */
static void together(void) {
    for (int round = 0; round < 4; round++) {
        _Atomic bool *hold = shared_memory(sizeof *hold);
        struct job one = {.url = url, .number = 1, .size = 2, .apart = true, .hold = hold};
        struct job two = {.url = url, .number = 10, .size = 2, .apart = true, .hold = hold};
        file_new();
        *hold = true;
        job_start(&one);
        usleep((useconds_t)round * 3000);
        job_start(&two);
        for (int r = 0; r < 2; r++) {
            job_await_init(&one, r);
            job_await_init(&two, r);
        }
        *hold = false;
        job_wait(&one);
        job_wait(&two);
        for (int r = 0; r < 4; r++) {
            const struct job *job = r < 2 ? &one : &two;
            const struct outcome *t = &job->outcome[r % 2];
            printf("  job %d rank %d after %.2f s: %s %s\n", job->number, r % 2, t->seconds,
                   rcm_status_name((rcm_status)t->status), t->text);
            CHECK(t->seconds < SOON_S, "only after %.1f s", t->seconds);
            CHECK(t->status != RCM_OK || t->sum == (float)(2 * job->number),
                  "the jobs were mixed: job %d has sum %g", job->number, (double)t->sum);
            CHECK(t->status == RCM_OK || (strstr(t->text, path) && strstr(t->text, "pid ")),
                  "the error does not name the cause: %s", t->text);
        }
        CHECK(one.outcome[0].status != RCM_OK || two.outcome[0].status != RCM_OK,
              "two jobs used one file");
        file_remove();
    }
}

/* ---- TCP ----------------------------------------------------------------------------------- */

/* A job serves its store at a port that another job uses, too. */
static void port_of_a_job(void) {
    _Atomic bool *hold = shared_memory(sizeof *hold);
    struct job one = {.url = url, .number = 1, .size = 2, .apart = true, .hold = hold};
    struct job two = {.url = url, .number = 2, .size = 2, .apart = true};
    char port[20];
    const int number = free_port();
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", number);
    snprintf(port, sizeof port, "%d", number);
    *hold = true;
    job_start(&one);
    job_await_init(&one, 0);
    job_await_init(&one, 1);
    job_start(&two);
    job_wait(&two);
    job_refused(&two, 0, 1, port, "pid ", "another job");
    *hold = false;
    job_wait(&one);
    job_went_well(&one);
}

/* Another program listens there. */
static void port_of_another_program(void) {
    struct job job = {.url = url, .number = 1, .size = 2};
    char port[20];
    int number, fd = listener(&number);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", number);
    snprintf(port, sizeof port, "port %d", number);
    job_start_some(&job, 0, 0);
    job_wait(&job);
    job_refused(&job, 0, 0, port, "in use", "another port");
    /* The other ranks cannot find the cause; they log what they see and retry. */
    char log[400] = "";
    file_new();
    struct job other = {.url = url, .number = 1, .size = 2, .log = path, .timeout_ms = 6000};
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", number);
    job_start_some(&other, 1, 1);
    job_wait(&other);
    job_refused(&other, 1, 1, "127.0.0.1", "cannot reach", port + 5);
    FILE *file = fopen(path, "re");
    CHECK(file && fread(log, 1, sizeof log - 1, file) > 0, "no log message while it retried");
    CHECK(strstr(log, port + 5) && strstr(log, "does not reply like a store"), "the log is: %s",
          log);
    if (file)
        fclose(file);
    file_remove();
    close(fd);
}

/* A store that outlives jobs: two that end well, then one that dies. */
static void kept_store(void) {
    struct job job = {.url = url, .number = 3, .size = 2};
    struct job dies = {.url = url, .number = 4, .size = 2, .orphan = true};
    const int number = free_port();
    const pid_t pid = store_serve(number);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d?server=0", number);
    for (int i = 0; i < 3; i++) {
        job_start(&job);
        job_wait(&job);
        job_went_well(&job);
    }
    job_start(&dies);
    job_wait(&dies);
    job_start(&job);
    job_wait(&job);
    job_refused(&job, 0, 1, "left over", "pid ", "tcp://127.0.0.1");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A rank fails after it has joined: the others get its reason. */
static void others_get_error(void) {
    struct job job = {.url = url, .number = 1, .size = 3, .ports = "nonsense"};
    setenv("RINGCOMM_TRANSPORT", "tcp", 1);
    file_new();
    job_start(&job);
    job_wait(&job);
    job_refused(&job, 0, 2, "RINGCOMM_PORTS", "nonsense", "range of ports");
    CHECK(strstr(job.outcome[0].text, "rank 1 could not join"), "rank 1 is not named: %s",
          job.outcome[0].text);
    file_remove();
    file_new();
    job_start_some(&job, 0, 1);
    job_wait(&job);
    job_start_some(&job, 2, 2); /* late: the others have ended */
    job_wait(&job);
    job_refused(&job, 2, 2, "rank 1 could not join: RINGCOMM_PORTS", "rank 0 of 3 (pid", "ended");
    file_remove();
}

/* Rank 0 finds together with the others that the job must fail: it serves its store until they have
 * found it, too. */
static void all_find(void) {
    for (int size = 2; size <= RANKS_MAX; size++) {
        struct job job = {.url = url, .number = 1, .size = size, .no_files = true};
        int number;
        close(listener(&number));
        snprintf(url, sizeof url, "tcp://127.0.0.1:%d", number);
        job_start(&job);
        job_wait(&job);
        job_refused(&job, 0, size - 1, "RINGCOMM_TRANSPORT=shm serves ranks 0 and 1",
                    "on rank 0 shm cannot be used: ", "shared memory");
    }
}

/* The store's server ends while rank 1 waits for the job's name. */
static void store_dies(void) {
    const char *const key = "ringcomm/0/member/1";
    struct job job = {.url = url, .number = 1, .size = 2};
    char server[116], client[116];
    rcm_store *store;
    int number;
    pid_t pid;
    close(listener(&number));
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", number);
    snprintf(server, sizeof server, "%s?server=1", url);
    snprintf(client, sizeof client, "%s?server=0", url);
    fflush(NULL);
    if ((pid = fork()) == 0) {
        if (rcm_store_open(server, 0, &store) != RCM_OK ||
            rcm_store_set(store, "ringcomm/serving", "0123456789abcdef", 16) != RCM_OK)
            _exit(1);
        for (;;)
            pause();
    }
    job_start_some(&job, 1, 1);
    CHECK(rcm_store_open(client, INIT_MS, &store) == RCM_OK &&
              rcm_store_wait(store, &key, 1, INIT_MS) == RCM_OK,
          "rank 1 did not join: %s", rcm_last_error());
    rcm_store_close(store);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    job_wait(&job);
    job_refused(&job, 1, 1, "rank 0, which serves the store, gave up or ended: ", "127.0.0.1",
                "store at");
    CHECK(!strstr(job.outcome[1].text, "has not started"), "rank 0 had started: %s",
          job.outcome[1].text);
}

/* Whether the log names the missing rank. */
static bool log_names(const char *log, const char *words) {
    char text[4096] = "";
    const double end = now() + SOON_S;
    while (!strstr(text, words) && now() < end) {
        FILE *file = fopen(log, "r");
        const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
        text[n] = '\0';
        if (file)
            fclose(file);
        usleep(10000);
    }
    printf("  %s", text);
    return strstr(text, words) != NULL;
}

/* Three of four ranks wait for the last, which never comes; a warning names it. One dies: the
 * others stop waiting. */
static void death_while_joining(int victim, const char *who) {
    char log[64];
    struct job job = {.url = url, .number = 1, .size = 4, .log = log};
    file_new();
    snprintf(log, sizeof log, "%.*s/log", (int)(strlen(path) - strlen("/store")), path);
    job_start_some(&job, 0, 2);
    CHECK(log_names(log, "rank 3 of 4 has not arrived within"),
          "no warning that rank 3 is missing");
    CHECK(!job.outcome[0].joined && !job.outcome[2].joined, "a rank did not wait");
    kill(job.pids[victim], SIGKILL);
    const double killed = now();
    while (!(job.outcome[1 - victim].joined && job.outcome[2].joined) && now() < killed + SOON_S)
        usleep(1000);
    for (int r = 0; r < 3; r++)
        if (r != victim)
            job_refused(&job, r, r, who, "pid ", "ended before all ranks had joined");
    job_wait(&job);
    unlink(log);
    file_remove();
}

static void death(void) {
    setenv("RINGCOMM_WARN_AFTER", "3", 1);
    death_while_joining(1, "rank 1 of 4");
    death_while_joining(0, "rank 0 of 4");
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"stale-file", stale_file},
                 {"running", running},
                 {"together", together},
                 {"port-of-a-job", port_of_a_job},
                 {"port-of-another-program", port_of_another_program},
                 {"kept-store", kept_store},
                 {"others-get-error", others_get_error},
                 {"all-find", all_find},
                 {"death", death},
                 {"store-dies", store_dies}};
    bool found = false;
    setenv("RINGCOMM_LOG", "error", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc != 2 || strcmp(argv[1], cases[i].name) != 0)
            continue;
        cases[i].run();
        found = true;
    }
    return !found || errors > 0;
}
