/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received messages other than a plain payload in a slot: a message that does not belong there, an
 * answer, a message whose payload the reader gets.
 *
 * Not here: the checks on every message (exec_step.h).
 */
#include "exec_internal.h"

static rcm_status run_mismatch(const struct rcmi_run *run, const struct rcmi_end *end,
                               const struct rcmi_slot *slot) {
    if ((uint32_t)slot->meta != (uint32_t)run->bind.meta)
        return rcmi_fail_origin(RCM_ERR_MISMATCH, end->peer,
                                "rank %d is at its operation %u, this rank at its operation %u: "
                                "the ranks issue operations in different order or number",
                                end->peer, (unsigned)slot->meta, (unsigned)run->bind.meta);
    return rcmi_fail_origin(RCM_ERR_MISMATCH, end->peer,
                            "rank %d made a different call than this rank (operation, count, "
                            "type, operator, root or algorithm differ)",
                            end->peer);
}

rcm_status rcmi_run_differs(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                            const struct rcmi_bound_step *step, const struct rcmi_end *end,
                            const struct rcmi_slot *slot) {
    const size_t sent = lane->offset + lane->part + slot->len;
    run->counts_differ = true;
    return rcmi_fail_origin(RCM_ERR_MISMATCH, end->peer,
                            "rank %d sends %zu%s elements to rank %d, which expects %zu from it",
                            end->peer, sent / run->element_bytes,
                            slot->meta & RCMI_META_LAST ? "" : " or more", run->exec->config.rank,
                            step->bytes / run->element_bytes);
}

rcm_status rcmi_run_other_meta(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step, const struct rcmi_end *end,
                               const struct rcmi_slot *slot, size_t bytes) {
    struct rcmi_slot alike = *slot;
    alike.meta ^= RCMI_META_DEVICE;
    if (!run->by_step || (alike.meta ^ lane->meta) & ~RCMI_META_LAST)
        return run_mismatch(run, end, slot);
    if (slot->len == 0 || bytes == 0)
        return rcmi_run_is_cut_apart(run, lane, &alike, bytes)
                   ? rcmi_run_differs(run, lane, step, end, &alike)
                   : RCM_OK;
    const bool device = slot->meta & RCMI_META_DEVICE;
    run->counts_differ = true; /* the error text is complete */
    return rcmi_fail_origin(RCM_ERR_MISMATCH, end->peer,
                            "rank %d sends from %s memory to rank %d, which has %s memory for it",
                            end->peer, device ? "device" : "host", run->exec->config.rank,
                            device ? "host" : "device");
}

rcm_status rcmi_run_peek_answer(const struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step, const struct rcmi_end *from,
                                size_t bytes, const void **ret_bytes) {
    const bool receives = step->answer != RCMI_NO_CHANNEL && step->out == RCMI_NO_CHANNEL;
    const struct rcmi_end *end = receives ? lane->ports[step->answer].end : NULL;
    const struct rcmi_kept *kept = end && end->nkept > 0 ? &end->kept[end->kept_first] : NULL;
    if (!kept || !kept->bytes || kept->len != bytes)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, from->peer,
                                "rank %d answered a message that this rank did not send",
                                from->peer);
    *ret_bytes = kept->bytes;
    return RCM_OK;
}

rcm_status rcmi_run_get(const struct rcmi_run *run, struct rcmi_lane_state *lane,
                        const struct rcmi_bound_step *step, const struct rcmi_end *end,
                        const struct rcmi_slot *slot, const void **ret_bytes) {
    if (!step->receives_into_dst || !run->gets)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, end->peer,
                                "rank %d sent a message to be got, which this step does not allow",
                                end->peer);
    const struct rcmi_mem dst =
        rcmi_run_mem(run, lane, &step->dst, lane->offset + lane->part, slot->len);
    *ret_bytes = dst.bytes;
    if (lane->got)
        return RCM_OK;
    const rcm_status status =
        rcmi_channel_get(end->channel, &dst, slot->remote,
                         !rcmi_node_oversubscribed(run->exec->config.node), &lane->moved);
    lane->got = status == RCM_OK;
    if (status == RCM_ERR_UNSUPPORTED) /* the peeked message has changed */
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, end->peer,
                                "rank %d changed a message while this rank got it", end->peer);
    return status;
}

bool rcmi_run_counts_differ(const struct rcmi_run *run) {
    return run->counts_differ;
}
