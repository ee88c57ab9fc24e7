/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMIx (pmix_client.h) as a place to meet: rank 0 publishes its store's address and all ranks pass
 * a fence. Several launchers bring a PMIx server, and say so in their row of launcher.h; they are
 * then met by this means rather than by their own, which knows less: Open MPI's does not reach
 * other machines, Slurm's guesses a port.
 *
 * As a launcher of its own it is asked last, for those that tell nothing but PMIx's own names
 * (PRRTE's prterun): there the size of the job is not in the environment and must be asked for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "launch_meet.h"
#include "pmix_client.h"

#define ASK_MS 20000

const char *rcmi_pmix_namespace(int rank) {
    int told = -1;
    const char *name = rcmi_env("PMIX_NAMESPACE");
    if (!name || !rcmi_env("PMIX_RANK") ||
        rcmi_env_number("PMIX_RANK", 0, RCMI_MAX_RANKS - 1, &told) != RCM_OK)
        return NULL;
    return told == rank ? name : NULL;
}

static bool pmix_detect(void) {
    return rcmi_env("PMIX_RANK") && rcmi_env("PMIX_NAMESPACE");
}

static rcm_status pmix_resolve(struct rcmi_launcher_says *ret_says) {
    struct rcmi_pmix_job job;
    int rank;
    rcm_status status = rcmi_env_number("PMIX_RANK", 0, RCMI_MAX_RANKS - 1, &rank);
    if (status != RCM_OK)
        return status;
    if (rcmi_pmix_ask(rcmi_deadline_in(ASK_MS), &job) != RCM_OK) {
        char text[sizeof rcmi_last_error()->text];
        memcpy(text, rcmi_last_error()->text, sizeof text);
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "PMIX_RANK=%d is set but no number of ranks is, and PMIx does not tell "
                         "it: %.250s; set RINGCOMM_RANK and RINGCOMM_WORLD_SIZE",
                         rank, text);
    }
    *ret_says = (struct rcmi_launcher_says){.rank_name = "PMIX_RANK",
                                            .size_name = "PMIx's job size",
                                            .local_rank_name = "PMIx's local rank",
                                            .local_size_name = "PMIx's local size",
                                            .rank = rank,
                                            .size = job.size,
                                            .local_rank = job.local_rank,
                                            .local_size = job.local_size};
    rcmi_says_job("PMIX_NAMESPACE", ret_says);
    return RCM_OK;
}

static bool pmix_is_own(void) {
    return true;
}

static rcm_status pmix_meeting(const struct rcmi_launch *launch, char **ret_meeting) {
    const char *name = rcmi_pmix_namespace(launch->rank);
    return asprintf(ret_meeting, "pmix:%s", name ? name : "") < 0
               ? rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the launch settings")
               : RCM_OK;
}

static rcm_status pmix_pin(void *arg, const char *mine, rcmi_deadline deadline, char *text) {
    return rcmi_pmix_pin(arg, mine, deadline, text);
}

static rcm_status pmix_meet(struct rcmi_launch *launch, unsigned round, const char *secret,
                            rcmi_deadline deadline, rcm_store **ret_store) {
    char key[RCMI_PMIX_KEY];
    snprintf(key, sizeof key, "ringcomm-store-%u", round);
    const struct rcmi_board board = {.pin = pmix_pin, .arg = key};
    return rcmi_meet_by_board(launch, &board, secret, deadline, ret_store);
}

const struct rcmi_launcher rcmi_launcher_pmix = {
    .name = "PMIx",
    .inherited = true,
    .speaks = true,
    .detect = pmix_detect,
    .resolve = pmix_resolve,
    .brings_pmix = pmix_is_own,
    .meeting = pmix_meeting,
    .meet = pmix_meet,
};
