/* SPDX-License-Identifier: BSD-3-Clause */
/* The locations of a communicator's counters, which comm.c provides to counters.c. */
#ifndef RCMI_COUNTERS_H
#define RCMI_COUNTERS_H

#include "exec.h"
#include "status_page.h"
#include "ringcomm.h"

struct rcmi_counted {
    struct rcmi_node *node;
    uint64_t epoch;
    const struct rcmi_page_comm *page; /* NULL: this rank is no member */
    const struct rcmi_exec *exec;
    const struct rcmi_trace *trace; /* NULL: times are not measured */
};
/* RCM_OK if comm, failed or not, belongs to this process; else the thread's error is set. */
rcm_status rcmi_comm_counted(const struct rcm_comm *comm, struct rcmi_counted *ret_counted);

#endif
