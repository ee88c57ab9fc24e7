/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between launch.c, which resolves this process's rank, and the launchers: Open MPI,
 * MPICH's Hydra, Slurm, PMIx. torchrun is not among them: launch.c reads its variables directly,
 * because people also set them by hand. A new launcher is one file that ends in its function table,
 * and one entry in launcher.c; inner launchers come before those that start them.
 *
 * A launcher provides ranks in environment variables, but no address of a store. So each has a
 * rendezvous: rank 0 serves a store and the other ranks find it.
 */
#ifndef RCMI_LAUNCHER_H
#define RCMI_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include "clock.h"
#include "rendezvous.h"

#define RCMI_MAX_RANKS 1000000

/* Rank, sizes and job id from a launcher, and the names of the variables they came from. */
struct rcmi_launcher_info {
    const char *rank_name, *size_name, *local_rank_name, *local_size_name;
    int rank, size;
    int local_rank; /* -1: not set */
    int local_size; /* 0: not set */
    /* The job's id, unique among the launcher's jobs, and its variable; job_name NULL: no id. */
    const char *job_name;
    char job[100];
};

struct rcmi_launcher {
    const char *name; /* for messages: "Open MPI" */

    /* Launchers started inside this one pass on its variables (srun starts torchrun, an
     * allocation's shell starts mpirun). So a different rank in them is no contradiction. */
    bool inherited;

    /* Whether any of its variables is set. */
    bool (*detect)(void);

    /* `resolve` queries a server, so it is called only if no other source has the rank. */
    bool queries_server;

    /* Rank and size, both; RCM_ERR_CONFIG names what is missing or wrong. Only if detected. */
    rcm_status (*resolve)(struct rcmi_launcher_info *ret_info);

    /* Whether the PMIx server named by PMIX_NAMESPACE and PMIX_RANK belongs to this launcher, and
     * not to an outer one. All ranks must get the same result. NULL: it never has a server. */
    bool (*brings_pmix)(void);

    /* The rendezvous address, as text (malloc'd) for `meet` and for messages. Only reads the
     * environment. RCM_ERR_CONFIG with a remedy if there is no such address. */
    rcm_status (*meeting)(const struct rcmi_launch *launch, char **ret_meeting);

    /* Opens the store of the round-th meeting of this process. */
    rcm_status (*meet)(struct rcmi_launch *launch, unsigned round, const char *secret,
                       rcmi_deadline deadline, rcm_store **ret_store);
};

extern const struct rcmi_launcher rcmi_launcher_openmpi, rcmi_launcher_hydra, rcmi_launcher_slurm,
    rcmi_launcher_pmix;

/* The i-th detected launcher, strongest first; NULL if there are fewer. */
const struct rcmi_launcher *rcmi_launcher_at(size_t i);

/* The name of the PMIx job in which this process has that rank; NULL if the environment has none.
 */
const char *rcmi_pmix_namespace(int rank);

/* Fills in the job's id. info: the result of `resolved`; both NULL: no launcher was resolved.
 * apart: options describe a world that is independent of the environment, so ids that launchers
 * set are ignored. */
void rcmi_launch_job(const struct rcmi_launcher *resolved, const struct rcmi_launcher_info *info,
                     bool apart, struct rcmi_launch *launch);

/* rcmi_launch_open, without the explanation of an address that is in use. */
rcm_status rcmi_launch_meet(struct rcmi_launch *launch, const char *secret, int64_t timeout_ms,
                            rcm_store **ret_store);

/* Opens the store that rank 0 serves at url. Skips a store that this process has used there
 * before. */
rcm_status rcmi_served_open(const struct rcmi_launch *launch, const char *secret,
                            int64_t timeout_ms, rcm_store **ret_store);

/* ---- Reading the environment --------------------------------------------------------------- */

/* The value of a variable; NULL if it is not set or empty. */
const char *rcmi_env(const char *name);
/* The first of two names that is set; the first if neither is. */
const char *rcmi_env_either(const char *name, const char *other);
/* A variable that is set, as a number; RCM_ERR_CONFIG names variable, value and range. */
rcm_status rcmi_env_number(const char *name, int min, int max, int *ret_value);
/* The same for a variable that may be absent; then *ret_value is unchanged. */
rcm_status rcmi_env_optional(const char *name, int min, int max, int *ret_value);

/* Reads the variables named in info: rank and size (required), local rank and size (optional). */
rcm_status rcmi_launcher_info_read(const char *launcher, struct rcmi_launcher_info *info);

/* Takes the job id from the variable, if it is set. */
void rcmi_launcher_info_job(const char *name, struct rcmi_launcher_info *info);

/* Whether all ranks are on one machine, according to the launcher. */
static inline bool rcmi_launch_one_host(const struct rcmi_launch *launch) {
    return launch->local_size == launch->world_size;
}

#endif
