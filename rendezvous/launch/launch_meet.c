/* SPDX-License-Identifier: BSD-3-Clause */
/* Serves and finds a store without a configured address; see launch_meet.h. */
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

#define TRY_MIN_MS 500   /* of one try at one address; doubled after each round */
#define TRY_MAX_MS 8000  /* above the store client's limit for a server that does not answer */
#define GRACE_MS   10000 /* of retries after another program at an uncertain address rejected us */
#define GONE_MS    2000  /* of tries at certain addresses where nothing listens */
#define WARN_MS    30000

/* For rcmi_store_open; never 0, which would select its default. */
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
    return ours ? RCM_OK : rcmi_fail(RCM_ERR_NOT_FOUND, 0, "the store at %s is another job's", url);
}

static rcm_status address_try(const char *url, const char *token, const char *secret,
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

/* Errors that a retry cannot fix. */
static bool is_final(rcm_status status) {
    return status == RCM_ERR_NOMEM || status == RCM_ERR_RESOURCE || status == RCM_ERR_UNSUPPORTED ||
           status == RCM_ERR_CONFIG || status == RCM_ERR_INVALID || status == RCM_ERR_CANCELED;
}

/* Nothing listens at the address, or another store does. */
static bool is_empty(rcm_status status) {
    return status == RCM_ERR_NOT_FOUND ||
           (status == RCM_ERR_TIMEOUT && rcmi_last_error()->sys_errno == ECONNREFUSED);
}

/* Tries each address once; *ret_empty: our store is at none of them. An authentication error takes
 * precedence over a connection error. */
static rcm_status addresses_try(const struct rcmi_meet_addresses *addresses, const char *token,
                                const char *secret, int try_ms, rcmi_deadline deadline,
                                bool *ret_empty, rcm_store **ret_store) {
    *ret_empty = true;
    rcm_status last = RCM_ERR_TIMEOUT;
    struct rcmi_error kept = {0};
    for (int i = 0; i < addresses->n; i++) {
        rcmi_deadline end = rcmi_deadline_in(try_ms);
        rcm_status status = address_try(addresses->url[i], token, secret,
                                        end < deadline ? end : deadline, ret_store);
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

static rcm_status join_timeout(const struct rcmi_meet_addresses *addresses, int64_t start) {
    char text[sizeof rcmi_last_error()->text];
    memcpy(text, rcmi_last_error()->text, sizeof text);
    return rcmi_fail(
        RCM_ERR_TIMEOUT, 0,
        "rank 0's store was not found at %s%s within %.1f s (did rank 0 start?): %.250s",
        addresses->url[0], addresses->n > 1 ? " and its other addresses" : "",
        (double)(rcmi_now_ns() - start) / 1e9, text);
}

/* For certain addresses: they were published after the store was served. */
static rcm_status join_gone(const struct rcmi_meet_addresses *addresses, int64_t ms) {
    char text[sizeof rcmi_last_error()->text];
    memcpy(text, rcmi_last_error()->text, sizeof text);
    return rcmi_fail(
        RCM_ERR_PEER, 0,
        "the job's store is no longer at %s%s, tried for %.1f s: the process that served it has "
        "ended, or a job has used it up (%.200s)",
        addresses->url[0], addresses->n > 1 ? " or its other addresses" : "", (double)ms / 1e3,
        text);
}

rcm_status rcmi_meet_join(const struct rcmi_meet_addresses *addresses, const char *token,
                          const char *secret, rcmi_deadline deadline, rcm_store **ret_store) {
    const int64_t start = rcmi_now_ns();
    bool warned = false, empty;
    int try_ms = TRY_MIN_MS;
    for (;;) {
        rcm_status status =
            addresses_try(addresses, token, secret, try_ms, deadline, &empty, ret_store);
        int64_t ms = (rcmi_now_ns() - start) / 1000000;
        if (status == RCM_OK || is_final(status))
            return status;
        if (status == RCM_ERR_AUTH && (addresses->certain || ms > GRACE_MS))
            return status;
        if (addresses->certain && empty && ms > GONE_MS)
            return join_gone(addresses, ms);
        if (rcmi_deadline_passed(deadline))
            return join_timeout(addresses, start);
        status = rcmi_store_canceled();
        if (status != RCM_OK)
            return status;
        if (ms > WARN_MS && !warned) {
            warned = true;
            rcmi_log(RCMI_LOG_WARN, "rank 0's store was not found within %d s; still trying: %s",
                     (int)(ms / 1000), rcmi_last_error()->text);
        }
        rcmi_deadline_sleep(20, deadline); /* some tries fail immediately */
        try_ms = try_ms * 2 < TRY_MAX_MS ? try_ms * 2 : TRY_MAX_MS;
    }
}

/* ---- Through a board ----------------------------------------------------------------------- */

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

/* Writes the store's token and addresses: "TOKEN,tcp://address:port,...". */
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
    for (int i = 0; i < count && n < RCMI_MEET_ADDRESSES; i++)
        if (!rcmi_sockaddr_loopback(&all[i].addr))
            invite_address(&all[i].addr, port, text, &n);
    free(all);
    return n > 0 ? RCM_OK
                 : rcmi_fail(RCM_ERR_CONFIG, 0,
                             "rank 0's machine has only loopback addresses, and the ranks are on "
                             "several machines; set MASTER_ADDR and MASTER_PORT");
}

/* Parses the invitation, in place. */
static rcm_status invitation_read(char *text, const char **ret_token,
                                  struct rcmi_meet_addresses *addresses) {
    char *save = NULL;
    char *token = strtok_r(text, ",", &save);
    if (token && strcmp(token, REFUSAL) == 0)
        return rcmi_fail_origin(RCM_ERR_PEER, 0,
                                "rank 0 could not serve the store; see rank 0's error");
    *addresses = (struct rcmi_meet_addresses){.certain = true};
    for (char *url = strtok_r(NULL, ",", &save); url && addresses->n < RCMI_MEET_ADDRESSES;
         url = strtok_r(NULL, ",", &save))
        addresses->url[addresses->n++] = url;
    if (!token || addresses->n == 0)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "rank 0 published an invalid address: \"%.100s\"",
                         text);
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
    if (status != RCM_OK) { /* otherwise the other ranks would wait */
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
    struct rcmi_meet_addresses addresses;
    if (launch->rank == 0)
        return board_serve(launch, board, secret, deadline, ret_store);
    rcm_status status = board->pin(board->arg, NULL, deadline, text);
    if (status == RCM_OK)
        status = invitation_read(text, &token, &addresses);
    return status == RCM_OK ? rcmi_meet_join(&addresses, token, secret, deadline, ret_store)
                            : status;
}
