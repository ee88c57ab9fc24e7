/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slurm's srun. Each task has the node list of its step; the first node runs task 0. A port is
 * computed from the job and step numbers. If another program has that port, the next of PORT_TRIES
 * ports is used.
 *
 * An allocation sets Slurm's variables in all its processes: a batch script has SLURM_NTASKS=4 and
 * is one process, and an mpirun or torchrun under srun passes on its own SLURM_PROCID. So they
 * count only in a process of a step, and the variables of all other launchers are stronger.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "launch_meet.h"
#include "url.h"

/* Above the kernel's ephemeral port range. */
#define PORT_FIRST 61440
#define PORT_COUNT 4096
#define PORT_TRIES 4

/* ---- The environment ----------------------------------------------------------------------- */

static const char *ntasks_name(void) {
    return rcmi_env_either("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
}

static const char *job_id_name(void) {
    return rcmi_env_either("SLURM_JOB_ID", "SLURM_JOBID");
}

static const char *step_id_name(void) {
    return rcmi_env_either("SLURM_STEP_ID", "SLURM_STEPID");
}

static bool slurm_detect(void) {
    return rcmi_env("SLURM_PROCID") || rcmi_env(ntasks_name()) || rcmi_env(job_id_name());
}

static rcm_status not_started_by_srun(void) {
    const char *size = rcmi_env(ntasks_name());
    const char *name = size ? ntasks_name() : job_id_name();
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "%s=%.20s is set, but this process was not started by srun (%s is not set): "
                     "start it with  srun -n %.20s PROGRAM, or with mpirun, torchrun or "
                     "ringcomm-run",
                     name, rcmi_env(name) ? rcmi_env(name) : "",
                     rcmi_env(step_id_name()) ? "SLURM_PROCID" : "SLURM_STEP_ID",
                     size ? size : "4");
}

/* The number of tasks of the node-th node; 0 if unknown. "2(x2),1": two nodes with two tasks, then
 * one with one. */
static int tasks_of_node(const char *list, int node) {
    while (list && *list) {
        char *end;
        long tasks = strtol(list, &end, 10), times = 1;
        if (end == list || tasks < 1 || tasks > RCMI_MAX_RANKS)
            return 0;
        if (strncmp(end, "(x", 2) == 0) {
            const char *number = end + 2;
            times = strtol(number, &end, 10);
            if (end == number || *end++ != ')' || times < 1)
                return 0;
        }
        if (node < times)
            return (int)tasks;
        node -= (int)times;
        if (*end && *end != ',')
            return 0;
        list = *end ? end + 1 : end;
    }
    return 0;
}

static rcm_status slurm_resolve(struct rcmi_launcher_info *ret_info) {
    int node = 0;
    struct rcmi_launcher_info info = {.rank_name = "SLURM_PROCID",
                                      .size_name = ntasks_name(),
                                      .local_rank_name = "SLURM_LOCALID",
                                      .local_rank = -1};
    if (!rcmi_env("SLURM_PROCID") || !rcmi_env(step_id_name()))
        return not_started_by_srun();
    info.local_size_name = NULL;
    rcm_status status = rcmi_launcher_info_read("Slurm", &info);
    if (status == RCM_OK)
        status = rcmi_env_optional("SLURM_NODEID", 0, RCMI_MAX_RANKS, &node);
    if (status != RCM_OK)
        return status;
    info.local_size_name = rcmi_env_either("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
    info.local_size = tasks_of_node(rcmi_env(info.local_size_name), node);
    if (rcmi_env(job_id_name())) {
        info.job_name = "SLURM_JOB_ID and SLURM_STEP_ID";
        snprintf(info.job, sizeof info.job, "%.40s.%.40s", rcmi_env(job_id_name()),
                 rcmi_env(step_id_name()));
    }
    *ret_info = info;
    return RCM_OK;
}

/* srun --mpi=pmix names the namespace after its job and step; an outer step has other numbers. */
static bool slurm_brings_pmix(void) {
    char name[100];
    const char *job = rcmi_env(job_id_name()), *step = rcmi_env(step_id_name());
    snprintf(name, sizeof name, "slurm.pmix.%.40s.%.40s", job ? job : "", step ? step : "");
    return rcmi_env("PMIX_NAMESPACE") && strcmp(rcmi_env("PMIX_NAMESPACE"), name) == 0;
}

/* ---- The address --------------------------------------------------------------------------- */

/* The first of "node[01-03,07],gpu1": "node01". false if it does not fit or is malformed. */
static bool first_host(const char *list, char *host, size_t cap) {
    size_t n = 0;
    bool in_range = false, copying = true;
    for (; *list && (in_range || *list != ','); list++) {
        if (*list == '[' || *list == ']') {
            if (in_range == (*list == '['))
                return false;
            in_range = *list == '[';
            copying = true;
        } else if (in_range && (*list == '-' || *list == ',')) {
            copying = false; /* what follows are later hosts */
        } else if (copying) {
            if (n + 1 >= cap || strchr("/?&: ", *list))
                return false;
            host[n++] = *list;
        }
    }
    host[n] = '\0';
    return n > 0 && !in_range;
}

/* Spreads jobs and steps over the ports. */
static int meeting_port(uint64_t job, uint64_t step, unsigned round, unsigned attempt) {
    uint64_t mixed = (job * 64 + step) * 0x9e3779b97f4a7c15u;
    return PORT_FIRST + (int)((mixed >> 40) + (uint64_t)round * PORT_TRIES + attempt) % PORT_COUNT;
}

static rcm_status slurm_ids(uint64_t *ret_job, uint64_t *ret_step) {
    int64_t job = 0, step = 0;
    const char *name = job_id_name();
    bool good = rcmi_env(name) && rcmi_parse_number(getenv(name), 0, INT64_MAX, &job) == RCM_OK;
    if (good) {
        name = step_id_name();
        good = rcmi_env(name) && rcmi_parse_number(getenv(name), 0, INT64_MAX, &step) == RCM_OK;
    }
    if (!good)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "%s=%.100s is not a number; set MASTER_ADDR and MASTER_PORT", name,
                         getenv(name) ? getenv(name) : "");
    *ret_job = (uint64_t)job;
    *ret_step = (uint64_t)step;
    return RCM_OK;
}

/* Task 0 runs on the first node unless the user distributed the tasks. Only rank 0 can check. */
static rcm_status node_check(const struct rcmi_launch *launch) {
    int node = 0;
    rcm_status status = rcmi_env_optional("SLURM_NODEID", 0, RCMI_MAX_RANKS, &node);
    if (status == RCM_OK && launch->rank == 0 && node != 0)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "rank 0 is on node %d of the step (SLURM_NODEID); the other ranks look "
                         "for it on the first node; set MASTER_ADDR and MASTER_PORT",
                         node);
    return status;
}

static rcm_status slurm_meeting(const struct rcmi_launch *launch, char **ret_meeting) {
    char host[256] = "127.0.0.1";
    uint64_t job, step;
    rcm_status status = slurm_ids(&job, &step);
    if (status == RCM_OK)
        status = node_check(launch);
    if (status != RCM_OK)
        return status;
    if (!rcmi_launch_one_host(launch)) {
        const char *name = rcmi_env_either("SLURM_STEP_NODELIST", "SLURM_NODELIST");
        name = rcmi_env(name) ? name : "SLURM_JOB_NODELIST";
        const char *list = rcmi_env(name);
        if (!list || !first_host(list, host, sizeof host))
            return rcmi_fail(RCM_ERR_CONFIG, 0,
                             "%s=%.100s does not contain the first node; set MASTER_ADDR and "
                             "MASTER_PORT",
                             name, list ? list : "");
    }
    *ret_meeting = rcmi_url_tcp(host, meeting_port(job, step, 0, 0));
    return *ret_meeting ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the launch settings");
}

/* ---- Meeting ------------------------------------------------------------------------------- */

/* Serves at the first free address. */
static rcm_status slurm_serve(const struct rcmi_meet_addresses *addresses, const char *token,
                              const char *secret, rcmi_deadline deadline, rcm_store **ret_store) {
    rcm_status status = RCM_ERR_INTERNAL;
    for (int i = 0; i < addresses->n; i++) {
        status = rcmi_meet_serve(addresses->url[i], token, secret, deadline, ret_store);
        if (status == RCM_OK || rcmi_last_error()->sys_errno != EADDRINUSE)
            return status;
    }
    return status;
}

static rcm_status slurm_meet(struct rcmi_launch *launch, unsigned round, const char *secret,
                             rcmi_deadline deadline, rcm_store **ret_store) {
    struct rcmi_meet_addresses addresses = {0};
    struct rcmi_url url;
    char *texts[PORT_TRIES] = {0}, token[80];
    uint64_t job, step;
    rcm_status status = slurm_ids(&job, &step);
    if (status == RCM_OK)
        status = rcmi_url_parse(launch->meeting, &url);
    if (status != RCM_OK)
        return status;
    for (unsigned i = 0; i < PORT_TRIES && status == RCM_OK; i++) {
        texts[i] = rcmi_url_tcp(url.host, meeting_port(job, step, round, i));
        if (!texts[i])
            status = rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for an address");
        addresses.url[addresses.n++] = texts[i];
    }
    rcmi_url_fini(&url);
    snprintf(token, sizeof token, "slurm-%" PRIu64 "-%" PRIu64 "-%u", job, step, round);
    if (status == RCM_OK && launch->rank == 0)
        status = slurm_serve(&addresses, token, secret, deadline, ret_store);
    else if (status == RCM_OK)
        status = rcmi_meet_join(&addresses, token, secret, deadline, ret_store);
    for (unsigned i = 0; i < PORT_TRIES; i++)
        free(texts[i]);
    return status;
}

const struct rcmi_launcher rcmi_launcher_slurm = {
    .name = "Slurm's node list and job number",
    .inherited = true,
    .detect = slurm_detect,
    .resolve = slurm_resolve,
    .brings_pmix = slurm_brings_pmix,
    .meeting = slurm_meeting,
    .meet = slurm_meet,
};
