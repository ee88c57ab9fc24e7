/* SPDX-License-Identifier: BSD-3-Clause */
/* Serving and finding a store without an address; see launch_meet.h. */
#include "launch_meet.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "auth.h"
#include "error.h"
#include "interfaces.h"
#include "log.h"
#include "ports.h"
#include "settings.h"
#include "url.h"

#define TOKEN_KEY "ringcomm/launch"
#define REFUSAL   "failed" /* pinned by a rank 0 that could not serve */

#define TRY_MIN_MS 500   /* one place, one try; doubled each time round */
#define TRY_MAX_MS 8000  /* more than the store's own patience with a server that is silent */
#define GRACE_MS   10000 /* so long may another program at an uncertain place refuse our secret */
#define GONE_MS    2000  /* so long is a certain place tried that is empty */
#define WARN_MS    30000

/* For rcmi_store_open, to which 0 would mean its own default. */
static int64_t timeout_left(rcmi_deadline deadline) {
    if (deadline == RCMI_NEVER)
        return -1;
    int left = rcmi_deadline_left_ms(deadline);
    return left > 0 ? left : 1;
}

/* ---- Serving ------------------------------------------------------------------------------- */

rcm_status rcmi_meet_serve(const char *url, const char *token, const char *secret,
                           rcmi_deadline deadline, rcm_store **ret_store) {
    char text[400];
    rcm_store *store;
    if (snprintf(text, sizeof text, "%s?server=1", url) >= (int)sizeof text)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "the address %.200s is too long", url);
    rcm_status status = rcmi_store_open(text, secret, timeout_left(deadline), &store);
    if (status != RCM_OK)
        return status;
    status = rcm_store_set(store, TOKEN_KEY, token, strlen(token));
    if (status == RCM_OK)
        *ret_store = store;
    else
        rcm_store_close(store);
    return status;
}

rcm_status rcmi_meet_serve_anywhere(const char *token, const char *secret, rcmi_deadline deadline,
                                    rcm_store **ret_store) {
    const char *ports = rcmi_setting("RINGCOMM_PORTS");
    char url[24];
    int low, high;
    rcm_status status = rcmi_ports_parse(ports, &low, &high);
    if (status != RCM_OK)
        return status;
    for (int port = low; port <= high; port++) {
        snprintf(url, sizeof url, "tcp://:%d", port);
        status = rcmi_meet_serve(url, token, secret, deadline, ret_store);
        if (status == RCM_OK || rcmi_last_error()->sys_errno != EADDRINUSE)
            return status;
    }
    return rcmi_ports_fail_used(ports);
}

/* ---- Finding ------------------------------------------------------------------------------- */

static rcm_status token_check(rcm_store *store, const char *url, const char *token) {
    void *value;
    size_t len;
    rcm_status status = rcm_store_try_get(store, TOKEN_KEY, &value, &len);
    if (status != RCM_OK && status != RCM_ERR_NOT_FOUND)
        return status;
    bool ours = status == RCM_OK && len == strlen(token) && memcmp(value, token, len) == 0;
    if (status == RCM_OK)
        free(value);
    return ours ? RCM_OK
                : rcmi_fail(RCM_ERR_NOT_FOUND, 0, "the store at %s is not that of this job", url);
}

static rcm_status place_try(const char *url, const char *token, const char *secret,
                            rcmi_deadline deadline, rcm_store **ret_store) {
    char text[400];
    rcm_store *store;
    if (snprintf(text, sizeof text, "%s?server=0", url) >= (int)sizeof text)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "the address %.200s is too long", url);
    rcm_status status = rcmi_store_open(text, secret, timeout_left(deadline), &store);
    if (status != RCM_OK)
        return status;
    status = token_check(store, url, token);
    if (status == RCM_OK)
        *ret_store = store;
    else
        rcm_store_close(store);
    return status;
}

/* Errors that no waiting will mend. */
static bool is_final(rcm_status status) {
    return status == RCM_ERR_NOMEM || status == RCM_ERR_RESOURCE || status == RCM_ERR_UNSUPPORTED ||
           status == RCM_ERR_CONFIG || status == RCM_ERR_INVALID || status == RCM_ERR_CANCELED;
}

/* Nothing listens at a place, or another store does. */
static bool is_empty(rcm_status status) {
    return status == RCM_ERR_NOT_FOUND ||
           (status == RCM_ERR_TIMEOUT && rcmi_last_error()->sys_errno == ECONNREFUSED);
}

/* Each place once; *ret_empty: all of them are. An error about the secret is worth more than one
 * about a place. */
static rcm_status places_round(const struct rcmi_places *places, const char *token,
                               const char *secret, int try_ms, rcmi_deadline deadline,
                               bool *ret_empty, rcm_store **ret_store) {
    *ret_empty = true;
    rcm_status last = RCM_ERR_TIMEOUT;
    struct rcmi_error kept = {0};
    for (int i = 0; i < places->n; i++) {
        rcmi_deadline end = rcmi_deadline_in(try_ms);
        rcm_status status =
            place_try(places->url[i], token, secret, end < deadline ? end : deadline, ret_store);
        if (status == RCM_OK || is_final(status))
            return status;
        *ret_empty = *ret_empty && is_empty(status);
        if (last != RCM_ERR_AUTH || status == RCM_ERR_AUTH) {
            last = status;
            kept = *rcmi_last_error();
        }
    }
    *rcmi_last_error() = kept;
    return last;
}

static rcm_status join_timeout(const struct rcmi_places *places, int64_t start) {
    char text[sizeof rcmi_last_error()->text];
    memcpy(text, rcmi_last_error()->text, sizeof text);
    return rcmi_fail(
        RCM_ERR_TIMEOUT, 0,
        "rank 0's store was not found at %s%s after %.1f s (did rank 0 start?): %.250s",
        places->url[0], places->n > 1 ? " and its other addresses" : "",
        (double)(rcmi_now_ns() - start) / 1e9, text);
}

/* The store was served before anybody was told of the places. */
static rcm_status join_gone(const struct rcmi_places *places, int64_t ms) {
    char text[sizeof rcmi_last_error()->text];
    memcpy(text, rcmi_last_error()->text, sizeof text);
    return rcmi_fail(
        RCM_ERR_PEER, 0,
        "the store where the ranks meet is not at %s%s any more, tried for %.1f s: the "
        "process that served it has ended, or a job has used it up (%.200s)",
        places->url[0], places->n > 1 ? " or its other addresses" : "", (double)ms / 1e3, text);
}

rcm_status rcmi_meet_join(const struct rcmi_places *places, const char *token, const char *secret,
                          rcmi_deadline deadline, rcm_store **ret_store) {
    const int64_t start = rcmi_now_ns();
    bool warned = false, empty;
    int try_ms = TRY_MIN_MS;
    for (;;) {
        rcm_status status =
            places_round(places, token, secret, try_ms, deadline, &empty, ret_store);
        int64_t ms = (rcmi_now_ns() - start) / 1000000;
        if (status == RCM_OK || is_final(status))
            return status;
        if (status == RCM_ERR_AUTH && (places->certain || ms > GRACE_MS))
            return status;
        if (places->certain && empty && ms > GONE_MS)
            return join_gone(places, ms);
        if (rcmi_deadline_passed(deadline))
            return join_timeout(places, start);
        status = rcmi_store_canceled();
        if (status != RCM_OK)
            return status;
        if (ms > WARN_MS && !warned) {
            warned = true;
            rcmi_log(RCMI_LOG_WARN, "rank 0's store is not found yet, after %d s: %s",
                     (int)(ms / 1000), rcmi_last_error()->text);
        }
        rcmi_deadline_sleep(20, deadline); /* some failures come at once */
        try_ms = try_ms * 2 < TRY_MAX_MS ? try_ms * 2 : TRY_MAX_MS;
    }
}

/* ---- By a board ---------------------------------------------------------------------------- */

/* Appends ",tcp://address:port". */
static void invite_address(const struct rcmi_sockaddr *addr, int port, char *text, int *n) {
    char host[RCMI_ADDR_TEXT];
    const size_t len = strlen(text);
    rcmi_sockaddr_text(addr, host);
    *strrchr(host, ':') = '\0';
    const int more = snprintf(text + len, RCMI_MEET_TEXT - len, ",tcp://%s:%d", host, port);
    if ((size_t)more < RCMI_MEET_TEXT - len)
        ++*n;
    else
        text[len] = '\0';
}

/* "TOKEN,tcp://address:port,...": where the store is. */
static rcm_status invitation_write(const char *token, const char *store_url, bool one_host,
                                   char *text) {
    struct rcmi_interface *all = NULL;
    struct rcmi_url url;
    int n = 0, count = 0;
    rcm_status status = rcmi_url_parse(store_url, &url);
    if (status != RCM_OK)
        return status;
    int port = url.port;
    rcmi_url_fini(&url);
    snprintf(text, RCMI_MEET_TEXT, "%s%s%s", token, one_host ? "," : "", one_host ? store_url : "");
    if (one_host)
        return RCM_OK;
    status = rcmi_interfaces("", &all, &count);
    if (status != RCM_OK)
        return status;
    rcmi_interfaces_prefer(all, count, NULL);
    for (int i = 0; i < count && n < RCMI_MEET_PLACES; i++)
        if (!rcmi_sockaddr_loopback(&all[i].addr))
            invite_address(&all[i].addr, port, text, &n);
    free(all);
    return n > 0 ? RCM_OK
                 : rcmi_fail(RCM_ERR_CONFIG, 0,
                             "rank 0's machine has no address but loopback, and the ranks are on "
                             "several machines; set MASTER_ADDR and MASTER_PORT");
}

/* Takes the invitation apart, in place. */
static rcm_status invitation_read(char *text, const char **ret_token, struct rcmi_places *places) {
    char *save = NULL;
    char *token = strtok_r(text, ",", &save);
    if (token && strcmp(token, REFUSAL) == 0)
        return rcmi_fail_origin(RCM_ERR_PEER, 0,
                                "rank 0 could not serve the store; its own message says why");
    *places = (struct rcmi_places){.certain = true};
    for (char *url = strtok_r(NULL, ",", &save); url && places->n < RCMI_MEET_PLACES;
         url = strtok_r(NULL, ",", &save))
        places->url[places->n++] = url;
    if (!token || places->n == 0)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "rank 0's address \"%.100s\" is none", text);
    *ret_token = token;
    return RCM_OK;
}

static rcm_status board_serve(const struct rcmi_launch *launch, const struct rcmi_board *board,
                              const char *secret, rcmi_deadline deadline, rcm_store **ret_store) {
    const bool one_host = rcmi_launch_one_host(launch);
    char token[20], mine[RCMI_MEET_TEXT], seen[RCMI_MEET_TEXT];
    rcm_store *store = NULL;
    uint64_t number;
    rcm_status status = rcmi_random(&number, sizeof number);
    snprintf(token, sizeof token, "%016" PRIx64, number);
    if (status == RCM_OK)
        status = one_host ? rcmi_meet_serve("tcp://127.0.0.1:0", token, secret, deadline, &store)
                          : rcmi_meet_serve_anywhere(token, secret, deadline, &store);
    if (status == RCM_OK)
        status = invitation_write(token, rcm_store_url(store), one_host, mine);
    if (status != RCM_OK) { /* tell the others, who would wait */
        const struct rcmi_error kept = *rcmi_last_error();
        (void)!board->pin(board->arg, REFUSAL, deadline, seen);
        *rcmi_last_error() = kept;
    } else {
        status = board->pin(board->arg, mine, deadline, seen);
    }
    if (status == RCM_OK)
        *ret_store = store;
    else
        rcm_store_close(store);
    return status;
}

rcm_status rcmi_meet_by_board(const struct rcmi_launch *launch, const struct rcmi_board *board,
                              const char *secret, rcmi_deadline deadline, rcm_store **ret_store) {
    char text[RCMI_MEET_TEXT];
    const char *token = NULL;
    struct rcmi_places places;
    if (launch->rank == 0)
        return board_serve(launch, board, secret, deadline, ret_store);
    rcm_status status = board->pin(board->arg, NULL, deadline, text);
    if (status == RCM_OK)
        status = invitation_read(text, &token, &places);
    return status == RCM_OK ? rcmi_meet_join(&places, token, secret, deadline, ret_store) : status;
}
