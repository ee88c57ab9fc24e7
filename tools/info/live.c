/* SPDX-License-Identifier: BSD-3-Clause */
/* ringcomm-info --live; see live.h. */
#include "live.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../common.h"
#include "hang.h"
#include "../report.h"
#include "ringcomm.h"
#include "transport.h"

#define LONG_MS 1000 /* shorter waits are normal work */

static const struct report_column live_columns[] = {
    {"job", -16},     {"communicator", -18}, {"rank", 5},      {"size", 5},        {"pid", 8},
    {"program", -15}, {"state", -8},         {"sequence", 8},  {"operation", -56}, {"step", 5},
    {"steps", 5},     {"bytes", 10},         {"waits_for", 9}, {"seconds", 8},     {"sent", 12},
    {"received", 12}, {"transports", 0},
};
enum { LIVE_COLUMNS = sizeof(live_columns) / sizeof(live_columns[0]) };

/* Ranks [first, end) are of one communicator. Communicators made from the world have a larger
 * epoch, so the world is first. */
struct job {
    const struct live_rank *first, *end;
};

static bool is_same_job(const struct live_rank *a, const struct live_rank *b) {
    return a->owner.job == b->owner.job && a->label.epoch == b->label.epoch &&
           a->label.size == b->label.size;
}

static struct job job_at(const struct live_rank *first, const struct live_rank *end) {
    struct job job = {.first = first, .end = first};
    while (job.end < end && is_same_job(job.end, first))
        job.end++;
    return job;
}

static bool job_has(const struct job *job, int pid) {
    for (const struct live_rank *rank = job->first; rank < job->end; rank++)
        if (rank->pid == pid)
            return true;
    return false;
}

static bool job_is_world(const struct job *job) {
    return job->first->label.epoch < RCMI_EPOCH_GROUP;
}

/* ---- The conclusion -------------------------------------------------------------------------- */

static enum rcmi_hang_state rank_state(const struct live_rank *rank) {
    return rank->stopped                            ? RCMI_ROW_STOPPED
           : rcmi_activity_is_busy(&rank->activity) ? RCMI_ROW_WAITS
                                                    : RCMI_ROW_IDLE;
}

static struct rcmi_hang_row row_of(const struct live_rank *rank) {
    return (struct rcmi_hang_row){.state = rank_state(rank),
                                  .known = true,
                                  .pid = rank->pid,
                                  .host = "",
                                  .activity = rank->activity};
}

/* Whether a running rank waits for at least LONG_MS. */
static bool job_hangs(const struct job *job) {
    for (const struct live_rank *rank = job->first; rank < job->end; rank++)
        if (!rank->stopped && rcmi_activity_is_busy(&rank->activity) &&
            rank->activity.waited_ms >= LONG_MS)
            return true;
    return false;
}

static void job_conclude(const struct job *job, char *text, size_t cap) {
    const int n = job->first->label.size;
    struct rcmi_hang_row *rows =
        job_hangs(job) && n <= LIVE_RANKS_MAX ? calloc((size_t)n, sizeof(*rows)) : NULL;
    if (!rows) {
        snprintf(text, cap, "no rank waits for longer than 1 s");
        return;
    }
    for (int r = 0; r < n; r++)
        rows[r].host = "";
    for (const struct live_rank *rank = job->first; rank < job->end; rank++)
        rows[rank->label.rank] = row_of(rank);
    for (const struct live_rank *rank = job->first; rank < job->end; rank++)
        if (rcmi_activity_is_busy(&rank->activity))
            rcmi_hang_follow(rows, n, rank->label.rank);
    (void)rcmi_hang_conclude(rows, n, text, cap);
    free(rows);
}

static void job_note(struct report *report, const struct job *job) {
    char name[120], text[512];
    const int here = (int)(job->end - job->first);
    snprintf(name, sizeof(name), "job %016" PRIx64 "%s%s", job->first->owner.job,
             job_is_world(job) ? "" : ", ", job_is_world(job) ? "" : job->first->label.name);
    job_conclude(job, text, sizeof(text));
    if (here < job->first->label.size)
        report_note(report, name, "%d of %d ranks are on this machine or may be seen; %s", here,
                    job->first->label.size, text);
    else
        report_note(report, name, "%s", text);
}

static bool is_same_protocol(const struct live_rank *a, const struct live_rank *b) {
    return a->owner.sharing == b->owner.sharing &&
           memcmp(&a->owner.protocol, &b->owner.protocol, sizeof(a->owner.protocol)) == 0;
}

/* Notes the protocol thresholds: rank 0's values, which all ranks use, and the host's CPU sharing.
 */
static void job_note_protocol(struct report *report, const struct job *job) {
    char name[48], text[RCMI_PROTOCOLS_TEXT];
    bool same = true;
    for (const struct live_rank *rank = job->first; rank < job->end; rank++)
        same = same && is_same_protocol(rank, job->first);
    snprintf(name, sizeof(name), "protocols of job %016" PRIx64, job->first->owner.job);
    rcmi_protocol_write(&job->first->owner.protocol, text);
    report_note(report, name, "%s (%s%s)", text,
                job->first->owner.sharing == RCMI_OVERSUBSCRIBED ? "oversubscribed" : "roomy",
                same ? "" : "; not the same on all ranks");
}

/* Notes which ranks are near: slots that only near ranks read are written by temporal stores. */
static void job_note_near(struct report *report, const struct job *job) {
    char name[48], text[1024];
    snprintf(name, sizeof(name), "near ranks of job %016" PRIx64, job->first->owner.job);
    live_near(job->first, job->end, text, sizeof(text));
    report_note(report, name, "%s", text);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void rank_row(struct report *report, const struct live_rank *rank) {
    static const char *const states[] = {
        [RCMI_ROW_STOPPED] = "stopped", [RCMI_ROW_WAITS] = "busy", [RCMI_ROW_IDLE] = "idle"};
    const struct rcmi_activity *a = &rank->activity;
    struct rcmi_hang_row row = row_of(rank);
    char job[20], operation[256], transports[64] = "";
    const enum rcmi_hang_state state = row.state;
    row.state = RCMI_ROW_WAITS; /* the state has its own column */
    rcmi_hang_operation(&row, operation, sizeof(operation));
    snprintf(job, sizeof(job), "%016" PRIx64, rank->owner.job);
    for (int i = 0; rcmi_transports[i]; i++)
        if (rank->owner.rows >> i & 1)
            tool_list_add(transports, sizeof(transports), rcmi_transports[i]->name);
    const bool runs = a->sequence > 0, far = runs && a->nsteps > 0;
    const bool busy = rcmi_activity_is_busy(a);
    const struct report_cell cells[LIVE_COLUMNS] = {
        report_text(job),
        report_text(rank->label.name),
        report_int(rank->label.rank),
        report_int(rank->label.size),
        report_int(rank->pid),
        report_text(rank->program),
        report_text(states[state]),
        runs ? report_int((int64_t)a->sequence) : report_missing(),
        report_text(operation),
        far ? report_int(a->step) : report_missing(),
        far ? report_int(a->nsteps) : report_missing(),
        far ? report_int((int64_t)a->done) : report_missing(),
        busy && a->waits_for >= 0 ? report_int(a->waits_for) : report_missing(),
        busy ? report_real((double)a->waited_ms / 1000, 1) : report_missing(),
        report_int((int64_t)rank->traffic.sent_bytes),
        report_int((int64_t)rank->traffic.received_bytes),
        report_text(transports),
    };
    report_row(report, cells);
}

static void live_report(struct report *report, int pid, const struct live_rank *ranks, size_t n) {
    const struct live_rank *end = n > 0 ? ranks + n : ranks;
    struct job job;
    report_note(report, "ringcomm-info --live", "%s", n > 0 ? rcm_version() : "no rank is running");
    for (const struct live_rank *at = ranks; at < end; at = job.end) {
        job = job_at(at, end);
        if (pid != 0 && !job_has(&job, pid))
            continue;
        job_note(report, &job);
        if (job_is_world(&job)) {
            job_note_protocol(report, &job);
            job_note_near(report, &job);
        }
    }
    for (const struct live_rank *at = ranks; at < end; at = job.end) {
        job = job_at(at, end);
        for (const struct live_rank *rank = job.first; rank < job.end; rank++)
            if (pid == 0 || job_has(&job, pid))
                rank_row(report, rank);
    }
}

/* Prints why a process cannot be shown. */
static int live_fail(int pid, bool readable) {
    if (kill(pid, 0) != 0 && access("/proc/self", F_OK) == 0 && !readable)
        tool_error("process %d does not exist, or is another user's", pid);
    else if (!readable)
        tool_error("process %d cannot be inspected: it is another user's, or protects itself", pid);
    else
        tool_error("process %d is not a rank: it has no status page of this version of the library",
                   pid);
    return TOOL_FAILED;
}

int live_print(int pid, const char *csv, const char *json) {
    struct live_rank *ranks = NULL;
    struct report *report;
    size_t n = 0;
    bool readable = false, is_rank = pid == 0;
    if (!live_find(pid, &ranks, &n, &readable))
        return TOOL_FAILED;
    for (size_t i = 0; i < n; i++)
        is_rank |= ranks[i].pid == pid;
    int status = TOOL_FAILED;
    if (!is_rank)
        status = live_fail(pid, readable);
    else if (report_open(live_columns, LIVE_COLUMNS, csv, json, &report)) {
        live_report(report, pid, ranks, n);
        status = report_close(report) ? TOOL_OK : TOOL_FAILED;
    }
    free(ranks);
    return status;
}
