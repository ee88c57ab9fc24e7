/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims a rank's number in a store and agrees on the job's name; see join.h. */
#include "join.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "auth.h"
#include "error.h"
#include "log.h"
#include "store.h"
#include "wire_version.h"

#define TRIES      1000
#define LEAVING_MS 2000 /* for a process of a complete job to leave */
#define LOOK_MS    50
#define SURE_MS    1500 /* by then the other ranks wait too, and have stored their refusals */

/* ---- Keys ---------------------------------------------------------------------------------- */

static struct rcmi_bytes blob_bytes(const struct rcm_blob *blob) {
    return (struct rcmi_bytes){blob->data, blob->len};
}

/* ---- Claiming ------------------------------------------------------------------------------ */

static bool generation_is_complete(rcm_store *store, int attempt, int64_t generation) {
    const struct rcmi_error kept = *rcmi_last_error();
    char scope[64], key[96];
    void *value;
    size_t len;
    rcmi_join_scope(attempt, generation, scope);
    snprintf(key, sizeof key, "%s/rank/all", scope);
    bool complete = rcm_store_try_get(store, key, &value, &len) == RCM_OK;
    if (complete)
        free(value);
    *rcmi_last_error() = kept;
    return complete;
}

/* Gets rank 0 of the generation of `other` from its job record. RCM_AGAIN: not stored yet. */
static rcm_status job_get(rcm_store *store, const struct rcmi_launch *launch,
                          const struct rcmi_member *other, struct rcmi_member *ret_first) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcm_blob value = {NULL, 0};
    char scope[64], key[96];
    uint64_t number;
    rcmi_join_scope(launch->attempt, other->generation, scope);
    snprintf(key, sizeof key, "%s/job", scope);
    rcm_status status = rcm_store_try_get(store, key, &value.data, &value.len);
    if (status == RCM_OK)
        status = rcmi_refusal_check(blob_bytes(&value));
    if (status == RCM_OK && !rcmi_job_parse(blob_bytes(&value), &number, ret_first))
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0, "key %s of the store is not a job record", key);
    free(value.data);
    if (status != RCM_ERR_NOT_FOUND)
        return status;
    *rcmi_last_error() = kept;
    return RCM_AGAIN;
}

/* Another process, certainly of another job, has our number and may be running. Once rank 0 has
 * named the job, one of the two processes fails. RCM_AGAIN: check again. */
static rcm_status claim_dispute(rcm_store *store, const struct rcmi_launch *launch,
                                const struct rcmi_member *other, rcmi_deadline deadline) {
    struct rcmi_member first = *other;
    const rcm_status status = launch->rank == 0 ? RCM_OK : job_get(store, launch, other, &first);
    if (status != RCM_OK && status != RCM_AGAIN)
        return status;
    if (rcmi_deadline_passed(deadline) || (status == RCM_OK && rcmi_join_foreign(launch, &first)))
        return rcmi_join_foreign_fail(store, launch, other, launch->rank);
    rcmi_deadline_sleep(LOOK_MS, deadline);
    return RCM_AGAIN;
}

/* Whether value differs from `seen`; stores value in `seen`. */
static bool value_is_new(struct rcmi_bytes value, char seen[RCMI_MEMBER_TEXT]) {
    const bool is_new = strlen(seen) != value.len || memcmp(seen, value.data, value.len) != 0;
    snprintf(seen, RCMI_MEMBER_TEXT, "%.*s", (int)value.len, (const char *)value.data);
    return is_new;
}

/* Judges another process's value under our key. RCM_OK: claim again, replacing `join->before`;
 * RCM_AGAIN: the value may change. */
static rcm_status claim_look(rcm_store *store, const struct rcmi_launch *launch,
                             struct rcmi_bytes value, rcmi_deadline leaving, rcmi_deadline deadline,
                             struct rcmi_join *join) {
    struct rcmi_member other;
    if (!rcmi_member_parse(value, &other))
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "key %s of the store is not a member record",
                         join->key);
    enum rcmi_process_state state = rcmi_process_look(&other.process);
    if (state == RCMI_PROCESS_SELF || other.left) {
        join->generation = other.generation + 1;
        snprintf(join->before, sizeof join->before, "%.*s", (int)value.len,
                 (const char *)value.data);
        return RCM_OK;
    }
    /* It may have given up the number after our read and before it ended: read once more. */
    if (state == RCMI_PROCESS_ENDED && value_is_new(value, join->ended))
        return RCM_AGAIN;
    /* A rank of a complete job may be about to leave. */
    if (rcmi_join_is_there(state) && !rcmi_deadline_passed(leaving) &&
        generation_is_complete(store, launch->attempt, other.generation)) {
        rcmi_deadline_sleep(LOOK_MS, leaving);
        return RCM_AGAIN;
    }
    if (state != RCMI_PROCESS_ENDED && rcmi_join_foreign(launch, &other))
        return claim_dispute(store, launch, &other, deadline);
    return rcmi_join_refuse(store, launch, &other, state);
}

static void claim_write(const struct rcmi_launch *launch, struct rcmi_join *join,
                        struct rcmi_member *ret_mine) {
    struct rcmi_member mine = {.generation = join->generation,
                               .world_size = launch->world_size,
                               .joined_at = (int64_t)time(NULL),
                               .joined_clock = rcmi_process_clock()};
    rcmi_process_self(&mine.process);
    if (join->begun == 0)
        join->begun = rcmi_process_begun(&mine.process);
    memcpy(mine.job_id, launch->job_id, sizeof mine.job_id);
    mine.wire = RCMI_WIRE_VERSION;
    rcmi_member_write(&mine, join->mine);
    rcmi_join_scope(launch->attempt, join->generation, join->scope);
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
    for (int i = 0; i < TRIES;) {
        struct rcm_blob now = {NULL, 0};
        bool swapped = false;
        claim_write(launch, join, ret_mine);
        rcm_status status =
            rcmi_join_swap(store, join->key, join->before, join->mine, &swapped, &now);
        if (status == RCM_OK && !swapped)
            status = claim_look(store, launch, blob_bytes(&now), leaving, deadline, join);
        free(now.data);
        if (status == RCM_AGAIN)
            continue;
        i++;
        if (status == RCM_ERR_NOT_FOUND) { /* its owner has withdrawn: start over */
            join->before[0] = '\0';
            join->generation = 1;
        } else if (status != RCM_OK || swapped) {
            join->claimed = status == RCM_OK;
            return status;
        }
    }
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "key %s of the store keeps changing: several processes have this rank",
                     join->key);
}

/* Withdraws the claim; no other rank has used it yet. */
static void join_withdraw(rcm_store *store, struct rcmi_join *join) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcm_blob now = {NULL, 0};
    bool swapped;
    int deleted;
    if (!join->claimed)
        return;
    struct rcmi_store_final final;
    rcmi_store_final_begin(&final);
    if (join->before[0] == '\0')
        (void)!rcm_store_delete(store, join->key, &deleted);
    else if (rcmi_join_swap(store, join->key, join->mine, join->before, &swapped, &now) == RCM_OK)
        free(now.data);
    rcmi_store_final_end(&final);
    join->claimed = false;
    *rcmi_last_error() = kept;
}

/* ---- The job ------------------------------------------------------------------------------- */

static rcm_status job_name(rcm_store *store, const struct rcmi_member *mine,
                           struct rcmi_join *join) {
    char key[96], text[RCMI_MEMBER_TEXT], where[RCMI_JOIN_WHERE];
    struct rcm_blob now = {NULL, 0};
    bool swapped = false;
    rcm_status status = rcmi_random(&join->job, sizeof join->job);
    rcmi_job_write(join->job, mine, text);
    snprintf(key, sizeof key, "%s/job", join->scope);
    if (status == RCM_OK)
        status = rcmi_join_swap(store, key, "", text, &swapped, &now);
    if (status == RCM_OK && !swapped)
        status = rcmi_refusal_check(blob_bytes(&now));
    free(now.data);
    if (status == RCM_OK && !swapped)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "%s already contains a job, whose rank 0 is gone; use a new store",
                         rcmi_join_where(store, where));
    return status;
}

static rcm_status job_check(rcm_store *store, const struct rcmi_launch *launch,
                            const struct rcmi_member *first, struct rcmi_join *join) {
    char who[RCMI_MEMBER_PEOPLE];
    if (rcmi_join_foreign(launch, first))
        return rcmi_join_foreign_fail(store, launch, first, 0);
    if (rcmi_join_ids(launch, first) == RCMI_IDS_ONE) { /* either side may lack its id */
        (void)rcmi_join_ids_fail(store, launch, first, 0);
        rcmi_join_publish(store, launch, join->generation, join->generation);
        return RCM_ERR_CONFIG;
    }
    if (first->wire != RCMI_WIRE_VERSION) {
        (void)rcmi_wire_differs(0, rcmi_member_people(first, 0, who), first->wire, launch->rank);
        rcmi_join_publish(store, launch, join->generation, join->generation);
        return RCM_ERR_MISMATCH;
    }
    if (rcmi_process_look(&first->process) == RCMI_PROCESS_ENDED)
        return rcmi_join_ended(store, join, 0, first);
    join->met = true;
    return RCM_OK;
}

static rcm_status job_missing(const rcm_store *store, const char *key, rcmi_deadline began) {
    return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                     "rank 0 has not started: key \"%s\" was not set within %.3g s (store %s)", key,
                     (double)(rcmi_now_ns() - began) / 1e9,
                     store->url[0] ? store->url : store->ops->name);
}

static void job_warn(const struct rcmi_launch *launch, int64_t warn_ms) {
    rcmi_log(launch->rank == 1 ? RCMI_LOG_WARN : RCMI_LOG_INFO,
             "rank 0 of %d has not arrived within %.3g s; still waiting", launch->world_size,
             (double)warn_ms / 1e3);
}

/* Waits until rank 0 has named the job. Logs its absence once, as a warning on one rank only. */
static rcm_status job_await(rcm_store *store, const struct rcmi_launch *launch, const char *key,
                            rcmi_deadline deadline, const struct rcmi_join *join,
                            struct rcm_blob *ret_value) {
    const struct rcmi_bytes name = {key, strlen(key)};
    const rcmi_deadline began = rcmi_now_ns();
    const int64_t warn_ms = rcmi_store_warn_ms();
    rcmi_deadline warn = warn_ms > 0 ? rcmi_deadline_in(warn_ms) : RCMI_NEVER;
    for (;;) {
        const rcmi_deadline look = rcmi_deadline_in(RCMI_LOOK_MS(launch->world_size));
        const rcmi_deadline next = warn < look ? warn : look;
        rcm_status status =
            store->ops->multi_get(store, &name, 1, deadline < next ? deadline : next, ret_value);
        if ((status == RCM_PENDING || status == RCM_ERR_TIMEOUT) && rcmi_deadline_passed(deadline))
            return job_missing(store, key, began);
        if (status != RCM_PENDING)
            return status;
        if (rcmi_deadline_passed(warn)) {
            job_warn(launch, warn_ms);
            warn = RCMI_NEVER;
        }
        status = rcmi_store_canceled();
        if (status == RCM_OK)
            status = rcmi_join_look(store, launch, join);
        if (status != RCM_OK)
            return status;
    }
}

static rcm_status job_read(rcm_store *store, const struct rcmi_launch *launch,
                           rcmi_deadline deadline, struct rcmi_join *join,
                           struct rcmi_member *ret_first) {
    char key[96];
    struct rcm_blob value;
    snprintf(key, sizeof key, "%s/job", join->scope);
    rcm_status status = job_await(store, launch, key, deadline, join, &value);
    if (status != RCM_OK)
        return status;
    status = rcmi_refusal_check(blob_bytes(&value));
    if (status == RCM_OK && !rcmi_job_parse(blob_bytes(&value), &join->job, ret_first))
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0,
                           "rank 0 published an invalid job record of %zu bytes", value.len);
    free(value.data);
    return status == RCM_OK ? job_check(store, launch, ret_first, join) : status;
}

/* ---- Entry points -------------------------------------------------------------------------- */

rcm_status rcmi_join(rcm_store *store, const struct rcmi_launch *launch, rcmi_deadline deadline,
                     struct rcmi_join *ret_join) {
    struct rcmi_member mine, first;
    *ret_join = (struct rcmi_join){.rank = launch->rank, .sure = rcmi_deadline_in(SURE_MS)};
    rcm_status status = join_claim(store, launch, deadline, ret_join, &mine);
    if (status != RCM_OK)
        return status;
    status = rcmi_join_note_attempt(store, launch);
    if (status == RCM_OK)
        status = launch->rank == 0 ? job_name(store, &mine, ret_join)
                                   : job_read(store, launch, deadline, ret_join, &first);
    if (status != RCM_OK) {
        join_withdraw(store, ret_join);
        return status;
    }
    if (launch->rank != 0)
        status = rcmi_join_settle(store, launch, ret_join, &first.process, deadline);
    ret_join->sure = rcmi_deadline_in(SURE_MS);
    return status;
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
    rcm_status status = rcmi_join_swap(store, join->key, join->mine, text, &swapped, &now);
    free(now.data);
    join->claimed = false;
    return status;
}
