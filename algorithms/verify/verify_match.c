/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels: pairs the channel ends of all ranks, and compares the i-th message of a channel's
 * writer with the i-th that each reader receives.
 */
#include "verify.h"

#include <stdlib.h>
#include "error.h"

/* Sort key of ends: sorts channel by channel, the writer first. */
struct end_key {
    uint64_t channel; /* writer, kind, number, reader of a pair channel */
    uint32_t incoming;
    uint32_t end;
};

static uint64_t end_channel_key(uint32_t rank, const struct rcmi_plan_channel *c) {
    const uint64_t writer = c->outgoing ? rank : (uint32_t)c->peer;
    const uint64_t reader = c->multicast ? 0 : c->outgoing ? (uint32_t)c->peer : rank;
    return writer << 36 | (uint64_t)c->multicast << 35 | (uint64_t)c->number << 32 | reader;
}

static int end_key_compare(const void *pa, const void *pb) {
    const struct end_key *a = pa, *b = pb;
    if (a->channel != b->channel)
        return a->channel < b->channel ? -1 : 1;
    if (a->incoming != b->incoming)
        return a->incoming < b->incoming ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static const struct rcmi_plan_channel *end_channel(const struct rcmi_verifier *v, uint32_t end) {
    const uint32_t rank = v->ends[end].rank;
    return &v->plans[rank]->channels[end - v->end_base[rank]];
}

/* ---- The steps that use each end ------------------------------------------------------------- */

/* Visits every use of a channel end by a step, in lane order. count_only: only counts. */
static void end_uses_visit(struct rcmi_verifier *v, bool count_only) {
    for (uint32_t step = 0; step < v->nsteps; step++) {
        const struct rcmi_step *s = rcmi_verify_step(v, step);
        const struct rcmi_operand *srcs = rcmi_verify_srcs(v, step);
        struct rcmi_verify_end *ends = v->ends + v->end_base[v->rank_of[step]];
        for (int i = -1; i < s->nsrcs; i++) {
            if (i >= 0 ? srcs[i].where != RCMI_CHANNEL : s->out == RCMI_NO_CHANNEL)
                continue;
            struct rcmi_verify_end *end = &ends[i < 0 ? s->out : srcs[i].index];
            if (!count_only)
                v->uses[end->first_use + end->nuses] = step;
            end->nuses++;
        }
    }
}

static rcm_status ends_collect(struct rcmi_verifier *v) {
    uint32_t total = 0;
    v->end_base = rcmi_verify_alloc(v, v->nranks + 1, sizeof(*v->end_base));
    if (!v->end_base)
        return RCM_ERR_NOMEM;
    for (uint32_t rank = 0; rank < v->nranks; rank++)
        v->end_base[rank + 1] = v->end_base[rank] + v->plans[rank]->nchannels;
    v->nends = v->end_base[v->nranks];
    v->ends = rcmi_verify_alloc(v, v->nends, sizeof(*v->ends));
    if (!v->ends)
        return RCM_ERR_NOMEM;
    for (uint32_t rank = 0; rank < v->nranks; rank++)
        for (uint32_t end = v->end_base[rank]; end < v->end_base[rank + 1]; end++)
            v->ends[end].rank = rank;
    end_uses_visit(v, true);
    for (uint32_t end = 0; end < v->nends; end++) {
        v->ends[end].first_use = total;
        total += v->ends[end].nuses;
        v->ends[end].nuses = 0;
    }
    v->uses = rcmi_verify_alloc(v, total, sizeof(*v->uses));
    if (!v->uses)
        return RCM_ERR_NOMEM;
    end_uses_visit(v, false);
    return RCM_OK;
}

/* ---- Channels -------------------------------------------------------------------------------- */

static uint32_t readers_wanted(const struct rcmi_verifier *v, uint32_t writer, bool multicast) {
    uint32_t n = 0;
    if (!multicast)
        return 1;
    for (uint32_t rank = 0; rank < v->nranks; rank++)
        n += rank != writer && v->shape->host_of[rank] == v->shape->host_of[writer];
    return n;
}

static rcm_status ends_fail(const struct rcmi_verifier *v, uint32_t end, const char *what) {
    const struct rcmi_plan_channel *c = end_channel(v, end);
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "%s: rank %u's channel %s %s%d #%u %s",
                     v->plans[0]->algorithm, v->ends[end].rank, c->outgoing ? "to" : "from",
                     c->multicast ? "multicast " : "", c->peer, c->number, what);
}

/* keys[0..n) are all ends of one channel. Each reader was checked before, rank by rank, so the
 * right number of different readers proves that they are the right ones. */
static rcm_status channel_add(struct rcmi_verifier *v, const struct end_key *keys, uint32_t n) {
    struct rcmi_verify_channel *channel = &v->channels[v->nchannels];
    const uint32_t writer = keys[0].end;
    const struct rcmi_plan_channel *c = end_channel(v, writer);
    if (!c->outgoing)
        return ends_fail(v, writer, "has no writer on the other side");
    for (uint32_t i = 1; i < n; i++)
        if (v->ends[keys[i].end].rank == v->ends[keys[i - 1].end].rank)
            return ends_fail(v, keys[i].end, "exists twice");
    if (n - 1 != readers_wanted(v, v->ends[writer].rank, c->multicast))
        return ends_fail(v, writer, "is not read by all its readers");
    channel->writer = writer;
    channel->nreaders = n - 1;
    channel->first_message = v->nmessages;
    channel->nmessages = v->ends[writer].nuses;
    v->nmessages += channel->nmessages;
    channel->first_reader = v->nchannels == 0 ? 0 : channel[-1].first_reader + channel[-1].nreaders;
    for (uint32_t i = 0; i < n; i++) {
        v->ends[keys[i].end].channel = v->nchannels;
        if (i > 0)
            v->readers[channel->first_reader + i - 1] = keys[i].end;
    }
    v->nchannels++;
    return RCM_OK;
}

static rcm_status channels_pair(struct rcmi_verifier *v) {
    struct end_key *keys = rcmi_verify_alloc(v, v->nends, sizeof(*keys));
    v->channels = rcmi_verify_alloc(v, v->nends, sizeof(*v->channels));
    v->readers = rcmi_verify_alloc(v, v->nends, sizeof(*v->readers));
    if (!keys || !v->channels || !v->readers)
        return RCM_ERR_NOMEM;
    for (uint32_t end = 0; end < v->nends; end++) {
        const struct rcmi_plan_channel *c = end_channel(v, end);
        keys[end] = (struct end_key){
            .channel = end_channel_key(v->ends[end].rank, c), .incoming = !c->outgoing, .end = end};
    }
    if (v->nends > 0)
        qsort(keys, v->nends, sizeof(*keys), end_key_compare);
    for (uint32_t i = 0, n; i < v->nends; i += n) {
        for (n = 1; i + n < v->nends && keys[i + n].channel == keys[i].channel; n++)
            continue;
        const rcm_status status = channel_add(v, keys + i, n);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Do two steps of two ranks move the same chunks in the same order? */
static bool chunks_same(const struct rcmi_verifier *v, uint32_t a, uint32_t b) {
    const struct rcmi_step *s = rcmi_verify_step(v, a), *t = rcmi_verify_step(v, b);
    const struct rcmi_plan *of_s = v->plans[v->rank_of[a]], *of_t = v->plans[v->rank_of[b]];
    const bool listed = s->list != RCMI_NO_LIST || t->list != RCMI_NO_LIST;
    bool same = s->chunk == t->chunk && s->nchunks == t->nchunks;
    for (uint32_t i = 1; listed && same && i < s->nchunks; i++)
        same = rcmi_step_chunk(of_s, s, i) == rcmi_step_chunk(of_t, t, i);
    return same;
}

static rcm_status messages_compare(struct rcmi_verifier *v,
                                   const struct rcmi_verify_channel *channel, uint32_t reader) {
    const struct rcmi_verify_end *to = &v->ends[reader], *from = &v->ends[channel->writer];
    if (to->nuses != from->nuses)
        return rcmi_fail(RCM_ERR_INTERNAL, 0,
                         "%s: rank %u sends %u messages on a channel to rank %u, which receives "
                         "%u from it",
                         v->plans[0]->algorithm, from->rank, from->nuses, to->rank, to->nuses);
    for (uint32_t i = 0; i < to->nuses; i++) {
        const uint32_t sent = v->uses[from->first_use + i], got = v->uses[to->first_use + i];
        const struct rcmi_step *s = rcmi_verify_step(v, sent), *g = rcmi_verify_step(v, got);
        char text[160];
        if ((s->op == RCMI_STEP_SIGNAL) == (g->op == RCMI_STEP_WAIT) &&
            (s->op == RCMI_STEP_SIGNAL || chunks_same(v, sent, got)))
            continue;
        rcmi_verify_describe(v, got, text, sizeof(text));
        return rcmi_verify_fail_at(v, sent, "is received as message %u by %s", i, text);
    }
    return RCM_OK;
}

rcm_status rcmi_verify_match(struct rcmi_verifier *v) {
    rcm_status status = ends_collect(v);
    if (status == RCM_OK)
        status = channels_pair(v);
    for (uint32_t c = 0; status == RCM_OK && c < v->nchannels; c++)
        for (uint32_t i = 0; status == RCM_OK && i < v->channels[c].nreaders; i++)
            status =
                messages_compare(v, &v->channels[c], v->readers[v->channels[c].first_reader + i]);
    return status;
}
