/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects different restart counts. Keys contain the count (TORCHELASTIC_RESTART_COUNT), so ranks
 * with different counts do not see each other and would wait until the deadline. So the highest
 * count is stored under its own key. A rank with a lower count fails if the rank that stored the
 * highest one is still running. It stores its error where the ranks with the higher count check.
 * Notes of an earlier round are no problem: they have lower counts, or their processes have ended.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "join.h"
#include "launcher.h"
#include "url.h"

#define NOTE_KEY "ringcomm/attempt" /* "ATTEMPT RANK" */
#define TRIES    1000

struct note {
    int attempt, rank;
    char text[40]; /* as stored; "": none */
};

static void behind_key(int attempt, char key[64]) {
    snprintf(key, 64, "ringcomm/%d/behind", attempt);
}

/* An invalid or missing note gives attempt 0. */
static void note_parse(const struct rcm_blob *value, struct note *ret_note) {
    int64_t attempt, rank;
    char text[sizeof ret_note->text], *rest = text;
    *ret_note = (struct note){.attempt = 0};
    if (value->len == 0 || value->len >= sizeof text)
        return;
    memcpy(text, value->data, value->len);
    text[value->len] = '\0';
    memcpy(ret_note->text, text, sizeof text);
    if (rcmi_parse_number(strsep(&rest, " "), 0, INT_MAX, &attempt) != RCM_OK || !rest ||
        rcmi_parse_number(rest, 0, RCMI_MAX_RANKS - 1, &rank) != RCM_OK)
        return;
    ret_note->attempt = (int)attempt;
    ret_note->rank = (int)rank;
}

static rcm_status value_find(rcm_store *store, const char *key, struct rcm_blob *ret_value) {
    const struct rcmi_error kept = *rcmi_last_error();
    *ret_value = (struct rcm_blob){NULL, 0};
    const rcm_status status = rcm_store_try_get(store, key, &ret_value->data, &ret_value->len);
    if (status != RCM_ERR_NOT_FOUND)
        return status;
    *rcmi_last_error() = kept;
    return RCM_OK;
}

rcm_status rcmi_join_note_attempt(rcm_store *store, const struct rcmi_launch *launch) {
    struct rcm_blob value;
    struct note note;
    char mine[40];
    if (launch->attempt == 0)
        return RCM_OK;
    snprintf(mine, sizeof mine, "%d %d", launch->attempt, launch->rank);
    rcm_status status = value_find(store, NOTE_KEY, &value);
    for (int i = 0; i < TRIES && status == RCM_OK; i++) {
        bool swapped = false;
        note_parse(&value, &note);
        free(value.data);
        value = (struct rcm_blob){NULL, 0};
        if (note.attempt >= launch->attempt) /* also after our own successful swap */
            break;
        status = rcmi_join_swap(store, NOTE_KEY, note.text, mine, &swapped, &value);
    }
    free(value.data);
    return status;
}

/* Whether the rank that stored the note is still running; *ret_member: its record. */
static bool note_holds(rcm_store *store, const struct note *note, struct rcmi_member *ret_member) {
    const struct rcmi_error kept = *rcmi_last_error();
    struct rcm_blob value = {NULL, 0};
    char key[64];
    rcmi_join_key(note->attempt, note->rank, key);
    const bool there = value_find(store, key, &value) == RCM_OK &&
                       rcmi_member_parse((struct rcmi_bytes){value.data, value.len}, ret_member) &&
                       !ret_member->left &&
                       rcmi_process_look(&ret_member->process) != RCMI_PROCESS_ENDED;
    free(value.data);
    *rcmi_last_error() = kept;
    return there;
}

/* Stores the thread's error for the ranks with this count and for those with the higher one. */
static void behind_publish(rcm_store *store, const struct rcmi_launch *launch,
                           const struct rcmi_join *join, int attempt) {
    const struct rcmi_error kept = *rcmi_last_error();
    char text[RCMI_REFUSAL_TEXT], key[64];
    struct rcm_blob now = {NULL, 0};
    struct rcmi_store_final final;
    bool swapped;
    rcmi_refusal_write(launch->rank, text);
    behind_key(attempt, key);
    rcmi_store_final_begin(&final);
    if (rcmi_join_swap(store, key, "", text, &swapped, &now) == RCM_OK)
        free(now.data);
    rcmi_store_final_end(&final);
    *rcmi_last_error() = kept;
    rcmi_join_publish(store, launch, join->generation, join->generation);
}

static rcm_status behind_fail(rcm_store *store, const struct rcmi_launch *launch,
                              const struct rcmi_join *join, const struct note *note,
                              const struct rcmi_member *member) {
    char who[RCMI_MEMBER_PEOPLE];
    rcm_status status = rcmi_fail_origin(
        RCM_ERR_CONFIG, launch->rank,
        "restart counts differ: TORCHELASTIC_RESTART_COUNT is %d on this rank %d, and %d on %s; "
        "the agents are in different rounds; restart the job, or start rank %d by an agent of it",
        launch->attempt, launch->rank, note->attempt, rcmi_member_people(member, note->rank, who),
        launch->rank);
    behind_publish(store, launch, join, note->attempt);
    return status;
}

rcm_status rcmi_join_look_attempts(rcm_store *store, const struct rcmi_launch *launch,
                                   const struct rcmi_join *join) {
    struct rcm_blob value;
    struct rcmi_member member;
    struct note note;
    char key[64];
    if (value_find(store, NOTE_KEY, &value) != RCM_OK)
        return RCM_OK;
    note_parse(&value, &note);
    free(value.data);
    if (note.attempt > launch->attempt && note_holds(store, &note, &member))
        return behind_fail(store, launch, join, &note, &member);
    behind_key(launch->attempt, key);
    if (launch->attempt == 0 || value_find(store, key, &value) != RCM_OK)
        return RCM_OK;
    const rcm_status status = rcmi_refusal_check((struct rcmi_bytes){value.data, value.len});
    free(value.data);
    return status;
}
