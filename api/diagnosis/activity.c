/* SPDX-License-Identifier: BSD-3-Clause */
/* See activity.h. */
#include "activity.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "error.h"
#include "operator.h"
#include "plan.h"
#include "ringcomm.h"

static bool collective_is_known(int32_t collective) {
    return rcmi_collective_at(collective) != NULL;
}

static void rank_sanitize(int32_t *rank, int size) {
    if (*rank < 0 || *rank >= size)
        *rank = -1;
}

static void word_sanitize(char *word, size_t cap) {
    word[cap - 1] = '\0';
    for (char *c = word; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '_'))
            *c = '?';
}

static bool transfer_is_known(const struct rcmi_activity *a, int size) {
    const int lowest = a->transfer == RCMI_TRANSFER_SEND ? 0 : RCM_ANY_SOURCE;
    return a->transfer > RCMI_TRANSFER_NONE && a->transfer < RCMI_TRANSFER_KINDS &&
           a->peer >= lowest && a->peer < size;
}

void rcmi_activity_sanitize(struct rcmi_activity *a, int size) {
    if (!transfer_is_known(a, size))
        a->transfer = RCMI_TRANSFER_NONE;
    rank_sanitize(&a->waits_for, size);
    rank_sanitize(&a->peer, size);
    rank_sanitize(&a->root, size);
    word_sanitize(a->algorithm, sizeof(a->algorithm));
    a->op_name[sizeof(a->op_name) - 1] = '\0';
    rcmi_text_clean(a->op_name);
    if (!collective_is_known(a->called_as))
        a->called = 0;
    if (!collective_is_known(a->collective) || a->sequence > a->called)
        a->sequence = 0;
    if (a->step > a->nsteps)
        a->nsteps = 0;
    if (strcmp(rcm_status_name((rcm_status)a->failed), "RCM_?") == 0 || a->failed > 0)
        a->failed = RCM_OK;
    a->parting = a->parting != 0;
}

bool rcmi_activity_is_busy(const struct rcmi_activity *a) {
    return a->sequence > 0 || a->transfer != RCMI_TRANSFER_NONE;
}

static void transfer_describe(const struct rcmi_activity *a, char *text, size_t cap) {
    static const char *const kinds[RCMI_TRANSFER_KINDS] = {[RCMI_TRANSFER_SEND] = "send to",
                                                           [RCMI_TRANSFER_RECV] = "recv from",
                                                           [RCMI_TRANSFER_PROBE] = "probe of"};
    char peer[32] = "any source";
    if (a->peer != RCM_ANY_SOURCE)
        snprintf(peer, sizeof(peer), "rank %" PRId32, a->peer);
    if (a->tag == RCM_ANY_TAG)
        snprintf(text, cap, "%s %s (any tag)", kinds[a->transfer], peer);
    else
        snprintf(text, cap, "%s %s (tag %" PRIu64 ")", kinds[a->transfer], peer, a->tag);
}

void rcmi_activity_describe(const struct rcmi_activity *a, char *text, size_t cap) {
    const char *last = rcmi_collective_name((enum rcm_collective)a->called_as);
    if (a->parting)
        snprintf(text, cap, "rcm_destroy");
    else if (a->sequence > 0)
        snprintf(text, cap, "%s number %" PRIu64,
                 rcmi_collective_name((enum rcm_collective)a->collective), a->sequence);
    else if (a->transfer)
        transfer_describe(a, text, cap);
    else if (a->called > 0)
        snprintf(text, cap, "no operation since it finished %s number %" PRIu64, last, a->called);
    else
        snprintf(text, cap, "no operation, and was in no collective yet");
}

/* A number above 256 is another process's. */
static const char *op_describe(const struct rcmi_activity *a) {
    if (a->op_name[0])
        return a->op_name;
    return rcmi_op_is_created(a->op) ? "a created operator" : rcm_op_name(a->op);
}

/* Writes " of 4 float32, sum, to rank 2", with the arguments that the collective has. */
static void arguments_describe(const struct rcmi_activity *a,
                               const struct rcmi_collective *collective, char *text, size_t cap) {
    int n = 0;
    text[0] = '\0';
    if (collective->counts == RCMI_COUNTS_PAIR)
        n = snprintf(text, cap, " of %s", rcm_dtype_name((rcm_dtype)a->dtype));
    else if (collective->in != RCMI_BLOCKS_NONE)
        n = snprintf(text, cap, " of %" PRIu64 " %s", a->count,
                     rcm_dtype_name((rcm_dtype)a->dtype));
    if (n >= 0 && (size_t)n < cap && collective->reduces)
        n += snprintf(text + n, cap - (size_t)n, ", %s", op_describe(a));
    if (n >= 0 && (size_t)n < cap && rcmi_collective_is_rooted(collective))
        snprintf(text + n, cap - (size_t)n, " %s rank %" PRId32,
                 collective->in_at_root ? "from" : "to", a->root);
}

void rcmi_call_describe(const struct rcmi_activity *a, char *text, size_t cap) {
    const struct rcmi_collective *collective = rcmi_collective_at(a->collective);
    const char *open = a->algorithm[0] ? " (" : "", *close = a->algorithm[0] ? ")" : "";
    char arguments[96] = "";
    if (a->parting) {
        snprintf(text, cap, "rcm_destroy");
        return;
    }
    if (collective)
        arguments_describe(a, collective, arguments, sizeof(arguments));
    snprintf(text, cap, "%s%s%s%s%s", collective ? collective->name : "?", arguments, open,
             a->algorithm, close);
}
