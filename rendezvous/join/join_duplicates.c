/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits for a duplicate of this rank's number, in jobs without an id; see join.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "join.h"
#include "log.h"

#define SETTLE_MS 1000

/* Rank 0 and our rank in the last completed wait; a next job with both the same does not wait. */
static struct rcmi_process settled;
static int settled_rank;
static pthread_mutex_t settled_lock = PTHREAD_MUTEX_INITIALIZER; /* guards both */

static bool process_is(const struct rcmi_process *a, const struct rcmi_process *b) {
    return a->pid == b->pid && a->start == b->start && a->pid_ns == b->pid_ns &&
           strcmp(a->boot, b->boot) == 0 && strcmp(a->host, b->host) == 0;
}

static bool is_settled(int rank, const struct rcmi_process *first) {
    pthread_mutex_lock(&settled_lock);
    const bool known = settled_rank == rank && process_is(&settled, first);
    pthread_mutex_unlock(&settled_lock);
    return known;
}

static void settled_note(int rank, const struct rcmi_process *first) {
    pthread_mutex_lock(&settled_lock);
    settled = *first;
    settled_rank = rank;
    pthread_mutex_unlock(&settled_lock);
}

/* Whether the user set the rendezvous (a file's name or rank 0's port) and there is no job id. */
static bool by_hand(const struct rcmi_launch *launch) {
    return !launch->launcher && launch->url && !launch->job_id[0] &&
           (launch->rank_0_serves || strncmp(launch->url, "file:", 5) == 0);
}

/* Waits for a refusal. The key cannot have its other value, "all ranks are here", before this rank
 * has counted itself. */
static rcm_status refusal_await(rcm_store *store, const struct rcmi_join *join,
                                rcmi_deadline deadline) {
    const struct rcmi_error kept = *rcmi_last_error();
    const int left_ms = rcmi_deadline_left_ms(deadline);
    struct rcm_blob value = {NULL, 0};
    char key[96];
    snprintf(key, sizeof key, "%s/rank/all", join->scope);
    rcm_status status =
        rcm_store_get(store, key, left_ms >= 0 && left_ms < SETTLE_MS ? left_ms : SETTLE_MS,
                      &value.data, &value.len);
    if (status == RCM_OK) {
        status = rcmi_refusal_check((struct rcmi_bytes){value.data, value.len});
        free(value.data);
    } else if (status == RCM_ERR_TIMEOUT) {
        status = RCM_OK;
        *rcmi_last_error() = kept;
    }
    return status;
}

rcm_status rcmi_join_settle(rcm_store *store, const struct rcmi_launch *launch,
                            const struct rcmi_join *join, const struct rcmi_process *first,
                            rcmi_deadline deadline) {
    if (!by_hand(launch) || rcmi_process_look(first) == RCMI_PROCESS_SELF ||
        is_settled(launch->rank, first))
        return RCM_OK;
    rcmi_log(RCMI_LOG_DEBUG, "no job id: waiting %d ms for another rank %d", SETTLE_MS,
             launch->rank);
    rcm_status status = refusal_await(store, join, deadline);
    if (status == RCM_OK)
        settled_note(launch->rank, first);
    return status;
}
