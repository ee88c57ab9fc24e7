/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous through PMIx (pmix_client.h): rank 0 publishes its store's address and all ranks pass
 * a fence. Several launchers have a PMIx server (brings_pmix in launcher.h). Their ranks use PMIx
 * instead of the launcher's own rendezvous, which is weaker: Open MPI's covers one machine only,
 * and Slurm's guesses a port.
 *
 * PMIx is also the last launcher in the table, for launchers that set only PMIx's variables
 * (PRRTE's prterun). These do not set the size of the job; it comes from the PMIx server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "launch_meet.h"
#include "pmix_client.h"

#define QUERY_MS 20000

const char *rcmi_pmix_namespace(int rank) {
    int value = -1;
    const char *name = rcmi_env("PMIX_NAMESPACE");
    if (!name || !rcmi_env("PMIX_RANK") ||
        rcmi_env_number("PMIX_RANK", 0, RCMI_MAX_RANKS - 1, &value) != RCM_OK)
        return NULL;
    return value == rank ? name : NULL;
}

static bool pmix_detect(void) {
    return rcmi_env("PMIX_RANK") && rcmi_env("PMIX_NAMESPACE");
}

static rcm_status pmix_resolve(struct rcmi_launcher_info *ret_info) {
    struct rcmi_pmix_job job;
    int rank;
    rcm_status status = rcmi_env_number("PMIX_RANK", 0, RCMI_MAX_RANKS - 1, &rank);
    if (status != RCM_OK)
        return status;
    if (rcmi_pmix_job_get(rcmi_deadline_in(QUERY_MS), &job) != RCM_OK) {
        char text[sizeof rcmi_last_error()->text];
        memcpy(text, rcmi_last_error()->text, sizeof text);
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "PMIX_RANK=%d is set, but the number of ranks cannot be read from PMIx: "
                         "%.250s; set RINGCOMM_RANK and RINGCOMM_WORLD_SIZE",
                         rank, text);
    }
    *ret_info = (struct rcmi_launcher_info){.rank_name = "PMIX_RANK",
                                            .size_name = "PMIx's job size",
                                            .local_rank_name = "PMIx's local rank",
                                            .local_size_name = "PMIx's local size",
                                            .rank = rank,
                                            .size = job.size,
                                            .local_rank = job.local_rank,
                                            .local_size = job.local_size};
    rcmi_launcher_info_job("PMIX_NAMESPACE", ret_info);
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
    .queries_server = true,
    .detect = pmix_detect,
    .resolve = pmix_resolve,
    .brings_pmix = pmix_is_own,
    .meeting = pmix_meeting,
    .meet = pmix_meet,
};
