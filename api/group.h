/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making communicators on an engine, and ending them.
 *
 *      rcm_init (init.c)      rcm_comm_shrink (group.c)         rcm_destroy (destroy.c)
 *              '--- group.c ---'                                        |
 *          new, shape, equip: one of all ranks, or of some     part, retire, free
 *
 * Not here: agreement on members (agreement/), and the engine's own end (leave.c).
 */
#ifndef RCMI_GROUP_H
#define RCMI_GROUP_H

#include "clock.h"
#include "ringcomm.h"

struct rcmi_engine;

/* ---- group.c */
/* What rcm_init found out for the communicator of all ranks. */
struct rcmi_comm_settings {
    uint32_t epoch;
    int64_t timeout_ms, warn_after_ns;
    size_t slot_bytes;
    uint32_t slots;
    const char *algorithm; /* "ring", or "all_reduce=ring,broadcast=chain"; "": by cost */
};
/* Makes the communicator of all ranks, on an engine that has the book, cpus and protocols, and
 * tells the node how many of them share CPUs. It is equipped next. */
rcm_status rcmi_comm_make_world(struct rcmi_engine *engine,
                                const struct rcmi_comm_settings *settings,
                                struct rcm_comm **ret_comm);
/* The last step: makes what runs its operations, and adds it to the engine. */
rcm_status rcmi_comm_equip(struct rcm_comm *comm);

/* ---- destroy.c */
/* Ends what is in flight and frees everything, also half-made. Keeps the thread's error. */
void rcmi_comm_retire(struct rcm_comm *comm);
/* Waits until no work of a communicator that failed touches its buffers any more. */
rcm_status rcmi_comm_settle(struct rcm_comm *comm, rcmi_deadline deadline);

#endif
