/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that meet by Slurm's numbers or in Open MPI's session directory, with neither installed:
 * one process per rank, and other programs at the store's address. */
#include "../store/check.h"
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "rendezvous.h"
#include "url.h"

#define RANKS_MAX 8

/* ---- Jobs ---------------------------------------------------------------------------------- */

struct job {
    const char *env;              /* of every rank: "NAME=value NAME=value" */
    const char *rank_name;        /* the variable with the rank's number */
    int size, missing;            /* number of ranks; the rank that does not start, or -1 */
    const char *secret, *secret0; /* of the ranks, and of rank 0 */
    int64_t timeout_ms;
    rcm_status want; /* expected of all ranks but 0 */
    const char *text;
    void (*then)(void *arg); /* called when all ranks are forked; may be NULL */
    void *then_arg;
};

static void environment(const char *text) {
    char *copy = strdup(text), *save = NULL;
    clearenv();
    for (char *item = strtok_r(copy, " ", &save); item; item = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(item, '=');
        *eq = '\0';
        setenv(item, eq + 1, 1);
    }
    free(copy);
}

/* Each rank increments a counter in the store and waits until all did; rank 0 waits until all
 * left. */
static rcm_status store_use(rcm_store *store, int rank, int size) {
    const char *const all = "all";
    int64_t n = 0;
    rcm_status status = rcm_store_add(store, "arrived", 1, &n);
    if (status == RCM_OK && n == size)
        status = rcm_store_set(store, all, "", 0);
    if (status == RCM_OK)
        status = rcm_store_wait(store, &all, 1, 10000);
    if (status == RCM_OK)
        status = rcm_store_add(store, "left", 1, &n);
    while (rank == 0 && status == RCM_OK && n < size) {
        sleep_ms(5);
        status = rcm_store_add(store, "left", 0, &n);
    }
    return status;
}

/* Returns 0 if the rank's result is as expected. */
static int rank_run(const struct job *job, int rank) {
    char number[24];
    struct rcmi_launch launch;
    rcm_store *store = NULL;
    environment(job->env);
    snprintf(number, sizeof number, "%d", rank);
    setenv(job->rank_name, number, 1);
    rcm_status status = rcmi_launch_resolve(NULL, &launch);
    if (status == RCM_OK) {
        status = rcmi_launch_open(&launch, rank == 0 ? job->secret0 : job->secret, job->timeout_ms,
                                  &store);
        if (status == RCM_OK && job->want == RCM_OK)
            status = store_use(store, rank, job->size);
        else if (rank == 0)
            sleep_ms(1500); /* the others find it */
        rcm_store_close(store);
        rcmi_launch_fini(&launch);
    }
    if (rank == 0 && job->want != RCM_OK)
        return 0;
    if (status == job->want && (!job->text || strstr(rcm_last_error(), job->text)))
        return 0;
    fprintf(stderr, "rank %d: %s: %s\n", rank, rcm_status_name(status), rcm_last_error());
    return 1;
}

/* Ranks start when all are forked and job->then has run. A process with threads must not fork under
 * a sanitizer, whose allocator may be locked at that moment. */
static void job_run(const struct job *job) {
    pid_t pid[RANKS_MAX];
    int gate[2];
    fflush(stdout);
    assert_int_equal(pipe(gate), 0);
    for (int r = 0; r < job->size; r++) {
        pid[r] = r == job->missing ? 0 : fork();
        if (pid[r] == 0 && r != job->missing) {
            char byte;
            close(gate[1]);
            if (read(gate[0], &byte, 1) != 0) /* end of file: all other copies are closed */
                _exit(1);
            _exit(rank_run(job, r));
        }
    }
    if (job->then)
        job->then(job->then_arg);
    close(gate[0]);
    close(gate[1]);
    int bad = 0;
    for (int r = 0; r < job->size; r++) {
        int status = 0;
        if (pid[r] > 0 && (waitpid(pid[r], &status, 0) != pid[r] || status != 0))
            bad++;
    }
    assert_int_equal(bad, 0);
}

/* ---- Slurm --------------------------------------------------------------------------------- */

#define STEP                                                                                       \
    "SLURM_STEP_ID=3 SLURM_NTASKS=4 SLURM_NODEID=0 "                                               \
    "SLURM_JOB_ID=" /* followed by a number of the test */

/* The first port that the job's ranks try. */
static int first_port(const char *env) {
    struct rcmi_launch launch;
    struct rcmi_url url;
    environment(env);
    setenv("SLURM_PROCID", "0", 1);
    check_ok(rcmi_launch_resolve(NULL, &launch));
    check_ok(rcmi_url_parse(launch.meeting, &url));
    int port = url.port;
    rcmi_url_fini(&url);
    rcmi_launch_fini(&launch);
    return port;
}

static const char *step_env(const char *more) {
    static char env[300];
    static unsigned job;
    snprintf(env, sizeof env, STEP "%u %s", (unsigned)getpid() * 16 + job++, more);
    return env;
}

#define ONE_NODE  "SLURM_STEP_TASKS_PER_NODE=4"
#define TWO_NODES "SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_STEP_NODELIST=localhost,other"

static void slurm_meets(void **state) {
    const char *const where[] = {ONE_NODE, TWO_NODES};
    (void)state;
    for (int i = 0; i < 2; i++)
        job_run(&(struct job){.env = step_env(where[i]),
                              .rank_name = "SLURM_PROCID",
                              .size = 4,
                              .missing = -1,
                              .timeout_ms = 20000});
    job_run(&(struct job){.env = step_env(ONE_NODE),
                          .rank_name = "SLURM_PROCID",
                          .size = 4,
                          .missing = -1,
                          .timeout_ms = 20000,
                          .secret = "s",
                          .secret0 = "s"});
}

/* Another program uses the job's port: another store, one with a secret, one that never answers.
 * The ranks meet at the next port. */
struct other_program {
    int kind, port, fd;
    rcm_store *store;
};

static void other_program_start(void *arg) {
    struct other_program *other_program = arg;
    char url[100];
    int got;
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d?server=1", other_program->port);
    if (other_program->kind < 2)
        check_ok(rcmi_store_open(url, other_program->kind == 1 ? "theirs" : NULL, 5000,
                                 &other_program->store));
    else
        check_ok(rcmi_store_listen("127.0.0.1", other_program->port, &other_program->fd, &got));
}

static void slurm_strangers(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        const char *env = step_env(ONE_NODE);
        struct other_program other_program = {.kind = kind, .port = first_port(env), .fd = -1};
        double start = seconds_now();
        job_run(&(struct job){.env = env,
                              .rank_name = "SLURM_PROCID",
                              .size = 4,
                              .missing = -1,
                              .timeout_ms = 30000,
                              .then = other_program_start,
                              .then_arg = &other_program});
        assert_true(seconds_now() - start < 15);
        rcm_store_close(other_program.store);
        if (other_program.fd >= 0)
            close(other_program.fd);
    }
}

static void slurm_without_rank_0(void **state) {
    (void)state;
    double start = seconds_now();
    job_run(&(struct job){.env = step_env(ONE_NODE),
                          .rank_name = "SLURM_PROCID",
                          .size = 4,
                          .missing = 0,
                          .timeout_ms = 1000,
                          .want = RCM_ERR_TIMEOUT,
                          .text = "did rank 0 start?"});
    assert_true(seconds_now() - start < 8);
}

/* ---- Open MPI ------------------------------------------------------------------------------ */

static const char *session_env(const char *dir) {
    static char env[600];
    snprintf(env, sizeof env,
             "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=7 "
             "PMIX_SERVER_TMPDIR=%s",
             dir);
    return env;
}

static void openmpi_meets(void **state) {
    char *dir = fresh_path();
    struct job job = {.env = session_env(dir),
                      .rank_name = "OMPI_COMM_WORLD_RANK",
                      .size = 4,
                      .missing = -1,
                      .timeout_ms = 20000};
    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    job_run(&job); /* rank 0 removes its file: the directory is empty again */
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(mkdir(dir, 0700), 0);

    job.missing = 0;
    job.timeout_ms = 500;
    job.want = RCM_ERR_TIMEOUT;
    job.text = "rank 0 did not write its address";
    job_run(&job);

    job.missing = -1;
    job.timeout_ms = 10000;
    job.secret0 = "theirs";
    job.secret = "ours";
    job.want = RCM_ERR_AUTH;
    job.text = "secret";
    double start = seconds_now();
    job_run(&job);
    assert_true(seconds_now() - start < 10);
    assert_int_equal(rmdir(dir), 0);
    remove_path(dir);
}

/* Invalid contents of the file. */
static void openmpi_odd_files(void **state) {
    static const char *const contents[] = {"", "token", "token,nonsense", ",,,"};
    char *dir = fresh_path(), path[300];
    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/ringcomm-7-0", dir);
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        FILE *f = fopen(path, "w");
        fputs(contents[i], f);
        fclose(f);
        job_run(&(struct job){.env = session_env(dir),
                              .rank_name = "OMPI_COMM_WORLD_RANK",
                              .size = 2,
                              .missing = 0,
                              .timeout_ms = 2000,
                              .want = i == 2 ? RCM_ERR_INVALID : RCM_ERR_PROTOCOL});
    }
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    job_run(&(struct job){.env = session_env(dir),
                          .rank_name = "OMPI_COMM_WORLD_RANK",
                          .size = 2,
                          .missing = 0,
                          .timeout_ms = 2000,
                          .want = RCM_ERR_SYSTEM,
                          .text = "cannot read"});
    unlink(path);
    rmdir(dir);
    remove_path(dir);
}

int main(void) {
#ifndef RCMI_HAVE_CRYPTO
    printf("built without libcrypto, and some of these jobs have a secret\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slurm_meets),          cmocka_unit_test(slurm_strangers),
        cmocka_unit_test(slurm_without_rank_0), cmocka_unit_test(openmpi_meets),
        cmocka_unit_test(openmpi_odd_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
