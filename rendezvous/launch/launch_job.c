/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job's id. join.c uses it to distinguish two jobs that use one store.
 *
 * All ranks of a job must get the same id. So a launcher's id counts if its job has as many ranks
 * as ours. Its rank number may differ: a program may renumber its ranks, but a launcher that only
 * started the jobs' scripts has another size. Under torchrun only torchrun's id counts. The value
 * "none" counts as no id: every torchrun without --rdzv-id has it. A world that is independent of
 * the environment (options gave rank, size and rendezvous) may have ranks of several launches. It
 * has no launcher's id, and none that came with RINGCOMM_RANK.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "error.h"
#include "launcher.h"

/* Writes the id as one word that fits the store's records. A longer or unprintable text is cut and
 * its hash appended. */
static void id_write(const char *text, char id[RCMI_JOB_ID_TEXT]) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    bool plain = strlen(text) < RCMI_JOB_ID_TEXT;
    for (const char *c = text; *c; c++) {
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
        plain = plain && *c > ' ' && *c <= '~';
    }
    if (plain) {
        snprintf(id, RCMI_JOB_ID_TEXT, "%s", text);
        return;
    }
    snprintf(id, RCMI_JOB_ID_TEXT, "%.40s#%016" PRIx64, text, hash);
    for (char *c = id; *c; c++)
        *c = *c <= ' ' || *c > '~' ? '?' : *c;
}

static void job_set(struct rcmi_launch *launch, const char *name, const char *text) {
    launch->from.job_id = name;
    id_write(text, launch->job_id);
}

static void job_by_launcher(const struct rcmi_launcher *launcher,
                            const struct rcmi_launcher_info *resolved, struct rcmi_launch *launch) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcmi_launcher_info info = {.size = 0};
    if (resolved)
        info = *resolved;
    else if (launcher->queries_server || launcher->resolve(&info) != RCM_OK)
        info.size = 0;
    if (info.size == launch->world_size && info.job_name)
        job_set(launch, info.job_name, info.job);
    *rcmi_last_error() = kept;
}

void rcmi_launch_job(const struct rcmi_launcher *resolved, const struct rcmi_launcher_info *info,
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
        job_by_launcher(launcher, launcher == resolved ? info : NULL, launch);
}
