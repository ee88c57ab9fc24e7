/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives, the short way: the caller of a blocking one, where nothing else of the communicator
 * is unfinished, runs the plan himself and without a work, as long as he would spin anyway, or for
 * a few yields. What is not done by then, or goes wrong, becomes a work after all, and goes on the
 * long way (drive.c): with deadlines, reports, sleep, and an eye on everything else. So nothing
 * here waits for long, and no error is reported here: it is found again there.
 */
#include "comm.h"
#include "page.h"

enum { LOOKS_MAX = 2048, YIELDS_MAX = 4 };

/* Where ranks share cores there is nothing to spin for, but most often the first yield brings what
 * is waited for. */
bool rcmi_caller_pauses(rcm_comm *comm, struct rcmi_pause *pause) {
    const struct rcmi_pause *full = &comm->engine->budget;
    if (pause->spins > 0)
        return rcmi_pause(pause);
    if (full->spins > 0)
        return false;
    return full->yields - pause->yields < YIELDS_MAX && rcmi_pause(pause);
}

static rcm_status run_for_a_while(rcm_comm *comm, struct rcmi_run *run) {
    struct rcmi_pause pause = comm->engine->budget;
    for (int looks = 0; looks < LOOKS_MAX; looks++) {
        bool moved = false;
        if (rcmi_run_progress(run, &moved) == RCM_OK)
            return RCM_OK;
        /* Acquire pairs with the release in comm.c: the record is complete. */
        if (atomic_load_explicit(&comm->failed, memory_order_acquire) != RCM_OK)
            return RCM_AGAIN;
        if (!moved && !rcmi_node_progress(comm->engine->node) && !rcmi_caller_pauses(comm, &pause))
            return RCM_AGAIN;
    }
    return RCM_AGAIN;
}

rcm_status rcmi_collective_now(rcm_comm *comm, uint64_t sequence, const struct rcmi_bind *bind,
                               struct rcmi_run **ret_run) {
    struct rcmi_run *run;
    if (!rcmi_comm_take(comm))
        return RCM_AGAIN;
    if (rcmi_run_start(comm->exec, bind, &run) != RCM_OK) {
        rcmi_comm_give(comm);
        return RCM_AGAIN;
    }
    rcmi_page_called(comm->page, sequence, bind->plan);
    rcmi_page_oldest(comm->page, sequence, bind);
    if (run_for_a_while(comm, run) != RCM_OK) {
        *ret_run = run;
        return RCM_AGAIN;
    }
    comm->yield_due = rcmi_run_yields(run);
    rcmi_run_end(run);
    rcmi_page_oldest(comm->page, 0, NULL);
    rcmi_comm_yield_if_due(comm);
    rcmi_comm_give(comm);
    return RCM_OK;
}
