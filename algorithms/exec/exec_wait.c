/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a run waits for: at its end, until its messages were taken; and for which peer, for reports
 * to other ranks.
 */
#include "exec_internal.h"

/* Does this channel let the run end: are its zero-copy messages complete, and (if the run drains)
 * its messages taken? */
static bool port_done(const struct rcmi_run *run, const struct rcmi_port *port) {
    return !port->end->outgoing ||
           (rcmi_channel_completed(port->data, port->zero_copy) &&
            (!run->drains || rcmi_channel_taken(port->end->channel, port->sent)));
}

const struct rcmi_port *rcmi_ports_drain(const struct rcmi_run *run) {
    for (uint32_t i = 0; i < run->bind.plan->nchannels * run->stripes; i++)
        if (!port_done(run, &run->ports[i]))
            return &run->ports[i];
    return NULL;
}

bool rcmi_run_opens(struct rcmi_run *run) {
    bool opens = false;
    for (uint32_t i = 0; run->opens && !opens && i < run->bind.plan->nchannels * run->stripes; i++)
        opens = rcmi_channel_state(run->ports[i].data) == RCM_AGAIN;
    run->opens = opens;
    return opens;
}

rcm_status rcmi_run_waits(const struct rcmi_run *run) {
    for (uint32_t i = 0; run->zero_copy && i < run->bind.plan->nchannels * run->stripes; i++) {
        const struct rcmi_port *port = &run->ports[i];
        if (!port->end->outgoing || port->zero_copy == 0)
            continue;
        const rcm_status status = rcmi_channel_state(port->data);
        if (status != RCM_OK && !rcmi_channel_peer_left(port->data)) /* it may have taken all */
            return status;
    }
    return RCM_AGAIN;
}

/* A lane whose operation is in progress, or which waits for scratch: this rank itself delays the
 * run. */
static const struct rcmi_lane_state *run_computes(const struct rcmi_run *run) {
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++) {
        const struct rcmi_lane_state *lane = &run->lanes[i];
        const bool begun = lane->operation && lane->operation->begun && !lane->waits_for;
        if (lane->slice < run->nslices && (begun || rcmi_run_waits_here(run)))
            return lane;
    }
    return NULL;
}

/* The rank that has not taken what the run sent, of several readers the first one. They are in the
 * order of exec_host_peers. */
static int port_taker(const struct rcmi_run *run, const struct rcmi_port *port) {
    const struct rcmi_shape *shape = run->exec->config.shape;
    const int me = run->exec->config.rank;
    const uint64_t number = port->sent > port->zero_copy ? port->sent : port->zero_copy;
    int reader = 0;
    for (int r = 0; port->end->multicast && r < shape->nranks; r++)
        if (r != me && shape->host_of[r] == shape->host_of[me] &&
            !rcmi_channel_taken_by(port->end->channel, reader++, number))
            return r;
    return port->end->peer;
}

/* What is still to come for a lane that waits for a message. */
static enum rcmi_rest port_rest(const struct rcmi_port *port) {
    if (port->end->outgoing)
        return RCMI_REST_UNKNOWN;
    const enum rcmi_rest rest = rcmi_channel_rest(port->end->channel);
    return port->data == port->end->channel ? rest
                                            : rcmi_rest_add(rest, rcmi_channel_rest(port->data));
}

void rcmi_run_waits_for(const struct rcmi_run *run, struct rcmi_run_wait *ret_wait) {
    const struct rcmi_lane_state *computes = run_computes(run);
    *ret_wait = (struct rcmi_run_wait){.peer = -1, .nsteps = run->bind.plan->nsteps};
    if (computes) {
        ret_wait->peer = run->exec->config.rank;
        ret_wait->step = computes->pc;
        ret_wait->bytes = computes->offset;
        return;
    }
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++) {
        const struct rcmi_lane_state *lane = &run->lanes[i];
        if (lane->slice >= run->nslices)
            continue;
        ret_wait->step = lane->pc;
        ret_wait->bytes = lane->offset;
        if (!lane->waits_for)
            continue;
        ret_wait->peer = lane->waits_for->end->peer;
        ret_wait->to_send = lane->waits_for->end->outgoing;
        ret_wait->rest = port_rest(lane->waits_for);
        ret_wait->queued = lane->waits_for->end->now_served != lane->waits_for->ticket;
        return;
    }
    const struct rcmi_port *port = rcmi_run_drains(run);
    if (port) {
        ret_wait->peer = port_taker(run, port);
        ret_wait->to_send = true;
        ret_wait->step = ret_wait->nsteps;
    }
}
