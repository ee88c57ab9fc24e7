/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairs of ranks; see check_pairs.h. */
#include "check_pairs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "check_log.h"
#include "../common.h"
#include "ringcomm.h"

enum {
    SMALL = 8,
    SMALLS = 200,
    LARGE = 4 << 20,
    LARGES = 8, /* at most, and at most as many as fit LARGES_MS */
    LARGES_MS = 300,
    PATIENCE_MS = 120000,
    BUDGET_S = 420, /* then no further pair starts; plus one pair it is below the test's limit */
};

/* A rank's report about itself. */
struct about {
    char host[64];
    char mend[CHECK_SENTENCE]; /* the first problem of its own tests; "": none */
    bool usable;               /* verbs */
    char reason[256];          /* why verbs is unusable */
};

/* The measurements of the lower rank of a pair. */
struct measured {
    char transport[16];
    double us, gbps; /* half a round trip; GB/s one way */
    uint64_t wrong;  /* bytes */
    char why[256];   /* reason why its link by verbs was declined */
};

struct pairs {
    struct check_out *out;
    rcm_comm *comm;
    int rank, nranks;
    struct about *about;
    uint8_t *bytes;
    const struct check_log *log;
    int64_t until; /* rank 0: further pairs may start until then */
};

/* The last log text about a declined link by verbs to that rank; "": none. */
static void find_declined(const struct pairs *pairs, int peer, char *ret_why, size_t cap) {
    char before[64];
    snprintf(before, sizeof(before), "no link to rank %d by verbs: ", peer);
    check_log_find(pairs->log, before, ret_why, cap);
}

/* ---- A pair -------------------------------------------------------------------------------- */

static uint8_t byte_of(int from, int round, size_t at) {
    return (uint8_t)(at * 13 + at / 509 + (size_t)from * 3 + (size_t)round * 101);
}

static void fill(uint8_t *bytes, size_t n, int from, int round) {
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_of(from, round, i);
}

static uint64_t count_wrong(const uint8_t *bytes, size_t n, int from, int round) {
    uint64_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += bytes[i] != byte_of(from, round, i);
    return wrong;
}

/* One message in each direction; the lower rank sends first. Adds the time to *ns. */
static rcm_status bounce(const struct pairs *pairs, int peer, size_t n, int round, int64_t *ns,
                         uint64_t *wrong) {
    const bool first = pairs->rank < peer;
    uint8_t *own = pairs->bytes, *theirs = pairs->bytes + LARGE;
    fill(own, n, pairs->rank, round);
    memset(theirs, 0, n);
    const int64_t began = tool_now_ns();
    rcm_status status =
        first ? rcm_send(pairs->comm, own, n, RCM_UINT8, peer, 7, NULL, NULL) : RCM_OK;
    if (status == RCM_OK)
        status = rcm_recv(pairs->comm, theirs, n, RCM_UINT8, peer, 7, NULL, NULL);
    if (status == RCM_OK && !first)
        status = rcm_send(pairs->comm, own, n, RCM_UINT8, peer, 7, NULL, NULL);
    *ns += tool_now_ns() - began;
    *wrong += count_wrong(theirs, n, peer, round);
    return status;
}

/* The lower rank sends the number of further large messages, computed from the time of the first.
 */
static rcm_status larges_agree(const struct pairs *pairs, int peer, int64_t first_ns, int *ret_n) {
    const int64_t fit = LARGES_MS * INT64_C(1000000) / (first_ns + 1);
    *ret_n = fit < LARGES - 1 ? (int)fit : LARGES - 1;
    if (pairs->rank < peer)
        return rcm_send(pairs->comm, ret_n, 1, RCM_INT32, peer, 8, NULL, NULL);
    return rcm_recv(pairs->comm, ret_n, 1, RCM_INT32, peer, 8, NULL, NULL);
}

/* *ret_mean: time of a round trip. */
static rcm_status larges_measure(const struct pairs *pairs, int peer, double *ret_mean,
                                 uint64_t *wrong) {
    int64_t ns = 0;
    int more = 0;
    rcm_status status = bounce(pairs, peer, LARGE, 0, &ns, wrong);
    if (status == RCM_OK)
        status = larges_agree(pairs, peer, ns, &more);
    for (int i = 1; status == RCM_OK && i <= more; i++)
        status = bounce(pairs, peer, LARGE, i, &ns, wrong);
    *ret_mean = (double)ns / (more + 1);
    return status;
}

/* Both ranks count wrong bytes; the lower rank gets the sum. */
static rcm_status wrong_add(const struct pairs *pairs, int peer, uint64_t *wrong) {
    uint64_t theirs = 0;
    if (pairs->rank > peer)
        return rcm_send(pairs->comm, wrong, 1, RCM_UINT64, peer, 8, NULL, NULL);
    const rcm_status status = rcm_recv(pairs->comm, &theirs, 1, RCM_UINT64, peer, 8, NULL, NULL);
    *wrong += theirs;
    return status;
}

static rcm_status pair_measure(const struct pairs *pairs, int peer, struct measured *ret) {
    int64_t linking = 0, small = 0;
    double large = 0;
    memset(ret, 0, sizeof(*ret));
    rcm_status status = bounce(pairs, peer, SMALL, 0, &linking, &ret->wrong);
    find_declined(pairs, peer, ret->why, sizeof(ret->why));
    for (int i = 0; status == RCM_OK && i < SMALLS; i++)
        status = bounce(pairs, peer, SMALL, i, &small, &ret->wrong);
    if (status == RCM_OK)
        status = larges_measure(pairs, peer, &large, &ret->wrong);
    if (status == RCM_OK)
        status = wrong_add(pairs, peer, &ret->wrong);
    ret->us = (double)small / 2e3 / SMALLS;
    ret->gbps = large > 0 ? 2.0 * LARGE / large : 0;
    snprintf(ret->transport, sizeof(ret->transport), "%s", rcm_comm_transport(pairs->comm, peer));
    return status;
}

/* ---- Output -------------------------------------------------------------------------------- */

/* The reason why the pair has no RDMA; NULL: it has RDMA, or needs none within a host. */
static const char *pair_lacks(const struct pairs *pairs, int a, int b, const struct measured *pair,
                              char text[CHECK_SENTENCE]) {
    if (strcmp(pair->transport, "tcp") != 0)
        return NULL;
    for (int i = 0; i < 2; i++) {
        const int rank = i ? b : a;
        const struct about *about = &pairs->about[rank];
        snprintf(text, CHECK_SENTENCE, "rank %d on %s has no RDMA: %s", rank, about->host,
                 about->reason);
        if (!about->usable)
            return text;
    }
    snprintf(text, CHECK_SENTENCE, "%s",
             pair->why[0] ? pair->why
                          : "both ranks have RDMA, but RINGCOMM_TRANSPORT does not contain verbs");
    return text;
}

static void pair_show(const struct pairs *pairs, int a, int b, const struct measured *pair) {
    char of[32], text[CHECK_SENTENCE];
    snprintf(of, sizeof(of), "%d-%d", a, b);
    check_fact(pairs->out, of, "linked by", "%s, %.2f us, %.2f GB/s, data %s", pair->transport,
               pair->us, pair->gbps, pair->wrong ? "wrong" : "right");
    if (pair->wrong)
        check_mend(pairs->out, of, "ranks %d and %d: %" PRIu64 " bytes by %s are wrong", a, b,
                   pair->wrong, pair->transport);
    const char *lacks = pair_lacks(pairs, a, b, pair, text);
    if (lacks)
        check_mend(pairs->out, of, "ranks %d and %d are linked by %s: %s", a, b, pair->transport,
                   lacks);
}

/* Shows the hosts, and the problems of other ranks. */
static void ranks_show(const struct pairs *pairs) {
    char of[32];
    for (int i = 0; i < pairs->nranks; i++) {
        snprintf(of, sizeof(of), "rank %d", i);
        check_fact(pairs->out, of, "host", "%s", pairs->about[i].host);
        if (i > 0 && pairs->about[i].mend[0])
            check_mend(pairs->out, of, "rank %d on %s: %s", i, pairs->about[i].host,
                       pairs->about[i].mend);
    }
}

/* ---- All pairs ----------------------------------------------------------------------------- */

/* The lower rank sends the result to rank 0, which shows it. */
static rcm_status pair_report(const struct pairs *pairs, int a, int b, struct measured *pair) {
    rcm_status status = RCM_OK;
    if (a > 0 && pairs->rank == a)
        status = rcm_send(pairs->comm, pair, sizeof(*pair), RCM_UINT8, 0, 9, NULL, NULL);
    if (a > 0 && pairs->rank == 0)
        status = rcm_recv(pairs->comm, pair, sizeof(*pair), RCM_UINT8, a, 9, NULL, NULL);
    if (status == RCM_OK && pairs->rank == 0)
        pair_show(pairs, a, b, pair);
    return status;
}

/* Rank 0 broadcasts whether there is time for another pair. */
static rcm_status pairs_go_on(const struct pairs *pairs, bool *ret_go_on) {
    uint8_t go_on = tool_now_ns() < pairs->until;
    const rcm_status status = rcm_broadcast(pairs->comm, &go_on, 1, RCM_UINT8, 0, NULL, NULL);
    *ret_go_on = status == RCM_OK && go_on;
    return status;
}

static rcm_status pair_run(const struct pairs *pairs, int a, int b) {
    struct measured pair = {.us = 0};
    rcm_status status = RCM_OK;
    if (pairs->rank == a || pairs->rank == b)
        status = pair_measure(pairs, pairs->rank == a ? b : a, &pair);
    if (status == RCM_OK)
        status = pair_report(pairs, a, b, &pair);
    return status;
}

/* Runs pairs in order of their distance in a ring of the ranks, so that each rank is in an early
 * one. */
static rcm_status pairs_each(const struct pairs *pairs, int *ret_measured) {
    const int n = pairs->nranks;
    rcm_status status = RCM_OK;
    bool go_on = true;
    for (int distance = 1; go_on && distance <= n / 2; distance++)
        for (int i = 0; go_on && i < (2 * distance == n ? distance : n); i++) {
            const int k = (i + distance) % n;
            status = pair_run(pairs, i < k ? i : k, i < k ? k : i);
            *ret_measured += status == RCM_OK;
            if (status == RCM_OK)
                status = pairs_go_on(pairs, &go_on);
            go_on = go_on && status == RCM_OK;
        }
    return status;
}

static void pairs_count_show(const struct pairs *pairs, int measured) {
    const int64_t all = (int64_t)pairs->nranks * (pairs->nranks - 1) / 2;
    check_fact(pairs->out, "all pairs", "measured",
               measured < all ? "%d of %" PRId64 ", nearer ranks first: no time for more"
                              : "%d of %" PRId64,
               measured, all);
}

static void about_fill(struct about *about) {
    struct rcm_transport_info info;
    gethostname(about->host, sizeof(about->host) - 1);
    snprintf(about->mend, sizeof(about->mend), "%s", check_first_mend());
    snprintf(about->reason, sizeof(about->reason), "the library is built without it");
    for (size_t i = 0; rcm_transport_at(i, &info) == RCM_OK; i++) {
        if (strcmp(info.name, "verbs") != 0)
            continue;
        about->usable = info.usable;
        snprintf(about->reason, sizeof(about->reason), "%s", info.reason);
    }
}

static rcm_status pairs_run(struct pairs *pairs) {
    struct about own;
    memset(&own, 0, sizeof(own));
    about_fill(&own);
    rcm_status status =
        rcm_all_gather(pairs->comm, &own, pairs->about, sizeof(own), RCM_UINT8, NULL, NULL);
    if (status == RCM_OK && pairs->rank == 0)
        ranks_show(pairs);
    int measured = 0;
    if (status == RCM_OK)
        status = pairs_each(pairs, &measured);
    if (status == RCM_OK && pairs->rank == 0 && pairs->nranks > 1)
        pairs_count_show(pairs, measured);
    return status;
}

static rcm_status pairs_of_job(struct check_out *out, const struct check_log *log) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct pairs pairs = {
        .out = out, .log = log, .until = tool_now_ns() + BUDGET_S * INT64_C(1000000000)};
    options.timeout_ms = PATIENCE_MS;
    rcm_status status = rcm_init(&options, &pairs.comm);
    if (status != RCM_OK)
        return status;
    pairs.rank = rcm_rank(pairs.comm);
    pairs.nranks = rcm_size(pairs.comm);
    pairs.about = calloc((size_t)pairs.nranks, sizeof(*pairs.about));
    pairs.bytes = malloc(2 * LARGE);
    status = pairs.about && pairs.bytes ? pairs_run(&pairs) : RCM_ERR_NOMEM;
    const rcm_status last = rcm_destroy(pairs.comm);
    free(pairs.about);
    free(pairs.bytes);
    return status == RCM_OK ? last : status;
}

void check_pairs(struct check_out *out) {
    struct check_log log;
    check_log_begin(&log);
    const rcm_status status = pairs_of_job(out, &log);
    check_log_end(&log);
    if (status != RCM_OK)
        check_mend(out, "", "%s", rcm_last_error());
}
