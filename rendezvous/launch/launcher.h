/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between launch.c, which decides who this process is, and the launchers that it
 * knows beside torchrun, whose names are everybody's: Open MPI, MPICH's Hydra, Slurm, PMIx. A new
 * one is one file that ends in its table, and one row in launcher.c, inner launchers before those
 * that start them.
 *
 * A launcher tells ranks in its environment. None tells where a store is, so each has a way for
 * rank 0 to serve one and the others to find it.
 */
#ifndef RCMI_LAUNCHER_H
#define RCMI_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include "clock.h"
#include "rendezvous.h"

#define RCMI_MAX_RANKS 1000000

/* What a launcher says, and in which variables. */
struct rcmi_launcher_says {
    const char *rank_name, *size_name, *local_rank_name, *local_size_name;
    int rank, size;
    int local_rank; /* -1: not told */
    int local_size; /* 0: not told */
    /* What tells this job from others of the launcher, and in which variable; NULL: nothing
     * does. */
    const char *job_name;
    char job[100];
};

struct rcmi_launcher {
    const char *name; /* for sentences: "Open MPI" */

    /* Its variables are handed on by launchers that are started inside it (srun starts torchrun,
     * an allocation's shell starts mpirun), so that another rank there is no contradiction. */
    bool inherited;

    /* Whether any of its variables is set. */
    bool (*detect)(void);

    /* `resolve` speaks to a server, so it is for ranks of which nothing else tells. */
    bool speaks;

    /* Rank and size, both; RCM_ERR_CONFIG names what is missing or wrong. Only if detected. */
    rcm_status (*resolve)(struct rcmi_launcher_says *ret_says);

    /* Whether the PMIx server that PMIX_NAMESPACE and PMIX_RANK tell of is this launcher's, and not
     * one around it: all its ranks must decide alike. NULL: it never brings one. */
    bool (*brings_pmix)(void);

    /* Where ranks will meet, as text (malloc'd) for `meet` and for people; reads the environment
     * and touches nothing else. RCM_ERR_CONFIG says what would help if there is no such place. */
    rcm_status (*meeting)(const struct rcmi_launch *launch, char **ret_meeting);

    /* Opens the store of the round-th meeting of this process. */
    rcm_status (*meet)(struct rcmi_launch *launch, unsigned round, const char *secret,
                       rcmi_deadline deadline, rcm_store **ret_store);
};

extern const struct rcmi_launcher rcmi_launcher_openmpi, rcmi_launcher_hydra, rcmi_launcher_slurm,
    rcmi_launcher_pmix;

/* The i-th that is detected, strongest first; NULL if there are fewer. */
const struct rcmi_launcher *rcmi_launcher_at(size_t i);

/* The name of the PMIx job in which this process has that rank; NULL if the environment tells of
 * none. */
const char *rcmi_pmix_namespace(int rank);

/* Fills in the job's id. asked: the launcher that said says; NULL: none. apart: options describe a
 * world beside the environment's, so that only an id that no launcher set is this world's. */
void rcmi_launch_job(const struct rcmi_launcher *asked, const struct rcmi_launcher_says *says,
                     bool apart, struct rcmi_launch *launch);

/* rcmi_launch_open, with no explanation of an address that is in use. */
rcm_status rcmi_launch_meet(struct rcmi_launch *launch, const char *secret, int64_t timeout_ms,
                            rcm_store **ret_store);

/* Opens the store of a launch whose rank 0 serves it at url; never one that this process has met
 * there before. */
rcm_status rcmi_served_open(const struct rcmi_launch *launch, const char *secret,
                            int64_t timeout_ms, rcm_store **ret_store);

/* ---- Reading the environment --------------------------------------------------------------- */

/* The value of a variable; NULL if it is not set or empty. */
const char *rcmi_env(const char *name);
/* The first of two names that is set; the first if neither is. */
const char *rcmi_env_either(const char *name, const char *other);
/* A variable that is set, as a number; RCM_ERR_CONFIG names variable, value and range. */
rcm_status rcmi_env_number(const char *name, int min, int max, int *ret_value);
/* The same for one that may be absent: *ret_value stays as it is then. */
rcm_status rcmi_env_optional(const char *name, int min, int max, int *ret_value);

/* Rank and size, which must be set, local rank and size, which need not, by the names in `says`. */
rcm_status rcmi_says_read(const char *launcher, struct rcmi_launcher_says *says);

/* The launcher's job is what the variable says, if it is set. */
void rcmi_says_job(const char *name, struct rcmi_launcher_says *says);

/* Whether all ranks are on one machine, by what was told. */
static inline bool rcmi_launch_one_host(const struct rcmi_launch *launch) {
    return launch->local_size == launch->world_size;
}

#endif
