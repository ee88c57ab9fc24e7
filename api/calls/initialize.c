/* SPDX-License-Identifier: BSD-3-Clause */
/* rcm_init: passes the functions of this folder that communicators call. */
#include "collective.h"
#include "engine.h"
#include "error.h"

static const struct rcmi_comm_calls calls = {.barrier_parting = rcmi_barrier_parting,
                                             .all_gather = rcm_all_gather};

rcm_status rcm_init(const struct rcm_init_options *options, rcm_comm **ret_comm) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, rcmi_comm_init(options, &calls, ret_comm));
}
