/* SPDX-License-Identifier: BSD-3-Clause */
/* Claiming a rank's number in a store, and the job's name; see join.h. */
#include "join.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "auth.h"
#include "error.h"
#include "launch_meet.h"
#include "log.h"
#include "store.h"
#include "url.h"

#define TRIES      1000
#define LEAVING_MS 2000 /* so long may a process of a complete job take to leave */
#define LOOK_MS    50
#define SETTLE_MS  1000 /* for a number to come twice, see join.h */
#define ASK_MS     1000
#define WORDS_MS   1000 /* last words to a store that may be gone */

/* ---- Keys ---------------------------------------------------------------------------------- */

void rcmi_join_key(int attempt, int rank, char key[64]) {
    snprintf(key, 64, "ringcomm/%d/member/%d", attempt, rank);
}

static void scope_name(int attempt, int64_t generation, char scope[64]) {
    snprintf(scope, 64, "ringcomm/%d/%" PRId64, attempt, generation);
}

/* compare_set of texts; *ret_now: what is there afterwards, for the caller to free. */
static rcm_status text_swap(rcm_store *store, const char *key, const char *expected,
                            const char *desired, bool *ret_swapped, struct rcm_blob *ret_now) {
    int swapped = 0;
    rcm_status status =
        rcm_store_compare_set(store, key, expected, strlen(expected), desired, strlen(desired),
                              &swapped, &ret_now->data, &ret_now->len);
    if (status == RCM_OK)
        *ret_swapped = swapped != 0;
    return status;
}

static struct rcmi_bytes blob_bytes(const struct rcm_blob *blob) {
    return (struct rcmi_bytes){blob->data, blob->len};
}

/* ---- Telling the others -------------------------------------------------------------------- */

/* Puts the refusal under key if nothing is there. Whether that works matters to nobody here. */
static void refusal_put(rcm_store *store, const char *key, const char *text) {
    struct rcm_blob now = {NULL, 0};
    bool swapped;
    if (text_swap(store, key, "", text, &swapped, &now) == RCM_OK)
        free(now.data);
}

rcm_status rcmi_join_last_words(rcm_store *store, const struct rcmi_join *join) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcm_blob value = {NULL, 0};
    char key[96];
    snprintf(key, sizeof key, "%s/rank/all", join->scope);
    rcm_status status = rcm_store_try_get(store, key, &value.data, &value.len);
    status = status == RCM_OK ? rcmi_refusal_check(blob_bytes(&value)) : RCM_OK;
    free(value.data);
    if (status == RCM_OK)
        *rcmi_last_error() = kept;
    return status;
}

static void generation_refuse(rcm_store *store, int attempt, int64_t generation, const char *text) {
    char scope[64], key[96];
    if (generation < 1)
        return;
    scope_name(attempt, generation, scope);
    snprintf(key, sizeof key, "%s/job", scope);
    refusal_put(store, key, text);
    snprintf(key, sizeof key, "%s/rank/all", scope);
    refusal_put(store, key, text);
}

/* Ranks of this job may wait in the first generation, where nobody was their number before, or in
 * the one after an earlier job's. A job that runs is told in its own generation only. */
static void claim_tell(rcm_store *store, const struct rcmi_launch *launch, int64_t generation,
                       bool runs) {
    const struct rcmi_error kept = *rcmi_last_error();
    const int64_t patience = rcmi_store_patience(WORDS_MS);
    char text[RCMI_REFUSAL_TEXT];
    rcmi_refusal_write(launch->rank, text);
    generation_refuse(store, launch->attempt, generation, text);
    if (!runs) {
        generation_refuse(store, launch->attempt, 1, text);
        generation_refuse(store, launch->attempt, generation - 1, text);
        generation_refuse(store, launch->attempt, generation + 1, text);
        generation_refuse(store, launch->attempt, generation + 2, text);
    }
    (void)rcmi_store_patience(patience);
    *rcmi_last_error() = kept;
}

/* ---- Refusing ------------------------------------------------------------------------------ */

/* "store file /path", "the store tcp://host:port" */
static const char *store_people(const rcm_store *store, char text[300]) {
    if (strncmp(store->url, "file://", 7) == 0)
        snprintf(text, 300, "store file %.*s", (int)strcspn(store->url + 7, "?"), store->url + 7);
    else
        snprintf(text, 300, "the store %.280s", store->url[0] ? store->url : store->ops->name);
    return text;
}

static bool is_there(enum rcmi_process_state state) {
    return state == RCMI_PROCESS_RUNS || state == RCMI_PROCESS_STOPPED;
}

static rcm_status claim_refuse(rcm_store *store, const struct rcmi_launch *launch,
                               const struct rcmi_member *member, enum rcmi_process_state state) {
    const bool file = strncmp(store->url, "file://", 7) == 0;
    char where[300], who[RCMI_MEMBER_PEOPLE];
    store_people(store, where);
    rcmi_member_people(member, launch->rank, who);
    if (state == RCMI_PROCESS_ENDED)
        (void)rcmi_fail(
            RCM_ERR_CONFIG, 0,
            "%s is left over from an earlier job: %s has ended without rcm_destroy; %s", where, who,
            file ? "remove the file, or name another" : "start the store anew, or use another");
    else if (is_there(state))
        (void)rcmi_fail(RCM_ERR_CONFIG, 0,
                        "%s is in use by another job: its %s %s; give each job %s of its own, and "
                        "each process of a job another rank",
                        where, who, state == RCMI_PROCESS_STOPPED ? "is stopped" : "still runs",
                        file ? "a file" : "a store");
    else
        (void)rcmi_fail(RCM_ERR_CONFIG, 0,
                        "%s was joined before by %s: an earlier job left it behind, or another job "
                        "uses it (whether that process runs cannot be seen from here); give each "
                        "job %s of its own",
                        where, who, file ? "a new file" : "a store");
    claim_tell(store, launch, member->generation, is_there(state));
    return RCM_ERR_CONFIG;
}

/* ---- Claiming ------------------------------------------------------------------------------ */

static bool generation_is_complete(rcm_store *store, int attempt, int64_t generation) {
    const struct rcmi_error kept = *rcmi_last_error();
    char scope[64], key[96];
    void *value;
    size_t len;
    scope_name(attempt, generation, scope);
    snprintf(key, sizeof key, "%s/rank/all", scope);
    bool complete = rcm_store_try_get(store, key, &value, &len) == RCM_OK;
    if (complete)
        free(value);
    *rcmi_last_error() = kept;
    return complete;
}

/* What somebody else has under our key. RCM_OK: the next try, after `join->before`. */
static rcm_status claim_look(rcm_store *store, const struct rcmi_launch *launch,
                             struct rcmi_bytes value, rcmi_deadline leaving,
                             struct rcmi_join *join) {
    struct rcmi_member other;
    if (!rcmi_member_parse(value, &other))
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "key %s of the store holds something else",
                         join->key);
    enum rcmi_process_state state = rcmi_process_look(&other.process);
    if (state == RCMI_PROCESS_SELF || other.left) {
        join->generation = other.generation + 1;
        snprintf(join->before, sizeof join->before, "%.*s", (int)value.len,
                 (const char *)value.data);
        return RCM_OK;
    }
    /* Who has done with a job may be about to leave. */
    if (is_there(state) && !rcmi_deadline_passed(leaving) &&
        generation_is_complete(store, launch->attempt, other.generation)) {
        rcmi_meet_sleep(LOOK_MS, leaving);
        return RCM_OK;
    }
    return claim_refuse(store, launch, &other, state);
}

static void claim_write(const struct rcmi_launch *launch, struct rcmi_join *join,
                        struct rcmi_member *ret_mine) {
    struct rcmi_member mine = {.generation = join->generation,
                               .world_size = launch->world_size,
                               .joined_at = (int64_t)time(NULL)};
    rcmi_process_self(&mine.process);
    rcmi_member_write(&mine, join->mine);
    scope_name(launch->attempt, join->generation, join->scope);
    *ret_mine = mine;
}

static rcm_status join_claim(rcm_store *store, const struct rcmi_launch *launch,
                             rcmi_deadline deadline, struct rcmi_join *join,
                             struct rcmi_member *ret_mine) {
    rcmi_deadline leaving = rcmi_deadline_in(LEAVING_MS);
    if (deadline < leaving)
        leaving = deadline;
    join->generation = 1;
    rcmi_join_key(launch->attempt, launch->rank, join->key);
    for (int i = 0; i < TRIES; i++) {
        struct rcm_blob now = {NULL, 0};
        bool swapped = false;
        claim_write(launch, join, ret_mine);
        rcm_status status = text_swap(store, join->key, join->before, join->mine, &swapped, &now);
        if (status == RCM_OK && !swapped)
            status = claim_look(store, launch, blob_bytes(&now), leaving, join);
        free(now.data);
        if (status == RCM_ERR_NOT_FOUND) { /* its owner has withdrawn: from the beginning */
            join->before[0] = '\0';
            join->generation = 1;
        } else if (status != RCM_OK || swapped) {
            join->claimed = status == RCM_OK;
            return status;
        }
    }
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "key %s of the store changes all the time: several "
                     "processes have this rank",
                     join->key);
}

/* Takes the claim back: nobody has heard of this rank yet. */
static void join_withdraw(rcm_store *store, struct rcmi_join *join) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcm_blob now = {NULL, 0};
    bool swapped;
    int deleted;
    if (!join->claimed)
        return;
    const int64_t patience = rcmi_store_patience(WORDS_MS);
    if (join->before[0] == '\0')
        (void)!rcm_store_delete(store, join->key, &deleted);
    else if (text_swap(store, join->key, join->mine, join->before, &swapped, &now) == RCM_OK)
        free(now.data);
    (void)rcmi_store_patience(patience);
    join->claimed = false;
    *rcmi_last_error() = kept;
}

/* ---- The job ------------------------------------------------------------------------------- */

static rcm_status job_name(rcm_store *store, const struct rcmi_member *mine,
                           struct rcmi_join *join) {
    char key[96], text[RCMI_MEMBER_TEXT], where[300];
    struct rcm_blob now = {NULL, 0};
    bool swapped = false;
    rcm_status status = rcmi_random(&join->job, sizeof join->job);
    rcmi_job_write(join->job, mine, text);
    snprintf(key, sizeof key, "%s/job", join->scope);
    if (status == RCM_OK)
        status = text_swap(store, key, "", text, &swapped, &now);
    if (status == RCM_OK && !swapped)
        status = rcmi_refusal_check(blob_bytes(&now));
    free(now.data);
    if (status == RCM_OK && !swapped)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "%s holds a job already whose rank 0 is gone: use a new one",
                         store_people(store, where));
    return status;
}

/* Ended, after it had named the job: because a rank of this job could not join, or long ago. */
static rcm_status job_ended(rcm_store *store, const struct rcmi_join *join, const char *who,
                            const char *where) {
    static const char advice[] = "%s has ended; if that was an earlier job, it left %s behind: use "
                                 "a new one";
    if (rcmi_join_last_words(store, join) != RCM_OK)
        return rcmi_fail_context(advice, who, where);
    return rcmi_fail_origin(RCM_ERR_CONFIG, 0, advice, who, where);
}

static rcm_status job_check(rcm_store *store, const struct rcmi_launch *launch,
                            const struct rcmi_join *join, const struct rcmi_member *first) {
    char where[300], who[RCMI_MEMBER_PEOPLE];
    store_people(store, where);
    rcmi_member_people(first, 0, who);
    if (first->world_size != launch->world_size)
        return rcmi_fail_origin(RCM_ERR_CONFIG, 0,
                                "rank 0 was started as one of %d ranks, this rank as one of %d: "
                                "%s was begun by %s; it is another job's, or the settings differ",
                                first->world_size, launch->world_size, where, who);
    const bool ended = rcmi_process_look(&first->process) == RCMI_PROCESS_ENDED;
    return ended ? job_ended(store, join, who, where) : RCM_OK;
}

/* Waits until rank 0 has named the job, telling once that it has not; one rank in a warning. */
static rcm_status job_await(rcm_store *store, const struct rcmi_launch *launch, const char *key,
                            rcmi_deadline deadline, struct rcm_blob *ret_value) {
    const int64_t warn_ms = rcmi_store_warn_ms();
    const rcmi_deadline warn = rcmi_deadline_in(warn_ms);
    if (warn_ms > 0 && warn < deadline) {
        rcm_status status = rcm_store_get(store, key, warn_ms, &ret_value->data, &ret_value->len);
        if (status != RCM_ERR_TIMEOUT)
            return status;
        rcmi_log(launch->rank == 1 ? RCMI_LOG_WARN : RCMI_LOG_INFO,
                 "rank 0 of %d has not arrived within %.3g s; still waiting", launch->world_size,
                 (double)warn_ms / 1e3);
    }
    const int64_t left = deadline == RCMI_NEVER ? -1 : rcmi_deadline_left_ms(deadline);
    return rcm_store_get(store, key, left, &ret_value->data, &ret_value->len);
}

static rcm_status job_learn(rcm_store *store, const struct rcmi_launch *launch,
                            rcmi_deadline deadline, struct rcmi_join *join,
                            struct rcmi_member *ret_first) {
    char key[96];
    struct rcm_blob value;
    snprintf(key, sizeof key, "%s/job", join->scope);
    rcm_status status = job_await(store, launch, key, deadline, &value);
    if (status == RCM_ERR_TIMEOUT)
        return rcmi_fail_context("rank 0 has not started");
    if (status != RCM_OK)
        return status;
    status = rcmi_refusal_check(blob_bytes(&value));
    if (status == RCM_OK && !rcmi_job_parse(blob_bytes(&value), &join->job, ret_first))
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0,
                           "rank 0 published a job record of %zu bytes, which "
                           "is none",
                           value.len);
    free(value.data);
    return status == RCM_OK ? job_check(store, launch, join, ret_first) : status;
}

/* Ranks that nobody else keeps together: told where to meet by a file's name or rank 0's port. */
static bool by_hand(const struct rcmi_launch *launch) {
    return !launch->launcher && launch->url &&
           (launch->rank_0_serves || strncmp(launch->url, "file:", 5) == 0);
}

/* ---- The face ------------------------------------------------------------------------------ */

rcm_status rcmi_join(rcm_store *store, const struct rcmi_launch *launch, rcmi_deadline deadline,
                     struct rcmi_join *ret_join) {
    struct rcmi_member mine, first;
    *ret_join = (struct rcmi_join){.rank = launch->rank};
    rcm_status status = join_claim(store, launch, deadline, ret_join, &mine);
    if (status != RCM_OK)
        return status;
    status = launch->rank == 0 ? job_name(store, &mine, ret_join)
                               : job_learn(store, launch, deadline, ret_join, &first);
    if (status != RCM_OK) {
        join_withdraw(store, ret_join);
        return status;
    }
    if (launch->rank != 0 && by_hand(launch) &&
        rcmi_process_strangers(&mine.process, &first.process)) {
        rcmi_log(RCMI_LOG_DEBUG, "rank 0 has another parent process: waiting %d ms", SETTLE_MS);
        rcmi_meet_sleep(SETTLE_MS, deadline);
    }
    return RCM_OK;
}

void rcmi_join_fail(rcm_store *store, const struct rcmi_join *join) {
    const struct rcmi_error kept = *rcmi_last_error();
    char text[RCMI_REFUSAL_TEXT], key[96];
    if (!join->claimed)
        return;
    const int64_t patience = rcmi_store_patience(WORDS_MS);
    rcmi_refusal_write(join->rank, text);
    snprintf(key, sizeof key, "%s/rank/all", join->scope);
    refusal_put(store, key, text);
    (void)rcmi_store_patience(patience);
    *rcmi_last_error() = kept;
}

rcm_status rcmi_join_leave(rcm_store *store, struct rcmi_join *join) {
    struct rcmi_member mine;
    struct rcm_blob now = {NULL, 0};
    char text[RCMI_MEMBER_TEXT];
    bool swapped;
    const struct rcmi_bytes old = {join->mine, strlen(join->mine)};
    if (!join->claimed || !rcmi_member_parse(old, &mine))
        return RCM_OK;
    mine.left = true;
    rcmi_member_write(&mine, text);
    rcm_status status = text_swap(store, join->key, join->mine, text, &swapped, &now);
    free(now.data);
    join->claimed = false;
    return status;
}

void rcmi_join_explain_used(const struct rcmi_launch *launch, const char *secret) {
    struct rcmi_error kept = *rcmi_last_error();
    char key[64], text[400], who[RCMI_MEMBER_PEOPLE];
    struct rcmi_member member;
    struct rcmi_url url;
    struct rcm_blob value = {NULL, 0};
    rcm_store *store = NULL;
    rcmi_join_key(launch->attempt, 0, key);
    if (rcmi_url_parse(launch->url, &url) != RCM_OK)
        return;
    char *address = rcmi_url_tcp(url.host[0] ? url.host : "localhost", url.port);
    snprintf(text, sizeof text, "%s?server=0", address ? address : "");
    if (address && strlen(text) < sizeof text - 1 &&
        rcmi_store_open(text, secret, ASK_MS, &store) == RCM_OK &&
        rcm_store_try_get(store, key, &value.data, &value.len) == RCM_OK &&
        rcmi_member_parse(blob_bytes(&value), &member)) {
        *rcmi_last_error() = kept;
        (void)rcmi_fail(kept.status, kept.sys_errno,
                        "port %d of %s is in use by the store of another job, that of %s; stop "
                        "that job, or choose another port (in the URL or MASTER_PORT)",
                        url.port, url.host[0] ? url.host : "this machine",
                        rcmi_member_people(&member, 0, who));
        kept = *rcmi_last_error();
    }
    *rcmi_last_error() = kept;
    free(value.data);
    rcm_store_close(store);
    free(address);
    rcmi_url_fini(&url);
}
