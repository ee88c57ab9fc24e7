/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making communicators on an engine, and ending them.
 *
 *      rcm_init      rcm_comm_subset, ...      rcm_comm_shrink       rcm_destroy (destroy.c)
 *      (init.c)            (subset.c)             (shrink.c)                 |
 *          '------------- group.c -------------------'              part, retire, free
 *          new, shape, equip: one of all ranks, or of some
 *
 * Not here: agreement on members and epochs (agreement/), and the engine's own end (leave.c).
 */
#ifndef RCMI_GROUP_H
#define RCMI_GROUP_H

#include <stdbool.h>
#include "clock.h"
#include "ringcomm.h"

struct rcmi_engine;
struct rcmi_members;

/* ---- group.c */
/* What rcm_init found out for the communicator of all ranks. */
struct rcmi_comm_settings {
    uint64_t epoch;
    int64_t timeout_ms, warn_after_ns;
    size_t slot_bytes;
    uint32_t slots;
    const char *algorithm; /* RINGCOMM_ALGORITHM (choice.h); "": by price */
};
/* Makes the communicator of all ranks, on an engine that has the book, cpus and tuning, and
 * tells the node how many of them share CPUs. It is equipped next. */
rcm_status rcmi_comm_make_world(struct rcmi_engine *engine,
                                const struct rcmi_comm_settings *settings,
                                struct rcm_comm **ret_comm);
/* What a communicator of some ranks of another one is. */
struct rcmi_derivation {
    uint64_t epoch;     /* no other communicator's of these ranks */
    const int *members; /* ranks of the parent, this one too, in the order of the new ranks */
    int size;
    const char *name; /* NULL: the parent's */
};
/* Makes it, on parent's engine. All members do so alike. No messages. One of which a member is lost
 * already comes out failed. */
rcm_status rcmi_comm_derive(const struct rcm_comm *parent, const struct rcmi_derivation *derivation,
                            struct rcm_comm **ret_comm);
/* The handle of a rank that is no member: RCMI_ABSENT (failure.h). members: as above, if they are
 * known, else NULL. */
rcm_status rcmi_comm_absent(const struct rcm_comm *parent, const int *members, int size,
                            struct rcm_comm **ret_comm);
/* The last step: makes what runs its operations, and adds it to the engine. */
rcm_status rcmi_comm_equip(struct rcm_comm *comm);

/* ---- comm.c, for those that see no struct */
const struct rcmi_members *rcmi_comm_members(const struct rcm_comm *comm);
/* The number of its last agreement on survivors, for rcmi_agree. */
uint32_t *rcmi_comm_agreements(struct rcm_comm *comm);
/* Its place among the ranks of its host identity, whatever memory they share. */
int rcmi_comm_machine_rank(const struct rcm_comm *comm);
/* A number for a communicator that all ranks of comm, or several parts of them, make next: the same
 * on all. */
uint64_t rcmi_comm_next_child(struct rcm_comm *comm);
/* After which comm is not waited for in a call; warn: as of struct rcmi_comm_settings. */
rcmi_deadline rcmi_comm_deadline(const struct rcm_comm *comm, const struct rcm_call *call);
int64_t rcmi_comm_warn_after_ns(const struct rcm_comm *comm);
/* name: see struct rcmi_derivation. */
void rcmi_comm_inherit_name(struct rcm_comm *comm, const struct rcm_comm *parent, const char *name);

/* ---- destroy.c */
/* Ends what is in flight and frees everything, also half-made. Keeps the thread's error. */
void rcmi_comm_retire(struct rcm_comm *comm);
/* Waits until no work of a communicator that failed touches its buffers any more, or *canceled;
 * rcmi_node_ring after it. NULL: that is never. */
rcm_status rcmi_comm_settle(struct rcm_comm *comm, const _Atomic bool *canceled,
                            rcmi_deadline deadline);

#endif
