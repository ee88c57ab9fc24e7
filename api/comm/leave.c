/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The orderly end of a process with its last communicator: farewells on all links, then the store.
 * The rank that serves the store waits until the others no longer need it: they have left, or they
 * continue with communicators of their own after one with this rank had its orderly end. A rank
 * that dies earlier is reported. A linked rank is detected by the end of its link (engine.c). The
 * rank that serves the store also detects one that has sent its farewell, or never had a link. A
 * rank that cannot reach the store any more reports on its link that it has left.
 */
#include "agreement.h"
#include "engine.h"
#include "log.h"
#include <stdio.h>
#include <unistd.h>

#define STORE_MS  5000 /* for leaving the store */
#define ORPHAN_MS 500  /* the same, if the rank that serves it may be dead */
#define LEAVE_MS  5000 /* for farewells, after an earlier failure */
#define DRAIN_MS  300  /* for data that others may still read before this process ends */
#define NOTIFY_MS 1500 /* for notifying others of the cause, also on links being made */
#define LOOK_MS   100  /* interval of checks whether awaited ranks still live */
#define PROBE_MS  200

#define THROUGH_LOOK_US 2000

/* ---- The store ------------------------------------------------------------------------------- */

#define GONE_KEY 160

static const char *gone_key(const struct rcmi_engine *engine, int rank, char key[GONE_KEY]) {
    snprintf(key, GONE_KEY, "%s/gone/%d", engine->join.scope, rank);
    return key;
}

static rcm_status gone_publish(struct rcmi_engine *engine) {
    char key[GONE_KEY];
    /* Relaxed: two threads with a communicator each may come here. */
    if (atomic_exchange_explicit(&engine->gone_sent, true, memory_order_relaxed))
        return RCM_OK;
    return rcm_store_set(engine->store, gone_key(engine, engine->rank, key), "1", 1);
}

static rcm_status gone_wait(const struct rcmi_engine *engine, int rank, int64_t timeout_ms) {
    char key[GONE_KEY];
    const char *keys[1] = {gone_key(engine, rank, key)};
    return rcm_store_wait(engine->store, keys, 1, timeout_ms);
}

static bool has_rank(const struct rcmi_leaving *last, int world) {
    return last && rcmi_members_rank(last->members, world) >= 0;
}

/* A process that has left the store closes its links afterwards. */
static bool process_is_over(const struct rcmi_engine *engine, int rank) {
    if (rcmi_node_was_linked(engine->node, rank))
        return rcmi_node_gone(engine->node, rank);
    return rcmi_node_probe(engine->node, rank, rcmi_deadline_in(PROBE_MS)) == RCM_ERR_PEER;
}

/* Notifies the rank that serves the store, which cannot be reached any more, by the link if there
 * is one. */
static void gone_send(struct rcmi_engine *engine) {
    const struct rcmi_left left = {.magic = RCMI_LEFT_MAGIC, .epoch = RCMI_LEFT_STORE};
    const int server = 0;
    rcmi_node_send_linked(engine->node, &server, 1, &left, sizeof(left));
}

static bool gone_was_received(const struct rcmi_engine *engine, int rank) {
    return atomic_load_explicit(&engine->gone_received[rank], memory_order_acquire);
}

/* Its process ended, and after that it was not found in the store: so it had not left. */
static bool died_before_gone(const struct rcmi_engine *engine, int rank) {
    return rank != engine->rank && engine->awaited[rank] && process_is_over(engine, rank) &&
           !gone_was_received(engine, rank) && gone_wait(engine, rank, 0) == RCM_ERR_TIMEOUT;
}

/* Stops waiting for dead ranks. If one is in the last communicator, that fails. Without a book no
 * process can be checked. */
static void gone_look(struct rcmi_engine *engine, const struct rcmi_leaving *last) {
    char who[128];
    for (int r = 0; engine->book && r < engine->nranks; r++) {
        if (!died_before_gone(engine, r))
            continue;
        engine->awaited[r] = false;
        if (!has_rank(last, r))
            continue;
        rcmi_fail_peer(RCM_ERR_PEER, r, "lost %s: it ended before it had left the store",
                       rcmi_book_describe(engine->book, r, who));
        last->fail(last->arg);
    }
}

static bool has_failed(const struct rcmi_leaving *last) {
    return last && atomic_load_explicit(last->failed, memory_order_acquire) != RCM_OK;
}

static rcm_status gone_await(struct rcmi_engine *engine, const struct rcmi_leaving *last,
                             int rank) {
    const rcmi_deadline deadline = rcmi_deadline_in(STORE_MS);
    rcm_status status = RCM_OK;
    while (engine->awaited[rank] && !gone_was_received(engine, rank) && !has_failed(last)) {
        status = gone_wait(engine, rank, LOOK_MS);
        if (status != RCM_ERR_TIMEOUT || rcmi_deadline_passed(deadline))
            return status;
        gone_look(engine, last);
    }
    return RCM_OK;
}

/* Waits for those that took part in an orderly end. */
static rcm_status gone_await_all(struct rcmi_engine *engine, const struct rcmi_leaving *last) {
    rcm_status status = RCM_OK;
    for (int r = 0; r < engine->nranks && status == RCM_OK; r++)
        if (r != engine->rank)
            status = gone_await(engine, last, r);
    return status;
}

/* The rank that serves the store leaves last, if it lives. */
static void engine_leave_store(struct rcmi_engine *engine, const struct rcmi_leaving *last) {
    if (!engine->store)
        return;
    const bool served = engine->awaited[0] && !atomic_load(&engine->gone_sent);
    const int64_t patience = rcmi_store_patience(served ? STORE_MS : ORPHAN_MS);
    rcm_status status = rcmi_join_leave(engine->store, &engine->join);
    if (status == RCM_OK && engine->serves_store)
        status = gone_await_all(engine, last);
    else if (status == RCM_OK && engine->awaited[0])
        status = gone_publish(engine);
    if (status != RCM_OK)
        rcmi_log(RCMI_LOG_INFO, "store: %s", rcm_last_error());
    if (status != RCM_OK && !engine->serves_store && engine->awaited[0])
        gone_send(engine);
    (void)rcmi_store_patience(patience);
}

void rcmi_engine_spare_store(struct rcmi_engine *engine) {
    if (!engine->store || engine->rank == 0 || !engine->awaited[0])
        return;
    const int64_t patience = rcmi_store_patience(STORE_MS);
    if (gone_publish(engine) != RCM_OK)
        rcmi_log(RCMI_LOG_INFO, "store: %s", rcm_last_error());
    (void)rcmi_store_patience(patience);
}

void rcmi_engine_leave_refused(struct rcmi_engine *engine) {
    for (int r = 0; r < engine->nranks; r++)
        engine->awaited[r] = true;
    engine_leave_store(engine, NULL);
}

/* ---- Ranks in rcm_init ----------------------------------------------------------------------- */

/* The key of the counter of ranks that have finished rcm_init. */
static const char *through_key(const struct rcmi_engine *engine, char key[GONE_KEY]) {
    snprintf(key, GONE_KEY, "%s/through", engine->join.scope);
    return key;
}

void rcmi_engine_publish_through(const struct rcmi_engine *engine) {
    const struct rcmi_error kept = *rcmi_last_error();
    const int64_t patience = rcmi_store_patience(ORPHAN_MS);
    char key[GONE_KEY];
    int64_t n;
    if (rcm_store_add(engine->store, through_key(engine, key), 1, &n) != RCM_OK)
        rcmi_log(RCMI_LOG_INFO, "store: %s", rcm_last_error());
    (void)rcmi_store_patience(patience);
    *rcmi_last_error() = kept;
}

/* They need the store until then. */
static void through_await_all(const struct rcmi_engine *engine) {
    const rcmi_deadline deadline = rcmi_deadline_in(ORPHAN_MS);
    char key[GONE_KEY];
    int64_t n = 0;
    while (rcm_store_add(engine->store, through_key(engine, key), 0, &n) == RCM_OK &&
           n < engine->nranks && !rcmi_deadline_passed(deadline))
        usleep(THROUGH_LOOK_US);
}

/* ---- Farewells ------------------------------------------------------------------------------- */

rcm_status rcmi_engine_leave(struct rcmi_engine *engine, const struct rcmi_leaving *last,
                             rcmi_deadline deadline) {
    engine->left = true;
    for (int r = 0; r < engine->nranks; r++)
        if (!engine->awaited[r])
            rcmi_node_excuse(engine->node, r);
    rcm_status status = rcmi_node_farewell(engine->node, deadline, last ? last->failed : NULL);
    if (status == RCM_OK && !has_failed(last))
        engine_leave_store(engine, last);
    return status;
}

void rcmi_engine_hurry(struct rcmi_engine *engine) {
    const int64_t patience = rcmi_store_patience(ORPHAN_MS);
    engine->left = true;
    rcmi_node_leave(engine->node, rcmi_deadline_in(DRAIN_MS));
    if (engine->store && engine->serves_store)
        through_await_all(engine);
    if (engine->store &&
        (rcmi_join_leave(engine->store, &engine->join) != RCM_OK || gone_publish(engine) != RCM_OK))
        rcmi_log(RCMI_LOG_INFO, "store: %s", rcm_last_error());
    (void)rcmi_store_patience(patience);
}

void rcmi_engine_end(struct rcmi_engine *engine) {
    bool orderly = false;
    for (int r = 0; r < engine->nranks; r++)
        orderly = orderly || engine->awaited[r];
    if (orderly && !engine->left)
        (void)rcmi_engine_leave(engine, NULL, rcmi_deadline_in(LEAVE_MS));
    rcmi_node_drain(engine->node, rcmi_deadline_in(NOTIFY_MS));
}
