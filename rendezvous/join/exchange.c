/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather of blobs through a store. Each rank sets scope/RANK and increments scope/arrived; the
 * last one sets scope/all, for which the others wait. So a server keeps one waiter per rank, not
 * one per pair of ranks, and one batched get returns all blobs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "log.h"
#include "member.h"
#include "rendezvous.h"
#include "store.h"

#define ANSWER_MS 1000 /* minimum for a store call near the deadline; the store may be gone */

struct exchange {
    rcm_store *store;
    int rank, nranks;
    int64_t start_ns;
    rcmi_deadline deadline;
    const struct rcmi_look *look; /* NULL: none */
    int first;                    /* the lowest rank that had arrived at the last check */
    char missing[400];            /* the ranks missing at the last check; "": not checked yet */
    char *names;                  /* of all keys, key_len bytes each */
    size_t key_len;
    struct rcmi_bytes *keys; /* scope/0 .. scope/nranks-1, scope/arrived, scope/all */
};

static rcm_status exchange_init(struct exchange *x, const char *scope) {
    size_t n = (size_t)x->nranks + 2;
    x->key_len = strlen(scope) + 16;
    x->names = malloc(n * x->key_len);
    x->keys = calloc(n, sizeof *x->keys);
    if (!x->names || !x->keys)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the exchange of %d ranks", x->nranks);
    for (size_t i = 0; i < n; i++) {
        char *name = x->names + i * x->key_len;
        if (i < (size_t)x->nranks)
            snprintf(name, x->key_len, "%s/%zu", scope, i);
        else
            snprintf(name, x->key_len, "%s/%s", scope, i == n - 1 ? "all" : "arrived");
        x->keys[i] = (struct rcmi_bytes){name, strlen(name)};
    }
    return RCM_OK;
}

static void exchange_fini(struct exchange *x) {
    free(x->names);
    free(x->keys);
}

/* ---- Missing ranks ------------------------------------------------------------------------- */

/* "3, 5-7"; as many as fit, then "and N more". */
static void ranks_text(const bool *present, int n, char *text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < n;) {
        int first = i, last;
        if (present[i++])
            continue;
        while (i < n && !present[i])
            i++;
        last = i - 1;
        if (size - at < 60) {
            int more = 0;
            for (int k = first; k < n; k++)
                more += !present[k];
            snprintf(text + at, size - at, " and %d more", more);
            return;
        }
        at += (size_t)snprintf(text + at, size - at, first == last ? "%s%d" : "%s%d-%d",
                               at > 0 ? ", " : "", first, last);
    }
}

static rcm_status exchange_present(const struct exchange *x, bool *ret_present) {
    struct rcmi_store_final final;
    rcmi_store_final_begin(&final);
    const rcm_status status =
        x->store->ops->present(x->store, x->keys, (size_t)x->nranks, ret_present);
    rcmi_store_final_end(&final);
    return status;
}

/* Writes x->missing; false if no rank is missing, or if the store does not answer. */
static bool missing_look(struct exchange *x) {
    char ranks[300];
    int missing = 0;
    bool *present = calloc((size_t)x->nranks, sizeof *present);
    if (!present || exchange_present(x, present) != RCM_OK) {
        free(present);
        return false;
    }
    for (int i = x->nranks - 1; i >= 0; i--) {
        missing += !present[i];
        if (present[i])
            x->first = i;
    }
    ranks_text(present, x->nranks, ranks, sizeof ranks);
    free(present);
    x->missing[0] = '\0';
    if (missing == 0)
        return false;
    double seconds = (double)(rcmi_now_ns() - x->start_ns) / 1e9;
    snprintf(x->missing, sizeof x->missing, "rank%s %s of %d %s not arrived within %.3g s",
             missing == 1 ? "" : "s", ranks, x->nranks, missing == 1 ? "has" : "have", seconds);
    return true;
}

/* If the store is gone by now, reports the missing ranks of an earlier check, if there was one. */
static rcm_status exchange_timeout(struct exchange *x) {
    const char *where = x->store->url[0] ? x->store->url : x->store->ops->name;
    if (missing_look(x) || x->missing[0])
        return rcmi_fail(RCM_ERR_TIMEOUT, 0, "%s (store %s)", x->missing, where);
    return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                     "the exchange of %d ranks was not complete before the deadline (store %s)",
                     x->nranks, where);
}

/* ---- The exchange -------------------------------------------------------------------------- */

static rcm_status exchange_put(const struct exchange *x, struct rcmi_bytes mine) {
    const struct rcmi_store_ops *ops = x->store->ops;
    const struct rcmi_bytes one = {"1", 1};
    int64_t arrived = 0;
    rcm_status status = ops->set(x->store, x->keys[x->rank], mine);
    if (status == RCM_OK)
        status = ops->add(x->store, x->keys[x->nranks], 1, &arrived);
    if (status != RCM_OK || arrived != x->nranks)
        return status;
    struct rcm_blob now = {NULL, 0};
    bool swapped;
    status = ops->compare_set(x->store, x->keys[x->nranks + 1], (struct rcmi_bytes){NULL, 0}, one,
                              &swapped, &now);
    if (status == RCM_OK)
        free(now.data); /* may be a refusal, which exchange_wait reads */
    return status;
}

static rcm_status exchange_publish(const struct exchange *x, struct rcmi_bytes mine) {
    const int left_ms = rcmi_deadline_left_ms(x->deadline);
    if (left_ms < 0)
        return exchange_put(x, mine);
    const int64_t patience = rcmi_store_patience(left_ms > ANSWER_MS ? left_ms : ANSWER_MS);
    const rcm_status status = exchange_put(x, mine);
    (void)rcmi_store_patience(patience);
    return status;
}

/* Waits for scope/all. */
static rcm_status exchange_await(struct exchange *x, rcmi_deadline deadline) {
    struct rcm_blob all;
    rcm_status status =
        x->store->ops->multi_get(x->store, &x->keys[x->nranks + 1], 1, deadline, &all);
    if (status != RCM_OK)
        return status;
    status = rcmi_refusal_check((struct rcmi_bytes){all.data, all.len});
    free(all.data);
    return status;
}

/* Logs the missing ranks, as a warning on one rank only. */
static void exchange_warn(struct exchange *x) {
    if (missing_look(x))
        rcmi_log(x->first == x->rank ? RCMI_LOG_WARN : RCMI_LOG_INFO, "%s; still waiting",
                 x->missing);
}

/* Waits with periodic checks, and logs the missing ranks once. RCM_PENDING: the deadline passed.
 * That includes a lost store, because the rank that serves it may have timed out just before. */
static rcm_status exchange_wait(struct exchange *x) {
    const int64_t warn_ms = rcmi_store_warn_ms();
    rcmi_deadline warn = warn_ms > 0 ? rcmi_deadline_in(warn_ms) : RCMI_NEVER;
    for (;;) {
        const rcmi_deadline look = x->look ? rcmi_deadline_in(RCMI_LOOK_MS(x->nranks)) : RCMI_NEVER;
        rcmi_deadline until = x->deadline < warn ? x->deadline : warn;
        rcm_status status = exchange_await(x, until < look ? until : look);
        if (rcmi_deadline_passed(x->deadline))
            return status == RCM_ERR_PEER || status == RCM_ERR_TIMEOUT ? RCM_PENDING : status;
        if (status != RCM_PENDING)
            return status;
        if (rcmi_deadline_passed(warn)) {
            exchange_warn(x);
            warn = RCMI_NEVER;
        }
        status = rcmi_store_canceled();
        if (status == RCM_OK && x->look)
            status = x->look->fn(x->look->arg);
        if (status != RCM_OK)
            return status;
    }
}

rcm_status rcmi_exchange(rcm_store *store, const char *scope, int rank, int nranks,
                         const void *mine, size_t len, rcmi_deadline deadline,
                         const struct rcmi_look *look, struct rcm_blob *ret_all) {
    struct exchange x = {.store = store,
                         .rank = rank,
                         .nranks = nranks,
                         .start_ns = rcmi_now_ns(),
                         .deadline = deadline,
                         .look = look};

    if (nranks < 1 || rank < 0 || rank >= nranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "exchange: rank %d of %d", rank, nranks);
    if (len > RCMI_STORE_VALUE_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0, "exchange: a blob of %zu bytes, at most %d", len,
                         RCMI_STORE_VALUE_MAX);
    rcm_status status = exchange_init(&x, scope);
    if (status == RCM_OK)
        status = exchange_publish(&x, (struct rcmi_bytes){mine, len});
    if (status == RCM_OK)
        status = exchange_wait(&x);
    if (status == RCM_OK)
        status = store->ops->multi_get(store, x.keys, (size_t)nranks, deadline, ret_all);
    if (status == RCM_OK && rcmi_deadline_passed(deadline)) {
        rcmi_blobs_free(ret_all, (size_t)nranks);
        status = RCM_PENDING;
    }
    if (status == RCM_PENDING)
        status = exchange_timeout(&x);
    exchange_fini(&x);
    return status;
}
