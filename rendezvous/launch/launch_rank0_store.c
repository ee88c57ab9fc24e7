/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that rank 0 serves at a configured address, anew for each rcm_init. Rank 0 leaves
 * rcm_destroy last. So a rank in its next rcm_init may still find the old store at that address,
 * join it, and lose it. To prevent this, each serving has a random number, and a rank never joins a
 * serving twice.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "auth.h"
#include "error.h"
#include "launch_meet.h"

#define SERVING_KEY  "ringcomm/serving"
#define SERVING_TEXT 17
#define RETRY_MS     10
#define ANSWER_MS    5000 /* rank 0 writes its number as soon as it serves */

/* The last serving joined at each address. Never freed: a process has few addresses. */
struct met {
    struct met *next;
    char serving[SERVING_TEXT];
    char url[];
};
static struct met *all_met;
static pthread_mutex_t met_lock = PTHREAD_MUTEX_INITIALIZER; /* guards it */

/* Records the serving; *ret_again: it was recorded before. */
static rcm_status met_note(const char *url, const char *serving, bool *ret_again) {
    rcm_status status = RCM_OK;
    pthread_mutex_lock(&met_lock);
    struct met *met = all_met;
    while (met && strcmp(met->url, url) != 0)
        met = met->next;
    *ret_again = met && strcmp(met->serving, serving) == 0;
    if (!met && (met = malloc(sizeof *met + strlen(url) + 1))) {
        memcpy(met->url, url, strlen(url) + 1);
        met->next = all_met;
        all_met = met;
    }
    if (met)
        memcpy(met->serving, serving, SERVING_TEXT);
    else
        status = rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a store's address");
    pthread_mutex_unlock(&met_lock);
    return status;
}

static rcm_status serve(const struct rcmi_launch *launch, const char *secret, int64_t timeout_ms,
                        rcm_store **ret_store) {
    char serving[SERVING_TEXT];
    uint64_t number;
    rcm_store *store = NULL;
    rcm_status status = rcmi_random(&number, sizeof number);
    snprintf(serving, sizeof serving, "%016" PRIx64, number);
    if (status == RCM_OK)
        status = rcmi_store_open(launch->url, secret, timeout_ms, &store);
    if (status == RCM_OK)
        status = rcm_store_set(store, SERVING_KEY, serving, SERVING_TEXT - 1);
    if (status == RCM_OK)
        *ret_store = store;
    else
        rcm_store_close(store);
    return status;
}

static rcm_status serving_get(rcm_store *store, int64_t left_ms, char serving[SERVING_TEXT]) {
    void *value;
    size_t len;
    int64_t limit_ms = left_ms >= 0 && left_ms < ANSWER_MS ? left_ms : ANSWER_MS;
    rcm_status status = rcm_store_get(store, SERVING_KEY, limit_ms, &value, &len);
    if (status != RCM_OK)
        return status;
    if (len == SERVING_TEXT - 1)
        memcpy(serving, value, SERVING_TEXT); /* with its NUL */
    else
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0, "the store's %s is %zu bytes", SERVING_KEY, len);
    free(value);
    return status;
}

/* RCM_AGAIN: it is the previous serving. RCM_ERR_PEER: it ended meanwhile. */
static rcm_status join_once(const char *url, const char *secret, int64_t left_ms,
                            rcm_store **ret_store) {
    char serving[SERVING_TEXT];
    bool again = false;
    rcm_store *store;
    rcm_status status = rcmi_store_open(url, secret, left_ms, &store);
    if (status != RCM_OK)
        return status;
    status = serving_get(store, left_ms, serving);
    if (status == RCM_OK)
        status = met_note(url, serving, &again);
    if (status == RCM_OK && !again) {
        *ret_store = store;
        return RCM_OK;
    }
    rcm_store_close(store);
    return again ? RCM_AGAIN : status;
}

rcm_status rcmi_served_open(const struct rcmi_launch *launch, const char *secret,
                            int64_t timeout_ms, rcm_store **ret_store) {
    const rcmi_deadline deadline = rcmi_deadline_in(timeout_ms);
    if (launch->rank == 0)
        return serve(launch, secret, timeout_ms, ret_store);
    for (;;) {
        int64_t left_ms = deadline == RCMI_NEVER ? -1 : rcmi_deadline_left_ms(deadline);
        rcm_status status = join_once(launch->url, secret, left_ms ? left_ms : 1, ret_store);
        if (status != RCM_AGAIN && status != RCM_ERR_PEER)
            return status;
        if (rcmi_deadline_passed(deadline))
            return status == RCM_ERR_PEER
                       ? status
                       : rcmi_fail_origin(
                             RCM_ERR_TIMEOUT, 0,
                             "rank 0 has not started its next rcm_init: %s still has the store "
                             "of its previous one",
                             launch->url);
        rcmi_deadline_sleep(RETRY_MS, deadline);
    }
}
