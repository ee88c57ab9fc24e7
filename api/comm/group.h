/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation of communicators on an engine, and their end.
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
/* Results of rcm_init for the communicator of all ranks. */
struct rcmi_comm_settings {
    uint64_t epoch;
    int64_t timeout_ms, warn_after_ns;
    size_t slot_bytes;
    uint32_t slots;
    const char *algorithm; /* RINGCOMM_ALGORITHM (choice.h); "": by predicted time */
};
/* Makes the communicator of all ranks, on an engine that has book, cpus and tuning, and sets in the
 * node how many ranks share CPUs. rcmi_comm_equip comes next. */
rcm_status rcmi_comm_make_world(struct rcmi_engine *engine,
                                const struct rcmi_comm_settings *settings,
                                struct rcm_comm **ret_comm);
/* A communicator of some ranks of another one. */
struct rcmi_derivation {
    uint64_t epoch;     /* unique among the communicators of these ranks */
    const int *members; /* ranks of the parent, including this one, in the order of the new ranks */
    int size;
    const char *name; /* NULL: the parent's */
};
/* Makes it, on parent's engine. All members do so alike, without messages. If a member is already
 * lost, the new communicator has failed. */
rcm_status rcmi_comm_derive(const struct rcm_comm *parent, const struct rcmi_derivation *derivation,
                            struct rcm_comm **ret_comm);
/* Makes the handle of a rank that is no member: RCMI_ABSENT (failure.h). members: as above if
 * known, else NULL. */
rcm_status rcmi_comm_absent(const struct rcm_comm *parent, const int *members, int size,
                            struct rcm_comm **ret_comm);
/* The last step: makes the parts that run its operations, and adds it to the engine. */
rcm_status rcmi_comm_equip(struct rcm_comm *comm);

/* ---- comm.c, for code that does not see the struct */
const struct rcmi_members *rcmi_comm_members(const struct rcm_comm *comm);
/* The number of its last agreement on survivors, for rcmi_agree. */
uint32_t *rcmi_comm_agreements(struct rcm_comm *comm);
/* Its position among the ranks of its host identity, whatever memory they share. */
int rcmi_comm_machine_rank(const struct rcm_comm *comm);
/* The number of the next communicator that all ranks of comm, or several parts of them, make: the
 * same on all. */
uint64_t rcmi_comm_next_child(struct rcm_comm *comm);
/* The deadline of a call on comm; warn_after_ns: as in struct rcmi_comm_settings. */
rcmi_deadline rcmi_comm_deadline(const struct rcm_comm *comm, const struct rcm_call *call);
int64_t rcmi_comm_warn_after_ns(const struct rcm_comm *comm);
/* name: see struct rcmi_derivation. */
void rcmi_comm_inherit_name(struct rcm_comm *comm, const struct rcm_comm *parent, const char *name);

/* ---- destroy.c */
/* Ends operations in flight and frees everything, also a partly made one. Keeps the thread's
 * error. */
void rcmi_comm_retire(struct rcm_comm *comm);
/* Waits until no work of a failed communicator touches its buffers any more, or until *canceled;
 * call rcmi_node_ring after setting it. NULL: never canceled. */
rcm_status rcmi_comm_settle(struct rcm_comm *comm, const _Atomic bool *canceled,
                            rcmi_deadline deadline);

#endif
