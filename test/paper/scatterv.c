/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paper binding (compiled, not run): scatterv with counts that only the root knows. The plan is the
 * same on all ranks and has no sizes in it. The root's chunks have lengths of their own; a receiver
 * knows its capacity only: it takes the length of each message from the slot, and the number of
 * slices from RCMI_META_LAST, which the executor sets on the last one. So no count travels ahead
 * and no round trip is added.
 */
#include "exec.h"
#include "plan.h"

/* The root sends chunk r to rank r; one step per rank, nothing about bytes. */
rcm_status scatterv_emit(const struct rcmi_shape *shape, int rank, int root,
                         struct rcmi_plan **ret_plan);
/* One slice at a receiver: how the executor will take a chunk of unknown length. */
rcm_status scatterv_receive(struct rcmi_channel *from, uint64_t meta, char *place, size_t capacity,
                            size_t *done, bool *ret_last);

rcm_status scatterv_emit(const struct rcmi_shape *shape, int rank, int root,
                         struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    rcm_status status = rcmi_plan_begin("scatterv_linear", RCM_BROADCAST, shape, rank, root,
                                        (uint32_t)shape->nranks, 1, &b);
    if (status != RCM_OK)
        return status;
    rcmi_plan_stripes(b, 1); /* a receiver does not know how many would be used */
    if (rank != root) {
        rcmi_recv(b, 0, (uint32_t)rank, rcmi_from(b, 0, root, 0), rcmi_out((uint32_t)rank));
        return rcmi_plan_finish(b, ret_plan);
    }
    for (int r = 0; r < shape->nranks;
         r++) { /* a lane each: lengths differ, nobody waits for another */
        const uint32_t chunk = (uint32_t)r;
        if (r == root)
            rcmi_copy_chunk(b, r, chunk, rcmi_in(chunk), rcmi_out(chunk));
        else
            rcmi_send(b, r, chunk, rcmi_in(chunk), rcmi_to(b, r, r, 0));
    }
    return rcmi_plan_finish(b, ret_plan);
}

rcm_status scatterv_receive(struct rcmi_channel *from, uint64_t meta, char *place, size_t capacity,
                            size_t *done, bool *ret_last) {
    struct rcmi_slot slot;
    rcm_status status = rcmi_channel_peek(from, &slot);
    if (status != RCM_OK)
        return status;
    if ((slot.meta & ~RCMI_META_LAST) != meta)
        return RCM_ERR_MISMATCH;
    if (slot.len > capacity - *done)
        return RCM_ERR_TRUNCATED;
    __builtin_memcpy(place + *done, slot.bytes, slot.len);
    *done += slot.len;
    *ret_last = (slot.meta & RCMI_META_LAST) != 0;
    rcmi_channel_release(from);
    return RCM_OK;
}
