/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out-of-band payloads: for device memory in collectives where only pairs of ranks have the counts.
 * A rank without elements has no memory kind, so the channel of a message must not depend on the
 * kind. All messages therefore use the host-memory channel. A message with a payload contains only
 * its length there; the payload follows on a channel of device memory (transport.h).
 *
 *      writer                               reader
 *      announcement(meta, bytes)    -->     other counts, another call or kind: an error
 *      payload                      ==>     read in place; then both slots are released
 *
 * Only between ranks of one host, whose links may have a device-memory plane. Each end opens the
 * second channel if its own count for the pair is not 0; the counts are equal at both ends, or it
 * is an error.
 *
 * Not here: when a step sends or receives (exec.c). Collectives whose ranks all have the kind need
 * no announcement.
 */
#include <string.h>
#include "exec_internal.h"

/* A stripe number above all real stripes. */
#define OOB_STRIPE 16
_Static_assert(RCMI_STRIPES <= OOB_STRIPE, "the channel numbers of stripes do not overlap");

/* ---- Opening --------------------------------------------------------------------------------- */

static rcm_status oob_open_port(struct rcmi_run *run, uint32_t channel) {
    const struct rcmi_shape *shape = run->exec->config.shape;
    const struct rcmi_plan_channel *in_plan = &run->bind.plan->channels[channel];
    if (shape->host_of[in_plan->peer] != shape->host_of[run->exec->config.rank])
        return RCM_OK;
    struct rcmi_port *port = &run->ports[channel];
    const rcm_status status =
        rcmi_exec_end(run->exec, in_plan, OOB_STRIPE, RCMI_MEM_DEVICE, &port->oob);
    if (status == RCM_OK)
        port->data = port->oob->channel;
    return status;
}

static rcm_status oob_open_step(struct rcmi_run *run, const struct rcmi_bound_step *step) {
    rcm_status status = RCM_OK;
    if (step->out != RCMI_NO_CHANNEL)
        status = oob_open_port(run, step->out);
    for (uint32_t i = 0; i < step->nsrcs && status == RCM_OK; i++) {
        const struct rcmi_bound_operand *src = &run->operands[step->first_src + i];
        if (src->where == RCMI_CHANNEL)
            status = oob_open_port(run, src->index);
    }
    return status;
}

rcm_status rcmi_oob_open(struct rcmi_run *run) {
    const struct rcmi_plan *plan = run->bind.plan;
    rcm_status status = RCM_OK;
    for (uint32_t i = 0; i < plan->nchannels * run->stripes; i++) {
        run->ports[i].oob = NULL;
        run->ports[i].data = run->ports[i].end->channel;
    }
    if (!run->by_step || run->bind.in.kind != RCMI_MEM_DEVICE)
        return RCM_OK;
    for (uint32_t i = 0; i < plan->nsteps && status == RCM_OK; i++)
        if (run->steps[i].bytes > 0)
            status = oob_open_step(run, &run->steps[i]);
    return status;
}

/* ---- Sending --------------------------------------------------------------------------------- */

rcm_status rcmi_oob_announce(const struct rcmi_lane_state *lane, const struct rcmi_port *port,
                             size_t bytes) {
    const uint64_t announced = bytes;
    struct rcmi_reserved reserved;
    if (lane->operation->announced)
        return RCM_OK;
    const rcm_status status = rcmi_channel_reserve(port->end->channel, sizeof announced, &reserved);
    if (status != RCM_OK)
        return status;
    memcpy(reserved.bytes, &announced, sizeof announced);
    rcmi_channel_commit(port->end->channel, sizeof announced, lane->meta | RCMI_META_ELSEWHERE);
    lane->operation->announced = true;
    return RCM_OK;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

rcm_status rcmi_oob_read(const struct rcmi_run *run, const struct rcmi_end *end,
                         struct rcmi_slot *slot) {
    uint64_t announced = 0;
    if (run->by_step && slot->bytes && slot->len == sizeof announced)
        memcpy(&announced, slot->bytes, sizeof announced);
    if (announced == 0)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, end->peer,
                                "rank %d sent an invalid announcement of %zu bytes for %llu bytes",
                                end->peer, slot->len, (unsigned long long)announced);
    slot->meta &= ~RCMI_META_ELSEWHERE;
    slot->len = (size_t)announced;
    slot->bytes = NULL;
    return RCM_OK;
}

rcm_status rcmi_oob_peek(struct rcmi_lane_state *lane, const struct rcmi_port *port,
                         const struct rcmi_slot *announced, const void **ret_bytes) {
    struct rcmi_slot slot;
    if (!port->oob)
        return rcmi_fail_origin(
            RCM_ERR_PROTOCOL, port->end->peer,
            "rank %d announced %zu bytes of device memory, but this rank expects none",
            port->end->peer, announced->len);
    const rcm_status status = rcmi_channel_peek(port->oob->channel, &slot);
    if (status != RCM_OK)
        return status;
    if (!slot.bytes || slot.len != announced->len || slot.meta != announced->meta)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, port->end->peer,
                                "rank %d sent %zu bytes after announcing %zu", port->end->peer,
                                slot.len, announced->len);
    lane->oob = true;
    *ret_bytes = slot.bytes;
    return RCM_OK;
}
