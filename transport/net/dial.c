/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dialling: tries the targets of a peer (targets.c) one after the other.
 *
 * A peer listens before its address is published. A refused connection therefore means that its
 * process is gone, that this address leads elsewhere, or that a firewall refuses on its behalf. If
 * all targets refuse, and the peer does not connect to us within REFUSED_MS, it is lost.
 *
 * A target that does not answer is abandoned after a short time for the next one. The targets are
 * retried with longer limits until RINGCOMM_PEER_TIMEOUT has passed. A connection that is closed
 * before an answer means a peer that is too busy or has too many unidentified connections: it is
 * retried with a back-off. A lack of descriptors in this process is retried too, because
 * connections hold more descriptors during set-up than afterwards.
 */
#include <errno.h>
#include <stdlib.h>
#include "net.h"
#include "log.h"

enum {
    RETRY_MS = 20,
    RETRY_MAX_MS = 320,
    ROUND_MS = 250,
    FIRST_MS = 1000,
    LONGER_MAX = 6,
    SHORT_MS = 3000,
    REFUSED_MS = 600 /* below the 1 s within which the end of a process is detected */
};

static void dial_later(struct rcmi_link *link, int64_t ms) {
    rcmi_loop_timer(link->node->loop, &link->timer, rcmi_deadline_in(ms));
}

/* From the thread's error: out of descriptors, and set-ups that are in progress may free some. */
static bool dial_is_short(const struct rcmi_link *link) {
    return rcmi_last_error()->sys_errno == EMFILE && !rcmi_deadline_passed(link->short_until);
}

void rcmi_dial_start(struct rcmi_link *link) {
    struct rcmi_node *node = link->node;
    struct rcmi_address *address = rcmi_zalloc(sizeof *address);
    const void *blob = NULL;
    size_t len = 0;
    rcm_status status = address ? RCM_OK : RCM_ERR_NOMEM;
    if (status == RCM_OK)
        status = node->config.lookup(node->config.arg, link->peer, &blob, &len);
    if (status == RCM_OK)
        status = rcmi_address_parse(blob, len, address);
    if (status == RCM_OK)
        status = rcmi_targets_find(link, address);
    free(address);
    if (link->short_until == 0)
        link->short_until = rcmi_deadline_in(SHORT_MS);
    link->trying = rcmi_deadline_in(node->peer_timeout_ms);
    link->patience = rcmi_deadline_in(4 * node->peer_timeout_ms);
    if (status == RCM_OK)
        rcmi_dial_continue(link);
    else if (!link->targets && dial_is_short(link))
        dial_later(link, RETRY_MS);
    else
        link->node->net_above->lose(link);
}

/* How long the current target may take to connect. */
static int64_t dial_limit_ms(const struct rcmi_link *link) {
    const int64_t left = rcmi_deadline_left_ms(link->trying);
    const int64_t share = (int64_t)FIRST_MS << link->rounds;
    const int64_t limit = link->ntargets > 1 && share < left ? share : left;
    return limit > 0 ? limit : 1;
}

/* All targets failed. True if another round makes sense. */
static bool dial_again(struct rcmi_link *link) {
    bool again = false, refused = false, home = false;
    for (int i = 0; i < link->ntargets; i++) {
        again = again || link->targets[i].patient;
        refused = refused || link->targets[i].refused;
        home = home || link->targets[i].same_host;
    }
    refused = refused && !home; /* no firewall answers for a process of this host */
    if (refused && link->refused_until == 0)
        link->refused_until = rcmi_deadline_in(REFUSED_MS);
    again = again || (refused && !rcmi_deadline_passed(link->refused_until));
    if (!again || rcmi_deadline_passed(link->trying))
        return false;
    link->rounds += link->rounds < LONGER_MAX;
    link->target = 0;
    return true;
}

/* Only the peer listens on its Unix socket. If it does not answer, it is slow; another target would
 * not be faster, and would lose the shared memory that plans rely on. */
static rcm_status dial_target(struct rcmi_link *link) {
    const bool sure = link->target == link->ntargets - 1 || link->targets[link->target].same_host;
    rcm_status status = rcmi_conn_dial(link, RCMI_HELLO_CONTROL, 0, dial_limit_ms(link), sure);
    if (status == RCM_AGAIN && rcmi_deadline_passed(link->patience))
        return rcmi_fail(RCM_ERR_TIMEOUT, 0, "it does not accept connections");
    return status == RCM_ERR_RESOURCE && dial_is_short(link) ? RCM_AGAIN : status;
}

void rcmi_dial_continue(struct rcmi_link *link) {
    if (!link->targets) {
        rcmi_dial_start(link);
        return;
    }
    while (link->target < link->ntargets) {
        rcm_status status = dial_target(link);
        if (status == RCM_OK)
            return;
        if (status == RCM_AGAIN) {
            dial_later(link, RETRY_MS);
            return;
        }
        rcmi_targets_note(link);
        link->target++;
    }
    if (dial_again(link)) {
        dial_later(link, ROUND_MS);
        return;
    }
    rcmi_targets_explain(link);
    link->node->net_above->lose(link);
}

void rcmi_dial_failed(struct rcmi_link *link, bool ended) {
    if (ended && link->redial_until == 0)
        link->redial_until = rcmi_deadline_in(RCMI_REDIAL_MS);
    if (ended && !rcmi_deadline_passed(link->redial_until)) {
        link->pause_ms = link->pause_ms == 0             ? RETRY_MS
                         : link->pause_ms < RETRY_MAX_MS ? 2 * link->pause_ms
                                                         : RETRY_MAX_MS;
        dial_later(link, link->pause_ms);
        return;
    }
    rcmi_targets_note(link);
    link->pause_ms = 0;
    link->target++;
    if (link->target < link->ntargets)
        rcmi_log(RCMI_LOG_INFO, "rank %d: %s; trying another address", link->peer,
                 rcm_last_error());
    rcmi_dial_continue(link);
}
