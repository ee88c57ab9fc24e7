/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dependency graph. An event is a step in one of two consecutive runs (two slices, or two
 * collectives, on the same channels; a lane goes on with the next run without waiting for other
 * lanes). Edges:
 *
 *   lane      a step waits for the one before it in its lane
 *   message   the step that receives a message waits for the one that sends it
 *   credit    the step that sends message i+slots waits for those that release message i, and for
 *             the one that receives its answer
 *
 * Each lane stops at its first step that cannot go on, so the plans deadlock if and only if the
 * graph has a cycle. More slots only remove edges, and so do tiny messages that use none. Later
 * parts need an order that holds with any number of slots: that of lane and message edges alone.
 */
#include "verify.h"

#include <stdio.h>
#include "error.h"

static void edge_add(struct rcmi_verify_edge *edges, uint32_t *n, uint32_t from, uint32_t to,
                     uint32_t kind) {
    edges[(*n)++] = (struct rcmi_verify_edge){.from = from, .to = to, .kind = kind};
}

static void edges_of_lanes(const struct rcmi_verifier *v, struct rcmi_verify_edge *edges,
                           uint32_t *n) {
    for (uint32_t rank = 0; rank < v->nranks; rank++) {
        const struct rcmi_plan *plan = v->plans[rank];
        for (uint32_t lane = 0; lane < plan->nlanes; lane++) {
            const uint32_t first = v->step_base[rank] + plan->lanes[lane].first_step;
            const uint32_t total = plan->lanes[lane].nsteps * RCMI_VERIFY_RUNS;
            for (uint32_t i = 0; i + 1 < total; i++) {
                const uint32_t m = plan->lanes[lane].nsteps;
                const uint32_t from = first + i % m + i / m * v->nsteps;
                const uint32_t to = first + (i + 1) % m + (i + 1) / m * v->nsteps;
                edge_add(edges, n, from, to, RCMI_EDGE_LANE);
            }
        }
    }
}

/* The event of the i-th use of an end, counted over all runs. */
static uint32_t use_event(const struct rcmi_verifier *v, uint32_t end, uint32_t i) {
    const struct rcmi_verify_end *e = &v->ends[end];
    return v->uses[e->first_use + i % e->nuses] + i / e->nuses * v->nsteps;
}

static void edges_of_channels(const struct rcmi_verifier *v, struct rcmi_verify_edge *edges,
                              uint32_t *n) {
    for (uint32_t c = 0; c < v->nchannels; c++) {
        const struct rcmi_verify_channel *channel = &v->channels[c];
        const uint32_t total = channel->nmessages * RCMI_VERIFY_RUNS;
        for (uint32_t k = 0; k < channel->nreaders; k++) {
            const uint32_t reader = v->readers[channel->first_reader + k];
            for (uint32_t i = 0; i < total; i++) {
                const uint32_t got = use_event(v, reader, i);
                edge_add(edges, n, use_event(v, channel->writer, i), got, RCMI_EDGE_MESSAGE);
                if (v->slots < total - i)
                    edge_add(edges, n, got, use_event(v, channel->writer, i + v->slots),
                             RCMI_EDGE_CREDIT);
            }
        }
        for (uint32_t i = 0; i < total && v->slots < total - i; i++) {
            const uint32_t answer = v->answers[channel->first_message + i % channel->nmessages];
            if (answer > 0)
                edge_add(edges, n, answer - 1 + i / channel->nmessages * v->nsteps,
                         use_event(v, channel->writer, i + v->slots), RCMI_EDGE_CREDIT);
        }
    }
}

static size_t edges_bound(const struct rcmi_verifier *v) {
    size_t n = v->nsteps;
    for (uint32_t c = 0; c < v->nchannels; c++)
        n += (size_t)v->channels[c].nmessages * (2 * v->channels[c].nreaders + 1);
    return n * RCMI_VERIFY_RUNS;
}

/* Counting sort by source event. */
static rcm_status edges_sort(struct rcmi_verifier *v, const struct rcmi_verify_edge *unsorted) {
    const uint32_t nevents = v->nsteps * RCMI_VERIFY_RUNS;
    v->edges = rcmi_verify_alloc(v, v->nedges, sizeof(*v->edges));
    v->edge_base = rcmi_verify_alloc(v, nevents + 2, sizeof(*v->edge_base));
    if (!v->edges || !v->edge_base)
        return RCM_ERR_NOMEM;
    uint32_t *at = v->edge_base + 1; /* shifted by one: filling moves each start to its end */
    for (uint32_t i = 0; i < v->nedges; i++)
        at[unsorted[i].from + 1]++;
    for (uint32_t event = 0; event < nevents; event++)
        at[event + 1] += at[event];
    for (uint32_t i = 0; i < v->nedges; i++)
        v->edges[at[unsorted[i].from]++] = unsorted[i];
    return RCM_OK;
}

/* ---- Deadlock -------------------------------------------------------------------------------- */

/* Kahn's algorithm: takes events whose causes were all taken, and returns how many. waits_for holds
 * the number of remaining causes. */
static uint32_t graph_sort(const struct rcmi_verifier *v, uint32_t *waits_for, uint32_t *order) {
    const uint32_t nevents = v->nsteps * RCMI_VERIFY_RUNS;
    uint32_t taken = 0, found = 0;
    for (uint32_t i = 0; i < v->nedges; i++)
        waits_for[v->edges[i].to]++;
    for (uint32_t event = 0; event < nevents; event++)
        if (waits_for[event] == 0)
            order[found++] = event;
    while (taken < found) {
        const uint32_t event = order[taken++];
        for (uint32_t i = v->edge_base[event]; i < v->edge_base[event + 1]; i++)
            if (--waits_for[v->edges[i].to] == 0)
                order[found++] = v->edges[i].to;
    }
    return taken;
}

/* Each event that still waits has a waiting cause, so following causes leads into a cycle. */
static rcm_status cycle_report(struct rcmi_verifier *v, const uint32_t *waits_for) {
    const uint32_t nevents = v->nsteps * RCMI_VERIFY_RUNS;
    uint32_t *cause = rcmi_verify_alloc(v, nevents, sizeof(*cause));
    bool *seen = rcmi_verify_alloc(v, nevents, sizeof(*seen));
    if (!cause || !seen)
        return RCM_ERR_NOMEM;
    uint32_t event = 0, length = 0;
    for (uint32_t i = 0; i < v->nedges; i++)
        if (waits_for[v->edges[i].from] > 0 && waits_for[v->edges[i].to] > 0) {
            cause[v->edges[i].to] = v->edges[i].from;
            event = v->edges[i].to;
        }
    for (; !seen[event]; event = cause[event])
        seen[event] = true;
    const uint32_t start = event;
    char text[360] = "";
    size_t used = 0;
    do {
        char step[128];
        rcmi_verify_describe(v, event % v->nsteps, step, sizeof(step));
        if (used + 160 < sizeof(text))
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s waits for ", step);
        event = cause[event];
        length++;
    } while (event != start);
    return rcmi_fail(RCM_ERR_INTERNAL, 0,
                     "%s deadlocks with %u slots: %s... and so on, %u steps in a circle",
                     v->plans[0]->algorithm, v->slots, text, length);
}

rcm_status rcmi_verify_graph(struct rcmi_verifier *v) {
    const uint32_t nevents = v->nsteps * RCMI_VERIFY_RUNS;
    const size_t bound = edges_bound(v);
    if (bound > UINT32_MAX / 2)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s on %u ranks is too large to verify",
                         v->plans[0]->algorithm, v->nranks);
    struct rcmi_verify_edge *unsorted = rcmi_verify_alloc(v, bound, sizeof(*unsorted));
    uint32_t *waits_for = rcmi_verify_alloc(v, nevents, sizeof(*waits_for));
    v->order = rcmi_verify_alloc(v, nevents, sizeof(*v->order));
    if (!unsorted || !waits_for || !v->order)
        return RCM_ERR_NOMEM;
    edges_of_lanes(v, unsorted, &v->nedges);
    edges_of_channels(v, unsorted, &v->nedges);
    const rcm_status status = edges_sort(v, unsorted);
    if (status != RCM_OK)
        return status;
    if (graph_sort(v, waits_for, v->order) < nevents)
        return cycle_report(v, waits_for);
    uint32_t kept = 0; /* from here on only run 0 */
    for (uint32_t i = 0; i < nevents; i++)
        if (v->order[i] < v->nsteps)
            v->order[kept++] = v->order[i];
    return RCM_OK;
}

uint32_t rcmi_verify_rounds(struct rcmi_verifier *v, uint32_t *depth) {
    uint32_t rounds = 0;
    for (uint32_t i = 0; i < v->nsteps; i++) {
        const uint32_t step = v->order[i];
        if (depth[step] > rounds)
            rounds = depth[step];
        for (uint32_t e = v->edge_base[step]; e < v->edge_base[step + 1]; e++) {
            const struct rcmi_verify_edge *edge = &v->edges[e];
            const uint32_t reached = depth[step] + (edge->kind == RCMI_EDGE_MESSAGE);
            if (edge->kind != RCMI_EDGE_CREDIT && edge->to < v->nsteps && depth[edge->to] < reached)
                depth[edge->to] = reached;
        }
    }
    return rounds;
}
