/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of ranks that cannot join, and their refusals for the other ranks; see join.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "join.h"
#include "launcher.h"
#include "store.h"
#include "url.h"

#define QUERY_MS  1000
#define ANSWER_MS 200 /* for rank 0 to claim its number in the store that it serves */

/* ---- Storing refusals ---------------------------------------------------------------------- */

/* Stores the refusal under key if the key is empty. Errors are ignored. */
static void refusal_put(rcm_store *store, const char *key, const char *text) {
    struct rcm_blob now = {NULL, 0};
    bool swapped;
    if (rcmi_join_swap(store, key, "", text, &swapped, &now) == RCM_OK)
        free(now.data);
}

static void generation_refuse(rcm_store *store, int attempt, int64_t generation, const char *text) {
    char scope[64], key[96];
    if (generation < 1)
        return;
    rcmi_join_scope(attempt, generation, scope);
    snprintf(key, sizeof key, "%s/job", scope);
    refusal_put(store, key, text);
    snprintf(key, sizeof key, "%s/rank/all", scope);
    refusal_put(store, key, text);
}

void rcmi_join_publish(rcm_store *store, const struct rcmi_launch *launch, int64_t first,
                       int64_t last) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcmi_store_final final;
    char text[RCMI_REFUSAL_TEXT];
    rcmi_refusal_write(launch->rank, text);
    rcmi_store_final_begin(&final);
    for (int64_t generation = first; generation <= last; generation++)
        generation_refuse(store, launch->attempt, generation, text);
    rcmi_store_final_end(&final);
    *rcmi_last_error() = kept;
}

/* Ranks of this job may wait in the first generation, if their number was unused before, or in the
 * generation after an earlier job's. A running job gets the refusal in its own generation only. */
static void claim_publish(rcm_store *store, const struct rcmi_launch *launch, int64_t generation,
                          bool runs) {
    rcmi_join_publish(store, launch, generation, generation);
    if (!runs) {
        rcmi_join_publish(store, launch, 1, 1);
        rcmi_join_publish(store, launch, generation - 1, generation + 2);
    }
}

static const char *const exchanges[] = {RCMI_EXCHANGE_RANK, RCMI_EXCHANGE_SHARING,
                                        RCMI_EXCHANGE_SHARING_EACH};
enum { EXCHANGES = sizeof exchanges / sizeof exchanges[0] };

static void exchange_key(const struct rcmi_join *join, int exchange, char key[112]) {
    snprintf(key, 112, "%s/%s/all", join->scope, exchanges[exchange]);
}

rcm_status rcmi_join_find_refusal(rcm_store *store, const struct rcmi_join *join) {
    const struct rcmi_error kept = *rcmi_last_error();
    rcm_status status = RCM_OK;
    for (int i = 0; status == RCM_OK && i < EXCHANGES; i++) {
        struct rcm_blob value = {NULL, 0};
        char key[112];
        exchange_key(join, i, key);
        if (rcm_store_try_get(store, key, &value.data, &value.len) == RCM_OK)
            status = rcmi_refusal_check((struct rcmi_bytes){value.data, value.len});
        free(value.data);
    }
    if (status == RCM_OK)
        *rcmi_last_error() = kept;
    return status;
}

void rcmi_join_fail(rcm_store *store, const struct rcmi_join *join) {
    const struct rcmi_error kept = *rcmi_last_error();
    char text[RCMI_REFUSAL_TEXT], key[112];
    if (!join->claimed)
        return;
    struct rcmi_store_final final;
    rcmi_refusal_write(join->rank, text);
    rcmi_store_final_begin(&final);
    for (int i = 0; i < EXCHANGES; i++) {
        exchange_key(join, i, key);
        refusal_put(store, key, text);
    }
    rcmi_store_final_end(&final);
    *rcmi_last_error() = kept;
}

/* ---- The job's id -------------------------------------------------------------------------- */

enum rcmi_ids rcmi_join_ids(const struct rcmi_launch *launch, const struct rcmi_member *other) {
    const bool ours = launch->job_id[0], theirs = other->job_id[0];
    if (ours != theirs)
        return RCMI_IDS_ONE;
    return !ours                                        ? RCMI_IDS_NONE
           : strcmp(launch->job_id, other->job_id) == 0 ? RCMI_IDS_SAME
                                                        : RCMI_IDS_DIFFER;
}

bool rcmi_join_foreign(const struct rcmi_launch *launch, const struct rcmi_member *other) {
    return rcmi_join_ids(launch, other) == RCMI_IDS_DIFFER ||
           launch->world_size != other->world_size;
}

rcm_status rcmi_join_foreign_fail(rcm_store *store, const struct rcmi_launch *launch,
                                  const struct rcmi_member *other, int rank) {
    char where[RCMI_JOIN_WHERE], who[RCMI_MEMBER_PEOPLE];
    rcmi_join_where(store, where);
    rcmi_member_people(other, rank, who);
    if (rcmi_join_ids(launch, other) == RCMI_IDS_DIFFER)
        return rcmi_fail_origin(RCM_ERR_CONFIG, rank,
                                "two jobs use %s: %s is of job %s, this rank %d of job %s (%s); "
                                "give each job its own store",
                                where, who, other->job_id, launch->rank, launch->job_id,
                                launch->from.job_id);
    return rcmi_fail_origin(RCM_ERR_CONFIG, rank,
                            "rank %d was started as one of %d ranks, this rank %d as one of %d: "
                            "%s is in use by %s; that is another job, or the settings differ",
                            rank, other->world_size, launch->rank, launch->world_size, where, who);
}

rcm_status rcmi_join_ids_fail(rcm_store *store, const struct rcmi_launch *launch,
                              const struct rcmi_member *other, int rank) {
    char where[RCMI_JOIN_WHERE], who[RCMI_MEMBER_PEOPLE];
    return rcmi_fail_origin(
        RCM_ERR_CONFIG, rank,
        "two jobs seem to use %s: %s has %s%s, this rank %d has %s%s; set the same RINGCOMM_JOB_ID "
        "on all ranks of a job, and give each job its own store",
        rcmi_join_where(store, where), rcmi_member_people(other, rank, who),
        other->job_id[0] ? "the job id " : "no job id", other->job_id, launch->rank,
        launch->job_id[0] ? "the job id " : "no job id", launch->job_id);
}

/* ---- Refusing ------------------------------------------------------------------------------ */

static bool is_file(const rcm_store *store) {
    return strncmp(store->url, "file://", 7) == 0;
}

const char *rcmi_join_where(const rcm_store *store, char text[RCMI_JOIN_WHERE]) {
    if (is_file(store))
        snprintf(text, RCMI_JOIN_WHERE, "store file %.*s", (int)strcspn(store->url + 7, "?"),
                 store->url + 7);
    else
        snprintf(text, RCMI_JOIN_WHERE, "the store %.160s",
                 store->url[0] ? store->url : store->ops->name);
    return text;
}

bool rcmi_join_is_there(enum rcmi_process_state state) {
    return state == RCMI_PROCESS_RUNS || state == RCMI_PROCESS_STOPPED;
}

static void fail_running(const rcm_store *store, const char *where, const char *who, bool stopped) {
    (void)rcmi_fail(RCM_ERR_CONFIG, 0,
                    "two jobs seem to use %s: %s of another job %s, or two processes of one job "
                    "have this rank; give each job its own %s and its own RINGCOMM_JOB_ID",
                    where, who, stopped ? "is stopped" : "still runs",
                    is_file(store) ? "file" : "port");
}

rcm_status rcmi_join_refuse(rcm_store *store, const struct rcmi_launch *launch,
                            const struct rcmi_member *member, enum rcmi_process_state state) {
    const bool file = is_file(store);
    char where[RCMI_JOIN_WHERE], who[RCMI_MEMBER_PEOPLE];
    rcmi_join_where(store, where);
    rcmi_member_people(member, launch->rank, who);
    if (state == RCMI_PROCESS_ENDED)
        (void)rcmi_fail(
            RCM_ERR_CONFIG, 0,
            "%s is left over from an earlier job: %s has ended without rcm_destroy; %s", where, who,
            file ? "remove the file, or use another" : "restart the store, or use another");
    else if (rcmi_join_ids(launch, member) == RCMI_IDS_ONE)
        (void)rcmi_join_ids_fail(store, launch, member, launch->rank);
    else if (rcmi_join_is_there(state))
        fail_running(store, where, who, state == RCMI_PROCESS_STOPPED);
    else
        (void)rcmi_fail(RCM_ERR_CONFIG, 0,
                        "%s was joined before by %s: an earlier job left it behind, or another job "
                        "uses it (this machine cannot check whether that process runs); give each "
                        "job its own %s",
                        where, who, file ? "new file" : "store");
    claim_publish(store, launch, member->generation, rcmi_join_is_there(state));
    return RCM_ERR_CONFIG;
}

/* ---- A port in use ------------------------------------------------------------------------- */

/* Gets the member record of rank 0 from the store at the launch's address. */
static bool server_query(const struct rcmi_launch *launch, const char *address, const char *secret,
                         rcm_store **ret_store, struct rcmi_member *ret_member) {
    char key[64], text[400];
    struct rcm_blob value = {NULL, 0};
    rcmi_join_key(launch->attempt, 0, key);
    const bool found =
        snprintf(text, sizeof text, "%s?server=0", address) < (int)sizeof text &&
        rcmi_store_open(text, secret, QUERY_MS, ret_store) == RCM_OK &&
        rcm_store_get(*ret_store, key, ANSWER_MS, &value.data, &value.len) == RCM_OK &&
        rcmi_member_parse((struct rcmi_bytes){value.data, value.len}, ret_member);
    free(value.data);
    return found;
}

/* Sets the thread's error: the port is in use by `member`, rank 0 of another job. If it may be our
 * job, also stores the refusal for its ranks that are joining. */
static void server_name(rcm_store *store, const struct rcmi_launch *launch, const char *address,
                        const struct rcmi_member *member) {
    const bool foreign = rcmi_join_foreign(launch, member);
    const struct rcmi_error kept = *rcmi_last_error();
    char who[RCMI_MEMBER_PEOPLE], theirs[RCMI_JOB_ID_TEXT + 8] = "", ours[RCMI_JOB_ID_TEXT + 24];
    if (member->job_id[0])
        snprintf(theirs, sizeof theirs, ", job %s", member->job_id);
    snprintf(ours, sizeof ours, launch->job_id[0] ? "; this is job %s" : "%s", launch->job_id);
    (void)rcmi_fail(
        kept.status, kept.sys_errno,
        "two jobs %s port %s: it is in use by the store of another job%s, of %s%s; stop that job, "
        "or choose another port (in the URL or MASTER_PORT)",
        foreign ? "use" : "seem to use", address + strlen("tcp://"), theirs,
        rcmi_member_people(member, 0, who), ours);
    if (!foreign)
        rcmi_join_publish(store, launch, member->generation, member->generation);
}

/* Explains why the store cannot be served at its address. If another job's store is there, the
 * error names that job, as described at server_name. Else the thread's error stays. */
static void explain_used(const struct rcmi_launch *launch, const char *secret) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcmi_member member;
    struct rcmi_url url;
    rcm_store *store = NULL;
    if (rcmi_url_parse(launch->url, &url) != RCM_OK)
        return;
    char *address = rcmi_url_tcp(url.host[0] ? url.host : "localhost", url.port);
    const bool found = address && server_query(launch, address, secret, &store, &member);
    *rcmi_last_error() = kept;
    if (found)
        server_name(store, launch, address, &member);
    const struct rcmi_error explained = *rcmi_last_error();
    rcm_store_close(store);
    *rcmi_last_error() = explained;
    free(address);
    rcmi_url_fini(&url);
}

rcm_status rcmi_launch_open(struct rcmi_launch *launch, const char *secret, int64_t timeout_ms,
                            rcm_store **ret_store) {
    const rcm_status status = rcmi_launch_meet(launch, secret, timeout_ms, ret_store);
    const bool serves = !launch->launcher && launch->rank_0_serves && launch->rank == 0;
    if (status != RCM_OK && serves && rcmi_last_error()->sys_errno == EADDRINUSE)
        explain_used(launch, secret);
    return status;
}
