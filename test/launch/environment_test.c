/* SPDX-License-Identifier: BSD-3-Clause */
/* The environments of Open MPI, Hydra and Slurm: a table of environments and their expected
 * results. Those of torchrun and ringcomm-run: test/store/url_environment_test.c. Needs no
 * launcher. */
#include "../store/check.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "pmix_client.h"
#include "rendezvous.h"

/* "NAME=value NAME=value": sets these and no others. */
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

#define TORCH "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=29500"
#define OMPI                                                                                       \
    "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 "                  \
    "OMPI_COMM_WORLD_LOCAL_SIZE=2"
#define PMI "PMI_RANK=3 PMI_SIZE=6 PMI_FD=9 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2"
#define SLURM                                                                                      \
    "SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_PROCID=4 SLURM_NTASKS=5 SLURM_STEP_NUM_TASKS=5 "        \
    "SLURM_LOCALID=0 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=2(x2),1 "                            \
    "SLURM_STEP_NODELIST=node[07-08,11]"
#define BATCH  "SLURM_JOB_ID=12 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0"
#define MASTER " MASTER_ADDR=h MASTER_PORT=29500"

struct row {
    const char *env;
    /* The expected result: the URL, or a part of the meeting point, or an error with these
     * texts. */
    const char *url, *meeting, *error, *error2;
    int rank, size, local_rank, local_size;
};

#define GOOD_URL(env, url, ...)                                                                    \
    { env, url, NULL, NULL, NULL, __VA_ARGS__ }
#define GOOD_MEETING(env, meet, ...)                                                               \
    { env, NULL, meet, NULL, NULL, __VA_ARGS__ }
#define BAD(env, error, error2)                                                                    \
    { env, NULL, NULL, error, error2, 0, 0, 0, 0 }

static const struct row rows[] = {
    /* Open MPI: across machines it needs an address */
    GOOD_URL(OMPI MASTER, "tcp://h:29500?rank=2&world_size=4&server=0", 2, 4, 0, 2),
    GOOD_URL(OMPI " RINGCOMM_URL=tcp://n:5", "tcp://n:5?rank=2&world_size=4&server=0", 2, 4, 0, 2),
    GOOD_URL(OMPI " RINGCOMM_URL=env://" MASTER, "tcp://h:29500?rank=2&world_size=4&server=0", 2, 4,
             0, 2),
    GOOD_URL("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "hash:", 0, 1, -1, 0),
    BAD(OMPI, "2 of 4 ranks", "MASTER_ADDR"),
    BAD(OMPI " MASTER_ADDR=h", "MASTER_PORT is not set", "MASTER_ADDR"),
    BAD("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
        "PMIX_SERVER_TMPDIR=/nowhere/at/all",
        "PMIX_SERVER_TMPDIR=/nowhere", "MASTER_ADDR=127.0.0.1"),
    BAD("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE is not set", "OMPI_COMM_WORLD_RANK=2"),
    BAD("OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK is not set", "RINGCOMM_RANK"),
    BAD("OMPI_COMM_WORLD_SIZE=x OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=x", "number"),
    BAD("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=2", "rank 2 (OMPI_COMM_WORLD_RANK)",
        "2 (OMPI_COMM_WORLD_SIZE)"),
    BAD("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=3",
        "OMPI_COMM_WORLD_LOCAL_SIZE=3", "OMPI_COMM_WORLD_SIZE=2"),

    /* PMI-1 */
    GOOD_MEETING(PMI, "pmi:9", 3, 6, 1, 2),
    GOOD_MEETING("PMI_RANK=0 PMI_SIZE=2 PMI_FD=0", "pmi:0", 0, 2, -1, 0),
    GOOD_MEETING(PMI " RINGCOMM_URL=env://", "pmi:9", 3, 6, 1, 2),
    GOOD_URL(PMI MASTER, "tcp://h:29500?rank=3&world_size=6&server=0", 3, 6, 1, 2),
    BAD("PMI_RANK=0 PMI_SIZE=2", "PMI_FD is not", "MASTER_ADDR"),
    BAD("PMI_RANK=0 PMI_SIZE=2 PMI_FD=-1", "PMI_FD=-1", "number"),
    BAD("PMI_RANK=0 PMI_FD=1", "PMI_SIZE is not set", "PMI_RANK=0"),
    BAD("PMI_RANK=-1 PMI_SIZE=2 PMI_FD=1", "PMI_RANK=-1", "number"),

    /* Slurm */
    GOOD_MEETING(SLURM, "tcp://node07:6", 4, 5, 0, 1),
    GOOD_MEETING(SLURM " SLURM_NODEID=1 SLURM_LOCALID=1 SLURM_PROCID=3", "tcp://node07:6", 3, 5, 1,
                 2),
    GOOD_MEETING("SLURM_JOBID=12 SLURM_STEPID=3 SLURM_PROCID=1 SLURM_NTASKS=2 "
                 "SLURM_TASKS_PER_NODE=2 SLURM_NODELIST=gpu7 SLURM_LOCALID=1",
                 "tcp://127.0.0.1:6", 1, 2, 1, 2),
    GOOD_MEETING("SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 "
                 "SLURM_JOB_NODELIST=a[3-4]-b[5,7]c,d9",
                 "tcp://a3-b5c:6", 0, 2, -1, 0),
    GOOD_URL(SLURM MASTER, "tcp://h:29500?rank=4&world_size=5&server=0", 4, 5, 0, 1),
    BAD(BATCH, "SLURM_NTASKS=4", "not started by srun"),
    BAD(BATCH, "SLURM_STEP_ID is not set", "srun -n 4"),
    BAD("SLURM_NTASKS=4 SLURM_STEP_ID=0", "SLURM_NTASKS=4", "SLURM_PROCID is not set"),
    BAD("SLURM_JOB_ID=77", "SLURM_JOB_ID=77", "not started by srun"),
    BAD(BATCH MASTER, "SLURM_NTASKS=4", "not started by srun"),
    BAD(SLURM " SLURM_PROCID=0", "rank 0 is on node 2", "SLURM_NODEID"),
    BAD(SLURM " SLURM_STEP_ID=batch", "SLURM_STEP_ID=batch", "MASTER_ADDR"),
    BAD(SLURM " SLURM_STEP_NODELIST=node[1", "SLURM_STEP_NODELIST=node[1", "first node"),
    BAD(SLURM " SLURM_STEP_NODELIST=a/b", "SLURM_STEP_NODELIST=a/b", "first node"),
    BAD(SLURM " SLURM_STEP_NODELIST=]a", "SLURM_STEP_NODELIST=]a", "first node"),
    BAD(SLURM " SLURM_PROCID=9", "rank 9 (SLURM_PROCID)", "5 (SLURM_STEP_NUM_TASKS)"),
    /* an invalid list is ignored */
    GOOD_MEETING(SLURM " SLURM_STEP_TASKS_PER_NODE=2(x", "tcp://node07:6", 4, 5, 0, 0),
    GOOD_MEETING(SLURM " SLURM_STEP_TASKS_PER_NODE=2;2", "tcp://node07:6", 4, 5, 0, 0),

    /* precedence: our variables, torchrun's, Open MPI's, PMI's, Slurm's */
    GOOD_URL(OMPI " RINGCOMM_RANK=0 RINGCOMM_WORLD_SIZE=3 RINGCOMM_URL=tcp://n:5",
             "tcp://n:5?rank=0&world_size=3&server=1", 0, 3, -1, 0),
    GOOD_URL(OMPI " " PMI " " SLURM " RINGCOMM_RANK=0 RINGCOMM_WORLD_SIZE=3 RINGCOMM_URL=tcp://n:5",
             "tcp://n:5?rank=0&world_size=3&server=1", 0, 3, -1, 0),
    GOOD_URL(TORCH " " SLURM, "tcp://h:29500?rank=1&world_size=4&server=0", 1, 4, 1, 2),
    GOOD_URL(TORCH " " BATCH, "tcp://h:29500?rank=1&world_size=4&server=0", 1, 4, 1, 2),
    GOOD_URL(TORCH " " OMPI " TORCHELASTIC_RUN_ID=x", "tcp://h:29500?rank=1&world_size=4&server=0",
             1, 4, 1, 2), /* mpirun started one torchrun per machine */
    GOOD_URL("RANK=2 WORLD_SIZE=4" MASTER " " OMPI, "tcp://h:29500?rank=2&world_size=4&server=0", 2,
             4, 0, 2), /* the same value twice */
    GOOD_URL(OMPI " " BATCH MASTER, "tcp://h:29500?rank=2&world_size=4&server=0", 2, 4, 0, 2),
    GOOD_MEETING(PMI " " SLURM, "pmi:9", 3, 6, 1, 2),
    GOOD_MEETING("WORLD_SIZE=6 RANK= " PMI, "pmi:9", 3, 6, 1, 2),
    GOOD_MEETING("RINGCOMM_RANK=3 " PMI, "pmi:9", 3, 6, 1, 2),

    /* contradictions */
    BAD(TORCH " " OMPI, "RANK=1", "OMPI_COMM_WORLD_RANK=2"),
    BAD("RANK=2 WORLD_SIZE=8" MASTER " " OMPI, "WORLD_SIZE=8", "OMPI_COMM_WORLD_SIZE=4"),
    BAD("RANK=1 WORLD_SIZE=6" MASTER " " PMI, "RANK=1", "PMI_RANK=3"),
    BAD(OMPI " " PMI MASTER, "OMPI_COMM_WORLD_RANK=2", "PMI_RANK=3"),
    BAD("RINGCOMM_RANK=0 " PMI, "MASTER_ADDR is not set", "RINGCOMM_URL"), /* not PMI's rank 0 */
    BAD("WORLD_SIZE=3" MASTER " " OMPI, "WORLD_SIZE=3", "OMPI_COMM_WORLD_SIZE=4"),
};

static void check_row(const struct row *r) {
    struct rcmi_launch l = {0};
    environment(r->env);
    rcm_status status = rcmi_launch_resolve(NULL, &l);
    if (r->error) {
        if (status != RCM_ERR_CONFIG)
            fail_msg("(%s): %s", r->env, rcm_status_name(status));
        check_error_names(r->error);
        check_error_names(r->error2);
        return;
    }
    if (status != RCM_OK)
        fail_msg("(%s): %s", r->env, rcm_last_error());
    if (r->url)
        assert_string_equal(l.url, r->url);
    else if (r->meeting)
        assert_ptr_equal(strstr(l.meeting, r->meeting), l.meeting);
    assert_true(!l.url == !r->url);
    assert_true(!l.launcher == !l.meeting && !l.launcher == !!r->url);
    assert_int_equal(l.rank, r->rank);
    assert_int_equal(l.world_size, r->size);
    assert_int_equal(l.local_rank, r->local_rank);
    assert_int_equal(l.local_size, r->local_size);
    rcmi_launch_fini(&l);
}

static void environments(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row(&rows[i]);
}

/* With a PMIx server of the launcher itself and a PMIx library, ranks meet there. A server in an
 * inherited environment does not count. */
static void pmix_rows(void **state) {
    static const char slurm[] = SLURM " PMIX_RANK=4 PMIX_NAMESPACE=slurm.pmix.12.";
    static const struct {
        const char *env, *more, *meeting; /* NULL: PMIx is not used */
    } all[] = {
        {OMPI, " PMIX_RANK=2 PMIX_NAMESPACE=job7", "pmix:job7"},
        {OMPI, " PMIX_RANK=2 PMIX_NAMESPACE=job7 RINGCOMM_URL=env://", "pmix:job7"},
        {OMPI, " PMIX_RANK=1 PMIX_NAMESPACE=job7", NULL},
        {OMPI, " PMIX_RANK=x PMIX_NAMESPACE=job7", NULL},
        {OMPI, " PMIX_RANK=2", NULL},
        {OMPI, " PMIX_RANK=2 PMIX_NAMESPACE=slurm.pmix.1.0", NULL},
        {OMPI, " PMIX_RANK=2 PMIX_NAMESPACE=job7" MASTER, NULL},
        {slurm, "0", "pmix:slurm.pmix.12.0"},
        {slurm, "1", NULL},
        {PMI, " PMIX_RANK=3 PMIX_NAMESPACE=job7", NULL},
    };
    const bool usable = rcmi_pmix_load() == RCM_OK;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char text[600];
        struct rcmi_launch l = {0};
        snprintf(text, sizeof text, "%s%s", all[i].env, all[i].more);
        environment(text);
        /* Open MPI's other means may not exist. */
        rcm_status status = rcmi_launch_resolve(NULL, &l);
        const bool met = status == RCM_OK && l.meeting && strncmp(l.meeting, "pmix:", 5) == 0;
        if (met != (usable && all[i].meeting))
            fail_msg("(%s): %s", text, status == RCM_OK ? l.origin : rcm_last_error());
        if (met)
            assert_string_equal(l.meeting, all[i].meeting);
        if (status == RCM_OK)
            rcmi_launch_fini(&l);
    }
}

/* The job id, and the variable that sets it. */
static void job_ids(void **state) {
    static const struct {
        const char *env, *id, *from; /* NULL: none */
    } all[] = {
        {OMPI MASTER, "", NULL},
        {OMPI MASTER " PMIX_NAMESPACE=prte/1@2", "prte/1@2", "PMIX_NAMESPACE"},
        {OMPI MASTER " OMPI_MCA_ess_base_jobid=77", "77", "OMPI_MCA_ess_base_jobid"},
        {PMI MASTER, "", NULL},
        {PMI MASTER " PMI_JOBID=12.3", "12.3", "PMI_JOBID"},
        {SLURM MASTER, "12.0", "SLURM_JOB_ID and SLURM_STEP_ID"},
        {SLURM MASTER " SLURM_RESTART_COUNT=2", "12.0", "SLURM_JOB_ID and SLURM_STEP_ID"},
        /* the script of the step gives its ranks other names, or another order */
        {SLURM MASTER " RANK=4 WORLD_SIZE=5", "12.0", "SLURM_JOB_ID and SLURM_STEP_ID"},
        {SLURM MASTER " RINGCOMM_RANK=0 RINGCOMM_WORLD_SIZE=5", "12.0",
         "SLURM_JOB_ID and SLURM_STEP_ID"},
        /* or it starts several jobs, or does not belong to a step */
        {SLURM MASTER " RANK=1 WORLD_SIZE=2", "", NULL},
        {"RANK=1 WORLD_SIZE=4 " BATCH MASTER, "", NULL},
        /* torchrun's id, or none */
        {TORCH " TORCHELASTIC_RUN_ID=run7", "run7", "TORCHELASTIC_RUN_ID"},
        {TORCH " TORCHELASTIC_RUN_ID=run7 TORCHELASTIC_RESTART_COUNT=3", "run7",
         "TORCHELASTIC_RUN_ID"},
        {TORCH " TORCHELASTIC_RUN_ID=none " SLURM " SLURM_STEP_NUM_TASKS=4", "", NULL},
        {TORCH " TORCHELASTIC_RUN_ID=run7 RINGCOMM_JOB_ID=mine", "mine", "RINGCOMM_JOB_ID"},
        {SLURM MASTER " RINGCOMM_JOB_ID=mine", "mine", "RINGCOMM_JOB_ID"},
        {TORCH " RINGCOMM_JOB_ID=", "", NULL},
        /* an id longer than 64 bits is still distinguished */
        {TORCH " RINGCOMM_JOB_ID=0123456789012345678901234567890123456789012345678901234567890123",
         "0123456789012345678901234567890123456789012345678901234567890123", "RINGCOMM_JOB_ID"},
        {TORCH " RINGCOMM_JOB_ID=01234567890123456789012345678901234567890123456789012345678901234",
         "0123456789012345678901234567890123456789#154eedaf0b4e1097", "RINGCOMM_JOB_ID"},
        {TORCH " RINGCOMM_JOB_ID=a\tb", "a?b#e5bacb19041229c7", "RINGCOMM_JOB_ID"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct rcmi_launch l = {0};
        environment(all[i].env);
        if (rcmi_launch_resolve(NULL, &l) != RCM_OK)
            fail_msg("(%s): %s", all[i].env, rcm_last_error());
        if (strcmp(l.job_id, all[i].id) != 0)
            fail_msg("(%s): the id is %s", all[i].env, l.job_id);
        assert_true(!l.from.job_id == !all[i].from);
        if (all[i].from)
            assert_string_equal(l.from.job_id, all[i].from);
        rcmi_launch_fini(&l);
    }
}

/* ---- Worlds of options next to the environment's --------------------------------------------- */

#define RINGRUN                                                                                    \
    "RINGCOMM_RANK=1 RINGCOMM_WORLD_SIZE=4 RINGCOMM_LOCAL_RANK=1 RINGCOMM_LOCAL_WORLD_SIZE=4 "     \
    "RINGCOMM_URL=tcp://127.0.0.1:7?server=0 RINGCOMM_JOB_ID=ours"

/* The meeting point that the options name. */
enum at { AT_ENV, AT_URL, AT_MASTER, AT_STORE, AT_ID };

static struct rcm_store *apart_store;
static struct rcm_unique_id apart_id;

static void apart_resolve(const char *env, int rank, int size, enum at at, struct rcmi_launch *l) {
    struct rcm_init_options o = RCM_INIT_OPTIONS_INIT;
    environment(env);
    o.rank = rank;
    o.world_size = size;
    o.url = at == AT_URL ? "tcp://n:5" : at == AT_MASTER ? "tcp://h:29500" : NULL;
    o.store = at == AT_STORE ? apart_store : NULL;
    o.unique_id = at == AT_ID ? &apart_id : NULL;
    if (rcmi_launch_resolve(&o, l) != RCM_OK)
        fail_msg("(%s) place %d: %s", env, at, rcm_last_error());
    assert_int_equal(l->rank, rank);
    assert_int_equal(l->world_size, size);
}

/* A world made by options under each launcher uses none of the launcher's local ranks, ids and
 * counts. */
static void apart(void **state) {
    static const char *const launchers[] = {
        TORCH " TORCHELASTIC_RUN_ID=run7 TORCHELASTIC_RESTART_COUNT=2",
        TORCH " LOCAL_WORLD_SIZE=4 LOCAL_RANK=3",
        TORCH " LOCAL_RANK=junk LOCAL_WORLD_SIZE=junk TORCHELASTIC_RESTART_COUNT=junk",
        OMPI MASTER " PMIX_NAMESPACE=prte/1@2 OMPI_COMM_WORLD_LOCAL_SIZE=4",
        PMI MASTER " PMI_JOBID=12.3 MPI_LOCALNRANKS=6",
        SLURM MASTER " SLURM_STEP_TASKS_PER_NODE=4,4,4",
        RINGRUN,
        RINGRUN " " TORCH,
    };
    static const enum at places[] = {AT_URL, AT_STORE, AT_ID};
    (void)state;
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        for (size_t k = 0; k < 3; k++)
            for (int size = 2; size <= 4; size += 2) { /* 4: the size of torchrun's world */
                struct rcmi_launch l = {0};
                apart_resolve(launchers[i], 1, size, places[k], &l);
                if (l.local_rank != -1 || l.local_size != 0 || l.attempt != 0)
                    fail_msg("(%s): local rank %d of %d, attempt %d", launchers[i], l.local_rank,
                             l.local_size, l.attempt);
                if (strncmp(l.job_id, places[k] == AT_ID ? "unique-id-" : "", 10) != 0)
                    fail_msg("(%s): job %s", launchers[i], l.job_id);
                rcmi_launch_fini(&l);
            }
}

/* Values that the user set by hand count there; at the launcher's own meeting point all values that
 * agree count. */
static void not_apart(void **state) {
    static const struct {
        const char *env;
        int rank, size;
        enum at at;
        int local_rank, local_size, attempt;
        const char *id;
    } all[] = {
        {"RINGCOMM_JOB_ID=mine TORCHELASTIC_RESTART_COUNT=3", 1, 2, AT_URL, -1, 0, 3, "mine"},
        {TORCH " RINGCOMM_JOB_ID=mine", 1, 4, AT_URL, -1, 0, 0, "mine"},
        {TORCH " TORCHELASTIC_RUN_ID=r TORCHELASTIC_RESTART_COUNT=2", 1, 4, AT_ENV, 1, 2, 2, "r"},
        {TORCH " TORCHELASTIC_RUN_ID=r TORCHELASTIC_RESTART_COUNT=2", 1, 4, AT_MASTER, 1, 2, 2,
         "r"},
        {TORCH " LOCAL_WORLD_SIZE=4", 1, 2, AT_ENV, -1, 0, 0, ""},
        {TORCH " LOCAL_WORLD_SIZE=4", 0, 4, AT_ENV, -1, 0, 0, ""}, /* ranks in another order */
        {OMPI MASTER, 2, 4, AT_ENV, -1, 0, 0, ""},
        {"LOCAL_RANK=3 LOCAL_WORLD_SIZE=4" MASTER, 1, 2, AT_ENV, -1, 0, 0, ""},
        {RINGRUN, 1, 4, AT_ENV, 1, 4, 0, "ours"},
        {RINGRUN, 1, 2, AT_ENV, -1, 0, 0, "ours"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct rcmi_launch l = {0};
        apart_resolve(all[i].env, all[i].rank, all[i].size, all[i].at, &l);
        if (l.local_rank != all[i].local_rank || l.local_size != all[i].local_size ||
            l.attempt != all[i].attempt || strcmp(l.job_id, all[i].id) != 0)
            fail_msg("(%s) place %d: local rank %d of %d, attempt %d, job %s", all[i].env,
                     all[i].at, l.local_rank, l.local_size, l.attempt, l.job_id);
        rcmi_launch_fini(&l);
    }
}

static int apart_begin(void **state) {
    (void)state;
    return rcm_store_open("hash:", 0, &apart_store) != RCM_OK ||
           rcm_unique_id_get(&apart_id) != RCM_OK;
}

static int apart_end(void **state) {
    (void)state;
    rcm_store_close(apart_store);
    return 0;
}

/* The report for users. */
static void items(void **state) {
    static const struct rcm_launch_item want[] = {
        {"rank", "3", "PMI_RANK"},
        {"world_size", "6", "WORLD_SIZE"},
        {"local_rank", "1", "MPI_LOCALRANKID"},
        {"local_world_size", "", "not set"},
        {"url", "tcp://h:29500", "MASTER_ADDR and MASTER_PORT"},
        {"job_id", "run7", "TORCHELASTIC_RUN_ID"},
    };
    struct rcm_launch_item item;
    (void)state;
    environment("WORLD_SIZE=6 PMI_RANK=3 PMI_SIZE=6 PMI_FD=9 MPI_LOCALRANKID=1 "
                "TORCHELASTIC_RUN_ID=run7" MASTER);
    for (size_t i = 0; i < 6; i++) {
        check_ok(rcm_launch_at(i, &item));
        assert_string_equal(item.name, want[i].name);
        assert_string_equal(item.value, want[i].value);
        assert_string_equal(item.origin, want[i].origin);
    }
    check_status(RCM_ERR_NOT_FOUND, rcm_launch_at(6, &item));
    check_status(RCM_ERR_INVALID, rcm_launch_at(0, NULL));
    environment("RANK=0");
    check_status(RCM_ERR_CONFIG, rcm_launch_at(0, &item));
    check_error_names("WORLD_SIZE is not set");
}

/* Options and a given store need no launcher variable. */
static void options_win(void **state) {
    struct rcm_init_options o = RCM_INIT_OPTIONS_INIT;
    struct rcmi_launch l;
    (void)state;
    environment(OMPI);
    o.rank = 1;
    o.world_size = 2;
    o.url = "tcp://n:5";
    check_ok(rcmi_launch_resolve(&o, &l));
    assert_string_equal(l.url, "tcp://n:5?rank=1&world_size=2&server=0");
    assert_int_equal(l.local_rank, -1); /* Open MPI's is of another rank */
    assert_string_equal(l.origin, "rank from options.rank, world size from options.world_size, "
                                  "store from options.url");
    rcmi_launch_fini(&l);

    o = (struct rcm_init_options)RCM_INIT_OPTIONS_INIT;
    check_ok(rcm_store_open("hash:", 0, &o.store));
    check_ok(rcmi_launch_resolve(&o, &l));
    assert_null(l.url);
    assert_null(l.launcher);
    assert_int_equal(l.rank, 2);
    assert_int_equal(l.local_rank, 0);
    rcmi_launch_fini(&l);
    rcm_store_close(o.store);
}

/* A directory that other users can write to is rejected. */
static void session_directory(void **state) {
    char *dir = fresh_path(), env[600];
    struct rcmi_launch l;
    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(env, sizeof env,
             "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
             "PMIX_NAMESPACE=prte/1@2.x PMIX_SERVER_TMPDIR=%s",
             dir);
    environment(env);
    check_ok(rcmi_launch_resolve(NULL, &l));
    assert_ptr_equal(strstr(l.meeting, dir), l.meeting);
    assert_string_equal(l.meeting + strlen(dir), "/ringcomm-prte_1@2_x");
    assert_string_equal(l.origin,
                        "rank from OMPI_COMM_WORLD_RANK, world size from OMPI_COMM_WORLD_SIZE, "
                        "store from Open MPI's session directory");
    rcmi_launch_fini(&l);
    assert_int_equal(chmod(dir, 0777), 0);
    check_status(RCM_ERR_CONFIG, rcmi_launch_resolve(NULL, &l));
    check_error_names("others can write to it");
    rmdir(dir);
    remove_path(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environments), cmocka_unit_test(pmix_rows),
        cmocka_unit_test(job_ids),      cmocka_unit_test(items),
        cmocka_unit_test(options_win),  cmocka_unit_test(session_directory),
        cmocka_unit_test(apart),        cmocka_unit_test(not_apart),
    };
    return cmocka_run_group_tests(tests, apart_begin, apart_end);
}
