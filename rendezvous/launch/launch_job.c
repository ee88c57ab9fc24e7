/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job's id, by which join.c tells two jobs apart that meet at one place.
 *
 * All ranks of a job must find the same, so a launcher's counts where its job has as many ranks as
 * ours, whichever number it gave to this one: a program may number its ranks anew, but a launcher
 * that only started the scripts of jobs has another size. Where torchrun runs it is torchrun's or
 * none: "none" is what torchrun says that was given no --rdzv-id, and two of them do. A world
 * beside the environment's (options gave rank, size and place) may have ranks of several launches:
 * no launch's id is its own, neither one that came with RINGCOMM_RANK.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "error.h"
#include "launcher.h"

/* A word that fits the store's records: one that does not is cut, and its hash put behind it. */
static void id_write(const char *told, char id[RCMI_JOB_ID_TEXT]) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    bool plain = strlen(told) < RCMI_JOB_ID_TEXT;
    for (const char *c = told; *c; c++) {
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
        plain = plain && *c > ' ' && *c <= '~';
    }
    if (plain) {
        snprintf(id, RCMI_JOB_ID_TEXT, "%s", told);
        return;
    }
    snprintf(id, RCMI_JOB_ID_TEXT, "%.40s#%016" PRIx64, told, hash);
    for (char *c = id; *c; c++)
        *c = *c <= ' ' || *c > '~' ? '?' : *c;
}

static void job_set(struct rcmi_launch *launch, const char *name, const char *told) {
    launch->from.job_id = name;
    id_write(told, launch->job_id);
}

static void job_by_launcher(const struct rcmi_launcher *launcher,
                            const struct rcmi_launcher_says *asked, struct rcmi_launch *launch) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcmi_launcher_says says = {.size = 0};
    if (asked)
        says = *asked;
    else if (launcher->speaks || launcher->resolve(&says) != RCM_OK)
        says.size = 0;
    if (says.size == launch->world_size && says.job_name)
        job_set(launch, says.job_name, says.job);
    *rcmi_last_error() = kept;
}

void rcmi_launch_job(const struct rcmi_launcher *asked, const struct rcmi_launcher_says *says,
                     bool apart, struct rcmi_launch *launch) {
    const char *own = rcmi_env("RINGCOMM_JOB_ID"), *run = rcmi_env("TORCHELASTIC_RUN_ID");
    const struct rcmi_launcher *launcher;
    if (apart && rcmi_env("RINGCOMM_RANK"))
        own = NULL;
    if (own)
        job_set(launch, "RINGCOMM_JOB_ID", own);
    if (own || apart)
        return;
    if (run && strcmp(run, "none") != 0)
        job_set(launch, "TORCHELASTIC_RUN_ID", run);
    for (size_t i = 0; !run && !launch->from.job_id && (launcher = rcmi_launcher_at(i)); i++)
        job_by_launcher(launcher, launcher == asked ? says : NULL, launch);
}
