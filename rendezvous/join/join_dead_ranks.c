/* SPDX-License-Identifier: BSD-3-Clause */
/* Detects ranks that joined a job and ended before it was complete, so that no rank waits for them.
 */
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "join.h"
#include "store.h"

#define ANSWER_MS 1000

/* The member records to check, one key and one blob each. */
struct look {
    const struct rcmi_launch *launch;
    const struct rcmi_join *join;
    int n, found;
    char (*names)[64];
    struct rcmi_bytes *keys;
    struct rcm_blob *values; /* of the first `found` keys */
    int *ranks;
    bool *present;
};

static bool look_init(struct look *look) {
    const size_t n = (size_t)look->n;
    look->names = calloc(n, sizeof *look->names);
    look->keys = calloc(n, sizeof *look->keys);
    look->values = calloc(n, sizeof *look->values);
    look->ranks = calloc(n, sizeof *look->ranks);
    look->present = calloc(n, sizeof *look->present);
    if (!look->names || !look->keys || !look->values || !look->ranks || !look->present)
        return false;
    for (int r = 0; r < look->n; r++) {
        rcmi_join_key(look->launch->attempt, r, look->names[r]);
        look->keys[r] = (struct rcmi_bytes){look->names[r], strlen(look->names[r])};
    }
    return true;
}

static void look_fini(struct look *look) {
    for (int i = 0; i < look->found; i++)
        free(look->values[i].data);
    free(look->names);
    free(look->keys);
    free(look->values);
    free(look->ranks);
    free(look->present);
}

/* Moves the keys that exist to the front and gets their values. */
static rcm_status look_fetch(struct look *look, rcm_store *store) {
    int found = 0;
    rcm_status status = store->ops->present(store, look->keys, (size_t)look->n, look->present);
    for (int r = 0; status == RCM_OK && r < look->n; r++)
        if (look->present[r] && r != look->launch->rank) {
            look->keys[found] = look->keys[r];
            look->ranks[found++] = r;
        }
    if (status == RCM_OK && found > 0)
        status = store->ops->multi_get(store, look->keys, (size_t)found,
                                       rcmi_deadline_in(ANSWER_MS), look->values);
    look->found = status == RCM_OK ? found : 0;
    return status;
}

/* Whether the member was of this job: it joined after this process began. Only clocks of the same
 * time namespace can be compared. */
static bool was_ours(const struct rcmi_join *join, int rank, const struct rcmi_member *member) {
    return (rank == 0 && join->met) || (member->process.time_ns == rcmi_process_time_ns() &&
                                        member->joined_clock >= join->begun);
}

/* For a member that may have been of an earlier job. refused: it stored a refusal, which is the
 * thread's error. */
static rcm_status ended_perhaps(rcm_store *store, int rank, const char *who, bool refused) {
    char where[RCMI_JOIN_WHERE];
    rcmi_join_where(store, where);
    if (refused)
        return rcmi_fail_context("%s has ended; if it was of an earlier job, %s is stale: use a "
                                 "new one",
                                 who, where);
    return rcmi_fail_origin(rank == 0 ? RCM_ERR_CONFIG : RCM_ERR_PEER, rank,
                            "%s ended before all ranks had joined, or it was of an earlier job and "
                            "%s is stale; then use a new one",
                            who, where);
}

rcm_status rcmi_join_ended(rcm_store *store, const struct rcmi_join *join, int rank,
                           const struct rcmi_member *member) {
    char who[RCMI_MEMBER_PEOPLE];
    const rcm_status refusal = rcmi_join_find_refusal(store, join);
    rcmi_member_people(member, rank, who);
    if (!was_ours(join, rank, member))
        return ended_perhaps(store, rank, who, refusal != RCM_OK);
    return refusal != RCM_OK
               ? refusal
               : rcmi_fail_origin(RCM_ERR_PEER, rank, "%s ended before all ranks had joined", who);
}

static rcm_status look_judge(const struct look *look, rcm_store *store) {
    const struct rcmi_join *join = look->join;
    const bool sure = rcmi_deadline_passed(join->sure);
    for (int i = 0; i < look->found; i++) {
        struct rcmi_member member;
        const struct rcmi_bytes value = {look->values[i].data, look->values[i].len};
        if (rcmi_member_parse(value, &member) && !member.left &&
            member.generation == join->generation &&
            rcmi_process_look(&member.process) == RCMI_PROCESS_ENDED &&
            (sure || was_ours(join, look->ranks[i], &member)))
            return rcmi_join_ended(store, join, look->ranks[i], &member);
    }
    return RCM_OK;
}

rcm_status rcmi_join_look(rcm_store *store, const struct rcmi_launch *launch,
                          const struct rcmi_join *join) {
    const struct rcmi_error kept = *rcmi_last_error();
    const int64_t patience = rcmi_store_patience(ANSWER_MS);
    struct look look = {
        .launch = launch, .join = join, .n = launch->rank == 0 ? launch->world_size : 1};
    rcm_status status = RCM_OK;
    if (look_init(&look) && look_fetch(&look, store) == RCM_OK)
        status = look_judge(&look, store);
    if (status == RCM_OK)
        status = rcmi_join_look_attempts(store, launch, join);
    look_fini(&look);
    (void)rcmi_store_patience(patience);
    if (status == RCM_OK)
        *rcmi_last_error() = kept;
    return status;
}
