/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the counters of a communicator are: what counters.c reads, and comm.c tells. */
#ifndef RCMI_COUNTERS_H
#define RCMI_COUNTERS_H

#include "exec.h"
#include "page.h"
#include "ringcomm.h"

struct rcmi_counted {
    struct rcmi_node *node;
    uint64_t epoch;
    const struct rcmi_page_comm *page; /* NULL: this rank is no member */
    const struct rcmi_exec *exec;
    const struct rcmi_trace *trace; /* NULL: times are not measured */
};
/* RCM_OK if comm, failed or not, is one of this process; else the thread's error is set. */
rcm_status rcmi_comm_counted(const struct rcm_comm *comm, struct rcmi_counted *ret_counted);

#endif
