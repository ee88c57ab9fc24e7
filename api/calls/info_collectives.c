/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of collectives, for programs. A separate file, because ringcomm-bench over MPI and Gloo
 * (tools/compare) links it too. */
#include "collectives.h"
#include "error.h"
#include "struct_versions.h"

static int info_blocks(enum rcmi_blocks_kind kind, enum rcmi_blocks_total total) {
    if (kind == RCMI_BLOCKS_NONE)
        return 0;
    return kind == RCMI_BLOCKS_OWN || total == RCMI_TOTAL_ONE ? 1 : RCM_BLOCK_PER_RANK;
}

static struct rcm_collective_info info_of(const struct rcmi_collective *c) {
    return (struct rcm_collective_info){.size = sizeof(struct rcm_collective_info),
                                        .collective = c->id,
                                        .name = c->name,
                                        .send_blocks = info_blocks(c->in, c->total),
                                        .recv_blocks = info_blocks(c->out, c->total),
                                        .send_at_root = c->in_at_root,
                                        .recv_at_root = c->out_at_root,
                                        .rooted = rcmi_collective_is_rooted(c),
                                        .reduces = c->reduces,
                                        .uneven = c->counts != RCMI_COUNTS_SAME,
                                        .apart = c->apart,
                                        .busbw_one = c->bus_one,
                                        .busbw_per_rank = c->bus_per_rank,
                                        .contributors = c->contributors};
}

rcm_status rcm_collective_at(size_t i, struct rcm_collective_info *ret_info) {
    static const struct rcmi_sized sized = {"ret_info", "RCM_COLLECTIVE_INFO_INIT",
                                            RCMI_COLLECTIVE_SIZE_0,
                                            sizeof(struct rcm_collective_info)};
    if (!ret_info)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_info is NULL");
    const rcm_status status = rcmi_struct_out_check(&sized, ret_info);
    if (status != RCM_OK)
        return status;
    const struct rcmi_collective *row = rcmi_collective_row(i);
    if (!row)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "there is no collective %zu", i);
    const struct rcm_collective_info info = info_of(row);
    rcmi_struct_out(&sized, &info, ret_info);
    return RCM_OK;
}
